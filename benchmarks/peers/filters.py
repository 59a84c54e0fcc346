"""Filters: queries that differ in a constant of WHERE and in their window; those of `subscriptions`, without HAVING."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

import pyarrow as pa

from benchmarks import subscriptions
from benchmarks.peers.race import Contestant
from benchmarks.subscriptions import WINDOWS, ByHand, InDuckDB, InEngine, InPolars, Subscriptions

_minute = lru_cache(maxsize=16)(subscriptions.make_minute)


@dataclass(frozen=True)
class Filters:
    """So many events a minute, over all symbols; ten windows for each symbol that is asked for."""

    title: str
    work: int
    symbols: int
    unit: str = "events"

    def prepare(self, step: int) -> list[pa.Table]:
        """The minute of a step, after those that fill the windows."""
        return _minute(WINDOWS + 1 + step, self.work, self.symbols)

    def contestants(self, count: int) -> Mapping[str, Callable[[], Contestant]]:
        asked = Subscriptions(count, max(1, count // WINDOWS), self.symbols, has_floor=False)
        queries = asked.queries(self.work)
        return {
            "muntin": partial(Answered, self, lambda: InEngine(queries, together=True)),
            "muntin_2": partial(Answered, self, lambda: InEngine(queries, threads=2, together=True)),
            "polars": partial(Answered, self, lambda: InPolars(asked, self.work)),
            "duckdb": partial(Answered, self, lambda: InDuckDB(asked, self.work)),
        }


class Answered:
    """An entrant of `subscriptions`, minute by minute."""

    def __init__(self, kind: Filters, make: Callable[[], InEngine | ByHand]):
        self.kind, self.entrant = kind, make()

    def fill(self) -> None:
        for step in range(-WINDOWS - 1, 0):
            self.take(step)

    def take(self, step: int) -> None:
        for batch in self.kind.prepare(step):
            self.entrant.push(batch)
        self.entrant.advance(WINDOWS + 2 + step)

    @property
    def rows(self) -> int:
        return len(self._values)

    @property
    def _values(self) -> dict[str, int]:
        return dict(self.entrant.alerts)

    def answer(self, query: int) -> pa.Table | None:
        value = self._values.get(f"q{query}")
        return pa.table({"v": pa.array([] if value is None else [value], pa.int64())})
