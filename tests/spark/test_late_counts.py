"""Late events are counted by time alone: the number depends neither on folding nor on what queries let pass."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from shards import Shards

import muntin
from effort import some_of
from muntin.stream import Stream

SECOND = 1_000_000
DELAY = 3 * SECOND
STREAM = Stream(
    "s", pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64())]), "ts", DELAY
)
KEYED = "SELECT k, SUM(v) AS total FROM s [RANGE {size} SECONDS SLIDE {slide} SECONDS] {where} GROUP BY k"
PLAIN = "SELECT MAX(v) AS top FROM s [RANGE {size} SECONDS SLIDE {slide} SECONDS] {where}"
WHERES = ("", "WHERE v > 40", "WHERE v > 1000", "WHERE k = 'a'")


def batches(random: np.random.Generator, unit: int) -> list[pa.Table]:
    """Micro-batches in which about a third of the events are late by what came before; each in order of time."""
    made, reached = [], 20 * SECOND
    for _ in range(6):
        at = reached + random.integers(-12 * SECOND, 8 * SECOND, int(random.integers(1, 40)))
        at = np.sort(at // unit * unit)
        reached = max(reached, int(at[-1]))
        keys = np.array(["a", "b", "c"])[random.integers(0, 3, len(at))]
        made.append(
            pa.table(
                {"ts": pa.array(at, pa.timestamp("us")), "k": keys, "v": random.integers(0, 60, len(at))}
            )
        )
    return made


def late_by(tables: list[pa.Table], step: int) -> int:
    """How many events lie before the watermark as the micro-batches before left it; those of slices, if these have
    ended by then."""
    late, watermark = 0, -(2**62)
    for table in tables:
        at = table["ts"].cast(pa.int64()).to_pylist()
        late += sum(each // step * step + step <= watermark for each in at)
        watermark = max(watermark, max(at) - DELAY)
    return late


def counted(tables: list[pa.Table], queries: dict[str, str], tasks: int, **options: object) -> int:
    """Each micro-batch is read by several tasks."""
    shards = Shards(STREAM, queries, shards=3, **options)
    for table in tables:
        shards.send([table.slice(task * len(table) // tasks, (task + 1) * len(table) // tasks
                                 - task * len(table) // tasks).to_batches() for task in range(tasks)])  # fmt: skip
    return shards.late


@pytest.mark.parametrize("seed", range(some_of(6, 50)))
def test_folded_whole_and_embedded_count_the_same(seed: int) -> None:
    """With times in whole seconds a slice of a second has ended when its events are late, so that all rules agree."""
    random = np.random.default_rng(seed)
    tables = batches(random, SECOND)
    some = [
        str(random.choice([KEYED, PLAIN])).format(
            size=int(random.integers(1, 5)) * 4, slide=1, where=random.choice(WHERES)
        )
        for _ in range(int(random.integers(1, 4)))
    ]
    queries = {f"q{number}": text for number, text in enumerate(some)}
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k VARCHAR, v BIGINT) TIMESTAMP BY ts DELAY 3 SECONDS")
    engine.register_many(queries)
    for table in tables:
        engine.push("s", table)
    late = late_by(tables, 1)
    assert late > 10
    assert engine.stats()["streams"]["s"]["late"] == late
    for tasks in (1, 2):
        assert counted(tables, queries, tasks, fold=False) == late
        assert counted(tables, queries, tasks, fold=True) == late


@pytest.mark.parametrize("seed", range(some_of(4, 50)))
def test_a_folded_event_is_late_when_its_slice_has_ended(seed: int) -> None:
    """By the smallest slices of all queries; one query that is not folded has all counted by the microsecond."""
    tables = batches(np.random.default_rng(seed), 1)
    queries = {
        "coarse": KEYED.format(size=12, slide=4, where=WHERES[seed]),
        "fine": PLAIN.format(size=6, slide=2, where=WHERES[-1 - seed]),
    }
    assert counted(tables, queries, 2, fold=True) == late_by(tables, 2 * SECOND)
    whole = queries | {"median": f"SELECT MEDIAN(v) FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] {WHERES[seed]}"}
    for each in (whole, dict(reversed(whole.items()))):
        assert counted(tables, each, 2, fold=True) == late_by(tables, 1)


def test_the_state_knows_them_too() -> None:
    """Every route counts all of them, so that it makes no difference which is read."""
    tables = batches(np.random.default_rng(9), SECOND)
    shards = Shards(STREAM, {"a": KEYED.format(size=4, slide=1, where=WHERES[2]), "b": PLAIN.format(
        size=4, slide=1, where=WHERES[1])}, shards=3)  # fmt: skip
    for table in tables:
        shards.send([table.to_batches()])
    for route in shards.job.routes:
        assert sum(head.late for each in route.ids if (head := shards.head(each))) == late_by(tables, 1)
