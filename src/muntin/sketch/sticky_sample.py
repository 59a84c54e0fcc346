"""A sticky sample of a stream: what randomised counts and quantiles are made of.

The newest elements are all kept; older ones are thinned, `chunk` elements at a time, to one in 2**r. For
windows of any length r grows with age, as the window that reaches so far back can afford; for windows of at
most W elements it is the same for all. Which elements are kept depends on the seed and their positions alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import ceil, log2
from typing import Any

import numpy as np

from muntin.arrays import LONG_AGO, Arrays, Bools, Ints, slots
from muntin.kernels.sticky_sample import thin
from muntin.sketch.geometry import check_eps, saved_eps
from muntin.store.columns import Columns
from muntin.store.saved import COUNTS, Saved

_COLUMNS: dict[str, np.dtype[Any]] = {
    "code": np.dtype(np.int64),
    "count": np.dtype(np.int64),
    "position": np.dtype(np.int64),
    "at": np.dtype(np.int64),
    "level": np.dtype(np.int8),
}
_HIGHEST = 40
_LARGEST_CHUNK, _SMALLEST_CHUNK = 2**13, 2**6


class StickySample(ABC):
    """Elements are codes, numbered from 0."""

    def __init__(self, eps: float, delta: float, window: int | None, seed: int, counts: bool):
        check_eps(eps)
        check_delta(delta)
        self.eps, self.delta = eps, delta
        needed = self.needed(eps, delta)
        self.window = window
        self.seed = seed
        self.counts = counts
        self.end = 0
        self.needed_from = 0
        if window is None:
            self._youngest, self._highest = 1 << ceil(log2(needed)), _HIGHEST
        else:
            self._youngest, self._highest = 0, max(0, ceil(log2(window / needed)) - 1)
        # longer chunks are faster to take in, but kept whole: not more than a small part of a window
        self.chunk = (
            _LARGEST_CHUNK if window is None else min(_LARGEST_CHUNK, 1 << max(6, window.bit_length() - 5))
        )
        self._kept = Columns(_COLUMNS)

    @staticmethod
    @abstractmethod
    def needed(eps: float, delta: float) -> float:
        """So many elements, at least, must be kept of every window that has more."""

    def error_bound(self, count: int) -> float:
        """How wrong an answer over `count` elements may be, but for a chance of delta."""
        return self.eps * (self.window or count)

    @property
    def kept_from(self) -> int:
        """The first element that a window can be asked from."""
        return max(self.needed_from, self.end - self.window if self.window else 0)

    def extend_codes(self, code: Ints, valid: Bools, at: Ints | None) -> None:
        """Take in elements; of those that are not `valid` only the position counts."""
        done = 0
        while done < len(code):
            size = min(len(code) - done, self.chunk - self.end % self.chunk)
            part = slice(done, done + size)
            some = np.flatnonzero(valid[part])
            self._kept.extend(
                {
                    "code": code[part][some],
                    "count": np.ones(len(some), np.int64),
                    "position": self.end + some,
                    "at": np.zeros(len(some), np.int64) if at is None else at[part][some],
                    "level": np.zeros(len(some), np.int8),
                }
            )
            self.end, done = self.end + size, done + size
            if self.end % self.chunk == 0:
                self._thin()

    def forget(self, needed_from: int) -> None:
        """Windows will start at this element or later; what is older goes."""
        self.needed_from = min(max(needed_from, self.needed_from), self.end)
        self._drop()

    def forget_before(self, instant: int) -> None:
        """Windows will start at this instant or later."""
        gone = int(np.searchsorted(self._kept["at"], instant))
        if gone:
            self.forget(int(self._kept["position"][gone - 1]) + 1)

    def time_of_last(self, rows: int) -> int:
        """The time of the first element that is kept of the last `rows`; LONG_AGO if there is none."""
        first = self._from(rows, None)
        return int(self._kept["at"][first]) if first < len(self._kept) else LONG_AGO

    def item_bounds(self) -> tuple[int, int]:
        """The least and the greatest item that is kept."""
        code = self._kept["code"]
        return int(code.min(initial=0)), int(code.max(initial=0))

    def mark_items(self, used: Bools) -> None:
        """Set `used` for every item that is kept; items are codes of a dictionary."""
        used[self._kept["code"]] = True

    def renumber_items(self, new_code: Ints) -> None:
        """Items have other codes from now on."""
        self._kept["code"][:] = new_code[self._kept["code"]]

    def _from(self, rows: int | None, since: int | None) -> int:
        """Index of the first that is kept of a window."""
        if since is not None:
            return int(np.searchsorted(self._kept["at"], since))
        start = self.kept_from if rows is None else max(self.end - rows, self.kept_from)
        return int(np.searchsorted(self._kept["position"], start))

    def _drop(self) -> None:
        self._kept.drop_first(int(np.searchsorted(self._kept["position"], self.kept_from)))

    def _thin(self) -> None:
        self._drop()
        used = len(self._kept)
        table = slots(used if self.counts else 0)
        columns = [self._kept[name] for name in _COLUMNS]
        kept = thin(*columns, used, self.end, self._youngest, self._highest, self.seed, self.counts, table)
        self._kept.truncate(kept)

    def coarsen(self) -> bool:
        """Promise only twice the error from now on; False if there is no more to give."""
        needed = self.needed(2 * self.eps, self.delta)
        if self.eps > 0.25 or self.window is not None or needed < 16:
            return False
        self._youngest = 1 << ceil(log2(needed))
        self._thin()
        self.eps *= 2
        return True

    def shorten(self) -> bool:
        """Thin out twice as soon from now on; False if that is no gain."""
        if self.window is not None or self.chunk <= _SMALLEST_CHUNK:
            return False
        self.chunk //= 2
        if self.end % self.chunk == 0:
            self._thin()
        self._kept = self._kept.copy()
        return True

    def newest(self) -> tuple[Ints, Ints] | None:
        """Codes and times of all elements that are needed, if all of them are kept; else None."""
        if len(self._kept) and int(self._kept["level"].max()) > 0:
            return None
        return self._kept["code"].copy(), self._kept["at"].copy()

    @property
    def unsettled(self) -> int:
        """How many elements can come before any of them may go."""
        return self.chunk - 1 - self.end % self.chunk

    def entries(self) -> int:
        """Elements that are kept."""
        return len(self._kept)

    def bytes_for(self, count: int) -> int:
        """About what so many elements would take, at most."""
        return self._entries_for(count) * sum(dtype.itemsize for dtype in _COLUMNS.values())

    def most_entries(self) -> int:
        """What `entries` can be for as many elements as are needed now."""
        return self._entries_for(self.end - self.kept_from)

    def _entries_for(self, count: int) -> int:
        if self.window is not None:
            return (count >> self._highest) + 2 + self.chunk
        doublings = max(0, (count // self._youngest).bit_length())
        return self._youngest * (doublings + 2) + 2 * self.chunk

    def nbytes(self) -> int:
        """Bytes of state."""
        return self._kept.nbytes()

    def snapshot(self) -> Arrays:
        """State as named arrays."""
        meta = np.array([self.end, self.needed_from, self._kept.dropped, self._youngest], np.int64)
        return {
            "meta": meta,
            "eps": np.array([self.eps]),
            **{name: self._kept[name].copy() for name in _COLUMNS},
        }

    def restore(self, saved: Saved) -> None:
        """Go on from a snapshot of a sample with the same delta and seed."""
        self.eps = saved_eps(saved)
        self.end, self.needed_from, dropped, self._youngest = saved.numbers(
            "meta", COUNTS, COUNTS, COUNTS, (0, 2**_HIGHEST)
        )
        position = saved.ints("position", (0, self.end - 1), order="strictly")
        length = len(position)
        if self.needed_from > self.end or (self._youngest == 0) != (self.window is not None):
            raise saved.damaged("meta", "contradicts itself")
        self._kept.replace(
            {
                "code": saved.array("code", _COLUMNS["code"], length),
                "count": saved.ints("count", (1, max(1, self.end)), length),
                "position": position,
                "at": saved.times("at", length),
                "level": saved.ints("level", (0, _HIGHEST), length, dtype=_COLUMNS["level"]),
            }
        )
        self._kept.dropped = dropped

    def copy(self) -> Any:
        """A sample of its own in the same state."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._kept = self._kept.copy()
        return other

    def check(self) -> None:
        """Assert every invariant."""
        self._kept.check()
        position, level = self._kept["position"], self._kept["level"].astype(np.int64)
        # positions ascend, and no block has two samples
        assert bool((np.diff(position) > 0).all())
        same = np.diff(position >> level) == 0
        assert not bool((same & (np.diff(level) == 0)).any())
        # all that is kept is needed, but for what came since the last chunk
        assert not len(position) or position[0] >= self.kept_from - self.chunk


def check_delta(delta: float) -> None:
    """ValueError unless it is a chance worth promising."""
    if not 0 < delta <= 0.5:
        raise ValueError(f"delta must lie in (0, 0.5], not {delta}")
