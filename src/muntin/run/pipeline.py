"""A finite run: read the file, push, advance, write; the answers appear when all went well."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from muntin.engine.flush import flush as flush_windows
from muntin.errors import MuntinError
from muntin.run.layout import Layout, open_layout
from muntin.run.progress import RunProgress
from muntin.run.reader import EventFile
from muntin.run.script import Script, read_script
from muntin.stream import Stream


@dataclass
class Report:
    """What a run did."""

    queries: int
    out: Path
    events: int = 0
    late: int = 0
    answers: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        late = f" ({self.late:,} late, in no answer)" if self.late else ""
        return (
            f"{self.events:,} events{late}, {self.answers:,} answers of {self.queries:,} "
            f"{'query' if self.queries == 1 else 'queries'} -> {self.out} in {self.seconds:.1f} s"
        )


def run_file(
    script: Path, input: Path, out: Path, *, stream: str | None, batch_rows: int, flush: bool, format: str,
    progress: RunProgress,
) -> Report:  # fmt: skip
    """Answer the queries of a script over one file of events.

    With `flush` the windows still open at the end of the file are emitted too, as far as they hold an
    event; without it, only those the watermark has passed.
    """
    started = time.perf_counter()
    if out.exists() and out.resolve() in (input.resolve(), script.resolve()):
        raise MuntinError(f"--out '{out}' is a file that is read; choose another")
    try:
        read = read_script(script)
        target = read.stream_of_input(stream)
        chosen = read.only(target)
        if skipped := len(read.queries) - len(chosen.queries):
            progress.note(
                f"note: {skipped:,} queries read other streams than '{target.name}' and are left out"
            )
        events = EventFile(input, target)
        with open_layout(out, chosen.queries, format) as layout:
            report = Report(len(chosen.queries), out)
            _answer(chosen, target, events, layout, batch_rows, flush, progress, report)
    finally:
        progress.close()
    report.seconds = time.perf_counter() - started
    return report


def explain_file(script: Path) -> str:
    """The plan for all queries of a script."""
    return read_script(script).start_engine().explain()


def _answer(
    script: Script, stream: Stream, events: EventFile, layout: Layout, batch_rows: int, flush: bool,
    progress: RunProgress, report: Report,
) -> None:  # fmt: skip
    engine = script.start_engine()
    last: int | None = None
    for batch in events.batches(batch_rows):
        engine.push(stream.name, batch)
        report.events += batch.num_rows
        report.answers += layout.write(engine.advance())
        latest = _latest(batch, stream.time)
        last = latest if last is None else max(last, latest)
        progress.show(report.events, report.answers, events.fraction)
    if flush and last is not None:
        for answers in flush_windows(engine, script.queries, last):
            report.answers += layout.write(answers)
    report.late = engine.stats()["streams"][stream.name]["late"]


def _latest(batch: pa.RecordBatch, time: str) -> int:
    """The greatest event time of a batch, which the engine has accepted: microseconds, rounded down."""
    column = batch[time]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
    return int(pc.max(column).as_py())
