"""Variance and standard deviation, from (count, mean, M2): stable where sum of squares is not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from muntin.aggregate.contract import Aggregate, Lowered, Partials, real_type


class _Variance(Aggregate):
    components = ("count", "m2")
    spare = 0  # degrees of freedom taken off the count
    is_root = False

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        return real_type(argument)

    def lower(self, partials: Partials) -> Lowered:
        (count,) = partials["count"]
        _count, _mean, m2 = partials["m2"]
        variance = m2 / np.maximum(count - self.spare, 1)
        return Lowered(np.sqrt(variance) if self.is_root else variance, count > self.spare)


class VarPop(_Variance):
    """Population variance; NULL for an empty window."""

    name = "var_pop"


class VarSamp(_Variance):
    """Sample variance; NULL for fewer than two values."""

    name = "var_samp"
    spare = 1


class StddevPop(_Variance):
    """Population standard deviation."""

    name = "stddev_pop"
    is_root = True


class StddevSamp(_Variance):
    """Sample standard deviation; NULL for fewer than two values."""

    name = "stddev_samp"
    spare = 1
    is_root = True
