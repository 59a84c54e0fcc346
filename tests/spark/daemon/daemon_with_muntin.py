"""The process that Spark's Python workers are forked from, with muntin imported and its kernels read beforehand.

PySpark's own daemon imports nothing, so that every worker spends three seconds of a core on what all of them need, and
a task that fails takes its workers with it. `muntin run --engine spark` (tests/cli) has PySpark's daemon, as
has everyone outside these tests.

Spark starts one such process for each module that workers run: tasks, and the steps in which a data source is made.
Workers search for garbage after every task. What is there before they are forked is left out of that search.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress

from pyspark import daemon

TASKS = "pyspark.worker"
LOOKS_UP = "pyspark.sql.worker.lookup_data_sources"  # asks which modules there are, and imports none of ours
STREAM = "CREATE STREAM t (ts BIGINT, k VARCHAR, v BIGINT, x DOUBLE) TIMESTAMP BY ts DELAY 1 SECOND"
CALLS = "COUNT(*), SUM(v), AVG(x), MIN(v), MAX(x), LAST(v)"
QUERIES = {
    "keyed": f"SELECT k, {CALLS} FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE v >= 0 GROUP BY k HAVING SUM(v) > 1",
    "whole": f"SELECT {CALLS} FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS]",
    "rows": "SELECT k, SUM(v), MAX(ts) FROM t [ROWS 5 SLIDE 2] GROUP BY k",
    "values": "SELECT k, MEDIAN(v) FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k",
}


def read_kernels() -> None:
    """Answer a few queries: what is compiled is then in memory, and need not be read by each worker."""
    engine = muntin.Engine()
    engine.execute(STREAM)
    engine.register_many(QUERIES)
    for turn in range(2):
        at = [turn * 8_000_000 + i * 500_000 for i in range(16)]
        engine.push("t", {"ts": at, "k": ["a", None] * 8, "v": list(range(16)), "x": [0.5] * 16})
        engine.advance()


if __name__ == "__main__":
    worker = sys.argv[1]
    if worker != LOOKS_UP:
        with suppress(ImportError):  # a test has workers without muntin
            import pandas  # noqa: F401
            import pyspark.worker  # noqa: F401

            import muntin.spark

            if worker == TASKS:
                read_kernels()
    gc.freeze()
    daemon.manager()
