"""An engine with many windows over the trace, that answers all of them at every timestamp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.figures.patroumpas_sellis.connections import CREATE, SECOND, Batch, Ints
from benchmarks.figures.patroumpas_sellis.window_classes import in_seconds
from muntin import Engine
from muntin.plan.window_chain import Spec
from muntin.structure.synopsis import Asked

_NEVER = 2**62


class Standing:
    """Windows that sum bytes, registered as SQL, and what they must answer."""

    def __init__(self, windows: list[Spec], hint: str | None = None):
        asked = f"/*+ SYNOPSIS({hint}) */ " if hint else ""
        self.windows = windows
        self.names = [f"w{number}" for number in range(len(windows))]
        self.engine = Engine(adaptive=False)
        self.engine.execute(CREATE)
        self.engine.register_many(
            {
                name: f"SELECT {asked}SUM(bytes) AS total FROM connections {in_seconds(window)}"
                for name, window in zip(self.names, windows, strict=True)
            }
        )
        self._size, self._slide = np.array(windows).T * SECOND
        self.owe_nothing()

    def owe_nothing(self) -> None:
        """Nobody asks for closed windows, so that none are kept for being asked for."""
        self._shard.crowds.dissolve_all()
        for registration in self._shard.registrations.values():
            registration.emitted_to = _NEVER

    def owe_from(self, second: int) -> None:
        """Closed windows are asked for from now on."""
        self._shard.crowds.dissolve_all()
        for registration in self._shard.registrations.values():
            registration.emitted_to = second * SECOND

    @property
    def _shard(self) -> Any:
        return self.engine._shards["connections"].state

    @property
    def nbytes(self) -> int:
        """Bytes of state, as `stats` has them."""
        found: int = self.engine.stats()["streams"]["connections"]["bytes"]
        return found

    def push(self, batch: Batch) -> None:
        """One timestamp."""
        self.engine.push("connections", batch.columns())

    def answers(self, second: int) -> Ints:
        """What all windows have as of the start of a timestamp."""
        table = self.engine.lookup_many(self.names, at=second * SECOND)
        found: Ints = table["value"].fill_null(0).to_numpy()
        return found

    def closed(self, second: int) -> dict[str, Ints]:
        """What the windows have that closed since this was last asked, up to the start of a timestamp."""
        answers = self.engine.advance(until=second * SECOND)
        return {name: table["total"].fill_null(0).to_numpy() for name, table in answers.items()}

    def find(self, second: int) -> Ints:
        """What the structures have of every different window that slides at the start of a timestamp, before it
        becomes answers; in the order of `slid_windows`."""
        at, found = np.array([second * SECOND]), {}
        for number, synopsis in self._shard.synopses.items():
            needs = self._shard.manager.groups[number].needs.windows
            asked = {
                window: Asked(at, tuple(needs[window]))
                for window in needs
                if second * SECOND % window.slide == 0
            }
            found[number] = synopsis.lookup_all(asked, 1) if asked else {}
        sums = {
            (window.size // SECOND, window.slide // SECOND): int(each.partials[need][0][0])
            for some in found.values()
            for window, each in some.items()
            for need in each.partials
            if need.component == "sum"
        }
        return np.array([sums[window] for window in self.slid_windows(second)], np.int64)

    def slid_windows(self, second: int) -> list[Spec]:
        """The different windows that slide at the start of a timestamp."""
        return [window for window in dict.fromkeys(self.windows) if second % window[1] == 0]

    def check_found(self, batches: Sequence[Batch], second: int, found: Ints) -> None:
        """Compare what was found with NumPy."""
        right = dict(zip(self.windows, self.expected(batches, second), strict=True))
        wrong = [
            window
            for window, total in zip(self.slid_windows(second), found, strict=True)
            if right[window] != total
        ]
        assert not wrong, f"{wrong[0]} is not what NumPy has"

    def expected(self, batches: Sequence[Batch], second: int) -> Ints:
        """The same as `answers`, from prefix sums of NumPy."""
        at, total = np.concatenate([batch.at for batch in batches]), _prefixes(batches)
        end = second * SECOND // self._slide * self._slide
        lo, hi = np.searchsorted(at, end - self._size), np.searchsorted(at, end)
        return total[hi] - total[lo]

    def check(self, batches: Sequence[Batch], second: int, sample: int | None = None) -> None:
        """Compare the answers of all windows, or of a sample one by one, with NumPy."""
        right = self.expected(batches, second)
        if sample is None:
            found = self.answers(second)
        else:
            right = right[:sample]
            values = [self.engine.value(name, at=second * SECOND) for name in self.names[:sample]]
            found = np.array([value or 0 for value in values])
        self.compare(found, right)

    def check_closed(self, batches: Sequence[Batch], second: int, closed: dict[str, Ints]) -> None:
        """Compare what closed last with NumPy, and which windows did."""
        slid = np.flatnonzero(second * SECOND % self._slide == 0)
        assert set(closed) == {self.names[number] for number in slid}, "other windows closed than should have"
        found = self.expected(batches, second)
        right = found.copy()
        found[slid] = [closed[self.names[number]][-1] for number in slid]
        self.compare(found, right)

    def compare(self, found: Ints, right: Ints) -> None:
        """An error that names a window, if any is wrong."""
        wrong = np.flatnonzero(found != right)
        assert not len(wrong), f"{self.windows[wrong[0]]} is not what NumPy has"


def _prefixes(batches: Sequence[Batch]) -> Ints:
    return np.concatenate([[0], np.cumsum(np.concatenate([batch.bytes for batch in batches]))])
