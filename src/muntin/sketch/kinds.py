"""Which sketch serves a need: its algorithm, its promise, and how its answers become partials; and summaries merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.aggregates.component import SUMMARIES
from muntin.aggregates.contract import Array, Partial
from muntin.argument import shown, text_of
from muntin.errors import MuntinError
from muntin.sketch.count_summary import CountSummary, ItemSummary
from muntin.sketch.geometry import unbounded
from muntin.sketch.quantile_summary import QuantileSummary
from muntin.sketch.sampled_counts import SampledCounts
from muntin.sketch.sampled_quantiles import SampledQuantiles
from muntin.sketch.sliding_counts import SlidingCounts
from muntin.sketch.sliding_quantiles import SlidingQuantiles
from muntin.sketch.summary_text import QUANTILES, kind_of
from muntin.sketch.weighted_counts import WeightedCounts, weighed
from muntin.store.codes import item_codes
from muntin.store.needs import Need, dtype_of
from muntin.store.saved import Saved

Sketch = SlidingQuantiles | SlidingCounts | SampledQuantiles | SampledCounts | WeightedCounts
_OF_NUMBERS, _OF_ITEMS = (
    frozenset({"approx_quantile", "quantile_summary"}),
    frozenset({"item_counts", "item_summary"}),
)
REGISTERS = "sliding_registers"  # of `sliding_registers.py`, which sketches all keys at once
_DEFAULT_EPS = 0.02  # of APPROX_COUNT_DISTINCT
SKETCHES: dict[str, frozenset[str]] = {  # by name, with the components that each serves
    SlidingQuantiles.name: _OF_NUMBERS,
    SlidingCounts.name: _OF_ITEMS,
    SampledQuantiles.name: _OF_NUMBERS,
    SampledCounts.name: _OF_ITEMS,
    WeightedCounts.name: _OF_ITEMS,
    REGISTERS: frozenset({"approx_distinct"}),
}
_CERTAIN = {SlidingQuantiles.name, SlidingCounts.name, WeightedCounts.name}


class Promise(NamedTuple):
    """How wrong an answer may be: by the part eps of its window, but for a chance of delta."""

    eps: float
    delta: float | None = None

    def covers(self, other: Promise) -> bool:
        """Whether who keeps this one keeps the other as well."""
        if self.delta is not None and (other.delta is None or other.delta < self.delta):
            return False
        return self.eps <= other.eps


def promise_of(need: Need, name: str | None = None) -> Promise:
    """What a need asks of a sketch, which may be one that never fails: its parameters are what it is of (phi,
    support or item; nothing of a summary), eps and perhaps delta."""
    if need.component == "approx_distinct":
        return Promise(*(need.parameters or (_DEFAULT_EPS,)))
    promise = Promise(*need.parameters[need.component not in SUMMARIES :])
    return Promise(promise.eps) if name in _CERTAIN else promise


def tightest(promises: Sequence[Promise]) -> Promise:
    """One that covers all.

    >>> tightest([Promise(0.1, 0.01), Promise(0.01, 0.05)])
    Promise(eps=0.01, delta=0.01)
    """
    deltas = [each.delta for each in promises if each.delta is not None]
    return Promise(min(each.eps for each in promises), min(deltas) if len(deltas) == len(promises) else None)


def is_of_items(need: Need) -> bool:
    """Whether what is asked for are counts of items, not quantiles."""
    return need.component in _OF_ITEMS


def is_weighted(need: Need) -> bool:
    """Whether the items that are counted have weights: pairs of both."""
    argument = need.input.argument
    return is_of_items(need) and argument is not None and pa.types.is_struct(argument.type)


def sketch_for(need: Need) -> str:
    """The sketch that keeps a need's promise in the least space.

    Counts from a sample are always smaller. Quantiles are only if eps is large: a sample grows with 1 / eps^2.
    """
    if need.component == "approx_distinct":
        return REGISTERS
    if is_weighted(need):
        return WeightedCounts.name
    promise = promise_of(need)
    if is_of_items(need):
        return SlidingCounts.name if promise.delta is None else SampledCounts.name
    if promise.delta is None:
        return SlidingQuantiles.name
    shape = unbounded(promise.eps, is_counted=False).shape
    # values that each doubling of the window takes; what is sampled has a position, a time and a level as well
    entries = (shape.levels // shape.radix_bits) * shape.entries << (shape.levels - 1)
    sampled = 1.5 * log(2 / promise.delta) / (2 * promise.eps**2)
    return SampledQuantiles.name if 4 * sampled < entries else SlidingQuantiles.name


def make_sketch(name: str, need: Need, promise: Promise) -> Sketch:
    """A sketch of a need's values, without any."""
    if name == SlidingCounts.name:
        return SlidingCounts(promise.eps)
    if name == WeightedCounts.name:
        return WeightedCounts(promise.eps)
    if name == SlidingQuantiles.name:
        return SlidingQuantiles(dtype_of(need), promise.eps)
    assert promise.delta is not None
    if name == SampledCounts.name:
        return SampledCounts(promise.eps, promise.delta)
    return SampledQuantiles(dtype_of(need), promise.eps, promise.delta)


