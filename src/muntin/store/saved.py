"""Saved: the arrays of a snapshot that came from outside, each of which is checked as it is taken.

A snapshot may have been damaged or made up, with right checksums. Kernels believe their arrays, so nothing gets to
them from a snapshot but through here: whoever takes an array has to say of what type it is, how long, between which
bounds, and in which order, and there is no other way to it. `restore` of a store reads like a list of what it needs:

    saved.times("at", length=rows)
    saved.ids("key", keys, length=rows)

What is not as it must be is a `CheckpointError` that names the array.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.arrow_bytes import UnsoundBytes, read_batches, read_metadata
from muntin.errors import CheckpointError, MuntinError

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


# Packed: a description that JSON can hold and named arrays, as bytes and back.
#
# An Arrow stream with a row per array (name, how it is encoded, bytes); the description, as JSON, in the
# schema's metadata. Nothing executable. Unpacking copies nothing: the arrays look into the bytes.

_ENCODINGS = frozenset(np.dtype(each).str for each in ("i1", "i4", "i8", "u1", "u4", "u8", "f8", "?"))
_SCHEMA = pa.schema([("name", pa.string()), ("encoding", pa.string()), ("data", pa.large_binary())])
_Row = tuple[str, str, pa.Buffer]  # of this schema


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """What is read within came from outside: if it is not as it must be, that is said of `what`, whatever failed."""
    try:
        yield
    except MuntinError:
        raise
    except Exception as error:  # whatever a made-up description leads to
        how = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise CheckpointError(f"{what} is damaged: {how}") from error


def pack(description: dict[str, Any], arrays: dict[str, Any]) -> pa.Buffer:
    """NumPy and Arrow arrays by name.

    >>> description, arrays = unpack(pack({"version": 1}, {"key": np.arange(3)}))
    >>> description, arrays["key"].tolist()
    ({'version': 1}, [0, 1, 2])
    """
    return pack_rows(description, [(name, *_encode(array)) for name, array in arrays.items()])


def pack_rows(description: dict[str, Any], rows: Iterable[_Row]) -> pa.Buffer:
    """What `pack` gives, of arrays that are encoded."""
    sink = pa.BufferOutputStream()
    schema = _SCHEMA.with_metadata({"description": json.dumps(description)})
    with pa.ipc.new_stream(sink, schema) as writer:
        for name, encoding, data in rows:
            writer.write_batch(pa.record_batch([[name], [encoding], _cell(data)], schema=schema))
    return sink.getvalue()


def _cell(data: pa.Buffer) -> pa.Array:
    """A column of one row over bytes that are there. `pa.array` of pyarrow 26 would never let go of a memoryview."""
    ends = pa.py_buffer(np.array([0, data.size], np.int64))
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, data])


def take_rows(arrays: dict[str, Any]) -> Iterator[_Row]:
    """Arrays by name, encoded for `pack_rows`: copies, made before this returns, so that the arrays may change. Each
    is let go of when the next is asked for.

    >>> key = np.arange(3)
    >>> rows = take_rows({"key": key})
    >>> key[:] = 7
    >>> unpack(pack_rows({}, rows))[1]["key"].tolist()
    [0, 1, 2]
    """
    kept = deque((name, *_encode(_own(array))) for name, array in arrays.items())
    return (kept.popleft() for _ in range(len(kept)))


def _own(array: Any) -> Any:
    """A copy of an array that may change; what Arrow has is copied when it is encoded."""
    return array.copy() if isinstance(array, np.ndarray) else array


def unpack(packed: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The description and the arrays, which may not be written to."""
    batches = read_batches(packed)
    try:
        description = json.loads(read_metadata(packed)[b"description"])
    except (KeyError, ValueError, RecursionError) as error:
        raise UnsoundBytes(f"its description is damaged: {error}") from None
    arrays = {}
    for batch in batches:
        if (
            not batch.schema.equals(_SCHEMA)
            or len(batch) != 1
            or any(each.null_count for each in batch.columns)
        ):
            raise UnsoundBytes("it has something that is no array")
        name, encoding = (batch.column(place)[0].as_py() for place in (0, 1))
        arrays[name] = _decode(encoding, batch.column(2)[0].as_buffer())
    if not isinstance(description, dict):
        raise UnsoundBytes("its description is no description")
    return description, arrays


def _encode(array: Any) -> tuple[str, pa.Buffer]:
    if isinstance(array, np.ndarray):
        return array.dtype.str, pa.py_buffer(np.ascontiguousarray(array).view(np.uint8))
    batch = pa.record_batch([array], names=["values"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return "arrow", sink.getvalue()


def _decode(encoding: str, data: pa.Buffer) -> Any:
    if encoding in _ENCODINGS:
        if data.size % np.dtype(encoding).itemsize:
            raise UnsoundBytes("it has an array of parts of numbers")
        return np.frombuffer(data, np.dtype(encoding))
    if encoding != "arrow":
        raise UnsoundBytes(f"it has an array of '{encoding:.20}'")
    batches = read_batches(data)
    if len(batches) != 1 or batches[0].num_columns != 1:
        raise UnsoundBytes("it has an array in pieces")
    return batches[0].column(0)
