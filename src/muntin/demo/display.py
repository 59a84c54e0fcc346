"""How a replay is shown: redrawn in place on a terminal, as plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Protocol, TextIO

import pyarrow as pa

from muntin.demo.alerts import Alert, shown
from muntin.demo.progress import Progress, clock

if TYPE_CHECKING:
    from rich.console import RenderableType

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
