"""Registers of HyperLogLog as entries of a log in order of time (`sketch/sliding_registers.py`).

An entry is one integer: the key, a register of it (the first bits of a hash, as many as the *precision*) and a rank
(the place of the first 1 among the other bits, at most `HIGHEST`). The log is read by way of a table of entries, open
addressed by key and register, with -1 where a place is free.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.jit import inner, kernel

HIGHEST = 44  # of ranks: sums of 2**(HIGHEST - rank) over all registers fit 64 bits
RANK_BITS = 6
_RANK = (1 << RANK_BITS) - 1
_TOP = np.uint64(63)
_ONE = np.uint64(1)
_WORD = np.uint64(64)
_MIX = np.uint64(0x9E3779B97F4A7C15)


@kernel
def enter(key, hash, precision, entry):
    """The entries of values of keys, by their hashes."""
    bits = np.uint64(precision)
    for i in range(len(key)):
        whole = np.uint64(hash[i])
        rest = whole << bits
        rank = 1
        while rank < HIGHEST and rest >> _TOP == 0:
            rest <<= _ONE
            rank += 1
        entry[i] = (((key[i] << precision) | np.int64(whole >> (_WORD - bits))) << RANK_BITS) | rank


@inner
def coarser(entry, bits):
    """The entry of the same hash with so many bits less for the register."""
    rank, slot = entry & _RANK, entry >> RANK_BITS
    left = slot & ((1 << bits) - 1)
    first = bits
    while left:  # the place of the first 1 among the bits that are no longer for the register
        left >>= 1
        first -= 1
    rank = min(rank + bits, HIGHEST) if first == bits else first + 1
    return ((slot >> bits) << RANK_BITS) | rank


@kernel
def coarsen_entries(entry, bits):
    """All entries with so many bits less."""
    for i in range(len(entry)):
        entry[i] = coarser(entry[i], bits)


@inner
def place_in(table, slot):
    """Where a slot is in a table, or would be."""
    mask = len(table) - 1
    at = np.int64((np.uint64(slot) * _MIX) >> np.uint64(20)) & mask
    while table[at] >= 0 and table[at] >> RANK_BITS != slot:
        at = (at + 1) & mask
    return at


@kernel
def mark_needed(entry, table, needed):
    """Which entries some window that ends after all of them may need: those that no later one is as high as."""
    for i in range(len(entry) - 1, -1, -1):
        at = place_in(table, entry[i] >> RANK_BITS)
        needed[i] = table[at] < 0 or (table[at] & _RANK) < (entry[i] & _RANK)
        if needed[i]:
            table[at] = entry[i]


@kernel
def add_entries(entry, precision, bits, slot_of, table, total, filled):
    """Fold entries, with so many bits less, into the registers of the answers that keys have a slot in: how many are
    filled, and the sum of 2**(HIGHEST - rank) of these."""
    for i in range(len(entry)):
        slot = slot_of[entry[i] >> (precision + RANK_BITS)]
        if slot >= 0:
            each = coarser(entry[i], bits) if bits else entry[i]
            at = place_in(table, each >> RANK_BITS)
            rank = each & _RANK
            if table[at] < 0:
                filled[slot] += 1
                total[slot] += np.int64(1) << (HIGHEST - rank)
                table[at] = each
            elif table[at] & _RANK < rank:
                total[slot] += (np.int64(1) << (HIGHEST - rank)) - (
                    np.int64(1) << (HIGHEST - (table[at] & _RANK))
                )
                table[at] = each


@kernel
def estimate(total, filled, precision, into):
    """How many different values there are about (Ertl 2017, the improved estimator; no register is ever full)."""
    registers = np.float64(1 << precision)
    for i in range(len(into)):
        into[i] = 0.0
        if filled[i]:
            empty = (registers - filled[i]) / registers
            power, before, series = 1.0, -1.0, empty
            while series != before:
                empty *= empty
                before = series
                series += empty * power
                power += power
            into[i] = (registers * registers / (2.0 * np.log(2.0))) / (
                total[i] / np.float64(1 << HIGHEST) + registers * series
            )
