"""Values that no stream has and answers have: sums of decimals, products of many digits, and lists of items."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from muntin import Engine
from muntin.errors import SqlError

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, d DECIMAL(9, 2), n BIGINT) TIMESTAMP BY ts"
GROUPS = "SELECT k, SUM(d) AS sum, APPROX_FREQUENT(n, 0.4, 0.1) AS most FROM s [RANGE 10 SECONDS] GROUP BY k"
BOUNDS = ("window_start", "window_end", "complete")


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.drop_columns(BOUNDS).to_pylist()]


def push(engine: Engine, *events: tuple[int, str, str | None, int]) -> None:
    at, keys, amounts, numbers = zip(*events, strict=True)
    engine.push(
        "s",
        {"ts": [each * SECOND for each in at], "k": keys,
         "d": [None if each is None else Decimal(each) for each in amounts], "n": numbers},
    )  # fmt: skip


def test_groups_with_sums_and_lists(tmp_path: Path) -> None:
    """A row is written again when a sum or a list has changed, and queries over the view tell of it."""
    engine = Engine(archive=tmp_path)
    engine.execute(
        f"{STREAM}; CREATE MATERIALIZED VIEW v AS {GROUPS} EVERY 1 SECOND;"
        "REGISTER QUERY sums AS SELECT k, sum FROM v WHERE sum > 2.5 EMIT CHANGES;"
        "REGISTER QUERY lists AS SELECT k, most FROM v EMIT CHANGES"
    )
    push(engine, (1, "a", "2.50", 7), (2, "b", None, 8), (3, "a", "0.01", 7))
    engine.advance()
    push(engine, (5, "a", "0.00", 7))
    told = engine.advance(until=5 * SECOND)
    assert rows_of(told["sums"]) == [("a", Decimal("2.51"), "enter")]
    sizes = [(row["k"], row["change"], row["most"][0]["lower"]) for row in told["lists"].to_pylist()]
    assert sizes == [("a", "leave", 1), ("a", "enter", 2)]
    assert rows_of(engine.execute("SELECT k, sum FROM v")) == [("a", Decimal("2.51")), ("b", None)]
    assert rows_of(engine.execute("SELECT SUM(sum) AS all, COUNT(*) AS n FROM v")) == [(Decimal("2.51"), 2)]
    grouped = engine.execute("SELECT sum, COUNT(*) AS n FROM v GROUP BY sum")
    assert grouped.column_names[:2] == ["sum", "n"]
    assert rows_of(grouped) == [(Decimal("2.51"), 1), (None, 1)]


def test_a_list_is_no_key(tmp_path: Path) -> None:
    engine = Engine(archive=tmp_path)
    engine.execute(STREAM)
    with pytest.raises(SqlError, match="'most' is a list, which has no order; name another column"):
        engine.execute(f"CREATE MATERIALIZED VIEW v KEY (most) AS {GROUPS} EVERY 1 SECOND")
    assert not engine.sources.keys() - {"s"}


def test_except_compares_what_can_be_kept(tmp_path: Path) -> None:
    engine = Engine(archive=tmp_path)
    engine.execute(STREAM)
    cube = "SELECT d * d * d AS cube FROM s [RANGE 5 SECONDS]"
    with pytest.raises(SqlError, match="'cube' has more than 18 digits"):
        engine.execute(f"CREATE MATERIALIZED VIEW v AS {cube} EXCEPT {cube} EVERY 1 SECOND")
