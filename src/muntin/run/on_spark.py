"""The same run on Spark: inputs are tables, their answers come back and go where they would go otherwise.

files, folders, topics --> DataFrames --> a job for each set of streams --> answers, in the files of a run
                                      --> events that views hold at the end --> an engine --> their archive
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from muntin.engine import Engine
from muntin.engine.event_file import open_events
from muntin.errors import MuntinError
from muntin.join_query import AnyQuery, JoinQuery
from muntin.run.outputs import open_outputs
from muntin.run.pipeline import Report, RunProgress, choose, table_files
from muntin.run.script import Script, needs_archive, read_script
from muntin.run.spark_inputs import Input, SparkInputs, inputs_of
from muntin.run.spark_progress import JobWatch
from muntin.run.spark_views import ends_of, keep_views
from muntin.sql.expressions import in_quotes
from muntin.table_query import TableQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_SETTINGS = {
    "spark.driver.maxResultSize": "0",  # all answers come to this process, however many they are
    # plans that change while they run lose what they observe where there is nothing to read, and all planned tasks
    # are known from the start
    "spark.sql.adaptive.enabled": "false",
}
_NOT_DERIVED = (
    "only embedded runs and muntin serve can do: on Spark each shard answers for its own keys, and nobody has the rows "
    "of all"
)


def run_on_spark(
    script: Path, inputs: Sequence[str], out: Path, *, stream: str | None, flush: bool, format: str,
    progress: RunProgress, tables: Sequence[str] = (), archive: Path | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Report:  # fmt: skip
    """Answer the queries of a script over files, folders of files or topics of Kafka, on all cores. `tables` are given
    as TABLE=FILE, `settings` are those of Spark. Views are kept in `archive`, as of the end of the input.

    A table has no order of arrival, so no event of it is late.
    """
    from muntin.spark import local_session

    started = time.perf_counter()
    cores = os.cpu_count() or 1
    session = None
    try:
        read = read_script(script)
        read.refuse_derived(_NOT_DERIVED)
        sources = inputs_of(script.read_text(encoding="utf-8"), read, inputs, stream)
        chosen = choose(read, [read.streams[name] for name in sources], progress)
        _check(chosen, sources, archive)
        rows = _rows_of(read, table_files(read, tables))
        jobs = _jobs_of(chosen)
        progress.note(f"starting Spark on {cores} cores")
        with open_outputs(out, chosen.answered, format) as outputs, spark_errors():
            session = local_session(cores, settings=_SETTINGS | dict(settings))
            report = Report(len(chosen.answered), out)
            often = Counter(name for names, _ in jobs for name in names)
            often.update(name for view in chosen.views.values() for name in (*view.streams, *view.streams))
            events = SparkInputs(session, chosen, sources, often)
            watch = JobWatch(session, progress, report, len(jobs) + 2 * bool(chosen.views))
            counted: dict[str, Any] = {}
            known: dict[str, int] = {}  # how many events there are of the streams that have been read
            for names, queries in jobs:
                frames = {name: _counting(events.frame(name), name, counted) for name in names}
                answers = _answers(session, chosen, frames, queries, rows, flush)
                # a part is not what was asked of Spark before: that reads no events
                with watch.part(again=sum(known.get(name, 0) for name in names)):
                    for name, table in by_query(answers, chosen.queries):
                        report.answers += outputs.write({name: table})
                    known = {name: each.get["events"] for name, each in counted.items()}
                    report.events = sum(known.values())
            if chosen.views and archive is not None:
                names = tuple(dict.fromkeys(name for view in chosen.views.values() for name in view.streams))
                with watch.part(again=sum(known.get(name, 0) for name in names)):
                    ends = {name: ends_of(events.frame(name), chosen.streams[name]) for name in names}
                    known |= {name: each.events for name, each in ends.items()}
                    report.events = sum(known.values())
                with watch.part(again=report.events):
                    report.answers += keep_views(
                        chosen, ends, events.frame, archive, outputs, flush, _Quiet()
                    )
    finally:
        if session is not None:
            session.stop()
        progress.close()
    report.seconds = time.perf_counter() - started
    return report


def settings_of(given: Sequence[str], packages: str | None) -> dict[str, str]:
    """The settings of Spark that `--conf NAME=VALUE` and `--packages` are.

    >>> settings_of(["spark.master=spark://m:7077"], "org:jar:1")
    {'spark.master': 'spark://m:7077', 'spark.jars.packages': 'org:jar:1'}
    """
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise MuntinError(f"which setting is '{text}'? write --conf NAME=VALUE")
        found[name] = value
    return found | ({} if packages is None else {"spark.jars.packages": packages})


def _check(script: Script, sources: Mapping[str, Input], archive: Path | None) -> None:
    """What cannot be done is said before Spark starts."""
    for name in (each for each in script.queries if each in script.backfills):
        raise MuntinError(f"query '{name}' has a BACKFILL; on Spark, give its history as part of the input")
    if script.views and archive is None:
        raise MuntinError(needs_archive(script))
    for name in script.streams:
        source = sources[name]
        if isinstance(source, Path):
            open_events(source, script.streams[name])


def _jobs_of(script: Script) -> list[tuple[tuple[str, ...], dict[str, str]]]:
    """Queries that can be answered together, and the streams that they read: those of one stream, and joins of the
    same streams."""
    jobs: dict[tuple[tuple[str, ...], bool], dict[str, str]] = {}
    for name, query in script.queries.items():
        names = tuple(sorted({stream.name for stream in query.streams}))
        jobs.setdefault((names, isinstance(query, JoinQuery)), {})[name] = query.text
    return [(names, queries) for (names, _), queries in jobs.items()]


def _counting(df: DataFrame, name: str, counted: dict[str, Any]) -> DataFrame:
    """The same DataFrame, which counts its rows when it is first read."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    if name in counted:
        return df
    counted[name] = Observation(name)
    return df.observe(counted[name], F.count(F.lit(1)).alias("events"))


