"""Screening rules over a table, no two with the same window and function: for us, and as plain Spark SQL."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.spark_workload import FUNCTIONS, KEYS, SLIDE

RATE = 5_000  # events per second of event time: a table is of hours, not of minutes
LONGEST = 200  # slides in the longest window
MOST = LONGEST * len(FUNCTIONS)  # rules there are
_PART, _ABOVE = (
    0.001,
    3.09,
)  # of the keys pass a threshold, which is so many standard deviations above the mean
_PREFIXES = {"SUM": ("s",), "COUNT": ("n",), "AVG": ("s", "n")}  # what they are differences of


@dataclass(frozen=True)
class Rule:
    """Keys whose aggregate of x over the last `slides` slides passes a threshold."""

    name: str
    function: str
    slides: int

    @property
    def passes(self) -> str:
        """The comparison with its threshold: one key in a thousand passes it in a full window."""
        events = self.slides * SLIDE * RATE / KEYS
        limit = {
            "COUNT": events + _ABOVE * math.sqrt(events),
            "SUM": events + _ABOVE * math.sqrt(2 * events),
            "AVG": 1 + _ABOVE / math.sqrt(events),
            "MIN": -math.log(1 - _PART) / events,
            "MAX": math.log(events / _PART),
        }[self.function]
        return f"{'<' if self.function == 'MIN' else '>'} {limit!r}"

    @property
    def query(self) -> str:
        """The rule for muntin."""
        return (
            f"SELECT k, {self.function}(x) AS value FROM t [RANGE {self.slides * SLIDE} SECONDS SLIDE {SLIDE} SECONDS] "
            f"GROUP BY k HAVING {self.function}(x) {self.passes}"
        )


def rules(count: int) -> list[Rule]:
    """So many rules, by window sizes spread evenly up to the longest."""
    sizes = -(-count // len(FUNCTIONS))
    return [
        Rule(f"q{number}", FUNCTIONS[number % 5], LONGEST * (number // 5 + 1) // sizes)
        for number in range(count)
    ]


def plain_sql(some: Sequence[Rule], minutes: int) -> str:
    """The answers of all rules in one pass: key, minute and rule, for windows that end within the first `minutes`.

    Events are folded into (key, minute) once. SUM, COUNT and AVG of a window are differences of two running
    totals, which Spark keeps row by row, however long the window; MIN and MAX are window functions.
    """
    minute = f"CAST(floor(unix_micros(ts) / {SLIDE * 1_000_000}) AS INT)"
    folded = "SUM(x) AS s, COUNT(*) AS n, MIN(x) AS lo, MAX(x) AS hi"
    slices = f"SELECT k, {minute} AS m, {folded} FROM t GROUP BY k, {minute}"
    found = dict.fromkeys(f"{expression} AS {name}" for name, expression in _columns(some))
    wide = f"SELECT k, m, {', '.join(found)} FROM ({slices})"
    cases = ", ".join(f"CASE WHEN {_value(rule)} {rule.passes}D THEN '{rule.name}' END" for rule in some)
    return f"SELECT k, m, explode(array_compact(array({cases}))) AS rule FROM ({wide}) WHERE m < {minutes}"


def _columns(some: Iterable[Rule]) -> Iterable[tuple[str, str]]:
    """What has to be known of every key and minute, by name."""
    ordered = "OVER (PARTITION BY k ORDER BY m RANGE BETWEEN"
    for rule in some:
        if rule.function in _PREFIXES:
            for part in _PREFIXES[rule.function]:
                yield f"{part}_now", f"SUM({part}) {ordered} UNBOUNDED PRECEDING AND CURRENT ROW)"
                yield (
                    f"{part}_{rule.slides}",
                    f"SUM({part}) {ordered} UNBOUNDED PRECEDING AND {rule.slides} PRECEDING)",
                )
        else:
            part = "lo" if rule.function == "MIN" else "hi"
            since = f"{rule.slides - 1} PRECEDING AND CURRENT ROW)"
            yield f"{part}_{rule.slides}", f"{rule.function}({part}) {ordered} {since}"


def _value(rule: Rule) -> str:
    if rule.function not in _PREFIXES:
        return f"{'lo' if rule.function == 'MIN' else 'hi'}_{rule.slides}"
    return " / ".join(
        f"({part}_now - COALESCE({part}_{rule.slides}, 0))" for part in _PREFIXES[rule.function]
    )
