"""Value order: the entries of each key's run sorted by value, moved on as windows do, so that ranks are counted.

Entries of a run are numbered from the first that its key ever had: `left[k]` of them are gone, and number `n` has the
place `start[k] + n - left[k]` in the pool. `order` has numbers and `ascending` their values, both as long as the pool.
Row `k` of `held` says which entries of key `k` are there, and where:

    HOME    the place of the least                    FIRST, LAST   numbers in [FIRST, LAST) are there, but for those
    SIZE    how many there are                                      that do not count (NULL, NaN, filtered out)
    ORIGIN  numbers are kept less this, in 32 bits    LIMIT         so many may be there before the oldest go

Equal values are in order of number. A window is a range of numbers, as long or short as it may be: how many of the
least entries are in it is counted eight at a time, without a look at the values.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.instructions import prefetch
from muntin.kernels.jit import inner, kernel
from muntin.kernels.sorted_runs import first_not_below

HOME, SIZE, ORIGIN, FIRST, LAST, LIMIT = range(6)
_CHUNK = (
    64  # entries that are counted together: fewer, and the loop over them is not made of wide instructions
)
_FEW = 24  # are sorted one by one
_SLACK = 32
_LINE = 16  # numbers that are brought near together


@inner
def _sort_pairs(value, number, many):
    """Sort pairs by value, in rows of two arrays each; returns the row that has them. Stable."""
    for begin in range(0, many, _FEW):
        for i in range(begin + 1, min(begin + _FEW, many)):
            v, n = value[0, i], number[0, i]
            j = i
            while j > begin and value[0, j - 1] > v:
                value[0, j], number[0, j] = value[0, j - 1], number[0, j - 1]
                j -= 1
            value[0, j], number[0, j] = v, n
    row, width = 0, _FEW
    while width < many:
        other = 1 - row
        for begin in range(0, many, 2 * width):
            middle, end = min(begin + width, many), min(begin + 2 * width, many)
            a, b = begin, middle
            for i in range(begin, end):
                if b >= end or (a < middle and value[row, a] <= value[row, b]):
                    value[other, i], number[other, i] = value[row, a], number[row, a]
                    a += 1
                else:
                    value[other, i], number[other, i] = value[row, b], number[row, b]
                    b += 1
        row = other
        width *= 2
    return row


@inner
def _keep(order, ascending, held, k, to_order, to_ascending, home, first, last):
    """Keep the numbers in [first, last) of a key, in a place that may be another."""
    begin, origin, size = held[k, HOME], held[k, ORIGIN], 0
    for i in range(begin, begin + held[k, SIZE]):
        n = order[i] + origin
        if first <= n < last:
            to_order[home + size] = n - first
            to_ascending[home + size] = ascending[i]
            size += 1
    held[k, HOME], held[k, SIZE], held[k, ORIGIN] = home, size, first
    held[k, FIRST], held[k, LAST] = first, max(first, last)


@inner
def _insert(order, ascending, held, k, first, last, shift, value, valid, some_value, some_number):
    """Put the numbers in [first, last), all of them older or all younger than those that are there, in their order.
    Number `n` has the place `n + shift` in the pool."""
    many = 0
    for n in range(first, last):
        v = value[n + shift]
        if valid[n + shift] and v == v:
            some_value[0, many], some_number[0, many] = v, n
            many += 1
    row = _sort_pairs(some_value, some_number, many)
    begin, origin = held[k, HOME], held[k, ORIGIN]
    is_younger = first >= held[k, LAST]
    # from the greatest on; to search for each place, and then to move what is behind it, takes twice as long
    i = begin + held[k, SIZE] - 1
    for j in range(many - 1, -1, -1):
        v = some_value[row, j]
        while i >= begin and (ascending[i] > v or (ascending[i] == v and not is_younger)):
            order[i + j + 1], ascending[i + j + 1] = order[i], ascending[i]
            i -= 1
        order[i + j + 1], ascending[i + j + 1] = some_number[row, j] - origin, v
    held[k, SIZE] += many
    held[k, FIRST], held[k, LAST] = min(held[k, FIRST], first), max(held[k, LAST], last)


@kernel
def arrange_order(order, ascending, to_order, to_ascending, held, start, left):
    """Move what is in order of all keys to other arrays, where the runs have been arranged anew."""
    for k in range(len(held)):
        first = max(held[k, FIRST], left[k])
        _keep(order, ascending, held, k, to_order, to_ascending, start[k], first, held[k, LAST])


@kernel
def take_back_order(keys, order, ascending, held, left, count):
    """Entries of some keys have been taken back: they are not in order any more."""
    for i in range(len(keys)):
        k = keys[i]
        if k < len(held) and held[k, LAST] > left[k] + count[k]:
            home, first, last = held[k, HOME], held[k, FIRST], left[k] + count[k]
            _keep(order, ascending, held, k, order, ascending, home, first, last)


@inner
def _holds(held, k, low, high, start, left):
    """Whether the entries [low, high) of a key are in order, where its run is."""
    return (
        low >= held[k, FIRST]
        and high <= held[k, LAST]
        and held[k, HOME] == start[k]
        and held[k, FIRST] >= left[k]
    )


@inner
def _hold(
    order,
    ascending,
    held,
    k,
    low,
    high,
    start,
    left,
    at,
    value,
    valid,
    some_value,
    some_number,
    oldest,
    entries,
):
    """Have the entries [low, high) of a key in order; those before `oldest`, or before the last `entries`, may go."""
    shift = start[k] - left[k]
    if held[k, HOME] != start[k] or held[k, FIRST] < left[k]:
        first = max(held[k, FIRST], left[k])
        _keep(order, ascending, held, k, order, ascending, start[k], first, held[k, LAST])
    if low > held[k, LAST] or high < held[k, FIRST]:
        _keep(order, ascending, held, k, order, ascending, start[k], low, low)
    if low < held[k, FIRST]:
        last = held[k, FIRST]
        _insert(order, ascending, held, k, low, last, shift, value, valid, some_value, some_number)
    if high > held[k, LAST]:
        if high - held[k, FIRST] > held[k, LIMIT]:
            floor = max(left[k], high - entries)
            if entries == 0:
                floor = first_not_below(at, start[k], low + shift, oldest) - shift
            floor = min(floor, low)
            if floor > held[k, FIRST]:
                _keep(order, ascending, held, k, order, ascending, start[k], floor, held[k, LAST])
            held[k, LIMIT] = 3 * (high - floor) // 2 + _SLACK
        first = held[k, LAST]
        _insert(order, ascending, held, k, first, high, shift, value, valid, some_value, some_number)


@inner
def _count_between(part, least, most):
    """How many numbers lie from `least` to `most`; in 32 bits throughout, so that eight are compared at a time."""
    some = np.int32(0)
    for i in range(len(part)):
        some = np.int32(some + ((part[i] >= least) & (part[i] <= most)))
    return some


@kernel
def pick_ranks(
    ids, lo, hi, sequence, oldest, entries, start, count, left, at, value, valid, order, ascending, held, some_value,
    some_number, offset, numerator, denominator, picked, counted
):  # fmt: skip
    """The values of some ranks among the entries `lo[s] .. hi[s] - 1` of key `ids[j]`, slot `s = r * len(ids) + j`.

    Rows `r` are visited in `sequence`, by their ends, the longest first. Row `r` is asked for the phi
    `numerator[c] / denominator[c]`, ascending, for `offset[r] <= c < offset[r + 1]`; answers `c * len(ids) + j` are
    `picked` among as many values as are `counted`. Entries older than `oldest[r]` need not stay in order,
    nor those before the last `entries` of row `r`, if that is not 0.
    """
    width = len(ids)
    in_chunk = np.empty(some_value.shape[1] // _CHUNK + 1, np.int64)
    numbers, values = order.ctypes.data, ascending.ctypes.data
    for j in range(width):
        near = ids[min(j + 1, width - 1)]
        for i in range(held[near, HOME], held[near, HOME] + held[near, SIZE], _LINE):
            prefetch(numbers + 4 * i)
            prefetch(values + 8 * i)
            prefetch(values + 8 * i + 64)
        k = ids[j]
        for q in range(len(sequence)):
            r = sequence[q]
            s = r * width + j
            if lo[s] >= hi[s] or offset[r] == offset[r + 1]:
                continue
            low, high = left[k] + lo[s], left[k] + hi[s]
            if not _holds(held, k, low, high, start, left):
                _hold(
                    order, ascending, held, k, low, high, start, left, at, value, valid, some_value, some_number,
                    oldest[r], entries
                )  # fmt: skip
            # count what the row has of each chunk, then find each rank
            begin = held[k, HOME]
            end = begin + held[k, SIZE]
            least, most = np.int32(low - held[k, ORIGIN]), np.int32(high - held[k, ORIGIN] - 1)
            chunks, total = held[k, SIZE] // _CHUNK, 0
            for c in range(chunks):
                in_chunk[c] = _count_between(
                    order[begin + c * _CHUNK : begin + (c + 1) * _CHUNK], least, most
                )
                total += in_chunk[c]
            total += _count_between(order[begin + chunks * _CHUNK : end], least, most)
            if total == 0:
                continue
            c, before = 0, 0
            for each in range(offset[r], offset[r + 1]):
                rank = max(1, (total * numerator[each] + denominator[each] - 1) // denominator[each])
                while c < chunks and before + in_chunk[c] < rank:
                    before += in_chunk[c]
                    c += 1
                i, found = begin + c * _CHUNK - 1, before
                while found < rank:
                    i += 1
                    found += (order[i] >= least) & (order[i] <= most)
                picked[each * width + j] = ascending[i]
                counted[each * width + j] = total


@inner
def _longest_run(order, ascending, begin, end, least, most, rank):
    """Where the value stands that occurs most often among the numbers from `least` to `most`, and how many values there
    are. Of several it is the first, or the one of the least rank."""
    best, often, total = begin, 0, 0
    i = begin
    while i < end:
        first, v, some = i, ascending[i], 0
        while i < end and ascending[i] == v:
            some += (order[i] >= least) & (order[i] <= most)
            i += 1
        total += some
        if some > often:
            best, often = first, some
        elif some == often > 0 and len(rank) > 0 and rank[int(v)] < rank[int(ascending[best])]:
            best = first
    return best, total


@kernel
def pick_longest(
    ids, lo, hi, sequence, oldest, entries, start, count, left, at, value, valid, order, ascending, held, some_value,
    some_number, rank, picked, counted
):  # fmt: skip
    """The most frequent value among the entries `lo[s] .. hi[s] - 1` of key `ids[j]`, slot `s = r * len(ids) + j`, is
    `picked[s]`, of as many values as are `counted`; rows `r` are visited as by `pick_ranks`."""
    width = len(ids)
    for j in range(width):
        k = ids[j]
        for q in range(len(sequence)):
            r = sequence[q]
            s = r * width + j
            if lo[s] >= hi[s]:
                continue
            low, high = left[k] + lo[s], left[k] + hi[s]
            if not _holds(held, k, low, high, start, left):
                _hold(
                    order, ascending, held, k, low, high, start, left, at, value, valid, some_value, some_number,
                    oldest[r], entries
                )  # fmt: skip
            begin = held[k, HOME]
            least, most = low - held[k, ORIGIN], high - held[k, ORIGIN] - 1
            best, total = _longest_run(order, ascending, begin, begin + held[k, SIZE], least, most, rank)
            if total > 0:
                picked[s], counted[s] = ascending[best], total
