"""No event is lost on its way to many shards, up to the most that there may be."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from muntin.errors import MuntinError
from muntin.spark.fold import FoldPlan, TaskFold
from muntin.spark.job import MOST_SHARDS, read_query
from muntin.spark.pack import EventSorter, read_batch
from muntin.spark.plan_job import plan_job
from muntin.spark.shard_of import shard_of_keys
from muntin.store.saved import unpack
from muntin.stream import Stream

STREAM = Stream("s", pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64())]), "ts")
TEXT = "SELECT k, COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k"
ROWS = 5_000


@pytest.mark.parametrize("shards", [1, 300, MOST_SHARDS])
def test_each_event_goes_to_the_shard_of_its_key(shards: int) -> None:
    """As it is, and folded."""
    keys, at = np.random.default_rng(1).integers(0, 2_000, ROWS), np.zeros(ROWS, np.int64)
    events = pa.record_batch({"ts": pa.array(at, pa.timestamp("us")), "k": keys})
    owner = shard_of_keys([pa.array(keys)], shards)
    wanted = {int(key): int(shard) for key, shard in zip(keys, owner, strict=True)}
    sorter = EventSorter(read_query(STREAM, TEXT).key_expressions, ("ts", "k"), shards)
    sorter.insert(events, at)
    seen = 0
    for bucket, _, data in sorter.take(0):
        found = read_batch(data).column("k").to_numpy()
        assert {wanted[int(key)] for key in found} == {bucket}
        seen += len(found)
    assert seen == ROWS
    fold = plan_job(STREAM, {"q": TEXT}, shards=1).routes[0].fold
    assert fold is not None
    folder = TaskFold(FoldPlan(STREAM, fold), shards)
    folder.insert(events, at)
    cells = {}
    for bucket, _, data in folder.take(0):
        _, arrays = unpack(data)
        cells |= dict.fromkeys(arrays["key 0"].to_pylist(), bucket)
    assert cells == wanted


@pytest.mark.parametrize("shards", [-1, 0, MOST_SHARDS + 1, 40_000, 10**9])
def test_more_or_fewer_are_refused(shards: int) -> None:
    with pytest.raises(MuntinError, match="has 1 to 32,768 shards, not"):
        plan_job(STREAM, {"q": TEXT}, shards=shards)
