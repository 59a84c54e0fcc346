"""Keep every window's answer up to date with each arrival.

`value` holds the remembered elements, the oldest with number `first`; those from index `start` on are
new. Window j is the last `size[j]` elements, as far as they are remembered; sizes ascend.
"""

from __future__ import annotations

from muntin.component.extremes import exceeds, undercuts
from muntin.kernels.combine import combine, put, subtract, take
from muntin.kernels.jit import kernel, kernel_per_kind


@kernel_per_kind
def advance_totals(kind):
    """Add the newest element to each window's total and subtract the one that leaves. The state arrays of the elements
    come first, then those of the totals."""
    parts = len(kind._fields)

    def advance_totals(start, size, *arrays):
        elements = kind(*arrays[:parts])
        totals = kind(*arrays[parts:])
        full = 0
        for i in range(start, len(arrays[0])):
            while full < len(size) and size[full] <= i:
                full += 1
            new = take(elements, i)
            for j in range(full):
                step = subtract(totals, new, take(elements, i - size[j]))
                put(totals, j, combine(totals, take(totals, j), step))
            for j in range(full, len(size)):
                put(totals, j, combine(totals, take(totals, j), new))

    return advance_totals


@kernel
def is_beaten(old, new, is_max):
    """Whether `old` can be no answer any more once `new` has come."""
    return exceeds(new, old) if is_max else undercuts(new, old)


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
