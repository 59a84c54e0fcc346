"""Backfill: a query that comes late answers as if it had been there from the first event of its history."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin
from answers import assert_same_answer
from effort import some_of
from muntin.errors import MuntinError, NameTaken, NotFound, SchemaError, SqlError, WindowTooLarge
from queries import random_question
from reference import ReferenceEngine
from runtimes import as_table, checkpointed
from scenario import CALM, SECOND, SeededDice, random_events, random_stream

Columns = dict[str, list[Any]]


def part(columns: Columns, rows: list[int]) -> Columns:
    return {name: [values[row] for row in rows] for name, values in columns.items()}


def joined(*many: Columns) -> Columns:
    return {name: [value for each in many for value in each[name]] for name in many[0]}


def complete(table: pa.Table | None) -> pa.Table | None:
    """The same table, every row of which says that it is: values are compared whether or not."""
    if table is None:
        return None
    place = table.column_names.index("complete")
    return table.set_column(place, "complete", pa.array(np.ones(table.num_rows, np.bool_)))


class Late:
    """A stream with a past: a query comes late, with its history, beside a reference that saw all of it."""

    def __init__(self, seed: int):
        self.dice = dice = SeededDice(seed)
        delay = dice.pick((0, 2 * SECOND, 10 * SECOND))
        sql = random_stream(dice, delay)
        self.engine, self.reference = muntin.Engine(), ReferenceEngine()
        self.engine.execute(sql)
        self.reference.execute(sql)
        self.stream = self.reference.logs["s"].stream
        self.question = random_question(dice)
        start = dice.pick((100 * SECOND, 0, -50 * SECOND))
        before = random_events(dice, 0, dice.whole(0, 20), start, CALM)
        before["ts"] = sorted(before["ts"])
        now = max([start, *before["ts"]])
        self.pushed = random_events(dice, delay, dice.whole(0, 12) if dice.chance(80) else 0, now, CALM)
        if dice.chance(50):  # others may keep something already, or nothing
            self.engine.register(random_question(dice).sql, "other")
        self.push(self.pushed)
        accepted = self.reference.logs["s"].events
        past = part(self.pushed, [event.arrival - 1 for event in accepted])
        self.greatest = self.reference.logs["s"].greatest
        self.seam = None if self.greatest is None else self.greatest + 1
        # without an event so far, the stream begins after its history
        self.live = random_events(
            dice, delay, 14, (now + 60 * SECOND) if self.seam is None else self.seam - 1, CALM
        )
        self.history = joined(before, past)
        self.expect(self.history)

    def push(self, columns: Columns) -> None:
        self.engine.push("s", as_table(columns, self.stream))
        self.reference.push("s", columns)

    def expect(self, history: Columns) -> None:
        """Begin the reference again, with the history as the past of its stream."""
        log = self.reference.logs["s"]
        log.events, log.arrived, watermark = [], 0, log.watermark
        log.greatest = log.watermark = None
        self.reference.register(self.question.sql, name="q")
        counted = [row for row, at in enumerate(history["ts"]) if self.seam is None or at < self.seam]
        order = sorted(counted, key=lambda row: history["ts"][row])
        self.reference.push("s", part(history, order))
        if self.seam is None:  # what comes is judged by itself
            log.greatest = log.watermark = None
        else:
            log.watermark = watermark
        self.reference.standing["q"].reached = log.watermark

    def given_history(self) -> Columns:
        """In a random order, and with events from the seam on, which the stream is going to bring itself."""
        ahead = (
            [] if self.seam is None else [row for row, at in enumerate(self.live["ts"]) if at >= self.seam]
        )
        history = joined(self.history, part(self.live, ahead))
        rows = list(range(len(history["ts"])))
        if self.dice.chance(50):
            rows = sorted(rows, key=lambda row: history["ts"][row])
        elif self.dice.chance(50):
            rows = rows[::-1]  # ties change their order: FIRST and LAST may differ
            self.expect(part(self.history, [row for row in rows if row < len(self.history["ts"])]))
        return part(history, rows)

    def look(self, at: int | None = None) -> None:
        try:
            actual = self.engine.lookup("q", at=at)
        except WindowTooLarge:
            assert at is not None
            assert at < (self.reference.logs["s"].greatest or at + 1)
            return
        is_past = at is not None and at < (self.reference.logs["s"].greatest or at + 1)
        if not is_past or all(actual["complete"].to_pylist()):
            assert_same_answer(self.reference.lookup("q", at=at), complete(actual), f"at {at}")

    def advance(self, until: int | None) -> None:
        expected, actual = self.reference.advance(until), self.engine.advance(until)
        assert_same_answer(
            expected.get("q") or self.reference.nothing("q"), complete(actual.get("q")), f"until {until}"
        )


@settings(max_examples=some_of(settings().max_examples, 50))
@given(st.integers(0, 10**9))
def test_same_as_from_the_beginning(seed: int) -> None:
    """Look-ups and windows after the seam are those of a query that was there all the time."""
    late = Late(seed)
    dice, history = late.dice, late.given_history()
    late.engine.register(late.question.sql, "q", backfill=as_table(history, late.stream))
    late.engine.check()
    if late.seam is not None or not late.history["ts"]:
        late.look()
    if late.history["ts"]:
        late.look(max(late.history["ts"]) + dice.pick((1, SECOND, 7 * SECOND)))
    rows = list(range(len(late.live["ts"])))
    while rows:
        many = dice.whole(1, 6)
        late.push(part(late.live, rows[:many]))
        rows = rows[many:]
        if dice.chance(20):
            late.engine = checkpointed(late.engine)
        if dice.chance(20):
            late.engine.register(random_question(dice).sql, f"another {len(rows)}")
        late.look()
        late.look((late.reference.logs["s"].greatest or 0) + dice.pick((1, SECOND, -SECOND, 20 * SECOND)))
        if dice.chance(40) and late.seam is not None:
            late.advance(None)
        late.engine.check()
    if late.seam is not None:
        late.advance(max(late.live["ts"]) + 30 * SECOND)
    late.engine.drop("q")
    late.engine.check()


STREAM = "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, v BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS"
SUM = "SELECT SUM(v) AS v FROM s [RANGE 10 SECONDS]"
KEYED = "SELECT k, SUM(v) AS v FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY k"


def events(*seconds: float, v: int = 1) -> Columns:
    return {
        "ts": [int(each * SECOND) for each in seconds],
        "k": ["a"] * len(seconds),
        "v": [v] * len(seconds),
    }


def make_engine(*pushed: float) -> muntin.Engine:
    engine = muntin.Engine()
    engine.execute(STREAM)
    if pushed:
        engine.push("s", events(*pushed))
    return engine


def test_the_seam() -> None:
    """What the stream has brought is taken from the history alone, and what it brings from the stream alone."""
    engine = make_engine(4, 5)
    engine.register(SUM, "q", backfill=events(1, 2, 3, 4, 5, 6, 7))
    assert engine.value("q") == 5
    engine.push("s", events(6, 7))
    assert engine.value("q") == 7
    engine.push(
        "s", events(5.5)
    )  # before the latest event, but not too late: it is one that the history lacks
    assert engine.value("q") == 8


def test_before_the_first_event() -> None:
    """All history counts, and look-ups stand just after it until the stream has an event of its own."""
    engine = make_engine()
    engine.register_many({"q": SUM, "keyed": KEYED}, backfill=events(1, 2, 3, 12.5))
    engine.register(SUM, "other")
    assert engine.value("q") == 2
    assert engine.lookup("q")["window_end"].cast("int64").to_pylist() == [12_500_001]
    assert engine.value("keyed", "a") == 2
    assert engine.lookup("keyed")["v"].to_pylist() == [2]
    assert engine.lookup_many(["q"])["value"].to_pylist() == [2]
    assert engine.lookup("other")["window_end"].to_pylist() == [None]
    engine = checkpointed(engine)
    assert engine.value("q") == 2
    engine.push("s", events(14))
    assert engine.value("q") == 2
    assert engine.value("other") == 1


def test_a_stream_that_begins_before_its_history_ends() -> None:
    """What lies before all that the windows needed at the end of the history is not theirs to answer."""
    engine = make_engine()
    engine.register_many({"q": SUM, "keyed": KEYED}, backfill=events(*range(100)))
    engine.push("s", events(5, 95.5))
    (row,) = engine.lookup("q").to_pylist()  # at 95.5, while the history was left at 99
    assert not row["complete"]
    assert row["v"] < 11
    assert engine.value("q", at=100 * SECOND) == 11
    engine.check()


def test_a_session_that_begins_before_its_history_ends() -> None:
    """Of a session of the history nobody knows any more what lay before an event in it: it is left out, until the
    stream has passed the history."""
    engine = make_engine()
    sums = {f"after {gap}": f"SELECT SUM(v) AS v FROM s [SESSION {gap} SECONDS]" for gap in (3, 20)}
    engine.register_many(sums, backfill=events(1, 2, 10, 11, 12, 13, 40))
    engine.push("s", events(11.5))
    for name in sums:
        (row,) = engine.lookup(name).to_pylist()
        assert not row["complete"]
        assert row["v"] == 1
    engine.push("s", events(41, 42))
    assert [engine.value(name) for name in sums] == [3, 3]
    engine.check()


def test_owes_nothing_from_before() -> None:
    """Only windows that close after the registration are given out."""
    engine = make_engine(20, 23)  # the watermark is at 21
    engine.register(KEYED, "q", backfill=events(*range(24)))
    engine.register("SELECT COUNT(*) AS n FROM s [ROWS 2 SLIDE 2]", "rows", backfill=events(*range(24)))
    engine.push("s", events(25))
    given_out = engine.advance()
    assert given_out["q"]["window_end"].cast("int64").to_pylist() == [22 * SECOND, 23 * SECOND]
    assert given_out["q"]["v"].to_pylist() == [10, 10]
    fresh = make_engine()
    fresh.register("SELECT COUNT(*) AS n FROM s [ROWS 2 SLIDE 2]", "rows", backfill=events(*range(9)))
    fresh.push("s", events(30, 31))
    emitted = fresh.advance(until=40 * SECOND)["rows"]
    assert emitted["window_end"].cast("int64").to_pylist() == [30 * SECOND + 1]


def test_complete_from_the_earliest_event_on() -> None:
    """A window that reaches back behind the history may lack something."""
    engine = make_engine(20)
    engine.register(SUM, "q", backfill=events(15, 20))
    engine.register("SELECT SUM(v) AS v FROM s [RANGE 5 SECONDS]", "short", backfill=events(15, 20))
    assert engine.lookup("q")["complete"].to_pylist() == [False]
    assert engine.lookup("short")["complete"].to_pylist() == [True]
    engine.push("s", events(25))
    assert engine.lookup("q")["complete"].to_pylist() == [True]
    engine.register(SUM, "nothing", backfill=events(30))
    assert engine.lookup("nothing")["complete"].to_pylist() == [False]
    assert engine.value("nothing") is None


def test_nobody_else_is_touched() -> None:
    """Not even by keys that only the history has."""
    engine = make_engine()
    engine.register(KEYED, "before")
    engine.push("s", events(4, 5))
    expected = engine.lookup("before")
    past = events(1, 2, 3, 4, 5)
    past["k"] = ["z", "y", "a", "a", "x"]
    engine.register(KEYED, "q", backfill=past)
    assert engine.lookup("before").equals(expected)
    assert engine.lookup("q")["k"].to_pylist() == ["a", "z", "y"]  # the window ends at 5
    assert "history" in engine.explain("q")
    assert "history" not in engine.explain("before")
    engine.drop("q")
    assert engine.lookup("before").equals(expected)
    engine.check()


def written(folder: Path, suffix: str, columns: Columns) -> Path:
    schema = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64())])
    table, path = pa.table(columns, schema=schema), folder / f"history{suffix}"
    if suffix == ".parquet":
        pa.parquet.write_table(table, path)
    elif suffix == ".csv":
        pa.csv.write_csv(table, path)
    elif suffix == ".feather":
        pa.feather.write_feather(table, str(path))
    elif suffix == ".arrow":
        with pa.ipc.new_stream(str(path), schema) as writer:
            writer.write_table(table)
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".feather", ".arrow"])
def test_files(tmp_path: Path, suffix: str) -> None:
    engine = make_engine(5)
    path = written(tmp_path, suffix, events(1, 2, 3, 5, 9))
    engine.register(SUM, "path", backfill=path)
    engine.register(SUM, "text", backfill=str(path))
    engine.execute(f"REGISTER QUERY sql AS {SUM} BACKFILL '{path}'")
    assert [engine.value(name) for name in ("path", "text", "sql")] == [4, 4, 4]
    assert engine.queries["sql"].text == SUM


def test_a_folder(tmp_path: Path) -> None:
    """Its files one after the other, of any format."""
    written(tmp_path, ".csv", events(1, 2)).rename(tmp_path / "2024-01.csv")
    written(tmp_path, ".parquet", events(3, 5)).rename(tmp_path / "2024-02.parquet")
    (tmp_path / "_SUCCESS").touch()
    engine = make_engine(5)
    engine.register(SUM, "q", backfill=tmp_path)
    assert engine.value("q") == 4


def test_tables_and_frames() -> None:
    schema = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64())])
    table = pa.table(events(1, 2, 3), schema=schema)
    histories = {
        "dict": events(1, 2, 3), "table": table, "batch": table.to_batches()[0], "pandas": table.to_pandas(),
        "reader": pa.RecordBatchReader.from_batches(schema, table.to_batches(max_chunksize=1)),
        "more columns": table.append_column("more", table["v"]),
    }  # fmt: skip
    assert isinstance(histories["pandas"], pd.DataFrame)
    engine = make_engine(3)
    for name, history in histories.items():
        engine.register(SUM, name, backfill=history)
        assert engine.value(name) == 3, name


def state(engine: muntin.Engine) -> tuple[Any, ...]:
    shard = engine._shards["s"].state
    return (
        list(engine.queries),
        engine.stats(),
        engine.explain(),
        list(shard.backfills),
        set(engine._catalog.reserved),
    )


def failing() -> Iterator[tuple[type[MuntinError], str, Any]]:
    schema = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64())])
    good = pa.table(events(1, 2), schema=schema)

    def broken() -> Iterator[pa.RecordBatch]:
        yield from good.to_batches()
        raise pa.ArrowInvalid("the disk is gone")

    yield NotFound, "no input file", "nowhere.parquet"
    yield MuntinError, "cannot tell the format", "history.doc"
    yield SchemaError, "no column 'v'", good.drop_columns(["v"])
    yield SchemaError, "does not fit", good.set_column(2, "v", pa.array(["x", "y"]))
    yield SchemaError, "NULL", good.set_column(0, "ts", pa.array([1, None], pa.timestamp("us")))
    yield SchemaError, "cannot be read", pa.RecordBatchReader.from_batches(schema, broken())
    yield SchemaError, "a batch cannot be", 5


@pytest.mark.parametrize(("kind", "words", "history"), list(failing()))
def test_bad_histories(kind: type[MuntinError], words: str, history: Any) -> None:
    """Nothing is registered, and nothing is left behind."""
    engine = make_engine(5)
    engine.register(KEYED, "there")
    before = state(engine)
    with pytest.raises(kind, match=words):
        engine.register_many({"q": SUM, "keyed": KEYED}, backfill=history)
    assert state(engine) == before
    engine.check()


def test_a_damaged_file(tmp_path: Path) -> None:
    """Found out in the middle: the first lines have been read by then."""
    path = tmp_path / "history.csv"
    path.write_text("ts,k,v\n" + "1970-01-01 00:00:01,new,1\n" * 300_000 + "1970-01-01 00:00:01,a,many\n")
    engine = make_engine(5)
    engine.register(KEYED, "there")
    before = state(engine)
    with pytest.raises(SchemaError, match=r"history\.csv"):
        engine.register(KEYED, "q", backfill=path)
    script = f"REGISTER QUERY fine AS {SUM}; REGISTER QUERY q AS {KEYED} BACKFILL '{path}'"
    with pytest.raises(SchemaError, match=r"history\.csv"):
        engine.execute(script)
    assert state(engine) == before


def test_names_and_streams() -> None:
    engine = make_engine(5)
    engine.register(SUM, "q")
    with pytest.raises(NameTaken):
        engine.register(SUM, "q", backfill=events(1))
    with pytest.raises(NameTaken):
        engine.execute(f"REGISTER QUERY q AS {SUM} BACKFILL 'nowhere.parquet'")
    engine.execute("CREATE STREAM t (ts TIMESTAMP, v BIGINT) TIMESTAMP BY ts")
    with pytest.raises(MuntinError, match="one stream"):
        engine.register_many({"a": SUM, "b": "SELECT SUM(v) FROM t [ROWS 5]"}, backfill=events(1))
    with pytest.raises(SqlError, match="belongs to REGISTER QUERY"):
        engine.execute(f"{SUM} BACKFILL 'x.csv'")
    with pytest.raises(SqlError, match="belongs to REGISTER QUERY"):
        engine.register(f"{SUM} BACKFILL 'x.csv'", "b")
    with pytest.raises(SqlError, match="a path in quotes"):
        engine.execute(f"REGISTER QUERY b AS {SUM} BACKFILL x")
    assert list(engine.queries) == ["q"]


def test_a_stream_that_is_created_again_meanwhile() -> None:
    """The history was that of another stream."""
    schema = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64())])
    engine = make_engine(5)

    def batches() -> Iterator[pa.RecordBatch]:
        engine.execute(f"DROP STREAM s; {STREAM}")
        yield from pa.table(events(1), schema=schema).to_batches()

    with pytest.raises(NotFound, match="dropped"):
        engine.register(SUM, "q", backfill=pa.RecordBatchReader.from_batches(schema, batches()))
    assert not engine.queries
    engine.register(SUM, "q")
    engine.check()


def test_a_script_that_creates_its_stream(tmp_path: Path) -> None:
    path = written(tmp_path, ".csv", events(1, 2, 3))
    engine = muntin.Engine()
    engine.execute(f"{STREAM}; REGISTER QUERY q AS {SUM} BACKFILL '{path}'")
    assert engine.value("q") == 3


def test_longer_than_memory() -> None:
    """A history in order of time is forgotten as it goes: what is kept is what the windows need."""
    schema = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64())])
    seen: list[int] = []
    engine = make_engine()

    def batches() -> Iterator[pa.RecordBatch]:
        for second in range(0, 4_000, 10):
            at = second * SECOND + np.arange(1_000) * 10_000
            yield pa.record_batch(
                [
                    pa.array(at, pa.timestamp("us")),
                    pa.array(["a"] * 1_000),
                    pa.array(np.ones(1_000, np.int64)),
                ],
                schema=schema,
            )
            (filling,) = engine._shards["s"].state.backfills
            seen.append(filling.state.nbytes())

    queries = {"sum": SUM, "keyed": KEYED, "rows": "SELECT SUM(v) AS v FROM s [ROWS 100]",
               "per key": "SELECT k, SUM(v) AS v FROM s [ROWS 100] GROUP BY k"}  # fmt: skip
    engine.register_many(queries, backfill=pa.RecordBatchReader.from_batches(schema, batches()))
    assert engine.value("sum") == 1_000
    assert engine.value("rows") == engine.value("per key", "a") == 100
    assert max(seen) < 20 * 1_000 * 200  # of 400,000 events


def test_out_of_order_beyond_what_is_kept() -> None:
    """A straggler that no window holds any more is left out; a ROWS window may not count without it."""
    schema = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64())])
    parts = [events(*(second + tenth / 10 for tenth in range(10))) for second in range(1, 300)]
    batches = [pa.record_batch(pa.table(each, schema=schema).to_batches()[0]) for each in [*parts, events(2)]]

    def reader() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(schema, batches)

    engine = make_engine()
    engine.register_many({"q": SUM, "keyed": KEYED}, backfill=reader())
    assert engine.value("q") == 100
    engine.check()
    with pytest.raises(MuntinError, match="out of order"):
        engine.register("SELECT SUM(v) AS v FROM s [ROWS 100]", "rows", backfill=reader())
    assert list(engine.queries) == ["q", "keyed"]


def test_what_is_pushed_meanwhile() -> None:
    """The stream goes on while the history is read, and nothing of either is lost or counted twice."""
    schema = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64())])
    engine = make_engine(1)
    reading, pushed = threading.Event(), threading.Event()

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.table(events(1, 2, 3, v=10), schema=schema).to_batches()[0]
        reading.set()
        assert pushed.wait(120)
        yield pa.table(events(0, 4, v=10), schema=schema).to_batches()[0]

    def push() -> None:
        assert reading.wait(120)
        with suppress(NotFound):
            engine.lookup("q")
            raise AssertionError("the query is not there yet")
        with pytest.raises(NameTaken):
            engine.register(SUM, "q")
        engine.push("s", events(2, 0.5))
        engine.push("s", events(3))
        pushed.set()

    thread = threading.Thread(target=push)
    thread.start()
    engine.register(SUM, "q", backfill=pa.RecordBatchReader.from_batches(schema, batches()))
    thread.join()
    # of the history 0 and 1 lie before the seam, just after 1; of the stream come 2, 0.5 and 3
    assert engine.value("q") == 23
    engine.push("s", events(4))
    assert engine.value("q") == 24
    engine.check()
