"""A run window: the partials of one key over one window, read from the run of the key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from muntin.aggregates.component import COMPONENTS
from muntin.kernels.key_runs import read_run
from muntin.store.key_runs import KeyRuns
from muntin.store.needs import Need, dtype_of
from muntin.window import Window


class RunWindow:
    """Reads some needs of one key after the other."""

    def __init__(
        self, runs: KeyRuns, window: Window, needs: Sequence[Need], is_ready: Callable[[Window, int], bool]
    ):
        """`is_ready` says whether the runs have all events of a window that is looked up at an instant."""
        self._runs = runs
        self._is_ready = is_ready
        self._window = window
        self._needs = [(need, read_run(COMPONENTS[need.component].kind(dtype_of(need)))) for need in needs]
        self._settled = 0

    def locate(self, settled: int) -> bool:
        """Have the window end at an instant; False if some of it may be missing here."""
        self._settled = settled
        return self._is_ready(self._window, settled)

    def partials(self, id: int) -> list[Any]:
        """The partial of each need as plain numbers; nothing if the key has no event in the window. O(log entries)."""
        lo, hi = self._run(id)
        if lo >= hi:
            return []
        runs = self._runs
        return [
            (hi - lo,) if runs.counts_entries(need) else read(id, lo, hi, *runs.entries_of(need))
            for need, read in self._needs
        ]

    def _run(self, id: int) -> tuple[int, int]:
        runs, window = self._runs, self._window
        if window.is_time:
            return runs.find(id, window.start(self._settled), self._settled - window.to)
        left, before = runs.counts(id, self._settled)
        count = window.settle_count(left + before)
        return max(0, count - window.size - left), count - window.to - left
