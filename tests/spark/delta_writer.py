"""Micro-batches into Delta tables by processes that are killed: `delta_writer.py KILLS SEED FOLDER...`.

Each process goes on after the last micro-batch that is committed, as Spark does: it writes down a micro-batch when
`append_to_delta` has returned. KILLS for each folder are killed just before they write that down, and as many at any
moment, in turns. The first kill is in the first micro-batch, which makes the table: between write and commit, or at any
moment of it.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import pyarrow as pa

from muntin.spark import append_to_delta

ROWS = 20


class Answers:
    """As much of a DataFrame as is asked for: the answers of a micro-batch."""

    def __init__(self, batch: int):
        self._batch, self.is_made = batch, False

    def toArrow(self) -> pa.Table:
        self.is_made = True
        first = self._batch * ROWS
        return pa.table({"query": ["q"] * ROWS, "n": list(range(first, first + ROWS))})


def committed(folder: Path) -> int:
    return len(list((folder / "commits").iterdir()))


def play_spark(folder: Path, dies_between: int | None, until: int) -> None:
    """Answer micro-batches; die between the write and the commit of one of them."""
    write = append_to_delta(str(folder / "table"), str(folder))
    for batch in range(committed(folder), until):
        write(Answers(batch), batch)  # type: ignore[arg-type]
        if batch == dies_between:
            os.kill(os.getpid(), signal.SIGKILL)
        (folder / "commits" / str(batch)).touch()


def in_child(folder: Path, dies_between: int | None, until: int, after: float | None) -> int:
    """How a process ended, which was killed after so many seconds if it had not ended by itself."""
    child = os.fork()
    if child == 0:
        try:
            play_spark(folder, dies_between, until)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def kill_writers(folder: Path, kills: int, chance: random.Random) -> None:
    first = chance.randrange(2)
    for kill in range(first, first + 2 * kills):
        last = committed(folder)
        if kill % 2:
            status = in_child(folder, None, 10**9, chance.uniform(0.0, 0.3 if last else 0.15))
        else:
            status = in_child(folder, last + chance.randrange(1, 3) if last else 0, 10**9, None)
        assert os.WIFSIGNALED(status), status
        assert os.WTERMSIG(status) == signal.SIGKILL
    assert in_child(folder, None, committed(folder) + 2, None) == 0


if __name__ == "__main__":
    kills, chance = int(sys.argv[1]), random.Random(int(sys.argv[2]))
    for folder in sys.argv[3:]:
        kill_writers(Path(folder), kills, chance)
