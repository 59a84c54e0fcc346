"""Features of requests at instants of their own on Spark, from a table of events, beside plain SQL for them."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.lookup_at import (
    ACCOUNTS,
    HOUR,
    SPAN,
    check,
    features,
    from_totals,
    make_requests,
    name_of,
    range_join,
    some_events,
)
from benchmarks.measure import Column, Result
from benchmarks.process_tree import CpuMeter

WINDOWS = {"1h": HOUR, "6h": 6 * HOUR, "1d": 24 * HOUR, "3d": 72 * HOUR, "7d": 168 * HOUR}
EXTREMES = ("COUNT(*)", "SUM(amount)", "AVG(amount)", "MAX(amount)")
TOTALS = ("COUNT(*)", "SUM(amount)", "AVG(amount)", "SUM(items)")
LIMIT = 1200.0  # seconds that plain SQL is given
SIZES = ((1_000_000, 10_000), (10_000_000, 100_000))
MOST_JOINED = 1_000_000  # events that a range join is tried with
SHARD = 5_000_000  # events of a shard
COLUMNS = [
    Column("what", "features"), Column("events", "events", ",d"), Column("requests", "requests", ",d"),
    Column("seconds", "muntin, s", ".1f"), Column("cpu", "CPU s", ".1f"),
    Column("folder", "EventFolder, s", ".1f"), Column("folder_cpu", "CPU s", ".1f"),
    Column("functions", "window functions, s", ".1f"), Column("functions_ratio", "times as fast", ".1f"),
    Column("functions_cpu", "by CPU", ".1f"),
    Column("totals", "running totals, s", ".1f"), Column("totals_ratio", "times as fast", ".1f"),
    Column("totals_cpu", "by CPU", ".1f"),
    Column("joined", "range join, s", ".1f"), Column("joined_ratio", "times as fast", ".1f"),
    Column("joined_cpu", "by CPU", ".1f"),
]  # fmt: skip
NOTES = f"""\
20 features of {ACCOUNTS:,} accounts: four aggregates over each of five windows without SLIDE
({", ".join(WINDOWS)}), for requests at random instants within 30 days, in no order. Events and requests are Parquet
files, and so are the answers. *muntin* reads the events as everyone does, from a DataFrame; with an `EventFolder` its
tasks read the files themselves. Plain SQL has one pass over events and requests together, sorted by account and
time: *window functions* with RANGE frames, a frame for each window; or, for what can be subtracted, *running totals* at
both ends of each window. A *range join* joins requests with the events of the longest window, and has a FILTER for each
shorter one; it is tried with up to {MOST_JOINED:,} events. All are given {LIMIT:.0f} seconds; what is not
done by then is empty. *Times as fast* compares seconds with those of muntin from a DataFrame, *by CPU* those of all
processes together. The answers are compared, and equal. Local mode on two cores. A tenth of the
hundred million events that were asked for, on a machine shared with other work; a shard for {SHARD:,} events."""


def run(quick: bool, sizes: tuple[tuple[int, int], ...] = SIZES) -> Result:
    """Measure both sets of features at each size."""
    import muntin.spark

    folder = Path(tempfile.mkdtemp(prefix="muntin-lookup-"))
    session = muntin.spark.local_session(cores=2, memory="6g")
    try:
        write(folder / "small", 50_000, 2_000)
        for what, calls in (("totals", TOTALS), ("with extremes", EXTREMES)):
            measure(
                session, folder / "small", what, calls, 50_000, 2_000
            )  # processes start, code is compiled
        rows = []
        for events, requests in ((200_000, 5_000),) if quick else sizes:
            write(folder / str(events), events, requests)
            rows += [
                measure(session, folder / str(events), what, calls, events, requests)
                for what, calls in (("totals", TOTALS), ("with extremes", EXTREMES))
            ]
            shutil.rmtree(folder / str(events))
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return Result("spark_lookup_at", "Features of requests on Spark", " ".join(NOTES.split()), COLUMNS, rows,
                  {"accounts": ACCOUNTS, "features": len(TOTALS) * len(WINDOWS)})  # fmt: skip


def write(folder: Path, events: int, requests: int) -> None:
    """Events in order of time, file by file, and requests in no order."""
    random = np.random.default_rng(1)
    (folder / "p").mkdir(parents=True)
    files = max(2, events // 5_000_000)
    for number in range(files):
        many = events * (number + 1) // files - events * number // files
        some = some_events(random, SPAN * number // files, SPAN * (number + 1) // files, many)
        pq.write_table(in_utc(some, "ts"), folder / "p" / f"{number:04}.parquet", row_group_size=1_000_000)
    asked = in_utc(make_requests(requests), "at")
    pq.write_table(asked, folder / "r.parquet", row_group_size=max(1, requests // 4))


def in_utc(table: pa.Table, column: str) -> pa.Table:
    """Times as Spark reads them back: instants."""
    place = table.column_names.index(column)
    return table.set_column(place, column, table[column].cast(pa.timestamp("us", "UTC")))


def measure(
    session: Any, folder: Path, what: str, calls: tuple[str, ...], events: int, requests: int
) -> dict[str, Any]:
    """All sides at one size; their answers must agree."""
    import muntin.spark

    history, asked = (session.read.parquet(str(folder / name)) for name in ("p", "r.parquet"))
    history.selectExpr("unix_micros(ts) AS us", "account", "amount", "items").createOrReplaceTempView("p")
    asked.selectExpr("id", "account", "unix_micros(at) AS us").createOrReplaceTempView("r")
    folder_of_events = muntin.spark.EventFolder(session, str(folder / "p"), timedelta(0), is_streaming=False)
    shards = max(2, events // SHARD)
    sides: dict[str, Callable[[], Any]] = {
        "muntin": lambda: muntin.spark.lookup_at(
            history, features(calls, WINDOWS), asked, stream="p", time="ts", shards=shards
        ),
        "folder": lambda: muntin.spark.lookup_at(
            folder_of_events, features(calls, WINDOWS), asked, stream="p", time="ts", shards=shards
        ),
    }
    if calls == TOTALS:
        sides["totals"] = lambda: session.sql(totals_sql())
    else:
        sides["functions"] = lambda: session.sql(functions_sql(calls))
    if events <= MOST_JOINED:
        sides["joined"] = lambda: session.sql(range_join(calls, WINDOWS))
    names = ["id", *(name_of(call, short) for short in WINDOWS for call in calls)]
    row: dict[str, Any] = {"what": what, "events": events, "requests": requests}
    ours, own = None, None
    for name, make in sides.items():
        spent = _run(session, make, folder / "answers")
        if spent is None:
            continue
        found = _some(session, folder / "answers", names)
        shutil.rmtree(folder / "answers")
        if ours is None:
            assert name == "muntin", "look-ups were not done in time"
            ours, own = spent, found
            row |= {"seconds": ours[0], "cpu": ours[1]}
            continue
        check(own, found)
        row |= {name: spent[0], f"{name}_ratio": spent[0] / ours[0]}
        row[f"{name}_cpu"] = spent[1] if name == "folder" else spent[1] / ours[1]
    print(row, flush=True)  # the next size may take an hour
    return row


def _run(session: Any, make: Callable[[], Any], out: Path) -> tuple[float, float] | None:
    """Seconds on the clock and of CPU for all rows of a DataFrame to be written; None if that is not done in time."""
    stopped = threading.Event()

    def stop() -> None:
        stopped.set()
        session.sparkContext.cancelAllJobs()

    timer = threading.Timer(LIMIT, stop)
    timer.start()
    began = time.perf_counter()
    try:
        with CpuMeter() as used:
            make().write.mode("overwrite").parquet(str(out))
    except Exception:
        if stopped.is_set():
            return None
        raise
    finally:
        timer.cancel()
    return time.perf_counter() - began, used.seconds


def _some(session: Any, out: Path, names: list[str]) -> pa.Table:
    """The answers to some of the requests, which are enough to compare."""
    return session.read.parquet(str(out)).where("id % 97 = 3").select(names).toArrow().sort_by("id")


def functions_sql(calls: tuple[str, ...]) -> str:
    """A RANGE frame for each window, over events and requests together; a request sees what lies before it."""
    items = [
        f"{call} OVER w{short} AS {name_of(call, short)}".replace("(*)", "(amount)")
        for short in WINDOWS
        for call in calls
    ]
    frames = [
        f"w{short} AS (PARTITION BY account ORDER BY us RANGE BETWEEN {length} PRECEDING AND 1 PRECEDING)"
        for short, length in WINDOWS.items()
    ]
    return (
        f"SELECT * FROM (SELECT id, {', '.join(items)} FROM (SELECT NULL AS id, account, us, amount, items FROM p "
        f"UNION ALL SELECT id, account, us, NULL, NULL FROM r) WINDOW {', '.join(frames)}) WHERE id IS NOT NULL"
    )


def totals_sql() -> str:
    """Running totals at the end of all windows, less those at the start of each."""
    marks = ["SELECT id, 0 AS mark, account, us FROM r"]
    marks += [
        f"SELECT id, {number}, account, us - {length} FROM r"
        for number, length in enumerate(WINDOWS.values(), start=1)
    ]
    total = (
        "SELECT id, mark, count(amount) OVER w AS n, sum(amount) OVER w AS amount, sum(items) OVER w AS items FROM ("
        f"SELECT id, mark, account, us, NULL AS amount, NULL AS items FROM ({' UNION ALL '.join(marks)}) "
        "UNION ALL SELECT NULL, NULL, account, us, amount, items FROM p) WINDOW w AS (PARTITION BY account "
        # a mark comes before the events of its own instant: NULLs come last in this order
        "ORDER BY us, mark ASC NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    )
    ends = [
        f"coalesce(max(CASE WHEN mark = {number} THEN {column} END), 0) AS {column}{number}"
        for number in range(len(WINDOWS) + 1)
        for column in ("n", "amount", "items")
    ]
    items = []
    for number, short in enumerate(WINDOWS, start=1):
        spans = (f"({column}0 - {column}{number})" for column in ("n", "amount", "items"))
        items += from_totals(TOTALS, short, *spans)
    return (
        f"SELECT id, {', '.join(items)} FROM (SELECT id, {', '.join(ends)} FROM ({total}) WHERE id IS NOT NULL "
        "GROUP BY id)"
    )
