"""Rows of a table against a plain dict: they come, change and go, and a snapshot has them all at any point."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.errors import CheckpointError, SchemaError
from muntin.store.saved import Saved
from muntin.table import Table
from muntin.tables.keyed_rows import keyed_rows
from muntin.tables.rows import TableRows

COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int64(), st.integers(-3, 3)),
    "far": (pa.int64(), st.sampled_from([-(2**63), 0, 2**63 - 1, 5])),
    "t": (pa.string(), st.sampled_from(["", "a", "b b", "ç", "x" * 40])),
    "f": (pa.float64(), st.sampled_from([0.0, 1.5, float("inf"), -2.0])),
    "s": (pa.int16(), st.integers(-2, 2)),
    "b": (pa.bool_(), st.booleans()),
    "d": (pa.date32(), st.sampled_from([dt.date(1969, 1, 1), dt.date(2024, 2, 29)])),
    "at": (pa.timestamp("us"), st.sampled_from([dt.datetime(1960, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 1)])),
    "span": (pa.duration("us"), st.sampled_from([dt.timedelta(0), dt.timedelta(minutes=5)])),
}
KEYS = [("i",), ("t",), ("far", "t"), ("d", "b", "s")]


def make(key: tuple[str, ...]) -> Table:
    return Table("r", pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()]), key)


def batch(table: Table, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in table.schema]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def listed(rows: TableRows) -> list[dict[str, Any]]:
    columns = rows.read(rows.slots, rows.table.schema.names)
    return pa.table(columns).to_pylist()


def values_of(row: dict[str, Any], key: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[name] for name in key)


class Model:
    """The same table as a dict, which keeps the order of insertion; and who follows it by slot."""

    def __init__(self, table: Table):
        self.table = table
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.by_slot: dict[int, tuple[Any, ...]] = {}

    def put(self, real: TableRows, some: list[dict[str, Any]]) -> None:
        change = real.to_put(keyed_rows(self.table, batch(self.table, some)))
        assert listed(real) == list(self.rows.values())  # nothing has changed yet
        new = [values_of(row, self.table.key) not in self.rows for row in some]
        assert len(change.inserted) == sum(new)
        assert len(change.replaced) == len(some) - sum(new)
        real.apply(change)
        for slot, row in zip(change.slots.tolist(), some, strict=True):
            key = values_of(row, self.table.key)
            if slot in change.replaced.tolist():
                assert self.by_slot[slot] == key  # a row that is replaced keeps its slot
            else:
                assert slot not in self.by_slot
            self.by_slot[slot] = key
            self.rows[key] = row

    def delete(self, real: TableRows, keys: list[tuple[Any, ...]]) -> None:
        kinds = [self.table.column(name).type for name in self.table.key]
        slots = real.find([pa.array([key[n] for key in keys], kind) for n, kind in enumerate(kinds)])
        real.apply(real.to_delete(slots))
        for slot, key in zip(slots.tolist(), keys, strict=True):
            assert self.by_slot.pop(slot) == key
            del self.rows[key]


@settings(deadline=None)
@given(st.data(), st.sampled_from(KEYS))
def test_as_a_dict(data: st.DataObject, key: tuple[str, ...]) -> None:
    """After every change the rows, their order and what was told of slots are those of the dict."""
    table = make(key)
    real, model = TableRows(table), Model(table)
    row = st.fixed_dictionaries(
        {name: values if name in key else st.none() | values for name, (_, values) in COLUMNS.items()}
    )
    for _ in range(data.draw(st.integers(1, 8))):
        action = data.draw(st.sampled_from(["put", "put", "delete", "restore"]))
        if action == "put":
            model.put(real, data.draw(st.lists(row, max_size=6, unique_by=lambda each: values_of(each, key))))
        elif action == "delete" and model.rows:
            model.delete(real, data.draw(st.lists(st.sampled_from(list(model.rows)), unique=True)))
        elif action == "restore":
            saved, real = real.snapshot(), TableRows(table)
            real.restore(Saved(saved))
            model.by_slot = dict(zip(real.slots.tolist(), model.rows, strict=True))
        assert listed(real) == list(model.rows.values())
        assert len(real) == len(model.rows)
        real.check()


def test_slots_and_texts_are_used_again() -> None:
    """However many rows have come and gone, what is kept is that of the rows that are there."""
    table = Table("r", pa.schema([("k", pa.string()), ("text", pa.string())]), ("k",))
    rows = TableRows(table)
    numbers = iter(range(10**9))
    for turn in range(60):
        names = [f"key {next(numbers)}" for _ in range(1_000)]
        columns = {"k": names, "text": [f"a text of {name}" for name in names]}
        rows.apply(rows.to_put(keyed_rows(table, pa.RecordBatch.from_pydict(columns, table.schema))))
        if turn >= 3:
            rows.apply(rows.to_delete(rows.slots[:1_000]))
    rows.check()
    assert len(rows) == 3_000
    assert rows.room <= 4_000
    assert listed(rows)[0]["text"] == "a text of key 57000"
    assert rows.nbytes() < 4_000 * 400


def test_a_table_that_was_emptied_begins_anew() -> None:
    rows = TableRows(make(("i",)))
    row = dict.fromkeys(COLUMNS)
    rows.apply(rows.to_put(keyed_rows(rows.table, batch(rows.table, [row | {"i": 1}, row | {"i": 2}]))))
    rows.apply(rows.to_delete(rows.slots))
    assert (len(rows), rows.room, listed(rows)) == (0, 0, [])
    rows.apply(rows.to_put(keyed_rows(rows.table, batch(rows.table, [row | {"i": 2}]))))
    assert listed(rows)[0]["i"] == 2
    rows.check()


def test_floats_are_keys_as_everywhere() -> None:
    """NaN equals itself, whatever its bits, and 0.0 is -0.0."""
    table = Table("r", pa.schema([("k", pa.float64()), ("n", pa.int64())]), ("k",))
    nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    rows = TableRows(table)
    for number, key in enumerate([0.0, float("nan"), -0.0, nan]):
        made = pa.RecordBatch.from_arrays(
            [pa.array(np.array([key])), pa.array([number])], schema=table.schema
        )
        rows.apply(rows.to_put(keyed_rows(table, made)))
    assert [row["n"] for row in listed(rows)] == [2, 3]


def test_keys_that_cannot_be() -> None:
    table = make(("i", "t"))
    row = dict.fromkeys(COLUMNS) | {"i": 1, "t": "a"}
    with pytest.raises(
        SchemaError, match=r"column 't' is NULL in row 1, and it is part of the primary key of table 'r'"
    ):
        keyed_rows(table, batch(table, [row, row | {"t": None}]))
    with pytest.raises(SchemaError, match=r"must differ: i = 1, t = 'a' is in rows 0 and 2$"):
        keyed_rows(table, batch(table, [row, row | {"i": 2}, row]))
    with pytest.raises(SchemaError, match=r"i = 3, t = 'a' is in rows 2 and 3; .*, and 2 more keys"):
        keyed_rows(table, batch(table, [row | {"i": number // 2 + 2} for number in range(10)]))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (lambda saved: saved.pop("1"), "'1' is missing"),
        (lambda saved: saved.update({"1": pa.array([1.5, 2.5])}), "'1' is of double, not of int64"),
        (lambda saved: saved.update({"1": pa.array([1])}), "'1' has 1 elements instead of 2"),
        (lambda saved: saved.update({"0": pa.array([1, 1])}), "must differ: i = 1 is in rows 0 and 1"),
        (lambda saved: saved.update({"0": pa.array([1, None])}), "'i' is NULL in row 1"),
    ],
)
def test_a_snapshot_that_is_damaged(how: Any, words: str) -> None:
    table = Table("r", pa.schema([("i", pa.int64()), ("n", pa.int64())]), ("i",))
    rows = TableRows(table)
    rows.apply(
        rows.to_put(keyed_rows(table, pa.RecordBatch.from_pydict({"i": [1, 2], "n": [3, 4]}, table.schema)))
    )
    saved = rows.snapshot()
    how(saved)
    with pytest.raises(CheckpointError, match=words):
        TableRows(table).restore(Saved(saved))
