"""Every public call with every wrong type: a `MuntinError` that names the argument, and nothing has changed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import muntin
from muntin import Engine, MuntinError, Stream, Table, Window

WRONG: list[Any] = [
    None, 5, 1.5, True, b"x", "", "nothing", [], {}, (), {1}, object(), len, [1], {1: 2}, {"a": 1}, ["x", 5], "\x00",
    datetime(2024, 1, 1), float("nan"), 2**70, -1, pa.array([1]), Engine,
]  # fmt: skip
QUERY = "SELECT SUM(n) AS n FROM s [RANGE 1 HOUR]"
BY_KEY = "SELECT k, SUM(n) AS n FROM s [RANGE 1 HOUR SLIDE 1 MINUTE] GROUP BY k"
REQUESTS = {"k": ["a"], "at": [datetime(1970, 1, 1, 1)]}
SCHEMA = pa.schema({"ts": pa.timestamp("us"), "n": pa.int64()})


class Failing:
    """What a broken library hands over."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise RuntimeError


def past(**given: Any) -> object:
    """A look-up in a history, with other values in place of some."""
    asked: dict[str, Any] = {
        "history": {"ts": [datetime(1970, 1, 1)], "k": ["a"], "n": [1]},
        "queries": BY_KEY,
        "requests": REQUESTS,
        "stream": "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, n BIGINT) TIMESTAMP BY ts",
    }
    return muntin.lookup_at(**{**asked, **given})


