"""Movers: queries of a running shard on their way from filters of their own to lanes that their like share.

Whether lanes are worth it depends on how many constants there are. Where it also depends on how few events pass, the
shard counts them for a while, and decides once.

A query moves when no answer can tell: at every instant that is still owed, or that an event can still change, its lanes
know all that its windows reach. Look-ups further back are refused from then on, as those of forgotten windows are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from muntin.arrays import FOREVER, LONG_AGO
from muntin.errors import WindowTooLarge
from muntin.lane import Asked, Laned
from muntin.plan import PlanChanges, Request, choices
from muntin.store.batch import Batch

if TYPE_CHECKING:
    from muntin.shard.state import State


ENOUGH = 100_000  # events, to tell how many pass


class Movers:
    """Of one shard. A push costs two comparisons, O(queries that may have arrived) if there are any, and as long as
    there is something to decide O(events) for each filter concerned."""

    def __init__(self, state: State):
        self._state = state
        # of each query, the instant that the shard has to have forgotten up to before it can arrive; and the earliest
        self._due: dict[str, int] = {}
        self._next = FOREVER
        # of stores with lanes that may be worth it: how many events were seen, and how many of them pass
        self._watched: dict[Asked, list[int]] = {}

    def begin(self, came: Mapping[str, Request], changes: PlanChanges) -> PlanChanges:
        """Queries came: those that are apart from lanes which are worth it by now begin to move. Before the stream
        begins, all are planned together instead; where events are folded elsewhere, the texts of queries decide."""
        manager, now = self._state.manager, self._state.clock.now
        if manager.is_by_demand or not manager.has_lanes:
            return changes
        stores = dict.fromkeys(laned.asked for each in came.values() for laned in each.lanes())
        self._watch(stores)
        if now is not None:
            self._begin(stores, came, now, changes)
        return changes

    def _begin(
        self, stores: Iterable[Asked], came: Mapping[str, Request], now: int, changes: PlanChanges
    ) -> None:
        state, manager = self._state, self._state.manager
        many = [asked for asked in stores if manager.lanes.are_many(Laned(asked, ()))]
        for name in manager.moving.apart(many):
            request = came.get(name) or manager.request_of(state.registrations[name].query)
            manager.begin_to_move(name, request, now, changes)
            self._expect(name)

    def _watch(self, stores: Iterable[Asked]) -> None:
        would_be_many = self._state.manager.lanes.would_be_many
        self._watched |= {
            each: [0, 0] for each in stores if each not in self._watched and would_be_many(each)
        }

    def note(self, batch: Batch) -> None:
        """Count how many events pass, where it matters."""
        state = self._state
        for asked, seen in self._watched.items():
            wheres = {
                state.registrations[name].query.where for name in state.manager.moving.could_read(asked)
            }
            if not wheres <= batch.predicates:  # they are FILTERs, which nobody evaluates for all events
                continue
            seen[0] += len(batch)
            seen[1] += sum(int(np.count_nonzero(batch.mask(where))) for where in wheres if where is not None)

    def _decide(self) -> None:
        """Have queries begin to move of which few enough events pass, where enough have been seen to tell."""
        known = [asked for asked, (events, _) in self._watched.items() if events >= ENOUGH]
        if not known:
            return
        lanes, now, changes = self._state.manager.lanes, self._state.clock.now, PlanChanges()
        for asked in known:
            events, passed = self._watched.pop(asked)
            if passed <= choices.FEW_PASS * events and now is not None:
                lanes.sparse.add(asked)
                self._begin([asked], {}, now, changes)
        self._state.take_up(changes)

    def resume(self) -> None:
        """Go on with queries that were on their way when a snapshot was taken."""
        manager = self._state.manager
        for name in manager.moving.to:
            self._expect(name)
        if not manager.is_by_demand and manager.has_lanes:
            self._watch(manager.moving.stores)

    def _expect(self, name: str) -> None:
        self._due[name] = self._next = LONG_AGO

    def forget(self, name: str) -> None:
        """A query is gone."""
        self._due.pop(name, None)

    def follow(self) -> None:
        """Let those arrive that can, and those begin of which it is known by now that they should."""
        state = self._state
        self._decide()
        if state.forgotten_to < self._next:
            return
        changes, held = PlanChanges(), state.held_bytes()
        for name in [name for name, due in self._due.items() if due <= state.forgotten_to]:
            instant, pace = self.arrives(name), state.registrations[name].pace
            if instant <= pace.floor(state.forgotten_to):
                state.leave(name, state.manager.move(name, instant, changes))
                del self._due[name]
            else:
                self._due[name] = instant
        self._next = min(self._due.values(), default=FOREVER)
        state.fit(changes)
        # what is taken less is no room for a backlog
        state.needed_bytes = max(0, state.needed_bytes + state.held_bytes() - held)

    def arrives(self, name: str) -> int:
        """The instant from which on a query that moves can be answered from either place: its windows begin after it
        began to. Lanes may have been there before; but a history may have had other events than the stream."""
        state, pace = self._state, self._state.registrations[name].pace
        old, new = state.manager.placements[name], state.manager.moving.to[name]
        instants = [new.began]
        for number, (_, _, window, need, *_) in (*old.all(), *new.all()):
            if window.to < window.size:  # it holds something
                since = max(new.began, state.synopses[number].known_since(window, need))
                instants.append(pace.ceil(window.pace.ceil(window.first_from(since))))
        return max(instants)


def refuse_before_move(state: State, name: str, at: int) -> None:
    """Raise if a query has moved to lanes that do not know what its windows had at an instant."""
    answers_from = state.manager.placements[name].answers_from
    if state.registrations[name].pace.floor(at) < answers_from:
        raise WindowTooLarge(
            f"query '{name}' at {np.datetime64(at, 'us')} needs events that have been dropped; the state answers "
            f"instants from {np.datetime64(answers_from, 'us')} on"
        )
