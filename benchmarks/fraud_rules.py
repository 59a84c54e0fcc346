"""Fraud rules per account that differ in their filters: equality, ranges, both; one shared state, or a filter each."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import mean
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.measure import Column, Result, measure_side_by_side
from benchmarks.workloads import MINUTE, Draw, minute_of_events
from muntin import Engine
from muntin.plan import choices

COLUMNS = [
    Column("how", "served by"), Column("rules", "rules", ",d"), Column("accounts", "accounts", ",d"),
    Column("rate", "events per CPU s, alerts included", ",.0f"), Column("push_rate", "events pushed per CPU s", ",.0f"),
    Column("minute_ms", "a minute's alerts, CPU ms", ",.0f"), Column("five_ms", "those of five minutes", ",.0f"),
    Column("hour_ms", "those of an hour", ",.0f"),
    Column("alerts", "alerts in all", ",d"), Column("state_mb", "state, MB", ",.0f"),
]  # fmt: skip
WINDOWS = (
    "[RANGE 10 MINUTES SLIDE 1 MINUTE]", "[RANGE 1 HOUR SLIDE 5 MINUTES]", "[RANGE 1 DAY SLIDE 1 HOUR]"
)  # fmt: skip
SPANS = (10, 60, 1440)  # the same in minutes
SLIDES = (1, 5, 60)
EVENTS_EACH = (500, 930, 1050)  # of an account in these windows, when they are timed
MEAN = 60  # of amounts
EVENTS_A_MINUTE = 50  # of an account
CATEGORIES = [f"category {i}" for i in range(50)]
COUNTRIES = [f"country {i}" for i in range(30)]
NOTES = """Rules `SELECT account, … WHERE … GROUP BY account HAVING … EMIT CHANGES`, with 50 events a minute of event
time for each account, in ten batches. WHERE is, in turns, `category = …`, `country = …`, `amount > …`, and `category
= … AND amount > …`; windows are of 10 minutes by the minute, an hour by 5 minutes and a day by the hour; HAVING
compares COUNT, SUM or MAX with a threshold of each rule's own. Before anything is timed there was a minute at a tenth
of that rate in each hour of a day, an hour at that rate, and 14 minutes in full. Timed are ten minutes, of which the
fifth closes an hour, and with it all three windows, and the tenth closes five minutes. The rate is that of an hour:
sixty pushes, 48 times the alerts of a minute, 11 times those of five minutes, and once those of an hour. `shared`:
rules read lanes and bands of shared stores. `a filter each`: every different WHERE has a store of its own, as in
0.1.0. `DuckDB`: at each instant one query with a filtered aggregate for each rule that is due, over the events of the
longest window that is due, compared with who was in before; keeping the events costs it nothing. With 500 rules it
would take hours. All give the same alerts. CPU seconds."""


def rules(count: int) -> list[dict[str, Any]]:
    """As parts of their texts; no two are alike."""
    random = np.random.default_rng(1)
    made = []
    for i in range(count):
        category, country = CATEGORIES[i % 50], COUNTRIES[i % 30]
        above = 100 + 5 * int(random.integers(0, 100)) + i % 5
        kind = i % 4
        where = (
            f"category = '{category}'", f"country = '{country}'", f"amount > {above}",
            f"category = '{category}' AND amount > {above // 4}",
        )[kind]  # fmt: skip
        window = i // 4 % 3
        call = ("COUNT(*)", "SUM(amount)", "MAX(amount)")[i // 12 % 3]
        # a threshold that about one account in a thousand passes, given the events of an account in the window that
        # pass WHERE; amounts are exponential, so those above a bound exceed it as all exceed 0
        bound = (0, 0, above, above // 4)[kind]
        share = (1 / 50, 1 / 30, 1.0, 1 / 50)[kind] * math.exp(-bound / MEAN)
        expected = EVENTS_EACH[window] * share
        most = expected + 3.3 * math.sqrt(expected) + 3
        floor = {
            "COUNT(*)": most,
            "SUM(amount)": most * (bound + MEAN) + 2 * MEAN,
            "MAX(amount)": MEAN * math.log(1000 * EVENTS_EACH[window] * (1 / 50, 1 / 30, 1.0, 1 / 50)[kind]),
        }[call]
        made.append({"where": where, "window": window, "call": call, "floor": round(floor + i / 1000, 3)})
    return made


class InEngine:
    """Rules in an engine of muntin's."""

    def __init__(self, some: list[dict[str, Any]], is_shared: bool):
        self._engine = Engine(backlog_bytes=1 << 32)
        self._engine.execute(
            "CREATE STREAM s (ts BIGINT, account BIGINT, category VARCHAR, country VARCHAR, amount DOUBLE) "
            "TIMESTAMP BY ts"
        )
        before = choices.MANY_LANES_PER_KEY
        choices.MANY_LANES_PER_KEY = before if is_shared else 1 << 60
        try:
            self._engine.register_many(
                {
                    f"r{i}": f"SELECT account, {rule['call']} AS v FROM s {WINDOWS[rule['window']]} "
                    f"WHERE {rule['where']} GROUP BY account HAVING {rule['call']} > {rule['floor']} EMIT CHANGES"
                    for i, rule in enumerate(some)
                }
            )
            nobody = {"ts": [0], "account": [-1], "category": ["none"], "country": ["none"], "amount": [0.0]}
            self._engine.push("s", nobody)
        finally:
            choices.MANY_LANES_PER_KEY = before
        self._answers: dict[str, pa.Table] = {}
        self.alerts: set[tuple[str, int, str]] = set()

    def push(self, batch: pa.Table) -> None:
        self._engine.push("s", batch)

    def advance(self, minute: int) -> None:
        self._answers = self._engine.advance(until=minute * MINUTE)

    def collect(self) -> set[tuple[str, int, str]]:
        return {
            (name, account, change)
            for name, table in self._answers.items()
            for account, change in zip(table["account"].to_pylist(), table["change"].to_pylist(), strict=True)
        }

    @property
    def state_bytes(self) -> int:
        return int(self._engine.stats()["streams"]["s"]["bytes"])


