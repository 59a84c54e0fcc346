"""Arrivals: how fast the inputs of count windows come, to guess when results will die.

A result over the last N events of a stream dies with the N-th event after its own: nobody knows when. The
rate and its trend are followed by Holt's double exponential smoothing, from update to update, and the
variance of its errors says how many slots around the guess have to be looked at (Golab, Prahladka
& Özsu, section 4.2; they take the current rate and one slot).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.archive.definition import EXPIRES, Definition
from muntin.described import COUNT, WHOLE, Maybe

_LEVEL, _TREND, _VARIANCE = 0.3, 0.1, 0.2  # weights of what is new
_FURTHEST = 8  # windows: no guess lies beyond


# as `describe` makes it
ARRIVALS = {"at": Maybe(WHOLE), "seen": [COUNT], "level": [float], "trend": [float], "variance": [float]}


@dataclass(frozen=True)
class Arrivals:
    """Events seen of each input, and their number per update: level, trend, variance of the error."""

    at: int | None = None
    seen: tuple[int, ...] = ()
    level: tuple[float, ...] = ()
    trend: tuple[float, ...] = ()
    variance: tuple[float, ...] = ()

    def observe(self, now: int, counts: tuple[int, ...], definition: Definition) -> Arrivals:
        """What is known after `counts` events have come of the inputs by `now`."""
        if self.at is None or now == self.at:
            nothing = (0.0,) * len(counts)
            return Arrivals(
                now, counts, self.level or nothing, self.trend or nothing, self.variance or nothing
            )
        updates = (now - self.at) / definition.every
        came = (np.array(counts) - np.array(self.seen)) / updates
        level, trend = np.array(self.level), np.array(self.trend)
        if not level.any():
            return Arrivals(now, counts, tuple(came.tolist()), self.trend, self.variance)
        error = came - (level + trend)
        return Arrivals(
            now,
            counts,
            tuple(np.maximum(level + trend + _LEVEL * error, 0.0).tolist()),
            tuple((trend + _LEVEL * _TREND * error).tolist()),
            tuple(((1 - _VARIANCE) * np.array(self.variance) + _VARIANCE * error**2).tolist()),
        )

    def guess(self, rows: pa.Table, now: int, definition: Definition) -> Any:
        """When each result will die, as a NumPy array: when the first of its inputs has left its window."""
        soonest = np.full(rows.num_rows, float(definition.window))
        rates = self._rates()
        if rates.any():
            soonest[:] = _FURTHEST * definition.window
        for name, size, seen, rate in zip(definition.inputs, definition.sizes, self.seen, rates, strict=True):
            if rate > 0:
                left = rows[name].to_numpy() + size - seen
                np.minimum(soonest, left / rate * definition.every, out=soonest)
        return now + np.maximum(np.ceil(soonest), 1).astype(np.int64)

    def with_guess(self, rows: pa.Table, now: int, definition: Definition) -> pa.Table:
        """The results with their guess as expiry."""
        guess = pa.array(self.guess(rows, now, definition))
        return rows.set_column(rows.column_names.index(EXPIRES), definition.schema.field(EXPIRES), guess)

    def reach(self, definition: Definition) -> int:
        """Slots before and after the current one that an update looks at: two standard deviations of what
        a guess a window ahead is off by, but at least one."""
        if definition.reach is not None:
            return definition.reach
        off = 1.0
        for rate, variance in zip(self._rates(), self.variance, strict=True):
            if rate > 0:
                off = max(off, 2 * (variance * definition.per_window) ** 0.5 / rate)
        return int(min(np.ceil(off), max(1, definition.per_window // 2)))

    def _rates(self) -> Any:
        level = np.array(self.level)
        return np.maximum(level + np.array(self.trend), level / 10)

    def describe(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Arrivals:
        """What `describe` described."""
        at = description["at"]
        return cls(at, *(tuple(description[name]) for name in ("seen", "level", "trend", "variance")))
