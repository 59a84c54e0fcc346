"""Replay: a history once more, in order of time, with requests answered as soon as the watermark has passed them.

events     . . .. . ...  . .│. .  .. . . . │ ..  . .          a batch at a time
requests     ^      ^^      │   ^    ^ ^   │      ^           those of a batch are answered together, then
                            │              │                  what no later request can reach is forgotten
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.answer import reordered
from muntin.argument import count_of, shown
from muntin.derived import WindowStream
from muntin.engine.catalog import Catalog
from muntin.engine.engine import Engine
from muntin.engine.event_file import even_batches, history_batches
from muntin.engine.requests import answer_requests
from muntin.errors import MuntinError
from muntin.shard.requests import Requests, answerable, read_requests
from muntin.shard.shard import Shard
from muntin.stream import Stream

BATCH_ROWS = 1 << 19
ONE = "query"  # what a query is called that has no name

# events read, requests answered, and the part of all requests that these are
Progress = Callable[[int, int, float], None]


def lookup_at(
    history: Any,
    queries: str | Mapping[str, str],
    requests: Any,
    *,
    stream: str | Stream | None = None,
    at: str = "at",
    progress: Progress | None = None,
    batch_rows: int = BATCH_ROWS,
    folders: Sequence[str | Path] | None = None,
) -> pa.Table:
    """Answers of queries for each row of a table of requests, from the history of their stream.

    What `Engine.lookup_at` gives each request when a stream that is the history has passed its instant; the end of the
    history is the end of time. Memory holds the requests and their answers, what the windows reach, and a batch of the
    history, which is the path of a file or folder of events, an Arrow reader, or anything that `push` takes. It has to
    be in order of time, up to the DELAY of the stream: other events are late, and in no answer.

    `queries` is the text of one query, whose columns are called as it says, or texts by name, whose columns are called
    `name.column`; `stream` is the CREATE STREAM statement of what they read. Or `queries` is a script that has both.
    `progress` is called after every batch with the events read, the requests answered, and the part of all that these
    are.

    >>> payments = {"ts": [1, 2, 5], "account": ["a", "b", "a"], "amount": [10, 20, 30]}
    >>> asked = {"account": ["a", "a", "b"], "at": [6, 2, 5]}
    >>> lookup_at(
    ...     payments,
    ...     "SELECT account, SUM(amount) AS spent FROM payments [RANGE 4 MICROSECONDS] GROUP BY account",
    ...     asked,
    ...     stream="CREATE STREAM payments (ts BIGINT, account VARCHAR, amount BIGINT) TIMESTAMP BY ts",
    ... )["spent"].to_pylist()
    [30, 10, 20]
    """
    count_of("batch_rows", batch_rows, 1)
    # nobody asks this engine what has closed
    engine = Engine(backlog_bytes=0, folders=folders)
    catalog = engine._catalog
    names = _register(engine, queries, stream)
    asked = {name: answerable(name, catalog.query(name)) for name in names}
    streams = {query.stream.name for query in asked.values()}
    if len(streams) != 1:
        raise MuntinError(
            f"a history is that of one stream; these queries read {', '.join(sorted(streams)) or 'none'}"
        )
    given = read_requests(asked, requests, at, is_prefixed=stream is None or not isinstance(queries, str))
    shard = catalog.shards[streams.pop()]
    if isinstance(shard.stream, WindowStream):
        raise MuntinError(
            f"stream '{shard.stream.name}' {shard.stream.origin}: it has no history that could be given"
        )
    batches = even_batches(history_batches(shard.stream, history, catalog.folders), batch_rows)
    return _Replay(catalog, shard, given, progress).run(batches)


def _register(engine: Engine, queries: Any, stream: Any) -> list[str]:
    """Have the queries of a script, or those that are given beside their stream; their names."""
    if stream is None:
        if not isinstance(queries, str):
            raise MuntinError("give the CREATE STREAM statement of the history as stream=…")
        engine.execute(queries)
        if not engine.queries:
            raise MuntinError(
                "the script registers no query; write REGISTER QUERY name AS SELECT …, or give a query and stream=…"
            )
        return list(engine.queries)
    if isinstance(stream, Stream):
        engine._catalog.shards[stream.name] = engine._catalog.make_shard(stream)
    else:
        if not isinstance(stream, str):
            raise MuntinError(f"stream is a CREATE STREAM statement or a muntin.Stream, not {shown(stream)}")
        engine.execute(stream)
    engine.register_many({ONE: queries} if isinstance(queries, str) else queries)
    return list(engine.queries)


class _Replay:
    """Requests on their way through a history."""

    def __init__(self, catalog: Catalog, shard: Shard, requests: Requests, progress: Progress | None):
        self._catalog = catalog
        self._shard = shard
        self._requests = requests
        self._progress = progress
        is_in_order = bool(np.all(requests.at[1:] >= requests.at[:-1]))
        self._order = None if is_in_order else np.argsort(requests.at, kind="stable")
        self._asked = requests if self._order is None else requests.take(self._order)
        self._answered = 0
        self._parts: list[list[pa.Array]] = []

    def run(self, batches: Any) -> pa.Table:
        events = 0
        for batch in batches:
            if self._answered == len(self._asked):
                break  # what comes later is in no answer
            self._shard.insert(batch)
            events += batch.num_rows
            watermark = self._shard.clock.watermark
            if watermark is not None:
                self._answer(int(np.searchsorted(self._asked.at, watermark, side="right")))
            self._tell(events)
        if self._answered < len(self._asked):
            self._shard.clock.promise(int(self._asked.at[-1]))
        self._answer(len(self._asked))
        self._tell(events)
        if late := self._shard.clock.late_events:
            warnings.warn(
                f"{late:,} of {events:,} events of the history were late, and in no answer: sort it by time, or "
                "declare a longer DELAY",
                RuntimeWarning,
                stacklevel=3,
            )
        return self._in_order()

    def _answer(self, until: int) -> None:
        """Answer the requests before number `until`."""
        if until > self._answered or not self._parts:
            some = self._asked.slice(self._answered, until)
            self._parts.append(some.answered(answer_requests(self._catalog, some)))
            self._answered = until

    def _tell(self, events: int) -> None:
        if self._progress is not None:
            many = len(self._asked)
            self._progress(events, self._answered, self._answered / many if many else 1.0)

    def _in_order(self) -> pa.Table:
        columns = [pa.chunked_array(parts) for parts in zip(*self._parts, strict=True)]
        if self._order is not None:
            back = np.empty(len(self._order), np.int64)
            back[self._order] = np.arange(len(back))
            places = pa.array(back)
            columns = [reordered(each.combine_chunks(), places) for each in columns]
        return self._requests.wide(columns)
