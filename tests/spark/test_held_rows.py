"""Which shards hold which rows, what a checkpoint says of tables, and statements and changes that are refused."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from shards import Shards
from test_shards import same
from test_tables import SOURCES, THE_STREAM, tables_of

import muntin
from joined_tables import QUERIES, SECOND, STREAM, TABLES
from muntin.errors import CheckpointError, MuntinError
from muntin.spark.held_rows import is_in_one_shard
from muntin.spark.shard_of import shard_of_keys
from muntin.sql import parse_query
from muntin.table import Table

W = "[RANGE 4 SECONDS SLIDE 1 SECOND]"
LIMITS = QUERIES[0]
RULES = (
    f"SELECT r.id, COUNT(*) AS n FROM p {W} AS p JOIN r ON p.k = r.k GROUP BY r.id HAVING COUNT(*) > r.floor"
)
MERGING = f"SELECT t.tier, COUNT(*) AS n FROM p {W} AS p JOIN t ON p.k = t.k GROUP BY t.tier"
T_ROWS = pa.table({"k": range(40), "most": [0] * 40, "tier": ["a"] * 40})
R_ROWS = pa.table({"id": range(40), "k": range(40), "g": ["a"] * 40, "floor": [0] * 40})


def shards_of(*texts: str, **options: Any) -> Shards:
    queries = {f"q{number}": text for number, text in enumerate(texts)}
    options = {"shards": 4, "tables": tables_of(texts), "has_changes": True, **options}
    return Shards(THE_STREAM, queries, **options)


def held(shards: Shards, table: str, route: int = 0) -> list[list[Any]]:
    """The keys of the rows that each shard of a route holds."""
    found = []
    for shard in shards.of_route(shards.job.routes[route].name):
        rows = shard.tables.rows[table]
        found.append(rows.read(rows.slots, rows.table.key)[rows.table.key[0]].to_pylist())
    return found


def change(shards: Shards, table: str, *rows: tuple[Any, ...], gone: bool = False) -> list[pa.RecordBatch]:
    kinds = [*SOURCES[table].schema.types, pa.bool_()]
    told = zip(*((*row, gone) for row in rows), strict=True)
    columns = [pa.array(column, kind) for column, kind in zip(told, kinds, strict=True)]
    return shards.change(table, [pa.record_batch(columns, [str(number) for number in range(len(columns))])])


def events(*keys: int, at: int = 0) -> list[list[pa.RecordBatch]]:
    columns = [[at] * len(keys), list(keys), ["a"] * len(keys), [1] * len(keys)]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, THE_STREAM.schema.types, strict=True)]
    return [pa.table(arrays, schema=THE_STREAM.schema).to_batches()]


def test_a_row_is_held_by_the_shard_of_its_key() -> None:
    shards = shards_of(LIMITS)
    shards.load({"t": T_ROWS})
    by_shard = held(shards, "t")
    assert sorted(key for keys in by_shard for key in keys) == list(range(40))
    for bucket, keys in enumerate(by_shard):
        assert shard_of_keys([pa.array(keys)], 4).tolist() == [bucket] * len(keys)
    packed = change(shards, "t", (1, 5, "b"), (2, 5, "b"), (3, 5, "b"))
    assert (
        sum(
            pa.ipc.open_stream(each).read_all().num_rows
            for batch in packed
            for each in batch["data"].to_pylist()
        )
        == 3
    )
    shards.deliver(change(shards, "t", *((key, None, None) for key in range(39)), gone=True))
    assert sorted(key for keys in held(shards, "t") for key in keys) == [39]


def test_a_row_whose_key_of_the_stream_changes_goes_to_another_shard() -> None:
    shards = shards_of(RULES)
    shards.load({"r": R_ROWS})
    assert sorted(key for keys in held(shards, "r") for key in keys) == list(range(40))
    moved = [(id, id + 1, "a", 0) for id in range(40)]
    shards.deliver(change(shards, "r", *moved))
    by_shard = held(shards, "r")
    assert sorted(key for keys in by_shard for key in keys) == list(range(40))
    for bucket, ids in enumerate(by_shard):
        assert set(shard_of_keys([pa.array([id + 1 for id in ids])], 4).tolist()) <= {bucket}


@pytest.mark.parametrize(
    "texts",
    [
        [f"SELECT p.k, p.g, COUNT(*) AS n FROM p {W} AS p JOIN t ON p.k = t.k GROUP BY p.k, p.g"],
        [RULES, RULES.replace("p.k = r.k", "p.k = r.floor")],
    ],
    ids=["only some keys", "by different columns"],
)
def test_all_shards_hold_rows_that_any_of_them_may_need(texts: list[str]) -> None:
    shards = shards_of(*texts)
    (name,) = shards.job.routes[0].held
    shards.load({name: T_ROWS if name == "t" else R_ROWS})
    assert held(shards, name) == [list(range(40))] * 4


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (LIMITS, False), (f"{LIMITS} EMIT CHANGES", False), (RULES, False), (MERGING, True),
        (f"{RULES} EMIT CHANGES", True),  # a rule may come to another key, and stay in
        (RULES.replace("BY r.id", "BY r.id, r.k") + " EMIT CHANGES", False),
        (RULES.replace("BY r.id", "BY r.id, p.k") + " EMIT CHANGES", False),
        (f"SELECT t.k, COUNT(p.ts) AS n FROM t LEFT JOIN p {W} AS p ON p.k = t.k GROUP BY t.k HAVING COUNT(p.ts) = 0 "
         "EMIT CHANGES", False),
    ],
)  # fmt: skip
def test_who_needs_all_keys_in_one_shard(text: str, is_one: bool) -> None:
    query: Any = parse_query(text, SOURCES)
    assert is_in_one_shard(query) == is_one
    assert shards_of(text).job.routes[0].shards == (1 if is_one else 4)


def test_texts_that_begin_in_the_middle_of_a_buffer_have_the_shard_of_their_value() -> None:
    rows = muntin.Engine()
    rows.execute(TABLES["t"])
    for tier in "abc":
        rows.load("t", {"k": [1], "most": [0], "tier": [tier]})
    (column,) = rows.execute("SELECT tier FROM t").columns
    for texts in (column.chunk(0), pa.array(["a", "b", "c"]).slice(2), pa.array([None, "b", "c"]).slice(2)):
        assert shard_of_keys([texts], 1 << 40).tolist() == shard_of_keys([pa.array(["c"])], 1 << 40).tolist()


# What a checkpoint is bound to.


def restarted(shards: Shards, *texts: str, **options: Any) -> None:
    shards.options = {"zone": None, "shards": 4, "tables": tables_of(texts), **options}
    shards.restart({f"q{number}": text for number, text in enumerate(texts)})
    shards.send(events(1, at=9 * SECOND))


def test_a_checkpoint_goes_on_with_its_tables() -> None:
    shards = shards_of(LIMITS)
    shards.load({"t": T_ROWS})
    shards.send(events(1))
    restarted(shards, LIMITS.replace("SUM(p.v) AS s", "MAX(p.v) AS s"))  # other queries
    assert sorted(key for keys in held(shards, "t") for key in keys) == list(range(40))
    t: Table = SOURCES["t"]
    others = {
        "which is not given": (),
        r"PRIMARY KEY \(k\)\), not as .* PRIMARY KEY \(k, tier\)": (Table("t", t.schema, ("k", "tier")),),
        "tier VARCHAR, PRIMARY": (Table("t", t.schema.remove(1), ("k",)),),
    }
    for reason, tables in others.items():
        text = f"SELECT p.k, COUNT(*) AS n FROM p {W} AS p"
        text += " JOIN t ON p.k = t.k AND p.g = t.tier GROUP BY p.k, p.g" if tables else " GROUP BY p.k"
        options = {"keys": ["k", "k, g"]} if tables else {}
        again = shards_of(LIMITS, **options)
        again.load({"t": T_ROWS})
        with pytest.raises(CheckpointError, match=reason):
            restarted(again, text, tables=tables, **options)


def test_rows_that_are_needed_elsewhere_come_anew_or_are_missed() -> None:
    other = RULES.replace("p.k = r.k", "p.k = r.floor")
    shards = shards_of(RULES)
    shards.load({"r": R_ROWS})
    with pytest.raises(CheckpointError, match="rows of table 'r' by k, and these queries need them by floor"):
        restarted(shards, other)
    shards.load({"r": R_ROWS})  # all of them come with the micro-batch
    assert sum(map(len, held(shards, "r"))) == 40


# Statements and changes.


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("INSERT INTO t VALUES (1, 2, 'a'), (1, 3, 'b')", "k = 1 is in rows 0 and 1"),
        ("INSERT INTO t VALUES (NULL, 2, 'a')", "'k' is NULL"),
        ("INSERT INTO t VALUES ('x', 2, 'a')", "VARCHAR where column 'k' is BIGINT"),
        ("INSERT INTO tt VALUES (1, 2, 'a')", "unknown table 'tt'; did you mean 't'"),
        ("DELETE FROM t; DELETE FROM p", "'p' is a stream"),
        ("DELETE FROM t; DROP TABLE t", "nothing else"),
        (TABLES["u"], "nothing else"),
        (f"REGISTER QUERY t AS {LIMITS}", "there is a table 't' already"),
        (f"REGISTER QUERY m AS {MERGING}", "needs what is kept by 'k' in one shard"),
    ],
)
def test_a_statement_that_is_refused_changes_nothing(statement: str, reason: str) -> None:
    shards = shards_of(LIMITS, is_controlled=True)
    shards.load({"t": T_ROWS})
    shards.tell(statement)
    (told,) = shards.refused
    assert re.search(reason, told)
    assert held(shards, "t") == [list(range(40))] * 4


def test_a_query_that_joins_a_table_comes_and_goes() -> None:
    shards, engine = shards_of(LIMITS, is_controlled=True), muntin.Engine()
    engine.execute(f"{STREAM}; {TABLES['t']}")
    engine.register(LIMITS, "q0")
    counts = f"SELECT p.k, COUNT(*) AS s, t.most FROM p {W} AS p JOIN t ON p.k = t.k GROUP BY p.k"
    text = (
        f"INSERT INTO t VALUES (1, 0, 'a'); REGISTER QUERY new AS {counts}; INSERT INTO t VALUES (2, 5, 'b')"
    )
    for begin, statements in enumerate(["", text, "", "", "DROP QUERY new; DELETE FROM t WHERE k = 1", ""]):
        if statements:
            engine.execute(statements)
            shards.tell(statements)
        batch = events(1, 2, 3, at=begin * 2 * SECOND)
        engine.push("p", pa.Table.from_batches(batch[0]))
        wanted = engine.advance()
        got = shards.send(batch)
        new = pa.Table.from_pylist([row for row in shards.last.to_pylist() if row["query"] == "new"])
        new = new.select(["k", "s", "most", "window_end"]) if new.num_rows else new
        told = wanted.pop("new", pa.table({}))
        assert bool(told.num_rows) == (begin in (2, 3))
        assert sorted(map(str, new.to_pylist())) == sorted(
            map(str, told.select(new.column_names).to_pylist())
        )
        same(wanted, got)
    assert shards.refused == []


def test_a_change_without_a_key_is_left_out_and_told_of_once() -> None:
    shards = shards_of(LIMITS, RULES)
    packed = change(shards, "t", (1, 5, "b"), (None, 7, "x"), (2, 5, "b"), (None, 8, "y"))
    shards.deliver([*packed, *shards.packed(events(1))])
    (told,) = shards.refused
    assert "2 changes of table 't' are left out, since k is NULL" in told
    assert '"most": 7' in told
    assert sorted(key for keys in held(shards, "t") for key in keys) == [1, 2]


def test_names_and_tables_are_checked() -> None:
    with pytest.raises(MuntinError, match="a query and a table are both called 't'"):
        Shards(THE_STREAM, {"t": LIMITS}, tables=tables_of([LIMITS]))
    with pytest.raises(MuntinError, match="no query joins table 'r'"):
        shards_of(LIMITS, tables=[SOURCES["t"], SOURCES["r"]])
    with pytest.raises(MuntinError, match="unknown stream 't'"):
        shards_of(LIMITS, tables=[])
