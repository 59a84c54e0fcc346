"""What joins keep and give: each match found once, memory of the widest window, all or nothing, clear refusals."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from muntin import Engine
from muntin.errors import MuntinError, WindowTooLarge
from muntin.join import group
from muntin.keys import sweeper

SECOND = 1_000_000
STREAMS = (
    "CREATE STREAM a (ts TIMESTAMP, k BIGINT, x BIGINT, w VARCHAR) TIMESTAMP BY ts;"
    "CREATE STREAM b (ts TIMESTAMP, k BIGINT, y BIGINT) TIMESTAMP BY ts"
)
JOIN = "FROM a [RANGE {} SECONDS SLIDE 1 SECOND] JOIN b [RANGE {} SECONDS] USING (k)"


def an_engine(**queries: str) -> Engine:
    engine = Engine()
    engine.execute(STREAMS)
    engine.register_many(queries)
    return engine


def events(seed: int, many: int, seconds: float, keys: int, last: str) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    columns = {
        "ts": np.sort(rng.integers(0, int(seconds * SECOND), many)),
        "k": rng.integers(0, keys, many),
        last: rng.integers(0, 100, many),
    }
    return {**columns, "w": [f"w{n}" for n in columns["k"]]} if last == "x" else columns


def pieces(columns: dict[str, Any], seconds: int) -> list[dict[str, Any]]:
    """The events cut at whole seconds."""
    edges = np.searchsorted(columns["ts"], np.arange(0, seconds + 1) * SECOND)
    return [{name: values[lo:hi] for name, values in columns.items()} for lo, hi in pairwise(edges)]


def push_both(engine: Engine, seconds: int = 30, many: int = 3000, keys: int = 40) -> None:
    left, right = events(1, many, seconds, keys, "x"), events(2, many, seconds, keys, "y")
    for one, other in zip(pieces(left, seconds), pieces(right, seconds), strict=True):
        engine.push("a", one)
        engine.push("b", other)
        engine.advance()


def test_each_match_is_found_once() -> None:
    """However many windows there are, and whatever is looked up."""
    one = an_engine(widest=f"SELECT x, y {JOIN.format(8, 5)}")
    many = an_engine(
        **{f"q{n} {m}": f"SELECT x, y {JOIN.format(n, m)}" for n in range(1, 9) for m in range(1, 6)}
    )
    push_both(one)
    push_both(many)
    for name in many.queries:
        many.lookup(name)
    (alone,), (shared,) = one.stats()["joins"], many.stats()["joins"]
    left, right = events(1, 3000, 30, 40, "x"), events(2, 3000, 30, 40, "y")
    ahead = left["ts"][:, None] - right["ts"][None, :]
    pairs = (left["k"][:, None] == right["k"][None, :]) & (ahead < 5 * SECOND) & (-ahead < 8 * SECOND)
    assert shared["found"] == alone["found"] == int(pairs.sum())
    assert shared["queries"] == 40
    assert shared["bytes"] <= 2.2 * alone["bytes"]  # cohorts of four kinds of windows, and not of one


def test_memory_is_that_of_the_widest_window() -> None:
    engine = an_engine(q=f"SELECT x, y, w {JOIN.format(4, 4)}")
    seen = []
    for turn in range(12):
        left, right = events(turn, 2000, 10, 50, "x"), events(turn + 99, 2000, 10, 50, "y")
        for stream, batch in (("a", left), ("b", right)):
            engine.push(stream, {**batch, "ts": batch["ts"] + turn * 10 * SECOND})
        engine.advance()
        seen.append(engine.stats()["joins"][0])
    assert seen[-1]["bytes"] <= 1.3 * max(each["bytes"] for each in seen[:4])
    assert seen[-1]["matches"] < seen[-1]["found"] / 3
    engine.check()


def test_duckdb_says_the_same() -> None:
    engine = an_engine(
        pairs=f"SELECT a.ts AS a_at, b.ts AS b_at, k, x, y {JOIN.format(7, 3)} WHERE x < y",
        sums="SELECT w, COUNT(*) AS n, SUM(x * y) AS s, MAX(y) AS m FROM a [RANGE 7 SECONDS SLIDE 1 SECOND] "
        "JOIN b [RANGE 3 SECONDS] ON a.k = b.k AND x < y GROUP BY w",
    )
    left, right = events(5, 1500, 20, 30, "x"), events(6, 1500, 20, 30, "y")
    engine.push("a", left)
    engine.push("b", right)
    database = duckdb.connect()
    database.register("a", pa.table(left))
    database.register("b", pa.table(right))
    for second in (1, 4, 12, 19):
        s = second * SECOND
        inside = (
            f"a.k = b.k AND x < y AND a.ts >= {s - 7 * SECOND} AND a.ts < {s} "
            f"AND b.ts >= {s - 3 * SECOND} AND b.ts < {s}"
        )
        wanted = database.sql(f"SELECT a.ts, b.ts, a.k, x, y FROM a JOIN b ON {inside}").fetchall()
        found = engine.lookup("pairs", at=s)
        columns = [found["a_at"].cast(pa.int64()), found["b_at"].cast(pa.int64()), *found.columns[2:5]]
        rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
        assert sorted(rows) == sorted(wanted)
        seen_first = [max(row[:2]) // SECOND for row in rows]
        assert seen_first == sorted(seen_first)
        text = f"SELECT w, COUNT(*), SUM(x * y)::BIGINT, MAX(y) FROM a JOIN b ON {inside} GROUP BY w"
        sums = engine.lookup("sums", at=s).select(["w", "n", "s", "m"]).to_pylist()
        assert sorted(tuple(row.values()) for row in sums) == sorted(database.sql(text).fetchall())


def test_order_and_answers_do_not_depend_on_batches() -> None:
    query = f"SELECT x, y, a.ts AS a_at {JOIN.format(6, 9)}"
    whole, cut = an_engine(q=query), an_engine(q=query)
    left, right = events(3, 400, 20, 5, "x"), events(4, 400, 20, 5, "y")
    for columns in (left, right):
        columns["ts"] -= columns["ts"] % SECOND  # many ties
    whole.push("b", right)
    whole.push("a", left)
    for one, other in zip(pieces(left, 20), pieces(right, 20), strict=True):
        cut.push("a", one)
        cut.push("b", other)
    assert whole.advance()["q"].equals(cut.advance()["q"])


def test_a_new_query_knows_what_one_that_contains_it_knows() -> None:
    engine = an_engine(wide=f"SELECT x, y, w {JOIN.format(20, 20)}")
    push_both(engine, seconds=30)
    at = 30 * SECOND
    engine.register(f"SELECT x, y {JOIN.format(9, 15)}", "inside")
    assert engine.lookup("inside", at=at)["complete"].to_pylist()[0] is True
    engine.register(f"SELECT x, y {JOIN.format(21, 5)}", "longer")
    engine.register(f"SELECT b.ts AS at {JOIN.format(5, 5)}", "other columns")
    for name in ("longer", "other columns"):
        assert engine.lookup(name, at=at).num_rows == 0  # it starts from here, and says so when it has rows
    engine.push("a", {"ts": [at], "k": [1], "x": [1], "w": ["w"]})
    engine.push("b", {"ts": [at], "k": [1], "y": [1]})
    for name, many in (("longer", 1), ("other columns", 1)):
        answer = engine.lookup(name, at=at + SECOND)
        assert (answer.num_rows, set(answer["complete"].to_pylist())) == (many, {False})
    engine.drop("wide")
    engine.check()
    assert engine.lookup("longer", at=at + SECOND).num_rows == 1


def test_a_batch_that_cannot_be_joined_changes_nothing() -> None:
    engine = an_engine(
        sums="SELECT COUNT(*) AS n FROM a [RANGE 9 SECONDS]",
        q="SELECT x FROM a [RANGE 9 SECONDS] JOIN b [RANGE 9 SECONDS] ON a.k + 1 = b.k",
        bad_key_of_a="SELECT y FROM a [RANGE 9 SECONDS] JOIN b [RANGE 9 SECONDS] ON a.x * a.k = b.k",
    )
    engine.push("a", {"ts": [1], "k": [1], "x": [1], "w": ["w"]})
    before = engine.stats()
    with pytest.raises(MuntinError, match="64 bits"):
        engine.push("a", {"ts": [2], "k": [2**40], "x": [2**40], "w": ["w"]})
    assert engine.stats() == before
    engine.check()
    assert engine.value("sums") == 1


def test_an_overflow_in_one_answer_does_not_hold_up_others() -> None:
    engine = an_engine(q=f"SELECT x * y AS p {JOIN.format(1, 1)}")
    engine.push("a", {"ts": [0, 3 * SECOND], "k": [1, 2], "x": [2**40, 3], "w": ["w", "w"]})
    engine.push("b", {"ts": [0, 3 * SECOND], "k": [1, 2], "y": [2**40, 5]})
    with pytest.warns(
        RuntimeWarning, match=r"'q' leaves out 1 row, .* a\.x \* b\.y: an integer exceeds 64 bits"
    ):
        found = engine.advance(until=9 * SECOND)
    assert found["q"]["p"].to_pylist() == [15]
    assert engine.stats()["queries"]["q"]["overflows"] == 1


def test_backlog_is_bounded() -> None:
    engine = Engine(backlog_bytes=200_000)
    engine.execute(STREAMS)
    engine.register(f"SELECT x, y {JOIN.format(2, 2)}", "q")
    for turn in range(40):
        left, right = events(turn, 500, 5, 50, "x"), events(turn + 99, 500, 5, 50, "y")
        for stream, batch in (("a", left), ("b", right)):
            engine.push(stream, {**batch, "ts": batch["ts"] + turn * 5 * SECOND})
    assert engine.stats()["joins"][0]["bytes"] < 1_000_000
    with pytest.warns(RuntimeWarning, match="'q' has lost"):
        answers = engine.advance()["q"]
    assert answers.num_rows
    missed = engine.stats()["queries"]["q"]["missed"]
    assert missed + len(set(answers["window_end"].to_pylist())) >= 195
    with pytest.raises(WindowTooLarge, match="can be looked up from"):
        engine.lookup("q", at=5 * SECOND)


def test_what_windows_need_is_no_backlog(recwarn: pytest.WarningsRecorder) -> None:
    """Whatever windows hold: with room for some seconds of backlog nothing is lost that is asked for in time."""
    text = f"SELECT x, y {JOIN.format(40, 40)}"
    answers = []
    for backlog_bytes in (256 * 2**20, 200_000):
        engine = Engine(backlog_bytes=backlog_bytes)
        engine.execute(STREAMS)
        engine.register(text, "q")
        counted = []
        left, right = events(1, 6_000, 60, 3_000, "x"), events(2, 6_000, 60, 3_000, "y")
        for second, (one, other) in enumerate(zip(pieces(left, 60), pieces(right, 60), strict=True), 1):
            engine.push("a", one)
            engine.push("b", other)
            if second % 5 == 0:
                counted += [table.num_rows for table in engine.advance().values()]
        assert engine.stats()["joins"][0]["bytes"] > 300_000
        assert engine.stats()["queries"]["q"]["missed"] == 0
        answers.append(counted)
    assert answers[0] == answers[1]
    assert not recwarn.list


@pytest.mark.parametrize("seed", range(3))
def test_keys_that_no_window_holds_are_forgotten(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many are known as the windows hold, however many have passed by; and no answer changes."""
    rng = np.random.default_rng(seed)
    text, answers = f"SELECT a.k, x, y {JOIN.format(3, 2)}", []
    batches = [
        {
            stream: {
                "ts": np.sort(rng.integers(turn * SECOND, (turn + 1) * SECOND, 60)),
                "k": rng.integers(30 * turn, 30 * turn + 60, 60),
                value: rng.integers(0, 9, 60),
            }
            for stream, value in (("a", "x"), ("b", "y"))
        }
        for turn in range(40)
    ]
    for few in (2**62, 0):
        monkeypatch.setattr(sweeper, "_FEW", few)
        engine, known = an_engine(q=text), []
        emitted = []
        for batch in batches:
            for stream, columns in batch.items():
                engine.push(stream, columns | ({"w": [None] * 60} if stream == "a" else {}))
            emitted += engine.advance().get("q", pa.table({})).to_pylist()
            (joined,) = engine._joins.groups.values()
            known.append(len(joined.keys))
        engine.check()
        answers.append(emitted)
        if few:
            assert known[-1] > 1_000
        else:
            assert (
                max(known) < 500
            )  # some 150 are in the windows; twice as many at the next sweep, and a batch
    assert answers[0] == answers[1]
    assert len(answers[0]) > 1_000


