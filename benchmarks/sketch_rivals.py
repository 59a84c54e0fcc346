"""Other ways to approximate quantiles and counts of a sliding window, for benchmarks: see each class."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from muntin.kernels.sliding_counts import feed as feed_counts
from muntin.kernels.sliding_quantiles import feed as feed_quantiles

SLICES = 64  # that a window is cut into
RUN = 8192


class Ring:
    """Exact: the last elements as they came."""

    def __init__(self, window: int):
        self.value = np.zeros(2 * window, np.float64)
        self.window, self.end = window, 0

    def extend(self, value: np.ndarray) -> None:
        if self.end + len(value) > len(self.value):
            kept = self.value[self.end - self.window : self.end].copy()
            self.value[: self.window], self.end = kept, self.window
        self.value[self.end : self.end + len(value)] = value
        self.end += len(value)

    def quantiles(self, rows: int, phis: Sequence[float]) -> list[float]:
        window = self.value[self.end - rows : self.end]
        ranks = [max(1, int(np.ceil(phi * rows))) - 1 for phi in phis]
        found: list[float] = np.partition(window, ranks)[ranks].tolist()
        return found

    def counts(self, rows: int) -> dict[int, int]:
        item, count = np.unique(self.value[self.end - rows : self.end], return_counts=True)
        return dict(zip(item.astype(int).tolist(), count.tolist(), strict=True))

    def nbytes(self) -> int:
        return 8 * self.window


class WholeStreamQuantiles:
    """Greenwald-Khanna over all elements that ever came: it knows no windows."""

    def __init__(self, eps: float):
        self.eps, self.count = eps, 0
        self.value = np.zeros(0, np.int64)
        self.gap, self.spread = np.zeros(0, np.int32), np.zeros(0, np.int32)

    def extend(self, value: np.ndarray) -> None:
        for lo in range(0, len(value), RUN):
            run = np.sort(value[lo : lo + RUN]).view(np.int64)  # the benchmark's values are positive
            self.count += len(run)
            room = len(self.value) + len(run)
            parts = np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.int32)
            threshold = max(1, int(2 * self.eps * self.count))
            _, start = feed_quantiles(
                self.value, self.gap, self.spread, len(self.value), run, 1, threshold, *parts
            )
            self.value, self.gap, self.spread = (part[start:].copy() for part in parts)

    def quantiles(self, rows: int, phis: Sequence[float]) -> list[float]:
        least = np.cumsum(self.gap)
        middle = least + self.spread / 2
        found = [self.value[np.argmin(np.abs(middle - phi * self.count))] for phi in phis]
        values: list[float] = np.array(found, np.int64).view(np.float64).tolist()
        return values

    def nbytes(self) -> int:
        return self.value.nbytes + self.gap.nbytes + self.spread.nbytes


class WholeStreamCounts:
    """Misra-Gries over all elements that ever came: it knows no windows."""

    def __init__(self, eps: float):
        self.most, self.used, self.count = int(1 / eps), 0, 0
        self.item, self.often = np.zeros(self.most, np.int64), np.zeros(self.most, np.int64)

    def extend(self, item: np.ndarray) -> None:
        for lo in range(0, len(item), RUN):
            some, often = np.unique(item[lo : lo + RUN], return_counts=True)
            room = len(some) + self.most
            scratch = np.empty(room, np.int64), np.empty(room, np.int64)
            self.used, _ = feed_counts(
                self.item, self.often, self.used, some, often, len(some), self.most, *scratch
            )
            self.count += len(item[lo : lo + RUN])

    def counts(self, rows: int) -> dict[int, int]:
        """As if the window were like the whole stream."""
        found = zip(self.item[: self.used].tolist(), self.often[: self.used].tolist(), strict=True)
        return {item: often * rows // self.count for item, often in found}

    def nbytes(self) -> int:
        return self.item.nbytes + self.often.nbytes


class Sliced:
    """A sketch of another library for each slice of the window, merged when asked."""

    def __init__(
        self,
        window: int,
        make: Callable[[], Any],
        update: Callable[[Any, np.ndarray], None],
        slices: int = SLICES,
    ):
        self.make, self.update = make, update
        self.slice = window // slices
        self.sketches: deque[Any] = deque(maxlen=slices + 1)
        self.end = 0

    def extend(self, value: np.ndarray) -> None:
        while len(value):
            if self.end % self.slice == 0:
                self.sketches.append(self.make())
            room = self.slice - self.end % self.slice
            self.update(self.sketches[-1], value[:room])
            self.end += len(value[:room])
            value = value[room:]

    def merged(self, rows: int) -> Any:
        newest = -(-self.end // self.slice)
        oldest = (self.end - rows + self.slice - 1) // self.slice
        whole = self.make()
        for sketch in list(self.sketches)[-(newest - oldest) :]:
            whole.merge(sketch)
        return whole

    def quantiles(self, rows: int, phis: Sequence[float]) -> list[float]:
        merged = self.merged(rows)
        return [merged.get_quantile(phi) for phi in phis]

    def nbytes(self) -> int:
        return sum(len(sketch.serialize()) for sketch in self.sketches)


class SlicedItems(Sliced):
    """The same with frequent items."""

    def counts(self, rows: int) -> dict[int, int]:
        from datasketches import frequent_items_error_type

        listed = self.merged(rows).get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES)
        return {int(row[0]): int(row[2]) for row in listed}

    def nbytes(self) -> int:
        return sum(16 * sketch.num_active_items for sketch in self.sketches)


class ExponentialHistogram:
    """Datar, Gionis, Indyk & Motwani: counts of one item, for any window, from buckets of growing size."""

    def __init__(self, item: int, eps: float):
        self.item, self.most = item, int(np.ceil(1 / eps)) // 2 + 2
        self.end = 0
        self.levels: list[
            deque[int]
        ] = []  # of buckets of 2**level: the position of the newest element of each

    def extend(self, item: np.ndarray) -> None:
        for position in (self.end + np.flatnonzero(item == self.item)).tolist():
            level, newest = 0, position
            while True:
                if level == len(self.levels):
                    self.levels.append(deque())
                self.levels[level].append(newest)
                if len(self.levels[level]) <= self.most:
                    break
                self.levels[level].popleft()
                newest = self.levels[level].popleft()
                level += 1
        self.end += len(item)

    def counts(self, rows: int) -> dict[int, int]:
        start = self.end - rows
        sizes = [2**level for level, each in enumerate(self.levels) for newest in each if newest >= start]
        return {self.item: sum(sizes) - max(sizes, default=0) // 2}

    def nbytes(self) -> int:
        return 8 * sum(map(len, self.levels))


def true_counts(window: np.ndarray) -> Counter[int]:
    """How often each item occurs."""
    return Counter(window.tolist())


def update_each(sketch: Any, part: np.ndarray) -> None:
    """Numbers for a sketch of quantiles."""
    sketch.update(part)


def update_floats(sketch: Any, part: np.ndarray) -> None:
    """The same for one that knows short floats only."""
    sketch.update(part.astype(np.float32))


def update_items(sketch: Any, part: np.ndarray) -> None:
    """Items, counted beforehand: the library takes them one by one."""
    item, count = np.unique(part, return_counts=True)
    for each, number in zip(item.tolist(), count.tolist(), strict=True):
        sketch.update(each, number)
