"""How far a replay has come, in numbers; what every display shows."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from muntin.engine import Engine
from muntin.query import Query


@dataclass
class Progress:
    """Counts so far and instants reached; `rate` is over the whole replay."""

    queries: int = 0
    events: int = 0
    answers: int = 0
    alerts: int = 0
    late: int = 0
    state_bytes: int = 0
    event_time: np.datetime64 | None = None  # greatest seen
    watermark: np.datetime64 | None = None
    elapsed: float = 0.0  # seconds since the first event was pushed
    warm_seconds: float = 0.0  # spent on the first batch, when kernels are compiled or loaded
    warm_events: int = 0
    first_answer: float | None = None  # seconds from the start of the command

    @property
    def rate(self) -> float:
        """Events per second of wall time, after the first batch."""
        seconds = self.elapsed - self.warm_seconds
        return (self.events - self.warm_events) / seconds if seconds else 0.0

    def line(self) -> str:
        """One line for a log."""
        return (
            f"{self.elapsed:5.1f} s  {self.events:>12,} events  {self.rate:>11,.0f}/s  "
            f"event time {clock(self.event_time)}  watermark {clock(self.watermark)}  "
            f"answers {self.answers:,}"
        )

    def summary(self) -> list[tuple[str, str]]:
        """What the demo ends with: names and values."""
        first = "none" if self.first_answer is None else f"{self.first_answer:.1f} s after the command"
        return [
            ("queries", f"{self.queries:,}"),
            ("events", f"{self.events:,} ({self.late:,} late)"),
            ("replayed in", f"{self.elapsed:.1f} s ({self.warm_seconds:.1f} s of it the first batch)"),
            ("throughput", f"{self.rate:,.0f} events/s after the first batch"),
            ("answers", f"{self.answers:,}"),
            ("alerts", f"{self.alerts:,}"),
            ("state", f"{self.state_bytes:,} bytes"),
            ("first answer", first),
        ]


def clock(instant: np.datetime64 | None) -> str:
    """An instant to the second.

    >>> clock(np.datetime64("2024-01-02T14:30:00.25"))
    '2024-01-02 14:30:00'
    """
    return "-" if instant is None else str(instant.astype("datetime64[s]")).replace("T", " ")


# The plan in a few lines: how many queries share how many groups, and the largest of them.

_GROUP = re.compile(
    r"^group \d+: (?P<what>[^\n]*)$.*?^  queries  (?P<queries>[\d,]+)", re.MULTILINE | re.DOTALL
)
SHOWN = 4


def plan_lines(engine: Engine) -> list[str]:
    """The head line, then the groups that serve most queries."""
    queries = engine.queries.values()
    windows = {call.window for query in queries if isinstance(query, Query) for call in query.calls}
    groups = [
        (int(found["queries"].replace(",", "")), found["what"]) for found in _GROUP.finditer(engine.explain())
    ]
    groups.sort(reverse=True)
    lines = [
        f"plan: {len(queries):,} queries over {len(windows):,} different windows -> {len(groups):,} groups"
    ]
    lines += [f"  {many:>6,} on  {what}" for many, what in groups[:SHOWN]]
    if rest := groups[SHOWN:]:
        lines.append(f"  {sum(many for many, _ in rest):>6,} on  {len(rest):,} smaller groups")
    return lines
