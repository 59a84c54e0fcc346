"""What a structure over a sequence remembers, `[first, end)`, and what it may be asked and told."""

from __future__ import annotations

import numpy as np

from muntin.arrays import Ints


def known_runs(first: int, end: int, lo: Ints, hi: Ints) -> tuple[Ints, Ints]:
    """The runs as asked, but empty ones moved inside; ValueError if elements of one are not remembered.

    >>> known_runs(10, 20, np.array([10, 25]), np.array([12, 3]))
    (array([10, 20]), array([12, 20]))
    """
    unknown = (lo < hi) & ((lo < first) | (hi > end))
    if bool(unknown.any()):
        raise not_remembered(first, end, lo, hi, int(unknown.argmax()))
    start = np.clip(np.ascontiguousarray(lo, np.int64), first, end)
    return start, np.clip(np.ascontiguousarray(hi, np.int64), start, end)


def not_remembered(first: int, end: int, lo: Ints, hi: Ints, run: int) -> ValueError:
    """The error of asking for a run of which elements are not remembered, for kernels that find out
    themselves."""
    return ValueError(f"[{lo[run]}, {hi[run]}) is asked for, [{first}, {end}) is remembered")


def check_rewind(first: int, end: int, to: int) -> None:
    """ValueError if there is no element to rewind to."""
    if not first <= to <= end:
        raise ValueError(f"cannot rewind to {to}: {first} to {end} are remembered")
