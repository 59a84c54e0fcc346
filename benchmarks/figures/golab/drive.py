"""Driving an archive through a window of updates, with a probe after each and a scan after some, all timed.

Everything is on disk and flushed, as in real life. After the last update the keys are compared with what NumPy
finds alive.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.figures.golab.results import KEYS, UPDATES, Results
from muntin.archive import Archive
from muntin.archive.gather import compile_gather

SCANS = 3  # in a window of updates


@dataclass
class Spent:
    """Seconds of each call, of the clock and of work."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def time(self, action: Callable[[], Any]) -> Any:
        """Do something and remember how long it took."""
        before, cpu = time.perf_counter(), time.process_time()
        done = action()
        self.wall.append(time.perf_counter() - before)
        self.cpu.append(time.process_time() - cpu)
        return done


@dataclass
class Drive:
    """One indexing, driven through a window."""

    label: str
    results: Results
    updates: int = UPDATES
    update: Spent = field(default_factory=Spent)
    probe: Spent = field(default_factory=Spent)
    scan: Spent = field(default_factory=Spent)

    def run(self) -> dict[str, Any]:
        """Means of all that was measured."""
        compile_gather()
        folder = Path(tempfile.mkdtemp(prefix="muntin-figure-"))
        try:
            with Archive.create(folder / "archive", self.results.definition, self.label) as archive:
                for given in self.results.initial():
                    archive.update(self.results.window, **given)
                return self._measure(archive)
        finally:
            shutil.rmtree(folder)

    def _measure(self, archive: Archive) -> dict[str, Any]:
        random, touched, size = np.random.default_rng(7), [], []
        gc.collect()
        for number in range(self.updates):
            slot = UPDATES + number
            given = self.results.arguments(slot)
            now = (slot + 1) * self.results.every
            touched.append(self.update.time(lambda: archive.update(now, **given)))  # noqa: B023
            key = int(random.integers(KEYS))
            archive.view.probe(key)  # blocks that the update wrote are compared with their checksums once
            found = self.probe.time(lambda: _read(archive.view.probe(key)))  # noqa: B023
            expected = self.results.count_alive(slot, key)
            assert found == expected, (
                f"{self.label} finds {found} of {expected} results with key {key} at {now}"
            )
            size.append(sum(run.size for run in archive.view.epoch.runs()))
            if number % -(-self.updates // SCANS) == 0:
                self.scan.time(lambda: sum(_read(piece) for piece in archive.view.scan()))
        return {
            "label": self.label,
            "parts": archive.indexing.parts,
            "touched": fmean(each.parts for each in touched),
            "bytes_read": fmean(each.bytes_read for each in touched),
            "bytes_written": fmean(each.bytes_written for each in touched),
            "bytes": fmean(size),
            "dead": archive.view.stats()["dead"],
            **{f"{name}_ms": 1e3 * fmean(spent.wall) for name, spent in self._spent()},
            **{f"{name}_cpu_ms": 1e3 * fmean(spent.cpu) for name, spent in self._spent()},
        }

    def _spent(self) -> list[tuple[str, Spent]]:
        return [("update", self.update), ("probe", self.probe), ("scan", self.scan)]


def _read(rows: pa.Table) -> int:
    """Touch all of the rows, as whoever asked for them would; their number."""
    for column in rows.columns:
        for chunk in column.chunks:
            for buffer in chunk.buffers():
                if buffer is not None:
                    width = buffer.size // max(len(chunk) + chunk.offset, 1)
                    start = chunk.offset * width
                    np.frombuffer(buffer, np.uint8)[start : start + len(chunk) * width].max(initial=0)
    return int(rows.num_rows)
