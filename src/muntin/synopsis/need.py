"""A need: one component of one input, the smallest thing that queries ask of shared state."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.query import Input


class Need(NamedTuple):
    """One component of one input that some call of the group reads."""

    input: Input
    component: str
    parameters: tuple[Any, ...] = ()  # of holistic components: the phi of a quantile

    def __str__(self) -> str:
        name = " ".join([self.component, *map(str, self.parameters)])
        return f"{name} of {self.input}"


def storage(kind: pa.DataType) -> np.dtype:
    """How values of a type are kept: floats as float64, all else as int64 (text as codes)."""
    return np.dtype(np.float64 if pa.types.is_floating(kind) else np.int64)


def dtype_of(need: Need) -> np.dtype:
    """How the values of a need's input are kept."""
    argument = need.input.argument
    return np.dtype(np.int64) if argument is None else storage(argument.type)
