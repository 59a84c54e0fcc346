"""Driving an archive through a window of updates, with a probe after each and a scan after some, all timed.

Everything is on disk and flushed, as in real life. After every update a probe is compared with what NumPy finds
alive. A cold drive has the system forget what it holds of the archive in memory before whatever is timed, so that
all of it comes from disk, as with results that are many times larger than memory.
"""

from __future__ import annotations

import gc
import os
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
from muntin.archive import Archive, Touched
from muntin.archive.rewrite import compile_gather

SCANS = 3  # in a window of updates
_READ = "read_bytes: "  # what a process has had read from disk, in /proc


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
    is_cold: bool = False
    update: Spent = field(default_factory=Spent)
    probe: Spent = field(default_factory=Spent)
    scan: Spent = field(default_factory=Spent)

    def run(self) -> dict[str, Any]:
        """Means of all that was measured."""
        compile_gather()
        folder = Path(tempfile.mkdtemp(prefix="muntin-figure-"))
        self._archive = Archive.create(folder / "archive", self.results.definition, self.label)
        try:
            self._build()
            return self._measure(folder / "archive")
        finally:
            self._archive.close()
            shutil.rmtree(folder)

    def _build(self) -> None:
        """The first window. What never deletes gets it update by update, so that its dead are there as well."""
        if self._archive.indexing.variant.sweeps:
            for given in self.results.initial():
                self._archive.update(self.results.window, **given)
        else:
            for slot in range(UPDATES):
                self._archive.update((slot + 1) * self.results.every, **self.results.arguments(slot))

    def _measure(self, folder: Path) -> dict[str, Any]:
        random, touched, size, from_disk = np.random.default_rng(7), [], [], []
        gc.collect()
        for number in range(self.updates):
            slot = UPDATES + number
            given = self.results.arguments(slot)
            now = (slot + 1) * self.results.every
            self._cool(folder)
            before = _bytes_from_disk()
            touched.append(self.update.time(lambda: self._archive.update(now, **given)))  # noqa: B023
            from_disk.append(_bytes_from_disk() - before)
            size.append(sum(run.size for run in self._archive.view.epoch.runs()))
            key = int(random.integers(KEYS))
            if not self.is_cold:  # blocks that the update wrote are compared with their checksums once
                self._archive.view.probe(key)
            self._cool(folder)
            found = self.probe.time(lambda: _read(self._archive.view.probe(key)))  # noqa: B023
            expected = self.results.count_alive(slot, key)
            assert found == expected, (
                f"{self.label} finds {found} of {expected} results with key {key} at {now}"
            )
            if number % -(-self.updates // SCANS) == 0:
                self._cool(folder)
                self.scan.time(lambda: sum(_read(piece) for piece in self._archive.view.scan()))
        return self._means(touched, size, from_disk)

    def _cool(self, folder: Path) -> None:
        """Have nothing of the archive in memory, if this is a cold drive: what is mapped would stay."""
        if self.is_cold:
            self._archive.close()
            del self._archive
            gc.collect()
            forget_cached(folder)
            self._archive = Archive.open(folder)

    def _means(self, touched: list[Touched], size: list[int], from_disk: list[int]) -> dict[str, Any]:
        return {
            "label": self.label,
            "parts": self._archive.indexing.parts,
            "touched": fmean(each.parts for each in touched),
            "bytes_read": fmean(each.bytes_read for each in touched),
            "bytes_written": fmean(each.bytes_written for each in touched),
            "bytes_from_disk": fmean(from_disk),
            "bytes": fmean(size),
            "dead": self._archive.view.stats()["dead"],
            **{f"{name}_ms": 1e3 * fmean(spent.wall) for name, spent in self._spent()},
            **{f"{name}_cpu_ms": 1e3 * fmean(spent.cpu) for name, spent in self._spent()},
        }

    def _spent(self) -> list[tuple[str, Spent]]:
        return [("update", self.update), ("probe", self.probe), ("scan", self.scan)]


def forget_cached(folder: Path) -> None:
    """Have the system forget what it holds in memory of the files of a folder, as far as they are on disk."""
    for path in folder.iterdir():
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def _bytes_from_disk() -> int:
    """That this process has had read so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.removeprefix(_READ)) for line in lines if line.startswith(_READ))


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
