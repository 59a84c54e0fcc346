"""docs/concepts/restart.md, followed to the letter: an engine that is killed at random moments has all its answers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import muntin
from effort import some_of
from muntin.shard.emit.portion import portions

SECOND = 10**6
STREAMS = {
    "a": "CREATE STREAM a (ts TIMESTAMP, k VARCHAR, v BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS",
    "b": "CREATE STREAM b (ts TIMESTAMP, k VARCHAR, w BIGINT) TIMESTAMP BY ts DELAY 1 SECOND",
}
QUERIES = {
    "all": "SELECT SUM(v) AS n FROM a [RANGE 5 SECONDS SLIDE 1 SECOND]",
    "keyed": "SELECT k, SUM(v) AS n, MAX(v) AS m FROM a [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "changes": "SELECT k, SUM(w) AS n FROM b [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY k "
    "HAVING SUM(w) > 3 EMIT CHANGES",
    "counted": "SELECT k, SUM(v) AS n FROM a [ROWS 4 SLIDE 3] GROUP BY k",
    "pairs": "SELECT a.k AS k, v, w FROM a [RANGE 3 SECONDS SLIDE 1 SECOND] JOIN b [RANGE 3 SECONDS] "
    "ON a.k = b.k EMIT CHANGES",
    "pair count": "SELECT COUNT(*) AS n FROM a [RANGE 3 SECONDS SLIDE 1 SECOND] JOIN b [RANGE 3 SECONDS] ON a.k = b.k",
}  # fmt: skip
VIEWS = {
    "joined": "SELECT a.k AS k, v, w FROM a [RANGE 5 SECONDS] JOIN b [RANGE 5 SECONDS] ON a.k = b.k EVERY 1 SECOND",
    "unpaid": "SELECT k, v FROM a [RANGE 5 SECONDS] EXCEPT SELECT k FROM b [RANGE 5 SECONDS] EVERY 1 SECOND",
    "latest": "SELECT a.k AS k, v, w FROM a [ROWS 6] JOIN b [ROWS 6] ON a.k = b.k EVERY 1 SECOND",
}
Rows = list[dict[str, Any]]


def _sources(dice: random.Random) -> dict[str, Rows]:
    """Events of both streams, some out of order, some late: late ones count in offsets, too."""
    sources = {}
    for stream, value in (("a", "v"), ("b", "w")):
        now, rows = 0, []
        for _ in range(80):
            now += dice.randrange(SECOND)
            at = now - dice.choice([0] * 6 + [SECOND, 5 * SECOND])
            rows.append({"ts": at, "k": dice.choice("abcd"), value: dice.randrange(5)})
        sources[stream] = rows
    return sources


def _begin(archive: Path) -> muntin.Engine:
    engine = muntin.Engine(archive=archive, portion_rows=20)
    for text in STREAMS.values():
        engine.execute(text)
    engine.register_many(QUERIES)
    for name, text in VIEWS.items():
        engine.execute(f"CREATE MATERIALIZED VIEW {name} KEY (k) AS {text}")
    return engine


class Process:
    """One life of an engine: it pushes from where the checkpoint stood, and writes rows that survive it."""

    def __init__(self, folder: Path, sources: dict[str, Rows]):
        self.checkpoint = folder / "checkpoint"
        self.sources = sources
        if self.checkpoint.exists():
            self.engine = muntin.Engine.restore(self.checkpoint, archive=folder / "views", portion_rows=20)
        else:
            self.engine = _begin(folder / "views")
        self.position = {name: each["pushed"] for name, each in self.engine.stats()["streams"].items()}

    def push(self, dice: random.Random) -> None:
        stream = dice.choice(list(self.sources))
        batch = self.sources[stream][self.position[stream] :][: dice.randrange(1, 15)]
        if batch:
            self.engine.push(stream, {name: [row[name] for row in batch] for name in batch[0]})
            self.position[stream] += len(batch)

    def advance(self, written: dict[str, Rows], at_most: int = 10**9) -> None:
        """Some portions, or all of them."""
        for _, portion in zip(range(at_most), portions(self.engine), strict=False):
            for name, table in portion.items():
                written[name] += table.to_pylist()

    def views(self) -> dict[str, Rows]:
        return {name: self.engine.execute(f"SELECT k, v FROM {name}").to_pylist() for name in VIEWS}

    @property
    def is_done(self) -> bool:
        return all(self.position[name] == len(rows) for name, rows in self.sources.items())


def _undisturbed(
    folder: Path, sources: dict[str, Rows], seed: int
) -> tuple[dict[str, Rows], dict[str, Rows]]:
    dice, process = random.Random(seed), Process(folder, sources)
    written: dict[str, Rows] = {name: [] for name in QUERIES}
    while not process.is_done:
        process.push(dice)
    process.advance(written)
    views = process.views()
    process.engine.close()
    return written, views


@pytest.mark.parametrize("seed", range(some_of(5, 60)))
def test_nothing_is_lost_and_only_what_came_after_the_checkpoint_is_repeated(
    seed: int, tmp_path: Path
) -> None:
    """Kills between any two calls: rows of both lives, the repetition taken out, are those of one life, in order; views
    end with the same results, and keep theirs while the replay is behind them."""
    dice = random.Random(seed)
    sources = _sources(dice)
    expected, expected_views = _undisturbed(tmp_path / "one", sources, seed)
    folder = tmp_path / "many"
    written: dict[str, Rows] = {name: [] for name in QUERIES}
    safe = dict.fromkeys(QUERIES, 0)  # rows written when the checkpoint was taken
    process, kills, repeated = Process(folder, sources), 0, 0
    while not process.is_done or kills < 3:
        match dice.choice(["push"] * 6 + ["advance"] * 3 + ["checkpoint"] * 2 + ["kill"]):
            case "push":
                process.push(dice)
            case "advance":
                process.advance(written, dice.choice([1, 2, 100]))
            case "checkpoint":
                process.engine.checkpoint(process.checkpoint)
                safe = {name: len(rows) for name, rows in written.items()}
            case "kill":
                before = process.views()
                process.engine.close()  # which is all that the end of a process does to an archive
                process, kills = Process(folder, sources), kills + 1
                assert _values(process.views()) == _values(before), "an archive is ahead of its checkpoint"
                again = {name: rows[safe[name] :] for name, rows in written.items()}
                written = {name: rows[: safe[name]] for name, rows in written.items()}
                repeated += sum(map(len, again.values()))
                for name, rows in again.items():  # what is repeated is what was written before, as it was
                    assert expected[name][safe[name] :][: len(rows)] == rows, name
    process.advance(written)
    assert written == expected
    assert kills >= 3
    assert repeated
    assert _values(process.views()) == _values(expected_views)
    process.engine.check()
    process.engine.close()


def _values(views: dict[str, Rows]) -> dict[str, Rows]:
    """Without `complete`: an engine that goes on does not know what the archive's windows held before it. Rows of one
    key that leave together are in no order."""
    return {
        name: sorted(
            ({column: row[column] for column in row if column != "complete"} for row in rows), key=str
        )
        for name, rows in views.items()
    }
