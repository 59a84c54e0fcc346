"""Displays of a replay: how far it has come, in numbers, and its alerts, the keys that newly satisfy HAVING."""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.engine import Engine
from muntin.join_query import AnyQuery
from muntin.query import Call, Query
from muntin.shard.emit.emitted import QUERY
from muntin.table_query import TableQuery

if TYPE_CHECKING:
    from rich.console import RenderableType


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
    windows = {call.window for query in queries for call in _calls(query)}
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


def _calls(query: AnyQuery) -> tuple[Call, ...]:
    if isinstance(query, TableQuery):
        return query.source.calls
    return query.calls if isinstance(query, Query) else ()


QUIET = timedelta(minutes=1)


@dataclass(frozen=True)
class Alert:
    """A key that satisfied a query at an instant and had not done so before."""

    at: datetime
    query: str
    key: str
    values: Mapping[str, Any]

    def __str__(self) -> str:
        values = "  ".join(f"{name} {shown(value)}" for name, value in self.values.items())
        return f"{self.at:%H:%M:%S}  {self.query:<18} {self.key:<5} {values}"


@dataclass
class AlertWatch:
    """A key is news when it qualifies after a minute of event time without: one that hovers around
    its threshold is told once."""

    queries: tuple[str, ...]
    count: int = 0
    _qualified_at: dict[tuple[str, str], datetime] = field(default_factory=dict)

    def notice(self, answers: Iterable[pa.Table]) -> list[Alert]:
        """The alerts among answers that were emitted together; the first column of a watched query is its key."""
        found, watched = [], pa.array(self.queries, pa.string())
        for table in answers:
            for row in table.filter(pc.is_in(table[QUERY], value_set=watched)).to_pylist():
                query, at = row.pop(QUERY), row["window_end"]
                key = str(next(iter(row.values())))
                before = self._qualified_at.get((query, key))
                self._qualified_at[query, key] = at
                if before is None or at - before > QUIET:
                    found.append(Alert(at, query, key, _values(row)))
        self.count += len(found)
        return found


def shown(value: Any) -> str:
    """A value as people write it.

    >>> shown(1234567), shown(3.14159), shown(None)
    ('1,234,567', '3.14', 'NULL')
    """
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, datetime):
        return f"{value:%H:%M:%S}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    names = list(row)[1:-3]  # without the key and window_start, window_end, complete
    return {name: row[name] for name in names}


LINE_EVERY = 2.0  # seconds between lines in a log
ALERTS_SHOWN = 8


class Display(Protocol):
    """What the demo tells its progress to."""

    def say(self, text: str) -> None:
        """Something that is said once."""

    def show(self, progress: Progress, alerts: list[Alert]) -> None:
        """The state of the replay; called after every batch."""

    def close(self) -> None:
        """No more `show`; what is said from now on stays."""


class PlainDisplay:
    """Lines without control characters, one every two seconds and a few of the alerts between."""

    def __init__(self, out: TextIO):
        self.out = out
        self.next_line = 0.0
        self.alerts: deque[Alert] = deque(maxlen=3)

    def say(self, text: str) -> None:
        print(text, file=self.out, flush=True)

    def show(self, progress: Progress, alerts: list[Alert]) -> None:
        self.alerts.extend(alerts)
        if time.monotonic() < self.next_line:
            return
        self.next_line = time.monotonic() + LINE_EVERY
        self.say(progress.line())
        while self.alerts:
            self.say(f"         alert  {self.alerts.popleft()}")

    def close(self) -> None:
        pass


class LiveDisplay:
    """A panel that is redrawn in place: numbers, throughput of the last seconds, newest alerts."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self.console = Console()
        self.live = Live(console=self.console, refresh_per_second=8, transient=True)
        self.started = False
        self.alerts: deque[Alert] = deque(maxlen=ALERTS_SHOWN)
        self.rates: deque[float] = deque(maxlen=40)
        self.last = (0.0, 0)

    def say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False)

    def show(self, progress: Progress, alerts: list[Alert]) -> None:
        if not self.started:
            self.live.start()
            self.started = True
        self.alerts.extend(alerts)
        seconds, events = self.last
        if progress.elapsed - seconds >= 0.5:
            self.rates.append((progress.events - events) / (progress.elapsed - seconds))
            self.last = (progress.elapsed, progress.events)
        self.live.update(self._panel(progress))

    def close(self) -> None:
        if self.started:
            self.live.stop()

    def _panel(self, progress: Progress) -> RenderableType:
        from rich.columns import Columns
        from rich.console import Group
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        numbers = Table.grid(padding=(0, 2))
        for name, value in [
            ("events", f"{progress.events:,}"),
            ("throughput", f"{progress.rate:,.0f} events/s"),
            ("event time", clock(progress.event_time)),
            ("watermark", clock(progress.watermark)),
            ("answers", f"{progress.answers:,}"),
            ("state", f"{progress.state_bytes / 1e6:,.1f} MB"),
        ]:
            numbers.add_row(Text(name, style="dim"), Text(value, style="bold"))
        latest = "\n".join(str(alert) for alert in reversed(self.alerts)) or "none yet"
        body = Group(
            Columns([numbers, Text(bars(self.rates), style="green")], padding=(0, 4)),
            Text(),
            Text(f"alerts: {progress.alerts:,} keys newly qualified", style="dim"),
            Text(latest, style="yellow"),
        )
        return Panel(
            body, title=f"{progress.queries:,} queries, {progress.elapsed:.0f} s", title_align="left"
        )


def open_display(out: TextIO | None = None) -> Display:
    """A live display on a terminal that can redraw, else a plain one."""
    out = out or sys.stdout
    if out is sys.stdout and out.isatty():
        from rich.console import Console

        if not Console().is_dumb_terminal:
            return LiveDisplay()
    return PlainDisplay(out)


def bars(values: deque[float]) -> str:
    """A line of bars, the tallest for the greatest value.

    >>> bars(deque([0.0, 4.0, 8.0]))
    ' ▄█'
    """
    top = max(values, default=0.0) or 1.0
    return "".join(" ▁▂▃▄▅▆▇█"[round(8 * value / top)] for value in values)


def text_table(table: pa.Table, rows: int = 5) -> str:
    """The first rows of a table as aligned text.

    >>> print(text_table(pa.table({"symbol": ["CQAA"], "volume": [1234567]})))
      symbol     volume
      CQAA    1,234,567
    """
    names = [name for name in table.column_names if name not in ("window_start", "complete")]
    cells = [[shown(value) for value in table[name].slice(0, rows).to_pylist()] for name in names]
    lines = []
    for row in zip(*([name, *column] for name, column in zip(names, cells, strict=True)), strict=True):
        padded = []
        for name, cell, column in zip(names, row, cells, strict=True):
            width = max(map(len, [name, *column]))
            is_text = pa.types.is_string(table.schema.field(name).type)
            padded.append(cell.ljust(width) if is_text else cell.rjust(width))
        lines.append("  " + "  ".join(padded))
    if table.num_rows > rows:
        lines.append(f"  and {table.num_rows - rows:,} more")
    return "\n".join(lines)
