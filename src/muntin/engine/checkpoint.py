"""Checkpoints: a snapshot on disk, in one file.

    8 bytes   MUNTIN and the format version
    32 bytes  SHA-256 of what follows
    the rest  description and arrays, packed (store/saved.py)

Written to a temporary file beside it, flushed to disk and renamed: a crash leaves the old checkpoint or the
new one. What a process left behind that was killed meanwhile is removed by the next one that writes or reads
the same checkpoint (`remove_abandoned`). No pickle, nothing executable. `save` and `load` say what a
checkpoint holds of a catalog.
"""

from __future__ import annotations

import hashlib
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from muntin.arrow_bytes import read_sound_schema
from muntin.crew import MOST_THREADS
from muntin.derived import Selection, WindowStream, schema_of_windows
from muntin.described import COUNT, WHOLE, Absent, Between, Each, Maybe, check_shape
from muntin.engine.catalog import Catalog
from muntin.engine.draft import drafted, remove_abandoned
from muntin.errors import CheckpointError, NotFound
from muntin.join.group import JoinRegistration
from muntin.join_query import AnyQuery, JoinQuery
from muntin.own.registered import check_versions, versions_in
from muntin.query import Query
from muntin.sql import CreateStream, parse_query, parse_statements, parse_view
from muntin.sql.bind_derived import not_a_source
from muntin.store.saved import Saved, refusing, take_rows, unpack
from muntin.stream import Stream
from muntin.table import Table
from muntin.table_query import TableQuery
from muntin.tables.rows import TableRows
from muntin.view.materialized_view import Promise
from muntin.view_query import GroupedQuery, ViewQuery

_MAGIC = b"MUNTIN"
_VERSION = b"03"
_HEAD = len(_MAGIC) + len(_VERSION) + hashlib.sha256().digest_size


def write_checkpoint(given: Path, body: Any) -> None:
    """Replace the file at a path by what `save` has packed, or leave the file as it is."""
    path = _place(given)
    head = _MAGIC + _VERSION + hashlib.sha256(body).digest()
    try:
        with drafted(path) as file:
            file.write(head)
            file.write(body)
    except OSError as error:
        raise CheckpointError(f"checkpoint '{given}' cannot be written: {error.strerror or error}") from None


class _Checksum:
    """Computed by a thread, while others make use of what it is of: of a gigabyte it takes a second."""

    def __init__(self, path: Path, content: bytes):
        self._path, self._content, self._found = path, content, b""
        self._thread = threading.Thread(target=self._compute, name="muntin checksum", daemon=True)
        self._thread.start()

    def _compute(self) -> None:
        self._found = hashlib.sha256(memoryview(self._content)[_HEAD:]).digest()

    def check(self) -> None:
        """An error if the file is not exactly what was written."""
        self._thread.join()
        if self._found != self._content[_HEAD - len(self._found) : _HEAD]:
            raise CheckpointError(
                f"checkpoint '{self._path}' is damaged: its checksum does not match ({len(self._content):,} bytes)"
            )


class Checkpoint(NamedTuple):
    """A file that has been read, and may still turn out to be damaged."""

    description: dict[str, Any]
    arrays: dict[str, Any]  # which may not be written to
    checksum: _Checksum


def read_checkpoint(given: Path) -> Checkpoint:
    """What is in a file. Its checksum has to be checked before anything outside of this process follows from it."""
    path = _place(given)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"there is no checkpoint '{path}'") from None
    except OSError as error:
        raise CheckpointError(f"checkpoint '{path}' cannot be read: {error.strerror or error}") from None
    remove_abandoned(path)
    if content[:6] != _MAGIC:
        raise CheckpointError(f"'{path}' is not a muntin checkpoint")
    if content[6:8] != _VERSION:
        version = content[6:8].decode(errors="replace")
        raise CheckpointError(
            f"checkpoint '{path}' has format version {version}; this muntin reads {_VERSION.decode()}"
        )
    checksum = _Checksum(path, content)
    with refusing(f"checkpoint '{path}'"):
        try:
            description, arrays = unpack(memoryview(content)[_HEAD:])
            check_shape(description, _SHAPE, "the description")
        except Exception:
            checksum.check()  # which says more of what is wrong
            raise
    return Checkpoint(description, arrays, checksum)


def _place(given: Path) -> Path:
    """The file that is meant: where a symbolic link leads to. An error if there can be no checkpoint."""
    try:
        path = given.resolve()
        mode = path.stat().st_mode
    except FileNotFoundError:
        return path
    except (OSError, RuntimeError) as error:  # links that lead in a circle are the latter
        raise CheckpointError(
            f"checkpoint '{given}' cannot be reached: {getattr(error, 'strerror', None) or error}"
        ) from None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise CheckpointError(f"'{given}' is {kind}: a checkpoint is a file; give the path of one")
    return path


Description = dict[str, Any]
Named = dict[str, Any]  # arrays by path


