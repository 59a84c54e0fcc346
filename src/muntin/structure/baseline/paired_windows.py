"""paired_windows: cut the stream only where some window begins or ends, once for all windows.

| | |
|---|---|
| Full name | shared paired windows |
| Answers | aggregates with fixed-size partials over un-keyed time windows with SLIDE |
| Insert | O(1), and O(log windows) for each edge |
| Lookup | O(log n + fragments in the window) |
| Space | O(edges within the widest window), at most one fragment for each event, beside the ring of events |
| Shares | fragments, among all windows |
| Reference | Krishnamurthy et al., SIGMOD 2006; Patroumpas & Sellis, ADBIS 2011, section 2.2 |

A baseline. A window (size w, slide b) ends at multiples of b and begins w earlier. So its stream falls into
pairs of fragments, b - (w mod b) and w mod b long, where panes need b / gcd(w, b) of them:

    size 10, slide 4   |     |     |     |     |     |     |
                       0     2     4     6     8     10    12        pairs of 2 and 2
    size 9, slide 4    |        |  |        |  |        |  |
                       0        3  4        7  8        11 12        pairs of 3 and 1; panes would be 1 long

Many windows share one slicing at the union of their edges. That repeats only after the least common
multiple of all slides, but it is generated as events arrive (`fragments.py`). A new window may bring new
edges: then the events are cut again.
"""

from __future__ import annotations

from collections.abc import Iterable

from muntin.structure.baseline.fragments import Fragments, Progression
from muntin.window import Window


class PairedWindows(Fragments):
    """Windows over shared fragments.

    >>> from muntin import Engine
    >>> engine = Engine()
    >>> engine.execute("CREATE STREAM s (ts BIGINT, x BIGINT) TIMESTAMP BY ts")
    >>> for size, slide in ((9, 4), (6, 6)):
    ...     window = f"[RANGE {size} MICROSECONDS SLIDE {slide} MICROSECONDS]"
    ...     engine.register(f"SELECT /*+ SYNOPSIS(paired_windows) */ SUM(x) AS v FROM s {window}", f"by {slide}")
    >>> engine.push("s", {"ts": [1, 3, 6, 11], "x": [5, 7, 2, 9]})
    >>> engine.value("by 4", at=12), engine.value("by 6", at=12)
    (18, 11)
    """

    name = "paired_windows"

    @classmethod
    def cut(cls, windows: Iterable[Window]) -> dict[Window, tuple[Progression, ...]]:
        some = list(windows)
        edges = {(-back % window.slide, window.slide) for window in some for back in (window.size, window.to)}
        return dict.fromkeys(some, tuple(sorted(edges)))
