"""A window group: the calls, of any number of queries, that one synopsis serves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import gcd

from muntin.expression import Expression
from muntin.plan.demand import Demand
from muntin.plan.store import StoreId
from muntin.synopsis.contract import Need, Needs
from muntin.synopsis.grid import window_step
from muntin.window import Window


@dataclass
class WindowGroup:
    """Counts how many demands want each component of each window, so that state can be freed."""

    number: int
    synopsis: str  # a name in SYNOPSES
    rule: str  # the rule that chose it
    where: Expression | None
    keys: tuple[Expression, ...]
    store: StoreId
    uses: Counter[tuple[Window, Need]] = field(default_factory=Counter)
    queries: Counter[str] = field(default_factory=Counter)
    slides: Counter[int] = field(default_factory=Counter)  # of the queries
    longest: int = 0  # size of the longest window it ever had
    step: int = 0  # of the coarsest grid with all edges of the windows it ever had

    def add(self, name: str, demand: Demand) -> None:
        self.queries[name] += 1
        self.slides[demand.query_slide] += 1
        self.uses[demand.window, demand.need] += 1
        self.longest = max(self.longest, demand.window.size)
        self.step = gcd(self.step, window_step(demand.window))

    def remove(self, name: str, demand: Demand) -> None:
        self.queries[name] -= 1
        self.slides[demand.query_slide] -= 1
        self.uses[demand.window, demand.need] -= 1
        self.queries += Counter()  # forgets what is no longer used
        self.uses += Counter()
        self.slides += Counter()

    def needs(self) -> Needs:
        found: dict[Window, set[Need]] = {}
        for window, need in self.uses:
            found.setdefault(window, set()).add(need)
        return {window: frozenset(needs) for window, needs in found.items()}

    def earliest_lookup(self, instant: int) -> int:
        """Where the queries stand, at the earliest, that are looked up at `instant` or later."""
        return min((instant - instant % slide for slide in self.slides if slide), default=instant)

    def components(self) -> set[Need]:
        return {need for _, need in self.uses}

    def windows(self) -> list[Window]:
        return sorted({window for window, _ in self.uses})
