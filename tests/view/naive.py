"""One view of each kind, and the oracle: all events ever, in a list; an answer is found by looking at each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin import Engine

SECOND = 1_000_000
KEYS = ["p", "q", "r", None]
DELAYS = {"a": 2, "b": 0, "c": 1}
STREAMS = "; ".join(
    f"CREATE STREAM {name} (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts DELAY {delay} SECONDS"
    for name, delay in DELAYS.items()
)
VIEWS = {
    "join": "SELECT a.k, a.n, b.n AS m FROM a [RANGE 10 SECONDS] JOIN b [RANGE 6 SECONDS] ON a.k = b.k",
    "wide": "SELECT a.k, a.n, b.n AS m, c.n AS o FROM a [RANGE 8 SECONDS] JOIN b [RANGE 6 SECONDS] ON a.k = b.k "
    "JOIN c [RANGE 10 SECONDS] ON c.k = b.k",
    "except": "SELECT k, n FROM a [RANGE 10 SECONDS] EXCEPT SELECT k FROM b [RANGE 4 SECONDS]",
    "exists": "SELECT n FROM a [RANGE 10 SECONDS] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 4 SECONDS] WHERE b.k = a.k)",
    "rows": "SELECT a.k, a.n, b.n AS m FROM a [ROWS 9] JOIN b [ROWS 5] ON a.k = b.k",
    "rows except": "SELECT k, n FROM a [ROWS 9] EXCEPT SELECT k FROM b [ROWS 2]",
    "mixed except": "SELECT k, n FROM a [ROWS 9] EXCEPT SELECT k FROM b [RANGE 4 SECONDS]",
}
EVERY = 2


def statement(view: str) -> str:
    return f'CREATE MATERIALIZED VIEW "{view}" AS {VIEWS[view]} EVERY {EVERY} SECONDS'


def engine_with(folder: Any, *views: str, **more: Any) -> Engine:
    engine = Engine(archive=folder, **more)
    engine.execute("; ".join([STREAMS, *map(statement, views)]))
    return engine


class Twin:
    """All events (time, key, number), by stream, in the order they came."""

    def __init__(self) -> None:
        self.events: dict[str, list[tuple[int, str | None, int]]] = {"a": [], "b": [], "c": []}

    def draw(self, random: np.random.Generator, since: int, until: int, most: int = 5) -> dict[str, slice]:
        """Events of each stream between two seconds, none of them late; where they are in the lists."""
        drawn = {}
        for name, held in self.events.items():
            count = int(random.integers(0, most + 1))
            at = (
                random.integers(since * SECOND // 500_000, until * SECOND // 500_000, count) * 500_000
            )  # ties
            greatest = max((event[0] for event in held), default=0)
            for moment in at.tolist() if DELAYS[name] else sorted(at.tolist()):
                moment = max(moment, greatest - DELAYS[name] * SECOND)
                greatest = max(greatest, moment)
                held.append((moment, KEYS[int(random.integers(0, 4))], len(held)))
            drawn[name] = slice(len(held) - count, len(held))
        return drawn

    def push(self, engine: Engine, chosen: dict[str, slice]) -> None:
        for name, where in chosen.items():
            if events := self.events[name][where]:
                at, keys, numbers = zip(*events, strict=True)
                engine.push(name, {"ts": list(at), "k": pa.array(keys, pa.string()), "n": list(numbers)})

    def window(
        self, name: str, now: int, seconds: int = 0, rows: int = 0
    ) -> list[tuple[int, str | None, int]]:
        seen = sorted((event for event in self.events[name] if event[0] < now * SECOND), key=lambda e: e[0])
        return seen[-rows:] if rows else [event for event in seen if event[0] >= (now - seconds) * SECOND]

    def answer(self, view: str, now: int) -> Counter[tuple[int, ...]]:
        """The numbers of the events of each row at an instant, in seconds."""
        if view == "join":
            return joined(self.window("a", now, 10), self.window("b", now, 6))
        if view == "rows":
            return joined(self.window("a", now, rows=9), self.window("b", now, rows=5))
        if view == "wide":
            pairs = joined(self.window("a", now, 8), self.window("b", now, 6))
            key = {event[2]: event[1] for event in self.events["b"]}
            c = self.window("c", now, 10)
            return Counter((x, y, z[2]) for x, y in pairs.elements() for z in c if z[1] == key[y])
        left = self.window("a", now, 10) if view in ("except", "exists") else self.window("a", now, rows=9)
        right = self.window("b", now, rows=2) if view == "rows except" else self.window("b", now, 4)
        blocked = {event[1] for event in right} - {None}
        return Counter((event[2],) for event in left if event[1] not in blocked)


def joined(left: list[Any], right: list[Any]) -> Counter[tuple[int, ...]]:
    """Pairs of two windows with the same key."""
    return Counter((x[2], y[2]) for x in left for y in right if x[1] is not None and x[1] == y[1])


def held(engine: Engine, view: str) -> Counter[tuple[int, ...]]:
    """What a view holds."""
    table = engine.lookup(view)
    names = [name for name in ("n", "m", "o") if name in table.column_names]
    return Counter(zip(*(table[name].to_pylist() for name in names), strict=True))


def is_complete(engine: Engine, view: str) -> bool:
    """What a view says of itself."""
    return told(engine, [view])[view][0]


def told(engine: Engine, views: Sequence[str]) -> dict[str, tuple[bool, int | None]]:
    """What views say of themselves: whether they are complete, and the instant of their last update in seconds."""
    tables = engine.select_many([f'SELECT COUNT(*) AS n FROM "{view}"' for view in views])
    ends = [table["window_end"].cast(pa.int64()).to_pylist()[0] for table in tables]
    return {
        view: (table["complete"].to_pylist() == [True], None if end is None else end // SECOND)
        for view, table, end in zip(views, tables, ends, strict=True)
    }
