"""Items by number: a hash table gives each item of a run a number, in order of first appearance.

`slot` has places, a power of two and at least twice as many as there can be items; 0 where a place is free, else
one more than the number of the item there. Collisions go to the next place.
"""

from __future__ import annotations

from muntin.kernels.distinct import home_of
from muntin.kernels.jit import inner, kernel


@inner
def place_of(code, slot, name):
    """The place of an item among those that have numbers, or the free one where it would go."""
    at = home_of(code, len(slot))
    while slot[at] != 0 and name[slot[at] - 1] != code:
        at = (at + 1) & (len(slot) - 1)
    return at


@kernel
def count_items(code, slot, item, count):
    """Pairs of item and count; returns how many."""
    slot[:] = 0
    items = 0
    for i in range(len(code)):
        at = place_of(code[i], slot, item)
        if slot[at] == 0:
            item[items], count[items] = code[i], 0
            items += 1
            slot[at] = items
        count[slot[at] - 1] += 1
    return items


@kernel
def sum_items(item, count, spared, slot):
    """Add up counts, and what is spared, of equal items, in place; returns how many items there are."""
    slot[:] = 0
    items = 0
    for i in range(len(item)):
        at = place_of(item[i], slot, item)
        if slot[at] == 0:
            item[items], count[items], spared[items] = item[i], count[i], spared[i]
            items += 1
            slot[at] = items
        else:
            into = slot[at] - 1
            count[into] += count[i]
            spared[into] += spared[i]
    return items
