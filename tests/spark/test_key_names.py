"""Keys by columns of any name find their shards, folded and whole, without a JVM."""

from __future__ import annotations

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from shards import Shards

from muntin.stream import Stream

NAMES = [
    "a.b",
    "a`b",
    "x y",
    "Ünïcode",
    "select",
    "group",
    "range",
    "0",
    "query",
    'quo"te',
    "K",
    "{t}",
    "#part",
]


@pytest.mark.parametrize("expression", ["{0}", "{0} + 1", "{0} % 2, {0}"])
@pytest.mark.parametrize("fold", [True, False])
def test_a_key_of_any_name(fold: bool, expression: str) -> None:
    """All names in one job, each in a route of its own."""
    at = pa.array([number * 500_000 for number in range(40)], pa.timestamp("us"))
    table = pa.table({"ts": at} | {name: [number % 5 for number in range(40)] for name in NAMES})
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in NAMES}
    queries = {
        name: f"SELECT COUNT(*) AS n, SUM({each}) AS total FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] "
        f"GROUP BY {expression.format(each)}"
        for name, each in quoted.items()
    }
    shards = Shards(Stream("s", table.schema, "ts"), queries, fold=fold, shards=2)
    answers = shards.send([table.slice(0, 25).to_batches(), table.slice(25).to_batches()])
    assert {route.fold is None for route in shards.job.routes} == {not fold}
    for name in NAMES:
        totals = sorted(zip(answers[name]["n"].to_pylist(), answers[name]["total"].to_pylist(), strict=True))
        assert totals == [(4, 4 * key) for key in range(5)]
