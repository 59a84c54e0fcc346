"""`muntin run --engine spark`: the same answers as embedded, in the same files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from muntin.spark.state import ShardState, show_state
from muntin.testing import TradeStream

STREAM = TradeStream(seed=3, symbols=20, rate=500.0)  # none is late: a table has no order of arrival
SCRIPT = f"""\
{STREAM.create_statement};
REGISTER QUERY busy AS
  SELECT symbol, SUM(shares) AS volume, MAX(price) AS high FROM trades [RANGE 10 SECONDS SLIDE 5 SECONDS]
  GROUP BY symbol HAVING SUM(shares) > 2000;
SELECT COUNT(*) AS trades FROM trades [RANGE 4 SECONDS SLIDE 2 SECONDS];
CREATE TABLE limits (symbol VARCHAR, most BIGINT, PRIMARY KEY (symbol));
INSERT INTO limits VALUES ('none', 0);
REGISTER QUERY over AS
  SELECT t.symbol, SUM(shares) AS volume, l.most FROM trades [RANGE 10 SECONDS SLIDE 5 SECONDS] AS t
  JOIN limits AS l ON t.symbol = l.symbol GROUP BY t.symbol HAVING SUM(shares) > l.most;
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("quick_java")
def test_both_engines_write_the_same(tmp_path: Path, muntin: Any) -> None:
    (tmp_path / "queries.sql").write_text(SCRIPT)
    trades = STREAM.table(10_000)
    pq.write_table(trades, tmp_path / "trades.parquet")
    limits = [
        f"{symbol},{1000 * place}" for place, symbol in enumerate(trades["symbol"].unique().to_pylist()[:9])
    ]
    (tmp_path / "limits.csv").write_text("\n".join(["symbol,most", *limits]))
    command = [
        "run", tmp_path / "queries.sql", "--input", tmp_path / "trades.parquet", "--table",
        f"limits={tmp_path / 'limits.csv'}", "--engine",
    ]  # fmt: skip
    embedded = muntin(*command, "embedded", "--out", tmp_path / "embedded")
    assert embedded.exit_code == 0, embedded.output
    # in a process of its own, whose session is stopped at the end
    code = "from muntin.cli import main; main()"
    arguments = [*map(str, command), "spark", "--out", str(tmp_path / "spark")]
    spark = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert spark.returncode == 0, spark.stderr[-2_000:]
    assert "10,000 events" in embedded.output
    assert "10,000 events" in spark.stderr
    for name in ("busy", "query_1", "over"):
        one, other = (
            pq.read_table(tmp_path / engine / f"{name}.parquet") for engine in ("embedded", "spark")
        )
        assert one.schema == other.schema
        assert one.num_rows
        assert ordered(one) == ordered(other)


def ordered(table: pa.Table) -> list[dict[str, object]]:
    keys = [(name, "ascending") for name in ("window_end", "symbol") if name in table.column_names]
    return list(table.take(pc.sort_indices(table, sort_keys=keys)).to_pylist())


def test_the_state_is_shown_shard_by_shard() -> None:
    shards = [
        ShardState("symbol", 0, 1, 1, 12, 8, 34_567, 2, 1, 250, 3, None),
        ShardState("", 0, 0, 1, 12, 0, 89, 0, 0, 17, 0, None),
    ]
    text = show_state(shards)
    assert "symbol" in text
    assert "34,567" in text
    assert text.splitlines()[-1] == "2 shards, 34,656 bytes, format version 1"
