"""Screening rules over a table, no two with the same window and function: for us, and as plain Spark SQL.

Plain SQL folds events into (key, minute) once, whichever way it then has the windows:

* by *window functions*, as one writes it: a column for each window;
* by *arrays*, as one writes it who knows the algorithms: per key an array of running totals, and for MIN and MAX
  of runs of 1, 2, 4, … minutes; every rule is then one or two subtractions or comparisons of elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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
    def limit(self) -> float:
        """Its threshold, which one key in a thousand passes in a full window."""
        events = self.slides * SLIDE * RATE / KEYS
        return {
            "COUNT": events + _ABOVE * math.sqrt(events),
            "SUM": events + _ABOVE * math.sqrt(2 * events),
            "AVG": 1 + _ABOVE / math.sqrt(events),
            "MIN": -math.log(1 - _PART) / events,
            "MAX": math.log(events / _PART),
        }[self.function]

    @property
    def passes(self) -> str:
        """The comparison with its threshold."""
        return f"{'<' if self.function == 'MIN' else '>'} {self.limit!r}"

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


def slices_sql(minutes: int) -> str:
    """Events folded into (key, minute), of the first `minutes`."""
    minute = f"CAST(floor(unix_micros(ts) / {SLIDE * 1_000_000}) AS INT)"
    folded = "SUM(x) AS s, COUNT(*) AS n, MIN(x) AS lo, MAX(x) AS hi"
    return f"SELECT k, {minute} AS m, {folded} FROM t WHERE {minute} < {minutes} GROUP BY k, {minute}"


def window_functions_sql(some: Sequence[Rule]) -> str:
    """The answers of all rules in one pass over `slices`: key, minute and rule.

    SUM, COUNT and AVG of a window are differences of two running totals, which Spark keeps row by row, however
    long the window; MIN and MAX are window functions.
    """
    found = dict.fromkeys(f"{expression} AS {name}" for name, expression in _columns(some))
    wide = f"SELECT k, m, {', '.join(found)} FROM slices"
    cases = ", ".join(f"CASE WHEN {_value(rule)} {rule.passes}D THEN '{rule.name}' END" for rule in some)
    return f"SELECT k, m, explode(array_compact(array({cases}))) AS rule FROM ({wide})"


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


def array_table_sql(minutes: int) -> str:
    """A row per key of `slices`, with its arrays: running totals with a 0 before the first, and level after level
    MIN and MAX of the last 2 ** level minutes."""
    numbers = range(LONGEST.bit_length())
    levels = {name: [f"{name}{number}" for number in numbers] for name in ("lo", "hi")}
    elements = ", ".join(["m", "s", "n", *levels["lo"], *levels["hi"]])
    return f"""
        WITH dense AS (
            SELECT k, m, s, n, lo, hi
            FROM (SELECT k, explode(sequence(0, {minutes - 1})) AS m FROM (SELECT DISTINCT k FROM slices))
            LEFT JOIN slices USING (k, m)
        ), running AS (
            SELECT k, m, {", ".join(_running(levels))} FROM dense
        ), packed AS (
            SELECT k, array_sort(collect_list(struct({elements}))) AS found FROM running GROUP BY k
        )
        SELECT k, concat(array(0D), {_array("s")}) AS s, concat(array(0L), {_array("n")}) AS n,
            concat({", ".join(map(_array, levels["lo"]))}) AS lo,
            concat({", ".join(map(_array, levels["hi"]))}) AS hi
        FROM packed"""


def arrays_sql(some: Sequence[Rule], minutes: int) -> str:
    """The answers of all rules: each key of `arrays` meets each rule, and each minute of the two is compared."""
    conditions = " ".join(f"WHEN '{function}' THEN {_passes(function, minutes)}" for function in FUNCTIONS)
    values = ", ".join(
        f"('{rule.name}', '{rule.function}', {rule.slides}, {rule.slides.bit_length() - 1}, {rule.limit!r}D)"
        for rule in some
    )
    return f"""
        SELECT k, m, name
        FROM (
            SELECT /*+ BROADCAST(rules) */ *
            FROM arrays CROSS JOIN (VALUES {values}) AS rules(name, function, size, level, threshold)
        )
        LATERAL VIEW explode(sequence(0, {minutes - 1})) AS m
        WHERE CASE function {conditions} END"""


def _running(levels: Mapping[str, Sequence[str]]) -> Iterable[str]:
    """Totals up to each minute, and MIN and MAX of the last 1, 2, 4, … minutes."""
    ordered = "OVER (PARTITION BY k ORDER BY m ROWS BETWEEN"
    for part in ("s", "n"):
        yield f"SUM(COALESCE({part}, 0)) {ordered} UNBOUNDED PRECEDING AND CURRENT ROW) AS {part}"
    for part, names in levels.items():
        function = "MIN" if part == "lo" else "MAX"
        for number, name in enumerate(names):
            yield f"{function}({part}) {ordered} {2**number - 1} PRECEDING AND CURRENT ROW) AS {name}"


def _array(name: str) -> str:
    return f"transform(found, one -> one.{name})"


def _passes(function: str, minutes: int) -> str:
    """Whether a rule's answer at minute m passes; the window may begin before the table does."""
    if function in _PREFIXES:
        parts = [f"{part}[m + 1] - {part}[greatest(m + 1 - size, 0)]" for part in _PREFIXES[function]]
        return f"{f'try_divide({parts[0]}, {parts[1]})' if len(parts) > 1 else parts[0]} > threshold"
    # two runs of 2 ** level minutes that together are the window
    other = "greatest(m - size + shiftleft(1, level), least(m, shiftleft(1, level) - 1))"
    part, choose, passes = ("lo", "least", "<") if function == "MIN" else ("hi", "greatest", ">")
    ends = ", ".join(f"{part}[level * {minutes} + {place}]" for place in ("m", other))
    return f"{choose}({ends}) {passes} threshold"
