"""A feed: the source of a stream as the log knows it, with the position up to which its messages were taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from muntin.errors import MuntinError
from muntin.serve.options import Given
from muntin.serve.taken import ALL, Range

_SAME = ("source", "topic", "path")  # a source with others of these begins anew


class Stale(MuntinError):
    """Messages that do not begin where those before them ended: they were taken already."""


@dataclass
class Feed:
    """Options as they were written, and for each partition the offset of the next message; or the file that was
    read last, with the number of its rows that were taken.

    >>> feed = Feed({"source": "kafka", "topic": "t"})
    >>> feed.move([Range("0", 0, 10, 10)])
    >>> feed.move([Range("0", 0, 10, 10)])
    Traceback (most recent call last):
    muntin.serve.feed.Stale: messages from 0 on of '0' were taken already: the next one is 10
    >>> feed.position
    {'0': 10}
    """

    options: Given
    position: dict[str, int] = field(default_factory=dict)

    def check(self, ranges: Sequence[Range]) -> None:
        """Refuse ranges that do not go on from where this feed stands."""
        for each in ranges:
            expected = self._next(each.part, each.start)
            if each.start != expected:
                raise Stale(
                    f"messages from {each.start} on of '{each.part}' were taken already: the next one is {expected}"
                )

    def move(self, ranges: Sequence[Range]) -> None:
        """Go on behind ranges."""
        self.check(ranges)
        for each in ranges:
            if self.options["source"] == "folder":
                self.position = {each.part: each.end}
            else:
                self.position[each.part] = each.end

    def _next(self, part: str, start: int) -> int:
        if self.options["source"] != "folder":
            return self.position.get(part, start)  # a partition that is new begins where it likes
        if part in self.position:
            return self.position[part]
        return 0 if part > max(self.position, default="") else ALL

    def changed(self, options: Given) -> Feed:
        """With other options; from the beginning if it is another topic or folder."""
        is_same = all(self.options.get(name) == options.get(name) for name in _SAME)
        return Feed(options, self.position if is_same else {})

    def note(self) -> dict[str, Any]:
        """As it stands in a checkpoint."""
        return {"options": self.options, "position": self.position}
