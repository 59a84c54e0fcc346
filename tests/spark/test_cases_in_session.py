"""The events and queries of every case in a real Spark, as a table: the answers are those of the reference.

What happens step by step (look-ups, queries that come and go, late events) is for `test_cases.py`, which needs
no JVM: a streaming query for each step of each case would take many minutes.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

import muntin.spark
from answers import assert_same_answer
from casefile import Case, Push, Register, read_case
from effort import every_second
from muntin.errors import MuntinError
from muntin.sql import parse_query
from muntin.stream import Stream
from reference import ReferenceEngine, declared
from runtimes import as_table
from tests.spark.test_cases import OVER_ONE_STREAM

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("path", every_second(OVER_ONE_STREAM), ids=lambda path: path.stem)
def test_case(spark: SparkSession, path: Path) -> None:
    case = read_case(path.read_text())
    for sql in case.streams:
        check_stream(spark, case, sql)


def check_stream(spark: SparkSession, case: Case, sql: str) -> None:
    """Ask all that the case asks about a stream of all its events, none of which is late."""
    stream = declared(sql)
    pushed = [
        as_table(step.batch, stream)
        for step in case.steps
        if isinstance(step, Push) and step.stream == stream.name
    ]
    queries = {
        step.name: step.sql for step in case.steps if isinstance(step, Register) and is_over(stream, step.sql)
    }
    if not queries:
        return
    events = pa.concat_tables([*pushed, stream.schema.empty_table()]).sort_by(stream.time)
    reference = ReferenceEngine()
    reference.execute(sql)
    for name, text in queries.items():
        reference.register(text, name=name)
    reference.push(stream.name, events.to_pydict())
    df = spark.createDataFrame(events).coalesce(1)
    answers = muntin.spark.shared_windows(
        df,
        queries,
        stream=stream.name,
        time=stream.time,
        delay=timedelta(microseconds=stream.delay),
        shards=2,
    ).cache()
    for name, wanted in reference.advance().items():
        got = muntin.spark.answers_of(answers, name).toArrow()
        assert_same_answer(wanted, got.cast(wanted.query.emission_schema()))
    answers.unpersist()


def is_over(stream: Stream, sql: str) -> bool:
    try:
        parse_query(sql, {stream.name: stream})
    except MuntinError:
        return False
    return True
