"""The oracle's derived streams: each has a log of its own, which gets an event for each that it follows from.

A selection is evaluated event by event, and has the clock of its source. A stream of windows gets, at each instant that
its query's stream has passed, the rows that the query answers there. Nothing is written anew in terms of the source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.expression import Expression
from muntin.query import Query
from muntin.sql import parse_expression
from muntin.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reference import ReferenceEngine, _Log, _Standing

_SELECTION = re.compile(r"CREATE STREAM (\w+) AS SELECT (.*) FROM (\w+)(?: WHERE (.*))?", re.I)
_WINDOWS = re.compile(r"CREATE STREAM (\w+) FROM QUERY (\w+)", re.I)


@dataclass
class Selected:
    """A stream that selects from another."""

    stream: Stream
    source: str
    columns: dict[str, Expression]
    where: Expression | None
    taken: int = 0  # events of the source


@dataclass
class Fed:
    """A stream of a query's windows."""

    stream: Stream
    query: str
    standing: _Standing | None = None  # the query, as this stream has followed it


def derived(sql: str, streams: Mapping[str, Stream], queries: Mapping[str, Query]) -> Selected | Fed | None:
    """What a CREATE STREAM declares, if it follows from others."""
    text = " ".join(sql.split()).rstrip(";")
    if match := _WINDOWS.fullmatch(text):
        name, query = match.groups()
        schema = pa.schema([("ts", pa.timestamp("us")), *queries[query].answer_schema()])
        return Fed(Stream(name, schema, "ts"), query)
    if not (match := _SELECTION.fullmatch(text)):
        return None
    name, items, of, where = match.groups()
    source = streams[of]
    types = {field.name: field.type for field in source.schema}
    columns = {}
    for item in re.split(r",\s*(?![^(]*\))", items):
        for each in source.schema.names if item == "*" else [item]:
            written, _, alias = each.partition(" AS ")
            columns[alias or written] = parse_expression(written, types)
    schema = pa.schema([(column, each.type) for column, each in columns.items()])
    time = next(column for column, each in columns.items() if each.sql == source.time)
    return Selected(
        Stream(name, schema, time), of, columns, parse_expression(where, types) if where else None
    )


def flow(engine: ReferenceEngine) -> None:
    """Bring derived streams up to date, in the order they were made: none follows from a later one."""
    for made in engine.derived.values():
        log = engine.logs[made.stream.name]
        if isinstance(made, Selected):
            _select(made, log, engine.logs[made.source])
        else:
            _feed(engine, made, log)


def begin(engine: ReferenceEngine, made: Selected | Fed) -> None:
    """A derived stream is there from now on."""
    from reference import _floor, _Log, _slide, _Standing

    log = engine.logs[made.stream.name] = _Log(made.stream)
    engine.derived[made.stream.name] = made
    if isinstance(made, Fed):
        standing = engine.standing[made.query]
        source = standing.log
        made.standing = _Standing(standing.query, source, source.watermark, standing.since)
        if source.watermark is not None:
            last = log.watermark = _floor(source.watermark, *_slide(standing.query))
            if source.events and last > min(event.at for event in source.events):
                log.unknown = last
    flow(engine)


def _select(made: Selected, log: _Log, source: _Log) -> None:
    from reference import Event

    for event in source.events[made.taken :]:
        row = {each.name: pa.array([event.values[each.name]], each.type) for each in source.stream.schema}
        if made.where is None or made.where.evaluate(row).to_pylist() == [True]:
            values: dict[str, Any] = {
                name: each.evaluate(row).to_pylist()[0] for name, each in made.columns.items()
            }
            log.events.append(Event(event.at, event.arrival, values | {made.stream.time: event.at}))
    made.taken = len(source.events)
    log.greatest, log.watermark, log.unknown = source.greatest, source.watermark, source.unknown
    log.begun = source.begun
    if log.begun is None and source.events:
        log.begun = min(event.at for event in source.events)


def _feed(engine: ReferenceEngine, made: Fed, log: _Log) -> None:
    from reference import Event, _floor, _instants, _reach, _slide, is_known, microseconds

    standing = made.standing
    assert standing is not None
    source, query, reached = standing.log, standing.query, standing.log.watermark
    if reached is None or (standing.reached is not None and reached <= standing.reached):
        return
    if source.events or source.begun is not None:
        for instant in _instants(standing, source, reached):
            if not is_known(standing, _reach(query, instant)):
                log.unknown = instant
    answer = engine._answer(standing, engine._closed(standing, source, reached))
    to = 0 if query.window is None else query.window.to
    for row in answer.rows:
        at = microseconds(row["window_end"]) + to - 1
        log.arrived += 1
        log.events.append(Event(at, log.arrived, {**row, "ts": at}))
        log.greatest = at
    standing.reached = reached
    log.watermark = _floor(reached, *_slide(query))
