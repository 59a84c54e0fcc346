"""Quantiles of blocks: cut a sorted block at its midpoints, run Greenwald-Khanna over many, select by weight.

Values are order codes, so that all are integers. The entries of a block of h values at level l, of which
there are K, are those of ranks ceil((t - 1/2) h / K), t = 1 .. K. Ranks are counted in shares of 1 / F,
F = 2 * (entries of the highest level), so that the weight h / K of an entry is a whole number.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.jit import kernel
from muntin.kernels.ladder import AT, HELD, SHIFT, SLACK, USED, put_block


@kernel
def share_bits(shape, level):
    """An entry of level l weighs `held << share_bits` shares."""
    return shape.levels - level


@kernel
def describe(shape, blocks, block, level, held, at, tolerance):
    """Facts of a block whose entries' ranks are off their midpoints by half of `tolerance` at most."""
    blocks.about[block, HELD] = held
    blocks.about[block, USED] = shape.entries << level if held else 0
    half = held << (share_bits(shape, level) - 1)
    blocks.about[block, SLACK] = half + tolerance * (shape.entries << (shape.levels - 1))
    blocks.about[block, SHIFT] = 0
    blocks.about[block, AT] = at


@kernel
def cut_block(shape, blocks, scale, level, number, source, lo, held, at):
    """A block of the sorted values source[lo : lo + held]."""
    block, entry = put_block(shape, blocks, scale, level, number)
    describe(shape, blocks, block, level, held, at, 0)
    entries = shape.entries << level
    if held == 0:
        return
    step, rest = held // entries, held % (2 * entries)
    if rest == 0:
        for t in range(entries):
            blocks.item[entry + t] = source[lo + t * step + (step >> 1) - 1]
        return
    for t in range(entries):
        blocks.item[entry + t] = source[lo + ((2 * t + 1) * held - 1) // (2 * entries)]


@kernel
def cut_row(shape, blocks, level, first, size, source, held, at):
    """Blocks of a size from elements, of which the first has number `first`; those of each are sorted, and
    held[i] of block i count, which come first."""
    for number in range(len(held)):
        lo = number * size
        cut_block(shape, blocks, 0, level, (first + lo) // size, source, lo, held[number], at[lo])


@kernel
def encode_floats(value, valid, code):
    """Order codes of floats (`store/codes.py`); NaN is not `valid` any more."""
    bits = value.view(np.int64)
    for i in range(len(value)):
        code[i] = bits[i] ^ ((bits[i] >> 63) & np.int64(2**63 - 1))
        valid[i] &= value[i] == value[i]


@kernel
def feed(value, gap, spread, used, run, step, threshold, scratch_value, scratch_gap, scratch_spread):
    """Merge sorted values, of which every `step`-th stands for those before it, into a summary of Greenwald and
    Khanna, and compress it; returns its new length, and where it is in the scratch.

    Tuple i has a value, `gap`, by how much its least rank exceeds that of the tuple before, and `spread`,
    by how much its greatest rank exceeds its least. From the greatest down, so that a tuple can be joined
    to its successor at once: allowed where gap + gap' + spread' <= threshold. The extremes stay.
    """
    i, j, at = used - 1, len(run) - 1, len(scratch_value)
    after = np.int64(0)  # the spread of a value that comes now: of what lies just above it in the old summary
    hidden = np.int64(0)  # the spread that an old tuple gains: what the value above it in the run stands for
    room = np.int64(-1)  # what the newest tuple can still take in
    while i >= 0 and j >= 0:
        old, new = value[i], run[j]
        is_new = new > old
        stands_for = np.int64(min(step, j) if j > 0 else 1)  # the least of the run for itself alone
        old_gap, old_spread = np.int64(gap[i]), np.int64(spread[i])
        x = new if is_new else old
        g = stands_for if is_new else old_gap
        d = after if is_new else old_spread + hidden
        after = after if is_new else old_gap + old_spread - 1
        hidden = stands_for - 1 if is_new else hidden
        j -= int(stands_for) if is_new else 0
        i -= not is_new
        is_joined = g <= room
        at -= not is_joined
        room = room - g if is_joined else threshold - g - d
        scratch_value[at] = scratch_value[at] if is_joined else x
        scratch_gap[at] = scratch_gap[at] + g if is_joined else g
        scratch_spread[at] = scratch_spread[at] if is_joined else d
    while i >= 0 or j >= 0:
        if i >= 0:
            x, g, d = value[i], np.int64(gap[i]), np.int64(spread[i])
            i -= 1
        else:
            x, g, d = run[j], np.int64(min(step, j) if j > 0 else 1), np.int64(0)
            j -= int(g)
        if g <= room and (i >= 0 or j >= 0):  # the least stays
            room -= g
            scratch_gap[at] += g
        else:
            at -= 1
            room = threshold - g - d
            scratch_value[at], scratch_gap[at], scratch_spread[at] = x, g, d
    used = len(scratch_value) - at
    if used > len(value):
        return used, at
    value[:used], gap[:used], spread[:used] = scratch_value[at:], scratch_gap[at:], scratch_spread[at:]
    return used, at


@kernel
def finish(shape, blocks, scale, level, number, value, gap, spread, used, held, tolerance, at):
    """A block from a summary of all its values."""
    block, entry = put_block(shape, blocks, scale, level, number)
    describe(shape, blocks, block, level, held, at, tolerance if tolerance > 1 else 0)
    if held == 0:
        return
    entries = shape.entries << level
    i, least = 0, gap[0]
    for t in range(entries):
        rank = ((2 * t + 1) * held + 2 * entries - 1) // (2 * entries)
        while i + 1 < used and 2 * (least + gap[i + 1] + spread[i + 1] - rank) <= tolerance:
            i += 1
            least += gap[i]
        blocks.item[entry + t] = value[i]


@kernel
def rank_below(item, start, stop, weight, code):
    """Shares of what is not greater than `code` in sorted runs."""
    total = np.int64(0)
    for run in range(len(start)):
        lo, hi = start[run], stop[run]
        while lo < hi:
            middle = (lo + hi) >> 1
            if item[middle] <= code:
                lo = middle + 1
            else:
                hi = middle
        total += (lo - start[run]) * weight[run]
    return total


@kernel
def select_shares(item, start, stop, weight, wanted, found):
    """The least code that at least `wanted` shares are not greater than, for each; O(64 runs log n)."""
    for each in range(len(wanted)):
        lo, hi = np.int64(2**63 - 1), np.int64(-(2**63))
        for run in range(len(start)):
            if stop[run] > start[run] and weight[run] > 0:
                lo, hi = min(lo, item[start[run]]), max(hi, item[stop[run] - 1])
        while lo < hi:
            middle = (lo >> 1) + (hi >> 1) + (lo & hi & 1)
            if rank_below(item, start, stop, weight, middle) >= wanted[each]:
                hi = middle
            else:
                lo = middle + 1
        found[each] = lo
