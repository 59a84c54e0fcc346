"""A made-up day of trades, and which symbols were busy in it: what Figure 12 is measured on.

The paper had a day of TAQ trades of about 5,000 symbols. Here the shares of the symbols follow Zipf's law.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
MINUTE = 60 * 10**6  # stamps are microseconds
HOURS = 6.5
WINDOWS = tuple(quarter * 15 * MINUTE for quarter in range(1, 13))  # 15 minutes to 3 hours
SELECTIVITY = 0.04  # the part of the symbols above a threshold; the paper has .03 to .05


@dataclass(frozen=True)
class Day:
    """Trades in the order of time: `symbol[i]` at `at[i]`."""

    symbols: int
    symbol: Ints
    at: Ints

    @cached_property
    def place(self) -> Ints:
        """Where the trades of each symbol begin when they lie symbol by symbol; and where they end."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.symbol, minlength=self.symbols))])

    def first_after(self, time: int) -> int:
        """The first trade at an instant or later."""
        return int(np.searchsorted(self.at, time))

    def counts(self, since: int, stop: int) -> Ints:
        """Trades of each symbol since an instant, up to trade `stop`: by NumPy alone."""
        return np.bincount(self.symbol[self.first_after(since) : stop], minlength=self.symbols)

    def threshold(self, window: int, stop: int) -> int:
        """The count that SELECTIVITY of the symbols exceed, over a window that ends with trade `stop`."""
        counts = np.sort(self.counts(int(self.at[stop - 1]) + 1 - window, stop))
        return int(counts[-round(SELECTIVITY * self.symbols)])


def trade_day(symbols: int, trades: int, seed: int) -> Day:
    """Trades uniform over the day; symbol number k has a share that goes with 1 / (k + 1)."""
    random = np.random.default_rng(seed)
    share = 1 / np.arange(1, symbols + 1)
    symbol = random.choice(random.permutation(symbols), trades, p=share / share.sum())
    return Day(symbols, symbol, np.sort(random.integers(0, round(HOURS * 60) * MINUTE, trades)))


@dataclass(frozen=True)
class Asked:
    """A look-up after each of some trades: the symbols with more than `v` trades in the last `window`."""

    first: int  # trade after which the first one comes
    window: Ints
    v: Ints

    def since(self, day: Day) -> Ints:
        """When the windows begin: they end just after the trade."""
        return day.at[self.first : self.first + len(self.window)] + 1 - self.window


def look_ups(day: Day, first: int, count: int, seed: int) -> Asked:
    """Windows drawn uniformly, with thresholds that were right for them when the first trade came."""
    choice = np.random.default_rng(seed).integers(0, len(WINDOWS), count)
    thresholds = np.array([day.threshold(window, first) for window in WINDOWS])
    return Asked(first, np.array(WINDOWS)[choice], thresholds[choice])
