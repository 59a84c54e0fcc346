"""What the benchmarks push and ask: seeded streams and query sets, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.testing import TradeStream

TRADES = TradeStream(seed=1, rate=2_000.0, disorder=0.02)
LONGEST = 600  # seconds; the same for every number of windows, so that only that number differs


@dataclass(frozen=True)
class WindowSet:
    """`count` different windows of up to ten minutes, for one aggregate query each.

    The first is the longest; the others start and end anywhere in it (historical windows).

    >>> WindowSet(2, keyed=False, slide=True).queries()["window_0"]
    'SELECT SUM(shares) AS volume, MAX(price) AS high FROM trades [RANGE 600 SECONDS SLIDE 1 SECOND]'
    """

    count: int
    keyed: bool
    slide: bool

    def queries(self) -> dict[str, str]:
        """The queries by name."""
        return {f"window_{n}": self._query(size, to) for n, (size, to) in enumerate(self.bounds())}

    def bounds(self) -> list[tuple[int, int]]:
        """Size and TO of each window in seconds."""
        pairs = [(size, to) for size in range(1, LONGEST + 1) for to in range(size)]
        return [(LONGEST, 0), *Random(1).sample(pairs[:-LONGEST], self.count - 1)]

    def _query(self, size: int, to: int) -> str:
        until = f" TO {to} SECONDS" if to else ""
        window = f"[RANGE {size} SECONDS{until}{' SLIDE 1 SECOND' if self.slide else ''}]"
        values = "SUM(shares) AS volume, MAX(price) AS high"
        if self.keyed:
            return f"SELECT symbol, {values} FROM trades {window} GROUP BY symbol"
        return f"SELECT {values} FROM trades {window}"


@dataclass(frozen=True)
class Events:
    """Events as plain arrays, to compute answers a second way."""

    ts: npt.NDArray[np.int64]
    symbol: npt.NDArray[np.int64]  # code; `names[code]` is the symbol
    names: list[str]
    price: npt.NDArray[np.float64]
    shares: npt.NDArray[np.int64]

    @staticmethod
    def of(batches: list[pa.RecordBatch]) -> Events:
        """The arrays of some batches."""
        table = pa.Table.from_batches(batches).combine_chunks()
        symbols = table["symbol"].combine_chunks().dictionary_encode()
        return Events(
            ts=table["ts"].cast(pa.int64()).to_numpy(),
            symbol=symbols.indices.to_numpy().astype(np.int64),
            names=symbols.dictionary.to_pylist(),
            price=table["price"].to_numpy(),
            shares=table["shares"].to_numpy(),
        )

    def between(self, start: int, end: int) -> Events:
        """The events with `start <= ts < end`."""
        inside = (self.ts >= start) & (self.ts < end)
        return Events(
            self.ts[inside], self.symbol[inside], self.names, self.price[inside], self.shares[inside]
        )

    def volume_and_high(self) -> dict[str, tuple[int, float]]:
        """Sum of shares and greatest price by symbol."""
        volume = np.zeros(len(self.names), np.int64)
        high = np.full(len(self.names), -np.inf)
        np.add.at(volume, self.symbol, self.shares)
        np.maximum.at(high, self.symbol, self.price)
        return {
            self.names[code]: (int(volume[code]), float(high[code]))
            for code in np.unique(self.symbol).tolist()
        }


MINUTE = 60_000_000
Draw = Callable[[np.random.Generator, int], Any]  # so many values of a column


def minute_of_events(
    number: int, events: int, columns: Mapping[str, Draw], batches: int = 10
) -> list[pa.Table]:
    """The events of a minute of event time, in so many batches; the same whenever it is asked for.

    >>> columns = {"n": lambda random, many: random.integers(0, 9, many)}
    >>> [table.num_rows for table in minute_of_events(3, 40, columns, 2)]
    [20, 20]
    """
    random = np.random.default_rng(number)
    size, length = events // batches, MINUTE // batches
    tables = []
    for part in range(batches):
        begin = number * MINUTE + part * length
        drawn = {"ts": begin + np.sort(random.integers(0, length, size))}
        tables.append(pa.table(drawn | {name: draw(random, size) for name, draw in columns.items()}))
    return tables
