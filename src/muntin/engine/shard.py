"""A shard: all the state of one stream, or of some of its keys.

The clock, the dictionaries, the stores and a synopsis per window group. Queries come and go, events
are taken in, and what no window needs any more is forgotten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from math import gcd
from typing import Any

import pyarrow as pa

from muntin.engine.adaptation import Adaptation
from muntin.engine.clock import Clock
from muntin.engine.keys import Dictionary, KeyDictionary
from muntin.engine.meter import Meter
from muntin.engine.prepare import Wanted, arguments_of_text, prepare
from muntin.engine.registration import Registration
from muntin.engine.source import to_record_batch, to_times
from muntin.engine.sweep import Sweeper
from muntin.expression import Expression
from muntin.plan import WindowGroup, WindowManager
from muntin.plan.manager import Placed
from muntin.plan.store import STREAM_RING, StoreId
from muntin.query import Query
from muntin.stream import Stream
from muntin.synopsis import EventRing, KeyedSketches, SliceStore, Synopsis, build_synopsis
from muntin.synopsis.contract import LONG_AGO, Bools, Ints
from muntin.synopsis.sketch.keyed_sketches import DEFAULT_BUDGET

_FOREVER = 2**63 - 1
Keys = tuple[Expression, ...]


class Shard:
    """State for all queries over one stream."""

    def __init__(
        self, stream: Stream, backlog_bytes: int, adaptive: bool = True, sketch_bytes: int = DEFAULT_BUDGET
    ):
        self.stream = stream
        self.clock = Clock(stream.delay)
        self.manager = WindowManager()
        self.registrations: dict[str, Registration] = {}
        self.stores: dict[StoreId, EventRing | SliceStore] = {}
        self.synopses: dict[int, Synopsis[Any]] = {}
        self.keys: dict[tuple[Expression, ...], KeyDictionary] = {}
        self.texts: dict[Expression, Dictionary] = {}
        self._sweepers: defaultdict[Keys | Expression, Sweeper] = defaultdict(Sweeper)
        self._wanted = Wanted(frozenset(), frozenset(), frozenset())
        self._backlog_bytes = backlog_bytes
        self._sketch_bytes = sketch_bytes
        self.needed_bytes = 0  # of state when it was last without backlog
        self.readers: dict[str, Any] = {}  # of single answers, by query; see point.py
        self.key_readers: dict[str, Any] = {}  # of single keys, by query; see key_point.py
        self.numbers: dict[Hashable, int] = {}  # of things that readings have in common
        self.readings: dict[str, Any] = {}  # of all answers, by query; see reading.py
        self.bundles: dict[tuple[str, ...], Any] = {}  # of many, by their queries; see bundle.py
        self.profiles: dict[tuple[str, ...], Any] = {}  # what look-ups ask of groups; see profile.py
        self.meter = Meter()
        self.adaptation = Adaptation(self) if adaptive else None
        self.forgotten_to = LONG_AGO  # the instant that was last spared when forgetting
        self._oldest_owed: tuple[int, bool] | None = None  # what `_owed_since` depends on; None: stale

    # -- queries -----------------------------------------------------------------------------------

    def register(self, queries: Mapping[str, Query]) -> None:
        """Place queries in groups and fit what serves them; they answer at once from what is there.

        All or none: a query that cannot be served takes back those before it.
        """
        touched: set[int] = set()
        demands: list[Placed] = []
        placed: list[str] = []
        try:
            for name, query in queries.items():
                placement = self.manager.register(name, query, self.clock.events > 0)
                touched |= placement.groups()
                demands += placement.all()
                placed.append(name)
        except BaseException:
            for name in placed:
                self.manager.drop(name)
            raise
        for name, query in queries.items():
            self.registrations[name] = Registration(query, self.clock.watermark)
        self._oldest_owed = None
        if self.adaptation is not None:
            self.adaptation.welcome(demands)
        self.fit(touched)

    def drop(self, name: str) -> None:
        """Take a query out and free what only it needed."""
        hint = self.registrations.pop(name).query.hint
        self._oldest_owed = None
        groups = self.manager.drop(name).groups()
        if self.adaptation is not None:
            self.adaptation.part(groups, hint is not None)
        self.fit(groups)

    def fit(self, numbers: set[int]) -> None:
        """Bring stores, synopses and dictionaries in line with the groups that changed."""
        groups = self.manager.groups
        self._forget_prepared()
        for number in numbers - groups.keys():
            self.synopses.pop(number, None)
        self._fit_stores()
        for number in sorted(numbers & groups.keys()):
            group, old = groups[number], self.synopses.get(number)
            if old is None or old.name != group.synopsis:
                self.synopses[number] = self._build(group, old)
            self.synopses[number].fit(group.needs)
            # a new query may stand further back than those before it, though not everything is there
            self.synopses[number].kept_from = min(
                self.synopses[number].kept_from, group.earliest_lookup(self.forgotten_to)
            )
        self._fit_dictionaries()
        self.meter.fit(groups, self.stores)

    def switch(self, number: int, synopsis: str, why: str = "") -> None:
        """Have another synopsis serve a group, built from its store; no answer changes. O(elements kept)."""
        group, old = self.manager.groups[number], self.synopses[number]
        group.switch(synopsis, why)
        self.synopses[number] = new = self._build(group, old)
        new.fit(group.needs)
        self._forget_prepared()
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
        if isinstance(new, KeyedSketches):
            new.budget = self._sketch_bytes
        return new

    def _forget_prepared(self) -> None:
        self.readers.clear()
        self.readings.clear()
        self.numbers.clear()
        self.key_readers.clear()
        self.bundles.clear()
        self.profiles.clear()

    def _fit_stores(self) -> None:
        """Every store keeps what its groups read, and only that."""
        now = self.clock.now
        readers: dict[StoreId, list[WindowGroup]] = {}
        for group in self.manager.groups.values():
            readers.setdefault(group.store, []).append(group)
        self.stores = {
            store: self.stores[store] if store in self.stores else self._make_store(store)
            for store in readers
        }
        for store_id, groups in readers.items():
            store = self.stores[store_id]
            if isinstance(store, SliceStore):
                components = {need for group in groups for need in group.needs.components}
                store.fit(components, gcd(*(group.needs.step for group in groups)), now)
                continue
            arguments, predicates = _columns_of(groups)
            keys = sorted({group.keys for group in groups if group.keys}, key=str)
            store.keep(sorted(arguments, key=str), sorted(predicates, key=str), keys, now)

    def _make_store(self, store_id: StoreId) -> EventRing | SliceStore:
        if store_id.kind == "slices":
            return SliceStore(store_id.where, store_id.keys)
        ring = EventRing(store_id.where)
        if self.clock.now is not None:
            # only the ring of the whole stream can know how many events it missed
            ring.begin_at(self.clock.now, self.clock.events if store_id == STREAM_RING else None)
        return ring

    def _fit_dictionaries(self) -> None:
        groups = self.manager.groups.values()
        arguments, predicates = _columns_of(groups)
        keys = frozenset(group.keys for group in groups if group.keys)
        predicates |= {group.where for group in groups if group.where is not None}
        self._wanted = Wanted(frozenset(arguments), frozenset(predicates), keys)
        self.keys = {
            some: self.keys[some] if some in self.keys else KeyDictionary([part.type for part in some])
            for some in sorted(keys, key=str)
        }
        self.texts = {
            argument: self.texts[argument] if argument in self.texts else Dictionary(argument.type)
            for argument in sorted(arguments_of_text(arguments), key=str)
        }

    def _text_order(self, argument: Expression) -> tuple[Ints, Ints]:
        return self.texts[argument].order()

    # -- events ------------------------------------------------------------------------------------

    def insert(self, batch: Any) -> int:
        """Take in a batch; returns how many of its events were late. All or nothing."""
        events = to_record_batch(self.stream, batch)
        at = to_times(self.stream, events)
        ascends, late = self.clock.scan(at)
        late_events = 0 if late is None else int(late.sum())
        if late is not None:
            kept = ~late
            events, at = events.filter(pa.array(kept)), at[kept]
        prepared = prepare(events, at, ascends, self._wanted, self.texts, self.keys)
        self.forget()  # only now, so that what the last batch closed could still be asked for
        self.clock.observe(at, ascends, late_events)
        self.meter.insert(self.stores, prepared)
        if self.adaptation is not None:
            self.adaptation.before_insert()
        self.meter.follow(self.synopses, len(at))
        self.sweep()  # only now, when the ids that the batch was given are in the stores
        return late_events

    def note_emitted(self) -> None:
        """Queries have given out answers: what is still owed must be computed anew."""
        self._oldest_owed = None

    def forget(self) -> None:
        """Drop events that no window needs, and the backlog of closed windows if it is too large."""
        watermark = self.clock.watermark
        if watermark is None:
            return
        oldest = min(self._owed_since(), watermark)
        if oldest < watermark and self.nbytes() > self.needed_bytes + self._backlog_bytes:
            oldest = watermark
        # time may have been promised beyond the events, but look-ups stand just after the last one
        now = watermark if self.clock.now is None else self.clock.now
        self._advance(min(oldest, watermark, now))
        if oldest >= watermark:
            self.needed_bytes = self.nbytes()

    def _owed_since(self) -> int:
        """The instant from which on some query still owes windows."""
        if self._oldest_owed is None:
            owed = [each.emitted_to for each in self.registrations.values() if each.owes]
            since = [_FOREVER if instant is None else instant for instant in owed]
            self._oldest_owed = min(since, default=_FOREVER), None in owed
        since_emitted, owes_all = self._oldest_owed
        first = self.clock.first if owes_all and self.clock.first is not None else _FOREVER
        return min(since_emitted, first)

    def _advance(self, instant: int) -> None:
        self.forgotten_to = instant = max(instant, self.forgotten_to)
        readers: dict[StoreId, list[Synopsis[Any]]] = {}
        for number, group in self.manager.groups.items():
            synopsis = self.synopses[number]
            synopsis.advance(group.earliest_lookup(instant))
            readers.setdefault(group.store, []).append(synopsis)
        for store_id, synopses in readers.items():
            store = self.stores[store_id]
            before = store.dropped
            if isinstance(store, SliceStore):
                store.forget(min(each.kept_from - each.needs.reach("time") for each in synopses))
            elif not store_id.keys:  # a ring per key is seen to by its only reader
                store.drop_first(min(each.first_needed() for each in synopses))
            if store.dropped != before:
                for synopsis in synopses:
                    synopsis.settle()

    # -- dictionaries ------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Forget keys and texts that no state refers to any more; O(1) amortised per one that comes."""
        for keys, dictionary in self.keys.items():
            readers = [self.synopses[n] for n, group in self.manager.groups.items() if group.keys == keys]
            self._sweepers[keys].sweep(
                dictionary,
                partial(self._mark_keys, keys, readers),
                partial(self._renumber_keys, keys, readers),
            )
        for argument, texts in self.texts.items():
            self._sweepers[argument].sweep(
                texts, partial(self._mark_texts, argument), partial(self._renumber_texts, argument)
            )

    def _mark_keys(self, keys: Keys, readers: Sequence[Synopsis[Any]], used: Bools) -> None:
        for store in self.stores.values():
            store.mark_keys(keys, used)
        for synopsis in readers:
            synopsis.mark_keys(used)
        for each in self._followers(keys):
            used[each.inside] = True

    def _renumber_keys(self, keys: Keys, readers: Sequence[Synopsis[Any]], new_id: Ints) -> None:
        for store in self.stores.values():
            store.renumber_keys(keys, new_id)
        for synopsis in readers:
            synopsis.renumber_keys(new_id)
        for each in self._followers(keys):
            each.inside = new_id[each.inside]
        self._forget_prepared()  # readers remember ids

    def _followers(self, keys: Keys) -> list[Registration]:
        """Queries that remember some keys."""
        return [
            each
            for each in self.registrations.values()
            if each.query.emits_changes and each.query.key_expressions == keys
        ]

    def _mark_texts(self, argument: Expression, used: Bools) -> None:
        for store in self.stores.values():
            store.mark_texts(argument, used)
        for synopsis in self.synopses.values():
            synopsis.mark_texts(argument, used)

    def _renumber_texts(self, argument: Expression, new_code: Ints) -> None:
        for store in self.stores.values():
            store.renumber_texts(argument, new_code)
        for synopsis in self.synopses.values():
            synopsis.renumber_texts(argument, new_code)
        for number, group in self.manager.groups.items():
            if any(need.input.argument == argument for need in group.needs.components):
                self.synopses[number].rebuild()
        self._forget_prepared()  # it refers to what was rebuilt

    # -- upkeep ------------------------------------------------------------------------------------

    def nbytes(self) -> int:
        """Bytes of state: stores and synopses."""
        stores = sum(store.nbytes() for store in self.stores.values())
        return stores + sum(synopsis.nbytes() for synopsis in self.synopses.values())

    def check(self) -> None:
        """Assert every invariant of everything kept."""
        for store in self.stores.values():
            store.check()
        for synopsis in self.synopses.values():
            synopsis.check()
        for keys in self.keys.values():
            keys.check()
        for text in self.texts.values():
            text.check()
        # there is a synopsis for each group, and a store for each that one reads
        assert self.synopses.keys() == self.manager.groups.keys()
        assert self.stores.keys() == {group.store for group in self.manager.groups.values()}


def _columns_of(groups: Iterable[WindowGroup]) -> tuple[set[Expression], set[Expression]]:
    """Arguments and predicates that groups read of events."""
    arguments: set[Expression] = set()
    predicates: set[Expression] = set()
    for group in groups:
        some, others = group.columns()
        arguments |= some
        predicates |= others
    return arguments, predicates
