"""Ranked answers: which of them lie in a band, for one threshold after the other."""

from __future__ import annotations

from collections.abc import Sequence
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
        (passing,) = self.within_each([band])
        return passing

    def within_each(self, bands: Sequence[Band]) -> list[Ints]:
        """The same for many bands: two searches for all of them."""
        self._asked += len(bands)
        if self._asked <= FEW:
            return [self._compare(band) for band in bands]
        order = self._in_order()
        low, high = (np.array(side) for side in zip(*((band.low, band.high) for band in bands), strict=True))
        begin = self._sorted.searchsorted(low)
        end = np.maximum(begin, self._sorted.searchsorted(high, "right"))
        return [np.sort(order[lo:hi]) for lo, hi in zip(begin.tolist(), end.tolist(), strict=True)]

    def _compare(self, band: Band) -> Ints:
        passed = self._keys >= band.low
        if band.high != GREATEST:
            passed &= self._keys <= band.high
        if self._valid is not None:
            passed &= self._valid
        return np.flatnonzero(passed)

    def _in_order(self) -> Ints:
        if self._order is None:
            order = np.argsort(self._keys)
            self._order = order if self._valid is None else order[self._valid[order]]
            self._sorted = self._keys[self._order]
        return self._order


def plain_numbers(answers: pa.Array) -> tuple[npt.NDArray[Any], Bools | None]:
    """Numbers, 0 for NULL, and which of them are valid; None if all are."""
    if not answers.null_count:
        return np.asarray(answers), None
    return np.asarray(answers.fill_null(0)), np.asarray(answers.is_valid())
