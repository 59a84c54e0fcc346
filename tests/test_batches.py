"""A batch is a batch: the same events in any library, type or layout give the same answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import muntin
from answers import is_close
from reference import EPOCH

STREAM = (
    "CREATE STREAM s (ts TIMESTAMP, k VARCHAR, n BIGINT, x DOUBLE, b BOOLEAN) TIMESTAMP BY ts DELAY 2 SECONDS"
)
QUERIES = {
    "by_key": "SELECT k, SUM(n) AS n, AVG(x) AS x, COUNT(b) AS b FROM s [RANGE 10 SECONDS] GROUP BY k",
    "rows": "SELECT SUM(n) AS n, MAX(x) AS x, LAST(k) AS k, COUNT(*) FILTER (WHERE b) AS b FROM s [ROWS 4]",
    "slid": "SELECT k, MEDIAN(n) AS n, MIN(k) AS least FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k",
}
MANY = 12
TIMES = [1_700_000_000_000_000 + second * 1_000_000 for second in (0, 1, 1, 3, 2, 5, 6, 6, 8, 7, 9, 10)]
KEYS = ["a", "b", None, "a", "ü", "b", "", "a", None, "b", "ü", "a"]
NUMBERS = [1, None, 3, 4, 5, 6, 7, 8, None, 10, 11, 12]
FLOATS = [0.5, 1.5, None, 2.5, math.inf, 3.0, 4.0, 5.0, 0.1, 0.2, None, 0.25]
FLAGS = [True, False, None, True, True, False, None, True, False, True, True, None]
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us")),
        ("k", pa.string()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("b", pa.bool_()),
    ]
)
TABLE = pa.table({"ts": TIMES, "k": KEYS, "n": NUMBERS, "x": FLOATS, "b": FLAGS}, schema=SCHEMA)


def answers(*batches: Any) -> list[Any]:
    """All look-ups and all closed windows after pushing the batches."""
    engine = muntin.Engine()
    engine.execute(STREAM)
    engine.register_many(QUERIES)
    for batch in batches:
        engine.push("s", batch)
    engine.check()
    tables = [engine.lookup(name) for name in QUERIES] + list(
        engine.advance(until=TIMES[-1] + 10**7).values()
    )
    assert (engine.stats()["streams"]["s"]["events"], engine.stats()["streams"]["s"]["late"]) == (MANY, 0)
    return [table.to_pylist() for table in tables]


def assert_same(*batches: Any) -> None:
    """The answers are those of the plain Arrow table."""
    ours, expected = answers(*batches), answers(TABLE)
    assert len(ours) == len(expected)
    for one, other in zip(ours, expected, strict=True):
        assert len(one) == len(other)
        for row, wanted in zip(one, other, strict=True):
            assert all(is_close(wanted[name], row[name]) for name in wanted), f"expected {wanted}, got {row}"


def with_column(name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return TABLE.set_column(TABLE.column_names.index(name), name, values)


def stamps(unit: str, zone: str | None = None) -> pa.Array:
    """The event times in another unit (all are whole seconds) and zone."""
    return TABLE["ts"].cast(pa.timestamp(unit)).combine_chunks().cast(pa.timestamp(unit, zone))


ARROW: dict[str, Callable[[], Any]] = {
    "a record batch": lambda: TABLE.to_batches()[0],
    "seconds": lambda: with_column("ts", stamps("s")),
    "milliseconds": lambda: with_column("ts", stamps("ms")),
    "nanoseconds": lambda: with_column("ts", stamps("ns")),
    "nanoseconds, rounded down": lambda: with_column(
        "ts", pa.array([time * 1000 + 999 for time in TIMES], pa.timestamp("ns"))),
    "UTC": lambda: with_column("ts", stamps("us", "UTC")),
    "a zone": lambda: with_column("ts", stamps("ns", "America/New_York")),
    "microseconds as integers": lambda: with_column("ts", pa.array(TIMES)),
    "dictionary of text": lambda: with_column("k", TABLE["k"].dictionary_encode()),
    "dictionary with small indices": lambda: with_column(
        "k", TABLE["k"].cast(pa.dictionary(pa.int8(), pa.string()))),
    "large text": lambda: with_column("k", TABLE["k"].cast(pa.large_string())),
    "text views": lambda: with_column("k", TABLE["k"].cast(pa.string_view())),
    "small integers": lambda: with_column("n", TABLE["n"].cast(pa.int8())),
    "unsigned integers": lambda: with_column("n", TABLE["n"].cast(pa.uint16())),
    "whole floats for integers": lambda: with_column("n", TABLE["n"].cast(pa.float64())),
    "chunks": lambda: pa.concat_tables([TABLE[:1], TABLE[1:1], TABLE[1:7], TABLE[7:]]),
    "chunks with their own dictionaries": lambda: pa.concat_tables([
        TABLE[:5].set_column(1, "k", TABLE["k"][:5].dictionary_encode()),
        TABLE[5:].set_column(1, "k", TABLE["k"][5:].dictionary_encode())]),
    "a slice of something longer": lambda: pa.concat_tables([TABLE] * 3).combine_chunks().slice(MANY, MANY),
    "columns in another order": lambda: TABLE.select(["b", "x", "n", "k", "ts"]),
    "columns beyond the stream's": lambda: TABLE.append_column("note", pa.array([[1]] * MANY)),
}  # fmt: skip


@pytest.mark.parametrize("layout", ARROW)
def test_arrow(layout: str) -> None:
    """Arrow data in every unit, zone, encoding and chunking."""
    assert_same(ARROW[layout]())


def pandas_frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "ts": pd.to_datetime(TIMES, unit="us"), "k": KEYS, "n": pd.array(NUMBERS, "Int64"),
            "x": FLOATS, "b": pd.array(FLAGS, "boolean"),
        }
    )  # fmt: skip


PANDAS: dict[str, Callable[[], pd.DataFrame]] = {
    "plain": pandas_frame,
    "objects": lambda: pandas_frame().astype({"n": object, "b": object}),
    "categories": lambda: pandas_frame().astype({"k": "category"}),
    "floats with NaN for missing integers": lambda: pandas_frame().astype({"n": "float64"}),
    "an index that is not a range": lambda: pandas_frame().set_index(pd.Index(range(100, 100 + MANY))),
    "a zone": lambda: pandas_frame().assign(
        ts=lambda frame: frame["ts"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")),
    "microseconds": lambda: pandas_frame().astype({"ts": "datetime64[us]"}),
    "Arrow types": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
}  # fmt: skip


@pytest.mark.parametrize("layout", PANDAS)
def test_pandas(layout: str) -> None:
    """Data frames of pandas, where missing is NaN, None or NA."""
    assert_same(PANDAS[layout]())


POLARS: dict[str, Callable[[], pl.DataFrame]] = {
    "plain": lambda: pl.DataFrame(TABLE),
    "categories": lambda: pl.DataFrame(TABLE).with_columns(pl.col("k").cast(pl.Categorical)),
    "nanoseconds": lambda: pl.DataFrame(TABLE).with_columns(pl.col("ts").cast(pl.Datetime("ns"))),
    "milliseconds and a zone": lambda: pl.DataFrame(TABLE).with_columns(
        pl.col("ts").cast(pl.Datetime("ms")).dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Paris")),
    "chunks": lambda: pl.concat([pl.DataFrame(TABLE[:5]), pl.DataFrame(TABLE[5:])], rechunk=False),
}  # fmt: skip


@pytest.mark.parametrize("layout", POLARS)
def test_polars(layout: str) -> None:
    """Data frames of polars."""
    assert_same(POLARS[layout]())


PLUS_TWO = timezone(timedelta(hours=2))
DICTS: dict[str, Callable[[], dict[str, Any]]] = {
    "lists": lambda: {"ts": TIMES, "k": KEYS, "n": NUMBERS, "x": FLOATS, "b": FLAGS},
    "datetimes": lambda: {**TABLE.to_pydict(), "ts": [EPOCH + timedelta(microseconds=t) for t in TIMES]},
    "datetimes with a zone": lambda: {
        **TABLE.to_pydict(), "ts": [datetime.fromtimestamp(t // 10**6, PLUS_TWO) for t in TIMES]},
    "numpy times": lambda: {**TABLE.to_pydict(), "ts": np.array(TIMES, "datetime64[us]")},
    "numpy nanoseconds": lambda: {**TABLE.to_pydict(), "ts": np.array(TIMES, "M8[us]").astype("M8[ns]")},
    "numpy integers": lambda: {**TABLE.to_pydict(), "ts": np.array(TIMES)},
    "Arrow arrays": lambda: {name: TABLE[name] for name in TABLE.column_names},
    "tuples": lambda: {name: tuple(values) for name, values in TABLE.to_pydict().items()},
    "pandas series": lambda: {**TABLE.to_pydict(), "n": pd.Series(NUMBERS, dtype="Int64")},
    "polars series": lambda: {**TABLE.to_pydict(), "n": pl.Series(NUMBERS)},
    "Python objects in numpy": lambda: {**TABLE.to_pydict(), "k": np.array(KEYS, object)},
}  # fmt: skip


@pytest.mark.parametrize("layout", DICTS)
def test_dict(layout: str) -> None:
    """Dictionaries of whatever holds a column."""
    assert_same(DICTS[layout]())


def test_numpy_numbers() -> None:
    """NaN in a NumPy array is a value; there is no NULL in one."""
    times = np.array(TIMES, "datetime64[us]")
    numbers, floats = np.arange(MANY), np.linspace(0, 1, MANY)
    floats[-1] = np.nan
    columns = {"ts": times, "k": ["a"] * MANY, "b": np.ones(MANY, bool)}
    as_numpy = {**columns, "n": numbers.astype(np.int32), "x": floats}
    as_lists = {**columns, "n": numbers.tolist(), "x": floats.tolist()}
    one, other = answers(as_numpy), answers(as_lists)
    assert repr(one) == repr(other)
    assert math.isnan(one[1][0]["x"])


@pytest.mark.parametrize("size", [1, 2, 5, 11])
def test_cut_into_batches(size: int) -> None:
    """Cutting a batch changes nothing, whatever kinds the pieces are."""
    pieces = [TABLE.slice(start, size) for start in range(0, MANY, size)]
    kinds: list[Callable[[pa.Table], Any]] = [
        lambda piece: piece,
        lambda piece: piece.to_pydict(),
        pl.DataFrame,
        lambda piece: piece.to_batches()[0],
    ]
    assert_same(*[kinds[number % len(kinds)](piece) for number, piece in enumerate(pieces)])


def test_a_batch_is_not_kept() -> None:
    """The engine copies what it needs: changing an array after the push changes no answer."""
    numbers = np.arange(MANY)
    batch = {**TABLE.to_pydict(), "n": numbers}
    engine = muntin.Engine()
    engine.execute(STREAM)
    engine.register_many(QUERIES)
    engine.push("s", batch)
    before = [engine.lookup(name).to_pylist() for name in QUERIES]
    numbers[:] = -1
    assert repr([engine.lookup(name).to_pylist() for name in QUERIES]) == repr(before)


INSTANTS: dict[str, Any] = {
    "microseconds": TIMES[6], "numpy microseconds": np.int64(TIMES[6]),
    "datetime": EPOCH + timedelta(microseconds=TIMES[6]),
    "datetime with a zone": datetime.fromtimestamp(TIMES[6] // 10**6, PLUS_TWO),
    "numpy seconds": np.datetime64(TIMES[6] // 10**6, "s"),
    "numpy nanoseconds": np.datetime64(TIMES[6] * 1000, "ns"),
    "pandas": pd.Timestamp(TIMES[6], unit="us"),
    "pandas with a zone": pd.Timestamp(TIMES[6], unit="us", tz="UTC"),
    "Arrow": pa.scalar(TIMES[6], pa.timestamp("us")).as_py(),
}  # fmt: skip


@pytest.mark.parametrize("kind", INSTANTS)
def test_instants(kind: str) -> None:
    """`at` and `until` take every kind of time stamp; without a zone it is UTC."""
    results = []
    for instant in (INSTANTS[kind], TIMES[6]):
        engine = muntin.Engine()
        engine.execute(STREAM)
        engine.register_many(QUERIES)
        engine.push("s", TABLE.slice(0, 8))
        looked_up = [engine.lookup(name, at=instant).to_pylist() for name in QUERIES]
        results.append(
            repr([*looked_up, {k: v.to_pylist() for k, v in engine.advance(until=instant).items()}])
        )
    assert results[0] == results[1]
