"""What Arrow cannot compute of a batch is refused with it, as an error of muntin's own that names the expression."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from muntin.errors import SchemaError
from muntin.expression import Columns
from muntin.shard.intake import WantedColumns, evaluate, prepare
from muntin.sql import parse_expression


def test_a_column_that_no_state_can_keep() -> None:
    argument = parse_expression("CASE WHEN n > 1 THEN NULL END", {"n": pa.int64()})
    assert pa.types.is_null(argument.type)  # the binder gives it a type before state sees it
    wanted = WantedColumns(frozenset([argument]), frozenset(), frozenset())
    batch = pa.record_batch({"n": [1, 2]})
    with pytest.raises(SchemaError, match=r"^CASE WHEN n > 1 .* cannot be computed for this batch: "):
        prepare(batch, np.array([0, 1]), True, wanted, {}, {})


def test_memory_that_is_short_is_no_error_of_a_batch() -> None:
    """Another time the same batch would be taken, so whoever logs batches must not be told that it was refused."""

    def fail(_: Columns) -> pa.Array:
        raise pa.ArrowMemoryError("malloc failed")

    argument = replace(parse_expression("n + 1", {"n": pa.int64()}), evaluate=fail)
    with pytest.raises(MemoryError):
        evaluate(argument, {"n": pa.array([1])})
