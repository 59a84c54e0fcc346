"""paired_windows: cut the stream only where some window begins or ends, once for all windows.

| | |
|---|---|
| Full name | shared paired windows |
| Answers | COUNT, SUM, MIN, MAX over time windows with a slide, as they close |
| Insert | O(1), and O(log windows) for each edge |
| Lookup | O(log n + slices in the window) |
| Space | O(edges within the widest window), at most one slice for each event |
| Shares | slices, among all windows |
| Reference | Krishnamurthy et al., SIGMOD 2006; Patroumpas & Sellis, SSDBM 2010, section 2.2 |

A baseline. A window (size w, slide b) ends at multiples of b and begins w earlier. So its stream falls into
pairs of fragments, b - (w mod b) and w mod b long, where panes need b / gcd(w, b) of them:

    size 10, slide 4   |     |     |     |     |     |     |
                       0     2     4     6     8     10    12        pairs of 2 and 2
    size 9, slide 4    |        |  |        |  |        |  |
                       0        3  4        7  8        11 12        pairs of 3 and 1; panes would be 1 long

Many windows share one slicing at the union of their edges. That repeats only after the least common
multiple of all slides, but it is generated as events arrive (`slicing.py`).
"""

from __future__ import annotations

from muntin.synopsis.slicing import SlicedWindows, Slicing


class PairedWindows(SlicedWindows):
    """Windows over shared fragments.

    >>> import numpy as np
    >>> windows = PairedWindows([(9, 4), (6, 6)], np.dtype(np.int64))
    >>> windows.insert(np.array([1, 3, 6, 11]), np.array([5, 7, 2, 9]))
    >>> closed = windows.emit(12)
    >>> closed.window, closed.end, closed.sum
    (array([0, 1, 0, 0, 1]), array([ 4,  6,  8, 12, 12]), array([12, 12, 14, 18, 11]))
    """

    name = "paired_windows"

    def _slice(self) -> tuple[list[Slicing], list[int]]:
        edges = [(phase, slide) for size, slide in self.windows for phase in (0, -size)]
        return [Slicing(edges, self.dtype)], [0] * len(self.windows)
