"""Files whose times are integers in another unit do not pass unnoticed."""

from __future__ import annotations

import json
import warnings
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin import Engine, MuntinError

NOW, SECONDS = datetime(2024, 5, 1), 1_714_521_600


@pytest.mark.parametrize("form", ["parquet", "jsonl", "arrow", "csv"])
def test_files(form: str, tmp_path: Path, muntin: Any) -> None:
    """`muntin run` and backfill: warned of, or refused."""
    name, path = f"{form}_run", tmp_path / f"events.{form}"
    table = pa.table({"ts": [SECONDS, SECONDS + 1], "u": [NOW, NOW]})
    if form == "parquet":
        pq.write_table(table, path)
    elif form == "arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    elif form == "jsonl":
        path.write_text(
            "".join(
                json.dumps({"ts": ts, "u": "2024-05-01T00:00:00"}) + "\n" for ts in table["ts"].to_pylist()
            )
        )
    else:
        path.write_text("ts,u\n" + "".join(f"{ts},2024-05-01T00:00:00\n" for ts in table["ts"].to_pylist()))
    script = f"CREATE STREAM {name} (ts TIMESTAMP, u TIMESTAMP) TIMESTAMP BY ts"
    queries = tmp_path / "script.sql"
    queries.write_text(
        f"{script}; REGISTER QUERY q AS SELECT COUNT(*) AS n FROM {name} [RANGE 1 HOUR SLIDE 1 MINUTE];"
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        done = muntin("run", queries, "--input", path, "--out", tmp_path / "answers")
        said = " ".join(str(each.message) for each in caught) + done.output
    assert "is read as microseconds since 1970" in said or (done.exit_code and "timestamp" in said)
    engine, name = Engine(), f"{form}_filled"
    engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, u TIMESTAMP) TIMESTAMP BY ts")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            engine.register(f"SELECT COUNT(*) AS n FROM {name} [RANGE 1 HOUR]", "filled", backfill=path)
        except MuntinError as error:
            assert "timestamp" in str(error)
        else:
            assert any("is read as microseconds" in str(each.message) for each in caught)
