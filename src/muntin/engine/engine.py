"""The engine: muntin embedded in a Python process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import pyarrow as pa

from muntin.engine.checkpoint import read_checkpoint, write_checkpoint
from muntin.engine.instant import to_microseconds
from muntin.engine.operator import Operator
from muntin.engine.stats import running, stream_stats
from muntin.errors import MuntinError, NameTaken, NotFound, nearest
from muntin.plan.explain import explain_group, explain_query, explain_stream
from muntin.plan.manager import check_demands
from muntin.query import Query
from muntin.sql import (
    CreateStream,
    DropQuery,
    DropStream,
    Explain,
    RegisterQuery,
    Select,
    Statement,
    parse_query,
    parse_statements,
)
from muntin.stream import Stream
from muntin.synopsis.sketch.keyed_sketches import DEFAULT_BUDGET
from muntin.window import span

Method = TypeVar("Method", bound=Callable[..., Any])


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
    another structure when the ratio of updates to look-ups changes; answers are the same.
    `sketch_bytes` is what approximate aggregates per key may keep, for each window group: beyond it
    their errors grow, and answers say by how much.
    """

    def __init__(
        self,
        *,
        backlog_bytes: int = 256 * 2**20,
        adaptive: bool = True,
        sketch_bytes: int = DEFAULT_BUDGET,
    ):
        _check_bytes("backlog_bytes", backlog_bytes)
        _check_bytes("sketch_bytes", sketch_bytes)
        self._sketch_bytes = sketch_bytes
        self._adaptive = adaptive
        self._lock = threading.RLock()
        self._backlog_bytes = backlog_bytes
        self._operators: dict[str, Operator] = {}
        self._stream_of: dict[str, str] = {}  # by query name

    # -- statements --------------------------------------------------------------------------------

    def execute(self, sql: str) -> Any:
        """Run statements; returns what the last one gives: answers of a SELECT, text of an EXPLAIN.

        A script is checked as a whole before its first statement runs.
        """
        with self._lock:
            statements = parse_statements(sql, self.streams)
            self._check_names(statements)
            result = None
            for statement in statements:
                result = self._run(statement)
            return result

    def register(self, sql: str, name: str) -> None:
        """Add a standing query; it answers at once from the state that is there."""
        self.register_many({name: sql})

    def register_many(self, queries: Mapping[str, str]) -> None:
        """Add queries by name, all or none."""
        with self._lock:
            for name, sql in queries.items():
                _check_texts(name, sql)
            parsed = {name: parse_query(sql, self.streams) for name, sql in queries.items()}
            for name in parsed:
                self._refuse_taken(name, self._stream_of)
            self._add(parsed)

    def drop(self, name: str) -> None:
        """Remove a query; no other query's answer changes, and what only it needed is freed."""
        with self._lock:
            self._operator_of(name).drop(name)
            del self._stream_of[name]

    # -- events ------------------------------------------------------------------------------------

    def push(self, stream: str, batch: Any) -> None:
        """Take in a batch: a pyarrow Table or RecordBatch, pandas or polars frame, or dict of columns.

        Events later than the stream's DELAY allows are left out and counted in `stats()`.
        """
        with self._lock:
            self._operator(stream).insert(batch)

    # -- answers -----------------------------------------------------------------------------------

    def lookup(self, name: str, key: Any = None, at: Any = None) -> pa.Table:
        """One query's answers from every event pushed so far.

        `at` is any instant the state still covers, by default just after the latest event. `key` is one
        key or a list; a key of several columns is a tuple.
        """
        with self._lock:
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
            return {name: answers[name] for name in self._stream_of if name in answers}

    # -- what is there -----------------------------------------------------------------------------

    @property
    def streams(self) -> Mapping[str, Stream]:
        """Streams by name."""
        with self._lock:
            return MappingProxyType({name: each.shard.stream for name, each in self._operators.items()})

    @property
    def queries(self) -> Mapping[str, Query]:
        """Registered queries by name, in order of registration."""
        with self._lock:
            return MappingProxyType({name: self._registration(name).query for name in self._stream_of})

    def explain(self, name: str | None = None) -> str:
        """The plan: which queries share which state, by which rule, at what predicted and measured cost; of one
        query or of all."""
        with self._lock:
            if name is not None:
                shard = self._operator_of(name).shard
                groups = sorted(shard.manager.placements[name].groups())
                return "\n\n".join(
                    explain_group(shard.manager.groups[each], running(shard, each)) for each in groups
                )
            return (
                "\n\n".join(self._explain_stream(each) for each in self._operators.values()) or "no streams"
            )

    def stats(self) -> dict[str, Any]:
        """Counters: events, late events, watermark, bytes and costs by stream; answers given by query."""
        with self._lock:
            queries = {
                name: {"stream": self._stream_of[name], "emitted": each.emitted, "missed": each.missed}
                for name in self._stream_of
                for each in [self._registration(name)]
            }
            return {
                "streams": {name: stream_stats(each.shard) for name, each in self._operators.items()},
                "queries": queries,
            }

    def check(self) -> None:
        """Assert every invariant of the state; for tests and for the suspicious."""
        with self._lock:
            for operator in self._operators.values():
                operator.check()

    # -- checkpoints -------------------------------------------------------------------------------

    def checkpoint(self, path: str | Path) -> None:
        """Write all streams, queries and state to one file; the old file stays until it is whole."""
        with self._lock:
            description: dict[str, Any] = {"streams": [], "queries": list(self._stream_of)}
            arrays: dict[str, Any] = {}
            for number, operator in enumerate(self._operators.values()):
                stream, (state, named) = operator.shard.stream, operator.snapshot()
                description["streams"].append(
                    {"name": stream.name, "time": stream.time, "delay": stream.delay, "state": state}
                )
                arrays[f"{number}/schema"] = pa.array([stream.schema.serialize().to_pybytes()], pa.binary())
                arrays |= {f"{number}/{name}": array for name, array in named.items()}
            write_checkpoint(Path(path), description, arrays)

    @classmethod
    def restore(
        cls,
        path: str | Path,
        *,
        backlog_bytes: int = 256 * 2**20,
        adaptive: bool = True,
        sketch_bytes: int = DEFAULT_BUDGET,
    ) -> Engine:
        """An engine that goes on where a checkpoint was taken."""
        description, arrays = read_checkpoint(Path(path))
        engine = cls(backlog_bytes=backlog_bytes, adaptive=adaptive, sketch_bytes=sketch_bytes)
        for number, saved in enumerate(description["streams"]):
            prefix = f"{number}/"
            named = {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
            schema = pa.ipc.read_schema(pa.py_buffer(named.pop("schema")[0].as_py()))
            stream = Stream(saved["name"], schema, saved["time"], saved["delay"])
            operator = engine._operators[stream.name] = engine._make_operator(stream)
            texts = {name: each["text"] for name, each in saved["state"]["registrations"].items()}
            queries = {name: parse_query(text, {stream.name: stream}) for name, text in texts.items()}
            operator.restore(saved["state"], named, queries)
            engine._stream_of |= dict.fromkeys(queries, stream.name)
        engine._stream_of = {name: engine._stream_of[name] for name in description["queries"]}
        return engine

    # -- within ------------------------------------------------------------------------------------

    def _make_operator(self, stream: Stream) -> Operator:
        return Operator(stream, self._backlog_bytes, self._adaptive, self._sketch_bytes)

    def _run(self, statement: Statement) -> Any:
        match statement:
            case CreateStream(stream):
                self._operators[stream.name] = self._make_operator(stream)
            case DropStream(name):
                del self._operators[name]
            case RegisterQuery(name, query):
                self._add({name: query})
            case DropQuery(name):
                self.drop(name)
            case Explain(name, query):
                return self.explain(name) if query is None else explain_query(query)
            case Select(query):
                return self._try(query, lambda passing: self.lookup(passing))
        return None

    def _try(self, query: Query, use: Callable[[str], Any]) -> Any:
        """Register a query only for as long as it takes to use it."""
        name = "\0"  # no query's own
        self._add({name: query})
        try:
            return use(name)
        finally:
            self.drop(name)

    def _check_names(self, statements: list[Statement]) -> None:
        """Refuse a script of which a later statement would find its name taken or missing."""
        streams, queries = set(self._operators), dict(self._stream_of)
        for statement in statements:
            match statement:
                case CreateStream(stream):
                    self._refuse_taken(stream.name, streams, "stream")
                    streams.add(stream.name)
                case DropStream(name):
                    self._require(name, streams, "stream")
                    if users := [query for query, of in queries.items() if of == name]:
                        raise MuntinError(
                            f"stream '{name}' is read by query '{users[0]}'; drop its queries first"
                        )
                    streams.remove(name)
                case RegisterQuery(name, query):
                    self._refuse_taken(name, queries)
                    check_demands(query)
                    queries[name] = query.stream.name
                case DropQuery(name):
                    self._require(name, queries, "query")
                    del queries[name]
                case Explain(str(name), None):
                    self._require(name, queries, "query")

    def _add(self, queries: Mapping[str, Query]) -> None:
        by_stream: dict[str, dict[str, Query]] = {}
        for name, query in queries.items():
            by_stream.setdefault(query.stream.name, {})[name] = query
        added: list[str] = []
        try:
            for stream, some in by_stream.items():
                self._operators[stream].register(some)
                added += some
        except BaseException:
            for name in added:
                self._operators[queries[name].stream.name].drop(name)
            raise
        self._stream_of |= {name: query.stream.name for name, query in queries.items()}

    def _refuse_taken(self, name: str, names: Any, kind: str = "query") -> None:
        if name in names:
            raise NameTaken(f"there is a {kind} '{name}' already; drop it first or choose another name")

    def _require(self, name: str, names: Any, kind: str) -> None:
        if name not in names:
            raise NotFound(f"there is no {kind} '{name}'{nearest(name, names)}")

    def _operator(self, stream: str) -> Operator:
        self._require(stream, self._operators, "stream")
        return self._operators[stream]

    def _operator_of(self, name: str) -> Operator:
        try:
            return self._operators[self._stream_of[name]]
        except KeyError:
            self._require(name, self._stream_of, "query")
            raise

    def _registration(self, name: str) -> Any:
        return self._operator_of(name).shard.registrations[name]

    def _explain_stream(self, operator: Operator) -> str:
        shard = operator.shard
        rings = [f"ring of {len(store):,} events" for id, store in shard.stores.items() if id.kind == "ring"]
        title = f"{shard.stream.name} (DELAY {span(shard.stream.delay)})"
        groups = shard.manager.groups
        at_work = {number: running(shard, number) for number in groups}
        return explain_stream(title, len(shard.registrations), groups, at_work, ", ".join(rings))


def _check_bytes(name: str, given: Any) -> None:
    if not isinstance(given, int) or given < 0:
        raise MuntinError(f"{name} is a number of bytes, not {given!r}")


def _check_texts(name: Any, sql: Any) -> None:
    if not isinstance(name, str) or not name or "\0" in name:
        raise MuntinError(f"a query's name is a text that is not empty, not {name!r}")
    if not isinstance(sql, str):
        raise MuntinError(f"a query is given as SQL text, not as {type(sql).__name__}")
