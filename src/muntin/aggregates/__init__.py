"""What is computed over a window: one class per function of the query language."""

from muntin.aggregates.algebraic import (
    ArgMax,
    ArgMin,
    Avg,
    Count,
    First,
    Last,
    Max,
    Min,
    StddevPop,
    StddevSamp,
    Sum,
    VarPop,
    VarSamp,
)
from muntin.aggregates.approximate import (
    ApproxCount,
    ApproxCountDistinct,
    ApproxCountDistinctError,
    ApproxCountError,
    ApproxCountSummary,
    ApproxFrequent,
    ApproxQuantile,
    ApproxQuantileError,
    ApproxQuantileSummary,
)
from muntin.aggregates.contract import Aggregate, Lowered, Partial, Partials
from muntin.aggregates.holistic import CountDistinct, Mode, Quantile
from muntin.aggregates.part import part_of


class Aggregates(dict[str, Aggregate]):
    """Functions by name; parts (`part.py`) are found by theirs, and are not among the names."""

    def __missing__(self, name: str) -> Aggregate:
        return part_of(name)


AGGREGATES = Aggregates(
    (aggregate.name, aggregate)
    for aggregate in (
        Count(), Sum(), Avg(), Min(), Max(), First(), Last(), ArgMax(), ArgMin(), VarPop(), VarSamp(),
        StddevPop(), StddevSamp(), Quantile(), Mode(), CountDistinct(), ApproxQuantile(), ApproxQuantileError(),
        ApproxCount(), ApproxCountError(), ApproxFrequent(), ApproxQuantileSummary(), ApproxCountSummary(),
        ApproxCountDistinct(), ApproxCountDistinctError(),
    )
)  # fmt: skip

__all__ = ["AGGREGATES", "Aggregate", "Lowered", "Partial", "Partials"]
