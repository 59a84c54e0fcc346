"""A mutation: one small mistake in one file, such as `<` written as `<=`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutation:
    """A piece of a file, by byte offsets, and the text that takes its place."""

    path: str  # from the folder of the project on
    kind: str
    line: int  # where the piece begins, counted from 1
    begin: int
    end: int
    text: str

    @property
    def folder(self) -> str:
        """The package of the file; `muntin` for files at the top.

        >>> Mutation("src/muntin/plan/choices.py", "and-or", 3, 0, 1, "").folder
        'plan'
        >>> Mutation("src/muntin/window.py", "and-or", 3, 0, 1, "").folder
        'muntin'
        """
        parts = self.path.split("/")
        return parts[2] if len(parts) > 3 else parts[1]

    def apply(self, source: str) -> str:
        """The source with the mistake."""
        data = source.encode()
        return (data[: self.begin] + self.text.encode() + data[self.end :]).decode()

    def before(self, source: str) -> str:
        """The lines of the piece as they are, on one line."""
        return self._lines(source, source.encode()[self.begin : self.end].decode())

    def after(self, source: str) -> str:
        """The lines of the piece with the mistake, on one line."""
        return self._lines(source, self.text)

    def _lines(self, source: str, piece: str) -> str:
        data = source.encode()
        first = data.rfind(b"\n", 0, self.begin) + 1
        last = data.find(b"\n", self.end)
        tail = data[self.end : len(data) if last < 0 else last]
        return " ".join((data[first : self.begin].decode() + piece + tail.decode()).split())
