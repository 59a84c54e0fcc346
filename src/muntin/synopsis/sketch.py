"""The name that `muntin.sketch` had in version 0.1.0; gone in 0.4."""

import warnings

from muntin.sketch import (
    CountSummary,
    Frequent,
    ItemSummary,
    QuantileSummary,
    SampledCounts,
    SampledQuantiles,
    SlidingCounts,
    SlidingQuantiles,
    merge_summaries,
)

warnings.warn("muntin.synopsis.sketch is called muntin.sketch", DeprecationWarning, stacklevel=2)

__all__ = [
    "CountSummary", "Frequent", "ItemSummary", "QuantileSummary", "SampledCounts", "SampledQuantiles",
    "SlidingCounts", "SlidingQuantiles", "merge_summaries",
]  # fmt: skip
