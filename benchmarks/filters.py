"""Rules that differ in a range filter: one range tree for all, or a structure for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.measure import RUNS, Column, Result, measure, measure_side_by_side
from muntin import Engine

COLUMNS = [
    Column("slide", "slide"), Column("how", "served by"), Column("rules", "rules", ",d"),
    Column("register_seconds", "registering, s", ".1f"), Column("events_per_second", "events/s", ",.0f"),
    Column("events_per_cpu_second", "events per CPU s", ",.0f"), Column("spread", "spread", ".0%"),
    Column("lookups", "look-ups/s", ",.0f"), Column("state_bytes", "state, bytes", ",d"),
]  # fmt: skip
SECOND = 1_000_000
SIZE = 10  # seconds of the longest window
HINTS = {"a structure each": "r_int", "one range tree": "range_tree"}
NOTES = """SUM of integers over windows of up to {size} seconds, `WHERE price > v` with another v for each rule.
{rate:,} events a second of event time, a batch each; the windows are full before anything is timed, and no
backlog is kept. A structure each is R-INT, the cheapest for this sum, after evaluating the predicate; on
slices where there is a SLIDE. The tree is over single events in both. Engines of one kind take turns. Look-
ups are `lookup_many` of all rules. A sample of the answers is compared with NumPy. With a structure each,
more rules are not bearable."""


@dataclass(frozen=True)
class Rules:
    """`count` rules, served as `how` says."""

    how: str
    count: int
    slide: bool

    def queries(self) -> dict[str, str]:
        slide = " SLIDE 1 SECOND" if self.slide else ""
        return {
            f"rule {number}": f"SELECT /*+ SYNOPSIS({HINTS[self.how]}) */ SUM(n) AS v "
            f"FROM s [RANGE {self.size(number)} SECONDS{slide}] WHERE price > {self.bound(number)}"
            for number in range(self.count)
        }

    def size(self, number: int) -> int:
        return SIZE - number % 5

    def bound(self, number: int) -> float:
        return 100 * number / self.count


class Filled:
    """An engine with rules, whose windows are full."""

    def __init__(self, rules: Rules, batches: Sequence[dict[str, np.ndarray]]):
        self.rules, self.batches = rules, batches
        self.engine = Engine(backlog_bytes=0)
        self.engine.execute("CREATE STREAM s (ts BIGINT, price DOUBLE, n BIGINT) TIMESTAMP BY ts")
        registering = measure(lambda run: self.engine.register_many(rules.queries()), runs=1, warm_ups=0)
        self.row: dict[str, Any] = {
            "slide": "1 second" if rules.slide else "none",
            "how": rules.how,
            "rules": rules.count,
            "register_seconds": registering.median,
        }
        for batch in batches[: SIZE + 2]:
            self.engine.push("s", batch)

    def push(self, run: int) -> None:
        """The batch of one run."""
        self.engine.push("s", self.batches[SIZE + 2 + run])

    def finish(self, runs: int) -> dict[str, Any]:
        """Check a sample of answers and time look-ups."""
        names = list(self.rules.queries())
        self._check(names, SIZE + 2 + runs)
        timing = measure(lambda run: self.engine.lookup_many(names), warm_ups=2)
        return self.row | {
            "lookups": len(names) / timing.median,
            "state_bytes": self.engine.stats()["streams"]["s"]["bytes"],
        }

    def _check(self, names: list[str], pushed: int) -> None:
        columns = {
            name: np.concatenate([batch[name] for batch in self.batches[:pushed]])
            for name in ("ts", "price", "n")
        }
        now = int(columns["ts"][-1]) + 1
        instant = now - now % SECOND if self.rules.slide else now
        for row in self.engine.lookup_many(names[:: max(1, len(names) // 20)]).to_pylist():
            number = int(row["query"].split()[1])
            start = instant - self.rules.size(number) * SECOND
            inside = (
                (columns["ts"] >= start)
                & (columns["ts"] < instant)
                & (columns["price"] > self.rules.bound(number))
            )
            expected = int(columns["n"][inside].sum()) if inside.any() else None
            assert row["value"] == expected, (row, expected)


def run(quick: bool) -> Result:
    """Measure each kind of window; of one kind, engines take turns."""
    rate, runs = (1_000, 2) if quick else (20_000, 2 * RUNS)
    each, tree = ((1, 4), (1, 20)) if quick else ((1, 8, 32, 100), (1, 8, 32, 100, 5_000))
    batches = _batches(rate, SIZE + 2 + runs + 1)
    rows = []
    for slide in (False, True):
        sets = [Rules("a structure each", count, slide) for count in each]
        sets += [Rules("one range tree", count, slide) for count in tree]
        filled = [Filled(rules, batches) for rules in sets]
        timings = measure_side_by_side([engine.push for engine in filled], runs)
        for engine, timing in zip(filled, timings, strict=True):
            engine.row |= {
                "events_per_second": rate / timing.median,
                "events_per_cpu_second": rate / timing.cpu_median,
                "spread": timing.spread,
            }
            rows.append(engine.finish(runs + 1))
    return Result(
        name="filters",
        title="Rules with range filters",
        notes=" ".join(NOTES.format(size=SIZE, rate=rate).split()),
        columns=COLUMNS,
        rows=rows,
        parameters={"runs": runs, "batch_rows": rate},
    )


def _batches(rate: int, count: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(17)
    return [
        {
            "ts": number * SECOND + np.sort(rng.integers(0, SECOND, rate)),
            "price": rng.random(rate) * 100,
            "n": rng.integers(0, 1_000, rate),
        }
        for number in range(count)
    ]
