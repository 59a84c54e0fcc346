"""The sweepers of a shard: one for each of its dictionaries, which know who refers to keys and texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from muntin.arrays import Bools, Ints
from muntin.expression import Expression
from muntin.keys.sweeper import Sweeper
from muntin.plan.demand import Demand
from muntin.shard.crowd import Crowd
from muntin.shard.registration import Registration
from muntin.structure.synopsis import Synopsis

if TYPE_CHECKING:
    from muntin.shard.state import State


Keys = tuple[Expression, ...]


class Sweepers:
    """Keeps the dictionaries of a shard at the size of its state."""

    def __init__(self, state: State):
        self._state = state
        self._of: defaultdict[Keys | Expression | None, Sweeper] = defaultdict(Sweeper)

    def sweep(self) -> None:
        """Forget keys and texts that no state refers to any more; O(1) amortised per one that comes."""
        state = self._state
        for keys, dictionary in state.keys.items():
            readers = [state.synopses[n] for n, group in state.manager.groups.items() if group.keys == keys]
            self._of[keys].sweep(
                dictionary,
                partial(self._mark_keys, keys, readers),
                partial(self._renumber_keys, keys, readers),
            )
        for argument, texts in state.texts.items():
            self._of[argument].sweep(
                texts, partial(self._mark_texts, argument), partial(self._renumber_texts, argument)
            )

    def look_again(self, left: Iterable[Demand]) -> None:
        """Demands have left, of which some had a longer window than any that is left of the same keys: what only they
        kept may be much. Others are not worth a look. O(groups) at worst, O(1) as a rule."""
        groups = self._state.manager.groups.values()
        for each in left:
            unit, reach = each.window.unit, each.window.size + each.window.slide
            if any(group.needs.reach(unit) >= reach and group.keys == each.keys for group in groups):
                continue
            for named in (each.keys, each.need.input.argument):
                if named in self._of:
                    self._of[named].look_again()

    def _mark_keys(self, keys: Keys, readers: Sequence[Synopsis[Any]], used: Bools) -> None:
        for store in self._state.stores.values():
            store.mark_keys(keys, used)
        for synopsis in readers:
            synopsis.mark_keys(used)
        for asked in self._state.lanes:
            if asked.keys and asked.keys == keys:  # the keys of its pairs must be known
                pairs = self._state.keys[asked.store_keys]
                columns = pairs.take(np.arange(len(pairs)))[: len(keys)]
                ids = self._state.keys[keys].find(
                    columns
                )  # not of pairs that others had before there were lanes
                used[ids[ids >= 0]] = True
        for each in self._followers(keys):
            used[each.inside] = True
        for crowd in self._crowds(keys):
            crowd.mark_inside(used)

    def _renumber_keys(self, keys: Keys, readers: Sequence[Synopsis[Any]], new_id: Ints) -> None:
        for store in self._state.stores.values():
            store.renumber_keys(keys, new_id)
        for synopsis in readers:
            synopsis.renumber_keys(new_id)
        for asked, lanes in self._state.lanes.items():
            if keys in (asked.keys, asked.store_keys):
                lanes.forget_pairs()
        for each in self._followers(keys):
            each.inside = new_id[each.inside]
        for crowd in self._crowds(keys):
            crowd.renumber_keys(new_id)
        self._state.prepared.forget_ids()

    def _followers(self, keys: Keys) -> list[Registration]:
        """Queries that remember some keys, of those that are in no crowd."""
        return [
            each
            for each in self._state.crowds.alone.values()
            if each.query.emits_changes and each.query.key_expressions == keys
        ]

    def _crowds(self, keys: Keys) -> list[Crowd]:
        """Crowds that remember some keys."""
        return [each for each in self._state.crowds if each.reading.query.key_expressions == keys]

    def _mark_texts(self, argument: Expression, used: Bools) -> None:
        for store in self._state.stores.values():
            store.mark_texts(argument, used)
        for synopsis in self._state.synopses.values():
            synopsis.mark_texts(argument, used)

    def _renumber_texts(self, argument: Expression, new_code: Ints) -> None:
        state = self._state
        for store in state.stores.values():
            store.renumber_texts(argument, new_code)
        for synopsis in state.synopses.values():
            synopsis.renumber_texts(argument, new_code)
        for number, group in state.manager.groups.items():
            if any(need.input.argument == argument for need in group.needs.components):
                state.synopses[number].rebuild()
        state.prepared.forget_all()  # it refers to what was rebuilt
