"""Kills writers of an archive, again and again: `python -m tests.archive.crash FOLDER KILLS SEED`.

Each writer is a child that goes on with updates, and now and then a migration, until SIGKILL hits it: before
some step on the disk, in the middle of a write, or whenever the clock says. After each, another child opens
what is there and compares it with the oracle. What an update has reported to be done must be there.
"""

from __future__ import annotations

import os
import random
import signal
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from muntin.archive import Archive, View, disk
from tests.archive.naive import Oracle, bag, definition, result, table

LABELS = (
    "rebuild 2x2",
    "no_rebuild 3x3",
    "lazy_rebuild 3x3",
    "wata 3",
    "reindex 3",
    "none 2x2",
    "rebuild 3x3",
)
WINDOW, EVERY = 16, 2


def results_of(now: int) -> list[dict]:
    """The results that come with the update at `now`, always the same."""
    chance = random.Random(now)
    ages = [chance.randrange(WINDOW) for _ in range(chance.randrange(25))]
    return [result(chance.randrange(4), now, max(0, now - age), WINDOW) for age in ages]


def write(folder: Path, report: int, choice: random.Random) -> None:
    """Go on with updates from where the archive is; never returns by itself."""
    archive = Archive.open(folder)
    while True:
        if choice.random() < 0.1:
            archive.migrate(choice.choice(LABELS), choice.choice(["stop", "parallel"]))
        now = (archive.view.now or 0) + EVERY
        archive.update(now, table(results_of(now), archive.definition.schema.names), batch=now)
        os.write(report, struct.pack("<q", now))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def mine(choice: random.Random) -> None:
    """Have a step on the disk be the last: one of those that come, or half a write."""
    left = choice.randrange(1, 60)
    in_the_middle = choice.random() < 0.4

    def last(call: Callable, is_write: bool = False) -> Callable:
        def counted(*arguments: object, **named: object) -> object:
            nonlocal left
            left -= 1
            if left <= 0 and is_write and in_the_middle:
                content = memoryview(arguments[1]).cast("B")  # type: ignore[arg-type]
                call(arguments[0], content[: choice.randrange(len(content) + 1)])
            if left <= 0 and (is_write or not in_the_middle):
                die()
            return call(*arguments, **named)

        return counted

    from muntin.archive import segment

    disk.os.fsync, disk.os.replace = last(os.fsync), last(os.replace)
    disk.open = last(open)  # type: ignore[attr-defined]
    disk.write = segment.write = last(disk.write, is_write=True)
    Path.unlink = last(Path.unlink)  # type: ignore[method-assign]


def verify(folder: Path, reported: int) -> None:
    """Open what a killed writer left, and compare it with the oracle."""
    view = View.open(folder)
    reached = view.now or 0
    assert reported <= reached, f"{reported} was reported, {reached} is there"
    oracle = Oracle(now=reached)
    for now in range(EVERY, reached + 1, EVERY):
        oracle.results += results_of(now)
    assert bag(view.read_all()) == bag(oracle.alive()), f"lost or doubled at {reached}"
    with Archive.open(folder) as archive:
        archive.check()
        there = {path.name for path in folder.iterdir()}
        assert there == archive.view.epoch.files() | {"directory", "lock"}, "leftovers"


def in_child(action: Callable[[], None]) -> int:
    """The child's process id; it ends with 0 if the action does not fail."""
    sys.stdout.flush()
    if pid := os.fork():
        return pid
    try:
        action()
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        os._exit(1)
    os._exit(0)


def kill_one(folder: Path, choice: random.Random, reported: int) -> int:
    """Start a writer and kill it; the instant of the last update it reported."""
    reader, report = os.pipe()
    by_clock = choice.random() < 0.3
    seed = choice.randrange(1 << 30)

    def life() -> None:
        own = random.Random(seed)
        if not by_clock:
            mine(own)
        write(folder, report, own)

    pid = in_child(life)
    os.close(report)
    if by_clock:
        time.sleep(choice.random() * 0.3)
        os.kill(pid, signal.SIGKILL)
    said = b""
    while piece := os.read(reader, 1 << 16):
        said += piece
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit("the writer failed by itself")
    return struct.unpack("<q", said[-8:])[0] if said else reported


def main(folder: Path, kills: int, seed: int) -> int:
    """0 if all went well; prints what did not."""
    choice, reported = random.Random(seed), 0
    if os.waitpid(in_child(lambda: Archive.create(folder, definition(WINDOW, EVERY), LABELS[0]).close()), 0)[
        1
    ]:
        return 1
    for number in range(kills):
        reported = kill_one(folder, choice, reported)
        pid = in_child(lambda: verify(folder, reported))  # noqa: B023
        if os.waitpid(pid, 0)[1]:
            print(f"kill {number} of seed {seed}")
            return 1
    print(f"{kills} kills, reached {reported}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