# the argument, as errors call it, and a call with a value in its place
CALLS: dict[str, tuple[str, Callable[[Engine, Any], object]]] = {
    "Engine.execute sql": ("sql|statement|text", lambda engine, value: engine.execute(value)),
    "Engine.select_many texts": ("texts|statement|text", lambda engine, value: engine.select_many(value)),
    "Engine.register sql": ("sql|statement|text", lambda engine, value: engine.register(value, "new")),
    "Engine.execute parameters": ("parameter", lambda engine, value: engine.execute("SHOW STREAMS", value)),
    "Engine.register parameters": (
        "parameter", lambda engine, value: engine.register(QUERY, f"new {value!r:.99}", parameters=value)
    ),
    "Engine.register_many parameters": (
        "parameter", lambda engine, value: engine.register_many({f"new {value!r:.99}": QUERY}, parameters=value)
    ),
    "Engine.register name": ("name", lambda engine, value: engine.register(QUERY, value)),
    "Engine.register backfill": (
        "batch|file|history|column|path|folder|'", lambda engine, value: engine.register(QUERY, "new", backfill=value)
    ),
    "Engine.register_many queries": ("queries|name|sql", lambda engine, value: engine.register_many(value)),
    "Engine.register_many backfill": (
        "batch|file|history|column|path|folder|'",
        lambda engine, value: engine.register_many({"new": QUERY}, backfill=value),
    ),
    "Engine.drop name": ("name|query", lambda engine, value: engine.drop(value)),
    "Engine.push stream": ("stream", lambda engine, value: engine.push(value, {})),
    "Engine.push batch": ("batch|column", lambda engine, value: engine.push("s", value)),
    "Engine.load table": ("table", lambda engine, value: engine.load(value, {})),
    "Engine.load data": ("batch|file|data|column|path|folder|'", lambda engine, value: engine.load("t", value)),
    "Engine.lookup name": ("name|query", lambda engine, value: engine.lookup(value)),
    "Engine.lookup key": ("key", lambda engine, value: engine.lookup("k", key=value)),
    "Engine.lookup at": ("instant|years", lambda engine, value: engine.lookup("q", at=value)),
    "Engine.value name": ("name|query", lambda engine, value: engine.value(value)),
    "Engine.value key": ("key", lambda engine, value: engine.value("k", key=value)),
    "Engine.value at": ("instant|years", lambda engine, value: engine.value("q", at=value)),
    "Engine.lookup_many names": ("names|query", lambda engine, value: engine.lookup_many(value)),
    "Engine.lookup_many at": ("instant|years", lambda engine, value: engine.lookup_many(["q"], at=value)),
    "Engine.lookup_at names": ("names|name|query", lambda engine, value: engine.lookup_at(value, REQUESTS)),
    "Engine.lookup_at requests": ("requests|batch|column", lambda engine, value: engine.lookup_at("k", value)),
    "Engine.lookup_at at": ("at|column", lambda engine, value: engine.lookup_at("k", REQUESTS, at=value)),
    "Engine.advance until": ("instant|years", lambda engine, value: engine.advance(value)),
    "Engine.advance together": ("together", lambda engine, value: engine.advance(together=value)),
    "Engine.coverage name": ("name|query", lambda engine, value: engine.coverage(value)),
    "Engine.rewind stream": ("stream", lambda engine, value: engine.rewind(value, 0)),
    "Engine.rewind to": ("instant|years|stands at", lambda engine, value: engine.rewind("s", value)),
    "Engine.explain name": ("name|query", lambda engine, value: engine.explain(value)),
    "Engine.stats queries": ("queries", lambda engine, value: engine.stats(queries=value)),
    "Engine.query_stats names": ("names|query", lambda engine, value: engine.query_stats(value)),
    "Engine.query name": ("name|query", lambda engine, value: engine.query(value)),
    "Engine.alone wait": ("wait", lambda engine, value: engine.alone(value).__enter__()),
    "Engine.rows name": ("name|query", lambda engine, value: engine.rows(value)),
    "Engine.rows key": ("key", lambda engine, value: engine.rows("k", key=value)),
    "Engine.rows at": ("instant|years", lambda engine, value: engine.rows("q", at=value)),
    "Engine.table_rows table": ("table", lambda engine, value: engine.table_rows(value)),
    "Engine.table_rows offset": ("offset", lambda engine, value: engine.table_rows("t", offset=value)),
    "Engine.table_rows limit": ("limit", lambda engine, value: engine.table_rows("t", limit=value)),
    "Engine.checkpoint path": ("path|checkpoint|write|'", lambda engine, value: engine.checkpoint(value)),
    "Engine.checkpoint note": ("note", lambda engine, value: engine.checkpoint("state", note=(value,))),
    "Engine.restore path": ("path|checkpoint|'", lambda engine, value: Engine.restore(value)),
    "Engine.restore incomplete_views": (
        "incomplete_views", lambda engine, value: Engine.restore("state", incomplete_views=value)
    ),
    "lookup_at history": (
        "batch|file|history|column|path|folder|'", lambda engine, value: past(history=value)
    ),
    "lookup_at queries": ("queries|sql|statement|text|name", lambda engine, value: past(queries=value)),
    "lookup_at requests": ("requests|batch|column", lambda engine, value: past(requests=value)),
    "lookup_at stream": ("stream|statement|text|sql", lambda engine, value: past(stream=value)),
    "lookup_at at": ("at|column", lambda engine, value: past(at=value)),
    "lookup_at batch_rows": ("batch_rows", lambda engine, value: past(batch_rows=value)),
    "lookup_at folders": ("folders", lambda engine, value: past(folders=value)),
    "merge_summaries texts": ("texts|summar", lambda engine, value: muntin.merge_summaries(value)),
    "Stream name": ("name", lambda engine, value: Stream(value, SCHEMA, "ts")),
    "Stream schema": ("schema", lambda engine, value: Stream("s", value, "ts")),
    "Stream time": ("time|column", lambda engine, value: Stream("s", SCHEMA, value)),
    "Stream delay": ("delay|DELAY", lambda engine, value: Stream("s", SCHEMA, "ts", value)),
    "Table name": ("name", lambda engine, value: Table(value, SCHEMA, ("ts",))),
    "Table schema": ("schema", lambda engine, value: Table("t", value, ("ts",))),
    "Table key": ("key|column", lambda engine, value: Table("t", SCHEMA, value)),
    "aggregate name": ("name|'", lambda engine, value: muntin.aggregate(value, takes=int, returns=int)),
    "aggregate takes": ("takes", lambda engine, value: muntin.aggregate("MINE", takes=value, returns=int)),
    "aggregate returns": ("returns", lambda engine, value: muntin.aggregate("MINE", takes=int, returns=value)),
    "function name": ("name|'", lambda engine, value: muntin.function(value, takes=[int], returns=int)),
    "function takes": ("takes", lambda engine, value: muntin.function("MINE", takes=value, returns=int)),
    "function returns": ("returns", lambda engine, value: muntin.function("MINE", takes=[int], returns=value)),
    "Window unit": ("unit", lambda engine, value: Window(value, 5)),
    "Window size": ("size", lambda engine, value: Window("rows", value)),
    "Window to": ("to", lambda engine, value: Window("rows", 5, to=value)),
    "Window slide": ("slide", lambda engine, value: Window("rows", 5, slide=value)),
    **{
        f"Engine.{call} {option}": (option, lambda engine, value, make=make, option=option: make(**{option: value}))
        for call, make in (("__init__", Engine), ("restore", lambda **options: Engine.restore("state", **options)))
        for option in ("backlog_bytes", "adaptive", "archive", "sketch_bytes", "folders", "portion_rows", "clock",
                       "threads")
    },
}  # fmt: skip
EXEMPT = {"Engine.close", "Engine.check", "Engine.queries", "Engine.streams"}  # take nothing


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.chdir(tmp_path)
    made = Engine()
    made.execute("CREATE STREAM s (ts TIMESTAMP, k VARCHAR, n BIGINT) TIMESTAMP BY ts")
    made.execute("CREATE TABLE t (k VARCHAR PRIMARY KEY, n BIGINT)")
    made.register(QUERY, "q")
    made.register(BY_KEY, "k")
    made.push("s", {"ts": [0], "k": ["a"], "n": [1]})
    made.checkpoint("state")
    return made


