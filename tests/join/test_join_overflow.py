"""Joins leave out only what has no value: pairs, or the answers of a key at an instant, against the reference."""

from __future__ import annotations

from typing import Any

import pytest

from answers import assert_same_answer
from muntin import Engine
from muntin.errors import NoValue
from overflows import HUGE
from reference import Answer, ReferenceEngine
from scenario import SECOND, SeededDice

pytestmark = pytest.mark.filterwarnings("ignore:query .* leaves out")
STREAMS = [
    f"CREATE STREAM {name} (ts BIGINT, k BIGINT, {value} BIGINT) TIMESTAMP BY ts DELAY 1 SECOND"
    for name, value in (("a", "n"), ("b", "m"))
]
FROM = "FROM a [RANGE 4 SECONDS{}] JOIN b [RANGE 3 SECONDS{}] ON a.k = b.k"
QUERIES = {
    "pairs": f"SELECT n, m, n + m AS x {FROM}",
    "filtered": f"SELECT n, m {FROM} WHERE n - m > 0",
    "changes": f"SELECT n, m, n * m AS x {FROM} EMIT CHANGES",
    "sums": f"SELECT a.k, SUM(n) AS x, AVG(m) AS y {FROM} GROUP BY a.k",
    "sum": f"SELECT SUM(n) AS x, COUNT(*) AS many {FROM}",
    "products": f"SELECT a.k, SUM(n * m) AS x {FROM} GROUP BY a.k",
    "product": f"SELECT MAX(n * m) AS x, COUNT(*) FILTER (WHERE m - n > 0) AS some {FROM}",
    "computed keys": f"SELECT n + m AS both, COUNT(*) AS many {FROM} GROUP BY n + m",
    "computed": f"SELECT a.k, SUM(n) * COUNT(*) AS x {FROM} GROUP BY a.k HAVING SUM(m) - 1 > 0",
}


@pytest.mark.parametrize("seed", range(6))
def test_only_what_has_no_value_is_left_out(seed: int) -> None:
    """At every look-up and advance, with and without SLIDE."""
    dice = SeededDice(seed)
    engine, reference = Engine(), ReferenceEngine()
    for sql in STREAMS:
        engine.execute(sql)
        reference.execute(sql)
    for name, text in QUERIES.items():
        sql = text.format(*[dice.pick((" SLIDE 1 SECOND", " SLIDE 700 MILLISECONDS", ""))] * 2)
        engine.register(sql, name)
        reference.register(sql, name=name)
    now, left_out = 10 * SECOND, 0
    for _ in range(6):
        for stream, value in (("a", "n"), ("b", "m")):
            times = sorted(now + dice.whole(0, 3 * SECOND) for _ in range(dice.whole(1, 5)))
            batch: dict[str, list[Any]] = {
                "ts": times,
                "k": [dice.pick((1, 2, 3)) for _ in times],
                value: [dice.pick((*HUGE, 2, 3, 4)) for _ in times],
            }
            engine.push(stream, batch)
            reference.push(stream, batch)
        now += 2 * SECOND
        for name in QUERIES:
            expected = reference.lookup(name)
            if name in ("sum", "product") and not expected.rows:
                with pytest.raises(NoValue, match=f"'{name}'"):
                    engine.lookup(name)
            else:
                assert_same_answer(expected, engine.lookup(name), name)
        actual, wanted = engine.advance(), reference.advance()
        for name in QUERIES:
            nothing = Answer(reference.joins[name].query, saw_all=True)  # type: ignore[arg-type]
            assert_same_answer(wanted.get(name, nothing), actual.get(name), f"advance: {name}")
        left_out = sum(each["overflows"] for each in engine.stats()["queries"].values())
    assert left_out > 20
