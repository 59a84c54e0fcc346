"""Compiled loops of Figure 12: R-INT per symbol, all symbols visited, or only those a collective index names.

R-INT of a COUNT is the number of an event itself; its look-up is the search for the first stamp of the window. The
stamps of a symbol lie in one piece, `stamps[place[k] : place[k] + count[k]]`, those of the whole day, so that no ring
has to wrap; searches begin where the longest window does, as if older stamps had been overwritten.

All write how many symbols they found and the sum of their numbers, for comparison.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.collective_index import add_events, scan_level
from muntin.kernels.jit import kernel
from muntin.kernels.stamp_tree import END, list_newer, regroup, relink


@kernel
def count_since(stamps, start, stop, since):
    """R-INT: stamps of `since` or later among ascending ones, by binary search."""
    lo = start
    hi = stop
    while lo < hi:
        middle = (lo + hi) >> 1
        if stamps[middle] < since:
            lo = middle + 1
        else:
            hi = middle
    return stop - lo


@kernel
def append(stamps, place, oldest, count, k, t, longest):
    """Add an event to a symbol's R-INT; what no window can hold any more is passed over."""
    stamps[place[k] + count[k]] = t
    count[k] += 1
    while stamps[place[k] + oldest[k]] < t + 1 - longest:
        oldest[k] += 1


@kernel
def verify(is_probe, logs, candidate, since, v, found):
    """The candidates with more than `v` events, by R-INT, or by one probe each; how many."""
    stamps, place, oldest, count = logs
    hits = 0
    if is_probe:
        for i in range(len(candidate)):
            k = candidate[i]
            found[hits] = k
            at = count[k] - v - 1
            hits += (at >= 0) & (stamps[place[k] + max(at, 0)] >= since)
        return hits
    for i in range(len(candidate)):
        k = candidate[i]
        if count_since(stamps, place[k] + oldest[k], place[k] + count[k], since) > v:
            found[hits] = k
            hits += 1
    return hits


@kernel
def visit_all(stamps, place, oldest, count, since, v, found):
    """All symbols with more than `v` events, each looked up by R-INT; how many."""
    hits = 0
    for k in range(len(count)):
        if count_since(stamps, place[k] + oldest[k], place[k] + count[k], since) > v:
            found[hits] = k
            hits += 1
    return hits


@kernel
def probe_all(stamps, place, count, since, v, found):
    """The same without a search or a branch: is event v + 1 from the end in the window? How many."""
    hits = 0
    for k in range(len(count)):
        found[hits] = k
        at = count[k] - v - 1
        hits += (at >= 0) & (stamps[place[k] + max(at, 0)] >= since)
    return hits


@kernel
def note(answers, n, found, hits):
    """Write down an answer: how many, and the sum of the numbers."""
    answers[n, 0] = hits
    total = 0
    for i in range(hits):
        total += found[i]
    answers[n, 1] = total


@kernel
def take_naive(is_probe, logs, key, at, longest, since, v, found, answers):
    """An update and a look-up in turns, without an index."""
    stamps, place, oldest, count = logs
    for n in range(len(key)):
        append(stamps, place, oldest, count, key[n], at[n], longest)
        if is_probe:
            hits = probe_all(stamps, place, count, since[n], v[n], found)
        else:
            hits = visit_all(stamps, place, oldest, count, since[n], v[n], found)
        note(answers, n, found, hits)


@kernel
def take_indexed(is_probe, tree, state, logs, trades, begin, longest, asked, room):
    """An update and a look-up in turns with an index, dense if `tree` is None; the first trade it had no room for."""
    marks, total, parts, before, counts = state
    stamps, place, oldest, count = logs
    key, at = trades
    since, v, level = asked
    out, found, answers, listed = room
    for n in range(begin, len(key)):
        if add_events(marks, total, tree, parts, key[n : n + 1], at[n : n + 1], None, 0, before, counts) == 0:
            return n
        append(stamps, place, oldest, count, key[n], at[n], longest)
        if tree is None:
            size = scan_level(marks[level[n]], None, len(count), since[n], out)
        else:
            relink(marks, tree)
            regroup(marks, tree)
            edge = np.searchsorted(tree.latest[: tree.state[END]], since[n])
            size = list_newer(marks, tree, level[n], -1, edge, since[n], len(count), out)
        listed[0] += size
        note(answers, n, found, verify(is_probe, logs, out[:size], since[n], v[n], found))
    return len(key)


@kernel
def append_all(logs, key, at, longest):
    """Add a batch to the R-INTs."""
    stamps, place, oldest, count = logs
    for n in range(len(key)):
        append(stamps, place, oldest, count, key[n], at[n], longest)
