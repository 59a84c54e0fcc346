"""The ledger of a shard: what it is of is checked, what it holds is bounded, and micro-batches may be empty."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from shards import Shards
from test_restarts import events
from test_shards import CREATE, FOLDED, STREAM, WHOLE, _steady, same, shards_and_engine, tasks_of

import muntin
from effort import some_of
from muntin.errors import CheckpointError
from muntin.spark import ledger
from muntin.spark.ledger import FORMAT
from muntin.stream import Stream

SUMS = {"sums": FOLDED["sums"]}


# -- micro-batches without rows -------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(some_of(60, 10)))
def test_empty_micro_batches_change_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """First, in the middle and last; without tasks, or with tasks that read nothing; and restarts anywhere."""
    dice = random.Random(seed)
    monkeypatch.setattr(ledger, "_FEW", 5)
    pool = FOLDED if dice.random() < 0.5 else FOLDED | WHOLE
    queries = dict(dice.sample(list(pool.items()), 3))
    shards, engine = shards_and_engine(queries, dice.randrange(1, 4))
    at = 0
    for _ in range(15):
        if dice.random() < 0.3:
            shards.restart()
        kind = dice.choice(["no task", "no row", "events"])
        if kind == "no task":
            assert shards.send([]) == {}
        elif kind == "no row":
            before = {each: shards.head(each) for route in shards.job.routes for each in route.ids}
            assert shards.send([[] for _ in range(dice.randrange(1, 4))]) == {}
            after = {each: shards.head(each) for route in shards.job.routes for each in route.ids}
            assert all(head is None or head == after[each] for each, head in before.items())
        else:
            at, begin = at + dice.choice([1, 5, 20]), at
            part = events(dice, begin, at)
            engine.push("s", part)
            same(engine.advance(), shards.send(tasks_of(part, dice.randrange(1, 3))))


# -- identity --------------------------------------------------------------------------------------


def with_type(name: str, kind: pa.DataType) -> Stream:
    place = STREAM.schema.get_field_index(name)
    return replace(STREAM, schema=STREAM.schema.set(place, pa.field(name, kind)))


def renamed(text: str) -> str:
    return text.replace("FROM s ", "FROM other ")


OTHER_TIME = replace(STREAM, schema=STREAM.schema.append(pa.field("at", pa.timestamp("us"))), time="at")
BY_J = "SELECT j, MAX(v) AS a FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY j"
ALL = "SELECT MAX(v) AS a FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS]"
APPROXIMATE = "SELECT APPROX_QUANTILE(v, 0.5, 0.1) AS q FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS]"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "name of the stream": (
        {"stream": replace(STREAM, name="other"), "queries": {"sums": renamed(FOLDED["sums"])}},
        "is of stream 's', not 'other'",
    ),
    "time column": ({"stream": OTHER_TIME}, "time in column 'ts', not in 'at'"),
    "type of the time column": ({"stream": with_type("ts", pa.int64())}, "'ts' as TIMESTAMP, not as BIGINT"),
    "type of an argument": ({"stream": with_type("v", pa.float64())}, "'v' as BIGINT, not as DOUBLE"),
    "type of another argument": ({"stream": with_type("x", pa.float32())}, "'x' as DOUBLE, not as REAL"),
    "type of a key": ({"stream": with_type("k", pa.int64())}, "'k' as VARCHAR, not as BIGINT"),
    "more shards": ({"shards": 3}, r"2 shards .* not 3: go on with shards=2"),
    "fewer shards": ({"shards": 1}, r"2 shards .* not 1: go on with shards=2"),
    "all keys": ({"queries": {"j": BY_J}}, r"keys \['k'\], not \['j'\]"),
    "no keys": ({"queries": {"all": ALL}}, r"keys \['k'\], not \[''\]"),
    "one list of keys more": ({"queries": SUMS | {"j": BY_J}}, r"keys \['k'\], not \['j', 'k'\]"),
    "declared keys": ({"keys": ["k", ""]}, r"keys \['k'\], not \['', 'k'\]"),
    "spread": ({"queries": SUMS | {"q": APPROXIMATE}, "spread": True}, r"keys \['k'\], not \['\(spread\)', 'k'\]"),
}  # fmt: skip
HARMLESS: dict[str, dict[str, Any]] = {
    "a column more": {"stream": replace(STREAM, schema=STREAM.schema.append(pa.field("new", pa.string())))},
    "a column less": {
        "stream": replace(STREAM, schema=STREAM.schema.remove(STREAM.schema.get_field_index("j")))
    },
    "type of a column that nobody reads": {"stream": with_type("j", pa.int64())},
    "columns in another order": {"stream": replace(STREAM, schema=pa.schema(list(STREAM.schema)[::-1]))},
    "a longer delay": {"stream": replace(STREAM, delay=20_000_000)},
    "no delay": {"stream": replace(STREAM, delay=0)},
    "events as they are": {"fold": False},
    "another query": {"queries": SUMS | {"ends": FOLDED["ends"]}},
    "other queries only": {"queries": {"ends": FOLDED["ends"]}},
}


def begun() -> Shards:
    shards = Shards(STREAM, SUMS, shards=2)
    shards.send([_steady(0, 10).to_batches()])
    return shards


def go_on(shards: Shards, /, stream: Stream = STREAM, queries: dict[str, str] = SUMS, **options: Any) -> None:
    shards.stream = stream
    shards.options |= options
    shards.restart(queries)


def next_events(stream: Stream) -> list[list[pa.RecordBatch]]:
    part = _steady(10, 20)
    part = part.append_column("at", part["ts"]).append_column("new", part["k"])
    columns = [part[name] for name in stream.schema.names]
    if stream.schema.field("k").type == pa.int64():
        columns[stream.schema.get_field_index("k")] = pa.chunked_array([pa.array(range(part.num_rows))])
    fields = zip(columns, stream.schema, strict=True)
    cast = [column.cast(field.type, safe=False) for column, field in fields]
    return [pa.table(cast, schema=stream.schema).to_batches()]


@pytest.mark.parametrize("part", REFUSED)
@pytest.mark.parametrize("is_empty", [False, True])
def test_state_of_another_identity_is_refused(part: str, is_empty: bool) -> None:
    """By the first micro-batch that reaches a shard, even if it brings nothing, and both sides are named."""
    changed, reason = REFUSED[part]
    shards = begun()
    go_on(shards, **changed)
    with pytest.raises(CheckpointError, match=reason):
        shards.send([[]] if is_empty else next_events(shards.stream))


@pytest.mark.parametrize("part", HARMLESS)
def test_what_is_no_part_of_the_identity_may_change(part: str) -> None:
    """Answers are those of the engine, or in the case of another delay those that are due by it; and back again."""
    shards, engine = begun(), muntin.Engine()
    engine.execute(CREATE)
    engine.register_many(SUMS)
    engine.push("s", _steady(0, 10))
    engine.advance()
    go_on(shards, **HARMLESS[part])
    got = shards.send(next_events(shards.stream))
    engine.push("s", _steady(10, 20))
    until = 19_750_000 - shards.stream.delay
    expected = engine.advance(until) if until > 10_000_000 else {}
    if "sums" in shards.job.routes[0].queries:
        same(expected, {name: table for name, table in got.items() if name == "sums"})
    go_on(shards)
    shards.send([_steady(20, 30).to_batches()])
    for shard in shards.of_route("k"):
        shard.check()


def test_a_column_that_a_query_comes_to_read_is_bound_from_then_on() -> None:
    shards = begun()
    go_on(
        shards,
        queries=SUMS | {"j": BY_J.replace("SELECT j, ", "SELECT k, MAX(j) AS b, ").replace("BY j", "BY k")},
    )
    shards.send([_steady(10, 20).to_batches()])
    go_on(shards, stream=with_type("j", pa.int64()))
    with pytest.raises(CheckpointError, match="'j' as DOUBLE, not as BIGINT"):
        shards.send([[]])


def test_state_without_identity_is_bound_when_it_is_gone_on_with() -> None:
    """As version 0.1.0 wrote it: it goes on, and is refused to another stream afterwards."""
    shards = begun()
    for shard in shards.job.routes[0].ids:
        (text,) = shards.tester.peekValueState("head", shard)
        head = ledger.json.loads(text)
        for name in ("stream", "time", "columns"):
            del head[name]
        shards.tester.updateValueState("head", shard, (ledger.json.dumps(head | {"format": 2}),))
    shards.restart()
    shards.send([_steady(10, 20).to_batches()])
    for shard in shards.job.routes[0].ids:
        assert shards.head(shard).format == FORMAT
        assert shards.head(shard).columns == {
            "ts": "timestamp[us]",
            "k": "string",
            "v": "int64",
            "x": "double",
        }
    go_on(shards, stream=with_type("v", pa.float64()))
    with pytest.raises(CheckpointError, match="'v' as BIGINT, not as DOUBLE"):
        shards.send([[]])


# -- size ------------------------------------------------------------------------------------------


def test_a_quiet_stream_has_a_short_log() -> None:
    """Over 500 micro-batches of a few events: entries, head and what a restart replays level off; so do bytes."""
    shards = Shards(STREAM, {"few": FOLDED["few"]})
    (shard,) = shards.job.routes[0].ids
    most: list[tuple[int, int, int]] = []
    for turn in range(500):
        shards.send([_steady(turn, turn + 1).to_batches()])
        head, log = shards.head(shard), shards.tester.peekMapState("log", shard)
        (text,) = shards.tester.peekValueState("head", shard)
        assert head is not None
        assert head.entries == turn + 1
        assert head.entries - head.base < ledger._FEW
        assert len(log) == len(head.tokens) < ledger._FEW + ledger._KEPT
        most.append((len(log), len(text), head.base_bytes + sum(len(row[0]) for row in log.values())))
    for side in range(3):
        first, last = (max(each[side] for each in part) for part in (most[100:200], most[400:]))
        assert last <= 1.1 * first


def test_a_large_base_is_not_written_for_few_bytes() -> None:
    """The more a base holds, the more entries it is worth, up to a number that replay can bear."""
    held = ledger.Ledger(None, None, None)

    def due_after(base_bytes: int) -> int:
        head = ledger.Head("k", 0, 1, ["k"], base_bytes=base_bytes, pieces=1)
        while not held.is_due(head):
            head.entries += 1
        return head.entries

    assert due_after(0) == due_after(1 << 20) == 64
    assert due_after(1 << 25) == 128
    assert due_after(1 << 34) == 512
