"""A rising block: one that has not all its elements yet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from muntin.arrays import LONG_AGO, Arrays

WAITS = -1  # the start of a rising block that has none yet


class Rising(ABC):
    """What a one-pass algorithm knows of the elements that came."""

    start: int = WAITS
    at: int = LONG_AGO  # the time of its first element
    held: int = 0  # elements that count

    @abstractmethod
    def begin(self, start: int, at: int) -> None:
        """A block without elements, at its place."""

    @abstractmethod
    def clone(self) -> Any:
        """Another that knows the same."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """What it knows."""

    @abstractmethod
    def room(self) -> int:
        """Entries that it can have without growing."""

    @abstractmethod
    def nbytes(self) -> int: ...
