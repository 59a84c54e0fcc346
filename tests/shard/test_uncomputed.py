"""What Arrow cannot compute of a batch is refused with it, as an error of muntin's own that names the expression."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from muntin.errors import SchemaError
from muntin.shard.intake import WantedColumns, prepare
from muntin.sql import parse_expression


def test_a_column_that_no_state_can_keep() -> None:
    argument = parse_expression("CASE WHEN n > 1 THEN NULL END", {"n": pa.int64()})
    assert pa.types.is_null(argument.type)  # the binder gives it a type before state sees it
    wanted = WantedColumns(frozenset([argument]), frozenset(), frozenset())
    batch = pa.record_batch({"n": [1, 2]})
    with pytest.raises(SchemaError, match=r"^CASE WHEN n > 1 .* cannot be computed for this batch: "):
        prepare(batch, np.array([0, 1]), True, wanted, {}, {})
