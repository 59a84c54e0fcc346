"""Fresh elements: those that are too new to be in blocks, as they came.

Times, and which elements count, take no room until there are any times, or any that does not count.
"""

from __future__ import annotations

import numpy as np

from muntin.arrays import Arrays, Bools, Ints
from muntin.synopsis.columns import Columns
from muntin.synopsis.saved import Saved
from muntin.synopsis.sketch.scratch import unchanged

_INT, _FLAG = np.dtype(np.int64), np.dtype(np.bool_)


class Fresh:
    """
    >>> fresh = Fresh()
    >>> fresh.extend(np.array([5, 6, 7]), np.array([True, False, True]), None)
    >>> fresh.drop_first(1)
    >>> fresh.code, fresh.counted(0)
    (array([6, 7]), array([7]))
    """

    def __init__(self, most: int = 0) -> None:
        """`most`: of them at a time, if that is known."""
        self.most = most
        self._columns = Columns({"code": _INT}, most)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def code(self) -> Ints:
        return self._columns["code"]

    @property
    def at(self) -> Ints:
        """Times; all 0 if none were given."""
        if "at" in self._columns:
            return self._columns["at"]
        return np.zeros(len(self), np.int64)

    def run(self, count: int) -> tuple[Ints, Bools, Ints]:
        """Codes, which count, and times of the first `count` elements; not to be written to."""
        times = self._columns["at"][:count] if "at" in self._columns else unchanged(count, 0)
        flags = self._columns["valid"][:count] if "valid" in self._columns else unchanged(count, True)
        return self.code[:count], flags, times

    def counted(self, first: int) -> Ints:
        """The codes of elements that count, from an index on."""
        code = self.code[first:]
        return code[self._columns["valid"][first:]] if "valid" in self._columns else code

    def counted_at(self) -> Ints:
        """The times of elements that count."""
        at = self.at
        return at[self._columns["valid"]] if "valid" in self._columns else at.copy()

    def extend(self, code: Ints, valid: Bools, at: Ints | None) -> None:
        """Append elements."""
        if "valid" not in self._columns and not bool(valid.all()):
            self._columns.add("valid", _FLAG, True)
        if "at" not in self._columns and at is not None:
            self._columns.add("at", _INT, 0)
        given = {"code": code, "valid": valid} | ({} if at is None else {"at": at})
        self._columns.extend_with(given, {"at": 0})

    def drop_first(self, count: int) -> None:
        """Forget the oldest."""
        self._columns.drop_first(count)

    def compact(self) -> None:
        """Without room to spare."""
        self._columns = self._columns.copy()

    def nbytes(self) -> int:
        return self._columns.nbytes()

    def snapshot(self) -> Arrays:
        return {f"fresh {name}": self._columns[name].copy() for name in self._columns.names()}

    def restore(self, saved: Saved) -> None:
        """Have the elements of a snapshot; times, and which of them count, may not be in it."""
        kept: Arrays = {"code": saved.array("fresh code", _INT)}
        if "fresh valid" in saved:
            kept["valid"] = saved.flags("fresh valid", len(kept["code"]))
        if "fresh at" in saved:
            kept["at"] = saved.times("fresh at", len(kept["code"]))
        self._columns = Columns({name: each.dtype for name, each in kept.items()}, self.most)
        self._columns.replace(kept)

    def copy(self) -> Fresh:
        """Another with the same elements."""
        other = Fresh(0)
        other.most, other._columns = self.most, self._columns.copy()
        return other

    def check(self) -> None:
        self._columns.check()
