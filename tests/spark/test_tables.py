"""A stream joined with tables, by shards as by the embedded engine: rows come, change and go between micro-batches, as
changes, by statements or all at once; attempts and memory are lost at random."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from shards import Shards
from test_shards import same, tasks_of

import muntin
from effort import some_of
from joined_tables import COLUMNS, EVENT, QUERIES, SECOND, STREAM, TABLES, VALUES, drawn
from muntin.sql import CreateStream, CreateTable, parse_query, parse_statements
from muntin.stream import Stream
from muntin.table import Table
from muntin.table_query import TableQuery

SOURCES: dict[str, Any] = {}
for _text in (STREAM, *TABLES.values()):
    match parse_statements(_text, {})[0]:
        case CreateStream(made) | CreateTable(made):
            SOURCES[made.name] = made
THE_STREAM: Stream = SOURCES["p"]


def tables_of(texts: Sequence[str]) -> list[Table]:
    """The tables that queries join."""
    parsed = [parse_query(text, SOURCES) for text in texts]
    joined = {table.name for query in parsed if isinstance(query, TableQuery) for table in query.tables}
    return [SOURCES[name] for name in TABLES if name in joined]


class Both:
    """Shards and an engine, told the same micro-batch by micro-batch."""

    def __init__(self, queries: dict[str, str], by_statements: bool = False, **options: Any):
        self.tables = tables_of(list(queries.values()))
        self.by_statements = by_statements
        self.shards = Shards(
            THE_STREAM, queries, tables=self.tables, is_controlled=by_statements, has_changes=True, **options
        )
        self.engine = muntin.Engine()
        for create in (STREAM, *TABLES.values()):
            self.engine.execute(create)
        self.engine.register_many(queries)
        self.now = 0

    def load(self, name: str, rows: list[tuple[Any, ...]]) -> None:
        """Have these rows, and no others."""
        table = _table(name, rows)
        self.engine.execute(f"DELETE FROM {name}")
        self.engine.load(name, table)
        self.compare(self.shards.load({name: table}))

    def changes(
        self, random: Random, name: str, rows: list[tuple[Any, ...]], gone: set[int]
    ) -> list[pa.RecordBatch]:
        """Tell the engine of changes; what brings them to the shards."""
        key = COLUMNS[name][0]
        if rows:
            self.engine.load(name, _table(name, rows))
        for each in gone:
            self.engine.execute(f"DELETE FROM {name} WHERE {key} = {each}")
        if self.by_statements:
            statements = [f"DELETE FROM {name} WHERE {key} = {each}" for each in gone]
            if rows:
                statements.insert(0, f"INSERT INTO {name} VALUES {', '.join(map(_values, rows))}")
            return self.shards.packed_statements([pa.record_batch({"statement": statements})])
        width = len(COLUMNS[name])
        told = [(*row, False) for row in rows]
        told += [(each, *[None] * (width - 1), True) for each in gone]
        # a change that another of the same key follows does nothing
        told = [(*map(random.choice, VALUES[name]), random.random() < 0.5) for _ in range(2)] + told
        told = [row for row in told if row[0] in {each[0] for each in told[2:]}]
        placed = [(*row, position) for position, row in enumerate(told)]
        random.shuffle(placed)
        if not placed:
            return []
        table: Table = SOURCES[name]
        kinds = [*(field.type for field in table.schema), pa.bool_(), pa.int64()]
        columns = [
            pa.array(column, kind) for column, kind in zip(zip(*placed, strict=True), kinds, strict=True)
        ]
        batch = pa.record_batch(columns, [str(number) for number in range(len(columns))])
        edge = random.randint(0, len(placed))
        return self.shards.change(name, [batch.slice(0, edge), batch.slice(edge)])

    def events(self, random: Random, many: int) -> list[list[pa.RecordBatch]]:
        """Events in order within the delay, as the engine takes them; what tasks read of them."""
        rows = []
        for _ in range(many):
            self.now += random.choice([0, 0, 300_000, SECOND, SECOND, 2 * SECOND, 7 * SECOND])
            rows.append((self.now - random.choice([0, 0, SECOND, 1_500_000]), *map(random.choice, EVENT[1:])))
        columns = [
            pa.array(column, kind)
            for column, kind in zip(zip(*rows, strict=True), THE_STREAM.schema.types, strict=True)
        ]
        table = pa.table(columns, schema=THE_STREAM.schema)
        self.engine.push("p", table)
        return tasks_of(table, random.randint(1, 3))

    def compare(self, got: dict[str, pa.Table]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            same(self.engine.advance(), got)
        assert not self.shards.refused


def _table(name: str, rows: list[tuple[Any, ...]]) -> pa.Table:
    schema = SOURCES[name].schema
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def _values(row: tuple[Any, ...]) -> str:
    return f"({', '.join(map(_constant, row))})"


def _constant(value: Any) -> str:
    if value is None:
        return "NULL"
    if hasattr(value, "total_seconds"):
        return f"INTERVAL '{round(value.total_seconds() * 1000)}' MILLISECOND"
    return repr(value)


WAYS = ("changes", "statements")  # in which a table may change


@pytest.mark.parametrize(
    ("query", "by"),
    [(query, WAYS[(query + turn) % 2]) for turn in range(some_of(2, 50)) for query in range(len(QUERIES))],
)
@pytest.mark.parametrize("seed", range(some_of(10, 2)))
def test_answers_are_those_of_the_engine(
    monkeypatch: pytest.MonkeyPatch, query: int, seed: int, by: str
) -> None:
    random = Random(f"{query} {seed} {by}")
    monkeypatch.setattr("muntin.spark.ledger._FEW", random.choice([1, 2, 64]))  # entries between two bases
    texts = [QUERIES[query], *random.sample(QUERIES, random.randint(0, 2))]
    changing = [
        text + " EMIT CHANGES" if _may_change(text) and random.random() < 0.5 else text for text in texts
    ]
    both = Both(
        {f"q{number}": text for number, text in enumerate(changing)}, by == "statements",
        shards=random.choice([1, 2, 3, 5]), fold=random.random() < 0.6,
    )  # fmt: skip
    for _ in range(random.randint(1, 7)):
        table = random.choice(both.tables).name
        if random.random() < 0.2:
            both.load(table, drawn(random, table, 0))
            continue
        packed = []
        if random.random() < 0.7:
            gone = {random.randint(1, 4)} if random.random() < 0.4 else set()
            rows = [row for row in drawn(random, table, 0) if row[0] not in gone]
            packed += both.changes(random, table, rows, gone)
        if random.random() < 0.8:
            packed += both.shards.packed(both.events(random, random.randint(1, 8)))
        if not packed:
            continue
        match random.choice(["", "", "attempt", "memory"]):
            case "attempt":
                both.shards.lose(packed)
            case "memory":
                both.shards.restart()
        both.compare(both.shards.deliver(packed))
    both.now += 20 * SECOND
    both.compare(both.shards.send(both.events(random, 2)))
    for route in both.shards.job.routes:
        for shard in both.shards.of_route(route.name):
            shard.check()


def _may_change(text: str) -> bool:
    return "GROUP BY" in text or "HAVING" in text
