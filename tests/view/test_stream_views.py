"""Views of one stream and queries over views: at each instant what the oracle finds by looking at all events."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from effort import some_of
from muntin import Engine
from muntin.archive import GENERATED, View
from muntin.errors import MuntinError, NotFound, SqlError
from muntin.join_query import JoinQuery
from muntin.query import Query
from muntin.view_select import StandingQuery
from tests.view.naive_stream_views import EVERY, QUERIES, SECOND, STREAMS, VIEWS, Followed, Twin, statement


def engine_with(folder: Any, *views: str, **more: Any) -> Engine:
    engine = Engine(archive=folder, **more)
    engine.execute("; ".join([STREAMS, *map(statement, views)]))
    return engine


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Without the bounds of windows."""
    columns = [table[name].to_pylist() for name in table.column_names if name not in BOUNDS]
    return Counter(zip(*columns, strict=True))


BOUNDS = ("window_start", "window_end", "complete", "leaves_at")


def by_instant(table: pa.Table) -> dict[int, Counter[tuple[Any, ...]]]:
    ends = table["window_end"].cast(pa.int64()).to_pylist()
    found: dict[int, Counter[tuple[Any, ...]]] = {}
    for end, row in zip(ends, rows_of_each(table), strict=True):
        found.setdefault(end // SECOND, Counter())[row] += 1
    return found


def rows_of_each(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(
        zip(*(table[name].to_pylist() for name in table.column_names if name not in BOUNDS), strict=True)
    )


def without_swaps(changes: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Changes of values: a join tells of pairs, of which one may leave when another with the same values enters."""
    left = Counter({row[:-1]: many for row, many in changes.items() if row[-1] == "leave"})
    came = Counter({row[:-1]: many for row, many in changes.items() if row[-1] == "enter"})
    net = Counter({(*row, "enter"): many for row, many in (came - left).items()})
    net.update({(*row, "leave"): many for row, many in (left - came).items()})
    return net


def restarted(engine: Engine, folder: Path, **more: Any) -> Engine:
    with tempfile.TemporaryDirectory() as place:
        engine.checkpoint(f"{place}/state")
        engine.close()
        return Engine.restore(f"{place}/state", archive=folder, **more)


@pytest.mark.parametrize("seed", range(some_of(10, 40)))
def test_views_and_queries_over_them_are_what_the_oracle_finds(tmp_path: Path, seed: int) -> None:
    """However time is cut, in silence, with late events, restarts, and queries that come and go."""
    random, twin, followed, now = Random(seed), Twin(), {}, 0
    engine = engine_with(tmp_path, *VIEWS, portion_rows=random.choice((7, 10**6)))

    def register(name: str) -> None:
        engine.register(QUERIES[name].sql, name)
        followed[name] = Followed(QUERIES[name], now or None, twin)

    for name in random.sample(list(QUERIES), 9):
        register(name)
    for _ in range(16):
        since, now = now, now + random.choice((2, 2, 2, 3, 5, 40))
        for stream, batch in twin.draw(random, since, now).items():
            halves = (slice(0, len(batch["ts"]) // 2), slice(len(batch["ts"]) // 2, None))
            for half in halves if random.random() < 0.5 else (slice(None),):
                engine.push(stream, {name: pa.array(each[half], pa.string() if name == "k" else pa.int64())
                                     for name, each in batch.items()})  # fmt: skip
        if random.random() < 0.3:
            continue  # several updates at once
        emitted: dict[str, list[pa.Table]] = {}
        while True:
            answers = engine.advance(now * SECOND)
            for name, table in answers.items():
                emitted.setdefault(name, []).append(table)
            if not answers.more:
                break
        twin.promised = now
        assert set(emitted) <= set(followed)
        for name, each in followed.items():
            found = by_instant(pa.concat_tables(emitted[name])) if name in emitted else {}
            wanted = each.expected(now)
            found = {instant: rows for instant, rows in found.items() if instant >= each.knows_from}
            if isinstance(engine.query(name), JoinQuery) and QUERIES[name].changes:
                found = {instant: net for instant, rows in found.items() if (net := without_swaps(rows))}
            assert found == wanted, (seed, name, now)
        instant = now // EVERY * EVERY
        for view in VIEWS:
            assert rows_of(engine.lookup(view)) == Counter(twin.content(view, instant)), (seed, view, now)
        for name in followed:
            query = QUERIES[name]
            if isinstance(engine.query(name), StandingQuery):
                rows = Counter(query.answer(twin.content(query.view, instant, query.size)))
                assert rows_of(engine.lookup(name)) == rows, (seed, name, now)
        if random.random() < 0.3:
            engine.check()
            engine = restarted(engine, tmp_path)
        if random.random() < 0.3 and len(followed) < len(QUERIES):
            register(random.choice([name for name in QUERIES if name not in followed]))
        if random.random() < 0.2:
            gone = random.choice(list(followed))
            engine.drop(gone)
            del followed[gone]
    engine.check()


KINDS = {
    "SELECT k, COUNT(*) AS c FROM sel GROUP BY k": Query,
    "SELECT k, COUNT(*) AS c, MAX(n) OVER [RANGE 4 SECONDS] AS m FROM sel GROUP BY k EMIT CHANGES": Query,
    "SELECT k, COUNT(*) AS c FROM sel [RANGE 4 SECONDS] GROUP BY k ORDER BY c DESC LIMIT 2": Query,
    "SELECT k, n FROM sel": StandingQuery,
    "SELECT k, COUNT(*) AS c FROM pairs GROUP BY k": JoinQuery,
    "SELECT k, m FROM agg": StandingQuery,
}


@pytest.mark.parametrize("sql", KINDS)
def test_what_can_be_written_out_is(tmp_path: Path, sql: str) -> None:
    engine = engine_with(tmp_path, "sel", "pairs", "agg")
    engine.register(sql, "q")
    assert type(engine.query("q")) is KINDS[sql]
    assert engine.explain("q")
    assert engine.execute(f"EXPLAIN {sql}")
    assert engine.execute("SHOW QUERIES")["name"].to_pylist() == ["q"]


def test_a_query_over_a_selection_is_the_one_written_by_hand(tmp_path: Path) -> None:
    engine = engine_with(tmp_path, "sel")
    engine.register("SELECT k, SUM(twice) AS t FROM sel [RANGE 4 SECONDS] WHERE twice > 2 GROUP BY k", "over")
    engine.register(
        "SELECT k, SUM((n * 2)) AS t FROM a [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE n <> 3 AND (n * 2) > 2 GROUP BY k",
        "hand",
    )
    over, hand = engine.query("over"), engine.query("hand")
    assert isinstance(over, Query)
    assert isinstance(hand, Query)
    assert (over.keys, over.calls, over.window, str(over.where)) == (
        hand.keys,
        hand.calls,
        hand.window,
        str(hand.where),
    )


OVER_VIEWS = {
    "values": "SELECT k, high FROM dis [RANGE 4 SECONDS]",
    "groups": "SELECT k, m FROM agg",
    "changes": "SELECT k, m FROM agg EMIT CHANGES",
    "events": "SELECT k, n FROM sel",
    "written": "SELECT k, COUNT(*) AS c FROM sel GROUP BY k",
    "counted": "SELECT k, n FROM selrows",
    "pairs": "SELECT k, n FROM pairs",
    "without": "SELECT k, n FROM except",
}


@pytest.mark.parametrize("name", OVER_VIEWS)
def test_nothing_is_owed_from_before_the_registration(tmp_path: Path, name: str) -> None:
    """However far the view lags behind the watermark, which is at 7 s and then at 12 s."""
    sql = OVER_VIEWS[name].replace("except", '"except"')
    engine = engine_with(tmp_path, *VIEWS)

    def push(*ts: int) -> None:
        for stream, delay in (("a", 2), ("b", 0)):
            key = "q" if name == "without" and stream == "b" else "p"
            rows = [((at + delay) * SECOND, key, 4) for at in ts]
            engine.push(stream, dict(zip(("ts", "k", "n"), zip(*rows, strict=True), strict=True)))

    def instants() -> set[int]:
        table = engine.advance().get("q")
        return set() if table is None else set(by_instant(table))

    push(1, 3, 7)
    engine.register(sql, "q")
    assert instants() == set()
    push(8, 9)
    assert instants() <= {8}
    push(11, 12)
    engine.execute(f"CREATE OR REPLACE QUERY q AS {sql}")
    assert instants() == set()
    push(13, 14, 15)
    assert instants() == {14}


REFUSED = {
    "SELECT k, n FROM »sel [RANGE 20 SECONDS]": "are shorter than",
    "SELECT k, COUNT(*) AS c FROM »sel [RANGE 20 SECONDS] GROUP BY k": "are shorter than",
    "SELECT k, COUNT(*) OVER [RANGE 20 SECONDS] AS c FROM »sel GROUP BY k": "is no part of that",
    "SELECT k, COUNT(*) AS c FROM »sel [RANGE 4 SECONDS SLIDE 3 SECONDS] GROUP BY k": "SLIDE is a multiple of that",
    "SELECT k, m FROM »agg [RANGE 4 SECONDS]": "answers for its own windows only",
    "SELECT k, »z FROM agg": "no column 'z'",
    "SELECT k, m FROM agg »ORDER BY m": "ranks the keys",
    "SELECT k, m AS change FROM agg »EMIT CHANGES": "adds a column 'change'",
    "SELECT a.k FROM a [RANGE 4 SECONDS] JOIN »agg [RANGE 4 SECONDS] ON a.k = agg.k": "is read alone",
}


@pytest.mark.parametrize("marked", REFUSED)
def test_what_is_refused_is_refused_at_the_word(tmp_path: Path, marked: str) -> None:
    engine, sql = engine_with(tmp_path, "sel", "agg"), marked.replace("»", "")
    with pytest.raises(SqlError, match=REFUSED[marked]) as found:
        engine.register(sql, "q")
    assert found.value.column == marked.index("»") + 1
    assert "q" not in engine.queries


def test_names_that_queries_read_stay(tmp_path: Path) -> None:
    engine = engine_with(tmp_path, "sel", "agg", "pairs")
    for name, view in (("events", "sel"), ("written", "sel"), ("moves", "agg"), ("paired", "pairs")):
        engine.register(QUERIES[name].sql, name)
        with pytest.raises(MuntinError, match=f"view '{view}' is read by query '{name}'"):
            engine.execute(f"DROP MATERIALIZED VIEW {view}")
        with pytest.raises(MuntinError, match=f"there is a view '{view}' already"):
            engine.execute(f"CREATE STREAM {view} (ts TIMESTAMP) TIMESTAMP BY ts")
        engine.execute(f"DROP QUERY {name}; DROP MATERIALIZED VIEW {view}; {statement(view)}")
    engine.close()
    with pytest.raises(NotFound):
        engine.lookup("events")


def test_an_engine_without_a_checkpoint_says_what_it_does_not_know(tmp_path: Path) -> None:
    """A view of groups is brought to what the new engine knows, and is complete when its window is."""
    for restarts, complete in ((0, True), (1, False)):
        engine = engine_with(tmp_path, "agg", "sel", "dis")
        for now in range(20 * restarts, 20 * restarts + 6, 2):
            engine.push("a", {"ts": [now * SECOND, now * SECOND + 1], "k": ["p", "p"], "n": [now, 1]})
            engine.advance((now + 2) * SECOND)
        held = engine.execute("SELECT k, c FROM agg")
        assert held["c"].to_pylist() == [6]
        assert held["complete"].to_pylist() == [complete]
        assert [engine.coverage(view).complete for view in ("agg", "sel", "dis")] == [complete] * 3
        engine.close()


def test_a_row_that_stays_the_same_is_not_written_again(tmp_path: Path) -> None:
    """Only when it has stood for as long as its window."""
    engine, generated = engine_with(tmp_path, "still"), []
    for now in range(0, 20, 2):
        engine.push("a", {"ts": [now * SECOND], "k": ["p"], "n": [now]})
        engine.advance((now + 2) * SECOND)
        (at,) = View.open(tmp_path / "still").read_all()[GENERATED].to_pylist()
        generated.append(at // SECOND)
    assert generated == [2, 2, 6, 6, 10, 10, 14, 14, 18, 18]


def test_duckdb_has_the_same_rows(tmp_path: Path) -> None:
    """A second opinion on groups, different values, and queries over smaller windows."""
    engine, random = engine_with(tmp_path, "agg", "dis", "sel"), np.random.default_rng(5)
    for name in ("cut", "values", "groups"):
        engine.register(QUERIES[name].sql, name)
    ts = np.sort(random.integers(0, 60 * SECOND, 400))
    events = pa.table(
        {"ts": ts, "k": [f"k{each}" for each in random.integers(0, 5, 400)], "n": random.integers(0, 6, 400)}
    )
    engine.push("a", events)
    found = engine.advance(62 * SECOND)
    con = duckdb.connect()
    con.register("a", events)
    con.execute(
        "CREATE TABLE instants AS SELECT t FROM (SELECT unnest(generate_series(2, 62, 2)) * 1000000 AS t)"
    )
    window = "FROM instants JOIN a ON ts < t AND ts >= t - {} * 1000000"
    texts = {
        "cut": f"SELECT k, COUNT(*), t {window.format(4)} WHERE n <> 3 AND n > 1 GROUP BY k, t HAVING COUNT(*) > 1",
        "values": f"SELECT DISTINCT k, n > 2, t {window.format(4)} WHERE n <> 1",
        "groups": "SELECT COUNT(m) FILTER (c > 2), SUM(m) FILTER (c > 2), t FROM instants LEFT JOIN "
        f"(SELECT k, t AS u, COUNT(*) AS c, MAX(n) AS m {window.format(10)} GROUP BY k, t HAVING COUNT(*) > 1) "
        "ON t = u GROUP BY t",
    }  # fmt: skip
    for name, text in texts.items():
        ends = found[name]["window_end"].cast(pa.int64()).to_pylist()
        rows = Counter((*row, end) for row, end in zip(rows_of_each(found[name]), ends, strict=True))
        assert rows == Counter(map(tuple, con.execute(text).fetchall())), name
