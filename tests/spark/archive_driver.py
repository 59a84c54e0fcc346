"""A view kept in a process of its own, to be killed: `archive_driver.py FOLDER`; it ends when all files are done."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from archive_flow import start  # noqa: E402

import muntin.spark  # noqa: E402

if __name__ == "__main__":
    session = muntin.spark.local_session(cores=2, memory="1g")
    start(session, Path(sys.argv[1]), availableNow=True).awaitTermination()
