"""Sessions of cells: which cells a gap puts together, and which cells nobody tells apart any more.

Cells lie in order of key and then of `start`. A cell stands for events from `start` to `last` between which no silence
is longer than `inner`. So a session of a gap is a run of cells with less than the gap between them; a cell whose
`inner` is the gap or more has several sessions of that gap in it, and nobody knows where they end.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.jit import kernel


@kernel
def find_sessions(key, start, last, inner, gap, instant, after, until, lo, hi, close, is_cut):
    """Of events before `instant`, the sessions that close after `after` and up to `until`: runs [lo, hi) of cells, when
    they close, and whether what came just before them is not known. Returns how many there are.

    A session that goes on into cells that are too coarse for the gap is left out: nobody knows when it closes.
    """
    found = 0
    i = 0
    n = len(key)
    reach = np.int64(0)  # the latest event of the key up to here
    while i < n:
        is_first = i == 0 or key[i] != key[i - 1]
        if start[i] >= instant:
            i += 1
            continue
        is_joined = not is_first and start[i] - reach < gap  # to a cell that is too coarse
        begin = i
        reach = last[i] if is_first else max(reach, last[i])
        i += 1
        if inner[begin] >= gap:
            continue
        goes_on = False
        while i < n and key[i] == key[begin] and start[i] < instant and start[i] - reach < gap:
            if inner[i] >= gap:
                goes_on = True
                break
            reach = max(reach, last[i])
            i += 1
        if not goes_on and after < reach + gap <= until:
            lo[found], hi[found], close[found], is_cut[found] = begin, i, reach + gap, is_joined
            found += 1
    return found


@kernel
def settle_cells(key, start, last, inner, gaps, kept, drop_to, into, new_start, new_last, new_inner):
    """Where each cell goes: to cell `into`, with others that no gap tells apart any more, or away (-1).

    `gaps` ascend. Look-ups stand at `kept` or later, and sessions that closed up to there have been given out. So what
    lies before is put together where no gap splits it, or where all that splits it is over: the sessions after the
    split, of all gaps that are not longer than it, have closed. Sessions of the longest gap that closed up to `drop_to`
    go. Returns how many cells are left, and the last event and the last closing among those that went.
    """
    n, longest = len(key), len(gaps)
    reach = np.empty(n, np.int64)
    level = np.empty(
        n, np.int64
    )  # how many gaps split the key's events before a cell; all, if there are none
    for i in range(n):
        if i == 0 or key[i] != key[i - 1]:
            reach[i], level[i] = last[i], longest
        else:
            # what a cell is too coarse for cannot go on from it
            split = max(start[i] - reach[i - 1], inner[i - 1])
            reach[i], level[i] = max(reach[i - 1], last[i]), np.searchsorted(gaps, split, side="right")
    # where the session ends that begins with a cell, of the longest gap that splits there: a stack of splits to come
    closes = np.empty(n, np.int64)
    stack = np.empty(n + 1, np.int64)
    height = 0
    for i in range(n - 1, -1, -1):
        if level[i] > 0:
            while height > 0 and level[stack[height - 1]] < level[i]:
                height -= 1
            end = stack[height - 1] if height > 0 else n
            closes[i] = reach[end - 1] + gaps[level[i] - 1]
            stack[height] = i
            height += 1
    cells = 0
    is_gone = False
    last_gone = closed_gone = np.int64(-(2**62))
    for i in range(n):
        is_split = last[i] >= kept  # single events may still be told apart by an instant
        if level[i] == longest:
            is_gone = closes[i] <= drop_to
            is_split = True
            if is_gone:
                closed_gone = max(closed_gone, closes[i])
        elif level[i] > 0 and closes[i] > kept:
            is_split = True
        if is_gone:
            into[i] = -1
            last_gone = max(last_gone, last[i])
        elif is_split:
            into[i] = cells
            new_start[cells], new_last[cells], new_inner[cells] = start[i], last[i], inner[i]
            cells += 1
        else:
            cell = cells - 1
            into[i] = cell
            new_inner[cell] = max(new_inner[cell], inner[i], start[i] - new_last[cell])
            new_last[cell] = max(new_last[cell], last[i])
    return cells, last_gone, closed_gone
