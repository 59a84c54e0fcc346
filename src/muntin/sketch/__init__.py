"""Sketches: synopses of fixed size whose answers are approximate, with the error as a promise."""

from muntin.sketch.count_summary import CountSummary, Frequent, ItemSummary
from muntin.sketch.kinds import merge_summaries
from muntin.sketch.quantile_summary import QuantileSummary
from muntin.sketch.sampled_counts import SampledCounts
from muntin.sketch.sampled_quantiles import SampledQuantiles
from muntin.sketch.sliding_counts import SlidingCounts
from muntin.sketch.sliding_quantiles import SlidingQuantiles

__all__ = [
    "CountSummary",
    "Frequent",
    "ItemSummary",
    "QuantileSummary",
    "SampledCounts",
    "SampledQuantiles",
    "SlidingCounts",
    "SlidingQuantiles",
    "merge_summaries",
]
