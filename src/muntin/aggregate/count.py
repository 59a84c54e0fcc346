"""COUNT(*) and COUNT(x): events in the window, or those of them whose x is not NULL."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregate.contract import Aggregate, Lowered, Partials


class Count(Aggregate):
    """Never NULL: an empty window counts 0."""

    name = "count"
    components = ("count",)
    takes_star = True

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        return pa.int64()

    def lower(self, partials: Partials) -> Lowered:
        (count,) = partials["count"]
        return Lowered(count, np.ones(len(count), np.bool_))

    def lower_one(self, *partials: tuple[Any, ...]) -> Any:
        return partials[0][0]