_SHAPE = {
    "streams": [
        {
            "name": str,
            "time": str,
            "delay": COUNT,
            "ahead": Absent(Maybe(COUNT)),
            "query": Absent(Maybe(str)),
            "state": dict,
        }
    ],
    "selections": Absent([str]),
    "tables": Absent([{"name": str, "key": [str]}]),
    "queries": [str],
    "threads": Absent(Between(1, MOST_THREADS)),
    "functions": Absent(Each(COUNT)),  # of the user's own, that queries call: their versions
    "joins": Absent(dict),
    "view_operators": Absent(Each({"text": str})),
    "view_texts": Absent(Each(str)),  # of all views that queries may name
    "standing": Absent(Each({"text": str})),  # queries that are read from archives
    "views": Absent(
        Each({"now": Maybe(WHOLE), "epoch": COUNT, "known_from": Maybe(WHOLE), "id": Maybe(str)})
    ),
}


def save(
    catalog: Catalog, note: Any = None, threads: int = 1
) -> tuple[Description, Iterator[tuple[str, str, pa.Buffer]]]:
    """Streams, tables, queries and state, and what the caller notes down: a description and encoded arrays, which are
    copies. The catalog may change while these are packed, which takes several times as long."""
    catalog.views.refuse_pending()
    description: Description = {"streams": [], "queries": list(catalog.stream_of)}
    if note is not None:
        description["note"] = note
    if threads > 1:
        description["threads"] = threads
    arrays: Named = {}
    for number, shard in enumerate(catalog.shards.values()):
        stream, (state, named) = shard.stream, shard.snapshot()
        description["streams"].append(
            {
                "name": stream.name,
                "time": stream.time,
                "delay": stream.delay,
                "ahead": stream.ahead,
                "query": stream.query if isinstance(stream, WindowStream) else None,
                "state": state,
            }
        )
        arrays[f"{number}/schema"] = pa.array([stream.schema.serialize().to_pybytes()], pa.binary())
        arrays |= _below(f"{number}/", named)
    description["selections"] = [each.text for each in catalog.selections.values()]
    description["tables"] = [
        {"name": name, "key": list(each.table.key)} for name, each in catalog.tables.items()
    ]
    for number, rows in enumerate(catalog.tables.values()):
        arrays[f"tables/{number}/schema"] = pa.array(
            [rows.table.schema.serialize().to_pybytes()], pa.binary()
        )
        arrays |= _below(f"tables/{number}/", rows.snapshot())
    description["joins"], joined = catalog.joins.snapshot()
    description["view_operators"], held = catalog.views.snapshot()
    description["views"] = catalog.views.promises()
    description["view_texts"] = {name: each.text for name, each in catalog.views.declared.items()}
    description["standing"], standing = catalog.views.standing.snapshot()
    if functions := versions_in(_texts(description)):
        description["functions"] = functions
    return description, take_rows(arrays | _below("joins/", joined) | held | standing)


def load(catalog: Catalog, read: Checkpoint, incomplete_views: bool) -> None:
    """Fill an empty catalog; with `incomplete_views` also if archives do not hold what they did."""
    description, arrays, checksum = read
    try:
        _load_streams(catalog, description, arrays)
    finally:
        checksum.check()  # before views follow, which are on disk; and it says more than any other error
    _load_views(catalog, description, arrays, incomplete_views)
    catalog.stream_of = {name: catalog.stream_of[name] for name in description["queries"]}


def _load_streams(catalog: Catalog, description: Description, arrays: Named) -> None:
    """Streams and tables, the queries over one stream, and their state."""
    check_versions(description.get("functions", {}), "this checkpoint")
    for number, saved in enumerate(description.get("tables", [])):
        _load_table(catalog, saved, Saved(arrays).under(f"tables/{number}/"))
    of_streams = [(each, _under(f"{i}/", arrays)) for i, each in enumerate(description["streams"])]
    for (
        saved,
        named,
    ) in of_streams:  # all of them first: the queries of one may name selections of it, or of another
        _load_stream(catalog, saved, Saved(named))
    for text in description.get("selections", []):
        _load_selection(catalog, text)
    for name, text in description.get("view_texts", {}).items():
        catalog.views.declared[name] = _view_of(text, catalog)
    for saved, named in of_streams:
        _load_state(catalog, saved, named)
    _check_cascades(catalog)


def _load_views(catalog: Catalog, description: Description, arrays: Named, incomplete_views: bool) -> None:
    """Joins, the views that they and streams feed, and the queries that stand over views."""
    promises = {name: Promise(**each) for name, each in description.get("views", {}).items()}
    for view in [each for each in catalog.views.declared.values() if isinstance(each.source, GroupedQuery)]:
        if view.name in catalog.stream_of:
            made = catalog.views.resume(view, promises[view.name], incomplete_views)
            made.feed(catalog.feed_of(view))
    if "joins" in description:
        views = _load_joins(catalog, description["joins"], _under("joins/", arrays))
        for view in views:
            registration = catalog.joins.registrations[view.name]
            promise = promises.get(view.name, Promise(_last_update(view, registration)))  # 0.1 made none
            catalog.views.resume(view, promise, incomplete_views).feed(registration)
    held = description.get("view_operators", {})
    catalog.views.restore(held, arrays, catalog.streams, promises, incomplete_views)
    _load_standing(catalog, description.get("standing", {}), arrays)


