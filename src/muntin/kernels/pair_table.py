"""Ids of pairs of a key and a lane, by their place in a table of `room` lanes for each key; -1 where none is."""

from __future__ import annotations

from muntin.kernels.jit import kernel


@kernel
def find_pairs(key, lane, room, table, ids):
    """The id of the pair of each event; how many have none."""
    missing = 0
    for i in range(len(key)):
        id = table[key[i] * room + lane[i]]
        ids[i] = id
        missing += id < 0
    return missing
