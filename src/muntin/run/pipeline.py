"""A finite run: read the file, push, advance, write; the answers appear when all went well."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from muntin.engine import Engine
from muntin.errors import MuntinError
from muntin.run.inputs import Events, latest, open_inputs, side_by_side
from muntin.run.layout import Layout, open_layout
from muntin.run.progress import RunProgress
from muntin.run.script import Script, read_script
from muntin.shard.emit.portion import flush as flush_windows
from muntin.shard.emit.portion import portions


@dataclass
class Report:
    """What a run did."""

    queries: int
    out: Path
    events: int = 0
    late: int = 0
    ahead: int = 0
    answers: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        counts = {"late": self.late, "ahead": self.ahead}
        left_out = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
        told = f" ({left_out}, in no answer)" if left_out else ""
        return (
            f"{self.events:,} events{told}, {self.answers:,} answers of {self.queries:,} "
            f"{'query' if self.queries == 1 else 'queries'} -> {self.out} in {self.seconds:.1f} s"
        )


def run_file(
    script: Path, inputs: Sequence[str], out: Path, *, stream: str | None, batch_rows: int, flush: bool, format: str,
    progress: RunProgress, archive: Path | None = None,
) -> Report:  # fmt: skip
    """Answer the queries of a script over a file of events, or one for each of several streams.

    With `flush` the windows still open at the end of the file are emitted too, as far as they hold an
    event; without it, only those the watermark has passed. Views are kept in `archive`; SELECTs from them are
    answered at the end.
    """
    started = time.perf_counter()
    try:
        read = read_script(script)
        files = open_inputs(read, inputs, stream)
        if out.exists() and out.resolve() in (script.resolve(), *(file.path.resolve() for file in files)):
            raise MuntinError(f"--out '{out}' is a file that is read; choose another")
        chosen = read.only([file.stream for file in files])
        if skipped := len(read.answered) + len(read.views) - len(chosen.answered) - len(chosen.views):
            names = ", ".join(f"'{file.stream.name}'" for file in files)
            progress.note(f"note: {skipped:,} queries read other streams than {names} and are left out")
        engine = chosen.start_engine(archive=archive)
        try:
            with open_layout(out, chosen.answered, format) as layout:
                report = Report(len(chosen.answered), out)
                _answer(engine, chosen, files, layout, batch_rows, flush, progress, report)
        finally:
            engine.close()
    finally:
        progress.close()
    report.seconds = time.perf_counter() - started
    return report


def explain_file(script: Path) -> str:
    """The plan for all queries of a script."""
    with tempfile.TemporaryDirectory() as folder:  # views are planned where nobody keeps them
        engine = read_script(script).start_engine(is_filled=False, archive=Path(folder))
        try:
            return engine.explain()
        finally:
            engine.close()


def _answer(
    engine: Engine, script: Script, files: Sequence[Events], layout: Layout, batch_rows: int, flush: bool,
    progress: RunProgress, report: Report,
) -> None:  # fmt: skip
    last: int | None = None
    total = max(1, sum(file.bytes for file in files))
    for file, batch in side_by_side(files, batch_rows):
        stream = file.stream
        engine.push(stream.name, batch)
        report.events += batch.num_rows
        report.answers += sum(map(layout.write, portions(engine)))
        reached = latest(batch, stream.time)
        last = reached if last is None else max(last, reached)
        progress.show(
            report.events, report.answers, sum(each.fraction * each.bytes for each in files) / total
        )
    if script.views:
        if flush and last is not None:  # the first update that sees the last event
            every = max(view.every for view in script.views.values())
            report.answers += sum(map(layout.write, portions(engine, (last // every + 1) * every)))
        found = engine.select_many([read.text for read in script.reads.values()])
        report.answers += layout.write(dict(zip(script.reads, found, strict=True)))
        engine.close()  # windows that are closed from here on are not the views' business
    if flush and last is not None:
        for answers in flush_windows(engine, script.queries, last):
            report.answers += layout.write(answers)
    streams = engine.stats()["streams"]
    report.late = sum(streams[file.stream.name]["late"] for file in files)
    report.ahead = sum(streams[file.stream.name]["ahead"] for file in files)
