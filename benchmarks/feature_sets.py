"""A hundred FILTERed aggregates per key: lanes of one store, a column for each, or DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.measure import Column, Result, measure_side_by_side
from benchmarks.workloads import MINUTE, Draw, minute_of_events
from muntin import Engine
from muntin.plan import choices

COLUMNS = [
    Column("filters", "FILTERs compare"), Column("how", "served by"), Column("many", "FILTERs", ",d"),
    Column("rate", "events per CPU s, answers included", ",.0f"),
    Column("push_rate", "events pushed per CPU s", ",.0f"), Column("advance_ms", "an instant, CPU ms", ",.1f"),
    Column("one_ms", "a push of one event, CPU ms", ".3f"), Column("state_mb", "state, MB", ",.0f"),
]  # fmt: skip
SPAN = 10
NOTES = """One query `SELECT account, COUNT(*), SUM(amount) FILTER (WHERE …), … GROUP BY account` with so many FILTERs
over `[RANGE {span} MINUTES SLIDE 1 MINUTE]`, {accounts:,} accounts, {rate:,} events a minute of event time in ten
batches, and the whole answer at every minute. FILTERs compare `kind` with a value each, or are `amount > v`. The
windows are full before anything is timed; timed are {timed} minutes. `lanes`: FILTERs read lanes, or bands, of one
store. `a column each`: every FILTER has partials of its own in the cells of each account, as in 0.1.0. `DuckDB` keeps
sums by minute, account and kind, and answers by one query over the last ten minutes of these; where FILTERs are ranges
it keeps the events. It has one thread. All give the same answers. CPU seconds."""


def _conditions(kind: str, many: int) -> list[str]:
    if kind == "kind":
        return [f"kind = 'kind {i}'" for i in range(many)]
    return [f"amount > {2 + 3 * i}" for i in range(many)]


class InEngine:
    """The query in an engine of muntin's."""

    def __init__(self, conditions: list[str], has_lanes: bool):
        self._engine = Engine(backlog_bytes=1 << 32)
        self._engine.execute(
            "CREATE STREAM s (ts BIGINT, account BIGINT, kind VARCHAR, amount DOUBLE) TIMESTAMP BY ts"
        )
        names = ("MANY_LANES_PER_KEY", "MANY_RANGES_PER_KEY")
        before = {name: getattr(choices, name) for name in names}
        calls = ", ".join(f"SUM(amount) FILTER (WHERE {each}) AS f{i}" for i, each in enumerate(conditions))
        try:
            if not has_lanes:
                for name in names:
                    setattr(choices, name, 1 << 60)
            self._engine.register(
                f"SELECT account, COUNT(*) AS n, {calls} FROM s [RANGE {SPAN} MINUTES SLIDE 1 MINUTE] "
                "GROUP BY account",
                "q",
            )
        finally:
            for name, value in before.items():
                setattr(choices, name, value)
        self._answers: pa.Table | None = None

    def push(self, batch: pa.Table) -> None:
        self._engine.push("s", batch)

    def advance(self, minute: int) -> None:
        self._answers = self._engine.advance(until=minute * MINUTE)["q"]

    def collect(self) -> pa.Table:
        assert self._answers is not None
        return self._answers.drop_columns(["window_start", "window_end", "complete"])

    @property
    def state_bytes(self) -> int:
        return int(self._engine.stats()["streams"]["s"]["bytes"])


class InDuckDB:
    """Sums by minute, or events, and one query at each instant."""

    def __init__(self, conditions: list[str], by_kind: bool):
        self._database = duckdb.connect(config={"threads": 1})
        self._by_kind = by_kind
        columns = "SUM(n)::BIGINT AS n" if by_kind else "COUNT(*) AS n"
        calls = ", ".join(f"SUM(amount) FILTER (WHERE {each}) AS f{i}" for i, each in enumerate(conditions))
        self._query = f"SELECT account, {columns}, {calls} FROM events GROUP BY account"
        self._minute: list[pa.Table] = []
        self._kept: list[pa.Table] = []
        self._answers: pa.Table | None = None

    def push(self, batch: pa.Table) -> None:
        self._minute.append(batch)

    def advance(self, minute: int) -> None:
        events = pa.concat_tables(self._minute)
        self._minute = []
        if self._by_kind:
            self._database.register("minute", events)
            events = self._database.sql(
                "SELECT account, kind, SUM(amount) AS amount, COUNT(*) AS n FROM minute GROUP BY ALL"
            ).to_arrow_table()
        self._kept = [*self._kept, events][-SPAN:]
        self._database.register("events", pa.concat_tables(self._kept))
        self._answers = self._database.sql(self._query).to_arrow_table()

    def collect(self) -> pa.Table:
        assert self._answers is not None
        return self._answers

    @property
    def state_bytes(self) -> int:
        return sum(each.nbytes for each in self._kept)


