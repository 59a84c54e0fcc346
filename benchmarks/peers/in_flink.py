"""Flink SQL over a folder of events, in an interpreter that has PyFlink: one job, with a HOP window for each query.

`python in_flink.py FOLDER`: reads `queries.json` there, writes the answers over `short` into `answers`,
then answers `whole` into nowhere, and prints what that took, and what it takes to read `whole`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.process_tree import cpu_seconds


def main(folder: Path) -> None:
    """Run all jobs in one process, so that the first warms up."""
    import pyflink.version
    from pyflink.table import EnvironmentSettings, TableEnvironment

    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in {"parallelism.default": "1", "table.local-time-zone": "UTC"}.items():
        tables.get_config().set(name, value)
    for part in ("short", "whole"):
        tables.execute_sql(
            f"CREATE TABLE {part} (us BIGINT, k BIGINT, n BIGINT, m BIGINT, ts AS TO_TIMESTAMP_LTZ(us / 1000, 3), "
            f"WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '{(folder / part).as_uri()}', "
            "'format' = 'csv')"
        )
    row = "q INT, ends TIMESTAMP(3), k BIGINT, v DOUBLE"
    answers = (folder / "answers").as_uri()
    tables.execute_sql(
        f"CREATE TABLE kept ({row}) WITH ('connector' = 'filesystem', 'path' = '{answers}', 'format' = 'csv')"
    )
    tables.execute_sql(f"CREATE TABLE nowhere ({row}) WITH ('connector' = 'blackhole')")
    tables.execute_sql("CREATE TABLE number (many BIGINT) WITH ('connector' = 'blackhole')")
    queries = json.loads((folder / "queries.json").read_text())
    all_queries(tables, queries, "short", "kept")
    seconds, cpu = spent(lambda: all_queries(tables, queries, "whole", "nowhere"))
    _, reading = spent(
        lambda: tables.execute_sql("INSERT INTO number SELECT SUM(n) FROM whole GROUP BY n < 0").wait()
    )
    found = {"seconds": seconds, "cpu": cpu, "reading": reading, "version": pyflink.version.__version__}
    print(json.dumps(found))


def all_queries(tables: Any, queries: list[tuple[int, int, str]], source: str, sink: str) -> None:
    """One job for all: they share the source."""
    statements = tables.create_statement_set()
    for number, (size, slide, call) in enumerate(queries):
        window = f"HOP(TABLE {source}, DESCRIPTOR(ts), INTERVAL '{slide}' SECOND, INTERVAL '{size}' SECOND)"
        value = call.replace("AVG(", "AVG(1.0e0 * ")
        statements.add_insert_sql(
            f"INSERT INTO {sink} SELECT {number}, window_end, k, CAST({value} AS DOUBLE) FROM TABLE({window}) "
            "GROUP BY k, window_start, window_end"
        )
    statements.execute().wait()


def spent(action: Any) -> tuple[float, float]:
    """Seconds of the clock, and of the work of this process, the JVM and all others below it."""
    began, cpu = time.perf_counter(), cpu_seconds()
    action()
    return time.perf_counter() - began, cpu_seconds() - cpu


if __name__ == "__main__":
    main(Path(sys.argv[1]))
