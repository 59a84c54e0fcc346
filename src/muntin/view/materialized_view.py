"""A materialised view at work: its results, brought to an archive whenever time advances.

At each update instant the archive holds what the join answers at that instant: a pair is generated at the
first of them that sees it, and expires at the first that does not, which is known beforehand.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.archive import EXPIRES, GENERATED, Archive, Definition, Indexing, View
from muntin.archive.epoch import NAME as DIRECTORY
from muntin.archive.indexing import Choice, Load, choose_indexing
from muntin.archive.liveness import AT as INVALIDATED_AT
from muntin.arrays import LONG_AGO, Bools, Ints
from muntin.errors import ArchiveError, MuntinError, NameTaken
from muntin.join.group import JoinRegistration
from muntin.join_query import LEAVES_AT, JoinQuery, JoinSide
from muntin.query import CHANGE
from muntin.shard.clock import Clock
from muntin.view.archive_coverage import ArchiveCoverage
from muntin.view.grouped import QueryFeed, definition_of_groups, replaced, rows_at
from muntin.view.operator import Turn, ViewOperator
from muntin.view_query import HIDDEN, LEFT_TIME, RIGHT_TIME, GroupedQuery, NegationQuery, ViewQuery, place_of
from muntin.view_select import KnownView

_TIMES = (LEFT_TIME, RIGHT_TIME)
# what is written about a view into its archive; the id is like no other's
NAME, TEXT, BECAUSE, SOURCE, ID, KEPT_BY = "name", "text", "because", "source", "id", "kept_by"
FAILURES = (MuntinError, OSError, EOFError, pa.ArrowException)  # of a disk, or of what is on it
_SUPPOSED_UPDATES = 36  # while a window by count fills: it chooses classes, and no answer depends on it


class MaterializedView:
    """What is `pending` or `ended` waits for a disk that did not take it; `clocks` are those of its streams. `kept_by`
    is the streaming query that keeps the view on Spark, "" for an embedded engine: only the one that began a view
    goes on with it."""

    def __init__(
        self,
        query: ViewQuery,
        folder: Path,
        operator: ViewOperator | None = None,
        clocks: Sequence[Clock] = (),
        kept_by: str = "",
    ):
        self.query = query
        self._kept_by = kept_by
        self.operator = operator  # if no join of the engine feeds it
        self.registration: JoinRegistration | QueryFeed | None = None  # if one does, or a query of its stream
        self.pending: list[pa.Table] = []  # results
        self.ended: list[pa.Table] = []  # values whose results have ended before their time
        self.probes = 0  # since the last update
        self.probes_before = 0  # between the two updates before
        self._waits: tuple[int, tuple[int, ...] | None] | None = None  # an update that the disk did not take
        self._missed = 0  # windows of the join that had to be forgotten
        is_new = not (folder / DIRECTORY).exists()
        self.archive = self._open(folder)
        self.coverage = ArchiveCoverage(clocks)
        if not is_new:
            epoch = self.view.epoch
            told = epoch.now if epoch.known_from is None else epoch.known_from
            self.coverage.lose_before(LONG_AGO if told is None else told)
            self.coverage.begin_with_the_next()

    @classmethod
    def resume(
        cls,
        query: ViewQuery,
        folder: Path,
        operator: ViewOperator | None,
        clocks: Sequence[Clock],
        promise: Promise,
        may_lack: bool,
    ) -> MaterializedView:
        """The view of a checkpoint, which says what the archive holds at least. An error if the archive does not;
        or else, if it `may_lack` results, the view is incomplete until its windows are known."""
        where, otherwise = f"the archive in '{folder}'", "restore(…, incomplete_views=True) goes on without"
        is_there = (folder / DIRECTORY).exists()
        if not is_there and not may_lack:
            raise ArchiveError(
                f"view '{query.name}' of the checkpoint is not in '{folder}': give the archive that it was kept in; "
                f"{otherwise}"
            )
        view = cls(query, folder, operator, clocks)
        epoch = view.view.epoch
        try:
            if is_there and promise.id is not None and epoch.about.get(ID, promise.id) != promise.id:
                raise ArchiveError(
                    f"{where} is another one than that of view '{query.name}' in the checkpoint; give that one, or "
                    "drop the view there first"
                )
            is_behind = not is_there or epoch.number < promise.epoch or _before(epoch.now, promise.now)
            if is_behind and not may_lack:
                raise ArchiveError(
                    f"{where} is older than the checkpoint: view '{query.name}' is at update {epoch.number} "
                    f"({_shown(epoch.now)}) there, and was at {promise.epoch} ({_shown(promise.now)}) in the "
                    f"checkpoint; {otherwise} what lies between"
                )
        except BaseException:
            view.archive.close()
            raise
        view.coverage = ArchiveCoverage(clocks)
        for known_from in (epoch.known_from, promise.known_from):
            if known_from is not None:
                view.coverage.lose_before(known_from)
        if is_behind or promise.known_from is None:
            view.coverage.begin_with_the_next()
        elif epoch.now is not None and _before(promise.now, epoch.now):
            view.coverage.go_on_to(epoch.now)
        return view

    def _open(self, folder: Path) -> Archive:
        """A new archive, or the one that is there if it was made by the same text."""
        if not (folder / DIRECTORY).exists():
            choice = self.choice()
            about = {NAME: self.query.name, TEXT: self.query.text, BECAUSE: choice.because, ID: uuid.uuid4().hex,
                     SOURCE: type(self.query.source).__name__, KEPT_BY: self._kept_by}  # fmt: skip
            return Archive.create(folder, definition_of(self.query), choice.indexing, about)
        archive = Archive.open(folder)
        written = archive.view.epoch.about
        if (owner := written.get(KEPT_BY, "")) != self._kept_by:
            archive.close()
            raise NameTaken(
                f"view '{self.query.name}' in '{folder}' is kept by {_keeper(owner)}: others can read it, not write it"
            )
        if (text := written[TEXT]) != self.query.text:
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

    def is_complete(self) -> bool:
        """Whether all windows were known from their start at its last update."""
        now, known_from = self.view.now, self.coverage.known_from
        if now is None or known_from is None:
            return False
        if self.operator is not None:
            return self.operator.covers(now, known_from)
        return bool(self.complete_at(np.array([now]))[0])

    def complete_at(self, instants: Ints) -> Bools:
        """The same at some instants, of a view that a join or a query feeds."""
        assert self.registration is not None
        known_from = self.coverage.known_from
        if known_from is None:
            return np.zeros(len(instants), np.bool_)
        sides = zip(self.query.source.sides, self.registration.known_from, strict=True)
        covered_from = max(side.window.size + max(since, known_from) for side, since in sides)
        return np.asarray(instants >= covered_from)

    @property
    def reached(self) -> int | None:
        """The instant up to which its results have been found."""
        fed_by = self.operator or self.registration
        assert fed_by is not None
        return fed_by.reached if isinstance(fed_by, ViewOperator) else fed_by.emitted_to

    @property
    def holds_results(self) -> bool:
        """Whether some may be alive; known without reading them."""
        now = self.view.now
        return now is not None and any(run.greatest_expiry > now for run in self.view.epoch.runs())

    def promise(self) -> Promise:
        """What a checkpoint says of the archive."""
        epoch = self.view.epoch
        return Promise(epoch.now, epoch.number, self.coverage.known_from, epoch.about.get(ID))

    def feed(self, registration: JoinRegistration | QueryFeed) -> None:
        """Have a join of the engine, or a query of the stream, bring its results from now on."""
        self.registration, self._missed = registration, registration.missed

    def follow(self, changes: pa.Table | None) -> None:
        """Bring the archive to the last update instant that its join or query has reached: with the pairs that came,
        or to the rows that there are then."""
        assert self.registration is not None
        reached = self.registration.emitted_to
        if self._is_grouped:
            if reached is None or not _before(self.view.now, reached - reached % self.query.every):
                self.catch_up()
                return
            instant = reached - reached % self.query.every
            self.pending = [rows_at(changes, instant, self.archive.definition)]
        elif changes is not None:
            self.pending.append(self._results(changes))
        if reached is None:
            return
        if self.registration.missed > self._missed:  # with the pairs that came then
            self.coverage.lose_before(reached)
            self._missed = self.registration.missed
        self._store(reached - reached % self.query.every)

    def catch_up(self) -> None:
        """Try again what the disk did not take."""
        if self._waits is not None:
            self._store(*self._waits)

    def turn(self, until: int | None) -> None:
        """Bring the archive to the last update instant up to `until`, with what its own operator says."""
        assert self.operator is not None
        definition = self.archive.definition
        counts = self.view.epoch.arrivals.seen if definition.by_count else ()
        turn = self.operator.advance(until, self.view.now, counts)
        if turn is None:
            self.catch_up()
            return
        brought = brought_by(turn, self.query, definition)
        self.pending.append(brought.results)
        if brought.ended is not None:
            self.ended.append(brought.ended)
        self._store(turn.instant, brought.counts)

    def _store(self, instant: int, counts: tuple[int, ...] | None = None) -> None:
        """If the disk does not take what waits, it waits on, with a warning: the view stays as it was."""
        now = self.view.now
        if now is not None and instant <= now:
            self.pending, self.ended, self._waits = [], [], None  # a replay brings what is there already
            return
        try:
            rows, ended = self._brought(instant)
            known_from = self._known_from(instant)
            self.archive.update(instant, rows, invalidated=ended, counts=counts, known_from=known_from)
        except FAILURES as error:
            self._waits = instant, counts
            warnings.warn(
                f"view '{self.query.name}' stays as of its last update until the next advance: {error}",
                RuntimeWarning,
                stacklevel=4,
            )
            return
        self.pending, self.ended, self._waits = [], [], None
        self.probes_before, self.probes = self.probes, 0

    def _brought(self, instant: int) -> tuple[pa.Table, pa.Table | None]:
        """What enters, and what has ended, of all that waits."""
        if self._is_grouped:
            return replaced(self.view, self.pending[-1], instant)
        rows = pa.concat_tables([_waiting_schema(self.archive.definition).empty_table(), *self.pending])
        if (now := self.view.now) is not None:
            rows = rows.filter(pc.greater(rows[GENERATED], now))
        return rows, pa.concat_tables(self.ended) if self.ended else None

    @property
    def _is_grouped(self) -> bool:
        return isinstance(self.query.source, GroupedQuery)

    def _known_from(self, instant: int) -> int:
        """From which time on nothing is missing in the archive at an instant: what is, lies before it."""
        known_from = self.coverage.known_from
        fed_by = self.operator or self.registration
        assert fed_by is not None
        return instant if known_from is None else min(instant, max(known_from, *fed_by.known_from))

    def _results(self, changes: pa.Table) -> pa.Table:
        """The pairs that enter, as the archive keeps them."""
        entering = changes.filter(pc.equal(changes[CHANGE], "enter"))
        to = min(side.window.to for side in self.query.source.sides)
        columns: dict[str, Any] = {name: entering[name] for name in self.query.known.columns.names}
        for name in _TIMES:  # the instant from which an event is seen
            columns[name] = pc.add(entering[name].cast(pa.timestamp("us")).cast(pa.int64()), 1)
        columns[GENERATED] = pc.add(entering["window_end"].cast(pa.int64()), to)
        columns[EXPIRES] = entering[LEAVES_AT].cast(pa.int64())
        return pa.table(columns, schema=_waiting_schema(self.archive.definition))


class Brought(NamedTuple):
    """What a turn of a view's operator brings to its archive."""

    results: pa.Table
    ended: pa.Table | None  # values whose results have ended before their time
    counts: tuple[int, ...] | None  # events seen of each input, with windows by count


