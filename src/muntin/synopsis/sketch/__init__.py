"""Sketches: synopses of fixed size whose answers are approximate, with the error as a promise."""

from muntin.synopsis.sketch.count_summary import CountSummary, Frequent
from muntin.synopsis.sketch.item_summary import ItemSummary
from muntin.synopsis.sketch.merge_summaries import merge_summaries
from muntin.synopsis.sketch.quantile_summary import QuantileSummary
from muntin.synopsis.sketch.sampled_counts import SampledCounts
from muntin.synopsis.sketch.sampled_quantiles import SampledQuantiles
from muntin.synopsis.sketch.sliding_counts import SlidingCounts
from muntin.synopsis.sketch.sliding_quantiles import SlidingQuantiles

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
