"""A day of trades, made up: thousands of symbols, a few of which trade most of the time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.figures.arasu_widom.workload import Ints

SECOND = 1_000_000
MINUTE = 60 * SECOND


@dataclass(frozen=True)
class TradeDay:
    """Trades in order of time: the id of the symbol, the instant in microseconds, and the shares traded.

    >>> day = trade_day(symbols=10, trades=1_000, rate=20.0, seed=1)
    >>> len(day.at), bool((np.diff(day.at) >= 0).all()), bool((day.shares >= 1).all())
    (1000, True, True)
    """

    symbol: Ints
    at: Ints
    shares: Ints
    symbols: int


def trade_day(symbols: int, trades: int, rate: float, seed: int) -> TradeDay:
    """`rate` trades a second on average; the n-th most frequent symbol has 1 / n of the trades of the first."""
    random = np.random.default_rng(seed)
    share = np.cumsum(1 / np.arange(1, symbols + 1))
    rank = np.searchsorted(share, random.random(trades) * share[-1])
    at = np.cumsum(random.exponential(SECOND / rate, trades)).astype(np.int64)
    shares = np.maximum(1, random.lognormal(5, 1.2, trades)).astype(np.int64)
    return TradeDay(random.permutation(symbols)[np.minimum(rank, symbols - 1)], at, shares, symbols)
