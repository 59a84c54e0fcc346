"""What runs where, as data: `docs/generate.py` makes a page of it, and tests/spark/test_matrix.py tries every cell.

An entry has a statement and what becomes of it in each runtime: `RUNS`, or part of the error that refuses it. To change
a cell, change the entry, and run `python docs/generate.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

RUNS = ""
STREAMS = {
    "t": "CREATE STREAM t (ts TIMESTAMP, k VARCHAR, v BIGINT, x DOUBLE) TIMESTAMP BY ts",
    "q": "CREATE STREAM q (ts TIMESTAMP, k VARCHAR, bid DOUBLE) TIMESTAMP BY ts",
}
TABLES = {
    "limits": "CREATE TABLE limits (k VARCHAR, most BIGINT, tier VARCHAR, span INTERVAL, PRIMARY KEY (k))",
}
_W = "[RANGE 4 SECONDS SLIDE 2 SECONDS]"


@dataclass(frozen=True)
class Entry:
    """`why` says why it is refused where it is, and what to do instead."""

    what: str
    sql: str
    embedded: str = RUNS
    table: str = RUNS  # a DataFrame that is not streaming
    stream: str = RUNS
    why: str = ""


QUERIES = (
    Entry("`[RANGE … SLIDE …]`", f"SELECT SUM(v) AS s FROM t {_W}"),
    Entry("`[RANGE …]`", "SELECT SUM(v) AS s FROM t [RANGE 4 SECONDS]"),
    Entry("`[RANGE … TO …]`", "SELECT SUM(v) AS s FROM t [RANGE 4 SECONDS TO 1 SECOND SLIDE 1 SECOND]"),
    Entry(
        "`[RANGE … SLIDE … OFFSET …]`",
        "SELECT SUM(v) AS s FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS OFFSET 1 SECOND]",
    ),
    Entry("`[SINCE DAY SLIDE …]`", "SELECT SUM(v) AS s FROM t [SINCE DAY SLIDE 2 SECONDS]"),
    Entry("`[SESSION …]`", "SELECT COUNT(*) AS n, SUM(v) AS s FROM t [SESSION 1 SECOND]"),
    Entry(
        "`[SESSION …] GROUP BY`", "SELECT k, COUNT(*) AS n, AVG(x) AS a FROM t [SESSION 3 SECONDS] GROUP BY k"
    ),
    Entry(
        "`[SESSION …] EMIT CHANGES`",
        "SELECT k, COUNT(*) AS n FROM t [SESSION 4 SECONDS] GROUP BY k HAVING COUNT(*) > 1 EMIT CHANGES",
    ),
    Entry("`[SINCE DAY]`", "SELECT SUM(v) AS s FROM t [SINCE DAY]"),
    Entry("`[ROWS … SLIDE …]`", "SELECT SUM(v) AS s FROM t [ROWS 3 SLIDE 2]"),
    Entry("`[ROWS …]`", "SELECT SUM(v) AS s FROM t [ROWS 3]"),
    Entry("`[ROWS …]` of each key", "SELECT k, SUM(v) AS s FROM t [ROWS 3 SLIDE 1] GROUP BY k"),
    Entry(
        "`OVER [RANGE …]`, several windows",
        f"SELECT SUM(v) AS s, MAX(v) OVER [RANGE 2 SECONDS] AS m FROM t {_W}",
    ),
    Entry(
        "aggregates with SLIDEs of their own",
        f"SELECT SUM(v) OVER {_W} AS s, MAX(v) OVER [RANGE 4 SECONDS SLIDE 1 SECOND] AS m FROM t",
    ),
    Entry("GROUP BY", f"SELECT k, COUNT(*) AS n FROM t {_W} GROUP BY k"),
    Entry("GROUP BY an expression", f"SELECT v % 2 AS odd, COUNT(*) AS n FROM t {_W} GROUP BY v % 2"),
    Entry("WHERE", f"SELECT COUNT(*) AS n FROM t {_W} WHERE k = 'a'"),
    Entry("FILTER", f"SELECT COUNT(*) FILTER (WHERE v > 3) AS n FROM t {_W}"),
    Entry("HAVING", f"SELECT k, SUM(v) AS s FROM t {_W} GROUP BY k HAVING SUM(v) > 5"),
    Entry("EMIT CHANGES", f"SELECT k, SUM(v) AS s FROM t {_W} GROUP BY k HAVING SUM(v) > 5 EMIT CHANGES"),
    Entry("ORDER BY … LIMIT", f"SELECT k, SUM(v) AS s FROM t {_W} GROUP BY k ORDER BY s DESC LIMIT 1"),
    Entry(
        "ORDER BY … LIMIT with EMIT CHANGES",
        f"SELECT k, SUM(v) AS s FROM t {_W} GROUP BY k ORDER BY s DESC LIMIT 1 EMIT CHANGES",
    ),
    Entry("SELECT DISTINCT", f"SELECT DISTINCT k FROM t {_W}"),
    Entry(
        "COUNT, SUM, AVG, MIN, MAX",
        f"SELECT COUNT(v) AS c, AVG(x) AS a, MIN(v) AS i, MAX(x) AS m FROM t {_W}",
    ),
    Entry("VAR, STDDEV", f"SELECT STDDEV_POP(x) AS d FROM t {_W}"),
    Entry("FIRST, LAST", f"SELECT FIRST(v) AS f, LAST(v) AS l FROM t {_W}"),
    Entry("ARG_MAX, ARG_MIN", f"SELECT ARG_MAX(v, x) AS a, ARG_MIN(k, v) AS i FROM t {_W}"),
    Entry("MEDIAN, QUANTILE", f"SELECT MEDIAN(v) AS m FROM t {_W}"),
    Entry("MODE", f"SELECT MODE(v) AS m, MODE(k) AS t FROM t {_W}"),
    Entry("COUNT(DISTINCT …)", f"SELECT COUNT(DISTINCT k) AS n FROM t {_W}"),
    Entry("MIN and MAX of texts", f"SELECT MAX(k) AS m FROM t {_W}"),
    Entry("APPROX_QUANTILE, APPROX_FREQUENT, …", f"SELECT APPROX_QUANTILE(v, 0.5, 0.1) AS p FROM t {_W}"),
    Entry("APPROX_COUNT_DISTINCT", f"SELECT APPROX_COUNT_DISTINCT(k) AS n FROM t {_W}"),
    Entry(
        "COUNT_IF, BOOL_AND, COVAR_POP, CORR, …",
        f"SELECT CORR(v, v * v) AS c, COUNT_IF(v > 1) AS n FROM t {_W}",
    ),
    Entry(
        "SUM, AVG, MIN, … of DECIMAL",
        f"SELECT SUM(CAST(v AS DECIMAL(12, 2)) * 1.19) AS s, AVG(CAST(v AS DECIMAL(12, 2))) AS m FROM t {_W}",
    ),
    Entry("expressions of aggregates", f"SELECT SUM(v) / COUNT(*) AS mean FROM t {_W}"),
    Entry("`/*+ SYNOPSIS(…) */`", f"SELECT /*+ SYNOPSIS(rescan) */ SUM(v) AS s FROM t {_W}"),
    Entry(
        "JOIN of a table",
        f"SELECT t.k, SUM(v) AS s, l.most FROM t {_W} AS t JOIN limits AS l ON t.k = l.k GROUP BY t.k "
        "HAVING SUM(v) > l.most",
    ),
    Entry(
        "LEFT JOIN of a table",
        f"SELECT t.k, SUM(v) AS s, l.most FROM t {_W} AS t LEFT JOIN limits AS l ON t.k = l.k GROUP BY t.k",
    ),
    Entry(
        "a table LEFT JOIN a stream",
        f"SELECT l.k, COUNT(v) AS n FROM limits AS l LEFT JOIN t {_W} AS t ON t.k = l.k GROUP BY l.k",
    ),
    Entry(
        "GROUP BY a column of a table",
        f"SELECT l.tier, SUM(v) AS s FROM t {_W} AS t JOIN limits AS l ON t.k = l.k GROUP BY l.tier",
    ),
    Entry(
        "`[RANGE l.span UP TO …]`",
        "SELECT l.k, COUNT(*) AS n FROM t [RANGE l.span UP TO 4 SECONDS SLIDE 1 SECOND] AS t JOIN limits AS l "
        "ON t.k = l.k GROUP BY l.k",
    ),
    Entry(
        "JOIN of two streams",
        f"SELECT t.k, bid FROM t {_W} AS t JOIN q [RANGE 2 SECONDS] AS q ON t.k = q.k EMIT CHANGES",
    ),
    Entry(
        "the same with GROUP BY",
        f"SELECT t.k, COUNT(*) AS n, MAX(bid) AS b FROM t {_W} AS t JOIN q [RANGE 2 SECONDS] AS q ON t.k = q.k "
        "GROUP BY t.k",
    ),
    Entry(
        "a stream JOIN itself",
        "SELECT COUNT(*) AS n FROM t [RANGE 2 SECONDS SLIDE 1 SECOND] AS a JOIN t [RANGE 2 SECONDS] AS b ON a.k = b.k",
    ),
)

_CONTROL = "a control stream takes"
STATEMENTS = (  # a table has no control stream: what would be said there is said before
    Entry("REGISTER QUERY", f"REGISTER QUERY other AS SELECT COUNT(*) AS n FROM t {_W}"),
    Entry("CREATE OR REPLACE QUERY", f"CREATE OR REPLACE QUERY own AS SELECT MAX(v) AS n FROM t {_W}"),
    Entry("DROP QUERY", "DROP QUERY own"),
    Entry("REWIND STREAM", "REWIND STREAM t TO '1970-01-01 00:00:03'"),
    Entry("INSERT INTO", "INSERT INTO limits VALUES ('z', 5, 'low', INTERVAL 1 SECOND)"),
    Entry("DELETE FROM", "DELETE FROM limits WHERE k = 'a'"),
    Entry(
        "REGISTER QUERY … BACKFILL",
        f"REGISTER QUERY other AS SELECT COUNT(*) AS n FROM t {_W} BACKFILL 'history.parquet'",
    ),
    Entry("CREATE STREAM", "CREATE STREAM u (ts TIMESTAMP) TIMESTAMP BY ts", stream=_CONTROL,
          why="a job has the stream that its DataFrame is"),
    Entry("CREATE STREAM … AS SELECT", "CREATE STREAM u AS SELECT ts, k FROM t", stream=_CONTROL,
          why="write its WHERE and expressions in the queries: they share all the same"),
    Entry("CREATE STREAM … FROM QUERY", "CREATE STREAM u FROM QUERY own", stream=_CONTROL,
          why="a second job whose DataFrame is the answers of the first"),
    Entry("CREATE TABLE", "CREATE TABLE u (a BIGINT, PRIMARY KEY (a))", stream=_CONTROL,
          why="tables are given to `shared_windows(…, tables=…)`"),
    Entry("DROP TABLE", "DROP TABLE limits", stream=_CONTROL, why="queries join it as long as the job runs"),
    Entry("EXPLAIN", f"EXPLAIN SELECT COUNT(*) AS n FROM t {_W}", stream=_CONTROL,
          why="`muntin.spark.explain(answers)`, `muntin explain --engine spark`"),
    Entry("REGISTER QUERY … FROM a view", "REGISTER QUERY other AS SELECT COUNT(*) AS n FROM kept",
          stream="unknown stream 'kept'", why="a job reads its DataFrames; register the query over the stream"),
    Entry("SELECT, at once", "SELECT COUNT(*) AS n FROM t [RANGE 4 SECONDS]", stream=_CONTROL,
          why="answers come as windows close"),
)  # fmt: skip


_GROUPED = "which an embedded engine keeps"
VIEWS = (  # each by `muntin.spark.keep_view` there
    Entry("pairs of two streams over RANGE",
          "SELECT t.k, bid FROM t [RANGE 4 SECONDS] AS t JOIN q [RANGE 4 SECONDS] AS q ON t.k = q.k"),
    Entry("the same over ROWS", "SELECT t.k, bid FROM t [ROWS 4] AS t JOIN q [ROWS 4] AS q ON t.k = q.k"),
    Entry("EXCEPT, NOT EXISTS", "SELECT k, v FROM t [RANGE 4 SECONDS] EXCEPT SELECT k FROM q [RANGE 4 SECONDS]"),
    Entry("events of one stream", "SELECT k, v FROM t [RANGE 4 SECONDS] WHERE v > 2"),
    Entry("DISTINCT of one stream", "SELECT DISTINCT k FROM t [RANGE 4 SECONDS]", stream=_GROUPED,
          why="keep the events, and write DISTINCT where you read them"),
    Entry("aggregates and GROUP BY of one stream", "SELECT k, COUNT(*) AS n FROM t [RANGE 4 SECONDS] GROUP BY k",
          stream=_GROUPED, why="`shared_windows` has such answers: write them; or keep the events, and aggregate "
          "where you read them"),
)  # fmt: skip


def table_of(entries: tuple[Entry, ...], runtimes: tuple[str, ...]) -> str:
    """A line for each entry; what to write instead has a column if something is refused."""
    names = {"embedded": "embedded", "table": "Spark, a table", "stream": "Spark, a stream"}
    instead = any(entry.why for entry in entries)
    heads = ["", *(names[each] for each in runtimes), *(["instead"] if instead else [])]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for entry in entries:
        cells = ["yes" if getattr(entry, each) == RUNS else "no" for each in runtimes]
        lines.append("| " + " | ".join([entry.what, *cells, *([entry.why] if instead else [])]) + " |")
    return "\n".join(lines)
