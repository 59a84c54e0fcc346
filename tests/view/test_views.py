"""Materialised views: at every update they hold what the join answers then, and answer SELECTs from disk."""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import Engine
from muntin.archive import Archive, View
from muntin.errors import ArchiveError, MuntinError, NameTaken
from muntin.sql import parse_view
from muntin.view.folders import folder_of
from muntin.view.materialized_view import MaterializedView

SECOND = 1_000_000
STREAMS = """
CREATE STREAM a (ts TIMESTAMP, k VARCHAR, x BIGINT) TIMESTAMP BY ts DELAY 3 SECONDS;
CREATE STREAM b (ts TIMESTAMP, k VARCHAR, y BIGINT) TIMESTAMP BY ts
"""
JOIN = "SELECT a.k, a.x, b.y FROM a [RANGE 20 SECONDS{slide}] JOIN b [RANGE 12 SECONDS] ON a.k = b.k"
VIEW = f"CREATE MATERIALIZED VIEW v AS {JOIN.format(slide='')} EVERY 2 SECONDS"
KEYS = ["p", "q", "r"]


def engine_in(folder, view=VIEW) -> Engine:
    engine = Engine(archive=folder)
    engine.execute(f"{STREAMS}; {view}")
    engine.register(JOIN.format(slide=" SLIDE 2 SECONDS"), "live")
    return engine


def events(random, since, until, column, count=8):
    ts = np.sort(random.integers(since * SECOND, until * SECOND, count))
    keys = [KEYS[n] for n in random.integers(0, 3, count)]
    return {"ts": ts, "k": keys, column: random.integers(0, 5, count)}


def feed(engine, random, now, count=8):
    """Events of the last two seconds, and what the live join says of the update that closed."""
    engine.push("a", events(random, now - 2, now, "x", count))
    engine.push("b", events(random, now - 2, now, "y", count))
    return engine.advance(now * SECOND)


def rows(table, *names):
    return Counter(zip(*(table[name].to_pylist() for name in names), strict=True))


def live(engine, at, sizes=None):
    text = JOIN.format(slide="")
    if sizes:
        text = text.replace("20 SECONDS", f"{sizes[0]} SECONDS").replace("12 SECONDS", f"{sizes[1]} SECONDS")
    engine.register(text, "now")
    try:
        return engine.lookup("now", at=at * SECOND)
    finally:
        engine.drop("now")


INDEXES = ("", " INDEX 'rebuild 2x2'", " INDEX 'lazy_no_rebuild 3x2'", " INDEX 'wata 3'", " INDEX 'none 2x2'")


@pytest.mark.parametrize("index", INDEXES)
def test_holds_what_the_join_answers(tmp_path, index):
    engine, random = engine_in(tmp_path, VIEW + index), np.random.default_rng(1)
    for now in range(2, 50, 2):
        given = feed(engine, random, now)
        assert "v" not in given  # it goes to disk
        expected = live(engine, now)
        assert rows(engine.execute("SELECT k, x, y FROM v"), "k", "x", "y") == rows(expected, "k", "x", "y")
        found = engine.execute("SELECT k, x, y FROM v WHERE k = 'q' AND x > 1")
        assert rows(found, "k", "x", "y") == Counter(
            {row: n for row, n in rows(expected, "k", "x", "y").items() if row[0] == "q" and row[1] > 1}
        )
    engine.check()
    assert found["window_end"].to_pylist()[0].second == 48
    assert found["complete"].to_pylist()[0]


def test_steps_of_any_length_and_silence(tmp_path):
    engine, random, now = engine_in(tmp_path), np.random.default_rng(2), 0
    for step in (2, 6, 2, 14, 2, 40, 3, 5, 2, 2):
        before, now = now, now + step
        engine.push("a", events(random, before, now, "x", 6))
        engine.push("b", events(random, before, now, "y", 6))
        engine.advance(now * SECOND)
        instant = now - now % 2
        assert rows(engine.execute("SELECT k, x, y FROM v"), "k", "x", "y") == rows(
            live(engine, instant), "k", "x", "y"
        )


CONDITIONS = {
    "k = 'q'": lambda k, x, y: k == "q",
    "'q' = k": lambda k, x, y: k == "q",
    "k > 'p'": lambda k, x, y: k > "p",
    "k <= 'q' AND y = 2": lambda k, x, y: k <= "q" and y == 2,
    "k BETWEEN 'p' AND 'q'": lambda k, x, y: "p" <= k <= "q",
    "k = 'q' OR x = 1": lambda k, x, y: k == "q" or x == 1,
    "k = 'nobody'": lambda k, x, y: False,
    "k = 'q' AND k = 'r'": lambda k, x, y: False,
    "x + y > 5": lambda k, x, y: x + y > 5,
    "x > 1.5 AND x < 3.5": lambda k, x, y: 1.5 < x < 3.5,
    "LOWER(k) = 'r'": lambda k, x, y: k == "r",
}