def run(quick: bool) -> Result:
    """One run for each kind and number of FILTERs; in it, those that are compared take turns."""
    rate, accounts, timed = (5_000, 50, 2) if quick else (200_000, 2_000, 3)
    cases = [("kind", 30)] if quick else [("kind", 100), ("amount", 100)]
    rows = [row for kind, many in cases for row in _measure(kind, many, rate, accounts, timed)]
    return Result(
        name="feature_sets",
        title="A hundred FILTERed aggregates per key",
        notes=" ".join(NOTES.format(span=SPAN, accounts=accounts, rate=rate, timed=timed).split()),
        columns=COLUMNS,
        rows=rows,
        parameters={"events_a_minute": rate, "accounts": accounts},
    )


def _measure(kind: str, many: int, rate: int, accounts: int, timed: int) -> list[dict[str, Any]]:
    conditions = _conditions(kind, many)
    entrants: dict[str, InEngine | InDuckDB] = {
        "lanes": InEngine(conditions, True),
        "a column each": InEngine(conditions, False),
        "DuckDB": InDuckDB(conditions, kind == "kind"),
    }
    before = SPAN + 4  # what is built once, when it has begun to pay, is there by then
    for minute in range(before):
        batches = _minute(minute, rate, accounts)
        for each in entrants.values():
            for batch in batches:
                each.push(batch)
            each.advance(minute + 1)
    minutes = [_minute(before + number, rate, accounts) for number in range(timed)]
    answers: dict[str, list[pa.Table]] = {name: [] for name in entrants}
    actions: list[Callable[[int], object]] = []
    for name, each in entrants.items():
        actions.append(lambda run, each=each: [each.push(batch) for batch in minutes[run]])
        actions.append(lambda run, each=each: each.advance(before + 1 + run))
        actions.append(lambda run, name=name, each=each: answers[name].append(each.collect()))
    timings = measure_side_by_side(actions, timed, warm_ups=0)
    single = _minute(before + timed, 200, accounts)[0]
    rows = []
    for number, (name, each) in enumerate(entrants.items()):
        _assert_same(answers[name], answers["DuckDB"])
        push, advance = (sum(timings[3 * number + step].cpu_seconds) for step in (0, 1))
        ones = measure_side_by_side(
            [lambda run, each=each: [each.push(single.slice(20 * run + i, 1)) for i in range(20)]],
            10,
            warm_ups=0,
        )
        rows.append(
            {
                "filters": kind,
                "how": name,
                "many": many,
                "rate": timed * rate / (push + advance),
                "push_rate": timed * rate / push,
                "advance_ms": 1000 * advance / timed,
                "one_ms": None if name == "DuckDB" else 50 * ones[0].cpu_median,
                "state_mb": each.state_bytes / 2**20,
            }
        )
    return rows


def _assert_same(some: list[pa.Table], others: list[pa.Table]) -> None:
    for one, other in zip(some, others, strict=True):
        one, other = (each.sort_by("account") for each in (one, other))
        assert one.column_names == other.column_names
        for name in one.column_names:
            np.testing.assert_allclose(
                one[name].fill_null(-1).to_numpy(), other[name].fill_null(-1).to_numpy(), err_msg=name
            )


def _minute(number: int, many: int, accounts: int) -> list[pa.Table]:
    """In ten batches, if there are many events."""
    kinds = pa.array([f"kind {i}" for i in range(200)])
    columns: dict[str, Draw] = {
        "account": lambda random, size: random.integers(0, accounts, size),
        "kind": lambda random, size: kinds.take(pa.array(random.integers(0, len(kinds), size))),
        "amount": lambda random, size: np.floor(random.exponential(60, size)),
    }
    return minute_of_events(number, many, columns, 10 if many >= 1_000 else 1)
