"""Coverage: whether the windows of a query lie within what its state knows, and from when on they will."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Coverage:
    """What `complete` is in the answers of a query, also if it has no row to say so.

    >>> print(Coverage(False, np.datetime64("2026-01-05T14:00"), np.datetime64("2026-01-05T15:00")))
    not complete before 2026-01-05T15:00: known since 2026-01-05T14:00
    """

    complete: bool  # of an answer as of now
    # all that it reads has been kept from here on; None: all of the stream
    known_since: np.datetime64 | None = None
    # answers as of this instant and later ones are complete; None: all are, or, of windows by count, nobody can tell
    complete_from: np.datetime64 | None = None

    def __str__(self) -> str:
        known = "" if self.known_since is None else f": known since {self.known_since}"
        if self.complete:
            return f"complete{known}"
        if self.complete_from is not None:
            return f"not complete before {self.complete_from}{known}"
        return f"not complete until enough events have come{known}"
