"""A history that is replayed answers its requests as a live stream does once it has passed them."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import muntin
from casefile import Push
from effort import some_of
from muntin.errors import MuntinError, NotFound, SchemaError
from queries import random_question
from requests_at import keyed_question, random_requests
from scenario import SeededDice, random_case

STREAM = "CREATE STREAM s (ts BIGINT, k VARCHAR, v BIGINT) TIMESTAMP BY ts"
SPENT = "SELECT k, SUM(v) AS total, COUNT(*) AS many FROM s [RANGE 4 MICROSECONDS] GROUP BY k"
EVENTS = {"ts": [1, 2, 2, 4, 9], "k": list("abaab"), "v": [1, 2, 3, 4, 5]}
REQUESTS = {"k": ["b", "a", "a", "c", "a"], "at": [50, 5, 2, 5, 1], "label": [1, 2, 3, 4, 5]}


@pytest.mark.parametrize("seed", range(some_of(200, 5)))
def test_random_histories(seed: int) -> None:
    """Each request is asked for live as soon as the watermark has passed it; batches of history are of any size."""
    dice = SeededDice(seed)
    case = random_case(dice, f"history {seed}", 40, 3, keyed_question if seed % 2 else random_question)
    queries = {each.name: each.sql for each in case.steps[:3] if hasattr(each, "sql")}
    batches = [each.batch for each in case.steps if isinstance(each, Push)]
    schema = pa.schema(
        [("ts", pa.int64()), ("k", pa.string()), ("j", pa.int64()), ("n", pa.int64()), ("x", pa.float64()),
         ("y", pa.float64()), ("w", pa.string()), ("b", pa.bool_())]
    )  # fmt: skip
    history = pa.concat_tables([pa.table(each).select(schema.names).cast(schema) for each in batches])
    stream = case.streams[0].replace("ts TIMESTAMP,", "ts BIGINT,")
    times = history["ts"].to_pylist() or [0]
    requests = random_requests(dice, times, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of late events, and of rows without a value
        got = muntin.lookup_at(history, queries, requests, stream=stream, batch_rows=dice.pick((1, 7, 1000)))
        expected = live(stream, queries, history, requests)
    assert [plain(row) for row in got.to_pylist()] == [plain(row) for row in expected.to_pylist()]


def live(stream: str, queries: dict[str, str], history: pa.Table, requests: pa.Table) -> pa.Table:
    """One event after the other, and after each the requests that have just become final."""
    engine = muntin.Engine()
    engine.execute(stream)
    engine.register_many(queries)
    at = requests["at"].cast(pa.int64()).to_pylist()
    answers: dict[int, pa.Table] = {}

    def ask() -> None:
        watermark = engine._shards["s"].clock.watermark
        due = [
            row
            for row in range(len(at))
            if row not in answers and watermark is not None and at[row] <= watermark
        ]
        if due:
            found = engine.lookup_at(list(queries), requests.take(due))
            answers.update((row, found.slice(place, 1)) for place, row in enumerate(due))

    for row in range(history.num_rows):
        engine.push("s", history.slice(row, 1))
        ask()
    engine._shards["s"].clock.promise(max(at))
    ask()
    return pa.concat_tables(answers[row] for row in range(len(at)))


def plain(found: Any) -> Any:
    """Sums of floats as far as all orders of adding agree, and NaN equal to itself."""
    if isinstance(found, dict):
        return {name: plain(value) for name, value in found.items()}
    return f"{found:.9g}" if isinstance(found, float) else found


def rows(table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def test_history_of_every_kind(tmp_path: Path) -> None:
    expected = [(None, 0, False), (8, 3, True), (1, 1, True), (None, 0, False), (None, 0, False)]
    table = pa.table(EVENTS)
    pa.parquet.write_table(table, tmp_path / "events.parquet")
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(2))
    for history in (EVENTS, table, reader, tmp_path / "events.parquet", str(tmp_path)):
        found = muntin.lookup_at(history, SPENT, REQUESTS, stream=STREAM)
        assert rows(found, "total", "many", "found") == expected
        assert found.column_names == ["k", "at", "label", "total", "many", "found", "complete"]
        assert found["complete"].to_pylist() == [True] * 5


def test_queries_by_name_and_scripts() -> None:
    named = muntin.lookup_at(EVENTS, {"spent": SPENT}, REQUESTS, stream=STREAM)
    script = muntin.lookup_at(EVENTS, f"{STREAM}; REGISTER QUERY spent AS {SPENT}", REQUESTS)
    declared = muntin.Stream(
        "s", pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64())]), "ts"
    )
    assert named.column_names[3:] == ["spent.total", "spent.many", "spent.found", "spent.complete"]
    assert script.equals(named)
    assert muntin.lookup_at(EVENTS, {"spent": SPENT}, REQUESTS, stream=declared).equals(named)


def test_nothing_to_answer_and_nothing_to_read() -> None:
    nothing = pa.table({"k": pa.array([], pa.string()), "at": pa.array([], pa.int64())})
    found = muntin.lookup_at(EVENTS, SPENT, nothing, stream=STREAM)
    assert (found.num_rows, found.num_columns) == (0, 6)
    empty = pa.table(EVENTS).slice(0, 0)
    assert (
        rows(muntin.lookup_at(empty, SPENT, REQUESTS, stream=STREAM), "many", "complete") == [(0, True)] * 5
    )


def test_progress_and_an_early_end() -> None:
    told: list[tuple[int, int, float]] = []
    asked = {"k": ["a", "a"], "at": [2, 1]}
    muntin.lookup_at(
        EVENTS, SPENT, asked, stream=STREAM, batch_rows=1, progress=lambda *each: told.append(each)
    )
    assert told == [(1, 1, 0.5), (2, 2, 1.0), (2, 2, 1.0)]  # nothing is read beyond the last request


def test_memory_holds_what_windows_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """A history of a hundred windows is never in the state at once."""
    held: list[int] = []
    insert = muntin.engine.replay.Shard.insert

    def watched(shard: Any, batch: Any) -> int:
        late = insert(shard, batch)
        held.append(max(len(store) for store in shard.state.stores.values()))
        return late

    monkeypatch.setattr(muntin.engine.replay.Shard, "insert", watched)
    times = list(range(4_000))
    history = {"ts": times, "k": ["a"] * 4_000, "v": times}
    asked = {"k": ["a"] * 400, "at": times[::10]}
    found = muntin.lookup_at(history, SPENT, asked, stream=STREAM, batch_rows=50)
    assert found["total"].to_pylist()[1:] == [4 * at - 10 for at in times[::10][1:]]
    assert len(held) == 80
    assert max(held) <= 200  # of the batch before, the window, and the batch


def test_late_events_are_told_of() -> None:
    with pytest.warns(RuntimeWarning, match=r"1 of 3 events of the history were late"):
        found = muntin.lookup_at(
            {"ts": [5, 4, 9], "k": list("aaa"), "v": [1, 1, 1]}, SPENT, {"k": ["a"], "at": [8]}, stream=STREAM
        )
    assert found["many"].to_pylist() == [1]


def test_at_equal_times_only_events_before_count() -> None:
    for batch_rows, shift in itertools.product((1, 2, 10), (0, 1)):
        found = muntin.lookup_at(
            EVENTS, SPENT, {"k": ["a"], "at": [2 + shift]}, stream=STREAM, batch_rows=batch_rows
        )
        assert found["total"].to_pylist() == [1 + 3 * shift]


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"stream": None}, MuntinError, "the script"),
        ({"stream": None, "queries": {"q": SPENT}}, MuntinError, "give the CREATE STREAM statement"),
        ({"stream": 7}, MuntinError, "stream is a CREATE STREAM statement or a muntin.Stream"),
        ({"requests": {"at": [1]}}, SchemaError, "no column 'k'"),
        ({"history": "nowhere.parquet"}, NotFound, "nowhere.parquet"),
        ({"history": {"ts": [1]}}, SchemaError, "no column 'k' of stream 's'"),
        ({"queries": {}}, MuntinError, "read none"),
        ({"batch_rows": 0}, MuntinError, "batch_rows"),
        ({"queries": 7}, MuntinError, "queries is a dict"),
    ],
)
def test_what_is_refused(given: dict[str, Any], error: type[Exception], told: str) -> None:
    asked = {"history": EVENTS, "queries": SPENT, "requests": REQUESTS, "stream": STREAM} | given
    if given == {"stream": None}:
        asked["queries"] = STREAM
    with pytest.raises(error, match=told):
        muntin.lookup_at(**asked)
