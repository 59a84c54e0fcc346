"""Folded events are late by the slice: those are left out, and counted, whose slice ended before the watermark."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from shards import Shards

from muntin.stream import Stream

SECOND = 1_000_000
DELAY = 3 * SECOND
STREAM = Stream("s", pa.schema([("ts", pa.timestamp("us")), ("k", pa.string())]), "ts", DELAY)
QUERIES = {
    "all": "SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND]",
    "each": "SELECT k, COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k",
}


def batch(times):
    return [[pa.record_batch({"ts": pa.array(times, pa.timestamp("us")), "k": ["a"] * len(times)})]]


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("greatest", [10 * SECOND, 10 * SECOND + 1, 10 * SECOND - 1, 9_750_000])
def test_an_event_is_late_if_its_slice_has_ended(name, greatest):
    """Every time around the watermark, one micro-batch each, so that each is judged alone."""
    shards = Shards(STREAM, {name: QUERIES[name]}, fold=True)
    emitted = Counter()

    def send(times):
        for row in shards.send(batch(times)).get(name, pa.table({})).to_pylist():
            emitted[row["window_end"].second + 60 * row["window_end"].minute] += row["n"]

    send([greatest])
    watermark = greatest - DELAY
    late, expected = 0, Counter({greatest // SECOND + 1: 1})
    for at in [watermark + step for step in range(-2 * SECOND, SECOND, 250_000)] + [
        5_999_999,
        6_000_000,
        7_000_000,
    ]:
        send([at])
        slice_end = (at // SECOND + 1) * SECOND
        late += slice_end <= watermark
        expected[slice_end // SECOND] += slice_end > watermark
        assert shards.late == late
    send([60 * SECOND])
    assert +expected == +emitted
