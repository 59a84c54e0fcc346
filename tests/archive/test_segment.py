"""Segments: rows in, the same rows out, found by any key type; runs merged in order, in small pieces."""

from __future__ import annotations

import datetime
import zlib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.archive import Archive, Definition, rewrite, segment
from muntin.archive.disk import SUFFIX
from muntin.archive.rewrite import MemoryRun, merge_runs
from muntin.archive.segment import _TAIL as TAIL
from muntin.archive.segment import Segment, write_segment
from muntin.archive.sorted_columns import SortedColumns, sort_rows, sought
from muntin.errors import ArchiveError

NAN = float("nan")
KEYS = {
    pa.int64(): st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([2**63 - 1, -(2**63)])),
    pa.int16(): st.integers(-3, 3),
    pa.uint64(): st.sampled_from([0, 1, 2**64 - 1]),
    pa.float64(): st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, NAN, float("inf"), -float("inf")])),
    pa.string(): st.one_of(st.none(), st.sampled_from(["", "a", "ab", "é", "z", "\U0001f600", "￿"])),
    pa.binary(): st.sampled_from([b"", b"\0", b"\xff", b"a"]),
    pa.bool_(): st.one_of(st.none(), st.booleans()),
    pa.timestamp("us"): st.sampled_from([datetime.datetime(2020, 1, day) for day in (1, 2, 3)]),
    pa.date32(): st.one_of(st.none(), st.sampled_from([datetime.date(2020, 1, day) for day in (1, 2, 3)])),
    pa.decimal128(10, 2): st.sampled_from([Decimal("1.50"), Decimal("-2.25"), Decimal("0.00")]),
}


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of two rows and pieces of a few, so that small tables have many."""
    monkeypatch.setattr(segment, "FEWEST_BLOCK_ROWS", 2)
    monkeypatch.setattr(segment, "BLOCK_BYTES", 1)
    monkeypatch.setattr(rewrite, "PIECE_BYTES", 200)


def same(one, two) -> bool:
    return one == two or (one != one and two != two)


@pytest.mark.parametrize("kind", KEYS, ids=str)
@settings(max_examples=15)
@given(data=st.data())
def test_every_type_of_key_is_found(tmp_path_factory, small_blocks_session, kind, data):
    keys = data.draw(st.lists(KEYS[kind], min_size=1, max_size=20))
    made = Definition(pa.schema([("k", kind), ("n", pa.int64())]), ("k",), 10, 1)
    rows = pa.table({"k": pa.array(keys, kind), "n": np.arange(len(keys)), "generated_at": [1] * len(keys),
                     "expires_at": 2 + np.arange(len(keys)) % 5})  # fmt: skip
    with Archive.create(tmp_path_factory.mktemp("a"), made, "no_rebuild 2x2") as archive:
        archive.update(1, rows.slice(0, len(keys) // 2))
        archive.update(1, rows.slice(len(keys) // 2))
        for key in keys:
            expected = [n for n, other in enumerate(keys) if same(key, other)]
            assert sorted(archive.view.probe(key)["n"].to_pylist()) == expected
        order = archive.view.read_all()["k"].to_pylist()
        expected = sorted(key for key in keys if key is not None and key == key)
        assert [key for key in order if key is not None and key == key] == expected
        assert order[len(order) - keys.count(None) :] == [None] * keys.count(None)
        archive.check()


@pytest.fixture(scope="module")
def small_blocks_session():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "FEWEST_BLOCK_ROWS", 2)
        patch.setattr(segment, "BLOCK_BYTES", 1)
        patch.setattr(rewrite, "PIECE_BYTES", 200)
        yield


@settings(max_examples=60)
@given(
    rows=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", None])), min_size=1, max_size=60),
    wanted=st.tuples(st.integers(-1, 6), st.sampled_from(["a", "b", "c", None])),
)
def test_bounds_of_several_columns(rows, wanted):
    x, y = pa.array([x for x, _ in rows], pa.int64()), pa.array([y for _, y in rows], pa.string())
    table = sort_rows(pa.table({"x": x, "y": y}), ["x", "y"])
    columns = SortedColumns([table.column(name).combine_chunks() for name in ("x", "y")])
    rank = {"a": 0, "b": 1, "c": 2, None: 3}
    ranked = [(x, rank[y]) for x, y in rows]
    target = (wanted[0], rank[wanted[1]])
    assert columns.bound(wanted, "left") == sum(each < target for each in ranked)
    assert columns.bound(wanted, "right") == sum(each <= target for each in ranked)
    assert columns.bound(wanted[:1], "left") == sum(each[0] < target[0] for each in ranked)
    assert columns.bound(wanted[:1], "right") == sum(each[0] <= target[0] for each in ranked)
    for values in (wanted, wanted[:1]):
        assert columns.span(values) == (columns.bound(values, "left"), columns.bound(values, "right"))


def test_a_key_of_several_columns(tmp_path, small_blocks):
    columns = pa.schema([("day", pa.date32()), ("symbol", pa.string()), ("n", pa.int64())])
    made = Definition(columns, ("day", "symbol"), 10, 1)
    days = [datetime.date(2020, 1, 1 + n % 3) for n in range(30)]
    symbols = ["xyz"[n % 2] for n in range(30)]
    with Archive.create(tmp_path, made, "rebuild 2x2") as archive:
        archive.update(1, {"day": days, "symbol": symbols, "n": range(30), "generated_at": [1] * 30,
                           "expires_at": [3 + n % 8 for n in range(30)]})  # fmt: skip
        probed = archive.view.probe((days[1], "y"))["n"].to_pylist()
        assert sorted(probed) == [n for n in range(30) if (days[n], symbols[n]) == (days[1], "y")]
        assert archive.view.probe((days[1],)).num_rows == 10  # the beginning of a key
        found = archive.view.probe_range((days[0], "y"), (days[2],))
        expected = [n for n in range(30) if (days[0], "y") <= (days[n], symbols[n]) < (days[2],)]
        assert sorted(found["n"].to_pylist()) == expected
        with pytest.raises(Exception, match=r"the key has 2 column\(s\) \(day, symbol\), not 3"):
            archive.view.probe((days[1], "y", 3))
        with pytest.raises(Exception, match="5 is not a value of key 'symbol'"):
            archive.view.probe((days[1], 5))


def test_any_arrow_reader_reads_a_segment(tmp_path):
    rows = pa.table({"k": [1, 2, 3], "s": ["a", None, "c"]})
    write_segment(tmp_path / "s", [rows], rows.schema, ["k"])
    with pa.ipc.open_stream(tmp_path / "s") as reader:
        assert reader.read_all().equals(rows)


def test_no_rows_no_file(tmp_path):
    rows = pa.table({"k": pa.array([], pa.int64())})
    assert write_segment(tmp_path / "s", [rows], rows.schema, ["k"]) is None
    assert write_segment(tmp_path / "s", [], rows.schema, ["k"]) is None
    assert not list(tmp_path.iterdir())


@settings(max_examples=40)
@given(
    lists=st.lists(
        st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=30),
        min_size=1,
        max_size=4,
    )
)
def test_merging(small_blocks_session, lists):
    schema = pa.schema([("k", pa.int64()), ("e", pa.int64())])
    tables = [
        pa.table({"k": [k for k, _ in rows], "e": [e for _, e in rows]}, schema=schema)
        for rows in map(sorted, lists)
    ]
    runs = [MemoryRun(table, ["k", "e"]) for table in tables]
    pieces = list(merge_runs(runs, ["k", "e"]))
    merged = [(row["k"], row["e"]) for piece in pieces for row in piece.to_pylist()]
    assert merged == sorted(row for rows in lists for row in rows)


def test_merging_holds_small_pieces(tmp_path, small_blocks):
    schema = pa.schema([("k", pa.int64()), ("e", pa.int64())])
    random = np.random.default_rng(1)
    runs = []
    for number in range(3):
        rows = sort_rows(
            pa.table({"k": random.integers(0, 50, 400), "e": random.integers(0, 50, 400)}, schema=schema),
            ["k", "e"],
        )
        runs.append(
            write_segment(tmp_path / str(number), [rows.slice(0, 7), rows.slice(7)], schema, ["k", "e"])
        )
    pieces = list(merge_runs(runs, ["k", "e"]))
    assert max(piece.num_rows for piece in pieces) < 60
    assert sum(piece.num_rows for piece in pieces) == 1200
    assert runs[0].blocks == 200


def test_blocks_are_read_when_they_are_needed(tmp_path, small_blocks):
    rows = pa.table({"k": np.arange(100), "e": np.arange(100)})
    write_segment(tmp_path / "s", [rows], rows.schema, ["k", "e"])
    opened = Segment(tmp_path / "s", rows.schema, ["k", "e"])
    start, stop = opened.bound((40,), "left"), opened.bound((40,), "right")
    assert pa.Table.from_batches(opened.between(start, stop)).to_pylist() == [{"k": 40, "e": 40}]
    assert sum(block is not None for block in opened._blocks) <= 2


def test_what_is_sought_fits_the_column():
    assert sought("2020-01-01", pa.field("k", pa.string())) == "2020-01-01"
    assert sought(datetime.datetime(1970, 1, 1, 0, 0, 1), pa.field("k", pa.timestamp("us"))) == 1_000_000
    with pytest.raises(Exception, match="70000 is not a value of key 'k'"):
        sought(70_000, pa.field("k", pa.int16()))


def test_a_trailer_that_leaves_something_out_is_damage(tmp_path):
    """Of which blocks there are, or of any fact of one of them."""
    rows = pa.table(
        {"k": np.arange(9) % 3, "n": np.arange(9), "generated_at": [1] * 9, "expires_at": [5] * 9}
    )
    made = Definition(pa.schema([("k", pa.int64()), ("n", pa.int64())]), ("k",), 10, 1)
    with Archive.create(tmp_path, made, "no_rebuild 2x2") as archive:
        archive.update(1, rows)
    file = next(each for each in tmp_path.iterdir() if each.suffix == SUFFIX)
    content = file.read_bytes()
    length, _, version = TAIL.unpack(content[-TAIL.size :])
    body, trailer = content[: -TAIL.size - length], content[-TAIL.size - length : -TAIL.size]
    with pa.ipc.open_stream(trailer) as reader:
        blocks = reader.read_next_batch()

    def read_with(told: pa.RecordBatch) -> pa.Table:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, told.schema) as writer:
            writer.write_batch(told)
        written = sink.getvalue().to_pybytes()
        file.write_bytes(body + written + TAIL.pack(len(written), zlib.crc32(written), version))
        with Archive.open(tmp_path) as archive:
            return archive.view.read_all()

    assert read_with(blocks).num_rows == 9
    unknown = pa.nulls(len(blocks), pa.int64())
    wrong = [blocks.slice(0, 0)] + [
        blocks.set_column(blocks.schema.get_field_index(fact), fact, unknown)
        for fact in ("offset", "length", "rows", "checksum")
    ]
    for told in wrong:
        with pytest.raises(ArchiveError, match="leaves out what a block is"):
            read_with(told)