def check_items(saved: Saved, need: Need, sketch: Any) -> None:
    """Items that are codes of texts are of texts that there are."""
    if is_of_items(need) and saved.is_text(need.input.argument):
        least, greatest = sketch.item_bounds()
        if least < 0 or greatest >= max(1, saved.texts(need.input.argument)):
            raise saved.damaged("item", "has codes of texts that are not there")


def element_codes(need: Need, value: Array) -> Array:
    """What a sketch takes in: items as codes, perhaps with their weights; numbers as they are."""
    if is_weighted(need):
        return weighed(item_codes(np.ascontiguousarray(value["value"])), value["rank"])
    return item_codes(value) if is_of_items(need) else value


def partials_of(needs: Sequence[Need], summaries: Sequence[Any]) -> dict[Need, Partial]:
    """Partials of needs that one sketch serves, a slot for each summary; None: of an empty window."""
    return {
        need: _quantiles(need, summaries) if need.component == "approx_quantile" else _whole(summaries)
        for need in needs
    }


def _quantiles(need: Need, summaries: Sequence[QuantileSummary]) -> Partial:
    count = np.array([each.count for each in summaries], np.int64)
    found = [each.quantile(need.parameters[0]) for each in summaries]
    value = np.array([0 if each is None else each for each in found], dtype_of(need))
    # of the window's n, which is not known exactly: the part is greatest for the least it can be
    error = np.array([each.error / max(each.count, 1) for each in summaries], np.float64)
    return value, count, error


def _whole(summaries: Sequence[QuantileSummary | CountSummary]) -> Partial:
    found = np.empty(len(summaries), object)
    found[:] = summaries
    return (found,)


def merge_summaries(texts: str | Iterable[str | None]) -> QuantileSummary | ItemSummary:
    """What APPROX_QUANTILE_SUMMARY or APPROX_COUNT_SUMMARY answered, of one or of several: their errors add up, so
    that the sum is within eps of all elements together, if each is within eps of its own. NULL is left out.

    With a delta the chances to fail add up as well.
    """
    many: Any = [texts] if isinstance(texts, str) else texts
    if isinstance(many, bytes) or not isinstance(many, Iterable):
        raise MuntinError(f"texts is a summary or a list of them, not {shown(texts)}")
    given = [text_of("each of texts", text) for text in many if text is not None]
    if not given:
        raise MuntinError("there is no summary to merge: give at least one")
    kind = kind_of(given[0])
    if kind == QUANTILES:
        return QuantileSummary.merge([QuantileSummary.from_text(text) for text in given])
    return ItemSummary.merge([ItemSummary.from_text(text) for text in given])
