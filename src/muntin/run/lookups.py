"""Look-ups at instants of their own, from files into a file: what `muntin lookup-at` does.

queries.sql    CREATE STREAM and queries          history    the events of the stream, a file or folder
requests.csv   account, at, label                 answers    account, at, label, hour.spent, hour.found, …
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from muntin.engine.event_file import open_events
from muntin.engine.replay import lookup_at
from muntin.errors import MuntinError
from muntin.run.outputs import AnswerFile, format_to_write, is_directory
from muntin.run.pipeline import RunProgress
from muntin.run.request_file import read_request_file
from muntin.run.script import read_script
from muntin.shard.requests import COMPLETE, answerable


@dataclass
class LookupReport:
    """What was asked and answered."""

    queries: int
    out: Path
    requests: int = 0
    incomplete: int = 0  # requests of which an answer of some query is not complete
    events: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        told = f" ({self.incomplete:,} not complete)" if self.incomplete else ""
        return (
            f"{self.requests:,} requests{told} to {self.queries:,} {'query' if self.queries == 1 else 'queries'} "
            f"over {self.events:,} events -> {self.out} in {self.seconds:.1f} s"
        )


def lookup_file(
    script: Path, history: Path, requests: Path, out: Path, *, stream: str | None, at: str, batch_rows: int,
    progress: RunProgress,
) -> LookupReport:  # fmt: skip
    """Answer each row of a file of requests with the queries of a script, from the history of their stream.

    The answers are written when all went well, in the order of the requests, behind their own columns; those of query
    `q` are called `q.column`.
    """
    started = time.perf_counter()
    try:
        if is_directory(out):
            raise MuntinError(f"'{out}' would be a directory: the answers are one table, so --out is a file")
        format = format_to_write(out)
        read = read_script(script)
        read.refuse_derived("look-ups in a history do not follow; register its queries with muntin run")
        events = open_events(history, read.stream_of_input(stream))
        paths = [script, requests, *(file.path for file in getattr(events, "files", [events]))]
        if out.exists() and out.resolve() in [path.resolve() for path in paths]:
            raise MuntinError(f"--out '{out}' is a file that is read; choose another")
        chosen = read.only([events.stream])
        if skipped := len(read.answered) - len(chosen.queries):
            progress.note(f"note: {skipped:,} queries read more than '{events.stream.name}' and are left out")
        if chosen.backfills:
            progress.note("note: what BACKFILL names is not read: the history is that of --history")
        queries = {name: answerable(name, query) for name, query in chosen.queries.items()}
        asked = read_request_file(requests, queries)
        report = LookupReport(len(queries), out, asked.num_rows)

        def show(seen: int, answered: int, fraction: float) -> None:
            report.events = seen
            progress.show(seen, answered, fraction)

        texts = {name: query.text for name, query in queries.items()}
        answers = lookup_at(
            history, texts, asked, stream=events.stream, at=at, progress=show, batch_rows=batch_rows
        )
        report.incomplete = _incomplete(answers, list(queries))
        _write(answers, out, format)
    finally:
        progress.close()
    report.seconds = time.perf_counter() - started
    return report


def _incomplete(answers: pa.Table, names: list[str]) -> int:
    complete = answers[f"{names[0]}.{COMPLETE}"]
    for name in names[1:]:
        complete = pc.and_(complete, answers[f"{name}.{COMPLETE}"])
    known: int = pc.sum(complete).as_py() or 0
    return int(answers.num_rows) - known


def _write(answers: pa.Table, out: Path, format: str) -> None:
    file = AnswerFile(out, answers.schema, format)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        file.write(answers)
        file.commit()
    except BaseException as fault:
        file.discard()
        if isinstance(fault, OSError):
            raise MuntinError(f"cannot write '{out}': {fault.strerror or fault}") from fault
        raise
