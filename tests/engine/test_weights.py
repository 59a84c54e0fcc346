"""APPROX_FREQUENT with a weight: what counts, what does not, and that neither takes anything else along."""

from __future__ import annotations

from typing import Any

import pytest

import muntin
from muntin import Engine
from muntin.shard.read import lower

STREAM = "CREATE STREAM s (ts BIGINT, k BIGINT, host VARCHAR, bytes BIGINT, x DOUBLE) TIMESTAMP BY ts"
TOP = "APPROX_FREQUENT(host, 0.2, 0.1, weight => {}) AS top"


def engine_of(**queries: str) -> Engine:
    engine = Engine()
    engine.execute(STREAM)
    for name, sql in queries.items():
        engine.register(sql, name)
    return engine


def push(engine: Engine, rows: list[tuple[Any, ...]], start: int = 0) -> None:
    at = [start + number for number in range(len(rows))]
    columns = dict(zip(("k", "host", "bytes"), zip(*rows, strict=True), strict=True))
    engine.push(
        "s", {"ts": at, **{name: list(each) for name, each in columns.items()}, "x": [0.5] * len(rows)}
    )


def weights(row: dict[str, Any]) -> dict[str, int]:
    assert all(each["lower"] == each["estimate"] == each["upper"] for each in row["top"])  # few are exact
    return {each["item"]: each["estimate"] for each in row["top"]}


def test_what_does_not_count() -> None:
    """A weight that is NULL, negative or too large, an item that is NULL, and what FILTER leaves out."""
    asked = TOP.format("bytes")
    engine = engine_of(
        all=f"SELECT {asked}, COUNT(*) AS n FROM s [RANGE 1 SECOND]",
        some=f"SELECT {asked.replace(' AS', ' FILTER (WHERE k = 1) AS')} FROM s [RANGE 1 SECOND]",
        each=f"SELECT k, {asked} FROM s [RANGE 1 SECOND] GROUP BY k",
        rows=f"SELECT {asked} FROM s [ROWS 4]",
    )
    push(
        engine,
        [
            (1, "a", 2**40 - 1),
            (1, "b", 2**40),
            (2, "a", None),
            (2, "b", -(2**62)),
            (2, None, 7),
            (1, "c", 2**39),
        ],
    )
    (everything,) = engine.lookup("all").to_pylist()
    assert (weights(everything), everything["n"]) == ({"a": 2**40 - 1, "c": 2**39}, 6)
    assert weights(engine.lookup("some").to_pylist()[0]) == {"a": 2**40 - 1, "c": 2**39}
    assert [weights(row) for row in engine.lookup("each").to_pylist()] == [{"a": 2**40 - 1, "c": 2**39}, {}]
    assert weights(engine.lookup("rows").to_pylist()[0]) == {"c": 2**39}


def test_events_of_no_weight() -> None:
    engine = engine_of(q=f"SELECT {TOP.format('bytes * 0')} FROM s [RANGE 1 SECOND]")
    push(engine, [(1, "a", 5), (1, "b", 6)])
    assert engine.lookup("q").to_pylist()[0]["top"] == []


def test_the_weight_may_be_an_expression() -> None:
    """Queries whose texts differ in one number alone weigh by different expressions."""
    engine = engine_of(
        one=f"SELECT {TOP.format('bytes * 1 + k')} FROM s [RANGE 1 SECOND]",
        two=f"SELECT {TOP.format('bytes * 2 + k')} FROM s [RANGE 1 SECOND]",
    )
    push(engine, [(10, "a", 100), (20, "b", 100)])
    assert weights(engine.lookup("one").to_pylist()[0]) == {"a": 110, "b": 120}
    assert weights(engine.lookup("two").to_pylist()[0]) == {"a": 210, "b": 220}


def test_a_window_that_weighs_too_much_is_left_out_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower, "MOST_WEIGHT", 1000)
    engine = engine_of(q=f"SELECT k, {TOP.format('bytes')} FROM s [RANGE 1 SECOND] GROUP BY k")
    push(engine, [(1, "a", 1000), (2, "b", 999)])
    with pytest.warns(RuntimeWarning, match="the weights of .* do not fit"):
        (row,) = engine.lookup("q").to_pylist()
    assert (row["k"], weights(row)) == (2, {"b": 999})


def test_summaries_of_weights_merge() -> None:
    """Of two engines that have a part of a stream each."""
    texts = []
    for part in ([(1, "a", 100), (1, "b", 1)], [(1, "a", 11), (1, "c", 1000)]):
        engine = engine_of(
            q="SELECT APPROX_COUNT_SUMMARY(host, 0.1, weight => bytes) AS t FROM s [RANGE 1 SECOND]"
        )
        push(engine, part)
        texts.append(engine.lookup("q")["t"][0].as_py())
    both = muntin.merge_summaries(texts)
    assert (both.count, both.error, both.bounds("a"), both.bounds("d")) == (1112, 0, (111, 111), (0, 0))
    assert [each.item for each in both.frequent(0.05)] == ["c", "a"]
