"""Saved: the arrays of a snapshot that came from outside, each of which is checked as it is taken.

A snapshot may have been damaged or made up, with right checksums. Kernels believe their arrays, so nothing gets to
them from a snapshot but through here: whoever takes an array has to say of what type it is, how long, between which
bounds, and in which order, and there is no other way to it. `restore` of a store reads like a list of what it needs:

    saved.times("at", length=rows)
    saved.ids("key", keys, length=rows)

What is not as it must be is a `CheckpointError` that names the array.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.errors import CheckpointError

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Order = Literal["any", "ascending", "strictly"]

# From long ago on, less what windows and slides take off it; the difference of two of them fits 64 bits.
INSTANTS = -(2**62) - 2**60, 2**62
COUNTS = 0, 2**62  # of elements, and their numbers
_INT, _FLOAT = np.dtype(np.int64), np.dtype(np.float64)


class Saved:
    """Named arrays, and how many ids there are that they may refer to.

    >>> saved = Saved({"x": np.array([3, 5]), "of y/x": np.array([1.0])})
    >>> saved.ints("x", (0, 9), 2, "ascending"), saved.under("of y/").floats("x", 1)
    (array([3, 5]), array([1.]))
    >>> saved.ints("x", (0, 4))
    Traceback (most recent call last):
    muntin.errors.CheckpointError: the state is damaged: 'x' has 5, which does not lie between 0 and 4
    """

    def __init__(
        self,
        arrays: Mapping[str, Any],
        keys: Mapping[Any, int] | None = None,
        texts: Mapping[Any, int] | None = None,
        settled: int = -(2**62),
        place: str = "",
    ):
        """`keys` are the numbers of keys there are, by their expressions; `texts` those of texts, by argument. No
        event before `settled` is expected any more."""
        self._arrays = arrays
        self._keys = {} if keys is None else keys
        self._texts = {} if texts is None else texts
        self.settled = settled
        self._place = place

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __bool__(self) -> bool:
        return bool(self._arrays)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def under(self, prefix: str) -> Saved:
        """Those whose names begin with a prefix, without it."""
        some = {name[len(prefix) :]: each for name, each in self._arrays.items() if name.startswith(prefix)}
        return Saved(some, self._keys, self._texts, self.settled, self._place + prefix)

    def with_keys(self, keys: Mapping[Any, int]) -> Saved:
        """The same arrays, with these numbers of keys."""
        return Saved(self._arrays, keys, self._texts, self.settled, self._place)

    def array(self, name: str, dtype: np.dtype[Any], length: int | None = None) -> Array:
        """Of that type and length."""
        found = self._arrays.get(name)
        if not isinstance(found, np.ndarray):
            raise self.damaged(name, "is missing" if found is None else "is no array of numbers")
        if found.dtype != dtype or found.ndim != 1:
            raise self.damaged(name, f"is of {found.dtype}, not of {dtype}")
        if length is not None and len(found) != length:
            raise self.damaged(name, f"has {len(found):,} elements instead of {length:,}")
        if dtype == np.bool_ and len(found) and int(found.view(np.uint8).max()) > 1:
            raise self.damaged(name, "has flags that are neither true nor false")
        return found

    def ints(self, name: str, bounds: tuple[int, int], length: int | None = None, order: Order = "any",
             dtype: np.dtype[Any] = _INT) -> Ints:  # fmt: skip
        """Whole numbers within bounds, both of which count."""
        found = self.array(name, dtype, length)
        if len(found):
            least, greatest = int(found.min()), int(found.max())
            if least < bounds[0] or greatest > bounds[1]:
                wrong = least if least < bounds[0] else greatest
                raise self.damaged(
                    name, f"has {wrong}, which does not lie between {bounds[0]} and {bounds[1]}"
                )
            if order == "ascending" and bool((found[1:] < found[:-1]).any()):
                raise self.damaged(name, "does not ascend")
            if order == "strictly" and bool((found[1:] <= found[:-1]).any()):
                raise self.damaged(name, "does not ascend at every step")
        return found

    def floats(self, name: str, length: int | None = None) -> npt.NDArray[np.float64]:
        return self.array(name, _FLOAT, length)

    def flags(self, name: str, length: int | None = None) -> npt.NDArray[np.bool_]:
        return self.array(name, np.dtype(np.bool_), length)

    def times(self, name: str, length: int | None = None, order: Order = "ascending") -> Ints:
        """Instants."""
        return self.ints(name, INSTANTS, length, order)

    def ids(self, name: str, keys: Any, length: int | None = None, or_none: bool = False) -> Ints:
        """Ids of keys; -1 for none, if there may be such."""
        last = self._keys.get(keys, 0 if keys else 1) - 1
        return self.ints(name, (-1 if or_none else 0, max(last, -1)), length)

    def codes(self, name: str, argument: Any, length: int | None = None) -> Ints:
        """Codes of texts; 0 also stands for none."""
        return self.ints(name, (0, max(self._texts.get(argument, 0) - 1, 0)), length)

    def is_text(self, argument: Any) -> bool:
        """Whether values of an argument are codes of texts."""
        return argument in self._texts

    def texts(self, argument: Any) -> int:
        """How many texts there are of an argument."""
        return self._texts.get(argument, 0)

    def width(self, keys: Any) -> int:
        """How many keys there are."""
        return self._keys.get(keys, 0 if keys else 1)

    def numbers(self, name: str, *bounds: tuple[int, int]) -> list[int]:
        """So many whole numbers, each within its bounds."""
        found: list[int] = self.array(name, _INT, len(bounds)).tolist()
        for number, (low, high) in zip(found, bounds, strict=True):
            if not low <= number <= high:
                raise self.damaged(name, f"has {number}, which does not lie between {low} and {high}")
        return found

    def column(self, name: str, kinds: Collection[pa.DataType], length: int | None = None) -> pa.Array:
        """An Arrow array of one of some types; it was compared with its buffers when it was read."""
        found = self._arrays.get(name)
        if not isinstance(found, pa.Array):
            raise self.damaged(name, "is missing" if found is None else "is no Arrow array")
        if found.type not in kinds:
            raise self.damaged(name, f"is of {found.type}, not of {' or '.join(map(str, kinds))}")
        if length is not None and len(found) != length:
            raise self.damaged(name, f"has {len(found):,} elements instead of {length:,}")
        return found

    def damaged(self, name: str, how: str) -> CheckpointError:
        """The error to raise."""
        return CheckpointError(f"the state is damaged: '{self._place}{name}' {how}")
