"""What is computed over a window: one class per function of the query language."""

from muntin.aggregate.approximate import (
    ApproxCount,
    ApproxCountError,
    ApproxCountSummary,
    ApproxFrequent,
    ApproxQuantile,
    ApproxQuantileError,
    ApproxQuantileSummary,
)
from muntin.aggregate.contract import Aggregate, Lowered, Partial, Partials
from muntin.aggregate.count import Count
from muntin.aggregate.ends import First, Last
from muntin.aggregate.extremes import Max, Min
from muntin.aggregate.holistic import CountDistinct, Quantile
from muntin.aggregate.sum import Avg, Sum
from muntin.aggregate.variance import StddevPop, StddevSamp, VarPop, VarSamp

AGGREGATES: dict[str, Aggregate] = {
    aggregate.name: aggregate
    for aggregate in (
        Count(), Sum(), Avg(), Min(), Max(), First(), Last(), VarPop(), VarSamp(),
        StddevPop(), StddevSamp(), Quantile(), CountDistinct(), ApproxQuantile(), ApproxQuantileError(),
        ApproxCount(), ApproxCountError(), ApproxFrequent(), ApproxQuantileSummary(), ApproxCountSummary(),
    )
}  # fmt: skip

__all__ = ["AGGREGATES", "Aggregate", "Lowered", "Partial", "Partials"]
