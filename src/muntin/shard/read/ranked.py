"""Ranked answers: which of them lie in a band, for one threshold after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.arrays import Bools, Ints
from muntin.band import GREATEST, Band, sort_keys

FEW = 4  # bands that are compared with every answer before these are sorted


class Ranked:
    """The answers of one call for many keys.

    A band costs a comparison of all answers; from the fifth on, when they have been sorted, a binary search
    and as much as it lets pass. NULL is in no band.

    >>> from muntin.sql import parse_expression
    >>> band = parse_expression("x > 4", {"x": pa.int64()}).band
    >>> Ranked(pa.array([7, None, 3, 5])).within(band)
    array([0, 3])
    """

    def __init__(self, answers: pa.Array):
        values, self._valid = plain_numbers(answers)
        self._keys = sort_keys(values)
        self._asked = 0
        self._order: Ints | None = None  # of the answers that are not NULL
        self._sorted = self._keys

    def within(self, band: Band) -> Ints:
        """Places of the answers in a band, ascending."""
        self._asked += 1
        if self._asked > FEW:
            return self._search(band)
        passed = self._keys >= band.low
        if band.high != GREATEST:
            passed &= self._keys <= band.high
        if self._valid is not None:
            passed &= self._valid
        return np.flatnonzero(passed)

    def _search(self, band: Band) -> Ints:
        if self._order is None:
            order = np.argsort(self._keys)
            self._order = order if self._valid is None else order[self._valid[order]]
            self._sorted = self._keys[self._order]
        lo = int(self._sorted.searchsorted(band.low))
        hi = len(self._sorted)
        if band.high != GREATEST:
            hi = max(lo, int(self._sorted.searchsorted(band.high, "right")))
        return np.sort(self._order[lo:hi])


def plain_numbers(answers: pa.Array) -> tuple[npt.NDArray[Any], Bools | None]:
    """Numbers, 0 for NULL, and which of them are valid; None if all are."""
    if not answers.null_count:
        return np.asarray(answers), None
    return np.asarray(answers.fill_null(0)), np.asarray(answers.is_valid())
