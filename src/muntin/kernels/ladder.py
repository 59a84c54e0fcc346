"""Blocks of a ladder: dyadic blocks of a stream, each kept once, at the resolution that its age asks for.

Position `n` is that of the n-th element, from 0. A block of 2**b elements starts at a multiple of 2**b; there
are those whose b differs from `anchor` by a multiple of `radix_bits`. Scale s has the blocks whose first element
is at most `reach << s` old, and older than scale s - 1 goes. Blocks of level 0 there have 2**(unit_bits + s)
elements and room for `entries` entries, those of level l twice as many of both for each level. When a block grows
too old for its scale it moves to the next: one level down, with every second entry; from level 0 it is dropped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from muntin.kernels.jit import inner, kernel

# columns of `about`
HELD = 0  # elements of a block that count; the others are NULL
USED = 1  # entries
SLACK = 2  # by how much ranks, or the counts of items that are there, may be wrong
LOST = 3  # how often an item may occur of which there is no entry
SHIFT = 3  # of quantiles: how far values are above the middle of what they stand for
AT = 4  # the time of the first element
FACTS = 5


class Shape(NamedTuple):
    """What the blocks of a ladder look like; see above."""

    reach: int  # of scale 0
    margin: int  # so many elements, at least, have come since the newest that is in a block
    unit_bits: int  # of scale 0
    levels: int
    entries: int  # of a block of level 0
    radix_bits: int = 1  # a block has room for 2**radix_bits of the next smaller size
    anchor: int = 0  # the logarithm of one size that there is


class Blocks(NamedTuple):
    """Row (s, l) is a ring of consecutive blocks: number q, which starts at position q * size, has the
    place q % room."""

    item: Any  # entries of all blocks
    count: Any  # of each entry; empty if all entries of a block weigh the same
    about: Any  # (block, FACTS)
    entry_start: Any  # (scale, level): where the entries of a row begin
    block_start: Any  # (scale, level): where its facts begin
    room: Any  # (scale, level): blocks
    first: Any  # (scale, level): number of the oldest block
    size: Any  # (scale, level): blocks there are


def rooms(shape: Shape, scales: int) -> Any:
    """(scale, level): for how many blocks there is room."""
    level = np.arange(shape.levels)
    # what is younger than half of a scale's reach is in another scale, or in no block yet
    units = shape.reach >> shape.unit_bits
    halved = [shape.margin > 0 or scale > 0 for scale in range(scales)]
    rows = [
        [max(1, (units >> half) >> int(each)) if is_size(shape, scale, int(each)) else 0 for each in level]
        for scale, half in enumerate(halved)
    ]
    return np.array(rows, np.int64).reshape(scales, shape.levels)


def no_blocks(shape: Shape, scales: int, is_counted: bool) -> Blocks:
    """Room for the blocks of some scales, and none of them."""
    room = rooms(shape, scales)
    entries = room * (shape.entries << np.arange(shape.levels))
    blocks = int(room.sum())
    return Blocks(
        np.zeros(int(entries.sum()), np.int64),
        np.zeros(int(entries.sum()) if is_counted else 0, np.uint32),
        np.zeros((blocks, FACTS), np.int64),
        (np.cumsum(entries) - entries.ravel()).reshape(room.shape),
        (np.cumsum(room) - room.ravel()).reshape(room.shape),
        room,
        np.zeros(room.shape, np.int64),
        np.zeros(room.shape, np.int64),
    )


def is_size(shape: Shape, scale: int, level: int) -> bool:
    """Whether there are blocks of a level in a scale."""
    return (shape.unit_bits + scale + level - shape.anchor) % shape.radix_bits == 0


@kernel
def lowest_level(shape, scale):
    """The level of the smallest blocks in a scale."""
    return (shape.anchor - shape.unit_bits - scale) % shape.radix_bits


@kernel
def scale_of(shape, age):
    """The scale of a block whose first element is so old."""
    scale, reach = 0, shape.reach
    while age > reach:
        reach <<= 1
        scale += 1
    return scale


@inner
def put_block(shape, blocks, scale, level, number):
    """The places of a new block's facts and first entry; it follows the last of its row."""
    if blocks.size[scale, level] == 0:
        blocks.first[scale, level] = number
    blocks.size[scale, level] += 1
    place = number % blocks.room[scale, level]
    entry = blocks.entry_start[scale, level] + place * (shape.entries << level)
    return blocks.block_start[scale, level] + place, entry


