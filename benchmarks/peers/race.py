"""A race: contestants answer the same queries over the same stream, in turns, each within a limit of CPU time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from benchmarks.measure import spent_by

COMPARED = 40  # answers of a step that are compared value by value, evenly chosen among all


class Contestant(Protocol):
    """Who answers all queries: `fill` is not timed, each `take` is."""

    def fill(self) -> None:
        """Take in what the longest window holds, so that windows are full."""

    def take(self, step: int) -> None:
        """Take in the events of a step, and give every answer that is due in it."""

    @property
    def rows(self) -> int:
        """How many rows of answers the last instant had."""

    def answer(self, query: int) -> pa.Table | None:
        """What the last instant of the last step gave for one query; None if it was not due."""


class Kind(Protocol):
    """One kind of query, as a workload of so many of them."""

    title: str
    work: int  # how many events, or requests, a step has
    unit: str  # of these

    def prepare(self, step: int) -> object:
        """Have the events of a step at hand, before anybody is timed."""

    def contestants(self, count: int) -> Mapping[str, Callable[[], Contestant]]:
        """Who takes part, each made when its turn comes."""


@dataclass
class Runs:
    """What one contestant took for each step, and why it stopped, if it did."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    stopped: str = ""

    def add(self, seconds: float, cpu: float) -> None:
        self.seconds.append(seconds)
        self.cpu.append(cpu)

    @property
    def is_measured(self) -> bool:
        return len(self.cpu) > 0 and not self.stopped


class Race:
    """Races over growing numbers of queries: who would take too long for one takes no part in it, nor in later ones."""

    def __init__(self, kind: Kind, limit: float, runs: int):
        self.kind, self.limit, self.runs = kind, limit, runs
        self._steps: dict[str, list[tuple[int, float]]] = {}  # CPU seconds of a step by number of queries
        self._out: dict[str, str] = {}

    def row(self, count: int) -> dict[str, Any]:
        """All who take part, at one number of queries."""
        took = {name: Runs(stopped=self._out.get(name, "")) for name in self.kind.contestants(count)}
        entered: dict[str, Contestant] = {}
        for name, make in self.kind.contestants(count).items():
            if took[name].stopped or self._would_exceed(name, count):
                took[name].stopped = took[name].stopped or self._leave(name, count)
                continue
            entered[name] = make()
            entered[name].fill()
        for step in range(self.runs + 1):  # the first warms up
            self.kind.prepare(step)
            for name in list(entered):
                seconds, cpu = spent_by(partial(entered[name].take, step))
                if step:
                    took[name].add(seconds, cpu)
                elif cpu * (self.runs + 1) > self.limit:
                    took[name].stopped = self._leave(name, count)
                    del entered[name]
        compared = compare(entered, count) if entered else 0  # nobody may be left
        for name in entered:
            self._steps.setdefault(name, []).append((count, median(took[name].cpu)))
        return {
            "kind": self.kind.title, "queries": count, "unit": self.kind.unit, "compared": compared,
            "rows": next((each.rows for each in entered.values()), None), **self._columns(took),
        }  # fmt: skip

    def _columns(self, took: Mapping[str, Runs]) -> dict[str, Any]:
        """Rates by CPU and by the clock, and times as fast round by round, of each; and who stopped why."""
        row: dict[str, Any] = {}
        ours = took["muntin"]
        for name, runs in took.items():
            if not runs.is_measured:
                row[f"{name}_why"] = runs.stopped
                continue
            row[name] = self.kind.work / median(runs.cpu)
            row[f"{name}_clock"] = self.kind.work / median(runs.seconds)
            row[f"{name}_spread"] = (max(runs.cpu) - min(runs.cpu)) / median(runs.cpu)
            if ours.is_measured:
                row[f"{name}_ratio"] = median(t / o for t, o in zip(runs.cpu, ours.cpu, strict=True))
        return row

    def _would_exceed(self, name: str, count: int) -> bool:
        """By a line through the last two numbers of queries."""
        known = self._steps.get(name, [])
        if len(known) < 2:
            return False
        (few, less), (many, more) = known[-2:]
        expected = more + max(0.0, (more - less) / (many - few)) * (count - many)
        return expected * (self.runs + 1) > self.limit

    def _leave(self, name: str, count: int) -> str:
        self._out[name] = f"more than {self.limit:.0f} CPU s with {count:,} queries"
        return self._out[name]


def compare(entered: Mapping[str, Contestant], count: int) -> int:
    """Compare the answers of all who are left with those of the first; how many queries were compared."""
    (first, ours), *others = entered.items()
    queries = sorted({int(n) for n in np.linspace(0, count - 1, min(count, COMPARED))})
    due = [query for query in queries if ours.answer(query) is not None]
    assert due, f"{first} has no answers"
    for name, theirs in others:
        assert theirs.rows == ours.rows, f"{name} has {theirs.rows:,} rows, {first} {ours.rows:,}"
        for query in due:
            one, other = ours.answer(query), theirs.answer(query)
            assert one is not None
            assert other is not None, f"{name} has no answer to query {query}"
            assert_equal(one, other, f"query {query}: {name} and {first} differ")
    return len(due)


def assert_equal(one: pa.Table, other: pa.Table, message: str) -> None:
    """The same columns with the same values, in any order of rows; integers exactly, floats but for rounding."""
    assert one.column_names == other.column_names, f"{message}: {one.column_names}, {other.column_names}"
    assert one.num_rows == other.num_rows, f"{message}: {one.num_rows:,} and {other.num_rows:,} rows"
    order = [(name, "ascending") for name in one.column_names]
    one, other = one.sort_by(order), other.sort_by(order)
    for name in one.column_names:
        mine, theirs = (np.asarray(each[name].to_numpy()) for each in (one, other))
        if mine.dtype.kind in "iu" and theirs.dtype.kind in "iu":
            assert np.array_equal(mine, theirs), f"{message} in {name}"
        elif mine.dtype.kind == "O":
            assert mine.tolist() == theirs.tolist(), f"{message} in {name}"
        else:
            close = np.allclose(mine.astype(float), theirs.astype(float), rtol=1e-9, atol=0, equal_nan=True)
            assert close, f"{message} in {name}"


def races(kinds: Sequence[Kind], counts: Sequence[int], limit: float, runs: int) -> list[dict[str, Any]]:
    """A row for each kind and number of queries."""
    rows = []
    for kind in kinds:
        race = Race(kind, limit, runs)
        for count in counts:
            began = time.perf_counter()
            rows.append(race.row(count))
            print(f"  {kind.title}, {count:,} queries: {time.perf_counter() - began:.0f} s", flush=True)
    return rows