def _texts(description: Description) -> Iterator[str]:
    """The texts of all queries and views."""
    holders = [each["state"]["registrations"] for each in description["streams"]]
    standing = description["standing"]
    for some in (*holders, description["joins"]["registrations"], description["view_operators"], standing):
        yield from (each["text"] for each in some.values())


def _load_table(catalog: Catalog, saved: Description, arrays: Saved) -> None:
    table = Table(saved["name"], _schema_in(arrays), tuple(saved["key"]))
    rows = catalog.tables[table.name] = TableRows(table)
    rows.restore(arrays)


def _schema_in(arrays: Saved) -> pa.Schema:
    return read_sound_schema(arrays.column("schema", {pa.binary()}, 1)[0].as_py())


def _load_stream(catalog: Catalog, saved: Description, arrays: Saved) -> None:
    declared = saved["name"], _schema_in(arrays), saved["time"], saved["delay"], saved.get("ahead")
    stream = Stream(*declared)
    if (query := saved.get("query")) is not None:
        stream = catalog.window_streams[stream.name] = WindowStream(*declared, query=query)
    catalog.shards[stream.name] = catalog.make_shard(stream)


def _load_selection(catalog: Catalog, text: str) -> None:
    (statement,) = parse_statements(text, catalog.sources)
    if not isinstance(statement, CreateStream) or not isinstance(statement.stream, Selection):
        raise CheckpointError(f"it has a stream that selects from another, and is declared as: {text}")
    catalog.selections[statement.stream.name] = statement.stream


def _load_state(catalog: Catalog, saved: Description, arrays: Named) -> None:
    """The queries over a stream, and their state."""
    shard, sources = catalog.shards[saved["name"]], catalog.sources
    texts = {name: each["text"] for name, each in saved["state"]["registrations"].items()}
    declared = catalog.views.declared
    parsed: dict[str, AnyQuery] = {}
    for name, text in texts.items():
        view = declared[name].source if name in declared and declared[name].text == text else None
        parsed[name] = (
            view.query if isinstance(view, GroupedQuery) else parse_query(text, sources, catalog.templates)
        )
    queries = {name: query for name, query in parsed.items() if isinstance(query, Query | TableQuery)}
    shard.restore(saved["state"], arrays, queries)
    catalog.stream_of |= dict.fromkeys(queries, shard.stream.name)


def _check_cascades(catalog: Catalog) -> None:
    """What is read may claim anything: a stream has the windows of a query that closes some, and of none above it."""
    for name, stream in catalog.window_streams.items():
        query = catalog.query(stream.query) if stream.query in catalog.stream_of else None
        if query is None or not_a_source(query) or not stream.schema.equals(schema_of_windows(query)):
            raise CheckpointError(f"its stream '{name}' has other columns than query '{stream.query}'")
        above, seen = stream, {name}
        while (read := catalog.window_streams.get(catalog.stream_of.get(above.query, ""))) is not None:
            if read.name in seen:
                raise CheckpointError(f"its stream '{name}' follows from itself")
            seen.add(read.name)
            above = read


def _load_joins(catalog: Catalog, saved: Description, arrays: Named) -> list[ViewQuery]:
    """Have the joins; the views that they feed."""
    texts = {name: each["text"] for name, each in saved["registrations"].items()}
    views = {name: view for name, text in texts.items() if (view := parse_view(text, catalog.streams))}
    joins = {name: view.source for name, view in views.items() if isinstance(view.source, JoinQuery)}
    for name in texts.keys() - views.keys():
        query = parse_query(texts[name], catalog.sources, catalog.templates)
        assert isinstance(query, JoinQuery)
        joins[name] = query
    joins = {name: joins[name] for name in texts}
    catalog.joins.restore(saved, arrays, joins)
    catalog.stream_of |= {name: query.left.stream.name for name, query in joins.items()}
    return list(views.values())


def _load_standing(catalog: Catalog, saved: Description, arrays: Named) -> None:
    """The queries that are read from archives."""
    catalog.views.standing.restore(saved, arrays, lambda text: parse_query(text, catalog.sources))
    standing = catalog.views.standing.registrations
    catalog.stream_of |= {name: each.query.streams[0].name for name, each in standing.items()}


def _view_of(text: str, catalog: Catalog) -> ViewQuery:
    if (view := parse_view(text, catalog.streams)) is None:
        raise CheckpointError(f"it has a view that is declared as: {text}")
    return view


def _last_update(view: ViewQuery, registration: JoinRegistration) -> int | None:
    """The instant that a view's archive must have reached, by what its join has given out."""
    reached = registration.emitted_to
    return None if reached is None or reached == registration.began_at else reached - reached % view.every


def _below(prefix: str, arrays: Named) -> Named:
    return {prefix + name: array for name, array in arrays.items()}


def _under(prefix: str, arrays: Named) -> Named:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