@inner
def find_block(shape, blocks, scale, level, number):
    """Where a block is, as `put_block`; (-1, -1) if it is not there."""
    first = blocks.first[scale, level]
    if number < first or number >= first + blocks.size[scale, level]:
        return -1, -1
    place = number % blocks.room[scale, level]
    entry = blocks.entry_start[scale, level] + place * (shape.entries << level)
    return blocks.block_start[scale, level] + place, entry


@inner
def halve_block(
    levels, width, number, of, about, item, count, block, entry, to_about, to_item, to_count, into, to
):
    """Every second entry of a block of equal weights; of counts, sorted from the greatest, the first half: `width`
    entries; from the arrays of one ladder to the same, or to those of another. `of` is its level."""
    for fact in range(FACTS):
        to_about[into, fact] = about[block, fact]
    if len(count) == 0:
        # back to where the middle is, or else by turns, so that what blocks gain others lose
        shift = about[block, SHIFT]
        odd = number & 1 if shift == 0 else np.int64(shift < 0)
        for i in range(width):
            to_item[to + i] = item[entry + 2 * i + odd]
        to_about[into, USED] //= 2
        # half of what a value stood for, in shares: see sliding_quantiles.py
        weight = about[block, HELD] << (levels - of - 1)
        to_about[into, SHIFT] += weight if odd else -weight
        to_about[into, SLACK] += weight + abs(to_about[into, SHIFT]) - abs(shift)
    else:
        used = about[block, USED]
        if used > width:
            lost = about[block, SLACK] + count[entry + width]
            to_about[into, LOST] = max(lost, about[block, LOST])
            to_about[into, USED] = used = width
        for i in range(used):
            to_item[to + i] = item[entry + i]
            to_count[to + i] = count[entry + i]


@kernel
def promote(shape, blocks, sketched, needed_from):
    """Move blocks that are too old for their scale, and drop those that start before `needed_from`."""
    scales = blocks.room.shape[0]
    for scale in range(scales - 1, -1, -1):
        oldest = sketched + shape.margin - (shape.reach << scale)
        for level in range(shape.levels):
            first, size = blocks.first[scale, level], blocks.size[scale, level]
            if size == 0:
                continue
            bits = shape.unit_bits + scale + level
            needed = -(-needed_from >> bits)  # the first block that is
            stays = max(needed, -(-oldest >> bits))
            end = min(first + size, stays)
            if end <= first:
                continue
            if level > 0 and scale + 1 < scales and needed < end:
                promote_row(shape, blocks, scale, level, max(first, needed), end)
            blocks.first[scale, level] = end
            blocks.size[scale, level] = first + size - end


@kernel
def promote_row(shape, blocks, scale, level, number, end):
    """Move the blocks from `number` to `end` of one row to the next scale."""
    if blocks.size[scale + 1, level - 1] == 0:
        blocks.first[scale + 1, level - 1] = number
    blocks.size[scale + 1, level - 1] += end - number
    room, into_room = blocks.room[scale, level], blocks.room[scale + 1, level - 1]
    row, into_row = blocks.block_start[scale, level], blocks.block_start[scale + 1, level - 1]
    entry, into_entry = blocks.entry_start[scale, level], blocks.entry_start[scale + 1, level - 1]
    place, into = number % room, number % into_room
    width = shape.entries << (level - 1)
    # once, since each look at a field is counted in and out
    about, item, count, levels = blocks.about, blocks.item, blocks.count, shape.levels
    for each in range(number, end):
        halve_block(
            levels, width, each, level, about, item, count, row + place, entry + place * 2 * width,
            about, item, count, into_row + into, into_entry + into * width,
        )  # fmt: skip
        place = place + 1 if place + 1 < room else 0
        into = into + 1 if into + 1 < into_room else 0


