"""Joins with tables against the reference: events late and out of order, rows that come, change and go between pushes,
answers asked for late, registration and removal, and a restart at any point."""

from __future__ import annotations

import warnings
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from answers import assert_same_answer
from effort import some_of
from joined_tables import COLUMNS, EVENT, QUERIES, SECOND, STREAM, TABLES, drawn
from muntin import Engine
from reference import ReferenceEngine


class Both:
    """An engine and the reference, told the same."""

    def __init__(self, folder: Path):
        self.engine, self.reference = Engine(), ReferenceEngine()
        self.path = folder / "state"
        for create in (STREAM, *TABLES.values()):
            self.engine.execute(create)
            self.reference.execute(create)
        self.now = 0  # greatest time of an event
        self.names: list[str] = []

    def register(self, text: str, with_changes: bool) -> None:
        name = f"q{len(self.names)}"
        self.names.append(name)
        text += " EMIT CHANGES" if with_changes else ""
        self.engine.register(text, name)
        self.reference.register(text, name=name)

    def push(self, events: list[tuple[Any, ...]]) -> None:
        times = [self.now + (event[0] - 2) * SECOND // 2 for event in events]
        self.now = max(self.now, *times)
        columns = dict(zip("kgv", zip(*(event[1:] for event in events), strict=True), strict=True))
        batch = {"ts": times, **{name: list(values) for name, values in columns.items()}}
        self.engine.push("p", batch)
        self.reference.push("p", batch)

    def load(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        columns = dict(zip(COLUMNS[table], map(list, zip(*rows, strict=True)), strict=True))
        self.engine.load(table, columns)
        self.reference.load(table, columns)

    def delete(self, table: str, key: int) -> None:
        column = COLUMNS[table][0]
        self.engine.execute(f"DELETE FROM {table} WHERE {column} = {key}")
        self.reference.delete(table, lambda row: row[column] == key)

    def restart(self) -> None:
        self.engine.checkpoint(self.path)
        self.engine = Engine.restore(self.path)

    def advance(self, until: int | None) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            told, wanted = self.engine.advance(until), self.reference.advance(until)
        for name in self.names:
            expected = wanted.get(name) or self.reference.table_joins[name].nothing()
            assert_same_answer(expected, told.get(name), f"advance({until})")

    def look(self) -> None:
        for name in self.names:
            assert_same_answer(self.reference.lookup(name), self.engine.lookup(name), "lookup")
        self.engine.check()


def register(both: Both, random: Random, text: str) -> None:
    # of events before it came a query knows nothing, so that somebody may leave who never was in
    may_change = not both.now and ("GROUP BY" in text or "HAVING" in text)
    both.register(text, may_change and random.random() < 0.5)


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
@pytest.mark.parametrize("seed", range(some_of(40, 15)))
def test_agreement(tmp_path: Path, query: str, seed: int) -> None:
    random = Random(1000 * QUERIES.index(query) + seed)
    both = Both(tmp_path)
    for table in TABLES:
        if rows := drawn(random, table, 0):
            both.load(table, rows)
    register(both, random, query)
    for _ in range(random.randint(1, 14)):
        match random.choice(
            ["push", "push", "push", "load", "delete", "advance", "look", "restart", "register"]
        ):
            case "push":
                both.push([tuple(map(random.choice, EVENT)) for _ in range(random.randint(1, 5))])
            case "load":
                table = random.choice(list(TABLES))
                both.load(table, drawn(random, table, 1))
            case "delete":
                both.delete(random.choice(list(TABLES)), random.randint(1, 4))
            case "advance":
                until = random.choice([None, None, None, -3, -1, 2])
                both.advance(None if until is None else max(0, both.now + until * SECOND))
            case "look":
                both.look()
            case "restart":
                both.restart()
            case "register" if len(both.names) < 3:
                register(both, random, random.choice(QUERIES))
    both.advance(None)
    both.advance(both.now + 9 * SECOND)
    both.look()


@pytest.mark.parametrize("gap", [1, 1_000_000])
def test_silence_costs_nothing(gap: int) -> None:
    """Everyone leaves in the first window of a silence, however long it is; a change of the table meanwhile is seen."""
    engine = Engine()
    engine.execute(f"{STREAM}; {TABLES['t']}")
    engine.load("t", {"k": [1, 2], "most": [0, 0], "tier": ["a", "b"]})
    engine.register(f"{QUERIES[0]} EMIT CHANGES", "q")
    engine.push("p", {"ts": [1, 2], "k": [1, 2], "g": ["a", "a"], "v": [5, 5]})
    assert engine.advance(SECOND)["q"]["change"].to_pylist() == ["enter", "enter"]
    engine.execute("DELETE FROM t WHERE k = 1")
    told = engine.advance((10 + gap) * SECOND)["q"]
    assert told["k"].to_pylist() == [1, 2]
    assert told["change"].to_pylist() == ["leave", "leave"]
    ends = [end.timestamp() for end in told["window_end"].to_pylist()]
    assert (timedelta(seconds=ends[1] - ends[0])) == timedelta(seconds=3)
