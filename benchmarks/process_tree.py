"""CPU time of a process and of all it has started: Spark's JVM and its Python workers run outside this one."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int | None = None) -> float:
    """Seconds of CPU that a process (this one), its descendants and those of them that have ended have used."""
    found = _below(os.getpid() if pid is None else pid)
    return sum(each.own + each.ended for each in found.values())


class CpuMeter:
    """Seconds of CPU that this process and its descendants use while the meter is open.

    What a killed process has used, its parent does not learn if it is killed, too: Spark does that with workers that
    idle. So processes are looked at again and again, and what each was last seen to have used counts.
    """

    def __init__(self, every: float = 0.2) -> None:
        self._every = every  # seconds between two looks

    def __enter__(self) -> CpuMeter:
        self._before = {each: used.own for each, used in _below(os.getpid()).items()}
        self._seen = dict(self._before)
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._is_done.wait(self._every):
            self._look()

    def _look(self) -> None:
        self._seen |= {each: used.own for each, used in _below(os.getpid()).items()}

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self._thread.join()
        self._look()

    @property
    def seconds(self) -> float:
        return sum(self._seen.values()) - sum(self._before.values())


class _Used(NamedTuple):
    parent: int
    own: float  # seconds
    ended: float  # of children that have ended, and were waited for


def _below(top: int) -> dict[tuple[int, int], _Used]:
    """A process and its descendants, by id and start."""
    used: dict[int, tuple[int, _Used]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except (OSError, IndexError):  # gone meanwhile
                continue
            own, ended = (sum(map(int, fields[at : at + 2])) / _TICKS for at in (11, 13))
            used[int(entry.name)] = int(fields[19]), _Used(int(fields[1]), own, ended)
    return {(pid, start): each for pid, (start, each) in used.items() if _is_below(pid, top, used)}


def _is_below(pid: int, top: int, used: dict[int, tuple[int, _Used]]) -> bool:
    while pid != top and pid in used:
        pid = used[pid][1].parent
    return pid == top