def told(engine: Engine) -> object:
    stats = engine.stats()
    return list(engine.queries), list(engine.streams), stats["streams"]["s"]["events"], stats["tables"]


@pytest.mark.parametrize("call", CALLS)
def test_wrong_types(engine: Engine, call: str) -> None:
    """An answer, where the value means something, or an error of ours."""
    names, make = CALLS[call]
    before = told(engine)
    refused = 0
    for value in WRONG:
        try:
            make(engine, value)
        except MuntinError as error:
            refused += 1
            assert any(name in str(error) for name in names.split("|")), f"{value!r}: {error}"
            assert told(engine) == before, f"{value!r} was half applied"
        else:
            before = told(engine)
    assert refused >= len(WRONG) // 2


def test_every_call_is_tried() -> None:
    """A new method or argument has its place above."""
    public = {
        f"Engine.{name} {argument}"
        for name, method in inspect.getmembers(Engine, callable)
        if (not name.startswith("_") or name == "__init__") and f"Engine.{name}" not in EXEMPT
        for argument in inspect.signature(method).parameters
        if argument != "self"
    }
    assert public <= CALLS.keys()
    kinds = {
        name
        for name in muntin.__all__
        if inspect.isclass(each := getattr(muntin, name)) and issubclass(each, MuntinError)
    }
    called = {call.partition(" ")[0].partition(".")[0] for call in CALLS}
    assert set(muntin.__all__) - kinds - called == {
        "JoinQuery",
        "Query",
        "TableQuery",
        "__version__",
    }  # made by the engine


def test_batches_that_cannot_be_read(engine: Engine) -> None:
    """Column names that are no texts, libraries that fail, calls of aggregates without arguments."""
    for batch in ({1: [1], "ts": [1]}, {None: [1]}, Failing(), {"ts": object(), "k": ["a"], "n": [1]}):
        with pytest.raises(MuntinError, match=r"column|Failing cannot be read: RuntimeError"):
            engine.push("s", batch)


FUNCTIONS = (
    "COUNT",
    "SUM",
    "QUANTILE",
    "APPROX_COUNT",
    "APPROX_FREQUENT",
    "MEDIAN",
    "ABS",
    "COALESCE",
    "CAST",
    "TRIM",
)
INSIDE = ("", "DISTINCT ", "DISTINCT", "*", "DISTINCT *", "DISTINCT n, n", ",", "n,", "NULL", "DISTINCT NULL")


@pytest.mark.parametrize("call", [f"{name}({inside})" for name in FUNCTIONS for inside in INSIDE])
def test_calls_without_arguments(engine: Engine, call: str) -> None:
    """Whatever stands in the parentheses, an answer or an error of ours."""
    for item in (call, f"{call} AS a", f"SUM(n) + {call}"):
        try:
            engine.register(f"SELECT {item} FROM s [ROWS 5]", f"x{item}")
        except MuntinError as error:
            assert "line 1" in str(error)
