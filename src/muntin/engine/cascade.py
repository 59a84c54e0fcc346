"""Cascades: what is pushed into a stream flows on into the streams of its queries' windows, and from these into others.

A stream of windows is brought up to date by every push and every promise of time, before anybody asks: it has a row for
each row of each window that has closed, at its instant minus 1 us, and its watermark is the last instant that closed.
So its rows follow from what was pushed alone, and are in no log. It has a shard of its own, which knows neither
where its events come from nor that others follow; how far it has come is what the clock of that shard says.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from muntin.derived import Selection, WindowStream, end_to_instant, refuse_pushing
from muntin.engine.catalog import Catalog
from muntin.errors import MuntinError
from muntin.join.operator import feed
from muntin.join_query import AnyQuery
from muntin.shard.shard import Shard
from muntin.sql.bind_derived import not_a_source
from muntin.sql.type_name import type_name
from muntin.stream import Stream
from muntin.view.views import feed_views


def push(catalog: Catalog, stream: str, batch: object) -> None:
    """Take in a batch of events, and all that follows from it."""
    shard = pushed(catalog, stream)
    if catalog.views.reads(stream):
        feed_views(catalog.views, catalog.joins, shard, batch)
    elif catalog.joins.reads(stream):
        feed(catalog.joins, shard, batch)
    else:
        shard.insert(batch)
    flow(catalog, stream)


def pushed(catalog: Catalog, stream: str) -> Shard:
    """The shard of a stream that events are pushed into; an error if it follows from others."""
    if stream in catalog.window_streams or stream in catalog.selections:
        refuse_pushing(catalog.streams[stream])
    return catalog.shard(stream)


def flow(catalog: Catalog, stream: str, until: int | None = None) -> None:
    """Bring up to date what follows from a stream: as far as its watermark, or as `until` promises."""
    fed = list(_fed_by(catalog, stream))
    if not fed:  # nobody asks how far the stream has come, and what was pushed may wait
        return
    source = catalog.shards[stream]
    reached = source.clock.watermark
    if until is not None:
        reached = until if reached is None else max(reached, until)
    if reached is None:
        return
    for name in fed:
        _follow(catalog, source, catalog.shards[name], reached)
        flow(catalog, name)


def flow_all(catalog: Catalog, until: int | None) -> None:
    """Bring all streams of windows up to date."""
    for name in list(catalog.shards) if catalog.window_streams else ():
        if name not in catalog.window_streams:
            flow(catalog, name, until)


def emitted_until(catalog: Catalog, stream: str, until: int | None) -> int | None:
    """How far the queries over a stream are to emit: only its query can promise the time of a stream of windows."""
    if until is None or stream not in catalog.window_streams:
        return until
    reached = catalog.shards[stream].clock.watermark
    return until if reached is not None and until < reached else None


def _fed_by(catalog: Catalog, stream: str) -> Iterator[str]:
    for name, each in list(catalog.window_streams.items()):
        if catalog.stream_of[each.query] == stream:
            yield name


def _follow(catalog: Catalog, source: Shard, shard: Shard, reached: int) -> None:
    """Have a row for each row of the windows that have closed since the last time."""
    stream = shard.stream
    assert isinstance(stream, WindowStream)
    query, fed_to = catalog.query(stream.query), shard.clock.watermark
    last = source.registrations[stream.query].pace.floor(reached)
    if fed_to is not None and last <= fed_to:  # most of the time
        return
    to_instant = end_to_instant(query)
    for answers in source.closed(stream.query, fed_to, last):
        instants = np.asarray(answers["window_end"].cast(pa.int64())) + to_instant
        at = pa.array(instants - 1, pa.int64()).view(pa.timestamp("us"))
        _take_in(shard, answers.add_column(0, stream.time, at))
        lacking = instants[~np.asarray(answers["complete"])]
        if len(lacking):
            shard.know_from(int(lacking.max()))
    shard.clock.promise(last)


def _take_in(shard: Shard, rows: pa.Table) -> None:
    """Take in rows, but for those that some query over them has no value for: what they come from is in already."""
    admitted = shard.admit(rows)
    try:
        shard.take_in(admitted)
    except MuntinError:
        found = shard.find_without_value(admitted)
        if found.sound.all():
            raise
        warnings.warn(
            f"stream '{shard.stream.name}' leaves out rows of which a value does not exist: {found.why()[0]}",
            RuntimeWarning,
            stacklevel=2,
        )
        shard.insert(rows.filter(pa.array(found.sound)))


# Streams of windows that come, and queries that are replaced or rewound below them.


def create(catalog: Catalog, stream: Stream) -> None:
    """Have a stream from now on."""
    if isinstance(stream, Selection):
        catalog.selections[stream.name] = stream
        return
    catalog.shards[stream.name] = shard = catalog.make_shard(stream)
    if isinstance(stream, WindowStream):
        catalog.window_streams[stream.name] = stream
        _begin(catalog, stream, shard)


def forget(catalog: Catalog, name: str) -> None:
    """A stream that nobody reads is gone."""
    if catalog.selections.pop(name, None) is None:
        del catalog.shards[name]
        catalog.window_streams.pop(name, None)


def _begin(catalog: Catalog, stream: WindowStream, shard: Shard) -> None:
    """Begin with the windows of a query that close from now on; what closed before is missing, and so is what the query
    does not know."""
    source = catalog.shards[catalog.stream_of[stream.query]]
    registration = source.registrations[stream.query]
    pace, clock = registration.pace, source.clock
    reached, first = clock.watermark, clock.first
    if registration.history is not None:
        reached, first = (
            max(reached or registration.history.end, registration.history.end),
            registration.history.start,
        )
    if reached is None:
        return
    last = pace.floor(reached)
    shard.clock.promise(last)
    if first is not None and last > first:
        shard.know_from(last)
    covered_from = source.coverage(stream.query).complete_from
    if covered_from is not None:
        shard.know_from(pace.floor(int(covered_from.astype("datetime64[us]").astype(np.int64)) - 1))


def begin_again(catalog: Catalog, query: str) -> None:
    """Another query has a name, or the same one knows less: the streams of its windows go on with what it knows."""
    for name, each in catalog.window_streams.items():
        if each.query == query:
            _begin(catalog, each, catalog.shards[name])


def rewind(catalog: Catalog, stream: str, to: int) -> None:
    """Have a stream start again at an instant, and with it all that follows from it."""
    pushed(catalog, stream)
    catalog.rewind(stream, to)
    _rewind_fed(catalog, stream, to)


def _rewind_fed(catalog: Catalog, stream: str, to: int) -> None:
    for name in _fed_by(catalog, stream):
        each, shard = catalog.window_streams[name], catalog.shards[name]
        start = catalog.registration(each.query).pace.floor(to)
        if shard.clock.watermark is not None:
            shard.rewind(start)
            _rewind_fed(catalog, name, start)
        _begin(catalog, each, shard)


# What may not go, or become another.


def dependants(query: str, streams: Mapping[str, Stream]) -> list[str]:
    """The streams of a query's windows."""
    return [name for name, each in streams.items() if isinstance(each, WindowStream) and each.query == query]


