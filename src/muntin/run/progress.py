"""Progress of a run on stderr: a bar on a terminal, a line every two seconds elsewhere."""

from __future__ import annotations

import time
from typing import Protocol, TextIO

LINE_EVERY = 2.0


class RunProgress(Protocol):
    """What a run tells after every batch."""

    def show(self, events: int, answers: int, fraction: float) -> None:
        """`fraction` of the input has been read."""

    def note(self, text: str) -> None:
        """Something the user should know."""

    def close(self) -> None:
        """The run is over, well or not."""


class PlainProgress:
    """Lines without control characters; a run of under two seconds prints none."""

    def __init__(self, out: TextIO):
        self.out = out
        self.started = time.monotonic()
        self.next_line = self.started + LINE_EVERY

    def show(self, events: int, answers: int, fraction: float) -> None:
        now = time.monotonic()
        if now >= self.next_line:
            self.next_line = now + LINE_EVERY
            rate = events / (now - self.started)
            self.note(f"{fraction:4.0%}  {events:>12,} events  {rate:>11,.0f}/s  answers {answers:,}")

    def note(self, text: str) -> None:
        print(text, file=self.out, flush=True)

    def close(self) -> None:
        pass


class BarProgress:
    """A bar that is redrawn in place and gone at the end."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task("", total=1.0)
        self.bar.start()

    def show(self, events: int, answers: int, fraction: float) -> None:
        text = f"{events:,} events, {answers:,} answers"
        self.bar.update(self.task, completed=fraction, description=text)

    def note(self, text: str) -> None:
        self.bar.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        self.bar.stop()


def open_progress(out: TextIO) -> RunProgress:
    """A bar if `out` is a terminal, else lines."""
    return BarProgress() if out.isatty() else PlainProgress(out)
