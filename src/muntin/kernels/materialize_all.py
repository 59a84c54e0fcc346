"""Keep every window's answer up to date with each arrival.

`value` holds the remembered elements, the oldest with number `first`; those from index `start` on are
new. Window j is the last `size[j]` elements, as far as they are remembered; sizes ascend.
"""

from __future__ import annotations

from muntin.kernels.jit import kernel


@kernel
def advance_totals(value, start, size, total):
    """Add the newest element to each window's total and subtract the one that leaves."""
    full = 0
    for i in range(start, len(value)):
        while full < len(size) and size[full] <= i:
            full += 1
        for j in range(full):
            total[j] += value[i] - value[i - size[j]]
        for j in range(full, len(size)):
            total[j] += value[i]


@kernel
def is_beaten(old, new, is_max):
    """Whether `old` can be no answer any more once `new` has come; NaN is greatest."""
    if is_max:
        return old < new or new != new
    return old > new or (old != old and new == new)


@kernel
def advance_extremes(value, first, start, size, queue, end, head, is_max, answer, nothing):
    """Let the newest element into all windows' deques, and out what leaves them; returns the new `end`.

    Every window's deque is a tail of one queue: queue[head[j]:end] are the numbers of the elements of
    window j that no later one beats. The queue has room for the widest window twice, so that moving it
    to the front costs O(1) amortised.
    """
    for i in range(start, len(value)):
        while (
            end > 0 and queue[end - 1] >= first and is_beaten(value[queue[end - 1] - first], value[i], is_max)
        ):
            end -= 1
        if end == len(queue):
            oldest = end
            for j in range(len(head)):
                oldest = min(oldest, head[j])
            for k in range(oldest, end):
                queue[k - oldest] = queue[k]
            for j in range(len(head)):
                head[j] -= oldest
            end -= oldest
        queue[end] = first + i
        end += 1
        for j in range(len(size)):
            at = min(head[j], end - 1)  # those beaten have left the deque at its tail
            while at < end and queue[at] <= first + i - size[j]:
                at += 1
            head[j] = at
            answer[j] = value[queue[at] - first] if at < end else nothing
    return end