@kernel
def coarsen_blocks(shape, blocks, into):
    """Move all blocks to a ladder of twice the error, which has a level less: each is halved, and is of the
    next scale there, whose ages are those of its scale here."""
    about, item, count = blocks.about, blocks.item, blocks.count
    for scale in range(blocks.room.shape[0]):
        for level in range(1, shape.levels):
            for each in range(blocks.size[scale, level]):
                number = blocks.first[scale, level] + each
                block, entry = find_block(shape, blocks, scale, level, number)
                target, target_entry = put_block(shape, into, scale + 1, level - 1, number)
                halve_block(
                    shape.levels, shape.entries << (level - 1), number, level, about, item, count, block, entry,
                    into.about, into.item, into.count, target, target_entry,
                )  # fmt: skip
                if len(blocks.count) == 0:  # shares are twice as large there
                    into.about[target, SLACK] = into.about[target, SLACK] // 2 + 1
                    into.about[target, SHIFT] //= 2


@kernel
def first_start(shape, blocks, start, sketched):
    """The first position from `start` on at which a block starts."""
    age = sketched + shape.margin - start
    scale = scale_of(shape, age)
    bits = shape.unit_bits + scale + lowest_level(shape, scale)
    found = ((start + (1 << bits) - 1) >> bits) << bits
    if scale > 0:
        # the next scale begins here, and has smaller blocks
        border = sketched + shape.margin - (shape.reach << (scale - 1))
        finer = shape.unit_bits + scale - 1 + lowest_level(shape, scale - 1)
        inside = ((max(start, border) + (1 << finer) - 1) >> finer) << finer
        found = min(found, inside)
    return min(found, sketched)


@kernel
def find_start(shape, blocks, instant, sketched):
    """The first position of a block none of whose elements is older than an instant; where the block before
    it starts (-1 if it is gone), and how many elements of that may be as young. O(log blocks)."""
    before, young = np.int64(-1), np.int64(0)
    for scale in range(blocks.room.shape[0] - 1, -1, -1):
        level = lowest_level(shape, scale)
        bits = shape.unit_bits + scale + level
        row, room = blocks.block_start[scale, level], blocks.room[scale, level]
        first, size = blocks.first[scale, level], blocks.size[scale, level]
        lo, hi = 0, size
        while lo < hi:
            middle = (lo + hi) >> 1
            place = row + (first + middle) % room
            if blocks.about[place, AT] < instant:
                lo = middle + 1
            else:
                hi = middle
        if lo > 0:
            place = row + (first + lo - 1) % room
            # its first element is older, but need not be one that counts
            before, young = (first + lo - 1) << bits, min(blocks.about[place, HELD], (1 << bits) - 1)
        if lo < size:
            return (first + lo) << bits, before, young
    return sketched, before, young


@kernel
def cover(shape, blocks, start, end, sketched, found):
    """Split [start, end) into the fewest blocks: rows of `found` are (facts, first entry, level).

    Returns how many there are, or -1 if a block that is needed is not there.
    """
    pieces, at = 0, start
    while at < end:
        scale = scale_of(shape, sketched + shape.margin - at)
        taken = -1
        if scale < blocks.room.shape[0]:
            for level in range(shape.levels - 1, -1, -1):
                bits = shape.unit_bits + scale + level
                if at & ((1 << bits) - 1) or at + (1 << bits) > end:
                    continue
                block, entry = find_block(shape, blocks, scale, level, at >> bits)
                if block >= 0:
                    taken = bits
                    found[pieces, 0], found[pieces, 1], found[pieces, 2] = block, entry, level
                    break
        if taken < 0 or pieces + 1 >= len(found):
            return -1
        pieces += 1
        at += 1 << taken
    return pieces
