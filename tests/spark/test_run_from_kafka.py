"""`muntin run --engine spark` over topics of a real broker: the answers of an embedded run over the same events."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from confluent_kafka import Producer
from flow import events

from muntin.arrow_bytes import stream_bytes
from tests.kafka_broker import KafkaBroker, connector_jars

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("quick_java")]
COLUMNS = "(ts TIMESTAMP, k VARCHAR, v BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 2 SECONDS"
SCRIPT = f"""
CREATE STREAM t {COLUMNS} WITH (source = 'kafka', brokers = '@', topic = 'lines', format = 'json', bad = 'skip');
CREATE STREAM u {COLUMNS} WITH (source = 'kafka', brokers = '@', topic = 'batches', format = 'arrow');
REGISTER QUERY sums AS SELECT k, SUM(v) AS total FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k;
REGISTER QUERY pairs AS SELECT t.k, COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 SECOND]
  JOIN u [RANGE 1 SECOND] ON t.v = u.v GROUP BY t.k;
CREATE MATERIALIZED VIEW both AS SELECT t.k, t.v, u.x FROM t [RANGE 5 SECONDS] JOIN u [RANGE 1 SECOND]
  ON t.v = u.v EVERY 1 SECOND;
SELECT k, v, x FROM both;
"""


def test_topics_are_inputs(tmp_path: Path) -> None:
    """Lists, objects and bad ones in JSON, batches in Arrow; a topic that two jobs and a view read has one end."""
    jars = connector_jars()
    tables = {"t": events(3_000, seed=3), "u": events(3_000, seed=4)}
    broker = KafkaBroker(tmp_path / "kafka")
    try:
        for topic, messages in {"lines": lines(tables["t"]), "batches": batches(tables["u"])}.items():
            producer = Producer({"bootstrap.servers": broker.address})
            for message in messages:
                producer.produce(topic, message)
            producer.flush()
        (tmp_path / "q.sql").write_text(SCRIPT.replace("@", broker.address))
        refused = run(tmp_path, "no", "--engine", "spark")
        assert refused.returncode == 2
        assert "--packages org.apache.spark:spark-sql-kafka-0-10_2.13:" in refused.stderr
        done = run(tmp_path, "spark", "--engine", "spark", "--conf", f"spark.jars={jars}")
    finally:
        broker.close()
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "6,000 events" in done.stderr
    given = []
    for name, table in tables.items():
        pq.write_table(table.sort_by("ts"), tmp_path / f"{name}.parquet")
        given += ["--input", f"{name}={tmp_path / name}.parquet"]
    embedded = run(tmp_path, "embedded", *given)
    assert embedded.returncode == 0, embedded.stderr
    for name in ("sums", "pairs", "query_1"):
        one, other = (pq.read_table(tmp_path / each / f"{name}.parquet") for each in ("embedded", "spark"))
        assert one.schema == other.schema
        assert one.num_rows
        assert sorted(map(repr, one.to_pylist())) == sorted(map(repr, other.to_pylist())), name


def lines(table: pa.Table) -> list[bytes]:
    rows = [row | {"ts": row["ts"].isoformat()} for row in table.to_pylist()]
    alone, together = rows[:1_000], [rows[start : start + 50] for start in range(1_000, len(rows), 50)]
    return [b"{ no event", *(json.dumps(each).encode() for each in (*alone, *together))]


def batches(table: pa.Table) -> list[bytes]:
    return [stream_bytes(batch) for batch in table.to_batches(max_chunksize=100)]


def run(folder: Path, out: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from muntin.cli import main; main()"
    places = ["--out", str(folder / out), "--archive", str(folder / f"{out} views")]
    command = [sys.executable, "-c", code, "run", str(folder / "q.sql"), *places, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)