class InDuckDB:
    """One filtered aggregate for each rule; who was in before is remembered."""

    state_bytes = 0

    def __init__(self, some: list[dict[str, Any]]):
        self._database = duckdb.connect(config={"threads": 1})
        self._rules = some
        self._kept: list[tuple[int, pa.Table]] = []
        self._inside: dict[str, set[int]] = {f"r{i}": set() for i in range(len(some))}
        self._found: dict[str, set[int]] = {}

    def push(self, batch: pa.Table) -> None:
        self._kept.append((int(batch["ts"][0].as_py()) // MINUTE, batch))

    def advance(self, minute: int) -> None:
        due = [window for window, slide in enumerate(SLIDES) if minute % slide == 0]
        self._kept = [(at, each) for at, each in self._kept if at >= minute - SPANS[-1]]
        reach = minute - SPANS[max(due)]
        events = pa.concat_tables([each for at, each in self._kept if at >= reach])
        rules = [(i, rule) for i, rule in enumerate(self._rules) if rule["window"] in due]
        calls = ", ".join(
            f"{rule['call']} FILTER (WHERE {rule['where']} AND ts >= {(minute - SPANS[rule['window']]) * MINUTE}) "
            f"AS r{i}"
            for i, rule in rules
        )
        self._database.register("events", events)
        table = self._database.sql(f"SELECT account, {calls} FROM events GROUP BY account").to_arrow_table()
        account = table["account"].to_numpy()
        self._found = {}
        for i, rule in rules:
            values = table[f"r{i}"].fill_null(0).to_numpy()
            self._found[f"r{i}"] = set(account[values > rule["floor"]].tolist())

    def collect(self) -> set[tuple[str, int, str]]:
        changes = set()
        for name, now in self._found.items():
            before = self._inside[name]
            changes |= {(name, account, "enter") for account in now - before}
            changes |= {(name, account, "leave") for account in before - now}
            self._inside[name] = now
        return changes


def run(quick: bool) -> Result:
    """One run for each number of rules; in it, those that are compared take turns."""
    sizes = (
        [(24, 50, True), (100, 50, True)]
        if quick
        else [(50, 2_000, True), (500, 20_000, False), (5_000, 20_000, False)]
    )
    rows = [row for size in sizes for row in _measure(*size)]
    return Result(
        name="fraud_rules",
        title="Fraud rules that differ in their filters",
        notes=" ".join(NOTES.split()),
        columns=COLUMNS,
        rows=rows,
        parameters={"events_a_minute_and_account": EVENTS_A_MINUTE},
    )


def _measure(count: int, accounts: int, with_rival: bool) -> list[dict[str, Any]]:
    some, rate = rules(count), EVENTS_A_MINUTE * accounts
    entrants: dict[str, InEngine | InDuckDB] = {"shared": InEngine(some, True)}
    if count <= 500:
        entrants["a filter each"] = InEngine(some, False)
    if with_rival:
        entrants["DuckDB"] = InDuckDB(some)
    first = 1440 + 55  # the minute that is timed first
    full = 14  # minutes before it in full: what is built once, when it has begun to pay, is there by then
    hours = [(minute, rate // 10) for minute in range(first - 1440, first - 60, 60)]
    minutes = [(minute, rate // 10) for minute in range(first - 60, first - full)]
    for minute, many in [*hours, *minutes, *((minute, rate) for minute in range(first - full, first))]:
        batches = _minute(minute, many, accounts)
        for each in entrants.values():
            for batch in batches:
                each.push(batch)
            until = minute + 5 if minute < first - 60 else minute + 1
            if until % 5 == 0 or minute >= first - full:
                each.advance(until)
                each.collect()
    timed = [_minute(first + number, rate, accounts) for number in range(10)]
    alerts: dict[str, list[set[tuple[str, int, str]]]] = {name: [] for name in entrants}
    actions: list[Callable[[int], object]] = []
    for name, each in entrants.items():
        actions.append(lambda run, each=each: [each.push(batch) for batch in timed[run]])
        actions.append(lambda run, each=each: each.advance(first + 1 + run))
        actions.append(lambda run, name=name, each=each: alerts[name].append(each.collect()))
    timings = measure_side_by_side(actions, 10, warm_ups=0)
    rows = []
    for number, (name, each) in enumerate(entrants.items()):
        assert alerts[name] == alerts["shared"], name
        push, advance = (timings[3 * number + step].cpu_seconds for step in (0, 1))
        of_hour, of_five = advance[4], advance[9]
        of_minute = mean([*advance[:4], *advance[5:9]])
        rows.append(
            {
                "how": name,
                "rules": count,
                "accounts": accounts,
                "rate": 60 * rate / (60 * mean(push) + 48 * of_minute + 11 * of_five + of_hour),
                "push_rate": rate / mean(push),
                "minute_ms": 1000 * of_minute,
                "five_ms": 1000 * of_five,
                "hour_ms": 1000 * of_hour,
                "alerts": sum(map(len, alerts[name])),
                "state_mb": each.state_bytes / 2**20,
            }
        )
    return rows


def _minute(number: int, many: int, accounts: int) -> list[pa.Table]:
    """In ten batches, if there are many events."""
    categories, countries = pa.array(CATEGORIES), pa.array(COUNTRIES)
    columns: dict[str, Draw] = {
        "account": lambda random, size: random.integers(0, accounts, size),
        "category": lambda random, size: categories.take(pa.array(random.integers(0, len(categories), size))),
        "country": lambda random, size: countries.take(pa.array(random.integers(0, len(countries), size))),
        "amount": lambda random, size: np.floor(random.exponential(MEAN, size)),
    }
    return minute_of_events(number, many, columns, 10 if many >= 100_000 else 1)