def _answers(
    session: SparkSession, script: Script, frames: Mapping[str, DataFrame], queries: Mapping[str, str],
    rows: Mapping[str, pa.Table], flush: bool,
) -> DataFrame:  # fmt: skip
    from muntin.spark import TableFrame, shared_windows

    streams = {name: script.streams[name] for name in frames}
    delays = {name: timedelta(microseconds=each.delay) for name, each in streams.items()}
    ahead = {
        name: None if each.ahead is None else timedelta(microseconds=each.ahead)
        for name, each in streams.items()
    }
    shards = session.sparkContext.defaultParallelism
    asked = [script.queries[name] for name in queries]
    if any(isinstance(query, JoinQuery) for query in asked):
        return shared_windows(
            frames, queries, time={name: each.time for name, each in streams.items()}, delay=delays,
            ahead={name: each for name, each in ahead.items() if each is not None} or None, shards=shards, flush=flush,
        )  # fmt: skip
    (name,) = frames
    return shared_windows(
        frames[name], queries, stream=name, time=streams[name].time, delay=delays[name], ahead=ahead[name],
        shards=shards, flush=flush,
        tables={
            each: TableFrame(session.createDataFrame(rows[each]), key=script.tables[each].key)
            for each in _tables_of(asked)
        },
    )  # fmt: skip


def by_query(answers: DataFrame, queries: Mapping[str, AnyQuery]) -> Iterator[tuple[str, pa.Table]]:
    """All answers by one job of Spark, those of each query in order of time, with instants as embedded has them."""
    from muntin.spark.flow import places_of

    places = places_of(answers)
    whole = answers.toArrow()
    whole = whole.take(pc.sort_indices(whole, [("query", "ascending"), ("window_end", "ascending")]))
    many = {each["values"]: each["counts"] for each in pc.value_counts(whole["query"]).to_pylist()}
    start = 0
    for name in sorted(many, key=lambda name: name.encode()):  # as Arrow has sorted them
        found = whole.slice(start, many[name])
        start += many[name]
        schema = queries[name].emission_schema()
        columns = [found[places[name][column]] for column in schema.names]
        yield name, pa.table(columns, names=schema.names).cast(schema)


class _Quiet:
    """Says nothing: the watch tells how far Spark is."""

    def show(self, events: int, answers: int, fraction: float) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


def explain_on_spark(script: Path) -> str:
    """The plan of a script's queries on all cores of this machine, job by job; no session is started."""
    read = read_script(script)
    read.refuse_derived(_NOT_DERIVED)
    from muntin.spark.explain import explain_job
    from muntin.spark.join_job import plan_joins
    from muntin.spark.plan_job import plan_job

    shards = os.cpu_count() or 1
    parts = []
    for names, queries in _jobs_of(read):
        streams = [read.streams[name] for name in names]
        asked = [read.queries[name] for name in queries]
        if any(isinstance(query, JoinQuery) for query in asked):
            parts.append(explain_job(plan_joins(streams, queries, shards=shards)))
        else:
            tables = tuple(table for name, table in read.tables.items() if name in _tables_of(asked))
            parts.append(explain_job(plan_job(streams[0], queries, shards=shards, tables=tables)))
    parts += [
        f"view {name}: an engine takes in the events of {', '.join(view.streams)} that its windows hold at the end"
        for name, view in read.views.items()
    ]
    return "\n\n".join(parts) or "no queries"


def _tables_of(queries: Sequence[AnyQuery]) -> set[str]:
    return {table.name for query in queries if isinstance(query, TableQuery) for table in query.tables}


def _rows_of(script: Script, files: Mapping[str, Path]) -> dict[str, pa.Table]:
    """The rows of the tables of a script: those that it inserts, and those of files."""
    engine = Engine()
    for create in script.creates:
        engine.execute(create)
    for name, file in files.items():
        engine.load(name, file)
    return {name: engine.execute(f"SELECT * FROM {in_quotes(name)}") for name in script.tables}


@contextmanager
def spark_errors() -> Iterator[None]:
    """What Spark says, in a line."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise MuntinError(f"Spark: {str(error).strip().splitlines()[0]}") from error
    except Py4JJavaError as error:  # what PySpark has no exception of its own for
        raise MuntinError(f"Spark: {str(error.java_exception.getMessage()).splitlines()[0]}") from error
