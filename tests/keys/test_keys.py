"""Dictionaries against a Python dict: every type, any batching, NULL and NaN, growth, collisions, forgetting."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import some_of
from muntin import Engine
from muntin.errors import CheckpointError, MuntinError
from muntin.keys import text_table
from muntin.keys.key_dictionary import Dictionary, KeyDictionary
from muntin.keys.text_table import TextTable
from muntin.keys.word_table import WordTable
from muntin.store.saved import Saved
from muntin.store.words import ALL_VALID

ODD_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]
NO_SALT = np.zeros(2, np.uint64)  # every word goes to place 0, every long text has the same hash


def integers(bits: int, signed: bool = True) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.integers(0, 20) | st.integers(low, high) | st.sampled_from([low, low + 1, high - 1, high])


def floats(width: Any) -> st.SearchStrategy[float]:
    special = st.sampled_from([0.0, -0.0, math.nan, ODD_NAN, -math.nan, math.inf, -math.inf, 1.0])
    return special | st.floats(width=width)


TEXTS = (
    st.sampled_from(
        ["", "\0", "\0\0", "a", "a\0", "1234567", "12345678", "12345678\0", "é", "ключ", "🔑" * 3]
    )
    | st.text(max_size=3)
    | st.text("ab", min_size=6, max_size=40)
    | st.text("ab", min_size=1, max_size=3).map(lambda text: text * 50)
)
KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): integers(8), pa.int16(): integers(16), pa.int32(): integers(32), pa.int64(): integers(64),
    pa.uint8(): integers(8, False), pa.uint32(): integers(32, False), pa.uint64(): integers(64, False),
    pa.float32(): floats(32), pa.float64(): floats(64), pa.bool_(): st.booleans(), pa.null(): st.none(),
    pa.date32(): integers(32), pa.timestamp("us"): integers(64), pa.timestamp("ns", "UTC"): integers(64),
    pa.duration("us"): integers(64), pa.string(): TEXTS, pa.large_string(): TEXTS, pa.string_view(): TEXTS,
    pa.binary(): TEXTS.map(str.encode),
}  # fmt: skip


def to_column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int64() if kind.bit_width == 64 else pa.int32()).view(kind)
    return pa.array(values, kind)


def plain(column: pa.Array) -> list[Any]:
    """What a dict can tell apart: NaN by name, times as integers."""
    if pa.types.is_temporal(column.type):
        column = column.view(pa.int64() if column.type.bit_width == 64 else pa.int32())
    return ["NaN" if value != value else value for value in column.to_pylist()]


@st.composite
def columns(draw: st.DrawFn, kind: pa.DataType, rows: int | None = None) -> pa.Array:
    """A column that may be part of a longer one, as slices are."""
    size = {"max_size": 30} if rows is None else {"min_size": rows, "max_size": rows}
    values = draw(st.lists(st.none() | KINDS[kind], **size))
    before, after = draw(st.lists(st.none() | KINDS[kind], max_size=9)), draw(st.integers(0, 2))
    return to_column(kind, before + values + before[:after]).slice(len(before), len(values))


class Oracle:
    """Ids by first appearance, naively."""

    def __init__(self) -> None:
        self.ids: dict[Any, int] = {}

    def encode(self, keys: list[Any]) -> list[int]:
        return [self.ids.setdefault(key, len(self.ids)) for key in keys]

    def find(self, keys: list[Any]) -> list[int]:
        return [self.ids.get(key, -1) for key in keys]

    def retain(self, kept: list[bool]) -> list[int]:
        old = list(self.ids)
        self.ids = {}
        return [self.encode([key])[0] if keep else -1 for key, keep in zip(old, kept, strict=True)]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
@settings(max_examples=some_of(40, 50))
def test_one_column_is_as_a_dict_has_it(kind: pa.DataType, data: st.DataObject) -> None:
    """Ids, look-ups, values, forgetting and restoring agree with a dict after every step."""
    dictionary, oracle = Dictionary(kind), Oracle()
    for step in data.draw(
        st.lists(st.sampled_from(["encode", "encode", "find", "retain", "restore"]), max_size=6)
    ):
        if step == "encode":
            column = data.draw(columns(kind))
            assert dictionary.encode(column).tolist() == oracle.encode(plain(column))
        elif step == "find":
            column = data.draw(columns(kind))
            assert dictionary.find(column).tolist() == oracle.find(plain(column))
        elif step == "retain":
            kept = data.draw(st.lists(st.booleans(), min_size=len(oracle.ids), max_size=len(oracle.ids)))
            assert dictionary.retain(np.array(kept, np.bool_)).tolist() == oracle.retain(kept)
        else:
            values, dictionary = dictionary.snapshot(), Dictionary(kind)
            dictionary.restore(Saved({"values": values}), "values")
        dictionary.check()
        assert plain(dictionary.values) == list(oracle.ids)
        dictionary.values.validate(full=True)
        ids = data.draw(st.lists(st.integers(0, len(oracle.ids) - 1), max_size=9)) if oracle.ids else []
        taken = dictionary.take(np.array(ids, np.int64))
        assert taken.type == kind
        assert plain(taken) == [list(oracle.ids)[id] for id in ids]


PARTS = [
    [pa.string(), pa.int64()],
    [pa.float64(), pa.bool_()],
    [pa.date32(), pa.string(), pa.int8()],
    [pa.int64(), pa.null(), pa.string(), pa.timestamp("us")],
]


@pytest.mark.parametrize("kinds", PARTS, ids=str)
@given(data=st.data())
@settings(max_examples=some_of(40, 50))
def test_several_columns_are_as_a_dict_of_tuples_has_them(
    kinds: list[pa.DataType], data: st.DataObject
) -> None:
    """The same for keys of several columns; parts that no key has any more are forgotten with them."""
    keys, oracle = KeyDictionary(kinds), Oracle()
    for step in data.draw(
        st.lists(st.sampled_from(["encode", "encode", "find", "retain", "restore"]), max_size=6)
    ):
        if step in ("encode", "find"):
            rows = data.draw(st.integers(0, 20))
            batch = [data.draw(columns(kind, rows)) for kind in kinds]
            tuples = list(zip(*map(plain, batch), strict=True))
            assert getattr(keys, step)(batch).tolist() == getattr(oracle, step)(tuples)
        elif step == "retain":
            kept = data.draw(st.lists(st.booleans(), min_size=len(oracle.ids), max_size=len(oracle.ids)))
            assert keys.retain(np.array(kept, np.bool_)).tolist() == oracle.retain(kept)
        else:
            saved, keys = keys.snapshot(), KeyDictionary(kinds)
            keys.restore(Saved({str(i): part for i, part in enumerate(saved)}))
        keys.check()
        assert len(keys) == len(oracle.ids)
        for _ in range(2):  # the second time from what was made the first time
            found = keys.take(np.arange(len(keys)))
            assert list(zip(*map(plain, found), strict=True)) == list(oracle.ids)


def test_words_that_all_collide_keep_their_ids() -> None:
    """A table whose words all want the same place only gets slower."""
    rng = np.random.default_rng(3)
    table, oracle = WordTable(NO_SALT), Oracle()
    for _ in range(3):
        word = rng.integers(-(2**63), 2**63 - 1, 1500)[rng.integers(0, 900, 1500)]
        assert table.encode(word, ALL_VALID).tolist() == oracle.encode(word.tolist())
        assert not table.is_direct
        table.check()
    kept = rng.random(len(table)) < 0.5
    assert table.retain(kept).tolist() == oracle.retain(kept.tolist())
    table.check()


def test_texts_with_one_hash_are_told_apart_by_their_bytes() -> None:
    """Equal hashes of long texts decide nothing."""
    rng = np.random.default_rng(4)
    table, oracle = TextTable(NO_SALT), Oracle()
    for _ in range(3):
        texts = ["".join(rng.choice(["a", "b"], rng.integers(0, 20))) for _ in range(800)]
        assert table.encode(pa.array(texts)).tolist() == oracle.encode(texts)
        assert table.find(pa.array(["ab" * 30, texts[0]])).tolist() == [-1, oracle.ids[texts[0]]]
        table.check()


@pytest.mark.parametrize("fmt", ["{}", "key number {}"])
def test_ids_outlast_growth(fmt: str) -> None:
    """Tens of thousands of new values in one batch and over many, by hash and by bytes."""
    rng = np.random.default_rng(5)
    words, texts, oracle = Dictionary(pa.int64()), Dictionary(pa.string()), Oracle()
    for rows in (3, 20_000, 1, 40_000):
        number = rng.integers(0, 10**15, rows) // rng.integers(1, 10**12, rows)
        expected = oracle.encode(number.tolist())
        assert words.encode(pa.array(number)).tolist() == expected
        assert texts.encode(pa.array([fmt.format(each) for each in number])).tolist() == expected
    words.check()
    texts.check()


def test_a_range_is_addressed_directly_while_it_is_small() -> None:
    """From direct to hash and back again, without a change of ids."""
    table, oracle = WordTable(), Oracle()

    def encode(*word: int) -> bool:
        assert table.encode(np.array(word), ALL_VALID).tolist() == oracle.encode(list(word))
        table.check()
        return table.is_direct

    assert encode(5, -7, 5)
    assert encode(-1000, 100_000, -100_000)  # wider on both sides
    assert encode(*range(300_000, 303_000))
    assert not encode(2**62)
    assert not encode(-(2**63), 2**63 - 1)
    kept = (table.words > -(2**60)) & (table.words < 2**60)
    assert table.retain(kept).tolist() == oracle.retain(kept.tolist())
    assert table.is_direct
    table = WordTable()
    oracle = Oracle()
    assert not encode(*range(0, 3_000_000, 1000))  # sparse
    rest = np.random.default_rng(6).permutation(3_000_000)
    assert table.encode(rest, ALL_VALID).tolist() == oracle.encode(rest.tolist())
    assert table.is_direct  # filled up, as seen when it next had to grow


def test_memory_follows_what_is_retained() -> None:
    """A dictionary that forgets nearly all of many keys is nearly as small as one that never saw them."""
    many = pa.array([f"customer {number}" for number in range(50_000)])
    keys = KeyDictionary([pa.string(), pa.int64()])
    keys.encode([many, pa.array(np.arange(50_000) * 2**40)])
    large = keys.nbytes()
    keys.retain(np.arange(50_000) % 1000 == 0)
    keys.check()
    assert keys.nbytes() < large / 20
    assert keys.take(np.array([1]))[0].to_pylist() == ["customer 1000"]


def test_values_given_out_stay_as_they_were() -> None:
    """Neither growth nor forgetting shows in an array made before; all values cost no copy."""
    for kind, column in (
        (pa.string(), pa.array(["one", "two", None, "a rather long text"])),
        (pa.int16(), pa.array([3, 1, None, 2], pa.int16())),
        (pa.float64(), pa.array([0.5, math.inf, None, -1.0])),
    ):
        dictionary = Dictionary(kind)
        dictionary.encode(column)
        before, expected = dictionary.values, column.to_pylist()
        taken = dictionary.take(np.arange(len(column)))
        assert taken.buffers()[1].address == before.buffers()[1].address
        more = pa.array(range(100, 5000)).cast(kind)
        for start in range(0, len(more), 70):
            dictionary.encode(more.slice(start, 70))
            assert len(dictionary.values) == len(dictionary)
        assert dictionary.values.to_pylist() == expected + more.to_pylist()
        dictionary.retain(np.arange(len(dictionary)) > 2)
        dictionary.encode(more)
        assert before.to_pylist() == taken.to_pylist() == expected


def test_texts_beyond_ordinary_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """When all texts together outgrow 32-bit offsets, wider ones take over, and go again."""
    monkeypatch.setattr(text_table, "MOST_BYTES", 20_000)
    dictionary, oracle = Dictionary(pa.string()), Oracle()
    texts = [f"text number {number}" for number in range(3000)]
    assert dictionary.encode(pa.array(texts)).tolist() == oracle.encode(texts)
    assert dictionary.values.type == pa.large_string()
    assert dictionary.take(np.array([2999, 0])).equals(pa.array([texts[2999], texts[0]]))
    assert dictionary.find(pa.array(texts[5:7])).tolist() == [5, 6]
    restored = Dictionary(pa.string())
    restored.restore(Saved({"values": dictionary.snapshot()}), "values")
    assert restored.take(np.arange(3000)).equals(pa.array(texts))
    kept = np.arange(3000) < 100
    assert dictionary.retain(kept).tolist() == oracle.retain(kept.tolist())
    assert dictionary.values.equals(pa.array(texts[:100]))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_columns_of_any_make_have_the_same_keys(kind: pa.DataType) -> None:
    """Chunked, sliced, dictionary-encoded or views: the key is the text."""
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k VARCHAR) TIMESTAMP BY ts")
    engine.register("SELECT k, COUNT(*) AS c FROM s [RANGE 1 DAY] GROUP BY k", "q")
    k = pa.array(["x", "b", None, "a long one", "b"]).cast(kind)
    encoded = k.cast(pa.string()).slice(1).dictionary_encode()
    for turn, column in enumerate([k.slice(1), pa.chunked_array([k.slice(1, 1), k.slice(2)]), encoded]):
        engine.push("s", pa.table({"ts": np.arange(4) + 4 * turn, "k": column}))
    found = engine.lookup("q").to_pydict()
    assert found["k"] == ["b", None, "a long one"]
    assert found["c"] == [6, 3, 3]


def test_a_refused_batch_leaves_no_key_behind() -> None:
    """An expression that fails is found out before any dictionary changes."""
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts")
    engine.register("SELECT k, n, MAX(k) AS t, SUM(n * n) AS v FROM s [RANGE 1 DAY] GROUP BY k, n", "q")
    engine.push("s", {"ts": [1], "k": ["a"], "n": [1]})
    with pytest.raises(MuntinError, match="exceeds 64 bits"):
        engine.push("s", {"ts": [2, 3], "k": ["z", "y"], "n": [2, 2**62]})
    state = engine._shards["s"].state
    assert [len(each) for each in (*state.keys.values(), *state.texts.values())] == [1, 1]
    engine.push("s", {"ts": [2, 3], "k": ["y", "z"], "n": [2, 2]})
    assert engine.lookup("q").column("k").to_pylist() == ["a", "y", "z"]


def test_zeros_are_one_key_and_so_are_nans() -> None:
    """What compares equal is one group, as in SQL; a NaN is a group, whatever its bits."""
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, x DOUBLE) TIMESTAMP BY ts")
    engine.register("SELECT x, COUNT(*) AS c FROM s [RANGE 1 DAY] GROUP BY x", "q")
    engine.push("s", {"ts": range(6), "x": np.array([-0.0, math.nan, 0.0, ODD_NAN, 0.0, 1.0])})
    assert engine.lookup("q").column("c").to_pylist() == [3, 2, 1]
    assert engine.value("q", key=0.0) == 3
    assert engine.value("q", key=math.nan) == 2


@pytest.mark.parametrize("seed", range(3))
def test_pairs_of_values_that_are_not_there_are_damage(seed: int) -> None:
    """A key of three columns is a pair of a pair and a value: of a snapshot, each half must be one that there is."""
    rng = np.random.default_rng(seed)
    columns = [pa.array(rng.integers(0, 3, 20)) for _ in range(3)]
    keys = KeyDictionary([pa.int64()] * 3)
    ids = keys.encode(columns)
    saved = {str(number): part for number, part in enumerate(keys.snapshot())}
    sizes = [len(saved[str(number)]) for number in range(5)]
    again = KeyDictionary([pa.int64()] * 3)
    again.restore(Saved(saved))
    assert again.encode(columns).tolist() == ids.tolist()
    for name, lefts, rights in (("3", sizes[0], sizes[1]), ("4", sizes[3], sizes[2])):
        words = np.asarray(saved[name])
        for left, right in (
            (lefts, 0),
            (0, rights),
            (-1, 0),
            (lefts, rights),
            (2**31 - 1, 0),
            (0, 2**32 - 1),
        ):
            for place in (0, len(words) - 1):
                wrong = words.copy()
                wrong[place] = (left << 32) + right
                with pytest.raises(CheckpointError, match="pairs of values that are not there"):
                    KeyDictionary([pa.int64()] * 3).restore(Saved(saved | {name: pa.array(wrong)}))
        missing = pa.array(words, mask=np.arange(len(words)) == 0)
        with pytest.raises(CheckpointError, match="pairs of values that are not there"):
            KeyDictionary([pa.int64()] * 3).restore(Saved(saved | {name: missing}))
