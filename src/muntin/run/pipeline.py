"""A finite run: read the file, push, advance, write; the answers appear when all went well.

Progress goes to stderr: a bar on a terminal, a line every two seconds elsewhere.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO

import pyarrow as pa
import pyarrow.compute as pc

from muntin.engine import Engine
from muntin.engine.event_file import EventFile, EventFiles, open_events
from muntin.errors import MuntinError, NameTaken, NotFound, nearest
from muntin.run.outputs import OutputFiles, open_outputs
from muntin.run.script import Script, read_script
from muntin.shard.emit.portion import flush as flush_windows
from muntin.shard.emit.portion import portions
from muntin.stream import Stream
from muntin.view_select import StandingQuery

# The input files of a run, one for each stream, read side by side in event time.

Events = EventFile[Stream] | EventFiles[Stream]


def open_inputs(script: Script, given: Sequence[str], stream: str | None) -> list[Events]:
    """The files of `--input FILE`, or of `--input STREAM=FILE` for each of several streams."""
    if not given:
        raise MuntinError(
            "what is the input? write --input [STREAM=]PATH; only runs on Spark read a topic of Kafka"
        )
    files = given_inputs(script, given, stream)
    return [open_events(path, script.stream_of_input(name)) for name, path in files.items()]


def given_inputs(script: Script, given: Sequence[str], stream: str | None) -> dict[str, Path]:
    """The paths that are given, by stream."""
    if len(given) == 1 and _split(script, given[0]) is None:
        _refuse_unknown(script, given[0])
        return {script.stream_of_input(stream).name: Path(given[0])}
    files: dict[str, Path] = {}
    for text in given:
        named = _split(script, text)
        if named is None:
            _refuse_unknown(script, text)
            known = ", ".join(script.pushed)
            raise MuntinError(f"which stream is '{text}'? write --input STREAM=FILE; there are: {known}")
        name, path = named
        if name in files:
            raise NameTaken(f"two inputs are given for stream '{name}'")
        files[script.stream_of_input(name).name] = path
    return files


def table_files(script: Script, given: Sequence[str]) -> dict[str, Path]:
    """The files of `--table TABLE=FILE`, by table."""
    files: dict[str, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise MuntinError(f"which table is '{text}'? write --table TABLE=FILE")
        if name not in script.tables:
            raise NotFound(f"the script has no table '{name}'{nearest(name, script.tables)}")
        if name in files:
            raise NameTaken(f"two files are given for table '{name}'")
        files[name] = Path(path)
    return files


def _split(script: Script, text: str) -> tuple[str, Path] | None:
    name, equals, path = text.partition("=")
    return (name, Path(path)) if equals and name in script.streams else None


def _refuse_unknown(script: Script, text: str) -> None:
    """A file may have a = in its name; if there is none of that name, what stands before it is a stream."""
    name, equals, _ = text.partition("=")
    if equals and not Path(text).exists() and name.isidentifier():
        raise NotFound(f"the script has no stream '{name}'{nearest(name, script.streams)}")


def side_by_side(files: Sequence[Events], batch_rows: int) -> Iterator[tuple[Events, pa.RecordBatch]]:
    """The batches of all files; of those at hand, the one that ends first, so that no stream runs far ahead."""
    readers = {file: file.batches(batch_rows) for file in files}
    at_hand: dict[Events, pa.RecordBatch] = {}
    while True:
        for file, reader in list(readers.items()):
            if file not in at_hand:
                batch = next(reader, None)
                if batch is None:
                    del readers[file]
                else:
                    at_hand[file] = batch
        if not at_hand:
            return
        file = min(at_hand, key=lambda each: latest(at_hand[each], each.stream.time))
        yield file, at_hand.pop(file)


def latest(batch: pa.RecordBatch, time: str) -> int:
    """The greatest event time of a batch: microseconds, rounded down."""
    column = batch[time]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
    greatest = pc.max(column).as_py()
    return 0 if greatest is None else int(greatest)  # a time that is NULL is refused when it is pushed


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
    progress: RunProgress, archive: Path | None = None, tables: Sequence[str] = (), threads: int = 1,
) -> Report:  # fmt: skip
    """Answer the queries of a script over a file of events, or one for each of several streams.

    With `flush` the windows still open at the end of the file are emitted too, as far as they hold an
    event; without it, only those the watermark has passed. Views are kept in `archive`; SELECTs from them are
    answered at the end. `tables` are given as TABLE=FILE, and loaded before the first event.
    """
    started = time.perf_counter()
    try:
        read = read_script(script)
        files = open_inputs(read, inputs, stream)
        rows = table_files(read, tables)
        paths = [script, *(file.path for file in files), *rows.values()]
        if out.exists() and out.resolve() in [path.resolve() for path in paths]:
            raise MuntinError(f"--out '{out}' is a file that is read; choose another")
        chosen = choose(read, [file.stream for file in files], progress)
        engine = chosen.start_engine(archive=archive, tables=rows, threads=threads)
        try:
            with open_outputs(out, chosen.answered, format) as outputs:
                report = Report(len(chosen.answered), out)
                push_all(engine, chosen, files, outputs, batch_rows, flush, progress, report)
        finally:
            engine.close()
    finally:
        progress.close()
    report.seconds = time.perf_counter() - started
    return report


def refuse_settings(conf: Sequence[str] | None, packages: str | None) -> None:
    """An error if settings of Spark are given where there is none."""
    for option, given in (("--conf", conf), ("--packages", packages)):
        if given:
            raise MuntinError(f"{option} is for --engine spark")


def choose(script: Script, streams: Sequence[Stream], progress: RunProgress) -> Script:
    """What of a script reads streams that have an input; a note tells how much is left out."""
    chosen = script.only(streams)
    if skipped := len(script.answered) + len(script.views) - len(chosen.answered) - len(chosen.views):
        names = ", ".join(f"'{stream.name}'" for stream in streams)
        progress.note(f"note: {skipped:,} queries read other streams than {names} and are left out")
    return chosen


def explain_file(script: Path) -> str:
    """The plan for all queries of a script."""
    with tempfile.TemporaryDirectory() as folder:  # views are planned where nobody keeps them
        engine = read_script(script).start_engine(is_filled=False, archive=Path(folder))
        try:
            return engine.explain()
        finally:
            engine.close()


def push_all(
    engine: Engine, script: Script, files: Sequence[Events], outputs: OutputFiles, batch_rows: int, flush: bool,
    progress: RunProgress, report: Report,
) -> None:  # fmt: skip
    """Push the events of some files, and write all answers; the report is brought up to date."""
    last: int | None = None
    total = max(1, sum(file.bytes for file in files))
    for file, batch in side_by_side(files, batch_rows):
        stream = file.stream
        engine.push(stream.name, batch)
        report.events += batch.num_rows
        report.answers += sum(map(outputs.write, portions(engine)))
        reached = latest(batch, stream.time)
        last = reached if last is None else max(last, reached)
        progress.show(
            report.events, report.answers, sum(each.fraction * each.bytes for each in files) / total
        )
    if script.views:
        if flush and last is not None:  # the first update that sees the last event
            every = max(view.every for view in script.views.values())
            report.answers += sum(map(outputs.write, portions(engine, (last // every + 1) * every)))
        found = engine.select_many([read.text for read in script.reads.values()])
        report.answers += outputs.write(dict(zip(script.reads, found, strict=True)))
        engine.close()  # windows that are closed from here on are not the views' business
    if flush and last is not None:
        # those that are read from views went with them
        queries = {name: each for name, each in script.queries.items() if not isinstance(each, StandingQuery)}
        for answers in flush_windows(engine, queries, last, script.feeding):
            report.answers += outputs.write(answers)
    streams = engine.stats()["streams"]
    report.late = sum(streams[file.stream.name]["late"] for file in files)
    report.ahead = sum(streams[file.stream.name]["ahead"] for file in files)


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
        self.bar.console.print(text, markup=False, emoji=False, highlight=False)

    def close(self) -> None:
        self.bar.stop()


def open_progress(out: TextIO) -> RunProgress:
    """A bar if `out` is a terminal, else lines."""
    return BarProgress() if out.isatty() else PlainProgress(out)
