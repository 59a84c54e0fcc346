"""Cut a stream at the edges of several progressions, taken in order from a heap.

Progression p has the edges `phase[p] + i * step[p]`. `heap` orders progressions by their next edge; so
many of them are in step only after the least common multiple of all steps, but only the next edge of
each is ever in memory.
"""

from __future__ import annotations

from muntin.kernels.jit import kernel


@kernel
def cut_events(at, phase, step, edge, heap, slices, slice_of, start_of):
    """Number the slice of each event, `at` ascending; returns the number of slices.

    `slices` is the number of slices so far, the last of which is still open: a new one begins with the
    first event at or after an edge. `slice_of[i]` is the slice of event i, `start_of[s]` the time of the
    first event of new slice s, counted from 0. Edges passed in silence are skipped by arithmetic, so a gap
    costs O(progressions), however long.
    """
    before = slices
    for i in range(len(at)):
        if at[i] >= edge[heap[0]]:
            while at[i] >= edge[heap[0]]:
                p = heap[0]
                edge[p] = at[i] - (at[i] - phase[p]) % step[p] + step[p]
                sift_down(edge, heap)
            start_of[slices - before] = at[i]
            slices += 1
        slice_of[i] = slices - 1
    return slices


@kernel
def sift_down(edge, heap):
    """Restore the order of the heap after the edge of its first progression has grown."""
    moved = heap[0]
    at = 0
    while 2 * at + 1 < len(heap):
        child = 2 * at + 1
        if child + 1 < len(heap) and edge[heap[child + 1]] < edge[heap[child]]:
            child += 1
        if edge[heap[child]] >= edge[moved]:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = moved
