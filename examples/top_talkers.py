"""Network traffic: who sends most, and who calls on very many others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import muntin

SCRIPT = """
CREATE STREAM flows (ts TIMESTAMP, source BIGINT, target BIGINT, bytes BIGINT) TIMESTAMP BY ts DELAY 1 SECOND;
CREATE STREAM outgoing AS SELECT ts, source, target, bytes FROM flows WHERE target >= 1000;

-- three rankings share one store, whatever their windows and lengths
REGISTER QUERY busiest_minute AS
  SELECT source, SUM(bytes) AS bytes FROM flows [RANGE 1 MINUTE SLIDE 10 SECONDS]
  GROUP BY source ORDER BY bytes DESC LIMIT 10;
REGISTER QUERY busiest_hour AS
  SELECT source, SUM(bytes) AS bytes FROM flows [RANGE 1 HOUR SLIDE 10 SECONDS]
  GROUP BY source ORDER BY bytes DESC LIMIT 3;
REGISTER QUERY on_top AS
  SELECT source, SUM(bytes) AS bytes FROM flows [RANGE 5 MINUTES SLIDE 10 SECONDS]
  GROUP BY source ORDER BY bytes DESC LIMIT 3 EMIT CHANGES;

-- a scan: few bytes, thousands of different targets
REGISTER QUERY scans AS
  SELECT source, APPROX_COUNT_DISTINCT(target, 0.05) AS targets
  FROM outgoing [RANGE 5 MINUTES SLIDE 10 SECONDS]
  GROUP BY source HAVING APPROX_COUNT_DISTINCT(target, 0.05) > 1000;
"""
BEGIN, SOURCES = np.datetime64("2026-03-02T12:00", "us"), 500


def flows(random: np.random.Generator, second: int) -> pa.Table:
    """Flows of ten seconds; source 42 scans from the third minute on, source 7 sends a lot in the fifth."""
    many = 2_000
    source = np.minimum(random.zipf(1.4, many), SOURCES) - 1
    target, size = random.integers(0, 100, many), random.integers(100, 1_500, many)
    if second >= 180:
        source[:100], size[:100] = 42, 60
        target[:100] = random.integers(1_000, 100_000, 100)
    if 240 <= second < 300:
        source[-100:], size[-100:] = 7, 100_000
    at = BEGIN + (second * 1_000_000 + np.sort(random.integers(0, 10_000_000, many))).astype(
        "timedelta64[us]"
    )
    return pa.table({"ts": at, "source": source, "target": target, "bytes": size})


def main() -> list[str]:
    """Ten minutes; who comes and goes among the first three, and who scans."""
    engine, random, told, scanning = muntin.Engine(), np.random.default_rng(1), [], set()
    engine.execute(SCRIPT)
    for second in range(0, 600, 10):
        engine.push("flows", flows(random, second))
        answers = engine.advance()
        for row in answers.get("on_top", pa.table({})).to_pylist():
            told.append(f"{row['window_end']:%H:%M:%S} {row['change']} top 3: {row['source']}")
        for row in answers.get("scans", pa.table({})).to_pylist():
            if row["source"] not in scanning:
                told.append(f"{row['window_end']:%H:%M:%S} scan by {row['source']}: {row['targets']} targets")
                scanning.add(row["source"])
    last = engine.lookup("busiest_minute").to_pylist()
    told.append("busiest in the last minute: " + ", ".join(str(row["source"]) for row in last))
    return told


if __name__ == "__main__":
    print(*main(), sep="\n")
