"""Everything that can decide which synopsis serves a query is in `plan/choices.py`, and `explain` prints which did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import muntin
from muntin import Engine
from muntin.errors import MuntinError
from muntin.plan import CHOICES
from muntin.plan.choices import MANY_BANDS, MANY_LANES, Precedents
from muntin.plan.cost import UNIT_COSTS
from muntin.structure.baseline.materialize_none import MaterializeNone
from muntin.structure.baseline.paired_windows import PairedWindows
from muntin.structure.baseline.panes import Panes
from muntin.structure.baseline.psoup import PSoup

SOURCE = Path(muntin.__file__).parent
STREAM = "CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts"
LONG_AND_SHORT = [
    f"SELECT k, SUM(n) AS v FROM s [RANGE {window}] GROUP BY k"
    for window in ("60 SECONDS SLIDE 1 SECOND", "30 DAYS SLIDE 1 HOUR")
]
# for each choice, by its synopsis and the beginning of its reason: queries, of which the first is served by it
SPOKEN: dict[tuple[str, str], list[str]] = {
    # the calls count events that pass WHERE, while the window after FROM is one of time: two groups
    ("", "the query asks for nothing else"): [
        "SELECT APPROX_QUANTILE(n, 0.5, 0.1) OVER [ROWS 9] AS v FROM s [RANGE 9 SECONDS] WHERE n > 0"
    ],
    ("", "the query asks for it"): ["SELECT /*+ SYNOPSIS(rescan) */ SUM(n) AS v FROM s [RANGE 9 SECONDS]"],
    ("sessions", "cells between silences"): ["SELECT SUM(n) AS v FROM s [SESSION 9 SECONDS]"],
    ("sliding_quantiles", "an approximate"): ["SELECT APPROX_QUANTILE(n, 0.5, 0.1) AS v FROM s [RANGE 9 SECONDS]"],
    ("sampled_quantiles", "it may fail"): ["SELECT APPROX_QUANTILE(n, 0.5, 0.4, 0.2) AS v FROM s [RANGE 9 SECONDS]"],
    ("sliding_counts", "approximate counts"): ["SELECT APPROX_FREQUENT(k, 0.2, 0.1) AS v FROM s [RANGE 9 SECONDS]"],
    ("sampled_counts", "they may fail"): ["SELECT APPROX_FREQUENT(k, 0.2, 0.1, 0.1) AS v FROM s [RANGE 9 SECONDS]"],
    ("weighted_counts", "approximate weights"): [
        "SELECT APPROX_FREQUENT(k, 0.2, 0.1, weight => n) AS v FROM s [RANGE 9 SECONDS]"
    ],
    ("sliding_registers", "an approximate number"): ["SELECT APPROX_COUNT_DISTINCT(k) AS v FROM s [RANGE 9 SECONDS]"],
    ("key_runs_rows", "a ROWS window per key"): ["SELECT k, SUM(n) AS v FROM s [ROWS 9] GROUP BY k"],
    ("stairs", "its windows differ so much"): LONG_AND_SHORT,
    ("slices", "many filters compare"): [
        f"SELECT SUM(n) AS v FROM s [RANGE 9 SECONDS SLIDE 1 SECOND] WHERE k = '{each}'"
        for each in range(MANY_LANES)
    ],
    ("key_runs", "many filters compare"): [
        f"SELECT SUM(n) AS v FROM s [RANGE 9 SECONDS] WHERE k = '{each}'" for each in range(MANY_LANES)
    ],
    ("slices", "its edges fall on a grid"): LONG_AND_SHORT[:1],
    ("key_runs", "windows per key without"): ["SELECT k, SUM(n) AS v FROM s [RANGE 9 SECONDS] GROUP BY k"],
    ("rescan_rows", "the order of text"): ["SELECT MAX(k) AS v FROM s [ROWS 9]"],
    ("rescan", "the order of text"): ["SELECT MAX(k) AS v FROM s [RANGE 9 SECONDS]"],
    ("quantile_tree", "quantiles need"): ["SELECT MEDIAN(x) AS v FROM s [RANGE 9 SECONDS]"],
    ("distinct", "it needs to know"): ["SELECT COUNT(DISTINCT n) AS v FROM s [RANGE 9 SECONDS]"],
    ("value_order", "equal values have"): ["SELECT MODE(k) AS v FROM s [RANGE 9 SECONDS]"],
    ("range_tree", "many filters are bands"): [
        f"SELECT SUM(n) AS v FROM s [RANGE 9 SECONDS] WHERE x > {bound}" for bound in range(MANY_BANDS)
    ],
    ("r_int", "two prefixes"): ["SELECT SUM(n) AS v FROM s [RANGE 9 SECONDS]"],
    ("b_int", "it can be merged"): ["SELECT MAX(n) AS v FROM s [RANGE 9 SECONDS]"],
}  # fmt: skip


def engine_with(*queries: str) -> Engine:
    engine = Engine()
    engine.execute(STREAM)
    engine.register_many({f"q{number}": text for number, text in enumerate(queries)})
    return engine


def push(engine: Engine, *seconds: int) -> None:
    count = len(seconds)
    engine.push(
        "s",
        {"ts": [at * 1_000_000 for at in seconds], "k": ["a"] * count, "n": [1] * count, "x": [0.5] * count},
    )


def test_nobody_else_chooses() -> None:
    """What was chosen is made in `plan/choices.py` alone."""
    makers = [path.name for path in SOURCE.rglob("*.py") if "Chosen(" in path.read_text()]
    assert makers == ["choices.py"]


def test_every_choice_has_a_query() -> None:
    assert [
        (each.synopsis, each.because[: len(begin)]) for each, (_, begin) in zip(CHOICES, SPOKEN, strict=True)
    ] == [*SPOKEN]


@pytest.mark.parametrize("number", range(len(CHOICES)), ids=lambda number: CHOICES[number].because)
def test_explain_prints_which_choice_spoke(number: int) -> None:
    choice = CHOICES[number]
    text = engine_with(*list(SPOKEN.values())[number]).explain("q0")
    assert f"  because  {choice.because}\n" in text
    if choice.synopsis:
        assert f": {choice.synopsis}" in text


@pytest.mark.parametrize("is_hinted", [False, True])
def test_no_choice_needs_a_baseline(is_hinted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither `CHOICES` nor what the adaptation may change to has a structure of `structure/baseline/`; hints do."""
    made: set[str] = set()
    for each in (PSoup, MaterializeNone, Panes, PairedWindows):
        monkeypatch.setattr(each, "__init__", _noting(each.__init__, made, each.name))
    window = "[RANGE 9 SECONDS SLIDE 3 SECONDS]"
    names = ("psoup", "panes", "paired_windows") if is_hinted else tuple(UNIT_COSTS)
    hinted = [f"SELECT /*+ SYNOPSIS({name}) */ MAX(n) AS v FROM s {window}" for name in names]
    for queries in [hinted] if is_hinted else [hinted, *SPOKEN.values()]:
        engine = engine_with(*queries)
        push(engine, *range(20))
        for name in engine.queries:
            engine.lookup(name)
    assert made == (set(names) if is_hinted else set())


