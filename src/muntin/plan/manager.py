"""The window manager: assigns the demands of queries to groups as queries come and go."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from functools import partial

from muntin.band import Band
from muntin.expression import Expression
from muntin.lane import Laned
from muntin.plan.choices import Call, Chosen, Precedents, choose_synopsis, stores_for_stairs
from muntin.plan.demand import Demand, Signature
from muntin.plan.group import Kind, PlanChanges, StoreId, WindowGroup, ring_of
from muntin.plan.lanes import LaneCounts
from muntin.plan.moving import Moving
from muntin.plan.nesting import Nesting, Nestings
from muntin.plan.placement import CallLanes, Placed, Placement
from muntin.plan.request import Request, bands_of, request_of
from muntin.plan.room import has_room, is_partly_kept, stands_there
from muntin.plan.store_needs import ColumnsRead, StoreNeeds
from muntin.plan.synopses import is_on_slices, keeps_cells, reads_cells
from muntin.query import Query
from muntin.store.needs import Need, Needs, count
from muntin.structure.sessions import Sessions
from muntin.structure.slices import Slices
from muntin.structure.stairs import Stairs
from muntin.table_query import TableQuery


class WindowManager:
    """Groups of one stream, by number; numbers are never used again.

    What a query costs to place or to take out depends on it, and on the groups with its filter and keys; not
    on how many queries there are.
    """

    def __init__(self, is_by_demand: bool = False, has_lanes: bool = True) -> None:
        """With `is_by_demand` a demand alone says whether cells are enough for it: a runtime may then fold events
        before it knows what else is registered. Without `has_lanes`, every WHERE has state of its own."""
        self.is_by_demand = is_by_demand
        self.has_lanes = has_lanes
        self.groups: dict[int, WindowGroup] = {}
        self.placements: dict[str, Placement] = {}
        self.stores: dict[StoreId, StoreNeeds] = {}
        self.columns = ColumnsRead()  # by all groups
        self._next = 1
        self._by_signature: dict[Signature, dict[int, WindowGroup]] = {}
        self._bands: dict[Expression, dict[Band, int]] = {}  # by attribute: how many demands ask for each
        self._coming: dict[Expression, set[Band]] = {}  # of queries that are being registered
        self.lanes = LaneCounts()
        self.moving = Moving()
        self._precedents = Precedents()
        self._nestings = Nestings()

    def request_of(self, query: Query | TableQuery) -> Request:
        """A request that this plan can place."""
        return request_of(query, self.is_by_demand)

    def register(
        self, requests: Mapping[str, Request], changes: PlanChanges, is_running: bool = False
    ) -> None:
        """Place queries, all or none. They are placed in the order of their texts, so that the plan of an empty
        manager depends on which queries there are, not on the order in which somebody lists them.

        In a running stream the components of a call go where all of them are kept already, or none:
        a sum that began later than the count beside it would make an average of neither.
        """
        placed: list[str] = []
        self._coming = bands_of(requests.values())
        self.lanes.expect(laned for each in requests.values() for laned in each.lanes())
        try:
            for name in sorted(requests, key=lambda name: requests[name].query.text):
                placed.append(name)
                self._register(name, requests[name], changes, is_running)
        except BaseException:
            for name in placed[:-1]:
                self.drop(name, changes)
            raise
        finally:
            self._coming = {}
            self.lanes.expect(())

    def _register(self, name: str, request: Request, changes: PlanChanges, is_running: bool) -> None:
        placement = self._placed(name, request, changes, is_running)
        self.placements[name] = placement
        self._count_lanes(placement, 1, changes)
        self.moving.note(name, placement)

    def _placed(
        self, name: str, request: Request, changes: PlanChanges, is_running: bool, is_moving: bool = False
    ) -> Placement:
        among_lanes = request.among_lanes
        is_among_lanes = among_lanes is not None and self._goes_to_lanes(
            among_lanes.laned, (*request.calls, request.presence), is_moving
        )
        asked = among_lanes if among_lanes is not None and is_among_lanes else request
        wanted, of_calls = list(asked.calls), []
        for number, each in enumerate(request.calls_among_lanes):
            is_read = (
                each is not None
                and not is_among_lanes
                and self._goes_to_lanes(each.laned, (request.calls[number],), is_moving)
            )
            of_calls.append(None if each is None else CallLanes(each.laned, is_read))
            if each is not None and is_read:
                wanted[number] = each.call
        calls = tuple([self._place_call(name, call, changes, is_running) for call in wanted])
        presence = tuple([self._place_call(name, (each,), changes, is_running)[0] for each in asked.presence])
        laned = None if among_lanes is None else among_lanes.laned
        return Placement(calls, presence, laned, is_among_lanes, tuple(of_calls))

    def drop(self, name: str, changes: PlanChanges) -> list[Placement]:
        """Take a query out of where it was, and of where it was moving to; groups without queries are gone
        afterwards."""
        left = [self.placements.pop(name)]
        self.moving.forget(name, left[0])
        if name in self.moving.to:
            left.append(self.moving.to.pop(name))
        for placement in left:
            self._clear(name, placement, changes)
        return left

    def begin_to_move(self, name: str, request: Request, now: int, changes: PlanChanges) -> None:
        """Have the lanes that a query could read kept for it, beside what it is answered from."""
        to = self._placed(name, request, changes, is_running=True, is_moving=True)
        self._count_lanes(to, 1, changes)
        self.moving.to[name] = to._replace(began=now)

    def move(self, name: str, answers_from: int, changes: PlanChanges) -> Placement:
        """Have a query answered from where it moves to, which suffices from an instant on; gives what it has left."""
        old, new = self.placements[name], self.moving.to.pop(name)
        self.moving.forget(name, old)
        self._clear(name, old, changes)
        self.placements[name] = new._replace(answers_from=answers_from)
        self.moving.note(name, new)
        return old

    def _clear(self, name: str, placement: Placement, changes: PlanChanges) -> None:
        for number, demand in placement.all():
            self._leave(name, self.groups[number], demand, changes)
        self._count_lanes(placement, -1, changes)

    def _goes_to_lanes(self, laned: Laned, otherwise: Iterable[Call], is_moving: bool) -> bool:
        """Whether a query or a call reads lanes of a store that others share; else its filter has state of its own, and
        is served `otherwise`."""
        if not self.has_lanes or not self.lanes.are_many(laned):
            return False
        # a filter that is kept already stays where it is, until lanes know as much of the past
        return is_moving or not all(self._keeps(*each) for call in otherwise for each in call)

    def _count_lanes(self, placement: Placement, step: int, changes: PlanChanges) -> None:
        for laned, is_read in placement.lanes():
            self.lanes.count(laned, is_read, step)
            if is_read:
                changes.lanes.setdefault(laned.asked, set()).update(laned.lanes)

    def adopt(
        self, groups: list[WindowGroup], placed: Mapping[str, Placement], moving: Mapping[str, Placement]
    ) -> PlanChanges:
        """Take over a plan made earlier instead of making one: where queries are, and where some are `moving` to."""
        changes = PlanChanges()
        for group in groups:
            self._open(group)
        self._next = max(self.groups, default=0) + 1
        self._take_over(placed, moving, changes)
        return changes

    def graft(self, other: WindowManager) -> tuple[PlanChanges, dict[int, int], int]:
        """Take over the queries of another plan, with groups and stores of their own, whose generation is new.

        Gives what changed, the new number of each group, and the generation.
        """
        changes, numbers = PlanChanges(), dict[int, int]()
        generation = 1 + max((store.generation for store in self.stores), default=0)
        for old in other.groups.values():
            store = old.store._replace(generation=generation)
            numbers[old.number] = self._next
            self._open(WindowGroup(self._next, old.planned, old.because, old.where, old.keys, store))
            self._next += 1
        grafted = {
            name: placement.mapped(lambda placed: (numbers[placed[0]], placed[1]))
            for name, placement in other.placements.items()
        }
        self._take_over(grafted, {}, changes)
        return changes, numbers, generation

    def _take_over(
        self, placements: Mapping[str, Placement], moving: Mapping[str, Placement], changes: PlanChanges
    ) -> None:
        self.placements |= placements
        self.moving.to |= moving
        for name, placement in (*placements.items(), *moving.items()):
            for number, demand in placement.all():
                self._join(name, self.groups[number], demand, changes)
            self._count_lanes(placement, 1, changes)
        for name, placement in placements.items():
            self.moving.note(name, placement)

    def raise_stairs(self, changes: PlanChanges, filled: Container[StoreId]) -> dict[StoreId, StoreId]:
        """Move windows per key from grids to stairs where these are better, after the changes so far: the stairs,
        each with the store that they take the place of. `filled` are the stores that have seen events.
        O(queries) if any move, else O(groups with the filters and keys of those that changed)."""
        moved: dict[StoreId, StoreId] = {}
        touched = (self.groups.get(number) for number in sorted(changes.groups))
        signatures = dict.fromkeys(each.signature for each in touched if each and each.planned == Slices.name)
        for signature in signatures:
            stores = stores_for_stairs(self._by_signature[signature].values(), filled)
            if stores and not (stores[0] in filled and self._would_mix(stores[0], stores[1:])):
                stairs = stores[0]._replace(kind="stairs")
                self._move(stores, stairs, changes)
                moved[stairs] = stores[0]
        return moved

    def _would_mix(self, old: StoreId, new: list[StoreId]) -> bool:
        """Whether a call on new stores would find some of its components in an old one, but not all of them."""
        there = self.stores[old].components
        calls = (
            [demand.need in there for number, demand in call if self.groups[number].store in new]
            for placement in (*self.placements.values(), *self.moving.to.values())
            for call in placement.calls
        )
        return any(any(kept) and not all(kept) for kept in calls)

    def _move(self, stores: list[StoreId], to: StoreId, changes: PlanChanges) -> None:
        """Move all demands on some stores to another store."""
        gone = {number for store in stores for number in self.stores[store].groups}

        def move(name: str, placed: Placed) -> Placed:
            number, demand = placed
            if number not in gone:
                return placed
            self._leave(name, self.groups[number], demand, changes)
            return self._place(name, demand, choose_synopsis(demand._replace(stairs=True)), to, changes)

        for placements in (self.placements, self.moving.to):
            for name, placement in placements.items():
                if gone & placement.groups():
                    placements[name] = placement.mapped(partial(move, name))

    def check(self) -> None:
        """Assert that what is kept up to date is what the placements make it."""
        fresh = WindowManager(self.is_by_demand, self.has_lanes)
        for group in self.groups.values():
            fresh._open(replace(group, needs=Needs(), queries={}, paces={}, hinted=0, pinned=0))
        fresh._take_over(self.placements, self.moving.to, PlanChanges())
        assert fresh.lanes == self.lanes
        assert fresh.moving == self.moving
        assert fresh.groups == self.groups
        assert fresh.stores == self.stores
        assert fresh.columns == self.columns
        assert fresh._by_signature == self._by_signature
        assert fresh._bands == {attribute: bands for attribute, bands in self._bands.items() if bands}
        for nesting in self.nestings().values():
            nesting.check()

    def nestings(self) -> Mapping[Signature, Nesting]:
        """How the windows of all groups nest, found now; O(windows) if they are those of the last call."""
        return self._nestings.of(self.groups.values())

    def _place_call(
        self, name: str, call: Call, changes: PlanChanges, is_running: bool
    ) -> tuple[Placed, ...]:
        if (precedents := self._precedents.find(call, self.groups)) is not None:
            for group, demand, is_served in precedents:
                if is_served:  # to have it there once more changes nothing but counts
                    group.add(name, demand)
                else:
                    self._join(name, group, demand, changes)
            return tuple([(group.number, demand) for group, demand, _ in precedents])
        demands, chosen = tuple(demand for demand, _ in call), self._choose(call)
        stores = [
            self._cells_for(demand, demands, changes if is_running else None, each.synopsis)
            if reads_cells(demand, each.synopsis)
            else ring_of(demand)
            for demand, each in zip(demands, chosen, strict=True)
        ]
        placed = tuple(
            self._place(name, demand, each, store, changes)
            for demand, each, store in zip(demands, chosen, stores, strict=True)
        )
        for (number, demand), (_, alone) in zip(placed, call, strict=True):
            self._precedents.remember(demand, alone, self.groups[number])
        return placed

    def _place(
        self, name: str, demand: Demand, chosen: Chosen, store: StoreId, changes: PlanChanges
    ) -> Placed:
        asked = (chosen.synopsis, store)
        groups = self._by_signature.get(demand.signature, {}).values()
        group = next(
            (each for each in groups if (each.planned, each.store) == asked and stands_there(each, demand)),
            None,
        )
        if group is None:
            group = WindowGroup(self._next, chosen.synopsis, chosen.because, demand.where, demand.keys, store)
            self._open(group)
            self._next += 1
        self._join(name, group, demand, changes)
        return group.number, demand

    def _open(self, group: WindowGroup) -> None:
        self.groups[group.number] = group
        self._by_signature.setdefault(group.signature, {})[group.number] = group
        self.stores.setdefault(group.store, StoreNeeds()).add_group(group)
        self.columns.count_group(group.where, group.keys, 1)

    def _close(self, group: WindowGroup) -> None:
        del self.groups[group.number]
        del self._by_signature[group.signature][group.number]
        if not self._by_signature[group.signature]:
            del self._by_signature[group.signature]
        self.stores[group.store].remove_group(group)
        if not self.stores[group.store].groups:
            del self.stores[group.store]
        self.columns.count_group(group.where, group.keys, -1)

    def _join(self, name: str, group: WindowGroup, demand: Demand, changes: PlanChanges) -> None:
        if group.store.kind == "stairs" and demand.window not in group.needs.windows:
            self.stores[group.store].add_window(demand.window)
        is_new = group.add(name, demand)
        if is_new:
            self._count_component(group, demand.need, 1)
        self._count(demand, 1)
        changes.come(group, demand, is_new)

    def _leave(self, name: str, group: WindowGroup, demand: Demand, changes: PlanChanges) -> None:
        is_gone = group.remove(name, demand)
        if is_gone:
            self._count_component(group, demand.need, -1)
        if group.store.kind == "stairs" and demand.window not in group.needs.windows:
            self.stores[group.store].remove_window(demand.window)
        self._count(demand, -1)
        changes.leave(group, demand, is_gone)
        if not group.queries:
            self._close(group)

    def _count_component(self, group: WindowGroup, need: Need, step: int) -> None:
        self.stores[group.store].count_component(group, need, step)
        self.columns.count_component(group, need, step)

    def _choose(self, call: Call) -> list[Chosen]:
        """A synopsis for each component of a call, now that it is known which bands and stairs there are."""
        alone, first = [chosen for _, chosen in call], call[0][0]
        if first.keys:
            return [
                choose_synopsis(demand._replace(stairs=True))
                if chosen.synopsis == Slices.name and demand.hint is None and self._has_stairs(demand)
                else chosen
                for demand, chosen in call
            ]
        if first.band is None or (self.is_by_demand and is_on_slices(first)):
            return alone
        if all(self._keeps(demand, chosen) for demand, chosen in call):
            return alone  # a filter that is kept already stays where it is
        bands = self._bands.get(first.band.attribute, {})
        many = len(bands.keys() | self._coming.get(first.band.attribute, set()) | {first.band})
        among_bands = [choose_synopsis(demand._replace(bands=many)) for demand, _ in call]
        # a tree may know more of the past than a filter: no call may read one component of each
        return among_bands if len({each.synopsis for each in among_bands}) == 1 else alone

    def _has_stairs(self, demand: Demand) -> bool:
        """Whether there are stairs for the filter and keys of a demand."""
        return any(
            group.store.kind == "stairs" and not group.store.generation
            for group in self._by_signature.get(demand.signature, {}).values()
        )

    def _keeps(self, demand: Demand, chosen: Chosen) -> bool:
        """Whether a group that a demand would go to has what it needs already."""
        on_ring = not reads_cells(demand, chosen.synopsis)
        return any(
            group.planned == chosen.synopsis
            and (group.store.kind == "ring") == on_ring
            and demand.need in group.needs.components
            for group in self._by_signature.get(demand.signature, {}).values()
        )

    def _count(self, demand: Demand, step: int) -> None:
        """One demand more or less for a band."""
        if demand.band is None:
            return
        count(self._bands.setdefault(demand.band.attribute, {}), demand.band, step)

    def _cells_for(
        self, demand: Demand, call: tuple[Demand, ...], changes: PlanChanges | None, synopsis: str
    ) -> StoreId:
        """A store of cells with room for this demand. In a running stream, `changes` tell which components are as young
        there as those of the call will be."""
        needs = {each.need for each in call if keeps_cells(each)}  # others are kept elsewhere anyway
        kind: Kind = "slices" if synopsis not in (Stairs.name, Sessions.name) else synopsis  # type: ignore[assignment]
        for number in itertools.count():
            store = StoreId(kind, demand.where, demand.keys, number)
            if (asked := self.stores.get(store)) is None:
                return store
            is_mixed = changes is not None and is_partly_kept(needs, asked, changes.stores.get(store))
            if has_room(kind, demand, asked) and not is_mixed:
                return store
        raise AssertionError("there is always another number")
