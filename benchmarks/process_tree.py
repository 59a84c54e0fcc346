"""CPU time of a process and of all it has started: Spark's JVM and its Python workers run outside this one."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int | None = None) -> float:
    """Seconds of CPU that a process (this one), its descendants and those of them that have ended have used."""
    used: dict[int, tuple[int, float]] = {}  # parent and seconds
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except (OSError, IndexError):  # gone meanwhile
                continue
            used[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15])) / _TICKS
    top = os.getpid() if pid is None else pid
    return sum(seconds for each, (_, seconds) in used.items() if _is_below(each, top, used))


def _is_below(pid: int, top: int, used: dict[int, tuple[int, float]]) -> bool:
    while pid != top and pid in used:
        pid = used[pid][0]
    return pid == top
