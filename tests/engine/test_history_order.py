"""A history out of order reaches from its least time to its greatest, wherever in a batch these stand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import muntin

SECOND = 1_000_000
TIMES = (10, 20, 30, 40)


@pytest.mark.parametrize("order", list(itertools.permutations(TIMES)))
def test_where_it_begins_and_ends(order: tuple[int, ...]) -> None:
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, n BIGINT) TIMESTAMP BY ts")
    at = np.array(order) * SECOND
    engine.register(
        "SELECT COUNT(*) AS many FROM s [RANGE 30 SECONDS]", "q", backfill={"ts": at, "n": [1, 2, 3, 4]}
    )
    (row,) = engine.rows(
        "q"
    )  # just after the greatest: it holds what came 30 seconds before, and not the least
    assert row["many"] == 3
    assert row["window_end"] == np.datetime64(40 * SECOND + 1, "us").item()
    assert row["complete"]
    (row,) = engine.rows("q", at=np.datetime64(40 * SECOND, "us"))  # from the least on
    assert (row["many"], row["complete"]) == (3, True)
    (row,) = engine.rows("q", at=np.datetime64(39 * SECOND, "us"))
    assert not row["complete"]
    engine.check()


@pytest.mark.parametrize("order", list(itertools.permutations(TIMES)))
def test_where_the_stream_has_begun(order: tuple[int, ...]) -> None:
    """What lies after the latest event of the stream is left out."""
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, n BIGINT) TIMESTAMP BY ts")
    engine.push("s", {"ts": np.array([25]) * SECOND, "n": [0]})
    at = np.array(order) * SECOND
    engine.register("SELECT COUNT(*) AS many FROM s [RANGE 1 DAY]", "q", backfill={"ts": at, "n": at})
    assert engine.value("q") == 2
    engine.check()
