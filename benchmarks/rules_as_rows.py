"""A million rules that are rows of a table, and a limit per account: beside DuckDB, and beside plain queries."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.measure import Column, Result, measure_side_by_side
from benchmarks.workloads import MINUTE, Draw, minute_of_events
from muntin import Engine

COLUMNS = [
    Column("what", ""), Column("rules", "rows", ",d"), Column("spans", "spans", ",d"),
    Column("load_seconds", "loading, CPU s", ".2f"), Column("bytes_each", "bytes a row, beyond it", ",.0f"),
    Column("push_rate", "events pushed per CPU s", ",.0f"), Column("plain_push_rate", "the same, GROUP BY", ",.0f"),
    Column("advance_ms", "an instant, CPU ms", ",.1f"), Column("alerts", "alerts an instant", ",d"),
    Column("rival_ms", "DuckDB, or plain HAVING, CPU ms", ",.1f"),
    Column("change_ms", "one row more, less, CPU ms", ".2f"),
    Column("replace_ms", "push waits while all are replaced, ms", ",.0f"),
]  # fmt: skip
LIMIT = 3840.0  # of an account in ten minutes: one in a hundred is above
NOTES = """Rules `SELECT s.id, SUM(t.shares) … [RANGE s.span UP TO … SLIDE 1 MINUTE] AS t JOIN subscriptions AS s ON
t.symbol = s.symbol GROUP BY s.id HAVING SUM(t.shares) > s.floor EMIT CHANGES` over {symbols:,} symbols and {rate:,}
events a minute of event time in ten batches; spans of one to ten minutes, or of one to ten minutes in steps of a second
(STEP 1 SECOND). Each row has a threshold of its own, which about one in a thousand passes. Windows are full before
anything is timed. *GROUP BY*: one query over the longest window by symbol. *DuckDB* has a table of sums by symbol and
span, which is made for it, joins it with the rules and compares who passes with who did before; one thread. *Limits*:
`HAVING SUM(amount) > l.daily` for as many accounts, about one in a hundred above, beside the same with one constant.
*Bytes beyond the row* are those that the process holds more, less the columns. All answers are compared. CPU seconds,
medians of {runs} minutes; what a push waits is by the clock."""
STREAM = "CREATE STREAM t (ts BIGINT, symbol BIGINT, shares BIGINT) TIMESTAMP BY ts"
TABLE = "CREATE TABLE s (id BIGINT, symbol BIGINT, span INTERVAL, floor BIGINT, PRIMARY KEY (id))"


def rows_of_rules(many: int, spans: int, symbols: int, rate: int) -> pa.Table:
    """As they are loaded."""
    random = np.random.default_rng(1)
    span = random.integers(1, spans + 1, many) * (MINUTE if spans <= 10 else 1_000_000)
    events = rate / symbols * span / MINUTE
    floor = 500 * events + 3.3 * 577 * np.sqrt(events) + np.arange(many) % 97
    return pa.table(
        {
            "id": np.arange(many),
            "symbol": random.integers(0, symbols, many),
            "span": pa.array(span, pa.duration("us")),
            "floor": floor.astype(np.int64),
        }
    )


class ByHand:
    """DuckDB: sums by symbol and span are given, a join finds who passes, and who did before is remembered."""

    def __init__(self, rules: pa.Table):
        self._database = duckdb.connect(config={"threads": 1})
        given = rules.set_column(2, "span", rules["span"].cast(pa.int64()))
        self._database.register("given", given)
        self._database.execute("CREATE TABLE rules AS SELECT * FROM given")
        self._database.execute("CREATE TABLE inside (id BIGINT)")
        self.found = pa.table({"id": pa.array([], pa.int64()), "enters": pa.array([], pa.bool_())})

    def advance(self, sums: pa.Table) -> None:
        self._database.register("sums", sums)
        self._database.execute(
            "CREATE OR REPLACE TABLE now AS SELECT id FROM sums JOIN rules USING (symbol, span) WHERE v > floor"
        )
        self.found = self._database.sql(
            "SELECT coalesce(now.id, inside.id) AS id, inside.id IS NULL AS enters FROM now FULL JOIN inside "
            "ON now.id = inside.id WHERE now.id IS NULL OR inside.id IS NULL"
        ).to_arrow_table()
        self._database.execute("DROP TABLE inside; ALTER TABLE now RENAME TO inside")


def run(quick: bool) -> Result:
    """Rules with few spans and with many, and limits."""
    rate, symbols, many, runs = (6_000, 50, 2_000, 2) if quick else (1_200_000, 5_000, 1_000_000, 5)
    rows = [_measure(many, spans, symbols, rate, runs) for spans in (10, 600)]
    rows.append(_measure_limits(many, rate, runs))
    notes = NOTES.format(symbols=symbols, rate=rate, runs=runs)
    return Result(
        name="rules_as_rows",
        title="A million rules that are rows",
        notes=" ".join(notes.split()),
        columns=COLUMNS,
        rows=rows,
        parameters={"runs": runs, "events_a_minute": rate, "symbols": symbols},
    )


def _measure(many: int, spans: int, symbols: int, rate: int, runs: int) -> dict[str, Any]:
    rules = rows_of_rules(many, spans, symbols, rate)
    engine, plain = Engine(backlog_bytes=1 << 30), Engine(backlog_bytes=1 << 30)
    engine.execute(f"{STREAM}; {TABLE}")
    plain.execute(STREAM)
    step = "STEP 1 SECOND " if spans > 10 else ""
    engine.register(
        f"SELECT s.id, SUM(t.shares) AS v FROM t [RANGE s.span UP TO 10 MINUTES {step}SLIDE 1 MINUTE] AS t "
        "JOIN s ON t.symbol = s.symbol GROUP BY s.id HAVING SUM(t.shares) > s.floor EMIT CHANGES",
        "rules",
    )
    sizes = range(1, spans + 1) if spans <= 10 else (60, 601)
    unit = "MINUTES" if spans <= 10 else "SECONDS"
    plain.register_many(
        {
            f"p{m}": f"SELECT symbol, SUM(shares) AS v FROM t [RANGE {m} {unit} SLIDE 1 MINUTE] GROUP BY symbol"
            for m in sizes
        }
    )
    loading = time.process_time()
    engine.load("s", rules)
    loading = time.process_time() - loading
    rival, kept = ByHand(rules), list[pa.Table]()
    minutes = [_minute(number, rate, symbols) for number in range(12 + runs)]
    told: list[pa.Table] = []
    for number, batches in enumerate(minutes[:12]):
        for batch in batches:
            engine.push("t", batch)
            plain.push("t", batch)
        told.append(_ids(engine.advance((number + 1) * MINUTE)))
        plain.advance((number + 1) * MINUTE)
        kept.append(pa.concat_tables(batches))
        rival.advance(_sums(kept, number + 1, spans))
        _assert_same(told[-1], rival.found, number)
    sums = []
    for number in range(12, 12 + runs):
        kept.append(pa.concat_tables(minutes[number]))
        sums.append(_sums(kept, number + 1, spans))
    actions: list[Callable[[int], object]] = [
        lambda run: [engine.push("t", batch) for batch in minutes[12 + run]],
        lambda run: told.append(_ids(engine.advance((13 + run) * MINUTE))),
        lambda run: [plain.push("t", batch) for batch in minutes[12 + run]],
        lambda run: plain.advance((13 + run) * MINUTE),
        lambda run: rival.advance(sums[run]),
        lambda run: _assert_same(told[-1], rival.found, 12 + run),
    ]
    push, advance, plain_push, _, by_hand, _ = measure_side_by_side(actions, runs, warm_ups=0)
    state = engine.stats()
    return {
        "what": "rules",
        "rules": many,
        "spans": spans,
        "load_seconds": loading,
        "bytes_each": (state["tables"]["s"]["bytes"] + _held(engine)) / many - 32,
        "push_rate": rate / push.cpu_median,
        "plain_push_rate": rate / plain_push.cpu_median,
        "advance_ms": 1000 * advance.cpu_median,
        "alerts": sum(map(len, told[-runs:])) // runs,
        "rival_ms": 1000 * by_hand.cpu_median,
        "change_ms": _change(engine, many),
        "replace_ms": _replace(engine, rules, minutes[-1][0], 13 + runs),
    }


def _held(engine: Engine) -> int:
    """What a query keeps of each rule beside its row: arrays and the ids of answers; see rule_rows.py."""
    return sum(
        sum(
            array.nbytes
            for array in (each.key, each.answer, each._window, each._edge, each._slot, each._is_in)
        )
        + each._ids.nbytes()
        for shard in engine._catalog.shards.values()
        for each in shard.state.prepared.rules.values()
    )


def _change(engine: Engine, many: int) -> float:
    """One row comes and goes again, by `load` and DELETE; the median, each."""
    times = []
    for number in range(20):
        before = time.process_time()
        engine.load(
            "s",
            pa.table(
                {
                    "id": [many],
                    "symbol": [number],
                    "span": pa.array([MINUTE], pa.duration("us")),
                    "floor": [1],
                }
            ),
        )
        engine.execute(f"DELETE FROM s WHERE id = {many}")
        times.append((time.process_time() - before) / 2)
    return 1000 * float(np.median(times))


def _replace(engine: Engine, rules: pa.Table, batch: pa.Table, minute: int) -> float:
    """All rows are replaced by a thread, and others push meanwhile: the longest that one of them waits."""
    import threading

    loading = threading.Thread(target=engine.load, args=("s", rules))
    small, waited = batch.slice(0, 1_000), 0.0
    loading.start()
    while loading.is_alive():
        at = small.set_column(0, "ts", pa.array(np.full(small.num_rows, minute * MINUTE)))
        before = time.perf_counter()
        engine.push("t", at)
        waited = max(waited, time.perf_counter() - before)
    loading.join()
    return 1000 * waited


def _measure_limits(many: int, rate: int, runs: int) -> dict[str, Any]:
    limited, plain = Engine(backlog_bytes=1 << 30), Engine(backlog_bytes=1 << 30)
    for engine in (limited, plain):
        engine.execute("CREATE STREAM p (ts BIGINT, account BIGINT, amount DOUBLE) TIMESTAMP BY ts")
    limited.execute("CREATE TABLE limits (account BIGINT, daily DOUBLE, PRIMARY KEY (account))")
    limited.register(
        "SELECT p.account, SUM(p.amount) AS v, l.daily FROM p [RANGE 10 MINUTES SLIDE 1 MINUTE] AS p JOIN limits AS l "
        "ON p.account = l.account GROUP BY p.account HAVING SUM(p.amount) > l.daily",
        "q",
    )
    plain.register(
        "SELECT /*+ SYNOPSIS(slices) */ account, SUM(amount) AS v FROM p [RANGE 10 MINUTES SLIDE 1 MINUTE] "
        f"GROUP BY account HAVING SUM(amount) > {LIMIT}",
        "q",
    )
    loading = time.process_time()
    limited.load("limits", pa.table({"account": np.arange(many), "daily": np.full(many, LIMIT)}))
    loading = time.process_time() - loading
    told: dict[int, int] = {}

    def advance(which: int, engine: Engine, minute: int) -> None:
        told[which] = engine.advance(minute * MINUTE)["q"].num_rows

    columns: dict[str, Draw] = {
        "account": lambda random, size: random.integers(0, many, size),
        "amount": lambda random, size: np.floor(random.exponential(150, size)),
    }

    for number in range(14):
        for batch in minute_of_events(number, rate, columns):
            limited.push("p", batch)
            plain.push("p", batch)
        limited.advance((number + 1) * MINUTE)
        plain.advance((number + 1) * MINUTE)
    minutes = [minute_of_events(14 + number, rate, columns) for number in range(runs)]
    actions: list[Callable[[int], object]] = [
        lambda run: [limited.push("p", batch) for batch in minutes[run]],
        lambda run: advance(0, limited, 15 + run),
        lambda run: [plain.push("p", batch) for batch in minutes[run]],
        lambda run: advance(1, plain, 15 + run),
    ]
    push, joined, plain_push, alone = measure_side_by_side(actions, runs, warm_ups=0)
    assert told[0] == told[1], told
    return {
        "what": "limits",
        "rules": many,
        "spans": 1,
        "load_seconds": loading,
        "bytes_each": None,
        "push_rate": rate / push.cpu_median,
        "plain_push_rate": rate / plain_push.cpu_median,
        "advance_ms": 1000 * joined.cpu_median,
        "alerts": told[0],
        "rival_ms": 1000 * alone.cpu_median,
        "change_ms": None,
        "replace_ms": None,
    }


def _ids(answers: dict[str, pa.Table]) -> pa.Table:
    if "rules" not in answers:
        return pa.table({"id": pa.array([], pa.int64()), "change": pa.array([], pa.string())})
    return answers["rules"].select(["id", "change"])


def _assert_same(told: pa.Table, found: pa.Table, number: int) -> None:
    ours = set(zip(told["id"].to_pylist(), told["change"].to_pylist(), strict=True))
    enters = ["enter" if each else "leave" for each in found["enters"].to_pylist()]
    assert ours == set(zip(found["id"].to_pylist(), enters, strict=True)), f"minute {number}"


def _sums(kept: list[pa.Table], minute: int, spans: int) -> pa.Table:
    """By symbol and span, as of a minute; made by NumPy."""
    events = pa.concat_tables(kept[-11:])
    unit = MINUTE if spans <= 10 else 1_000_000
    at, symbol, shares = (events[name].to_numpy() for name in ("ts", "symbol", "shares"))
    age = (minute * MINUTE - 1 - at) // unit
    some = age < spans
    width = int(symbol.max()) + 1
    totals = np.bincount(age[some] * width + symbol[some], shares[some], spans * width).reshape(spans, width)
    totals = np.cumsum(totals, axis=0).astype(np.int64)
    return pa.table(
        {
            "symbol": np.tile(np.arange(width), spans),
            "span": np.repeat((np.arange(spans) + 1) * unit, width),
            "v": totals.ravel(),
        }
    )


def _minute(number: int, rate: int, symbols: int) -> list[pa.Table]:
    columns: dict[str, Draw] = {
        "symbol": lambda random, many: random.integers(0, symbols, many),
        "shares": lambda random, many: random.integers(0, 1_000, many),
    }
    return minute_of_events(number, rate, columns)
