"""The state of a shard: of one stream, or of some of its keys.

The clock, the dictionaries, the stores and a synopsis per window group. Queries come and go, events
are taken in, and what no window needs any more is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from muntin.arrays import LONG_AGO, Ints
from muntin.crew import ALONE, Crew
from muntin.expression import Expression
from muntin.instant import LAST
from muntin.keys.key_dictionary import Dictionary, KeyDictionary
from muntin.lane import Asked
from muntin.plan import Placement, PlanChanges, Request, WindowGroup, WindowManager
from muntin.plan.cost import Observed
from muntin.plan.group import StoreId
from muntin.plan.synopses import build_synopsis
from muntin.shard.adapt.adaptation import Adaptation
from muntin.shard.adapt.meter import Meter
from muntin.shard.bands import fit_lanes
from muntin.shard.clock import Alarm, Clock, wall_clock
from muntin.shard.crowd import Crowds
from muntin.shard.gaps import admit_gaps
from muntin.shard.intake import Admitted, WantedColumns, dictionaries_of_texts, prepare
from muntin.shard.lanes import Lanes, check_lanes
from muntin.shard.make_store import make_store
from muntin.shard.moving import Movers
from muntin.shard.plan_again import plan_again
from muntin.shard.read.prepared import Prepared
from muntin.shard.record_batch import kept_rows, to_record_batch, to_times
from muntin.shard.registration import Owed, Registration
from muntin.shard.sweepers import Sweepers
from muntin.shard.table_join.joined_rows import Owns
from muntin.shard.table_join.past import release_past
from muntin.sketch.keyed_sketches import DEFAULT_BUDGET
from muntin.store.aging_slices import AgingSlices
from muntin.store.needs import Need
from muntin.store.sequence import Sequence
from muntin.stream import Stream
from muntin.structure.synopsis import Synopsis
from muntin.tables.rows import TableRows

if TYPE_CHECKING:
    from muntin.shard.backfill import Backfill


class State:
    """State for all queries over one stream."""

    def __init__(
        self,
        stream: Stream,
        backlog_bytes: int,
        adaptive: bool = True,
        sketch_bytes: int = DEFAULT_BUDGET,
        wall: Callable[[], int] = wall_clock,
        is_planned_by_demand: bool = False,
        has_lanes: bool = True,
        tables: Mapping[str, TableRows] = MappingProxyType({}),
        owns: Owns | None = None,
        crew: Crew = ALONE,
    ):
        self.stream, self.crew = stream, crew
        self.tables = tables  # by name; they change from outside
        self.owns = owns  # which keys belong here, of a stream that has several shards
        self.clock, self.alarm = Clock(stream.delay, stream.ahead, wall), Alarm()
        self.manager = WindowManager(is_planned_by_demand, has_lanes)
        self._is_provisional = False  # the plan: queries came or went one after the other, and no event yet
        self.registrations: dict[str, Registration] = {}
        self.overflows = 0  # rows that `advance` has left out, of all queries there ever were
        self.stores: dict[StoreId, Sequence] = {}
        self.synopses: dict[int, Synopsis[Any]] = {}
        self.keys: dict[tuple[Expression, ...], KeyDictionary] = {}
        self.texts: dict[Expression, Dictionary] = {}
        self.lanes: dict[Asked, Lanes] = {}
        self.sweepers = Sweepers(self)
        self.wanted = WantedColumns(frozenset(), frozenset(), frozenset())
        self._backlog_bytes, self.sketch_bytes = backlog_bytes, sketch_bytes
        self.needed_bytes = 0  # held when there was no backlog the last time
        self._fitted_to = 0  # the version of the plan's columns that the dictionaries are for
        self.crowds = Crowds()
        self.prepared = Prepared(self.crowds)
        self.meter = Meter()
        self.adaptation = Adaptation(self) if adaptive else None
        self.forgotten_to = LONG_AGO  # the instant that was last spared when forgetting
        self.asked_from = LAST  # look-ups stand here or later, though the watermark has passed it
        self.known_from = LONG_AGO  # windows that begin earlier are not complete, whatever is kept
        self._owed, self.movers = Owed([]), Movers(self)
        self.backfills: list[Backfill] = []  # under way: they must not miss what is pushed

    # -- queries -----------------------------------------------------------------------------------

    def register(self, queries: Mapping[str, Request]) -> None:
        """Place queries in groups and fit what serves them; they answer at once from what is there. All or none."""
        changes = PlanChanges()
        self.manager.register(queries, changes, self.is_running)
        self._is_provisional = not self.is_running and bool(self.registrations)
        for name, request in queries.items():
            self._expect(name, Registration(request.query, self.clock.watermark, joined=request.joined))
        self.take_up(self.movers.begin(queries, changes))

    def take_up(self, changes: PlanChanges) -> None:
        """Have state for demands that came."""
        self.raise_stairs(changes)
        if self.adaptation is not None:
            self.adaptation.welcome(changes.came)
        self.fit(changes)

    @property
    def is_running(self) -> bool:
        """Whether time has begun: what is kept from then on cannot be had again."""
        return self.clock.now is not None

    def settle_plan(self) -> None:
        """Before time begins: have the plan that depends on which queries there are, not on how they came and went."""
        if self._is_provisional and not self.is_running:
            self._is_provisional = False
            plan_again(self)

    def raise_stairs(self, changes: PlanChanges) -> None:
        """Move windows to stairs where these are better; a store that is filled becomes their youngest level."""
        moved = self.manager.raise_stairs(changes, self.stores if self.is_running else ())
        for stairs, before in moved.items():
            filled = self.stores.get(before)
            youngest = None if filled is None else filled.youngest
            self._keep_store(stairs, AgingSlices(stairs.where, stairs.keys, youngest))
        if moved:
            self.prepared.forget_all()  # queries are elsewhere now
            if self.adaptation is not None:
                self.adaptation.part(changes.groups.keys() - self.manager.groups.keys(), False)

    def _expect(self, name: str, registration: Registration) -> None:
        self.registrations[name] = registration
        self.crowds.alone[name] = registration
        if registration.owes:
            self._owed.add(registration.emitted_to)

    def drop(self, name: str) -> None:
        """Take a query out and free what only it needed."""
        registration = self.registrations.pop(name)
        self.crowds.remove(name, registration)
        if registration.owes:
            self._owed.remove(registration.emitted_to)
        changes = PlanChanges()
        self._is_provisional = not self.is_running
        for left in self.manager.drop(name, changes):
            self.leave(name, left, registration.query.hint is not None)
        self.movers.forget(name)
        self.fit(changes)

    def leave(self, name: str, left: Placement, was_hinted: bool = False) -> None:
        """A query has left a place that it had; its state has yet to be fitted."""
        registration = self.registrations.get(name)
        if registration is not None:  # it reads other groups now than those that it was alike with
            self.crowds.part(name, registration)
        self.sweepers.look_again(demand for _, demand in left.all())
        if self.adaptation is not None:
            self.adaptation.part(left.groups(), was_hinted)
        self.prepared.forget_query(name)

    def graft(self, backfill: Backfill) -> None:
        """Take over the queries of a backfill with all their state; O(keys and cells), to number keys as here."""
        other = backfill.state
        changes, numbers, generation = self.manager.graft(other.manager)
        self._fit_dictionaries()
        key_ids = {
            keys: self.keys[keys].encode(dictionary.take(np.arange(len(dictionary))))
            for keys, dictionary in other.keys.items()
        }
        codes = {
            text: self.texts[text].encode(each.values) for text, each in other.texts.items() if len(each)
        }
        for place, store in other.stores.items():
            for keys, ids in key_ids.items():
                store.renumber_keys(keys, ids)
            for text, code in codes.items():
                store.renumber_texts(text, code)
            self.stores[place._replace(generation=generation)] = store
            self.meter.stores[place._replace(generation=generation)] = Observed()
        for number, synopsis in other.synopses.items():
            synopsis.move(self._text_order, key_ids.get(synopsis.keys))
            for text, code in codes.items():
                synopsis.renumber_texts(text, code)
            if codes:
                synopsis.rebuild()
            self.synopses[numbers[number]] = synopsis
            self.meter.groups[numbers[number]] = Observed()
        for name, each in other.registrations.items():
            self._expect(name, Registration(each.query, backfill.emitted_to, history=backfill.history))
        self.fit(changes)
        self.take_up(self.movers.begin(backfill.requests, PlanChanges()))

    def fit(self, changes: PlanChanges) -> None:
        """Bring stores, synopses and dictionaries in line with what changed in the plan; O(what changed)."""
        for store, needs in changes.stores.items():
            self._fit_store(store, needs)
        for number, needs in sorted(changes.groups.items()):
            self._fit_group(number, needs)
        fit_lanes(self.lanes, changes.lanes, self.manager.lanes.read, self.clock.now)
        self._fit_dictionaries()
        admit_gaps(self)

    def _fit_group(self, number: int, changed: set[Need]) -> None:
        group, old = self.manager.groups.get(number), self.synopses.get(number)
        if group is None:
            self.synopses.pop(number, None)
            self.meter.groups.pop(number, None)
            return
        if old is None:
            self.synopses[number] = self._build(group, None)
            self.meter.groups[number] = Observed()
        elif old.name != group.synopsis:
            self.synopses[number] = self._build(group, old)
            self.prepared.forget_readers(group.queries)
        elif old.fit(group.needs, changed):
            self.prepared.forget_readers(group.queries)
        # a new query may stand further back than those before it, though not everything is there
        synopsis = self.synopses[number]
        synopsis.kept_from = min(synopsis.kept_from, group.earliest_lookup(self.forgotten_to))

    def switch(self, number: int, synopsis: str, why: str = "") -> None:
        """Have another synopsis serve a group, built from its store; no answer changes. O(elements kept)."""
        group, old = self.manager.groups[number], self.synopses[number]
        group.switch(synopsis, why)
        self.synopses[number] = new = self._build(group, old)
        self.prepared.forget_readers(group.queries)
        self.meter.begin_again(number, any(each.adapted for each in self.manager.groups.values()))
        if self.adaptation is not None:
            self.adaptation.switched(number, synopsis)
        # what it takes more or less than the old one is no backlog
        self.needed_bytes = max(0, self.needed_bytes + new.nbytes() - old.nbytes())

    def _build(self, group: WindowGroup, old: Synopsis[Any] | None) -> Synopsis[Any]:
        """The synopsis of a group, in place of an old one if there is one."""
        where = None if group.store.where else group.where  # filtered by the store already?
        new = build_synopsis(group.synopsis, self.stores[group.store], where, group.keys, self._text_order)
        if old is not None:
            new.kept_from = old.kept_from
        elif new.loses_edges:  # the store may be older, and have made coarser what lies before
            new.kept_from = group.earliest_lookup(self.forgotten_to)
        new.budget = self.sketch_bytes
        new.fit(group.needs)
        return new

    def _fit_store(self, store_id: StoreId, changed: set[Need]) -> None:
        """Have a store keep what its groups read, and only that."""
        asked = self.manager.stores.get(store_id)
        if asked is None:
            self.stores.pop(store_id, None)
            self.meter.stores.pop(store_id, None)
            return
        if store_id not in self.stores:
            self._keep_store(store_id, make_store(store_id, self.clock))
        wanted = {need: need in asked.components for need in changed}
        self.stores[store_id].serve(asked, wanted, self.clock.now)

    def _keep_store(self, store_id: StoreId, store: Sequence) -> None:
        self.stores[store_id] = store
        store.crew = self.crew
        self.meter.stores[store_id] = Observed()

    def _fit_dictionaries(self) -> None:
        columns = self.manager.columns
        if columns.version == self._fitted_to:
            return
        self._fitted_to = columns.version
        predicates = frozenset(each for each in columns.predicates if not isinstance(each, Asked))
        arguments, keys = frozenset(columns.arguments), frozenset(columns.keys)
        self.wanted = WantedColumns(arguments, predicates, keys, self.lanes, columns.keys_for_lanes())
        self.keys = {
            some: self.keys[some] if some in self.keys else KeyDictionary([part.type for part in some])
            for some in sorted(columns.keys, key=str)
        }
        self.texts = dictionaries_of_texts(columns.arguments, self.texts)

    def _text_order(self, argument: Expression) -> tuple[Ints, Ints]:
        return self.texts[argument].order()

    # -- events ------------------------------------------------------------------------------------

    def admit(self, batch: Any) -> Admitted:
        """The events of a batch that are neither late nor ahead; nothing changes yet."""
        events = to_record_batch(self.stream, batch)
        at = to_times(self.stream, events)
        ascends, kept, late, ahead = self.clock.judge(at)
        if kept is None:
            return Admitted(events, at, ascends, 0)
        return Admitted(kept_rows(events, kept), at[kept], ascends, late, ahead)

    def take_in(self, admitted: Admitted) -> int:
        """Take in events that were admitted just now; all or nothing."""
        events, at, ascends, late_events, ahead_events = admitted
        if self._is_provisional:
            self.settle_plan()
        self.movers.follow()
        prepared = prepare(events, at, ascends, self.wanted, self.texts, self.keys, self.crew)
        for backfill in self.backfills:
            backfill.held.append(events)
        self.forget()  # only now, so that what the last batch closed could still be asked for
        self.clock.observe(at, ascends, late_events, ahead_events)
        self.alarm.note(self.stream.name, self.clock, len(at), late_events, ahead_events)
        self.movers.note(prepared)
        self.meter.time_insertion(self.stores, prepared, self.crew)
        if self.adaptation is not None:
            self.adaptation.before_insert()
        self.meter.time_following(self.synopses, len(at))
        self.sweepers.sweep()  # only now, when the ids that the batch was given are in the stores
        return late_events

    def now_of(self, name: str) -> int | None:
        """Where a query is looked up by default: just after the latest event, or else after its history."""
        each = self.registrations.get(name)
        if self.clock.now is not None or each is None or each.history is None:
            return self.clock.now
        return each.history.end

    def note_emitted(self) -> None:
        """Queries have given out answers: what is still owed is counted anew."""
        self._owed = self.crowds.owed()

    def forget(self) -> None:
        """Drop events that no window needs, and the backlog of closed windows if it is too large."""
        watermark = self.clock.watermark
        if watermark is None:
            return
        oldest = min(self._owed.since(self.clock.first), watermark)
        if oldest < watermark and self.held_bytes() > self.needed_bytes + self._backlog_bytes:
            oldest = watermark
        # time may have been promised beyond the events, but look-ups stand just after the last one
        now = watermark if self.clock.now is None else self.clock.now
        self.forget_before(min(oldest, watermark, now, self.asked_from))
        release_past(self)
        if oldest >= watermark:
            self.needed_bytes = self.held_bytes()

    def forget_before(self, instant: int, settled: int | None = None) -> None:
        """Forget what no window needs that is looked up at an instant or later; it never moves back. No event
        is expected any more before that instant, or before `settled` if that is given."""
        self.forgotten_to = instant = max(instant, self.forgotten_to)
        readers: dict[StoreId, list[Synopsis[Any]]] = {}
        for number, group in self.manager.groups.items():
            synopsis = self.synopses[number]
            synopsis.advance(group.earliest_lookup(instant))
            readers.setdefault(group.store, []).append(synopsis)
        for store_id, synopses in readers.items():
            if store_id.kind == "ring" and store_id.keys:
                continue  # its only reader drops the events of each key
            store = self.stores[store_id]
            before = store.dropped
            store.release(synopses, instant if settled is None else settled)
            if store.dropped != before:
                for synopsis in synopses:
                    synopsis.settle()

    # -- upkeep ------------------------------------------------------------------------------------

    def nbytes(self) -> int:
        """Bytes of state: stores and synopses."""
        kept: list[Any] = [*self.stores.values(), *self.synopses.values()]
        return sum(each.nbytes() for each in kept)

    def held_bytes(self) -> int:
        """Of `nbytes`, without room that is set aside: how long a backlog grows must not depend on when arrays do."""
        stores = sum(store.held_bytes() for store in self.stores.values())
        return stores + sum(synopsis.nbytes() for synopsis in self.synopses.values())

    def check(self) -> None:
        """Assert every invariant of everything kept."""
        kept: list[Any] = [self.stores, self.synopses, self.keys, self.texts]
        for each in chain.from_iterable(some.values() for some in kept):
            each.check()
        self.manager.check()
        check_lanes(self.lanes, self.manager.lanes.read)
        # there is a synopsis for each group, and a store for each that one reads
        assert self.synopses.keys() == self.manager.groups.keys()
        assert self.stores.keys() == {group.store for group in self.manager.groups.values()}
        # and all that is counted as queries come and go is what a new count gives
        assert self._owed == Owed(each.emitted_to for each in self.registrations.values() if each.owes)
        self.crowds.check(self.registrations)
        assert self._fitted_to == self.manager.columns.version
        assert self.meter.groups.keys() == self.synopses.keys()
        assert self.meter.stores.keys() == self.stores.keys()
