"""The race of peers: all kinds of queries run and agree, wrong answers are noticed, and who is too slow stops."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

pytest.importorskip("duckdb")
pytest.importorskip("polars")

from benchmarks.peers import NAMES, QUICK
from benchmarks.peers.race import Race, assert_equal, compare
from benchmarks.peers.streams import LeftOutError, Streams, answers_of, assert_same, processed
from benchmarks.peers.windows import asked
from effort import THOROUGH

KINDS = {kind.title: kind for kind in QUICK}
MANY = 40  # more than are answered one by one


@pytest.mark.parametrize("title", KINDS if THOROUGH else ["Windows per key", "Joins"])
def test_contestants_agree(title):
    race = Race(KINDS[title], limit=1_000, runs=1)
    for count in (1, MANY):
        row = race.row(count)
        assert row["compared"] == min(count, 40) or title.startswith("Windows")
        assert all(row[name] > 0 for name in ("muntin", "polars", "duckdb"))
        assert row.keys() & NAMES.keys() >= {"muntin", "polars", "duckdb"}


class Fixed:
    """A contestant with one answer to every query, whose steps take no time or some."""

    def __init__(self, value: int, work: int = 0):
        self.value, self.work = value, work

    def fill(self):
        pass

    def take(self, step):
        sum(range(self.work))

    rows = 1

    def answer(self, query):
        return pa.table({"v": [self.value]})


class Made:
    """Contestants that are given."""

    title, work, unit = "made", 100, "events"

    def __init__(self, **given):
        self.given = given

    def prepare(self, step):
        pass

    def contestants(self, count):
        return {name: lambda each=each: each for name, each in self.given.items()}


def test_wrong_answers_are_noticed():
    compare({"muntin": Fixed(3), "other": Fixed(3)}, 1)
    with pytest.raises(AssertionError, match="query 0: other and muntin differ"):
        compare({"muntin": Fixed(3), "other": Fixed(4)}, 1)
    with pytest.raises(AssertionError, match="differ: 1 and 2 rows"):
        assert_equal(pa.table({"v": [1]}), pa.table({"v": [1, 1]}), "they differ")


def test_who_is_too_slow_stops_and_the_row_says_so():
    race = Race(Made(muntin=Fixed(3), slow=Fixed(3, 3_000_000)), limit=0.02, runs=1)
    for count in (1, 10):
        row = race.row(count)
        assert row["muntin"] > 0
        assert "slow" not in row
        assert row["slow_why"] == "more than 0 CPU s with 1 queries"


def test_a_row_may_have_nobody():
    row = Race(Made(muntin=Fixed(3, 3_000_000)), limit=0.02, runs=1).row(1)
    assert row["compared"] == 0
    assert row["rows"] is None


def test_answers_of_a_stream_are_compared_with_files(tmp_path):
    streams, queries = Streams(seconds=8, rate=50, keys=5), asked(3, 8)
    found = answers_of(streams.batches, queries)
    assert set(found["q"].to_pylist()) == {0, 1, 2}
    times = found["ends"].cast(pa.timestamp("us"))
    rows = list(zip(*(each.to_pylist() for each in (found["q"], times, found["k"], found["v"])), strict=True))
    text = "".join(f"{q},{at},{k},{v}\n" for q, at, k, v in reversed(rows))
    (tmp_path / "part-0").write_text(text)
    assert_same("other", tmp_path, found)
    (tmp_path / "part-0").write_text(text.partition("\n")[2])
    with pytest.raises(AssertionError, match="other: "):
        assert_same("other", tmp_path, found)


def test_processor_without_an_interpreter_is_left_out(tmp_path, monkeypatch):
    monkeypatch.delenv("PEERS_FLINK", raising=False)
    with pytest.raises(LeftOutError, match="PEERS_FLINK names no interpreter"):
        processed("flink", tmp_path)
    monkeypatch.setenv("PEERS_FLINK", str(tmp_path / "python"))
    with pytest.raises(LeftOutError, match="No such file"):
        processed("flink", tmp_path)


def test_one_query_more_leaves_the_others():
    assert asked(3, 60) == asked(4, 60)[:3]
    kind = replace(KINDS["Windows per key"], longest=60)
    assert len(set(asked(1_000, kind.longest))) == 1_000