def refuse_in_use(query: str, streams: Mapping[str, Stream]) -> None:
    """An error if streams have the windows of a query."""
    if found := dependants(query, streams):
        names = " and ".join(f"'{name}'" for name in found)
        raise MuntinError(
            f"query '{query}' is the source of {'stream' if len(found) == 1 else 'streams'} {names}; drop "
            f"{'it' if len(found) == 1 else 'them'} first"
        )


def refuse_replacement(
    name: str, old: AnyQuery, new: AnyQuery, streams: Mapping[str, Stream], queries: Mapping[str, str]
) -> None:
    """An error if streams have the windows of a query, and could not have those of another in its place. `queries` are
    the streams that queries read."""
    found = dependants(name, streams)
    if not found:
        return
    used = f"query '{name}' is the source of stream '{found[0]}', which "
    if (why := not_a_source(new)) is not None:
        raise MuntinError(f"{used}needs its closed windows; the new one {why}")
    if not old.answer_schema().equals(new.answer_schema()):
        raise MuntinError(
            f"{used}has its columns; the new one has others ({_listed(new)} instead of {_listed(old)})"
        )
    read: str | None = new.streams[0].name
    while read is not None:
        fed = streams.get(read)
        read = queries.get(fed.query) if isinstance(fed, WindowStream) else None
        if isinstance(fed, WindowStream) and fed.query == name:
            raise MuntinError(f"{used}the new one reads: what it answers would follow from itself")


def _listed(query: AnyQuery) -> str:
    return ", ".join(f"{field.name} {type_name(field.type)}" for field in query.answer_schema())
