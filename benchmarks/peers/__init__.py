"""Every answer of 1 to 10,000 queries of six kinds beside polars and DuckDB; windows per key beside Flink and Spark."""

from __future__ import annotations

import os

os.environ["POLARS_MAX_THREADS"] = "1"  # one core each; polars reads it when it is imported

from collections.abc import Sequence

import duckdb
import polars

from benchmarks.measure import Column, Result
from benchmarks.peers.filters import Filters
from benchmarks.peers.joins import Joins
from benchmarks.peers.look_ups import LookUps
from benchmarks.peers.quantiles import Quantiles
from benchmarks.peers.race import Kind, races
from benchmarks.peers.streams import Streams, race_of_streams
from benchmarks.peers.windows import Windows

COUNTS = (1, 10, 100, 1_000, 10_000)
STREAM_COUNTS = (1, 4)
LIMIT = 40.0  # CPU seconds for all steps of one contestant with one number of queries
RUNS = 3
NAMES = {"muntin": "muntin", "muntin_2": "muntin, 2 threads", "polars": "polars", "duckdb": "DuckDB", "flink": "Flink",
         "spark": "Spark's windows"}  # fmt: skip
KINDS: Sequence[Kind] = (
    Windows("Windows per key", rate=20_000, keys=1_000),
    Windows("Windows of the whole stream", rate=50_000),
    Filters("A filter each", work=1_000_000, symbols=5_000),
    Quantiles("Quantiles per key", work=20_000, keys=200),
    Joins("Joins", rate=2_000, keys=10_000_000),
    LookUps("Look-ups at instants", events=200_000, work=1_000),
)
QUICK: Sequence[Kind] = (
    Windows("Windows per key", rate=500, keys=50, longest=30),
    Windows("Windows of the whole stream", rate=500, longest=30),
    Filters("A filter each", work=2_000, symbols=10),
    Quantiles("Quantiles per key", work=400, keys=5),
    Joins("Joins", rate=100, keys=1_000),
    LookUps("Look-ups at instants", events=5_000, work=50),
)
STREAMS, QUICK_STREAMS = Streams(seconds=60, rate=20_000, keys=2_000), Streams(seconds=12, rate=500, keys=20)
RATIOS = [name for name in NAMES if not name.startswith("muntin")]
COLUMNS = [
    Column("kind", "what"), Column("queries", "queries", ",d"),
    *(Column(name, f"{label}, per CPU s", ",.0f") for name, label in NAMES.items() if name != "muntin_2"),
    *(Column(f"{name}_ratio", f"muntin / {NAMES[name]}", ".2f") for name in RATIOS),
    *(Column(f"{name}_clock", f"{label}, per s", ",.0f") for name, label in NAMES.items()),
    Column("muntin_spread", "spread", ".0%"), Column("rows", "rows an instant", ",d"),
    Column("compared", "answers compared", ",d"), Column("why", "left out"),
]  # fmt: skip
NOTES = """\
Events (of look-ups: requests) per CPU second and per second of the clock with every answer made, by the number of
queries. Windows are full before anything is timed. Contestants take turns, step by step; medians of {runs} steps after
one that warms up; ratios are of CPU time, round by round. Who needs more than {limit:.0f} CPU seconds for the steps of
one number of queries takes no part in it. Answers of the last step are compared. polars and DuckDB have one thread, and
what an expert writes who knows all queries: work is done once for all of them, and a window that many ask for is
answered once. *Windows*: SUM, COUNT, AVG, MIN, MAX of two columns over windows of 1 to 600 seconds that move by 1, 2, 3
or 6; polars and DuckDB fold events into slices, and when many windows are due, one pass backwards over the slices
answers all. *A filter each*: `WHERE symbol = '…'` over windows of 1 to 10 minutes; by polars and DuckDB a join with a
table of subscriptions. *Quantiles*: windows of 1 to 30 minutes; by polars and DuckDB one question a window, with all
its parts. *Joins*: rows of two streams in windows of up to 60 seconds; by polars and DuckDB new events are matched
once, and pairs kept in order. *Look-ups*: COUNT, SUM and AVG at instants of 30 days, windows of up to 7 days, the
history read anew each time; by polars and DuckDB ASOF joins of running totals. *Windows per key, whole streams*: the
same queries with windows of up to {seconds} seconds, over as many seconds of events, from the first
to the last answer."""


def run(quick: bool) -> Result:
    """Race each kind, then the stream processors that are there."""
    if quick:
        return measure(QUICK, (1, 7), QUICK_STREAMS, (1,), runs=1)
    return measure(KINDS, COUNTS, STREAMS, STREAM_COUNTS, RUNS)


def measure(
    kinds: Sequence[Kind], counts: Sequence[int], streams: Streams, stream_counts: Sequence[int], runs: int
) -> Result:
    """The result of such a race."""
    rows = races(kinds, counts, LIMIT, runs)
    more, versions = race_of_streams(streams, stream_counts)
    rows += more
    for row in rows:
        left_out = [(label, row.get(f"{name}_why")) for name, label in NAMES.items()]
        row["why"] = "; ".join(f"{label}: {why}" for label, why in left_out if why)
    notes = NOTES.format(runs=runs, limit=LIMIT, seconds=streams.seconds)
    parameters = {"runs": runs, "polars": polars.__version__, "duckdb": duckdb.__version__, **versions}
    return Result(
        "peers", "By the number of queries, beside others", " ".join(notes.split()), COLUMNS, rows, parameters
    )
