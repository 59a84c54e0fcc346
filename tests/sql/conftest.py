"""The stream of the screening queries."""

from __future__ import annotations

import pyarrow as pa
import pytest

from muntin.stream import Stream

TRADES = Stream(
    "trades",
    pa.schema(
        [
            ("ts", pa.timestamp("us")),
            ("symbol", pa.string()),
            ("exchange", pa.string()),
            ("side", pa.string()),
            ("price", pa.float64()),
            ("shares", pa.int64()),
        ]
    ),
    "ts",
)


@pytest.fixture
def streams() -> dict[str, Stream]:
    return {"trades": TRADES}
