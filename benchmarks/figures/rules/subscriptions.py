"""Throughput by the number of subscriptions that differ in a constant, the first panel of `filters` by itself."""

from __future__ import annotations

from dataclasses import replace

from benchmarks import subscriptions
from benchmarks.figures.page import Record
from benchmarks.figures.peers.queries import brief
from benchmarks.figures.rules import filters
from benchmarks.measure import Result

TITLE = "WHERE symbol = '…' HAVING SUM(n) > …, every answer made"


def run(quick: bool) -> Result:
    """Measure; the result is that of the benchmark."""
    return subscriptions.run(quick)


def record() -> Record | None:
    """What `filters` has, if it has been measured."""
    return filters.record()


CHART = replace(
    filters.CHART,
    x_label="queries, each with a constant of its own",
    y_label="events per CPU second",
    panels={"subscriptions": TITLE},
    x_text=brief,
)
PARTS = {"table": filters.rates_table, "origin": filters.origins}
