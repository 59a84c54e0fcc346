"""A portion: what one `advance` gives of all that is owed, so that a long silence neither fills memory nor
keeps other queries from their answers.

An un-keyed query has a row for each silent window, and there may be billions of them. So a call visits a
bounded number of instants and gives out a bounded number of rows. Whoever is owed little gets everything;
the others share what is left, and go on in the next call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

DEFAULT_ROWS = 2_000_000  # of a portion


class Answers(dict[str, pa.Table]):
    """What `advance` gives: tables by query name. `more` says that another call has more to give."""

    more: bool = False


class Advancing(Protocol):
    """An engine or an operator."""

    def advance(self, until: Any = None) -> Answers: ...


def portions(engine: Advancing, until: Any = None) -> Iterator[Answers]:
    """All that is owed up to an instant, portion by portion."""
    while True:
        answers = engine.advance(until)
        yield answers
        if not answers.more:
            return


def allot(wanted: Sequence[int], rows: int) -> int:
    """The most that each may have, so that all together have `rows` at most, but each at least 1.

    >>> allot([5, 1, 100, 200], 106), allot([5, 1], 106), allot([9, 9, 9], 2)
    (50, 5, 1)
    """
    ascending = np.sort(np.minimum(np.asarray(wanted, np.int64), rows))
    left = rows - (np.cumsum(ascending) - ascending)  # for those that want as much as this one, or more
    share = left // np.arange(len(ascending), 0, -1)
    short = np.flatnonzero(ascending > share)
    return max(1, int(share[short[0]] if len(short) else ascending[-1]))
