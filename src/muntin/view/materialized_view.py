"""A materialised view at work: the results of a join or negation, brought to an archive whenever time advances.

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
from muntin.errors import MuntinError, NameTaken
from muntin.join_query import LEAVES_AT, JoinQuery, JoinSide
from muntin.query import CHANGE
from muntin.view.operator import ViewOperator
from muntin.view_query import (
    HIDDEN,
    LEFT_TIME,
    RIGHT_TIME,
    KnownView,
    NegationQuery,
    ViewQuery,
    place_of,
)

_TIMES = (LEFT_TIME, RIGHT_TIME)
NAME, TEXT, BECAUSE, SOURCE = (
    "name",
    "text",
    "because",
    "source",
)  # what is written about a view into its archive
FAILURES = (MuntinError, OSError, EOFError, pa.ArrowException)  # of a disk, or of what is on it
_SUPPOSED_UPDATES = 36  # while a window by count fills: it chooses classes, and no answer depends on it


class MaterializedView:
    """What is `pending` or `ended` waits for a disk that did not take it."""

    def __init__(self, query: ViewQuery, folder: Path, operator: ViewOperator | None = None):
        self.query = query
        self.operator = operator  # if no join of the engine feeds it
        self.pending: list[pa.Table] = []  # results
        self.ended: list[pa.Table] = []  # values whose results have ended before their time
        self.probes = 0  # since the last update
        self.probes_before = 0  # between the two updates before
        self.archive = self._open(folder)

    def _open(self, folder: Path) -> Archive:
        """A new archive, or the one that is there if it was made by the same text."""
        if not (folder / "directory").exists():
            choice = self.choice()
            about = {NAME: self.query.name, TEXT: self.query.text, BECAUSE: choice.because,
                     SOURCE: type(self.query.source).__name__}  # fmt: skip
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
        definition = definition_of(self.query)
        probes = max(self.probes, self.probes_before)
        return choose_indexing(Load(size, probes, definition.by_count, definition.per_window))

    def follow(self, changes: pa.Table | None, reached: int | None) -> None:
        """Bring the archive of a join to the last update instant up to `reached`, with the pairs that came."""
        if changes is not None:
            self.pending.append(self._results(changes))
        if reached is not None:
            self._store(reached - reached % self.query.every)

    def turn(self, until: int | None) -> None:
        """Bring the archive to the last update instant up to `until`, with what its own operator says."""
        assert self.operator is not None
        definition = self.archive.definition
        counts = self.view.epoch.arrivals.seen if definition.by_count else ()
        turn = self.operator.advance(until, self.view.now, counts)
        if turn is None:
            return
        columns = {
            name: turn.entering[name]
            for name in definition.columns.names
            if name in turn.entering.schema.names
        }
        columns[GENERATED] = np.full(turn.entering.num_rows, turn.instant)
        if not definition.by_count:
            # an event is seen from its place on; with it goes, at the next update, what it is part of
            places = [
                turn.entering[place_of(side)].to_numpy() + size for side, size in enumerate(self._sizes())
            ]
            columns[EXPIRES] = -(-np.minimum.reduce(places) // self.query.every) * self.query.every
        self.pending.append(pa.table(columns, schema=self._schema()))
        if turn.ended is not None:
            at = pa.array(np.full(turn.ended.num_rows, turn.instant), pa.int64())
            self.ended.append(turn.ended.append_column(INVALIDATED_AT, at))
        self._store(turn.instant, turn.counts if definition.by_count else None)

    def _sizes(self) -> list[int]:
        """Of the windows that decide how long a result lives."""
        sides = self.query.source.sides
        return [
            side.window.size
            for side in (sides[:1] if isinstance(self.query.source, NegationQuery) else sides)
        ]

    def _schema(self) -> pa.Schema:
        """Of results as they wait: without the expiry that an archive guesses."""
        definition = self.archive.definition
        return pa.schema([
            field for field in definition.schema if not (definition.by_count and field.name == EXPIRES)
        ])  # fmt: skip

    def _store(self, instant: int, counts: tuple[int, ...] | None = None) -> None:
        """If the disk does not take what waits, it waits on, with a warning: the view stays as it was."""
        now = self.view.now
        if now is not None and instant <= now:
            self.pending, self.ended = [], []  # a stream that is replayed brings what is there already
            return
        rows = pa.concat_tables([self._schema().empty_table(), *self.pending])
        if now is not None:
            rows = rows.filter(pc.greater(rows[GENERATED], now))
        ended = pa.concat_tables(self.ended) if self.ended else None
        try:
            self.archive.update(instant, rows, invalidated=ended, counts=counts)
        except FAILURES as error:
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
        return pa.table(columns, schema=self._schema())


def definition_of(query: ViewQuery) -> Definition:
    """What the archive of a view keeps."""
    source, every = query.source, query.every
    if isinstance(source, JoinQuery):
        life = min(side.window.size - side.window.to for side in source.sides)
        fields = [*query.known.columns, *(pa.field(name, pa.int64()) for name in _TIMES)]
        return Definition(pa.schema(fields), query.key, _whole(life, every), every, _TIMES, query.known.sizes)
    fields = [pa.field(output.name, output.expression.type) for output in source.outputs]
    sides: tuple[JoinSide, ...] = source.sides
    negated_on: tuple[str, ...] = ()
    if isinstance(source, NegationQuery):
        sides, negated_on = (source.left,), tuple(name for name, _ in source.on)
    places, sizes = tuple(map(place_of, range(len(sides)))), tuple(side.window.size for side in sides)
    if isinstance(source, NegationQuery) and not source.by_count:  # its expiry says all that there is to say
        return Definition(pa.schema(fields), query.key, _whole(sizes[0], every), every, negated_on=negated_on)
    fields += [pa.field(name, pa.int64()) for name in places]
    window = _SUPPOSED_UPDATES * every if source.by_count else _whole(min(sizes), every)
    return Definition(pa.schema(fields), query.key, window, every, places, sizes, source.by_count, negated_on)


def _whole(life: int, every: int) -> int:
    """A life that ends at an update."""
    return max(1, -(-life // every)) * every


def known_of(view: View) -> KnownView:
    """What a SELECT has to know of a view that is on disk."""
    definition, about = view.definition, view.epoch.about
    visible = pa.schema([field for field in definition.columns if not field.name.startswith(HIDDEN)])
    sizes = () if about.get(SOURCE) == NegationQuery.__name__ else definition.sizes
    return KnownView(about[NAME], visible, definition.key, sizes, definition.by_count)


def covers(known_from: tuple[int, int], sizes: tuple[int, ...], now: int | None) -> bool:
    """Whether windows of these sizes lie in what is known."""
    return now is not None and bool(np.all(now - np.array(sizes) >= np.array(known_from)))
