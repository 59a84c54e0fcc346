"""A window whose end is its start, S[0, 0] or S[n, n], is legal and empty (erratum E17): COUNT is 0, all else NULL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from effort import THOROUGH, every_second
from muntin import Engine
from muntin.aggregates.component import COMPONENTS
from muntin.component.pairs import pair_dtype
from muntin.plan.synopses import INTERVALS
from muntin.structure.baseline.psoup import PSoup
from muntin.structure.distinct import DistinctCounter
from muntin.structure.l_int import LInt
from muntin.structure.materialize_all import MaterializeAll
from muntin.structure.quantile_tree import QuantileTree
from muntin.structure.r_int import RInt
from tests.structure.test_contract import GRID, ROWS, SUBJECTS, TIME, UNKEYED, events
from tests.structure.told import FLOAT, INT

WINDOWS = {
    TIME: ("[RANGE 3 SECONDS TO 3 SECONDS]", "[RANGE 1 MICROSECOND TO 1 MICROSECOND]"),
    ROWS: ("[ROWS 7 TO 7]", "[ROWS 1 TO 1]", "[ROWS 6 TO 6 SLIDE 4]"),
    GRID: ("[RANGE 4 SECONDS TO 4 SECONDS SLIDE 2 SECONDS]", "[RANGE 5 SECONDS TO 5 SECONDS SLIDE 3 SECONDS]"),
}  # fmt: skip


def empty_windows(name: str) -> list[str]:
    """Of the kinds of window that a synopsis is asked for in the contract suite."""
    kinds = [kind for kind in WINDOWS if set(kind) <= set(SUBJECTS[name].windows)]
    return [window for kind in kinds for window in WINDOWS[kind]]


# Sketches are left out: their windows end now, so that none is empty by definition.
UNKEYED_SYNOPSES = [
    name for name, subject in SUBJECTS.items() if UNKEYED[0] in subject.keys and empty_windows(name)
]


@pytest.mark.parametrize("name", UNKEYED_SYNOPSES)
@pytest.mark.parametrize("is_late", [False, True], ids=["from the start", "registered late"])
def test_every_synopsis_answers_them(name: str, is_late: bool) -> None:
    """Now and in the past, also when registered late: there is nothing in them that could be missing."""
    engine = Engine()
    engine.execute(
        "CREATE STREAM s (ts BIGINT, k BIGINT, w VARCHAR, x DOUBLE, n BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS"
    )
    queries = {
        window: f"SELECT /*+ SYNOPSIS({name}) */ {SUBJECTS[name].calls} FROM s {window}"
        for window in empty_windows(name)
    }
    assert queries
    if not is_late:
        engine.register_many(queries)
        assert_empty(engine)  # before the first event
    for turn in range(3):
        batch = events(turn, 120)
        engine.push("s", batch | {"ts": batch["ts"] + turn * 60_000_000})
        engine.advance()
        if is_late and turn == 1:
            engine.register_many(queries)
    assert_empty(engine)
    assert_empty(engine, at=200_000_000)
    engine.check()


def assert_empty(engine: Engine, at: int | None = None) -> None:
    for name, query in engine.queries.items():
        (row,) = engine.lookup(name, at=at).to_pylist()
        for call, output in zip(query.calls, query.outputs, strict=True):
            assert row[output.name] == (0 if call.function.startswith("count") else None), (name, output.name)
        assert row["complete"] is True
        assert engine.value(name, at=at) == row[query.outputs[0].name]


def tried(kind: Any, dtype: np.dtype) -> Sequence[str]:
    """Components that ordinary runs try: L-INT and PSoup compile for seconds, so of them those that others try, too."""
    components = sorted(kind.components)
    if THOROUGH or kind not in (LInt, PSoup):
        return every_second(components)
    return ("count", "max") if dtype == INT else ("last", "sum")


@pytest.mark.parametrize("name", INTERVALS)
@pytest.mark.parametrize("dtype", [INT, FLOAT], ids=str)
def test_every_structure_has_the_identity_for_them(name: str, dtype: np.dtype) -> None:
    """S[0, 0] is the run [m, m), S[n, n] the run [m - n, m - n): at any m, also before the first element."""
    kind: Any = INTERVALS[name]
    for component in tried(kind, dtype):
        if (kind is RInt and not RInt.serves(component, dtype)) or (
            kind is MaterializeAll and component == "sum" and dtype == FLOAT
        ):
            continue
        made_for = {LInt: ([(0, 0), (5, 5), (5, 0)],), MaterializeAll: ({0, 5},)}.get(kind, ())
        structure = kind(COMPONENTS[component], dtype, 3, *made_for)
        identity = COMPONENTS[component].start(dtype, 1)
        for m in range(3, 20):
            for n in (0, 2, m - 3):
                run = np.array([m - n])
                if structure.can_answer(run, run):
                    for found, wanted in zip(structure.query(run, run), identity, strict=True):
                        np.testing.assert_array_equal(found, wanted)
                    assert len(structure.point(m - n, m - n)) == len(identity)
            value = (
                np.array([(m, m)], pair_dtype(dtype))
                if component == "arg_max"
                else np.array([m]).astype(dtype)
            )
            lifted = COMPONENTS[component].lift(value, np.ones(1, bool), np.array([m]))
            structure.extend(lifted)


def test_value_structures_hold_nothing_in_them() -> None:
    """Neither a quantile nor a different value."""
    tree, counter = QuantileTree(INT), DistinctCounter(INT)
    for m in range(12):
        run = np.array([m, 0, m // 2])
        assert tree.query(run, run, [0.5])[1].tolist() == [0, 0, 0]
        assert counter.query(run, run).tolist() == [0, 0, 0]
        for structure in (tree, counter):
            structure.extend(np.array([m % 3]), np.ones(1, np.bool_))