def _noting(init: Callable[..., None], made: set[str], name: str) -> Callable[..., None]:
    def noting(self: Any, *given: Any, **named: Any) -> None:
        made.add(name)
        init(self, *given, **named)

    return noting


@pytest.mark.parametrize(
    "hint", ["", "/*+ SYNOPSIS(collective_index) */", "/*+ SYNOPSIS(sliding_quantiles) */"]
)
def test_no_hint_makes_a_sketch_serve_what_it_cannot(hint: str) -> None:
    """A sketch per key over ROWS would never be given up."""
    query = (
        f"SELECT {hint} k, APPROX_QUANTILE(n, 0.5, 0.1) AS v FROM s [ROWS 9] GROUP BY k HAVING COUNT(*) > 3"
    )
    with pytest.raises(MuntinError, match="is not supported: the last events of a silent key never leave"):
        engine_with(query)


def test_a_precedent_has_the_reason_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second query is not placed by `CHOICES`, and `explain` says the same of it."""
    found = []
    find = Precedents.find
    monkeypatch.setattr(Precedents, "find", lambda *given: found.append(find(*given)) or found[-1])
    engine = engine_with("SELECT SUM(n) AS v FROM s [RANGE 9 SECONDS]")
    push(engine, 1)
    assert found
    assert not any(found)
    found.clear()
    engine.register("SELECT SUM(n) AS v FROM s [RANGE 8 SECONDS]", "like it")
    assert found
    assert all(found)
    assert "because  two prefixes answer any window" in engine.explain("like it")


def test_explain_prints_that_the_load_spoke() -> None:
    """And what was planned, with its reason."""
    engine = engine_with("SELECT SUM(n) AS v FROM s [RANGE 9 SECONDS]")
    for second in range(400):
        push(engine, second)
        engine.stats(queries=False)  # so that events do not wait for each other
    assert ": materialize_none\n  because  nobody looked up in the last" in engine.explain("q0")
    assert "updates (by plan r_int: two prefixes answer any window" in engine.explain("q0")


def test_explain_prints_that_kept_state_spoke() -> None:
    """Eight bands would be in one tree, had they come before the first event."""
    first, *others = SPOKEN["range_tree", "many filters are bands"]
    engine = engine_with(first)
    push(engine, 1)
    for number, text in enumerate(others):
        engine.register(text, f"later {number}")
    text = engine.explain("q0")
    assert (
        "because  state was kept there already, and kept state stays where it is; a new plan would have range_tree"
        in text
    )