@pytest.mark.parametrize("key", ["", "KEY (k, x)", "KEY (x)"])
def test_where(tmp_path, key):
    engine, random = engine_in(tmp_path, VIEW.replace(" v AS", f" v {key} AS")), np.random.default_rng(3)
    for now in range(2, 24, 2):
        feed(engine, random, now, 4)
    everything = rows(engine.execute("SELECT k, x, y FROM v"), "k", "x", "y")
    assert sum(everything.values()) > 20
    for where, keep in CONDITIONS.items():
        found = rows(engine.execute(f"SELECT k, x, y FROM v WHERE {where}"), "k", "x", "y")
        assert found == Counter({row: n for row, n in everything.items() if keep(*row)})
        by_x = rows(engine.execute(f"SELECT k, x, y FROM v WHERE x = 3 AND ({where})"), "k", "x", "y")
        assert by_x == Counter({row: n for row, n in everything.items() if keep(*row) and row[1] == 3})


def test_aggregates_over_a_view(tmp_path):
    engine, random = engine_in(tmp_path), np.random.default_rng(4)
    for now in range(2, 24, 2):
        feed(engine, random, now)
    pairs = engine.execute("SELECT k, x, y FROM v WHERE k <= 'q'").to_pylist()
    answer = engine.execute(
        "SELECT k, COUNT(*) AS n, MEDIAN(x) AS middle, SUM(y) AS total FROM v WHERE k <= 'q' "
        "GROUP BY k HAVING COUNT(*) > 0"
    ).to_pylist()
    assert [row["k"] for row in answer] == ["p", "q"]
    for row in answer:
        mine = [pair for pair in pairs if pair["k"] == row["k"]]
        xs = sorted(pair["x"] for pair in mine)
        assert (row["n"], row["middle"]) == (len(mine), xs[(len(xs) + 1) // 2 - 1])
        assert row["total"] == sum(pair["y"] for pair in mine)
    assert engine.execute("SELECT COUNT(*) AS n FROM v WHERE k = 'nobody'")["n"].to_pylist() == [0]
    assert engine.execute("SELECT DISTINCT k FROM v")["k"].to_pylist() == KEYS


@pytest.mark.parametrize("size", [20, 16, 12, 7, 3, 1])
def test_smaller_windows(tmp_path, size):
    engine, random = engine_in(tmp_path), np.random.default_rng(5)
    for now in range(2, 40, 2):
        feed(engine, random, now)
    found = engine.execute(f"SELECT k, x, y FROM v [RANGE {size} SECONDS]")
    assert rows(found, "k", "x", "y") == rows(live(engine, 38, (min(size, 20), min(size, 12))), "k", "x", "y")


def test_lookup_by_key(tmp_path):
    engine, random = engine_in(tmp_path), np.random.default_rng(6)
    for now in range(2, 12, 2):
        feed(engine, random, now)
    everything = engine.lookup("v")
    assert everything.column_names == ["k", "x", "y"]
    some = rows(engine.lookup("v", key=["p", "r"]), "k", "x", "y")
    assert some == Counter({row: n for row, n in rows(everything, "k", "x", "y").items() if row[0] in "pr"})
    with pytest.raises(MuntinError, match="as of its last update"):
        engine.lookup("v", at=5 * SECOND)


@settings(max_examples=5)
@given(stop=st.integers(1, 12), ahead=st.integers(0, 4), seed=st.integers(0, 99))
def test_survives_a_restart(stop, ahead, seed):
    """From a checkpoint that may be older than the archive: what is replayed is not doubled."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/views"
        engine = engine_in(path)
        for now in range(2, 2 * stop + 2, 2):
            feed(engine, np.random.default_rng((seed, now)), now, 5)
        engine.checkpoint(f"{folder}/checkpoint")
        for now in range(2 * stop + 2, 2 * (stop + ahead) + 2, 2):
            feed(engine, np.random.default_rng((seed, now)), now, 5)
        engine.close()
        again = Engine.restore(f"{folder}/checkpoint", archive=path)
        for now in range(2 * stop + 2, 50, 2):
            feed(again, np.random.default_rng((seed, now)), now, 5)
            if now >= 2 * (stop + ahead):
                found = again.execute("SELECT k, x, y FROM v")
                assert rows(found, "k", "x", "y") == rows(live(again, now), "k", "x", "y")
        again.check()
        again.close()


def test_a_view_is_read_without_its_streams(tmp_path):
    engine, random = engine_in(tmp_path), np.random.default_rng(7)
    for now in range(2, 12, 2):
        feed(engine, random, now)
    expected = rows(engine.execute("SELECT k, x, y FROM v WHERE k = 'p'"), "k", "x", "y")
    reader = Engine(archive=tmp_path)  # another engine, while this one writes
    found = reader.execute("SELECT k, x, y FROM v WHERE k = 'p'")
    assert rows(found, "k", "x", "y") == expected
    assert not any(found["complete"].to_pylist())
    feed(engine, random, 12)
    assert rows(reader.execute("SELECT k FROM v"), "k") == rows(engine.execute("SELECT k FROM v"), "k")
    assert reader.lookup("v").num_rows == engine.lookup("v").num_rows
    assert "not kept up to date by this engine" in reader.execute("EXPLAIN VIEW v")
    with pytest.raises(MuntinError, match="written by another process"):
        reader.execute(f"{STREAMS}; {VIEW}")
    engine.close()
    reader.execute(VIEW if reader.streams else f"{STREAMS}; {VIEW}")  # goes on with what is there
    assert rows(reader.execute("SELECT k, x, y FROM v WHERE k = 'p'"), "k")
    with pytest.raises(MuntinError, match="there is a query 'v' already"):
        reader.execute(VIEW)
    reader.close()
    with pytest.raises(MuntinError, match="made by another text"):
        Engine(archive=tmp_path).execute(f"{STREAMS}; {VIEW} INDEX 'rebuild 2x2'")


def test_views_that_are_kept_are_known_without_their_files(tmp_path, monkeypatch):
    """A statement opens those alone that this engine does not keep; all are listed, by their folders."""
    engine_in(tmp_path).close()
    engine, opened = Engine(archive=tmp_path), []
    engine.execute(STREAMS)
    for name in ("aa", "zz", "Mm"):
        engine.execute(VIEW.replace(" v AS", f' "{name}" AS'))
    open_view = View.open
    monkeypatch.setattr(View, "open", lambda folder: opened.append(folder.name) or open_view(folder))
    assert engine.execute("SHOW VIEWS")["name"].to_pylist() == ["Mm", "aa", "v", "zz"]
    assert set(opened) == {"v"}
    assert engine.execute("SELECT k FROM zz").num_rows == 0
    assert set(opened) == {"v"}
    engine.close()
    opened.clear()
    assert engine.execute("SHOW VIEWS")["name"].to_pylist() == ["Mm", "aa", "v", "zz"]
    assert len(set(opened)) == 4


def test_a_refused_view_can_be_written_at_once(tmp_path):
    """Whoever is refused lets go of the archive, also while the error is at hand."""
    engine_in(tmp_path).close()
    with pytest.raises(NameTaken, match="made by another text") as another_text:
        Engine(archive=tmp_path).execute(f"{STREAMS}; {VIEW} INDEX 'rebuild 2x2'")
    engine_in(tmp_path).close()
    declared = Engine()
    declared.execute(STREAMS)
    with pytest.raises(NameTaken, match="is kept by") as another_keeper:
        MaterializedView(parse_view(VIEW, declared.streams), folder_of(tmp_path, "v"), kept_by="another")
    engine_in(tmp_path).close()
    assert another_text.value is not another_keeper.value


def test_drop(tmp_path):
    engine = engine_in(tmp_path)
    with pytest.raises(MuntinError, match="'v' is a view: write DROP MATERIALIZED VIEW v"):
        engine.drop("v")
    with pytest.raises(MuntinError, match="'v' is a view: write DROP MATERIALIZED VIEW v"):
        engine.execute("DROP QUERY v")
    with pytest.raises(MuntinError, match="stream 'a' is read by query"):
        engine.execute("DROP STREAM a")
    engine.execute("DROP MATERIALIZED VIEW v")
    assert not list(tmp_path.iterdir())
    with pytest.raises(MuntinError, match="unknown stream 'v'"):
        engine.execute("SELECT k FROM v")
    with pytest.raises(MuntinError, match="there is no view 'v'"):
        engine.execute("DROP MATERIALIZED VIEW v")
    engine.execute(VIEW)


def test_explain_and_alter(tmp_path):
    engine, random = engine_in(tmp_path), np.random.default_rng(8)
    for now in range(2, 24, 2):
        feed(engine, random, now)
    text = engine.execute("EXPLAIN VIEW v")
    assert "index no_rebuild 4x4: few reads of a small view" in text
    assert "touched 7 of 16 parts" in text
    assert "smaller windows are answered from it: the places of its inputs take" in text
    before = rows(engine.execute("SELECT k, x, y FROM v"), "k", "x", "y")
    engine.execute("ALTER MATERIALIZED VIEW v INDEX 'rebuild 3x2'")
    assert "index rebuild 3x2" in engine.execute("EXPLAIN VIEW v")
    assert rows(engine.execute("SELECT k, x, y FROM v"), "k", "x", "y") == before
    for _ in range(100):
        engine.execute("SELECT k FROM v WHERE k = 'p'")
    assert "its load suggests rebuild 2x2" in engine.execute("EXPLAIN VIEW v")
    assert engine.execute("ALTER MATERIALIZED VIEW v INDEX 'auto'") == "rebuild 2x2"
    assert "v" in engine.explain()
    assert engine.stats()["views"]["v"]["results"] == sum(before.values())


def test_a_full_disk_leaves_the_view_and_loses_nothing(tmp_path, monkeypatch):
    engine, random = engine_in(tmp_path), np.random.default_rng(9)
    for now in range(2, 12, 2):
        feed(engine, random, now)
    before = rows(engine.execute("SELECT k, x, y FROM v"), "k", "x", "y")

    def full(self, *_, **__):
        raise ArchiveError("'disk' cannot be written: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Archive, "update", full)
        with pytest.warns(RuntimeWarning, match="view 'v' stays as of its last update .* No space left"):
            feed(engine, random, 12)
        assert rows(engine.execute("SELECT k, x, y FROM v"), "k", "x", "y") == before
        with pytest.raises(MuntinError, match="results that its disk does not take"):
            engine.checkpoint(tmp_path / "checkpoint")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        feed(engine, random, 14)
    assert rows(engine.execute("SELECT k, x, y FROM v"), "k", "x", "y") == rows(
        live(engine, 14), "k", "x", "y"
    )


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (VIEW.replace(" EVERY 2 SECONDS", ""), "say how often the view is updated"),
        (VIEW.replace("20 SECONDS", "20 SECONDS SLIDE 1 SECOND"), "EVERY and SLIDE disagree"),
        ("CREATE MATERIALIZED VIEW v AS SELECT SUM(x) AS s FROM a [ROWS 5] EVERY 1 SECOND",
         "follows time"),
        (VIEW.replace("a.x,", "SUM(a.x),"), "keeps pairs; aggregate when you read it"),
        (VIEW.replace(" EVERY", " EMIT CHANGES EVERY"), "leave out EMIT CHANGES"),
        (VIEW + " INDEX rebuild", "expected an index such as 'rebuild 4x4' in quotes"),
        (VIEW + " INDEX 'rebild 4x4'", "no index variant 'rebild'; did you mean 'rebuild'"),
        (VIEW + " INDEX 'lazy_rebuild 2x2'", "94 % more"),
        (VIEW.replace(" v AS", " v KEY (z) AS"), "the view has no column 'z'"),
        (VIEW.replace("2 SECONDS", "0 SECONDS"), "EVERY is a length of time above 0"),
        ("ALTER MATERIALIZED VIEW w INDEX 'rebuild 4x4'", "there is no view 'w'"),
        ("ALTER STREAM a", "only a MATERIALIZED VIEW can be altered; DROP STREAM and CREATE STREAM again"),
        ("EXPLAIN VIEW w", "there is no view 'w'"),
    ],
)  # fmt: skip
def test_bad_statements(tmp_path, statement, message):
    engine = Engine(archive=tmp_path)
    engine.execute(STREAMS)
    with pytest.raises(MuntinError, match=message):
        engine.execute(statement)
    assert not list(tmp_path.iterdir())
    assert not engine.queries


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT k FROM v [RANGE 30 SECONDS]", "shorter than"),
        ("SELECT k FROM v [ROWS 5]", "can be made smaller"),
        ("SELECT z FROM v", "view 'v' has no column 'z'|unknown column 'z'"),
        ("SELECT k FROM v EMIT CHANGES", "EMIT CHANGES is for standing queries"),
        ("SELECT SUM(x) OVER [RANGE 5 SECONDS] AS s FROM v", "OVER is not for views"),
    ],
)
def test_bad_selects(tmp_path, statement, message):
    engine = engine_in(tmp_path)
    with pytest.raises(MuntinError, match=message):
        engine.execute(statement)


def test_no_place(tmp_path):
    engine = Engine()
    engine.execute(STREAMS)
    with pytest.raises(MuntinError, match=r"needs a place on disk: Engine\(archive='folder'\)"):
        engine.execute(VIEW)
