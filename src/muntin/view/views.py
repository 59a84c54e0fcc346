"""The views of an engine: those it keeps up to date, and those it finds in its archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.answer import Coverage
from muntin.archive import EXPIRES, GENERATED, View
from muntin.archive.view import compare_sharing
from muntin.errors import ArchiveError, MuntinError, NotFound, damaged, nearest
from muntin.join.operator import JoinOperator
from muntin.shard.clock import Clock
from muntin.shard.shard import Shard
from muntin.sql import SelectView, parse_statements, parse_view
from muntin.sql.sources import Sources
from muntin.stream import Stream
from muntin.view.answer import make_answer, read_results
from muntin.view.folders import Folders, Shelf, StoredView
from muntin.view.materialized_view import BECAUSE, FAILURES, TEXT, MaterializedView, Promise
from muntin.view.negation import Negation
from muntin.view.operator import ViewOperator
from muntin.view.selected import Selected
from muntin.view.standing import StandingSelects
from muntin.view.wide_join import WideJoin
from muntin.view_query import HIDDEN, NegationQuery, SelectionQuery, ViewQuery, WideJoinQuery
from muntin.view_select import KnownView, ViewSelect
from muntin.window import span


class Views:
    """One folder for each view; `joins` are the engine's, which the views are fed by."""

    def __init__(self, folder: str | Path | None, joins: JoinOperator, allowed: Folders):
        self._shelf = Shelf(folder, allowed)
        self._joins = joins
        self.at_work: dict[str, MaterializedView] = {}
        self.declared: dict[str, ViewQuery] = {}  # also those that this engine has ceased to keep
        self.standing = StandingSelects(
            lambda: self.at_work, joins.clock_of, lambda select: self.select_many([select])[0]
        )

    def known(self) -> dict[str, KnownView]:
        """All views by name; a SELECT from one that is damaged says so."""
        own = {name: each.query.known for name, each in self.at_work.items()}
        folders = {name: self._shelf.folder_of(name) for name in own}
        kept = {folders[name]: StoredView(folders[name], None, known) for name, known in own.items()}
        return {name: each.known for name, each in self._shelf.views(kept).items()} | own

    def create(self, query: ViewQuery) -> MaterializedView:
        """Have an archive for a view, a new one or the one that the same text made before."""
        clocks = self._prepare(query)
        folder, operator = self._shelf.folder_of(query.name), operator_of(query, clocks)
        view = self.at_work[query.name] = MaterializedView(query, folder, operator, clocks)
        self.declared[query.name] = query
        return view

    def resume(self, query: ViewQuery, promise: Promise, may_lack: bool) -> MaterializedView:
        """Go on with the archive of a view that a checkpoint tells of; it must hold as much, unless it `may_lack`
        some."""
        clocks = self._prepare(query)
        folder, operator = self._shelf.folder_of(query.name), operator_of(query, clocks)
        view = MaterializedView.resume(query, folder, operator, clocks, promise, may_lack)
        self.at_work[query.name], self.declared[query.name] = view, query
        return view

    def _prepare(self, query: ViewQuery) -> list[Clock]:
        """The clocks of a view's streams, if it can be made."""
        self.check_creation(query)
        self._shelf.refuse_damaged(query.name)
        return [self._joins.clock_of(side.stream.name) for side in query.source.sides]

    def refuse_rewind(self, stream: str, to: int) -> None:
        """Raise an error if a view that reads a stream has been brought beyond an instant: it cannot go back."""
        for name, view in self.at_work.items():
            now = view.view.now
            if stream in view.query.streams and now is not None and now > to:
                raise ArchiveError(
                    f"view '{name}' has been updated at {np.datetime64(now, 'us')} and cannot go back; "
                    f"DROP MATERIALIZED VIEW {name} before you rewind stream '{stream}', and create it again"
                )

    def start_again(self, stream: str) -> None:
        """Views that read a stream which starts again know nothing of it from before."""
        for view in self.at_work.values():
            if stream in view.query.streams:
                clocks = [self._joins.clock_of(side.stream.name) for side in view.query.source.sides]
                view.operator = operator_of(view.query, clocks)
                view.coverage.lose_before(self._joins.clock_of(stream).promised)

    def check_creation(self, query: ViewQuery) -> None:
        """Raise an error if a view cannot be made, before anything changes."""
        if self._shelf.folder is None:
            raise ArchiveError(f"view '{query.name}' needs a place on disk: Engine(archive='folder')")

    def drop(self, name: str) -> None:
        """Remove a view and what it keeps."""
        if name not in self.at_work:
            self.require(name, self.known())
            self._shelf.remove(name)
            self.declared.pop(name, None)
            return
        archive = self.at_work[name].archive
        try:
            archive.remove()
        finally:
            if archive.is_closed:
                del self.at_work[name], self.declared[name]

    def damaged(self) -> list[str]:
        """Names of views that cannot be read."""
        return [name for name, known in self.known().items() if known.damage is not None]

    def release(self, name: str) -> None:
        """Let go of a view that was created in a call that failed."""
        self.at_work.pop(name).archive.close()
        del self.declared[name]

    def follow(self, answers: dict[str, pa.Table], until: int | None) -> bool:
        """Give the views what `advance` gave for them, and put the answers of queries over them in its place; whether
        there are more of these."""
        more = False
        read = {each.query.named for each in self.standing.registrations.values()}
        for name, view in self.at_work.items():
            if view.operator is None:
                given = answers.pop(name, None)
                if name in read:
                    self.standing.read_groups(view, given)
                view.follow(given)
            elif name in read:
                more |= self.standing.step(view, until)
            else:
                view.turn(until)
        self.standing.give_out(answers)
        return more

    def operators(self) -> dict[str, ViewOperator]:
        """Those of the views that have one of their own, by name."""
        return {name: each.operator for name, each in self.at_work.items() if each.operator is not None}

    def reads(self, stream: str) -> bool:
        """Whether a view follows the stream by itself."""
        return any(
            stream == side.stream.name for each in self.operators().values() for side in each.query.sides
        )

    def alter(self, name: str, indexing: str) -> str:
        """Index a view in another way; `auto` takes what its load suggests. Returns which."""
        view = self._at_work(name)
        if indexing == "auto":
            size = sum(run.size for run in view.view.epoch.runs())
            indexing = view.choice(size).indexing.label
        view.archive.migrate(indexing)
        return indexing

    def select_many(self, selects: Sequence[ViewSelect]) -> list[pa.Table]:
        """Answer several SELECTs: those of one view and the same bounds of its key share one probe."""
        rows: dict[Any, tuple[View, pa.Table]] = {}
        answers = []
        for each in selects:
            asked = (each.view.name, each.equal, each.low, each.high)
            if asked not in rows:
                view = self._view(each.view.name)
                rows[asked] = view, read_results(view, each)
            view, found = rows[asked]
            answers.append(make_answer(view, found, each, self._is_complete(each.view.name)))
        return answers

    def select_texts(self, texts: Sequence[str], streams: Sources) -> list[pa.Table]:
        """Answer texts that are a SELECT from a view each."""
        known = self.known()
        statements = [each for text in texts for each in parse_statements(text, streams, known)]
        selects = [each.select for each in statements if isinstance(each, SelectView)]
        if len(selects) != len(texts):
            raise MuntinError("select_many takes SELECTs from views, each in a text of its own")
        return self.select_many(selects)

    def lookup(self, name: str, key: Any = None) -> pa.Table:
        """The results of a view, or those with a key or one of some keys, in the order of keys."""
        view = self._view(name)
        keys = key if isinstance(key, list) else [key]
        found = view.read_all() if key is None else pa.concat_tables([view.probe(each) for each in keys])
        own = [each for each in found.column_names if each.startswith(HIDDEN) or each in (GENERATED, EXPIRES)]
        return found.drop_columns(own)

    def explain(self, name: str) -> str:
        """Index, reason, size and costs of a view; that it is damaged, if it is."""
        self.require(name, self.known())
        try:
            view = self._view(name)
            epoch, stats = view.epoch, view.stats()
        except FAILURES as error:
            return f"view {name}: {error}"
        shape = " and ".join(index.indexing.label for index in epoch.indexes)
        lines = [
            f"view {name}: {stats['results']:,} results in {stats['parts']} parts, {stats['bytes']:,} bytes, by "
            f"{', '.join(view.definition.key)}",
            f"  index {shape}: {epoch.about[BECAUSE]}",
            f"  updated every {span(view.definition.every)}, {view.definition.per_window} times a window",
        ]
        if view.definition.sizes:
            halves = tuple(size // 2 for size in view.definition.sizes)
            row_bytes = stats["bytes"] / max(1, stats["results"] + stats["dead"])
            sharing = compare_sharing(stats["results"], row_bytes, [halves], view.definition)
            lines.append(
                "  smaller windows are answered from it: the places of its inputs take "
                f"{sharing.shared:,} bytes, a view of its own for windows half as long about {sharing.separate:,}"
                f"{'' if sharing.pays else '; where those are asked for, such a view would be smaller'}"
            )
        if name in self.at_work:
            touched, each = self.at_work[name].archive.touched, self.at_work[name]
            lines.append(
                f"  the last update touched {touched.parts} of {touched.of} parts, read {touched.bytes_read:,} and "
                f"wrote {touched.bytes_written:,} bytes; {each.probes_before} reads before it, {each.probes} since"
            )
            suggested = each.choice(stats["bytes"]).indexing.label
            if suggested != epoch.index.indexing.label:
                lines.append(f"  its load suggests {suggested}: ALTER MATERIALIZED VIEW {name} INDEX 'auto'")
        else:
            lines.append(f"  not kept up to date by this engine; to go on, repeat: {epoch.about[TEXT]}")
        return "\n".join(lines)

    def stats(self) -> dict[str, Any]:
        """Counters by view, of those that are kept up to date; of all that are damaged, what is wrong with them."""
        stats: dict[str, Any] = {
            name: {"damaged": known.damage}
            for name, known in self.known().items()
            if known.damage is not None
        }
        for name, each in self.at_work.items():
            try:
                stats[name] = {**each.view.stats(), "now": each.view.now, "probes": each.probes}
            except FAILURES as error:
                stats[name] = {"damaged": str(error)}
        return stats

    def close(self) -> list[str]:
        """Let other processes write the archives; the names of the views that are left to them."""
        closed, self.at_work = self.at_work, {}
        for view in closed.values():
            view.archive.close()
        return list(closed)

    def check(self) -> None:
        """Test every invariant of the archives."""
        for view in self.at_work.values():
            view.archive.check()

    def refuse_pending(self) -> None:
        """Raise an error if there are results that no checkpoint would hold, though the disk was asked again."""
        for name, view in self.at_work.items():
            view.catch_up()
            if view.pending or view.ended:
                raise ArchiveError(
                    f"view '{name}' has results that its disk does not take; make room there, or drop the view"
                )

    def snapshot(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The operators of views: descriptions by name, and named arrays."""
        descriptions: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        for name, operator in self.operators().items():
            description, named = operator.snapshot()
            descriptions[name] = {**description, "text": self.at_work[name].query.text}
            arrays |= {f"{_prefix(name)}{each}": array for each, array in named.items()}
        return descriptions, arrays

    def promises(self) -> dict[str, Any]:
        """What a checkpoint says of the archives, by view: as JSON can hold it."""
        return {name: view.promise()._asdict() for name, view in self.at_work.items()}

    def restore(
        self,
        descriptions: Mapping[str, Any],
        arrays: Mapping[str, Any],
        streams: Mapping[str, Stream],
        promises: Mapping[str, Promise],
        may_lack: bool,
    ) -> None:
        """The views with operators of their own, as a snapshot has them."""
        for name, description in descriptions.items():
            view = parse_view(description["text"], streams)
            assert view is not None
            promise = promises.get(name, Promise(description["reached"]))  # version 0.1 made none
            operator = self.resume(view, promise, may_lack).operator
            assert operator is not None
            prefix = _prefix(name)
            named = {each[len(prefix) :]: arrays[each] for each in arrays if each.startswith(prefix)}
            operator.restore(description, named)

    def require(self, name: str, names: Mapping[str, Any] | set[str]) -> None:
        """Raise an error if a view is not among the names."""
        if name not in names:
            raise NotFound(f"there is no view '{name}'{nearest(name, names)}")

    def _view(self, name: str) -> View:
        if name in self.at_work:
            self.at_work[name].probes += 1
            return self.at_work[name].view
        stored = self._shelf.views()
        self.require(name, stored)
        view, known = stored[name].view, stored[name].known
        if view is None:
            raise damaged(name, known.damage or "")
        return view

    def _at_work(self, name: str) -> MaterializedView:
        self.require(name, self.known())
        if name not in self.at_work:
            raise MuntinError(
                f"view '{name}' is not kept up to date by this engine; repeat its CREATE statement first"
            )
        return self.at_work[name]

    def coverage(self, name: str) -> Coverage:
        """Of a view as of its last update."""
        self._view(name)
        return Coverage(self._is_complete(name))

    def _is_complete(self, name: str) -> bool:
        return name in self.at_work and self.at_work[name].is_complete()


def operator_of(query: ViewQuery, clocks: list[Clock]) -> ViewOperator | None:
    """What feeds a view that no join of the engine can, and no query."""
    if isinstance(query.source, NegationQuery):
        return Negation(query.source, clocks)
    if isinstance(query.source, SelectionQuery):
        return Selected(query.source, clocks)
    return WideJoin(query.source, clocks) if isinstance(query.source, WideJoinQuery) else None


def _prefix(name: str) -> str:
    """Of the arrays of a view in a checkpoint."""
    return f"view_operators/{name}/"


# How a batch reaches views that follow their streams by themselves: all that read it take it in, or none.


def feed_views(views: Views, joins: JoinOperator, shard: Shard, batch: Any) -> None:
    """Push a batch to a stream that such views read. What can fail comes before the first change."""
    stream = shard.stream.name
    admitted = shard.admit(batch)
    prepared = [(operator, operator.prepare(stream, admitted)) for operator in views.operators().values()]
    joined = joins.prepare(stream, admitted) if joins.reads(stream) else None
    settled_to = joins.settled_to()
    shard.take_in(admitted)
    if joined is not None:
        joins.forget(settled_to)
        joins.insert(stream, joined)
    for operator, events in prepared:
        operator.insert(events)