@pytest.mark.parametrize("room", [1, 2, 3, 7, 50])
def test_matches_are_found_in_any_room(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event with more matches than there is room for goes on where it was: no pair is lost, and all are in order."""
    monkeypatch.setattr(group, "_ROOM", room)
    engine, seconds = an_engine(q=f"SELECT x, y {JOIN.format(20, 30)}"), 12
    left, right = events(room, 60, seconds, 2, "x"), events(99, 60, seconds, 2, "y")
    left["x"], right["y"] = np.arange(60), np.arange(60)
    for at in range(0, 60, 4):  # a few at a time, so that room is all there is
        engine.push("a", {name: values[at : at + 4] for name, values in left.items()})
        engine.push("b", {name: values[at : at + 4] for name, values in right.items()})
        engine.check()
    found = [(row["x"], row["y"]) for row in engine.lookup("q", at=seconds * SECOND).to_pylist()]
    expected = [(i, j) for i in range(60) for j in range(60) if left["k"][i] == right["k"][j]]
    times = {pair: (left["ts"][pair[0]], right["ts"][pair[1]]) for pair in expected}
    expected.sort(
        key=lambda pair: (
            max(times[pair]) // SECOND, -min(times[pair][0] + 20 * SECOND, times[pair][1] + 30 * SECOND),
            max(times[pair]), *pair,
        )
    )  # fmt: skip
    assert found == expected
    assert len(found) > 1_000


def test_what_joins_have_no_answer_for() -> None:
    engine = an_engine(
        pairs=f"SELECT x, y {JOIN.format(5, 5)}",
        sums=f"SELECT k, COUNT(*) AS n {JOIN.format(5, 5)} GROUP BY k",
        total=f"SELECT COUNT(*) AS n {JOIN.format(5, 5)}",
    )
    push_both(engine, seconds=3, many=50)
    assert engine.value("total") == engine.lookup("pairs").num_rows
    for call, message in (
        (lambda: engine.lookup("pairs", key=3), "is a join, which is not looked up by key"),
        (lambda: engine.value("pairs"), "no single value"),
        (lambda: engine.value("sums"), "no single value"),
        (lambda: engine.lookup_many(["total"]), "'total' is a join: use lookup"),
        (lambda: engine.execute("DROP STREAM b"), "stream 'b' is read by query 'pairs'"),
    ):
        with pytest.raises(MuntinError, match=message):
            call()
    engine.drop("sums")
    engine.execute("DROP QUERY pairs; DROP QUERY total; DROP STREAM b")
    assert engine.stats()["joins"] == []
    engine.push("a", {"ts": [9 * SECOND], "k": [1], "x": [1], "w": ["w"]})


def test_the_plan_shows_what_is_shared() -> None:
    engine = an_engine(
        short=f"SELECT x, y {JOIN.format(2, 3)} WHERE x > 5",
        long=f"SELECT COUNT(*) AS n {JOIN.format(60, 9)}",
    )
    push_both(engine, seconds=3, many=50)
    plan, coverage = engine.explain("short").split("\n\n")
    assert plan in engine.explain()
    assert coverage == "short: complete"
    assert plan.startswith("join a JOIN b ON a.k = b.k\n")
    for part in (
        "2 queries: short, long",
        "a [RANGE 2 SECONDS SLIDE 1 SECOND], [RANGE 1 MINUTE",
        "a.x > 5",
        "matches",
    ):
        assert part in plan
    alone = engine.execute(f"EXPLAIN SELECT x {JOIN.format(7, 7)}")
    assert "this query" in alone
    assert engine.execute(f"SELECT COUNT(*) AS n {JOIN.format(9, 9)}")["n"].to_pylist() == [
        engine.value("long")
    ]


def test_a_caller_may_reuse_his_arrays() -> None:
    engine = an_engine(q="SELECT x, y FROM a [RANGE 9 SECONDS] JOIN b [RANGE 9 SECONDS] USING (k)")
    x = np.array([1, 2])
    engine.push("a", {"ts": np.array([1, 2]), "k": np.array([7, 8]), "x": x, "w": ["", ""]})
    x[:] = 99
    engine.push("b", {"ts": [3], "k": [8], "y": [5]})
    assert engine.lookup("q").select(["x", "y"]).to_pylist() == [{"x": 2, "y": 5}]


def test_a_checkpoint_of_many_groups(tmp_path: Path) -> None:
    """Also when the query that opened a group is gone."""
    engine = an_engine(
        first=f"SELECT x {JOIN.format(9, 9)}",
        other="SELECT x FROM a [RANGE 9 SECONDS] JOIN b [RANGE 9 SECONDS] ON a.x = b.y",
        second=f"SELECT w, y {JOIN.format(9, 9)}",
        plain="SELECT COUNT(*) AS n FROM a [RANGE 9 SECONDS]",
    )
    push_both(engine, seconds=12, many=200)
    engine.drop("first")
    engine.checkpoint(tmp_path / "state")
    again = Engine.restore(tmp_path / "state")
    again.check()
    assert list(again.queries) == list(engine.queries)
    for name in engine.queries:
        assert again.lookup(name).equals(engine.lookup(name))
    for each in (engine, again):
        each.push("a", {"ts": [20 * SECOND], "k": [3], "x": [4], "w": [None]})
        each.push("b", {"ts": [20 * SECOND], "k": [3], "y": [4]})
    emitted, expected = again.advance(), engine.advance()
    assert emitted.keys() == expected.keys()
    assert all(emitted[name].equals(expected[name]) for name in expected)
    found = [{each["join"]: each["found"] for each in one.stats()["joins"]} for one in (engine, again)]
    assert found[0] == found[1]
