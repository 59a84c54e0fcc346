"""Whatever a query answers can be written, in every format; commands that need Spark say so."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from muntin.aggregates import AGGREGATES
from muntin.cli import app

CREATE = (
    "CREATE STREAM s (ts TIMESTAMP, b BOOLEAN, i TINYINT, u UBIGINT, n BIGINT, r REAL, x DOUBLE, k VARCHAR, d DATE, "
    "z TIMESTAMPTZ, m TIMESTAMP_S, o TIMESTAMP_NS) TIMESTAMP BY ts;\n"
)
COLUMNS = ("b", "i", "u", "n", "r", "x", "k", "d", "ts", "z", "m", "o")
OF_ALL = (
    "COUNT({})",
    "COUNT(DISTINCT {})",
    "MIN({})",
    "MAX({})",
    "FIRST({})",
    "LAST({})",
    "MODE({})",
    "APPROX_FREQUENT({}, 0.2, 0.1)",
)
OF_NUMBERS = ("SUM(n)", "AVG(n)", "VAR_POP(x)", "VAR_SAMP(x)", "STDDEV_POP(x)", "STDDEV_SAMP(x)", "QUANTILE(x, 0.5)",
              "QUANTILE(n, 0.5)", "APPROX_QUANTILE(x, 0.5, 0.1)", "APPROX_QUANTILE_ERROR(x, 0.5, 0.1)",
              "APPROX_COUNT(k = 'a', 0.1)", "APPROX_COUNT_ERROR(k = 'a', 0.1)", "APPROX_QUANTILE_SUMMARY(x, 0.1)",
              "APPROX_COUNT_SUMMARY(k, 0.1)", "ARG_MAX(k, n)", "ARG_MIN(z, x)", "APPROX_COUNT_DISTINCT(k)",
              "APPROX_COUNT_DISTINCT_ERROR(k)", "MAX(ts) - MIN(ts)", "MAX(x) > 1", "NULL", "'a'")  # fmt: skip
CALLS = [*(call.format(column) for call in OF_ALL for column in COLUMNS), *OF_NUMBERS]


def queries(how_many: int) -> str:
    items = ", ".join(f"{call} AS a{number}" for number, call in enumerate(CALLS))
    window = "FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE]"
    texts = [f"REGISTER QUERY q AS SELECT {items} {window};"]
    if how_many > 1:
        keys = ", ".join(COLUMNS)
        texts += [
            f"REGISTER QUERY keyed AS SELECT {keys}, COUNT(*) AS n2 {window} GROUP BY {keys};",
            f"REGISTER QUERY changes AS SELECT k, MAX(n) AS top {window} GROUP BY k EMIT CHANGES;",
            f"REGISTER QUERY distinct_ones AS SELECT DISTINCT k {window};",
        ]
    return CREATE + "\n".join(texts)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("events") / "s.parquet"
    seconds = [1_700_000_000, 1_700_000_030, 1_700_000_090]
    times = pa.array(seconds, pa.int64()).cast(pa.timestamp("s"))
    columns = {
        "ts": times.cast(pa.timestamp("us")), "b": [True, None, False], "i": [1, None, 2], "u": [1, None, 2],
        "n": [1, None, 2], "r": [0.5, None, float("nan")], "x": [0.5, None, float("inf")], "k": ["a", None, 'q",\n'],
        "d": times.cast(pa.date32()), "z": times, "m": times, "o": times,
    }  # fmt: skip
    pa.parquet.write_table(pa.table(columns), path)
    return path


def read_lines(path: Path) -> pa.Table:
    """Not by Arrow, which wants a column of one type: NaN is written as a text."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return pa.table(
        {name: [str(row[name]) if name != "text" else row[name] for row in rows] for name in rows[0]}
    )


def test_every_aggregate_is_asked() -> None:
    """So that a new one is written here too."""
    named = {name for name in AGGREGATES if any(call.lower().startswith(f"{name}(") for call in CALLS)}
    assert named == AGGREGATES.keys() - {"count_distinct"}


@pytest.mark.parametrize("how_many", [1, 4])
@pytest.mark.parametrize(
    "out", ["answers.parquet", "answers.csv", "answers.jsonl", "parquet", "csv", "jsonl"]
)
def test_written_in_every_format(muntin: Any, events: Path, tmp_path: Path, out: str, how_many: int) -> None:
    """As one file or a folder; the file can be read again and has all answers."""
    script = tmp_path / "script.sql"
    script.write_text(queries(how_many))
    form = out.rpartition(".")[2]
    done = muntin("run", script, "--input", events, "--out", tmp_path / out, "--format", form)
    assert done.exit_code == 0, done.output
    read = {"parquet": pa.parquet.read_table, "csv": pa.csv.read_csv, "jsonl": read_lines}[form]
    if "." not in out:
        tables = [read(path) for path in sorted((tmp_path / out).iterdir())]
        assert len(tables) == how_many
        assert all(table.num_rows for table in tables)
        return
    table = read(tmp_path / out)
    if how_many == 1:
        assert {f"a{number}" for number in range(len(CALLS))} <= set(table.column_names)
    else:
        assert set(table["query"].to_pylist()) == {"q", "keyed", "changes", "distinct_ones"}
        frequent = CALLS.index("APPROX_FREQUENT(k, 0.2, 0.1)")
        texts = [
            row["text"]
            for row in table.to_pylist()
            if row["column"] == f"a{frequent}" and row["query"] == "q"
        ]
        assert '"item": "a"' in texts[0]


COMMANDS: dict[str, list[object]] = {
    "run": ["run", "script.sql", "--input", "x.parquet", "--engine", "spark", "--out", "out"],
    "state": ["spark", "state", "checkpoint"],
    "doctor": ["doctor"],
    "explain": ["explain", "script.sql"],
    "serve": ["serve", "script.sql", "--check"],
    "version": ["--version"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_without_spark(muntin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """A clean error that says what to install, or all well where Spark is not needed."""
    for name in [
        name for name in sys.modules if name.split(".")[0] == "pyspark" or name.startswith("muntin.spark")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.chdir(tmp_path)
    Path("script.sql").write_text(queries(1))
    done = muntin(*COMMANDS[command])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    if command in ("run", "state"):
        assert done.exit_code == 2
        assert "error: muntin.spark needs Spark: pip install 'muntin[spark]'" in done.output


def test_every_command_is_tried() -> None:
    """Those beside COMMANDS never import muntin.spark."""
    named = {each.name or each.callback.__name__ for each in app.registered_commands if each.callback}
    assert named - COMMANDS.keys() == {"demo", "bench", "warm-up", "lookup-at"}
