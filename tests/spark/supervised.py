"""A driver that runs until its query has ended well, while processes of it are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from processes import descendants

DRIVER = Path(__file__).with_name("fault_driver.py")
STILL = 1_200  # seconds in which nothing happens at all: then nothing will
IN_A_ROW = 4  # failures that nobody provoked: Spark gives up on processes that a busy machine starts slowly

Victims = Callable[[int], list[int]]


def workers(pid: int) -> list[int]:
    """Python workers that run tasks: the ones forked by a daemon."""
    found = descendants(pid)
    return [each for each, line in found.items() if "daemon_with_muntin" in line and not descendants(each)]


def driver(pid: int) -> list[int]:
    """The JVM; the Python process beside it ends by itself."""
    return [each for each, line in descendants(pid).items() if "SparkSubmit" in line][:1]


def machine(pid: int) -> list[int]:
    """All processes at once."""
    return [*descendants(pid), pid]


def executor(pid: int) -> list[int]:
    return [each for each, line in descendants(pid).items() if "CoarseGrainedExecutorBackend" in line][:1]


class Patience:
    """How long to wait for what happens in a folder: as long as something does.

    A busy machine makes a run slow, and a limit on the whole of it would fail there."""

    def __init__(self, folder: Path):
        self._folder, self._seen, self._since, self._next = folder, (0, 0.0), time.monotonic(), 0.0

    def check(self) -> None:
        """Raise an AssertionError if nothing has been written for a long time. Looks every few seconds."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + 5
        seen = self._look()
        if seen != self._seen:
            self._seen, self._since = seen, now
        assert now - self._since < STILL, f"nothing has happened for {STILL} seconds"

    def _look(self) -> tuple[int, float]:
        times = []
        for path in self._folder.rglob("*"):
            with suppress(OSError):  # gone meanwhile
                times.append(path.stat().st_mtime)
        return len(times), max(times, default=0.0)


def supervise(
    folder: Path,
    victims: Victims,
    kind: str,
    *,
    master: str = "local[2,4]",
    sink: str = "files",
    due: Iterable[int] = (1, 3, 4),
    reached: Callable[[Path], int] | None = None,
    after: Callable[[], None] = lambda: None,
) -> int:
    """Run a query until it has ended well; how many times something was killed.

    Its processes are killed when as many micro-batches are done as `due` says (by default those that Spark has
    committed): at once, then some tenths of a second into the next one. `after` is called when a driver has ended."""
    waiting, kills, failed, patience = list(due), 0, 0, Patience(folder)
    reached = reached or committed
    while True:
        before = kills, reached(folder)
        with running(folder, master, sink, kind) as process:
            while process.poll() is None:
                patience.check()
                time.sleep(0.05)
                if waiting and reached(folder) >= waiting[0]:
                    time.sleep(0.3 * kills)
                    if hit := kill(victims(process.pid)):
                        waiting.pop(0)
                        kills += hit > 0
        after()
        if process.returncode == 0:
            return kills
        failed = failed + 1 if before == (kills, reached(folder)) else 0
        assert failed < IN_A_ROW, (folder / "log").read_text()[-4_000:]


def kill(pids: Iterable[int]) -> int:
    """Kill processes; how many of them were there."""
    hit = 0
    for each in pids:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
            hit += 1
    return hit


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A driver; it and all it has started are gone in the end."""
    with open(folder / "log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, str(DRIVER), str(folder), *arguments], stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        kill(machine(process.pid) if process.poll() is None else [])
        process.wait()


def committed(folder: Path) -> int:
    """Micro-batches that Spark knows to be done, of all runs."""
    return sum(each.name.isdigit() for each in folder.glob("checkpoint*/commits/*"))
