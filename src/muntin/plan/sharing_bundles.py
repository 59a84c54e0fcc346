"""What a drawing of sharing shows: few enough boxes, though there are thousands of queries.

A *bundle* is the queries that are served by the same structures. A *card* is the groups of one structure, rule and
store. What is then still too much is put together in a last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from muntin.plan.sharing import SharedGroup, SharedStore, Sharing

_MOST_BUNDLES, _MOST_CARDS, _MOST_STORES = 14, 14, 10


class Bundle(NamedTuple):
    """Queries that are served by the same cards."""

    queries: list[str]
    cards: frozenset[int]
    combinations: int = 1  # of cards, if several were put together


class Card(NamedTuple):
    """Groups of one structure and rule, over stores that are drawn as one box."""

    groups: list[SharedGroup]
    kinds: int = 1  # of structures and rules, if several were put together

    @property
    def stores(self) -> list[str]:
        return list(dict.fromkeys(id for group in self.groups for id in group.stores))


def stores_of(sharing: Sharing) -> list[list[SharedStore]]:
    """Those that most queries read come first, each by itself; if they are many, those that differ in nothing but their
    filter are together, and so is the rest."""
    alike: dict[str, list[SharedStore]] = {}
    is_crowded = len(sharing.stores) > _MOST_STORES
    for each in sharing.stores.values():
        alike.setdefault(each.family if is_crowded and each.family else each.id, []).append(each)
    ranked = sorted(alike.values(), key=lambda some: -readers_of(sharing, some))
    most = _MOST_STORES if len(ranked) <= _MOST_STORES else _MOST_STORES - 1
    rest = [each for some in ranked[most:] for each in some]
    return ranked[:most] + ([rest] if rest else [])


def readers_of(sharing: Sharing, stores: Sequence[SharedStore]) -> int:
    """How many queries read one of some stores."""
    if len(stores) == 1:
        return sharing.readers[stores[0].id]
    ids = {each.id for each in stores}
    reading = [group for group in sharing.groups.values() if not ids.isdisjoint(group.stores)]
    return len({name for group in reading for name in group.queries})


def cards_of(sharing: Sharing, place: Mapping[str, int]) -> list[Card]:
    """`place` is the box of each store."""
    alike: dict[tuple[str, str, tuple[int, ...]], list[SharedGroup]] = {}
    for group in sharing.groups.values():
        boxes = tuple(dict.fromkeys(place[id] for id in group.stores))
        alike.setdefault((group.structure, group.because, boxes), []).append(group)
    ranked = sorted(alike.values(), key=lambda some: -len({name for each in some for name in each.queries}))
    most = _MOST_CARDS if len(ranked) <= _MOST_CARDS else _MOST_CARDS - 1
    rest = [group for some in ranked[most:] for group in some]
    return [Card(some) for some in ranked[:most]] + ([Card(rest, len(ranked) - most)] if rest else [])


def bundles_of(cards: Sequence[Card]) -> list[Bundle]:
    served: dict[str, set[int]] = {}
    for number, card in enumerate(cards):
        for group in card.groups:
            for name in group.queries:
                served.setdefault(name, set()).add(number)
    alike: dict[frozenset[int], list[str]] = {}
    for name, numbers in served.items():
        alike.setdefault(frozenset(numbers), []).append(name)
    ranked = sorted(
        (Bundle(names, numbers) for numbers, names in alike.items()), key=lambda each: -len(each.queries)
    )
    most = _MOST_BUNDLES if len(ranked) <= _MOST_BUNDLES else _MOST_BUNDLES - 1
    rest = ranked[most:]
    if not rest:
        return ranked
    together = Bundle(
        [name for each in rest for name in each.queries], frozenset().union(*(each.cards for each in rest)), len(rest)
    )  # fmt: skip
    return [*ranked[:most], together]
