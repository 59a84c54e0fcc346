"""SuffixMaxima and their dyadic index, kept in step.

`at` is a position here: instants are numbered one by one. The step at position p of a key answers for the
segment [q + 1, p + 1), where q is the position of the step before it.
"""

from __future__ import annotations

from muntin.kernels.dyadic import delete_segment, insert_segment
from muntin.kernels.jit import kernel
from muntin.kernels.suffix_maxima import PUSHED, STEPS, make_room, needs_room, put_step, trim
from muntin.kernels.treap import UNTOUCHED


@kernel
def number_instants(at, last, number, position, instant):
    """Number the instants of events in order of time; returns how many of them are new.

    `number` instants have been numbered so far, the last of them is `last`. `position[i]` becomes the
    number of event i's instant, and `instant` the new ones.
    """
    count = 0
    for i in range(len(at)):
        if at[i] != last or number + count == 0:
            last = at[i]
            instant[count] = last
            count += 1
        position[i] = number + count - 1
    return count


@kernel
def insert_events(maxima, nodes, waiting, waiting_count, first, key, at, code, done):
    """Push events `done`, `done` + 1, … of a batch; what they beat leaves the index at once.

    New steps wait to be indexed, for most are beaten soon: `waiting` has the keys that have some.
    O(log^2 n) amortised each. Returns how many are done: fewer than all if the pool of steps must grow first.
    """
    keys, step_at, step_code = maxima.key, maxima.at, maxima.code
    steps = pushed = 0
    for i in range(done, len(key)):
        k = key[i]
        row = keys[k]
        if row.size > 0 and step_at[row.start + row.head] < first:
            trim(maxima, k, first)
        bottom = row.start + row.head
        while row.size > 0 and step_code[bottom + row.size - 1] <= code[i]:
            if row.indexed == row.size:
                _delete_top(maxima, nodes, first, k)
            row.size -= 1
            steps -= 1
        if row.size == 0:
            row.base = first  # no window that may be asked for begins before it
        elif step_at[bottom + row.size - 1] == at[i]:
            continue  # a greater one of the same instant is in every window that it is in
        if needs_room(row) and not make_room(maxima, k):
            done = i
            break
        put_step(step_at, step_code, row, at[i], code[i])
        steps += 1
        pushed += 1
        if not row.is_waiting:
            row.is_waiting = True
            waiting[waiting_count[0]] = k
            waiting_count[0] += 1
    else:
        done = len(key)
    maxima.work[STEPS] += steps
    maxima.work[PUSHED] += pushed
    return done


@kernel
def index_waiting(maxima, nodes, waiting, waiting_count, first, done):
    """Index the new steps of the waiting keys, from number `done` of them on; O(log^2 n) each.

    Returns how many keys are done: fewer than all if the pool of pairs must grow first.
    """
    most = 2 * len(nodes.offset) + 2  # nodes of a segment
    for i in range(done, waiting_count[0]):
        k = waiting[i]
        row = maxima.key[k]
        while row.indexed < row.size:
            if nodes.state[UNTOUCHED] + most > len(nodes.pair):
                return i
            step = row.start + row.head + row.indexed
            start = row.base if row.indexed == 0 else maxima.at[step - 1] + 1
            insert_segment(nodes, first, start, maxima.at[step] + 1, maxima.code[step], k)
            row.indexed += 1
        row.is_waiting = False
    return waiting_count[0]


@kernel
def delete_keys(maxima, nodes, first, new_id):
    """Take all steps of the keys that go, `new_id[key] < 0`, and their segments; O(keys + segments log n)."""
    for k in range(len(maxima.key)):
        if new_id[k] < 0:
            row = maxima.key[k]
            while row.size > 0:
                if row.indexed == row.size:
                    _delete_top(maxima, nodes, first, k)
                row.size -= 1
                maxima.work[STEPS] -= 1


@kernel
def wait_all(maxima, waiting):
    """Let all steps of all keys wait to be indexed; returns the number of keys that have some."""
    count = 0
    for k in range(len(maxima.key)):
        row = maxima.key[k]
        row.indexed = 0
        row.is_waiting = row.size > 0
        if row.size > 0:
            waiting[count] = k
            count += 1
    return count


@kernel
def _delete_top(maxima, nodes, first, key):
    """Take the segment of a key's newest step out of the index."""
    row = maxima.key[key]
    step = row.start + row.head + row.size - 1
    start = row.base if row.size == 1 else maxima.at[step - 1] + 1
    delete_segment(nodes, first, start, maxima.at[step] + 1, maxima.code[step], key)
    row.indexed -= 1
