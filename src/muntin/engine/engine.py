"""The engine: muntin embedded in a Python process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import pyarrow as pa

from muntin.engine.backfill import Backfill
from muntin.engine.checkpoint import read_checkpoint, write_checkpoint
from muntin.engine.history import history_batches
from muntin.engine.instant import to_microseconds
from muntin.engine.join_feed import feed
from muntin.engine.join_operator import JoinOperator
from muntin.engine.join_stats import explain_joins, join_stats
from muntin.engine.operator import Operator
from muntin.engine.stats import running, stream_stats
from muntin.engine.view_feed import feed_views
from muntin.engine.view_statements import run_view
from muntin.engine.views import Views
from muntin.errors import MuntinError, NameTaken, NotFound, nearest
from muntin.join_query import AnyQuery, JoinQuery
from muntin.plan.explain import explain_group, explain_query, explain_stream
from muntin.plan.explain_join import explain_join
from muntin.plan.request import Request, request_of
from muntin.query import Query
from muntin.sql import (
    AlterView,
    CreateStream,
    CreateView,
    DropQuery,
    DropStream,
    DropView,
    Explain,
    ExplainView,
    RegisterQuery,
    Select,
    Statement,
    parse_query,
    parse_statements,
    parse_view,
)
from muntin.stream import Stream
from muntin.synopsis.sketch.keyed_sketches import DEFAULT_BUDGET
from muntin.window import span

Asked = Request | JoinQuery
Method = TypeVar("Method", bound=Callable[..., Any])

_AT_ONCE = 64  # queries that are registered before others get their turn
_ROUNDS = 3  # in which a backfill catches up with the stream, before the last in which the stream waits
_TURN = 1e-4  # seconds: long enough for a thread that waits to wake up


class Engine:
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
    answers say by how much.
    """

    def __init__(
        self,
        *,
        backlog_bytes: int = 256 * 2**20,
        adaptive: bool = True,
        archive: str | Path | None = None,
        sketch_bytes: int = DEFAULT_BUDGET,
    ):
        _check_bytes("backlog_bytes", backlog_bytes)
        _check_bytes("sketch_bytes", sketch_bytes)
        self._sketch_bytes = sketch_bytes
        self._adaptive = adaptive
        self._lock = threading.RLock()
        self._backlog_bytes = backlog_bytes
        self._operators: dict[str, Operator] = {}
        self._stream_of: dict[str, str] = {}  # by query name; of a join, the left one
        self._reserved: set[str] = set()  # names of queries that are on their way
        self._joins = JoinOperator(lambda stream: self._operators[stream].shard.clock, backlog_bytes)
        self._views = Views(archive, self._joins)

    # -- statements --------------------------------------------------------------------------------

    def execute(self, sql: str) -> Any:
        """Run statements; returns what the last one gives: answers of a SELECT, text of an EXPLAIN.

        A script is checked as a whole before its first statement runs.
        """
        streams = self.streams
        statements = parse_statements(sql, streams, self._views.known())  # while others go on
        with self._lock:
            self._check_names(statements)  # before any history is read
        with ExitStack() as histories:
            filled = [
                histories.enter_context(self._filling({each.name: _asked(each.query)}, each.backfill))
                if isinstance(each, RegisterQuery) and each.backfill is not None
                else None
                for each in statements
            ]
            with self._lock:
                if self.streams != streams:
                    if any(filled):
                        raise MuntinError(
                            "streams came or went while the history was read; run the script again"
                        )
                    statements = parse_statements(sql, self.streams, self._views.known())
                self._check_names(statements)
                return [self._run(*each) for each in zip(statements, filled, strict=True)][-1]

    def select_many(self, texts: Sequence[str]) -> list[pa.Table]:
        """Answers of SELECTs from views, in order; those with the same bounds of the same view's key, also over
        smaller windows, share one probe."""
        with self._lock:
            return self._views.select_texts(texts, self.streams)

    def register(self, sql: str, name: str, *, backfill: Any = None) -> None:
        """Add a standing query; it answers at once from the state that is there, or from its `backfill`."""
        self.register_many({name: sql}, backfill=backfill)

    def register_many(self, queries: Mapping[str, str], *, backfill: Any = None) -> None:
        """Add queries by name, all or none. Others get their turn while it lasts, so events may come in between.

        `backfill` is the history of their stream: a path of a Parquet, Arrow, CSV or JSON lines file or a folder
        of them, a pyarrow RecordBatchReader, or anything that `push` takes. It counts as far as it lies before
        the latest event that the stream has seen; what is pushed from now on follows.
        """
        streams = self.streams
        for name, sql in queries.items():
            _check_texts(name, sql)
        # what takes longest is done while others go on: all that can be told of a text by itself
        asked = {name: _asked(parse_query(sql, streams)) for name, sql in queries.items()}
        added: list[str] = []
        with self._lock:
            self._reserve(asked)
        try:
            if backfill is not None and asked:
                with self._filling(asked, backfill) as filled, self._lock:
                    self._join(filled)
                return
            for names in _chunks(list(asked), _AT_ONCE):
                if added:
                    time.sleep(_TURN)  # a lock that is taken again at once is never anyone else's
                with self._lock:
                    self._add({name: asked[name] for name in names})
                added += names
        except BaseException:
            for name in added:
                self.drop(name)
            raise
        finally:
            with self._lock:
                self._reserved -= asked.keys()

    def drop(self, name: str) -> None:
        """Remove a query; no other query's answer changes, and what only it needed is freed."""
        with self._lock:
            if name in self._views.at_work:
                raise MuntinError(f"'{name}' is a view: write DROP MATERIALIZED VIEW {name}")
            self._drop(name)

    # -- events ------------------------------------------------------------------------------------

    def push(self, stream: str, batch: Any) -> None:
        """Take in a batch: a pyarrow Table or RecordBatch, pandas or polars frame, or dict of columns.

        Events later than the stream's DELAY allows are left out and counted in `stats()`.
        """
        with self._lock:
            operator = self._operator(stream)
            if self._views.reads(stream):
                feed_views(self._views, self._joins, operator.shard, batch)
            elif self._joins.reads(stream):
                feed(self._joins, operator.shard, batch)
            else:
                operator.insert(batch)

    # -- answers -----------------------------------------------------------------------------------

    def lookup(self, name: str, key: Any = None, at: Any = None) -> pa.Table:
        """One query's answers from every event pushed so far.

        `at` is any instant the state still covers, by default just after the latest event. `key` is one
        key or a list; a key of several columns is a tuple.
        """
        with self._lock:
            if name in self._views.at_work or (name not in self._stream_of and name in self._views.known()):
                if at is not None:
                    raise MuntinError(
                        f"'{name}' is a view: it answers as of its last update, at no other instant"
                    )
                return self._views.lookup(name, key)
            return self._operator_of(name).lookup(name, key, None if at is None else to_microseconds(at))

    def value(self, name: str, key: Any = None, at: Any = None) -> Any:
        """The first value of one query's answer (for one key) as a plain Python object; None if NULL,
        or if the key has no answer."""
        with self._lock:
            return self._operator_of(name).value(name, key, None if at is None else to_microseconds(at))

    def lookup_many(self, names: Sequence[str], at: Any = None) -> pa.Table:
        """The first values of many queries at once: query, value, window_start, window_end, complete.

        For queries without keys over time windows; a million a second and more. Ask for the same
        names in the same order again and nothing needs to be prepared anew.
        """
        with self._lock:
            if isinstance(names, str):
                raise MuntinError(f"lookup_many takes a list of names: write ['{names}']")
            chosen = tuple(names)
            streams = {self._stream_of[name] for name in chosen if name in self._stream_of}
            for name in chosen:
                self._require(name, self._stream_of, "query")
            if joined := tuple(name for name in chosen if name in self._joins.group_of):
                return self._joins.lookup_many(joined)
            if len(streams) != 1:
                raise MuntinError("lookup_many takes the names of queries over one stream")
            instant = None if at is None else to_microseconds(at)
            return self._operators[streams.pop()].lookup_many(chosen, instant)

    def advance(self, until: Any = None) -> dict[str, pa.Table]:
        """Answers of every window that closed since the last call, by query name.

        Goes as far as the watermark; `until` stops earlier, or promises that time has reached it.
        """
        with self._lock:
            instant = None if until is None else to_microseconds(until)
            answers: dict[str, pa.Table] = {}
            for operator in self._operators.values():
                answers |= operator.advance(instant)
            answers |= self._joins.advance(instant)
            self._views.follow(answers, instant)
            return {name: answers[name] for name in self._stream_of if name in answers}

    # -- what is there -----------------------------------------------------------------------------

    @property
    def streams(self) -> Mapping[str, Stream]:
        """Streams by name."""
        with self._lock:
            return MappingProxyType({name: each.shard.stream for name, each in self._operators.items()})

    @property
    def queries(self) -> Mapping[str, AnyQuery]:
        """Registered queries by name, in order of registration."""
        with self._lock:
            return MappingProxyType({name: self._registration(name).query for name in self._stream_of})

    def explain(self, name: str | None = None) -> str:
        """The plan: which queries share which state, by which rule, at what predicted and measured cost; of one
        query or of all."""
        with self._lock:
            if name in self._joins.group_of:
                return explain_joins(self._joins, self._joins.group_of[name].signature)
            if name is not None:
                self._require(name, self._stream_of, "query")
                shard = self._operators[self._stream_of[name]].shard
                numbers, groups = sorted(shard.manager.placements[name].groups()), shard.manager.groups
                return "\n\n".join(
                    explain_group(groups[each], running(shard, each), groups.values()) for each in numbers
                )
            parts = [self._explain_stream(each) for each in self._operators.values()]
            parts += filter(None, [explain_joins(self._joins)])
            return "\n\n".join([*parts, *map(self._views.explain, self._views.at_work)]) or "no streams"

    def stats(self) -> dict[str, Any]:
        """Counters: events, late events, watermark, bytes and costs by stream; answers given by query."""
        with self._lock:
            queries = {
                name: {"stream": _streams_read(each.query), "emitted": each.emitted, "missed": each.missed}
                for name in self._stream_of
                for each in [self._registration(name)]
            }
            return {
                "streams": {name: stream_stats(each.shard) for name, each in self._operators.items()},
                "queries": queries,
                "joins": join_stats(self._joins),
                "views": self._views.stats(),
            }

    def close(self) -> None:
        """Let other processes write the archive; its views are not kept up to date any more, but stay readable."""
        with self._lock:
            for name in self._views.close():
                self._drop_join(name)

    def check(self) -> None:
        """Assert every invariant of the state; for tests and for the suspicious."""
        with self._lock:
            for operator in self._operators.values():
                operator.check()
            self._joins.check()
            self._views.check()

    # -- checkpoints -------------------------------------------------------------------------------

    def checkpoint(self, path: str | Path) -> None:
        """Write all streams, queries and state to one file; the old file stays until it is whole."""
        with self._lock:
            self._views.refuse_pending()
            description: dict[str, Any] = {"streams": [], "queries": list(self._stream_of)}
            arrays: dict[str, Any] = {}
            for number, operator in enumerate(self._operators.values()):
                stream, (state, named) = operator.shard.stream, operator.snapshot()
                description["streams"].append(
                    {"name": stream.name, "time": stream.time, "delay": stream.delay, "state": state}
                )
                arrays[f"{number}/schema"] = pa.array([stream.schema.serialize().to_pybytes()], pa.binary())
                arrays |= {f"{number}/{name}": array for name, array in named.items()}
            description["joins"], joined = self._joins.snapshot()
            arrays |= {f"joins/{name}": array for name, array in joined.items()}
            description["view_operators"], held = self._views.snapshot()
            arrays |= held
            write_checkpoint(Path(path), description, arrays)

    @classmethod
    def restore(
        cls,
        path: str | Path,
        *,
        backlog_bytes: int = 256 * 2**20,
        adaptive: bool = True,
        archive: str | Path | None = None,
        sketch_bytes: int = DEFAULT_BUDGET,
    ) -> Engine:
        """An engine that goes on where a checkpoint was taken."""
        description, arrays = read_checkpoint(Path(path))
        engine = cls(
            backlog_bytes=backlog_bytes, adaptive=adaptive, archive=archive, sketch_bytes=sketch_bytes
        )
        for number, saved in enumerate(description["streams"]):
            prefix = f"{number}/"
            named = {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
            schema = pa.ipc.read_schema(pa.py_buffer(named.pop("schema")[0].as_py()))
            stream = Stream(saved["name"], schema, saved["time"], saved["delay"])
            operator = engine._operators[stream.name] = engine._make_operator(stream)
            texts = {name: each["text"] for name, each in saved["state"]["registrations"].items()}
            parsed = {name: parse_query(text, {stream.name: stream}) for name, text in texts.items()}
            queries = {name: query for name, query in parsed.items() if isinstance(query, Query)}
            operator.restore(saved["state"], named, queries)
            engine._stream_of |= dict.fromkeys(queries, stream.name)
        if "joins" in description:
            engine._restore_joins(description["joins"], arrays)
        engine._views.restore(description.get("view_operators", {}), arrays, engine.streams)
        engine._stream_of = {name: engine._stream_of[name] for name in description["queries"]}
        return engine

    def _restore_joins(self, description: dict[str, Any], arrays: dict[str, Any]) -> None:
        texts = {name: each["text"] for name, each in description["registrations"].items()}
        views = {name: view for name, text in texts.items() if (view := parse_view(text, self.streams))}
        joins = {name: view.source for name, view in views.items() if isinstance(view.source, JoinQuery)}
        for name in texts.keys() - views.keys():
            query = parse_query(texts[name], self.streams)
            assert isinstance(query, JoinQuery)
            joins[name] = query
        joins = {name: joins[name] for name in texts}
        prefix = "joins/"
        named = {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
        self._joins.restore(description, named, joins)
        self._stream_of |= {name: query.left.stream.name for name, query in joins.items()}
        for view in views.values():
            self._views.create(view)

    # -- within ------------------------------------------------------------------------------------

    def _make_operator(self, stream: Stream) -> Operator:
        return Operator(stream, self._backlog_bytes, self._adaptive, self._sketch_bytes)

    def _run(self, statement: Statement, filled: Backfill | None) -> Any:
        match statement:
            case CreateStream(stream):
                self._operators[stream.name] = self._make_operator(stream)
            case DropStream(name):
                del self._operators[name]
            case RegisterQuery() if filled is not None:
                self._join(filled)
            case RegisterQuery(name, query):
                self._add({name: _asked(query)})
            case DropQuery(name):
                self.drop(name)
            case Explain(name, query):
                if isinstance(query, JoinQuery):
                    return explain_join(query.signature, {"this query": query}, None)
                return self.explain(name) if query is None else explain_query(query)
            case Select(query):
                return self._try(query, lambda passing: self.lookup(passing))
            case _:
                return run_view(statement, self._views, self._add_join, self._drop_join)
        return None

    def _add_join(self, name: str, join: JoinQuery) -> None:
        self._add({name: join})

    def _drop_join(self, name: str) -> None:
        if name in self._stream_of:
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._operator_of(name).drop(name)
        del self._stream_of[name]

    def _try(self, query: AnyQuery, use: Callable[[str], Any]) -> Any:
        """Register a query only for as long as it takes to use it."""
        name = "\0"  # no query's own
        self._add({name: _asked(query)})
        try:
            return use(name)
        finally:
            self._drop(name)

    def _check_names(self, statements: list[Statement]) -> None:
        """Refuse a script of which a later statement would find its name taken or missing."""
        streams, queries = set(self._operators), dict(self._stream_of)
        joined = {name: each.query.right.stream.name for name, each in self._joins.registrations.items()}
        views = set(self._views.known())
        viewed = {name: each.query.streams for name, each in self._views.at_work.items()}
        queries |= {name: of[0] for name, of in viewed.items()}
        for statement in statements:
            match statement:
                case CreateStream(stream):
                    self._refuse_taken(stream.name, streams, "stream")
                    streams.add(stream.name)
                case DropStream(name):
                    self._require(name, streams, "stream")
                    if users := [
                        q for q, of in queries.items() if name in (of, joined.get(q), *viewed.get(q, ()))
                    ]:
                        raise MuntinError(
                            f"stream '{name}' is read by query '{users[0]}'; drop its queries first"
                        )
                    streams.remove(name)
                case RegisterQuery(name, query, _):
                    self._refuse_taken(name, queries)
                    self._refuse_taken(name, self._reserved)
                    if isinstance(query, JoinQuery):
                        joined[name] = query.right.stream.name
                    _asked(query)
                    queries[name] = query.streams[0].name
                case CreateView(view):
                    self._views.check_creation(view)
                    self._refuse_taken(view.name, queries)
                    self._refuse_taken(view.name, self._reserved)
                    queries[view.name], viewed[view.name] = view.streams[0], view.streams
                    views.add(view.name)
                case DropView(name):
                    self._views.require(name, views)
                    queries.pop(name, None)
                    views.remove(name)
                case AlterView(name, _) | ExplainView(name):
                    self._views.require(name, views)
                case DropQuery(name):
                    if name in views:
                        raise MuntinError(f"'{name}' is a view: write DROP MATERIALIZED VIEW {name}")
                    self._require(name, queries, "query")
                    del queries[name]
                case Explain(str(name), None):
                    self._require(name, queries, "query")

    @contextmanager
    def _filling(self, asked: Mapping[str, Asked], history: Any) -> Iterator[Backfill]:
        """Queries of one stream with their history filled in, ready to be joined; until the block ends they follow
        what is pushed."""
        if joins := [name for name, each in asked.items() if isinstance(each, JoinQuery)]:
            raise MuntinError(f"a backfill is the history of one stream; query '{joins[0]}' joins two")
        requests = {name: each for name, each in asked.items() if not isinstance(each, JoinQuery)}
        streams = {request.query.stream.name: request.query.stream for request in requests.values()}
        if len(streams) != 1:
            names = ", ".join(streams) or "none"
            raise MuntinError(f"a backfill is the history of one stream; these queries read {names}")
        (stream,) = streams.values()
        with self._lock:
            operator = self._operators.get(stream.name)
            if (
                operator is None or operator.shard.stream is not stream
            ):  # a script that creates it is about to run
                operator = self._make_operator(stream)
            backfill = operator.begin_backfill(requests)
        try:
            backfill.fill(history_batches(stream, history))
            for _ in range(_ROUNDS):  # what was pushed meanwhile, ever less of it
                with self._lock:
                    live = backfill.take_held()
                backfill.catch_up(live)
            yield backfill
        finally:
            with self._lock:
                operator.end_backfill(backfill)

    def _join(self, backfill: Backfill) -> None:
        """Have the queries of a backfill from now on."""
        operator = self._operator_still(backfill.stream)
        backfill.catch_up(backfill.take_held())
        operator.join(backfill)
        self._stream_of |= dict.fromkeys(backfill.shard.registrations, backfill.stream.name)

    def _operator_still(self, stream: Stream) -> Operator:
        """The operator of a stream that was there a moment ago."""
        operator = self._operators.get(stream.name)
        if operator is None or operator.shard.stream is not stream:
            raise NotFound(f"stream '{stream.name}' was dropped while a query over it was being registered")
        return operator

    def _reserve(self, names: Iterable[str]) -> None:
        """Take names for queries that will have them in a moment."""
        for name in names:
            self._refuse_taken(name, self._stream_of)
            self._refuse_taken(name, self._reserved)
        self._reserved.update(names)

    def _add(self, asked: Mapping[str, Asked]) -> None:
        by_stream: dict[str, dict[str, Request]] = {}
        joins: dict[str, JoinQuery] = {}
        for name, each in asked.items():
            for stream in _streams_of(each):
                self._operator_still(stream)
            if isinstance(each, JoinQuery):
                joins[name] = each
            else:
                by_stream.setdefault(each.query.stream.name, {})[name] = each
        added: list[tuple[str, str]] = []
        try:
            for of, some in by_stream.items():
                self._operators[of].register(some)
                added += [(of, name) for name in some]
            self._joins.register(joins)
        except BaseException:
            for of, name in added:
                self._operators[of].drop(name)
            raise
        self._stream_of |= {name: _streams_of(each)[0].name for name, each in asked.items()}

    def _refuse_taken(self, name: str, names: Any, kind: str = "query") -> None:
        if name in names:
            raise NameTaken(f"there is a {kind} '{name}' already; drop it first or choose another name")

    def _require(self, name: str, names: Any, kind: str) -> None:
        if name not in names:
            raise NotFound(f"there is no {kind} '{name}'{nearest(name, names)}")

    def _operator(self, stream: str) -> Operator:
        self._require(stream, self._operators, "stream")
        return self._operators[stream]

    def _operator_of(self, name: str) -> Operator | JoinOperator:
        if name in self._joins.group_of:
            return self._joins
        try:
            return self._operators[self._stream_of[name]]
        except KeyError:
            self._require(name, self._stream_of, "query")
            raise

    def _registration(self, name: str) -> Any:
        return self._operator_of(name).registrations[name]

    def _explain_stream(self, operator: Operator) -> str:
        shard = operator.shard
        rings = [f"ring of {len(store):,} events" for id, store in shard.stores.items() if id.kind == "ring"]
        title = f"{shard.stream.name} (DELAY {span(shard.stream.delay)})"
        groups, nestings = shard.manager.groups, shard.manager.nestings
        at_work = {number: running(shard, number) for number in groups}
        return explain_stream(title, len(shard.registrations), groups, at_work, ", ".join(rings), nestings)


def _streams_read(query: AnyQuery) -> str:
    return " JOIN ".join(stream.name for stream in query.streams)


def _asked(query: AnyQuery) -> Asked:
    """A query with all that can be told without a plan; an error if it cannot be served."""
    return query if isinstance(query, JoinQuery) else request_of(query)


def _streams_of(asked: Asked) -> tuple[Stream, ...]:
    return asked.streams if isinstance(asked, JoinQuery) else asked.query.streams


def _check_bytes(name: str, given: Any) -> None:
    if not isinstance(given, int) or given < 0:
        raise MuntinError(f"{name} is a number of bytes, not {given!r}")


def _chunks(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (names[start : start + size] for start in range(0, len(names), size))


def _check_texts(name: Any, sql: Any) -> None:
    if not isinstance(name, str) or not name or "\0" in name:
        raise MuntinError(f"a query's name is a text that is not empty, not {name!r}")
    if not isinstance(sql, str):
        raise MuntinError(f"a query is given as SQL text, not as {type(sql).__name__}")
