"""panes: fold events into panes of one size for each window, roll panes up when a window closes.

| | |
|---|---|
| Full name | panes |
| Answers | COUNT, SUM, MIN, MAX over time windows with a slide, as they close |
| Insert | O(1) for each different pane size |
| Lookup | O(log n + size / gcd(size, slide)) |
| Space | O(size / gcd(size, slide)) for the widest window of each pane size |
| Shares | panes, among windows with the same pane size |
| Reference | Li et al., SIGMOD Record 2005; Patroumpas & Sellis, SSDBM 2010, section 2.2 |

A baseline. A pane is as long as the greatest common divisor of size and slide, so that every window of
the query is a whole number of them, and windows that overlap share them:

    size 10, slide 4   |  |  |  |  |  |  |  |  |       panes of 2
                       0  2  4  6  8  10 12 14 16
                          [--------------)             the window that closes at 12
                                [--------------)       the one that closes at 16
"""

from __future__ import annotations

from math import gcd

from muntin.synopsis.slicing import SlicedWindows, Slicing


class Panes(SlicedWindows):
    """Windows over panes.

    >>> import numpy as np
    >>> windows = Panes([(10, 4)], np.dtype(np.int64))
    >>> windows.insert(np.array([1, 3, 6, 11]), np.array([5, 7, 2, 9]))
    >>> closed = windows.emit(12)
    >>> closed.end, closed.sum
    (array([ 4,  8, 12]), array([12, 14, 18]))
    """

    name = "panes"

    def _slice(self) -> tuple[list[Slicing], list[int]]:
        panes = [gcd(size, slide) for size, slide in self.windows]
        different = sorted(set(panes))
        slicings = [Slicing([(0, pane)], self.dtype) for pane in different]
        return slicings, [different.index(pane) for pane in panes]
