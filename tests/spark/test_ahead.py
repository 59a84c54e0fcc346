"""Events far ahead on Spark: left out by the clock of their micro-batch, and a stream can be rewound."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from shards import Shards

import muntin
from muntin.shard.clock import wall_clock
from muntin.spark.event_folder import _StreamReader
from muntin.spark.pack import CLOCK, pack_events
from muntin.spark.plan_job import plan_job
from muntin.stream import Stream
from muntin.testing import WallClock

SECOND, HOUR = 10**6, 3600 * 10**6
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64())])
STREAM = Stream("s", SCHEMA, "ts", 2 * SECOND, HOUR)
QUERIES = {
    "all": "SELECT SUM(v) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND]",
    "keyed": "SELECT k, SUM(v) AS n FROM s [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "changes": "SELECT k, SUM(v) AS n FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k "
    "HAVING SUM(v) > 2 EMIT CHANGES",
}


def _engine() -> tuple[muntin.Engine, WallClock]:
    clock = WallClock(0)
    engine = muntin.Engine(clock=clock)
    engine.execute(
        "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, v BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS AHEAD 1 HOUR"
    )
    engine.register_many(QUERIES)
    return engine, clock


def _events(dice: random.Random, now: int) -> pa.RecordBatch:
    """In order, one in the year 2286 among them."""
    times = sorted(now + dice.randrange(10 * SECOND) for _ in range(8))
    times.insert(dice.randrange(8), 10**16)
    columns = {"ts": times, "k": [dice.choice("abc") for _ in times], "v": [dice.randrange(4) for _ in times]}
    return pa.record_batch(columns).cast(SCHEMA)


def _same(wanted: dict[str, pa.Table], found: dict[str, pa.Table]) -> None:
    assert found.keys() == wanted.keys()
    for name, table in wanted.items():
        order = [(each, "ascending") for each in ("window_end", "k") if each in table.column_names]
        assert found[name].sort_by(order).to_pylist() == table.sort_by(order).to_pylist()


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_events_are_ahead_as_embedded(seed: int, fold: bool) -> None:
    """A second attempt and a restart decide the same; what is left out is counted."""
    dice = random.Random(seed)
    (engine, clock), shards = _engine(), Shards(STREAM, QUERIES, fold=fold)
    now = 0
    for _ in range(5):
        batch = _events(dice, now)
        clock.set(now)
        engine.push("s", batch)
        tasks = [[batch.slice(0, 4)], [batch.slice(4)]]
        if dice.random() < 0.3:
            shards.restart()
        _same(engine.advance(), shards.send(tasks, now))
        now += 10 * SECOND
    assert shards.ahead == engine.stats()["streams"]["s"]["ahead"] == 5


@pytest.mark.parametrize("how", ["control", "restart", "restart folded"])
def test_rewound_shards_go_on_as_the_embedded_engine(how: str) -> None:
    """A stream that one event has spoilt is set back by a statement, or by a run that is started with `rewind`; a
    further restart with the same instant changes nothing."""
    stream = Stream("s", SCHEMA, "ts", 2 * SECOND)
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k VARCHAR, v BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS")
    engine.register_many(QUERIES)
    options: dict[str, Any] = (
        {"is_controlled": True} if how == "control" else {"fold": how == "restart folded"}
    )
    shards = Shards(stream, QUERIES, **options)

    def send(times: list[int], keys: str) -> None:
        rows = {"ts": [at * SECOND for at in times], "k": list(keys), "v": [3] * len(times)}
        batch = pa.record_batch(rows).cast(SCHEMA)
        engine.push("s", batch)
        _same(engine.advance(), shards.send([[batch]]))

    send([1, 2, 9, 20], "abca")
    send([10_000], "a")  # hours ahead: a window has closed in each second of them
    engine.rewind("s", 20 * SECOND)
    if how == "control":
        shards.tell("REWIND STREAM s TO '1970-01-01 00:00:20'")
        shards.tell("REWIND STREAM s TO '1980-01-01'", "REWIND STREAM t TO '1970-01-01'")
        assert [told.split(" ")[0:2] for told in shards.refused] == [["stream", "'s'"], ["there", "is"]]
        shards.restart()
    else:
        shards.options["rewind"] = 20 * SECOND
        shards.restart(QUERIES)
    send([21, 25, 31], "abc")
    shards.restart(QUERIES)
    send([40, 50], "ab")
    send([19, 60], "ab")  # the first is late
    assert engine.stats()["streams"]["s"]["late"] == 1


def test_tasks_read_the_clock_of_their_micro_batch() -> None:
    """From the column that the flow adds, in whatever zone and unit Spark sends it."""
    job = plan_job(STREAM, QUERIES)
    events = pa.table({"ts": [5, HOUR + 6, HOUR + 9], "k": ["a"] * 3, "v": [1] * 3}).cast(SCHEMA)
    clock = pa.array([8, 8, 8]).cast(pa.timestamp("us", "Europe/Berlin"))
    packed = pack_events(job, events.append_column(CLOCK, clock).to_batches(), 0)
    rows = [row for batch in packed for row in batch.to_pylist()]
    assert sum(row["ahead"] for row in rows) == 1
    assert sum(row["events"] for row in rows) == 2
    assert max(row["greatest"] for row in rows) == HOUR + 6


def test_a_folder_writes_its_clock_down_with_the_offset(tmp_path: Any) -> None:
    """A second attempt of a micro-batch has the same offsets, so the same clock; no new file means no new offset."""
    for name in ("1.arrow", "2.arrow"):
        with pa.ipc.new_file(tmp_path / name, SCHEMA) as writer:
            writer.write_batch(
                pa.record_batch({"ts": [1, 10**16], "k": ["a", "b"], "v": [1, 2]}).cast(SCHEMA)
            )
    reader = _StreamReader(plan_job(STREAM, QUERIES), str(tmp_path), 0)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert abs(int(end["clock"]) - wall_clock()) < 60 * SECOND
    parts = reader.partitions(start, end)
    assert [part.wall for part in parts] == [int(end["clock"])] * 2
    assert reader.partitions({"after": "1.arrow"}, {"after": "2.arrow"})  # written by an earlier version
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert sum(row["ahead"] for row in rows) == 2
