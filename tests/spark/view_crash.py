"""Kills keepers of a view, again and again: `python -m tests.spark.view_crash FOLDER VIEW KILLS SEED`.

Each keeper is a child that goes on with micro-batches, without a JVM, until SIGKILL hits it before some step on the
disk or in the middle of a write. Sometimes the micro-batch that it had done comes again. After each, another child
compares what is there with the naive answer. A micro-batch that was reported to be done must be there, once.
"""

from __future__ import annotations

import os
import random
import struct
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from kept_views import Kept, Source  # noqa: E402

import muntin.spark.view_ledger as view_ledger  # noqa: E402
from muntin.archive import Archive  # noqa: E402
from tests.archive.crash import in_child, mine  # noqa: E402
from tests.view.naive import SECOND  # noqa: E402

BATCHES = 400


def source(batches: int = BATCHES) -> Source:
    """The micro-batches, always the same."""
    made = Source(11)
    for _ in range(batches):
        made.next()
    return made


def last_of(kept: Kept) -> int:
    """The last micro-batch that the view holds; -1 before the first."""
    there = (kept.owned.folder / "directory").exists()
    batch = kept.stored.epoch.batch if there else None
    return -1 if batch is None else batch


def keep(kept: Kept, given: Source, report: int, choice: random.Random) -> None:
    """Go on from where the view is, or with the last micro-batch once more; never returns by itself."""
    batch = max(last_of(kept) + choice.choice([0, 1]), 0)
    while True:
        kept.keeper.take(kept.frame(given.batches[batch]), batch)
        os.write(report, struct.pack("<q", batch))
        batch += 1


def verify(kept: Kept, given: Source, reported: int) -> None:
    last = last_of(kept)
    assert reported <= last, f"{reported} was reported, {last} is there"
    if last < 0:
        return
    now = given.instant(kept.owned.query.streams, last + 1)
    assert kept.stored.now == (None if now is None else now * SECOND), "the view stands elsewhere"
    if now is not None:
        before = Source(0)
        for batch in given.batches[: last + 1]:
            for name, events in batch.items():
                before.events[name] += events
        assert kept.held() == before.answer(kept.view, now), f"lost or doubled at {last}"
    with Archive.open(kept.owned.folder) as archive:
        archive.check()


def kill_one(kept: Kept, given: Source, choice: random.Random, reported: int) -> int:
    """Start a keeper that is killed; the last micro-batch that it reported."""
    reader, report = os.pipe()
    seed = choice.randrange(1 << 30)

    def life() -> None:
        own = random.Random(seed)
        mine(own)
        keep(kept, given, report, own)

    pid = in_child(life)
    os.close(report)
    said = b""
    while piece := os.read(reader, 1 << 16):
        said += piece
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit("the keeper failed by itself")
    return max(reported, *struct.unpack(f"<{len(said) // 8}q", said)) if said else reported


def main(folder: Path, view: str, kills: int, seed: int) -> int:
    """0 if all went well; prints what did not."""
    choice, reported, given = random.Random(seed), -1, source()
    few: Any = lambda entries, *_: entries >= 3  # noqa: E731
    view_ledger.outgrows = few
    kept = Kept(folder, view)
    for number in range(kills):
        reported = kill_one(kept, given, choice, reported)
        pid = in_child(lambda: verify(kept, given, reported))  # noqa: B023
        if os.waitpid(pid, 0)[1]:
            print(f"kill {number} of seed {seed}")
            return 1
    print(f"{kills} kills, reached {reported}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