def brought_by(turn: Turn, query: ViewQuery, definition: Definition) -> Brought:
    """The results of a turn as an archive takes them."""
    entering = turn.entering
    columns = {name: entering[name] for name in definition.columns.names if name in entering.schema.names}
    columns[GENERATED] = np.full(entering.num_rows, turn.instant)
    if not definition.by_count:
        # an event is seen from its place on; with it goes, at the next update, what it is part of
        sides = query.source.sides
        deciding = sides[:1] if isinstance(query.source, NegationQuery) else sides
        places = [entering[place_of(at)].to_numpy() + side.window.size for at, side in enumerate(deciding)]
        columns[EXPIRES] = -(-np.minimum.reduce(places) // query.every) * query.every
    ended = turn.ended
    if ended is not None:
        at = pa.array(np.full(ended.num_rows, turn.instant), pa.int64())
        ended = ended.append_column(INVALIDATED_AT, at)
    results = pa.table(columns, schema=_waiting_schema(definition))
    return Brought(results, ended, turn.counts if definition.by_count else None)


def _waiting_schema(definition: Definition) -> pa.Schema:
    """Of results as they wait: without the expiry that an archive guesses."""
    return pa.schema([
        field for field in definition.schema if not (definition.by_count and field.name == EXPIRES)
    ])  # fmt: skip


def definition_of(query: ViewQuery) -> Definition:
    """What the archive of a view keeps."""
    source, every = query.source, query.every
    if isinstance(source, GroupedQuery):
        return definition_of_groups(source, query.key)
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


def _keeper(owner: str) -> str:
    return f"Spark's streaming query {owner}" if owner else "an embedded engine, or by muntin 0.1.0 on Spark"


def _whole(life: int, every: int) -> int:
    """A life that ends at an update."""
    return max(1, -(-life // every)) * every


def known_of(view: View) -> KnownView:
    """What a SELECT has to know of a view that is on disk."""
    definition, about = view.definition, view.epoch.about
    visible = pa.schema([field for field in definition.columns if not field.name.startswith(HIDDEN)])
    is_whole = about.get(SOURCE) == NegationQuery.__name__ or not definition.inputs
    sizes = () if is_whole else definition.sizes
    return KnownView(about[NAME], visible, definition.key, sizes, definition.by_count)


def _before(one: int | None, other: int | None) -> bool:
    """Whether an instant comes before another; before the first update there is none."""
    return other is not None and (one is None or one < other)


def _shown(instant: int | None) -> str:
    return "before its first" if instant is None else str(np.datetime64(instant, "us"))


class Promise(NamedTuple):
    """What a checkpoint says of the archive of a view."""

    now: int | None  # instant of its last update
    epoch: int = 0
    known_from: int | None = LONG_AGO  # None: nobody could tell
    id: str | None = None  # None: version 0.1 wrote the checkpoint or the archive
