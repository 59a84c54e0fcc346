"""Located: where windows lie in a sequence, and whether the state covers them."""

from __future__ import annotations

from typing import Any, NamedTuple


class Located(NamedTuple):
    """Runs `[lo, hi)` of element numbers with their bounds in time.

    Arrays with an element per window, or plain numbers for one window: the rules are the same.

    >>> Located(3, 7, start=100, end=160, is_whole=True).is_complete(known_since=120)
    False
    """

    lo: Any
    hi: Any
    start: Any
    end: Any
    is_whole: Any  # nothing of the window has been forgotten

    def is_complete(self, known_since: int) -> Any:
        """Which windows are covered from their start, by something that has been kept since an instant."""
        return is_complete(self.start, self.end, self.is_whole, known_since)


def is_complete(start: Any, end: Any, is_whole: Any, known_since: int) -> Any:
    """A window is covered if it is whole and begins no earlier than what it reads was kept; one that holds
    no event by its bounds has nothing that could be missing."""
    return is_whole & ((start >= known_since) | (end <= start))
