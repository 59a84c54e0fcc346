"""The processes below one, found in /proc."""

from __future__ import annotations

from pathlib import Path


def descendants(pid: int) -> dict[int, str]:
    """Command lines of all processes started by `pid` or by those it started, by their id."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):  # gone meanwhile
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            try:
                found[child] = (
                    (Path("/proc") / str(child) / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                )
            except OSError:
                continue
            waiting.append(child)
    return found
