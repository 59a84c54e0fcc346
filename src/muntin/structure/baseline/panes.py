"""panes: fold events into panes of one size for each window, roll panes up at look-up.

| | |
|---|---|
| Full name | panes |
| Answers | aggregates with fixed-size partials over un-keyed time windows with SLIDE |
| Insert | O(1) for each different pane size |
| Lookup | O(log n + size / gcd(size, slide)) |
| Space | O(size / gcd(size, slide)) for the widest window of each pane size, beside the ring of events |
| Shares | panes, among windows with the same pane size |
| Reference | Li et al., SIGMOD Record 2005; Patroumpas & Sellis, ADBIS 2011, section 2.2 |

A baseline. A pane is as long as the greatest common divisor of size and slide (and TO), so that every
window of the query is a whole number of them, and windows that overlap share them:

    size 10, slide 4   |  |  |  |  |  |  |  |  |       panes of 2
                       0  2  4  6  8  10 12 14 16
                          [--------------)             the window that closes at 12
                                [--------------)       the one that closes at 16

`slices` goes further and cuts all windows on one grid, without a ring: it serves what nobody asks panes for.
"""

from __future__ import annotations

from collections.abc import Iterable

from muntin.store.grid import window_step
from muntin.structure.baseline.fragments import Fragments, Progression
from muntin.window import Window


class Panes(Fragments):
    """Windows over panes.

    >>> from muntin import Engine
    >>> engine = Engine()
    >>> engine.execute("CREATE STREAM s (ts BIGINT, x BIGINT) TIMESTAMP BY ts")
    >>> window = "[RANGE 10 MICROSECONDS SLIDE 4 MICROSECONDS]"
    >>> engine.register(f"SELECT /*+ SYNOPSIS(panes) */ SUM(x) AS total FROM s {window}", "q")
    >>> engine.push("s", {"ts": [1, 3, 6, 11], "x": [5, 7, 2, 9]})
    >>> [engine.value("q", at=end) for end in (4, 8, 12)]
    [12, 14, 18]
    """

    name = "panes"

    @classmethod
    def cut(cls, windows: Iterable[Window]) -> dict[Window, tuple[Progression, ...]]:
        return {window: ((0, window_step(window)),) for window in windows}
