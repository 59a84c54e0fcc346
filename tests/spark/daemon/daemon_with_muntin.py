"""The process that Spark's Python workers are forked from, with muntin imported beforehand.

PySpark's own daemon imports nothing, so that every worker spends two seconds of a core on what all of them need, and
a task that fails takes its workers with it. The drivers that run in processes of their own (connect_driver.py and
others) have PySpark's daemon, as has everyone outside these tests.
"""

from __future__ import annotations

from contextlib import suppress

from pyspark import daemon

if __name__ == "__main__":
    with suppress(ImportError):  # a test has workers without muntin
        import pandas  # noqa: F401
        import pyspark.worker  # noqa: F401

        import muntin.spark  # noqa: F401
    daemon.manager()
