"""A seeded stream of trades: the same events for the same seed, whatever the batching.

For tests of your own queries, and what the demo and the benchmarks push. A few symbols trade much and
most trade little (Zipf), prices walk at random, trade comes in bursts, and now and then a symbol gets
into a *mood*: it surges, or it falls while buyers pay the ask.

>>> trades = TradeStream(seed=7, symbols=100)
>>> trades.table(1_000).schema == trades.schema
True
>>> first = pa.Table.from_batches(trades.batches(1_000, batch_rows=300))
>>> first.equals(trades.table(1_000))
True
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.window import span

SECOND = 1_000_000
EXCHANGES = ("NASDAQ", "NYSE", "ARCA")
SIDES = ("ask", "bid")  # towards which price the trade went
BLOCK = 1 << 16  # events drawn at once; fixed, so that the batching changes nothing
FALL_PER_SECOND = 5e-4  # of the price of a falling symbol
MOODS_PER_SECOND = 0.25  # of event time, one symbol each; they last one to four minutes
_SLOTS = 1 << 20  # resolution of the table that turns a random number into a symbol

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.uint16]


@dataclass(frozen=True)
class TradeStream:
    """Trades of `symbols` symbols at about `rate` events per second of event time.

    A share of the events, `disorder`, arrives up to `delay` after younger ones and is still in time;
    a share `late` arrives after more than that. The most traded symbol is `ticker(0)`.
    """

    seed: int = 0
    symbols: int = 5_000
    rate: float = 5_000.0
    start: int = 1_704_205_800_000_000  # 2024-01-02 14:30, the opening bell in New York
    delay: int = 5 * SECOND
    disorder: float = 0.05
    late: float = 0.0
    skew: float = 1.0  # exponent of the Zipf law; 0 makes all symbols alike
    name: str = "trades"

    def __post_init__(self) -> None:
        if not 1 <= self.symbols <= 1 << 16:
            raise ValueError("a trade stream has 1 to 65,536 symbols")

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(
            [("ts", pa.timestamp("us")), ("symbol", pa.string()), ("exchange", pa.string()),
             ("side", pa.string()), ("price", pa.float64()), ("shares", pa.int64())]
        )  # fmt: skip

    @property
    def create_statement(self) -> str:
        """The statement that declares it to an engine."""
        return (
            f"CREATE STREAM {self.name} (ts TIMESTAMP, symbol VARCHAR, exchange VARCHAR, side VARCHAR, "
            f"price DOUBLE, shares BIGINT) TIMESTAMP BY ts DELAY {span(self.delay)}"
        )

    def batches(self, events: int | None = None, batch_rows: int = BLOCK) -> Iterator[pa.RecordBatch]:
        """The first `events` events (or endlessly many) in batches of `batch_rows`."""
        left = events if events is not None else float("inf")
        held: list[pa.RecordBatch] = []
        size = 0
        market = _Market(self)
        while left > 0:
            while size < min(batch_rows, left):
                held.append(market.next_block())
                size += BLOCK
            many = int(min(batch_rows, left))
            joined = held[0] if len(held) == 1 else pa.concat_batches(held)
            yield joined.slice(0, many)
            held, size, left = [joined.slice(many)], size - many, left - many

    def table(self, events: int) -> pa.Table:
        """The first `events` events."""
        return pa.Table.from_batches(self.batches(events, max(events, 1)), self.schema)


def ticker(rank: int) -> str:
    """The name of the symbol that is traded most after `rank` others.

    >>> ticker(0), ticker(1)
    ('CQAA', 'OPHZ')
    """
    number = 45_968 + rank * 210_443  # the factor is coprime to 26: of 26**4 names none comes twice
    return "".join(chr(ord("A") + number // 26**place % 26) for place in (3, 2, 1, 0))


class _Market:
    """The state the stream is drawn from: a price and a mood per symbol, and the time."""

    def __init__(self, stream: TradeStream):
        self.stream = stream
        self.random = np.random.default_rng(stream.seed)
        many = stream.symbols
        share = (1.0 + np.arange(many)) ** -stream.skew
        self.share: Floats = share / share.sum()
        edges = np.minimum(np.round(np.cumsum(self.share) * _SLOTS), _SLOTS).astype(np.int64)
        self.symbol_of_slot: Ids = np.searchsorted(edges, np.arange(_SLOTS), "right").astype(np.uint16)
        np.minimum(self.symbol_of_slot, many - 1, out=self.symbol_of_slot)
        self.log_price: Floats = np.clip(self.random.normal(4.0, 0.7, many), 1.0, 6.5)
        # Per trade, such that every symbol moves by about 1 % in 20 minutes however often it trades.
        self.step: Floats = np.minimum(3e-4 / np.sqrt(self.share * stream.rate), 3e-3)
        self.drift: Floats = np.zeros(many)
        self.towards_ask: Floats = np.full(many, 0.5)
        self.lots: Floats = np.ones(many)
        self.mood_ends = np.zeros(many, dtype=np.int64)  # number of the block
        self.surging: Ids = np.zeros(0, dtype=np.uint16)
        self.blocks = 0
        self.arrived = float(stream.start)
        self.symbol_names = pa.array([ticker(rank) for rank in range(many)])
        self.exchange_of_symbol = self.random.choice(3, many, p=[0.5, 0.35, 0.15]).astype(np.int8)

    def next_block(self) -> pa.RecordBatch:
        """Draw the next `BLOCK` events: O(events)."""
        self._change_moods()
        ids = self._draw_symbols()
        prices = self._walk(ids)
        asks = self.random.random(BLOCK, dtype=np.float32) >= self.towards_ask[ids]
        lots = self.random.standard_exponential(BLOCK, dtype=np.float32) * self.lots[ids]
        shares = 100 * (1 + (2.0 * lots).astype(np.int64))
        self.blocks += 1
        return pa.RecordBatch.from_arrays(
            [
                pa.array(self._draw_times(), pa.timestamp("us")),
                _named(ids, self.symbol_names),
                _named(self.exchange_of_symbol[ids], pa.array(EXCHANGES)),
                _named(asks.view(np.int8), pa.array(SIDES)),
                pa.array(prices),
                pa.array(shares),
            ],
            schema=self.stream.schema,
        )

    def _change_moods(self) -> None:
        over = np.flatnonzero(self.mood_ends == self.blocks)
        self.drift[over], self.towards_ask[over], self.lots[over] = 0.0, 0.5, 1.0
        seconds = BLOCK / self.stream.rate
        span = seconds if self.blocks else 120.0  # the stream begins in the middle of things
        for luck in self.random.random(self.random.poisson(MOODS_PER_SECOND * span)):
            symbol = int(luck**2 * self.stream.symbols)  # rather a busy one
            self.mood_ends[symbol] = self.blocks + 1 + int(self.random.uniform(60, 240) / seconds)
            if self.random.random() < 0.5:
                self.drift[symbol] = -FALL_PER_SECOND / (self.share[symbol] * self.stream.rate)
                self.towards_ask[symbol] = 0.85
            else:
                self.lots[symbol] = 8.0
        self.surging = np.flatnonzero(self.lots > 1.0).astype(np.uint16)

    def _draw_symbols(self) -> Ids:
        ids: Ids = self.symbol_of_slot[self.random.integers(0, _SLOTS, BLOCK, dtype=np.int32)]
        if len(self.surging):
            places = self.random.integers(0, BLOCK, BLOCK // 50)
            ids[places] = self.random.choice(self.surging, len(places))
        return ids

    def _walk(self, ids: Ids) -> Floats:
        """The price of each trade: every symbol's own random walk, continued from its last price."""
        order = np.argsort(ids, kind="stable")
        sorted_ids = ids[order]
        steps = self.random.standard_normal(BLOCK, dtype=np.float32)[order] * self.step[sorted_ids]
        moved = np.cumsum(steps + self.drift[sorted_ids])
        first = np.flatnonzero(np.r_[True, sorted_ids[1:] != sorted_ids[:-1]])
        before = np.r_[0.0, moved[first[1:] - 1]]
        lengths = np.diff(np.r_[first, BLOCK])
        walked = moved + np.repeat(self.log_price[sorted_ids[first]] - before, lengths)
        self.log_price[sorted_ids[first]] = walked[first + lengths - 1]
        prices = np.empty(BLOCK)
        prices[order] = np.round(np.exp(walked), 2)
        return prices

    def _draw_times(self) -> npt.NDArray[np.int64]:
        """Event times in order of arrival; the pace differs from block to block."""
        pace = self.random.gamma(4.0, 0.25)
        gaps = self.random.standard_exponential(BLOCK, dtype=np.float32) * (pace * SECOND / self.stream.rate)
        arrivals = self.arrived + np.cumsum(gaps, dtype=np.float64)
        self.arrived = float(arrivals[-1])
        times = arrivals.astype(np.int64)
        luck = self.random.random(BLOCK, dtype=np.float32)
        held_up = np.flatnonzero(luck < self.stream.disorder)
        times[held_up] -= (self.random.random(len(held_up)) * self.stream.delay).astype(np.int64)
        late = np.flatnonzero(luck > 1.0 - self.stream.late)
        times[late] -= 2 * self.stream.delay + self.random.integers(0, 10 * SECOND, len(late))
        return times


def _named(ids: npt.NDArray[np.integer], names: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(ids), names).cast(pa.string())


class WallClock:
    """A clock on the wall that stands still until it is set, to test streams with AHEAD.

    >>> clock = WallClock("2026-01-31 12:00:00")  # Engine(clock=clock)
    >>> clock.set("2026-01-31 13:00:00")
    >>> clock()
    '2026-01-31 13:00:00'
    """

    def __init__(self, now: Any):
        self._now = now

    def set(self, now: Any) -> None:
        """`now` is whatever the engine takes for an instant."""
        self._now = now

    def __call__(self) -> Any:
        return self._now
