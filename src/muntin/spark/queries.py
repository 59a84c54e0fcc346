"""The queries that run on Spark: those over one stream."""

from __future__ import annotations

from muntin.errors import MuntinError
from muntin.join_query import AnyQuery, JoinQuery
from muntin.query import Query
from muntin.sql import parse_query
from muntin.stream import Stream


def read_query(stream: Stream, text: str) -> Query:
    """The query of a text over a stream; an error if it cannot run on Spark."""
    return over_one_stream(parse_query(text, {stream.name: stream}))


def over_one_stream(query: AnyQuery) -> Query:
    """The same query, unless it is a join."""
    if isinstance(query, JoinQuery):
        raise MuntinError(
            "a windowed JOIN runs in the embedded engine only. On Spark, keep a view of it with archive_join; or join "
            "the DataFrames and ask about the result, whose pairs stay as long as its window, not as their events do "
            "(docs/concepts/spark.md, Joins)"
        )
    return query
