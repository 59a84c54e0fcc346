"""What is known of the values of one window: sorted runs, whose values stand for others around them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregates.holistic import as_written
from muntin.arrays import Ints
from muntin.described import COUNT, Between
from muntin.errors import MuntinError
from muntin.kernels.sliding_quantiles import select_shares
from muntin.sketch.summary_text import (
    MOST_ELEMENTS,
    QUANTILES,
    check_column,
    check_facts,
    damaged,
    pack_summary,
    unpack_summary,
)
from muntin.store.codes import OrderCode

_DTYPES = ("<i8", "<f8")
_FACTS = {
    "dtype": str,
    "share": Between(1, 2**40),
    "count": COUNT,
    "slack": COUNT,
    "left_out": COUNT,
    "length": [COUNT],
    "weight": [COUNT],
}


class QuantileSummary:
    """Of `count` values. A value of run i weighs `weight[i]` shares, of which each element has `share`.

    Summaries of one window over several streams, or shards of one, merge: their errors add up.

    >>> code = OrderCode("max", np.dtype(np.int64))
    >>> runs = [np.array([1, 3, 5, 7]), np.array([9, 10])]  # 8 values at their midpoints, and two as they are
    >>> summary = QuantileSummary.of(code, runs, np.array([4, 2]), share=2, count=10, slack=2, left_out=0)
    >>> summary.quantile(0.4), summary.quantile(1.0), summary.error
    (3, 10, 1)
    """

    def __init__(self, codes: OrderCode, item: Ints, start: Ints, stop: Ints, weight: Ints, share: int,
                 count: int, slack: int, left_out: int):  # fmt: skip
        self.codes = codes
        self.item = item  # the values of all runs, as codes
        self.start, self.stop, self.weight = start, stop, weight  # of each run
        self.share = share
        self.count = count
        self.slack = slack  # by how many shares a rank may be wrong
        self.left_out = left_out  # values of the window that are in no run, at most

    @staticmethod
    def of(codes: OrderCode, runs: Sequence[Ints], weight: Ints, share: int, count: int, slack: int,
           left_out: int) -> QuantileSummary:  # fmt: skip
        """A summary of sorted runs."""
        length = np.array([len(run) for run in runs], np.int64)
        stop = np.cumsum(length)
        return QuantileSummary(
            codes, np.concatenate(runs), stop - length, stop, weight, share, count, slack, left_out
        )

    @property
    def error(self) -> int:
        """By how much the rank of any answer may be wrong."""
        # Rounded up: where ranks below a value are known to lie under r + slack, it may come in just above.
        return -(-self.slack // self.share) + self.left_out

    def quantile(self, phi: float | Fraction) -> Any:
        """The value whose rank is ceil(phi * n), or differs from it by `error` at most; None of nothing."""
        (found,) = self.quantiles([phi])
        return found

    def quantiles(self, phis: Sequence[float | Fraction]) -> list[Any]:
        """Several at once; O(64 runs log n) each."""
        if not self.count:
            return [None] * len(phis)
        ranks = [-(-as_written(phi) * self.count // 1) for phi in phis]
        wanted = np.array([max(1, int(rank)) * self.share for rank in ranks], np.int64)
        found = np.empty(len(phis), np.int64)
        select_shares(self.item, self.start, self.stop, self.weight, wanted, found)
        values: list[Any] = self.codes.values(found).tolist()
        return values

    def to_text(self) -> str:
        """All of it, for `from_text` and `merge_summaries`, anywhere."""
        runs = {"length": (self.stop - self.start).tolist(), "weight": self.weight.tolist()}
        facts = {"share": self.share, "count": self.count, "slack": self.slack, "left_out": self.left_out}
        item = [self.item[lo:hi] for lo, hi in zip(self.start, self.stop, strict=True)]
        values = pa.array(np.concatenate([np.zeros(0, np.int64), *item]))
        return pack_summary(QUANTILES, {"dtype": self.codes.dtype.str} | facts | runs, {"code": values})

    @staticmethod
    def from_text(text: str) -> QuantileSummary:
        """What `to_text` wrote."""
        facts, columns = unpack_summary(text, QUANTILES)
        check_facts(facts, _FACTS)
        item = check_column(columns, "code", pa.int64()).to_numpy()
        length, weight = (np.array(facts.pop(name), np.int64) for name in ("length", "weight"))
        dtype = facts.pop("dtype")
        if dtype not in _DTYPES or len(length) != len(weight) or sum(length.tolist()) != len(item):
            raise damaged("its runs are not those of its values")
        stop = np.cumsum(length)
        found = QuantileSummary(OrderCode("max", np.dtype(dtype)), item, stop - length, stop, weight, **facts)
        found._check()
        return found

    def _check(self) -> None:
        """Raise an error if its runs do not ascend, or say more than can be added up."""
        falls = np.flatnonzero(np.diff(self.item) < 0) + 1
        if len(np.setdiff1d(falls, self.start)) or (bool(self.count) and not len(self.item)):
            raise damaged("its values are not in order, or not there")
        shares = sum(many * each for many, each in zip((self.stop - self.start).tolist(), self.weight.tolist(),
                                                       strict=True))  # fmt: skip
        if max(shares, self.count * self.share, self.slack) > MOST_ELEMENTS:
            raise damaged("it is of more values than can be added up")

    @staticmethod
    def merge(summaries: Sequence[QuantileSummary]) -> QuantileSummary:
        """Of all that several summaries are of; O(their size)."""
        if len({each.codes.dtype for each in summaries}) > 1:
            raise MuntinError("summaries of integers and of floating-point numbers do not merge")
        share = lcm(*(each.share for each in summaries))
        if sum(each.count for each in summaries) * share > MOST_ELEMENTS:
            raise MuntinError("these summaries are of more values than can be added up")
        before = np.cumsum([0, *(len(each.item) for each in summaries)])
        return QuantileSummary(
            summaries[0].codes,
            np.concatenate([each.item for each in summaries]),
            np.concatenate([each.start + lo for each, lo in zip(summaries, before, strict=False)]),
            np.concatenate([each.stop + lo for each, lo in zip(summaries, before, strict=False)]),
            np.concatenate([each.weight * (share // each.share) for each in summaries]),
            share,
            sum(each.count for each in summaries),
            sum(each.slack * (share // each.share) for each in summaries),
            sum(each.left_out for each in summaries),
        )
