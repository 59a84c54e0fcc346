"""A materialised view at work: the pairs of a join, brought to an archive whenever time advances.

At each update instant the archive holds what the join answers at that instant: a pair is generated at the
first of them that sees it, and expires at the first that does not, which is known beforehand.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.archive import EXPIRES, GENERATED, Archive, Definition, Indexing, View
from muntin.archive.choose import Choice, Load, choose_indexing
from muntin.archive.invalidations import AT as INVALIDATED_AT
from muntin.engine.negation import AT, Negation
from muntin.errors import ArchiveError, NameTaken
from muntin.join_query import LEAVES_AT
from muntin.query import CHANGE
from muntin.view_query import LEFT_TIME, RIGHT_TIME, KnownView, NegationQuery, ViewQuery

_TIMES = (LEFT_TIME, RIGHT_TIME)
NAME, TEXT, BECAUSE = "name", "text", "because"  # what is written about a view into its archive


class MaterializedView:
    """What is `pending` or `ended` waits for a disk that did not take it."""

    def __init__(self, query: ViewQuery, folder: Path, negation: Negation | None = None):
        self.query = query
        self.negation = negation
        self.pending: list[pa.Table] = []  # results
        self.ended: list[pa.Table] = []  # values whose results have ended before their time
        self.probes = 0  # since the last update
        self.probes_before = 0  # between the two updates before
        self.archive = self._open(folder)

    def _open(self, folder: Path) -> Archive:
        """A new archive, or the one that is there if it was made by the same text."""
        if not (folder / "directory").exists():
            choice = self.choice()
            about = {NAME: self.query.name, TEXT: self.query.text, BECAUSE: choice.because}
            return Archive.create(folder, definition_of(self.query), choice.indexing, about)
        archive = Archive.open(folder)
        if (text := archive.view.epoch.about[TEXT]) != self.query.text:
            archive.close()
            raise NameTaken(
                f"there is a view '{self.query.name}' in the archive already, made by another text; drop it first, "
                f"or repeat its own: {text}"
            )
        return archive

    @property
    def view(self) -> View:
        """What it answers."""
        return self.archive.view

    def choice(self, size: int = 0) -> Choice:
        """The index that was asked for, or the one that the load suggests."""
        if self.query.indexing is not None and self.query.indexing != "auto":
            return Choice(Indexing.parse(self.query.indexing), "its INDEX clause asks for it")
        updates = definition_of(self.query).per_window
        return choose_indexing(Load(size, max(self.probes, self.probes_before), updates=updates))

    def follow(self, changes: pa.Table | None, reached: int | None) -> None:
        """Bring the archive of a join to the last update instant up to `reached`, with the pairs that came."""
        if changes is not None:
            self.pending.append(self._results(changes))
        if reached is not None:
            self._store(reached - reached % self.query.every)

    def turn(self, until: int | None) -> None:
        """Bring the archive of a negation to the last update instant up to `until`."""
        assert self.negation is not None
        turn = self.negation.advance(until, self.view.now)
        if turn is None:
            return
        size = self.query.source.left.window.size
        goes = turn.entering[AT].to_numpy() + size + 1
        columns = {name: turn.entering[name] for name in self.query.known.columns.names}
        columns[GENERATED] = np.full(turn.entering.num_rows, turn.instant)
        columns[EXPIRES] = -(-goes // self.query.every) * self.query.every
        self.pending.append(pa.table(columns, schema=definition_of(self.query).schema))
        at = pa.array(np.full(turn.ended.num_rows, turn.instant), pa.int64())
        self.ended.append(turn.ended.append_column(INVALIDATED_AT, at))
        self._store(turn.instant)

    def _store(self, instant: int) -> None:
        """If the disk does not take what waits, it waits on, with a warning: the view stays as it was."""
        now = self.view.now
        if now is not None and instant <= now:
            self.pending, self.ended = [], []  # a stream that is replayed brings what is there already
            return
        rows = pa.concat_tables([definition_of(self.query).schema.empty_table(), *self.pending])
        if now is not None:
            rows = rows.filter(pc.greater(rows[GENERATED], now))
        ended = pa.concat_tables(self.ended) if self.ended else None
        try:
            self.archive.update(instant, rows, invalidated=ended)
        except ArchiveError as error:
            warnings.warn(
                f"view '{self.query.name}' stays as of its last update until the next advance: {error}",
                RuntimeWarning,
                stacklevel=4,
            )
            return
        self.pending, self.ended = [], []
        self.probes_before, self.probes = self.probes, 0

    def _results(self, changes: pa.Table) -> pa.Table:
        """The pairs that enter, as the archive keeps them."""
        entering = changes.filter(pc.equal(changes[CHANGE], "enter"))
        to = min(side.window.to for side in self.query.source.sides)
        columns: dict[str, Any] = {name: entering[name] for name in self.query.known.columns.names}
        for name in _TIMES:  # the instant from which an event is seen
            columns[name] = pc.add(entering[name].cast(pa.timestamp("us")).cast(pa.int64()), 1)
        columns[GENERATED] = pc.add(entering["window_end"].cast(pa.int64()), to)
        columns[EXPIRES] = entering[LEAVES_AT].cast(pa.int64())
        return pa.table(columns, schema=definition_of(self.query).schema)


def definition_of(query: ViewQuery) -> Definition:
    """What the archive of a view keeps."""
    life = min(side.window.size - side.window.to for side in query.source.sides)
    window = max(1, -(-life // query.every)) * query.every
    if isinstance(query.source, NegationQuery):
        life = query.source.left.window.size
        window = -(-life // query.every) * query.every
        negated_on = tuple(name for name, _ in query.source.on)
        return Definition(query.known.columns, query.key, window, query.every, negated_on=negated_on)
    fields = [*query.known.columns, *(pa.field(name, pa.int64()) for name in _TIMES)]
    return Definition(pa.schema(fields), query.key, window, query.every, _TIMES, query.known.sizes)


def known_of(view: View) -> KnownView:
    """What a SELECT has to know of a view that is on disk."""
    definition = view.definition
    visible = pa.schema([field for field in definition.columns if field.name not in _TIMES])
    return KnownView(view.epoch.about[NAME], visible, definition.key, definition.sizes)


def covers(known_from: tuple[int, int], sizes: tuple[int, ...], now: int | None) -> bool:
    """Whether windows of these sizes lie in what is known."""
    return now is not None and bool(np.all(now - np.array(sizes) >= np.array(known_from)))
