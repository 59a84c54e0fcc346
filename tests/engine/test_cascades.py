"""Derived streams: selections of other streams, and streams of the closed windows of queries."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import muntin
from answers import assert_same_answer
from muntin.errors import MuntinError, SqlError
from reference import ReferenceEngine
from runtimes import checkpointed

SECOND, HOUR = 10**6, 3600 * 10**6
STREAM = "CREATE STREAM s (ts BIGINT, k VARCHAR, v BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS"
SELECTION = "CREATE STREAM big AS SELECT ts, k AS name, v * 2 AS twice FROM s WHERE v > 3"
SOURCE = "SELECT k, SUM(v) AS total, COUNT(*) AS n FROM s [RANGE 6 SECONDS SLIDE 3 SECONDS] GROUP BY k"
LONE = "SELECT MAX(twice) AS top FROM big [RANGE 4 SECONDS TO 2 SECONDS SLIDE 2 SECONDS]"
DERIVED = (
    ("busy", SOURCE, "CREATE STREAM busies FROM QUERY busy"),
    ("lone", LONE, "CREATE STREAM lones FROM QUERY lone"),
    (
        "above",
        "SELECT k, MAX(total) AS total FROM busies [RANGE 9 SECONDS SLIDE 3 SECONDS] GROUP BY k HAVING MAX(total) > 9",
        "CREATE STREAM aboves FROM QUERY above",
    ),
)
QUERIES = (
    "SELECT name, SUM(twice) AS v FROM big [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY name",
    "SELECT SUM(twice) AS v, COUNT(*) AS n FROM big [ROWS 3] WHERE name <> 'a'",
    "SELECT k, SUM(total) AS v, MAX(n) AS n FROM busies [RANGE 12 SECONDS SLIDE 6 SECONDS] GROUP BY k",
    "SELECT COUNT(*) AS v, MAX(total) AS top FROM busies [RANGE 6 SECONDS SLIDE 2 SECONDS]",
    "SELECT k, SUM(total) AS v FROM busies [RANGE 10 SECONDS] WHERE n > 1 GROUP BY k",
    "SELECT SUM(top) AS v, COUNT(*) AS n FROM lones [RANGE 4 SECONDS SLIDE 4 SECONDS]",
    "SELECT COUNT(*) AS v FROM lones [ROWS 5] WHERE top IS NULL",
    "SELECT COUNT(*) AS v, MAX(total) AS top FROM aboves [RANGE 9 SECONDS SLIDE 9 SECONDS]",
)


def push(random: Random, start: int) -> dict[str, list[Any]]:
    """Some seconds of events with ties, out of order within the delay, and a few that are late."""
    at = sorted(
        start + random.randrange(5) * SECOND + random.choice((0, 1, 700_000))
        for _ in range(random.randrange(1, 9))
    )
    at[len(at) // 2] -= random.choice((0, SECOND, 9 * SECOND))
    return {
        "ts": at, "k": [random.choice("abc") for _ in at], "v": [random.choice((None, 1, 2, 4, 6, 9)) for _ in at],
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_derived_streams_are_what_the_reference_has(seed: int) -> None:
    """However events are cut into batches, whatever is promised, and whichever queries and streams come and go."""
    random = Random(seed)
    engine, reference = muntin.Engine(portion_rows=random.choice((3, 10**6))), ReferenceEngine()
    queries: dict[str, str] = {}

    def both(statement: str) -> None:
        engine.execute(statement)
        reference.execute(statement)

    def register(name: str, sql: str) -> None:
        engine.register(sql, name)
        reference.register(sql, name=name)
        queries[name] = sql

    both(STREAM)
    both(SELECTION)
    waiting, now, number = list(DERIVED), 20 * SECOND, 0
    for _ in range(28):
        match random.randrange(9):
            case 0 | 1 | 2:
                events = push(random, now)
                engine.push("s", events)
                reference.push("s", events)
                now += random.choice((1, 3, 5, 40)) * SECOND
            case 3 if waiting:
                name, sql, stream = waiting.pop(0)
                register(name, sql)
                both(stream)
            case 3 | 4:
                there = [sql for sql in QUERIES if sql.split(" FROM ")[1].split()[0] in engine.streams]
                register(f"q{number}", random.choice(there))
                number += 1
            case 5 if free := [name for name in queries if name.startswith("q")]:
                gone = random.choice(free)
                engine.drop(gone)
                reference.drop(gone)
                del queries[gone]
            case 6 if random.random() < 0.5:
                engine = checkpointed(engine)
            case _:
                until = None if random.random() < 0.6 else now - random.randrange(-4, 9) * SECOND
                expected = reference.advance(until)
                emitted: dict[str, list[Any]] = {}
                while (answers := engine.advance(until)) or answers.more:
                    for name, table in answers.items():
                        emitted.setdefault(name, []).extend(table.to_batches())
                for name in queries:
                    tables = emitted.get(name)
                    found = None if tables is None else pa.Table.from_batches(tables)
                    assert_same_answer(
                        expected.get(name, reference.nothing(name)), found, f"{seed}: emitted {name}"
                    )
        for name in queries:
            assert_same_answer(reference.lookup(name), engine.lookup(name), f"{seed}: {name}")
    engine.check()


def events(*at: int, step: int = 1) -> dict[str, list[Any]]:
    return {"ts": [each * SECOND for each in at], "k": ["a"] * len(at), "v": [each * step for each in at]}


def made(*statements: str) -> muntin.Engine:
    engine = muntin.Engine()
    for statement in (STREAM, SELECTION, *statements):
        engine.execute(statement)
    return engine


BUSY = f"REGISTER QUERY busy AS {SOURCE}"
BUSIES = "CREATE STREAM busies FROM QUERY busy"


def test_queries_over_a_selection_share_with_those_written_out() -> None:
    """One store, one group, one key dictionary: the selection costs nothing of its own."""
    engine = made(
        "REGISTER QUERY one AS SELECT name, SUM(twice) FROM big [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY name",
        "REGISTER QUERY other AS SELECT k, SUM(v * 2) FROM s [RANGE 8 SECONDS SLIDE 2 SECONDS] WHERE v > 3 GROUP BY k",
        "CREATE STREAM bigger AS SELECT ts, name, twice - 1 AS odd FROM big WHERE twice < 100",
        "REGISTER QUERY third AS SELECT SUM(odd) FROM bigger [RANGE 4 SECONDS SLIDE 2 SECONDS]",
        "REGISTER QUERY fourth AS SELECT SUM(v * 2 - 1) FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] "
        "WHERE v > 3 AND v * 2 < 100",
    )
    assert engine.stats()["streams"]["s"]["groups"] == 2
    assert list(engine.stats()["streams"]) == ["s"]
    assert [each.queries for each in engine.sharing().of_query("one").groups.values()] == [("one", "other")]


def test_complete_is_false_where_the_stream_begins() -> None:
    """A stream of windows that comes while its query runs has no rows of what closed before."""
    engine = made(BUSY)
    engine.push("s", events(0, 1, 5, 10))
    engine.execute(BUSIES)  # the watermark is at 8: instants 3 and 6 have closed
    engine.register("SELECT k, COUNT(*) AS n FROM busies [RANGE 6 SECONDS SLIDE 3 SECONDS] GROUP BY k", "n")
    engine.push("s", events(17))
    found = engine.advance()["n"].select(["n", "complete"]).to_pydict()
    assert found == {
        "n": [1, 2, 2],
        "complete": [False, True, True],
    }  # at 9 from 3 on, at 12 from 6 on, at 15


def test_complete_is_false_where_a_row_is_not_complete() -> None:
    """A query that came late knows part of its first windows, and so does all that follows from it. Streams that have
    another source, and windows that begin later, are complete."""
    engine = made()
    engine.push("s", events(0, 1, 5, 10))
    engine.execute(f"{BUSY};{BUSIES}")  # known from 10 on: windows of 6 seconds are complete from 18 on
    engine.register("SELECT COUNT(*) AS n FROM busies [RANGE 3 SECONDS SLIDE 3 SECONDS]", "n")
    engine.push("s", events(12, 14, 17, 26))
    found = engine.advance()["n"].select(["window_end", "complete"])
    told = dict(
        zip(found["window_end"].cast(pa.int64()).to_pylist(), found["complete"].to_pylist(), strict=True)
    )
    assert told == {at * SECOND: at > 15 for at in (15, 18, 21, 24)}  # the row of 15 is not complete
    again = checkpointed(engine)
    again.register("SELECT COUNT(*) AS n FROM busies [RANGE 20 SECONDS SLIDE 3 SECONDS]", "long")
    again.push("s", events(32))
    assert again.lookup("long")["complete"].to_pylist() == [False]


REFUSED = {
    "DROP QUERY busy": "query 'busy' is the source of stream 'busies'; drop it first",
    "DROP STREAM busies": "stream 'busies' is read by query 'n'",
    "DROP STREAM big": "stream 'big' is selected from by stream 'bigger'",
    "DROP STREAM s": "stream 's' is read by query 'busy'",
    "CREATE OR REPLACE QUERY busy AS SELECT k, COUNT(*) AS n FROM s [RANGE 6 SECONDS SLIDE 3 SECONDS] GROUP BY k": (
        "which has its columns; the new one has others (k VARCHAR, n BIGINT, window_start TIMESTAMP, window_end "
        "TIMESTAMP, complete BOOLEAN instead of "
    ),
    "CREATE OR REPLACE QUERY busy AS SELECT k, SUM(v) AS total, COUNT(*) AS n FROM s [RANGE 6 SECONDS] GROUP BY k": (
        "needs its closed windows; the new one closes no window by time"
    ),
    "CREATE OR REPLACE QUERY busy AS SELECT k, SUM(n) AS total, COUNT(*) AS n FROM busies [RANGE 6 SECONDS SLIDE 3 "
    "SECONDS] GROUP BY k": "what it answers would follow from itself",
    "REWIND STREAM busies TO '1970-01-01'": "cannot be pushed or rewound",
    "CREATE STREAM x FROM QUERY nobody": "there is no query 'nobody'",
    "CREATE STREAM x FROM QUERY anytime": "closes no window by time; give its window a SLIDE",
    "CREATE STREAM x FROM QUERY counted": "closes no window by time",
    "CREATE STREAM x FROM QUERY changes": "emits changes instead of windows",
    "CREATE STREAM x FROM QUERY summed": "write CAST(… AS DECIMAL(18, 2)) (line 1, column 28)",
    "CREATE STREAM x AS SELECT ts, CAST(v AS DECIMAL(20, 3)) AS w FROM s": (
        "'w' has 20 digits, and a column of a stream at most 18: write CAST(… AS DECIMAL(18, 3)) (line 1"
    ),
    "CREATE STREAM x FROM QUERY timed": "give that column another name with AS",
    "CREATE STREAM x FROM s": "expected QUERY and its name after FROM",
    "CREATE STREAM x AS SELECT k FROM s": "add the column ts",
    "CREATE STREAM x AS SELECT ts, v + 1 FROM s": "give the column a name with AS",
    "CREATE STREAM x AS SELECT ts, 1 AS one FROM s": "is no constant",
    "CREATE STREAM x AS SELECT ts, k, v AS k FROM s": "two columns are called 'k'",
    "CREATE STREAM x AS SELECT ts, SUM(v) AS v FROM s": "an aggregate cannot stand in the SELECT of a stream",
    "CREATE STREAM x AS SELECT ts FROM s WHERE COUNT(*) > 1": "an aggregate cannot stand in WHERE",
    "CREATE STREAM x AS SELECT ts FROM s [RANGE 5 SECONDS]": "has no window",
    "CREATE STREAM x AS SELECT ts FROM s GROUP BY ts": "GROUP BY is for queries",
    "CREATE STREAM x AS SELECT DISTINCT ts FROM s": "DISTINCT is for queries",
    "CREATE STREAM x AS SELECT ts, w FROM big": "stream 'big' has no column 'w'",
    "CREATE STREAM big AS SELECT ts FROM s": "there is a stream 'big' already",
    "SELECT SUM(v) FROM big [RANGE 5 SECONDS]": "stream 'big' has no column 'v'",
    "SELECT a.k FROM busies [RANGE 5 SECONDS] AS a JOIN s [RANGE 5 SECONDS] AS b ON a.k = b.k": "read pushed streams",
    "REGISTER QUERY x AS SELECT COUNT(*) FROM busies [RANGE 5 SECONDS] BACKFILL 'old.csv'": "has no other history",
}  # fmt: skip


@pytest.fixture(scope="module")
def cascades() -> muntin.Engine:
    return made(
        BUSY, BUSIES, "CREATE STREAM bigger AS SELECT ts, name FROM big",
        "REGISTER QUERY n AS SELECT COUNT(*) AS n FROM busies [RANGE 3 SECONDS SLIDE 3 SECONDS]",
        "REGISTER QUERY anytime AS SELECT COUNT(*) AS n FROM s [RANGE 3 SECONDS]",
        "REGISTER QUERY counted AS SELECT COUNT(*) AS n FROM s [ROWS 3 SLIDE 3]",
        "REGISTER QUERY changes AS SELECT k FROM s [RANGE 3 SECONDS SLIDE 3 SECONDS] GROUP BY k EMIT CHANGES",
        "REGISTER QUERY summed AS SELECT SUM(CAST(v AS DECIMAL(9, 2))) AS t FROM s [RANGE 3 SECONDS SLIDE 1 SECOND]",
        "REGISTER QUERY timed AS SELECT MAX(ts) AS ts FROM s [RANGE 3 SECONDS SLIDE 3 SECONDS]",
    )  # fmt: skip


@pytest.mark.parametrize("statement", REFUSED)
def test_refused_with_the_reason(cascades: muntin.Engine, statement: str) -> None:
    """Statements that cannot be carried out say why, and at which word if they could never be."""
    before = list(cascades.streams), list(cascades.queries)
    with pytest.raises(MuntinError) as found:
        cascades.execute(statement)
    assert REFUSED[statement] in str(found.value).replace("\n", " ")
    if isinstance(found.value, SqlError):
        assert "^" in str(found.value)
    assert (list(cascades.streams), list(cascades.queries)) == before


MONEY = "CREATE STREAM m (ts BIGINT, k VARCHAR, d DECIMAL(9, 2)) TIMESTAMP BY ts"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("APPROX_FREQUENT(k, 0.1, 0.01)", "answer 'a' of query 'q' is a list"),
        ("SUM(d)", r"answer 'a' of query 'q' has 38 digits.*CAST\(… AS DECIMAL\(18, 2\)\)"),
    ],
)
def test_answers_that_no_column_holds(answer: str, why: str) -> None:
    """They are refused where the stream is made, at the word: not by a push of events, when it is too late."""
    engine = muntin.Engine()
    engine.execute(MONEY)
    engine.register(f"SELECT k, {answer} AS a FROM m [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k", name="q")
    with pytest.raises(SqlError, match=why):
        engine.execute("CREATE STREAM w FROM QUERY q")
    with pytest.raises(SqlError, match="'cube' has 27 digits"):
        engine.execute("CREATE STREAM w AS SELECT ts, d * d * d AS cube FROM m")
    assert list(engine.streams) == ["m"]


def test_null_alone_is_a_bigint_as_a_column() -> None:
    engine = muntin.Engine()
    engine.execute(
        f"{STREAM}; CREATE STREAM empty AS SELECT ts, CASE WHEN v > 3 THEN NULL END AS nothing FROM s"
    )
    assert engine.streams["empty"].schema.field("nothing").type == pa.int64()
    engine.execute(
        "REGISTER QUERY q AS SELECT COUNT(nothing) AS n, SUM(nothing) AS v FROM empty [RANGE 1 HOUR]"
    )
    engine.push("s", {"ts": [1], "k": ["a"], "v": [4]})
    [row] = engine.lookup("q").to_pylist()
    assert (row["n"], row["v"]) == (0, None)


def test_nobody_pushes_derived_streams(cascades: muntin.Engine) -> None:
    """Their events follow from others."""
    for stream in ("big", "busies"):
        with pytest.raises(MuntinError, match="cannot be pushed"):
            cascades.push(stream, {"ts": [1]})
        with pytest.raises(MuntinError, match="cannot be pushed or rewound"):
            cascades.rewind(stream, 0)
    with pytest.raises(MuntinError, match="source of stream 'busies'"):
        cascades.drop("busy")


def test_they_are_listed(cascades: muntin.Engine) -> None:
    """SHOW STREAMS has their statements, DESCRIBE their columns, and explain says what they follow from."""
    shown = cascades.execute("SHOW STREAMS").to_pylist()
    assert {each["name"]: each["sql"] for each in shown} == {
        "s": None, "big": SELECTION, "bigger": "CREATE STREAM bigger AS SELECT ts, name FROM big",
        "busies": 'CREATE STREAM "busies" FROM QUERY "busy"',
    }  # fmt: skip
    columns = cascades.execute("DESCRIBE busies").to_pydict()
    assert columns["column"] == ["ts", "k", "total", "n", "window_start", "window_end", "complete"]
    assert columns["role"][0] == "time"
    assert "stream busies has the closed windows of query 'busy'" in cascades.explain()
    assert "stream big selects from stream 's'" in cascades.explain()
    cascades.sharing()
    cascades.execute("CREATE STREAM IF NOT EXISTS busies FROM QUERY busy; DROP STREAM IF EXISTS nobody")


def test_a_query_with_the_same_columns_takes_the_place() -> None:
    """The stream goes on with the windows of the new query, and is complete once these are."""
    engine = made(BUSY, BUSIES)
    engine.register("SELECT k, LAST(n) AS n FROM busies [RANGE 3 SECONDS SLIDE 3 SECONDS] GROUP BY k", "n")
    engine.push("s", events(0, 1, 2, 8))
    engine.execute(f"CREATE OR REPLACE QUERY busy AS {SOURCE.replace('COUNT(*)', '100 + COUNT(*)')}")
    engine.push("s", events(9, 10, 11, 14))
    found = engine.advance()["n"]
    assert found["n"].to_pylist() == [3, 3, 101, 104]  # at 3 and 6 the old one, then the new one
    engine.execute("DROP QUERY n; DROP STREAM busies; DROP QUERY busy")
    assert list(engine.streams) == ["s", "big"]


def test_a_rewind_rewinds_what_follows() -> None:
    """Rows of instants after it are made again, from what is pushed again."""
    engine = made(BUSY, BUSIES)
    engine.register("SELECT SUM(total) AS v FROM busies [RANGE 30 SECONDS SLIDE 3 SECONDS]", "v")
    engine.push("s", events(0, 4, 8, 14))
    engine.rewind("s", 6 * SECOND)
    engine.push("s", events(7, 10, 14, step=10))
    assert engine.lookup("v").select(["v", "complete"]).to_pylist() == [{"v": 70 + 170, "complete": False}]
    assert engine.stats()["streams"]["busies"]["late"] == 0


def test_a_row_without_a_value_is_left_out() -> None:
    """What it comes from has been taken in already, so it cannot refuse the push."""
    engine = made(BUSY, BUSIES)
    engine.register(f"SELECT MAX(total * {2**62}) AS v, COUNT(*) AS n FROM busies [ROWS 9]", "v")
    with pytest.warns(RuntimeWarning, match="stream 'busies' leaves out rows"):
        engine.push("s", events(0, 1, 8, 20, 30))
    assert engine.lookup("v").select(["v", "n"]).to_pylist() == [
        {"v": 2**62, "n": 2}
    ]  # of 3 and 6: totals of 1


def test_tables_are_joined_with_derived_streams() -> None:
    """As with any stream; a query that joins a table can be a source, too."""
    table = "CREATE TABLE most (k VARCHAR, n BIGINT, PRIMARY KEY (k))"
    engine = made(table, "INSERT INTO most VALUES ('a', 5)", BUSY, BUSIES)
    joined = "SELECT {0}.k, SUM({1}) AS v, m.n FROM {2} JOIN most AS m ON {0}.k = m.k GROUP BY {0}.k"
    engine.execute("CREATE STREAM keyed AS SELECT ts, k, v * 2 AS twice FROM s WHERE v > 3")
    window = "[RANGE 6 SECONDS SLIDE 3 SECONDS]"
    engine.register(joined.format("d", "d.twice", f"keyed {window} AS d"), "selected")
    by_hand = joined.format("s", "s.v * 2", f"s {window} AS s").replace(" GROUP", " WHERE s.v > 3 GROUP")
    engine.register(by_hand, "by_hand")
    engine.register(joined.format("b", "b.total", f"busies {window} AS b"), "fed")
    engine.execute("CREATE STREAM after_tables FROM QUERY selected")
    engine.register(
        "SELECT COUNT(*) AS c, MAX(n) AS n FROM after_tables [RANGE 9 SECONDS SLIDE 9 SECONDS]", "last"
    )
    engine.push("s", events(0, 1, 4, 7, 20))
    emitted = engine.advance()
    assert emitted["selected"].equals(emitted["by_hand"])
    assert emitted["fed"]["v"].to_pylist() == [
        1,
        6,
        16,
        18,
        7,
    ]  # at 3 to 15: 1, 5 and 11 and 7, two at a time
    assert emitted["last"].select(["c", "n"]).to_pylist()[0] == {"c": 2, "n": 5}


def test_no_stream_is_made_of_a_view(tmp_path: Path) -> None:
    """Nor of a query that joins, by way of a view; both say so at the name."""
    engine = muntin.Engine(archive=tmp_path)
    engine.execute(
        "CREATE STREAM a (ts BIGINT, k BIGINT) TIMESTAMP BY ts; CREATE STREAM b (ts BIGINT, k BIGINT) TIMESTAMP BY ts;"
        "CREATE MATERIALIZED VIEW v AS SELECT a.k FROM a [RANGE 5 SECONDS] JOIN b [RANGE 5 SECONDS] ON a.k = b.k "
        "EVERY 1 SECOND"
    )
    engine.execute("REGISTER QUERY q AS SELECT COUNT(*) FROM v [RANGE 1 SECOND]")
    with pytest.raises(SqlError, match="joins two streams"):
        engine.execute("CREATE STREAM x FROM QUERY q")
    with pytest.raises(SqlError, match="'v' is a materialised view, not a query"):
        engine.execute("CREATE STREAM x FROM QUERY v")
    engine.close()


def test_an_hour_against_the_days_before_as_duckdb_has_it() -> None:
    """The z-score of each hour against the last ten hours, by key; made in SQL over the same events."""
    random = Random(1)
    at = sorted(random.randrange(40 * HOUR) for _ in range(600))
    columns = {"ts": at, "k": [random.choice("ab") for _ in at], "v": [random.randrange(100) for _ in at]}
    engine = made(
        "REGISTER QUERY hours AS SELECT k, SUM(v) AS total FROM s [RANGE 1 HOUR SLIDE 1 HOUR] GROUP BY k",
        "CREATE STREAM hourly FROM QUERY hours",
        "REGISTER QUERY z AS SELECT k, (LAST(total) - AVG(total) OVER w) / STDDEV_SAMP(total) OVER w AS z "
        "FROM hourly [RANGE 1 HOUR SLIDE 1 HOUR] GROUP BY k WINDOW w AS [RANGE 10 HOURS]",
    )
    for part in range(0, 600, 37):
        engine.push("s", {name: values[part : part + 37] for name, values in columns.items()})
    found = engine.advance(41 * HOUR)["z"]
    rows = duckdb.from_arrow(pa.table(columns)).query(
        "events",
        f"WITH hours AS (SELECT k, ts // {HOUR} + 1 AS h, SUM(v) AS total FROM events GROUP BY ALL) "
        "SELECT k, h, (total - AVG(total) OVER w) / STDDEV_SAMP(total) OVER w FROM hours "
        "WINDOW w AS (PARTITION BY k ORDER BY h RANGE BETWEEN 9 PRECEDING AND CURRENT ROW)",
    ).fetchall()  # fmt: skip
    expected = {(k, hour): z for k, hour, z in rows if hour <= 41}
    ends = found["window_end"].cast(pa.int64()).to_pylist()
    assert len(found) == len(expected)
    for k, end, z in zip(found["k"].to_pylist(), ends, found["z"].to_pylist(), strict=True):
        wanted = expected[k, end // HOUR]
        assert z == wanted if wanted is None else z == pytest.approx(wanted)
