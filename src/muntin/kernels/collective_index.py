"""Move the stamps of keys from level to level as their events arrive; scan a level; bound totals.

A *mark* stands for the stamp of an event: the stamp itself in the dense form, where `tree` is None, and the
number of the slot that holds it in the tree form. Both grow with time, so one code moves either. Numba
drops what is behind `if tree is not None` when it compiles for the dense form.
"""

from __future__ import annotations

from muntin.kernels.instructions import leading_zeros, trailing_zeros
from muntin.kernels.jit import kernel
from muntin.kernels.stamp_tree import END, IS_ORDERED, NONE, TOUCHED

# Totals stay below MOST. What is taken off is a multiple of the size of every level, so that nothing else changes.
MOST = 2**61
TURN = 2**60


@kernel
def add_events(marks, total, tree, parts, key, at, amount, begin, before, counts):
    """Add events from number `begin` on; the number of the first that is not added, for want of room.

    Then `counts[0]` is how many levels it needs, or 0 if it is a slot that is missing. `amount` may be None: 1 each.
    `counts[1]` grows by the number of marks that changed.
    """
    counts[0] = 0
    rows = len(marks)
    if tree is not None:
        stamp, latest, key_of, state = tree.at, tree.latest, tree.key, tree.state
        touched, reach = tree.touched, tree.reach
    for n in range(begin, len(key)):
        copies = 1
        if amount is not None:
            copies = amount[n]
        if copies == 0 or at[n] < before:  # in no window that may be asked for
            continue
        k = key[n]
        mark = at[n]
        if tree is not None:
            mark = state[END]
            if mark == len(stamp):
                return n
            if reach[k] == 0:
                touched[state[TOUCHED]] = k
                state[TOUCHED] += 1
                reach[k] = 1
        newest = marks[0, k]
        if newest != NONE and (newest if tree is None else stamp[newest]) < before:
            # all it had is in no window any more: its events are numbered from 1 again
            level = 0
            while level < rows and marks[level, k] != NONE:
                marks[level, k] = NONE
                level += 1
            total[k] = 0
            if tree is not None:
                reach[k] = max(reach[k], level)
        old = total[k]
        new = old + copies
        # how many groups of levels change: of 2**g sized ones if a multiple of 2**g is passed
        groups = 1
        if copies == 1:
            groups += trailing_zeros(new + parts)
        else:
            while (new + parts) >> groups > (old + parts) >> groups:
                groups += 1
        level = parts * groups - 1
        if copies == 1 and level >= rows:
            # one level up for each: what falls off the highest level matters only if it is in some window
            far = marks[rows - 1, k]
            if far != NONE and (far if tree is None else stamp[far]) >= before:
                counts[0] = rows + parts
                return n
            level = rows - 1
        reached = min(level + 1, rows)
        # from the highest level down, so that a mark is read before it is overwritten: none moves to a lower one
        while level >= 0:
            if copies == 1:
                moved = marks[level - 1, k] if level > 0 else mark
            else:
                position = held_position(parts, level, new)
                if position > old:
                    moved = mark
                elif position <= 0:
                    moved = NONE
                else:
                    source = level_of(parts, old - position + 1)
                    moved = marks[source, k] if source < rows else NONE
                if level >= rows:
                    if moved == mark or (
                        moved != NONE and (moved if tree is None else stamp[moved]) >= before
                    ):
                        counts[0] = parts * (level // parts + 1)
                        return n
                    level -= 1
                    continue
            if marks[level, k] != moved:
                marks[level, k] = moved
                counts[1] += 1
            level -= 1
        while new > MOST:
            new -= TURN
        total[k] = new
        if tree is not None:
            reach[k] = max(reach[k], reached)
            stamp[mark] = at[n]
            key_of[mark] = k
            latest[mark] = at[n]
            if mark > 0 and latest[mark - 1] > at[n]:
                latest[mark] = latest[mark - 1]
                state[IS_ORDERED] = 0
            state[END] = mark + 1
    return len(key)


@kernel
def held_position(parts, level, count):
    """The number of the event whose stamp a level holds, of `count`: a multiple of the level's size; below 1: none."""
    group = level // parts
    start = parts * ((1 << group) - 1) + ((level % parts) << group) + 1
    return ((count - start + 1) >> group) << group


@kernel
def level_of(parts, distance):
    """The level that covers a distance."""
    group = 63 - leading_zeros((distance - 1) // parts + 1)
    return parts * group + ((distance - 1 - parts * ((1 << group) - 1)) >> group)


@kernel
def first_refused(marks, tree, key, at, amount, before):
    """The first event that cannot be added, -1 if none: older than the newest of its key, or a wrong amount or key."""
    for n in range(len(key)):
        if key[n] < 0:
            return n
        if key[n] < marks.shape[1] and at[n] >= before:
            newest = marks[0, key[n]]
            if newest != NONE and at[n] < (newest if tree is None else tree.at[newest]):
                return n
        if amount is not None and (amount[n] < 0 or amount[n] > MOST):
            return n
    return -1


@kernel
def scan_level(near, far, keys, since, out):
    """Keys with a stamp of `since` or later in the row `near`, and none such in `far` unless that is None; how many.

    No branch depends on the stamps, so that a key costs the same whatever its neighbours are.
    """
    count = 0
    for k in range(keys):
        out[count] = k
        if far is None:
            count += near[k] >= since
        else:
            count += (near[k] >= since) & (far[k] < since)
    return count


@kernel
def bound_totals(marks, total, tree, parts, key, keys, edge, since, low, high):
    """The least and the greatest total that each key may have since an instant; O(log levels) a key.

    The number of the event on the last level whose stamp is in the window is known, and so is that of the event on
    the next level, which is not. The first event of the window lies between.
    """
    for n in range(len(key)):
        k = key[n]
        low[n] = 0
        high[n] = 0
        if k < 0 or k >= keys:
            continue
        inside = -1
        outside = len(marks)
        while outside - inside > 1:
            level = (inside + outside) // 2
            mark = marks[level, k]
            if mark >= edge and (mark if tree is None else tree.at[mark]) >= since:
                inside = level
            else:
                outside = level
        if inside >= 0:
            low[n] = total[k] - held_position(parts, inside, total[k]) + 1
            high[n] = total[k] - max(held_position(parts, outside, total[k]), 0)
