"""Top: of the slots that pass HAVING, the first in the order of ORDER BY, as many as LIMIT says at each instant."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from muntin.arrays import Ints
from muntin.shard.read.in_order import InOrder, Words, words_of
from muntin.shard.read.left_out import Values, either
from muntin.shard.read.reading import Reading

if TYPE_CHECKING:
    from muntin.shard.read.evaluate import Once, Rows, Selected

_NONE = np.zeros(0, np.int64)


def first_of(
    reading: Reading, rows: Rows, chosen: Selected, values: Sequence[Values], without: Ints, once: Once
) -> Selected:
    """The first of the chosen slots at each instant, in order; `values` are what ORDER BY names for each of them. Those
    `without` which they are to be found, and those of which such a value does not exist, are not ranked. O(slots).

    Queries that differ in LIMIT alone find them `once`, by the identity of the columns.
    """
    top = reading.query.top
    assert top is not None
    slots = np.arange(len(rows)) if chosen.kept is None else chosen.kept
    lost = None
    for each in values:
        lost = either(lost, each.lost)
    ranked = None  # places of the slots that are ranked, None: of all
    if len(without):
        lost = either(lost, np.isin(slots, without))
    if lost is not None and lost.any():
        ranked = np.flatnonzero(~lost)
        unknown = np.setdiff1d(slots[lost], without)
        reason = chosen.reason or next((each.reason for each in values if each.reason), "")
        chosen = chosen._replace(unknown=np.union1d(chosen.unknown, unknown), reason=reason)
    what = [(id(each.column), descends) for each, (_, descends) in zip(values, top.by, strict=True)]
    in_order: list[tuple[Ints, InOrder]] = once(
        ("in order", *what), lambda: list(_by_instant(reading, rows, slots, values, ranked))
    )
    return chosen.at(np.concatenate([_NONE, *(places[each.first(top.limit)] for places, each in in_order)]))


def _by_instant(
    reading: Reading, rows: Rows, slots: Ints, values: Sequence[Values], ranked: Ints | None
) -> list[tuple[Ints, InOrder]]:
    """The places of the slots of each instant, and the order of these."""
    top, keys = reading.query.top, reading.keys
    assert top is not None
    assert keys is not None
    words = [words_of(each.column, descends) for each, (_, descends) in zip(values, top.by, strict=True)]
    places = np.arange(len(slots))
    if ranked is not None:
        places, words = ranked, [each.at(ranked) for each in words]
    edges = np.searchsorted(slots[places], np.arange(len(rows.instants) + 1) * rows.width)

    def order_of(lo: int, hi: int) -> InOrder:
        def ties(some: Ints) -> list[Words]:
            return [words_of(column) for column in keys.take(rows.ids(slots[places[lo + some]]))]

        return InOrder([each.at(slice(lo, hi)) for each in words], ties)

    return [(places[lo:hi], order_of(lo, hi)) for lo, hi in pairwise(edges.tolist()) if lo < hi]
