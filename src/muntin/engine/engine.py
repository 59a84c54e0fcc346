"""The engine: muntin embedded in a Python process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, overload

import pyarrow as pa

from muntin.argument import count_of, note_of, path_of, query_name_of, shown, switch_of, text_of, texts_of
from muntin.crew import MOST_THREADS, Crew
from muntin.engine.cascade import emitted_until, flow_all, push, refuse_in_use, rewind
from muntin.engine.catalog import Asked, Catalog, asked_of, bulk, lookup_many, reads_view
from muntin.engine.checkpoint import load, read_checkpoint, save, write_checkpoint
from muntin.engine.event_file import filling
from muntin.engine.inspected import Inspected
from muntin.engine.requests import answer_requests, requests_of
from muntin.engine.script import run_script
from muntin.engine.tables import read_rows
from muntin.errors import MuntinError, NotFound
from muntin.instant import to_microseconds
from muntin.shard.clock import wall_clock
from muntin.shard.emit.crowd_emission import Pause, no_pause
from muntin.shard.emit.emitted import Emitted, Together
from muntin.shard.emit.portion import DEFAULT_ROWS, Answers
from muntin.shard.shard import Shard
from muntin.sketch.keyed_sketches import DEFAULT_BUDGET
from muntin.sql import parse_query
from muntin.sql.parameters import Parameters
from muntin.store.saved import pack_rows, refusing
from muntin.stream import Stream
from muntin.view.folders import Folders

_AT_ONCE = 64  # queries that are registered before others get their turn
_TURN = 1e-4  # seconds: long enough for a thread that waits to wake up


class Engine(Inspected):
    """Streams, queries and their shared state. All methods may be called from any thread.

    A call that raises has changed nothing.

    >>> engine = Engine()
    >>> engine.execute("CREATE STREAM trades (ts TIMESTAMP, symbol VARCHAR, shares BIGINT) TIMESTAMP BY ts")
    >>> engine.register("SELECT symbol, SUM(shares) AS n FROM trades [RANGE 5 MINUTES] GROUP BY symbol", "busy")
    >>> engine.push("trades", {"ts": [0, 1_000_000], "symbol": ["A", "B"], "shares": [10, 20]})
    >>> engine.lookup("busy").select(["symbol", "n"]).to_pylist()
    [{'symbol': 'A', 'n': 10}, {'symbol': 'B', 'n': 20}]

    `backlog_bytes` bounds the state kept for windows that closed but were not asked for by
    `advance`; those who only look up need not care. `adaptive` lets window groups change to
    another structure when the ratio of updates to look-ups changes; answers are the same. `archive` is
    the folder of its materialised views; those that are there can be read at once. `sketch_bytes` is what
    approximate aggregates per key may keep, for each window group: beyond it their errors grow, and
    answers say by how much. `folders` are those that the archive and files named after BACKFILL must lie in,
    links resolved; None allows all that the process may read.
    `threads` is how many share the work of large batches, and of reading windows of many keys, the caller's among them;
    answers and their order are the same for any number, and a checkpoint can be restored with any.
    `portion_rows` is about how many rows one `advance` gives of the queries over a stream, and of joins: what exceeds
    it is left for the next call.
    `clock` gives the time on the wall, by which events of streams with AHEAD are judged; tests set it
    (`muntin.testing.WallClock`).
    """

    def __init__(
        self,
        *,
        backlog_bytes: int = 256 * 2**20,
        adaptive: bool = True,
        archive: str | Path | None = None,
        sketch_bytes: int = DEFAULT_BUDGET,
        folders: Sequence[str | Path] | None = None,
        portion_rows: int = DEFAULT_ROWS,
        clock: Callable[[], Any] = wall_clock,
        threads: int = 1,
    ):
        count_of("backlog_bytes", backlog_bytes)
        count_of("sketch_bytes", sketch_bytes)
        count_of("portion_rows", portion_rows, 1)
        switch_of("adaptive", adaptive)
        crew = Crew(count_of("threads", threads, 1, MOST_THREADS))
        folder = None if archive is None else path_of("archive", archive)
        if not callable(clock):
            raise MuntinError(f"clock is a function without arguments that gives an instant, not {clock!r}")
        self._lock, self._writing = threading.RLock(), threading.Lock()  # the latter of a checkpoint

        def make_shard(stream: Stream) -> Shard:
            return Shard(
                stream, backlog_bytes, adaptive, sketch_bytes, portion_rows, lambda: to_microseconds(clock()),
                tables=self._catalog.tables, crew=crew,
            )  # fmt: skip

        self._catalog = Catalog(make_shard, backlog_bytes, folder, Folders(folders), portion_rows)
        self._shards, self._joins = self._catalog.shards, self._catalog.joins
        self._views = self._catalog.views
        self._note: Any = None
        self._threads = threads
        self.pause: Pause = (
            no_pause  # called within `advance`, which may look something up then and change nothing
        )

    # -- statements --------------------------------------------------------------------------------

    def execute(self, sql: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Run statements; returns what the last one gives: answers of a SELECT, text of an EXPLAIN.

        A script is checked as a whole before its first statement runs. `parameters` are values of `$name` in it.
        """
        text_of("sql", sql)
        return run_script(self._catalog, self._lock, sql, self.lookup, parameters)

    def select_many(self, texts: Sequence[str]) -> list[pa.Table]:
        """Answers of SELECTs from views, in order; those with the same bounds of the same view's key, also over
        smaller windows, share one probe."""
        with self._lock:
            return self._views.select_texts(texts_of("texts", texts), self.sources)

    def register(
        self, sql: str, name: str, *, parameters: Mapping[str, Any] | None = None, backfill: Any = None
    ) -> None:
        """Add a standing query; it answers at once from the state that is there, or from its `backfill`. `parameters`
        are values of `$name` in its text."""
        self.register_many({text_of("name", name): sql}, parameters=parameters, backfill=backfill)

    def register_many(
        self,
        queries: Mapping[str, str],
        *,
        parameters: Mapping[str, Any] | None = None,
        backfill: Any = None,
    ) -> None:
        """Add queries by name, all or none. Others get their turn while it lasts, so events may come in between.
        `parameters` are values of `$name` in their texts.

        `backfill` is the history of their stream: a path of a Parquet, Arrow, CSV or JSON lines file or a folder
        of them, a pyarrow RecordBatchReader, or anything that `push` takes. It counts as far as it lies before
        the latest event that the stream has seen; what is pushed from now on follows.
        """
        sources = self.sources
        if not isinstance(queries, Mapping):
            raise MuntinError(f"queries is a dict {{name: sql}}, not {shown(queries)}")
        for name, sql in queries.items():
            query_name_of(name)
            text_of("sql", sql)
        values = Parameters(parameters)
        with bulk(len(queries) if backfill is None else 0):
            # what takes longest is done while others go on: all that can be told of a text by itself
            templates = self._catalog.templates
            asked = {
                name: asked_of(parse_query(sql, sources, templates, values)) for name, sql in queries.items()
            }
            values.check()
            self._register_many(asked, backfill)

    def _register_many(self, asked: Mapping[str, Asked], backfill: Any) -> None:
        added: list[str] = []
        with self._lock:
            self._catalog.reserve(asked)
        try:
            if backfill is not None and asked:
                with filling(self._catalog, self._lock, asked, backfill) as filled, self._lock:
                    self._catalog.graft(filled)
                return
            for names in (list(asked)[at : at + _AT_ONCE] for at in range(0, len(asked), _AT_ONCE)):
                if added:
                    time.sleep(_TURN)  # a lock that is taken again at once is never anyone else's
                with self._lock:
                    self._catalog.add({name: asked[name] for name in names})
                added += names
        except BaseException:
            for name in added:
                self.drop(name)
            raise
        finally:
            with self._lock:
                self._catalog.reserved -= asked.keys()

    def drop(self, name: str) -> None:
        """Remove a query; no other query's answer changes, and what only it needed is freed."""
        text_of("name", name)
        with self._lock:
            if name in self._views.at_work:
                raise MuntinError(f"'{name}' is a view: write DROP MATERIALIZED VIEW {name}")
            refuse_in_use(name, self._catalog.streams)
            self._catalog.drop(name)

    def load(self, table: str, data: Any) -> None:
        """Put rows into a table: each is inserted, or replaces the row with its primary key. All or none.

        `data` is the path of a file or folder, a pyarrow RecordBatchReader, or anything that `push` takes. Others go on
        while it is read.
        """
        with self._lock:
            rows = self._catalog.table(text_of("table", table))
        given = read_rows(rows.table, data, self._catalog.folders)
        with self._lock:
            if self._catalog.tables.get(table) is not rows:
                raise NotFound(f"table '{table}' was dropped while its rows were read")
            self._catalog.change(rows, rows.to_put(given))

    # -- events ------------------------------------------------------------------------------------

    def push(self, stream: str, batch: Any) -> None:
        """Take in a batch: a pyarrow Table or RecordBatch, pandas or polars frame, or dict of columns.

        Events later than the stream's DELAY allows, or further ahead than its AHEAD, are left out and counted in
        `stats()`.
        """
        with self._lock:
            push(self._catalog, text_of("stream", stream), batch)

    def rewind(self, stream: str, to: Any) -> None:
        """Set a stream's watermark back: its state is dropped, its queries stay, and it starts again at `to`.

        For a stream that an event with a wrong time has brought too far. What came since `to` is to be pushed again.
        """
        text_of("stream", stream)
        instant = to_microseconds(to)
        with self._lock:
            rewind(self._catalog, stream, instant)

    # -- answers -----------------------------------------------------------------------------------

    @contextmanager
    def alone(self, wait: bool = True) -> Iterator[bool]:
        """Keep other threads out for several calls, so that these see the same events.

        Gives False, and keeps nobody out, if another thread is at work and this one is not to `wait`.
        """
        is_alone = self._lock.acquire(switch_of("wait", wait))
        try:
            yield is_alone
        finally:
            if is_alone:
                self._lock.release()

    def lookup(self, name: str, key: Any = None, at: Any = None) -> pa.Table:
        """One query's answers from every event pushed so far.

        `at` is any instant the state still covers, by default just after the latest event. `key` is one
        key or a list; a key of several columns is a tuple.
        """
        text_of("name", name)
        with self._lock:
            if reads_view(self._catalog, name):
                if at is not None:
                    raise MuntinError(
                        f"'{name}' is a view: it answers as of its last update, at no other instant"
                    )
                return self._views.lookup(name, key)
            return self._catalog.serving(name).lookup(name, key, None if at is None else self._instant(at))

    def rows(self, name: str, key: Any = None, at: Any = None) -> list[dict[str, Any]]:
        """What `lookup` gives, as plain Python objects; for one key in a fraction of the time."""
        text_of("name", name)
        with self._lock:
            serving = None if reads_view(self._catalog, name) else self._catalog.serving(name)
            if isinstance(serving, Shard):
                return serving.rows(name, key, None if at is None else self._instant(at))
            found: list[dict[str, Any]] = self.lookup(name, key, at).to_pylist()
            return found

    def value(self, name: str, key: Any = None, at: Any = None) -> Any:
        """The first value of one query's answer (for one key) as a plain Python object; None if NULL,
        or if the key has no answer."""
        with self._lock:
            return self._catalog.serving(text_of("name", name)).value(
                name, key, None if at is None else self._instant(at)
            )

    def lookup_many(self, names: Sequence[str], at: Any = None) -> pa.Table:
        """The first values of many queries at once: query, value, window_start, window_end, complete.

        For queries without keys over time windows; a million a second and more. Ask for the same
        names in the same order again and nothing needs to be prepared anew.
        """
        with self._lock:
            chosen = tuple(texts_of("names", names))
            return lookup_many(self._catalog, chosen, None if at is None else self._instant(at))

    def lookup_at(self, names: str | Sequence[str], requests: Any, *, at: str = "at") -> pa.Table:
        """Answers for each row of a table of requests: keys, and an instant in the column `at`; in their order.

        What `lookup(key, at)` gives once the watermark has passed the instant: the columns of the request, then those
        of the query, `found` (whether there is such a row) and `complete`. Of a list of names, all answers side by
        side, each column called `query.column`. Where the state does not cover a window, no longer or not
        yet, values are NULL and `complete` is false.
        """
        with self._lock:
            given = requests_of(self._catalog, names, requests, at)
            return given.wide(given.answered(answer_requests(self._catalog, given)))

    @overload
    def advance(self, until: Any = None, *, together: Literal[False] = False) -> Answers: ...

    @overload
    def advance(self, until: Any = None, *, together: Literal[True]) -> Together: ...

    def advance(self, until: Any = None, *, together: bool = False) -> Answers | Together:
        """Answers of every window that closed since the last call, by query name.

        Goes as far as the watermark; `until` stops earlier, or promises that time has reached it. If there are
        more rows than `portion_rows`, `more` of what is returned is true, and the next call goes on.
        `together` gives a list of tables instead, one for each schema, whose first column `query` says whose answer a
        row is: of thousands of small answers, that is what takes least time.
        """
        switch_of("together", together)
        with bulk(len(self._catalog.stream_of)):
            with self._lock:
                instant = None if until is None else self._instant(until)
                found = Emitted()
                flow_all(self._catalog, instant)
                for name, shard in self._shards.items():
                    found.also(shard.emit(emitted_until(self._catalog, name, instant), self.pause))
                found.also(Emitted.of(self._joins.advance(instant)))
                if self._views.at_work:
                    found = Emitted.of(found.by_query())
                    found.more |= self._views.follow(found.alone, instant)
                names = list(self._catalog.stream_of) if found.alone or found.shared else []
            # others go on while it is cut, which takes a fifth of the time of a thousand small answers
            return found.together() if together else found.by_query().in_order_of(names)

    def _instant(self, given: Any) -> int:
        """Microseconds of an instant that a caller gives."""
        nows = [now for each in self._shards.values() if (now := each.clock.now) is not None]
        return to_microseconds(given, max(nows, default=None))

    # -- what is there -----------------------------------------------------------------------------

    def close(self) -> None:
        """Let other processes write the archive; its views are not kept up to date any more, but stay readable."""
        with self._lock:
            for name in self._views.close():
                for each in (name, *self._views.standing.of(name)):
                    if each in self._catalog.stream_of:
                        self._catalog.drop(each)

    # -- checkpoints -------------------------------------------------------------------------------

    def checkpoint(self, path: str | Path, *, note: Any = None) -> None:
        """Write all streams, queries and state to one file, while others go on; the old file stays until it is whole.

        `note` is what the caller must know to go on, such as the offset of each source: data that JSON can say.
        The engine that is restored has it as `note`. A symbolic link is followed. What is no regular file is refused.
        """
        noted = note_of("note", note)
        with self._writing:  # one at a time, so that the last call is what is there in the end
            with self._lock:
                saved = save(self._catalog, noted, self._threads)
            write_checkpoint(path_of("path", path), pack_rows(*saved))

    @property
    def note(self) -> Any:
        """What was given as `note` to the checkpoint that this engine was restored from."""
        return self._note

    @classmethod
    def restore(
        cls,
        path: str | Path,
        *,
        backlog_bytes: int = 256 * 2**20,
        adaptive: bool = True,
        archive: str | Path | None = None,
        sketch_bytes: int = DEFAULT_BUDGET,
        folders: Sequence[str | Path] | None = None,
        incomplete_views: bool = False,
        portion_rows: int = DEFAULT_ROWS,
        clock: Callable[[], Any] = wall_clock,
        threads: int | None = None,
    ) -> Engine:
        """An engine that goes on where a checkpoint was taken, with as many `threads` unless others are given.

        The archives of its views must hold what they held then, or more: an archive that is lost or older is
        refused. With `incomplete_views` the engine goes on all the same, and these views say that they are incomplete
        until their windows are known.
        """
        switch_of("incomplete_views", incomplete_views)
        read = read_checkpoint(path_of("path", path))
        description = read.description
        engine = cls(
            backlog_bytes=backlog_bytes, adaptive=adaptive, archive=archive, sketch_bytes=sketch_bytes,
            folders=folders, portion_rows=portion_rows, clock=clock,
            threads=description.get("threads", 1) if threads is None else threads,
        )  # fmt: skip
        try:
            with refusing(f"checkpoint '{path}'"), bulk(len(description["queries"])):
                load(engine._catalog, read, incomplete_views)
                engine._note = description.get("note")
        except BaseException:
            engine._views.close()
            raise
        return engine
