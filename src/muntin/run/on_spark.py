"""The same run on Spark: the file is a table, its answers come back and go where they would go otherwise."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from muntin.engine import Engine
from muntin.engine.event_file import format_of
from muntin.errors import MuntinError, NotFound, SchemaError, nearest
from muntin.run.outputs import open_outputs
from muntin.run.pipeline import Report, RunProgress, table_files
from muntin.run.script import Script, read_script
from muntin.sql.expressions import in_quotes
from muntin.stream import Stream
from muntin.table_query import TableQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_NOT_DERIVED = (
    "only embedded runs and muntin serve can do: on Spark each shard answers for its own keys, and nobody has the rows "
    "of all"
)


def run_on_spark(
    script: Path,
    inputs: Sequence[str],
    out: Path,
    *,
    stream: str | None,
    flush: bool,
    format: str,
    progress: RunProgress,
    tables: Sequence[str] = (),
) -> Report:
    """Answer the queries of a script over one file, or a folder of Parquet files, on all cores. `tables` are given as
    TABLE=FILE.

    A table has no order of arrival, so no event of it is late.
    """
    from muntin.spark import TableFrame, answers_of, local_session, shared_windows

    started = time.perf_counter()
    cores = os.cpu_count() or 1
    read = read_script(script)
    read.refuse_derived(_NOT_DERIVED)
    if len(inputs) > 1:
        raise MuntinError("on Spark a run reads one input; joins of several run embedded")
    name, _, path = inputs[0].partition("=")
    is_named = bool(path) and name in read.streams
    target, input = read.stream_of_input(name if is_named else stream), Path(path if is_named else inputs[0])
    queries = read.only([target]).queries
    if read.views:
        raise MuntinError(
            f"view '{next(iter(read.views))}' is kept by an embedded run; on Spark, use muntin.spark.keep_view"
        )
    if filled := [each for each in queries if each in read.backfills]:
        raise MuntinError(
            f"query '{filled[0]}' has a BACKFILL; on Spark, give its history as part of the input"
        )
    if not input.exists():
        raise NotFound(f"there is no input '{input}'")
    rows = _rows_of(read, table_files(read, tables))
    joined = {
        table.name for query in queries.values() if isinstance(query, TableQuery) for table in query.tables
    }
    progress.note(f"starting Spark on {cores} cores")
    session = local_session(cores)
    try:
        with open_outputs(out, queries, format) as outputs, _spark_errors():
            df = _table_of(session, input, target)
            report = Report(len(queries), out, events=df.count())
            answers = shared_windows(
                df, {name: query.text for name, query in queries.items()}, stream=target.name, time=target.time,
                delay=timedelta(microseconds=target.delay), shards=cores, flush=flush,
                ahead=None if target.ahead is None else timedelta(microseconds=target.ahead),
                tables={
                    name: TableFrame(session.createDataFrame(rows[name]), key=read.tables[name].key) for name in joined
                },
            ).cache()  # fmt: skip
            for name, query in queries.items():
                found = answers_of(answers, name).toArrow()
                report.answers += outputs.write({name: _as_embedded(found, query.emission_schema())})
    finally:
        session.stop()
        progress.close()
    report.seconds = time.perf_counter() - started
    return report


def explain_on_spark(script: Path) -> str:
    """The plan of a script's queries on all cores of this machine, stream by stream; no session is started."""
    read = read_script(script)
    read.refuse_derived(_NOT_DERIVED)
    from muntin.spark.explain import explain_job
    from muntin.spark.plan_job import plan_job

    parts = []
    for stream in read.streams.values():
        queries = read.only([stream]).queries
        if not queries:
            continue
        joined = {
            table.name: table
            for query in queries.values()
            if isinstance(query, TableQuery)
            for table in query.tables
        }
        texts = {name: query.text for name, query in queries.items()}
        job = plan_job(stream, texts, shards=os.cpu_count() or 1, tables=tuple(joined.values()))
        parts.append(explain_job(job))
    return "\n\n".join(parts) or "no queries"


def _rows_of(script: Script, files: Mapping[str, Path]) -> dict[str, pa.Table]:
    """The rows of the tables of a script: those that it inserts, and those of files."""
    engine = Engine()
    for create in script.creates:
        engine.execute(create)
    for name, file in files.items():
        engine.load(name, file)
    return {name: engine.execute(f"SELECT * FROM {in_quotes(name)}") for name in script.tables}


def _table_of(session: SparkSession, input: Path, stream: Stream) -> DataFrame:
    """The events of a file with the columns and types that the script declares."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructField, StructType

    from muntin.spark.stream_of import quoted, to_spark_type

    kinds = {field.name: to_spark_type(_zoned(field.type)) for field in stream.schema}
    declared = StructType([StructField(name, kind) for name, kind in kinds.items()])
    kind = "parquet" if input.is_dir() else format_of(input)[0]
    if kind == "csv":
        return session.read.csv(str(input), schema=declared, header=True, enforceSchema=False)
    if kind == "jsonl":
        return session.read.json(str(input), schema=declared)
    df = session.read.parquet(str(input))
    for name in kinds:
        if name not in df.columns:
            raise SchemaError(f"'{input}' has no column '{name}'{nearest(name, df.columns)}")
    return df.select(*[F.col(quoted(name)).cast(kind).alias(name) for name, kind in kinds.items()])


def _zoned(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(kind) else kind


def _as_embedded(answers: pa.Table, schema: pa.Schema) -> pa.Table:
    """In order of time, with instants as embedded has them."""
    ordered = answers.take(pc.sort_indices(answers["window_end"]))
    return ordered.select(schema.names).cast(schema)


@contextmanager
def _spark_errors() -> Iterator[None]:
    """What Spark says, in a line."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise MuntinError(f"Spark: {str(error).strip().splitlines()[0]}") from error
