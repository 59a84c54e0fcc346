"""What shards keep for filters that differ in a constant: late cells, older checkpoints, damaged ones, statements."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from filters import STREAM, SUBSCRIBED, events_of, lanes_from, reference_of, send_both, subscriptions
from shards import Shards

from muntin.errors import CheckpointError
from muntin.plan.lanes import LanesOf
from muntin.spark.ledger import FORMAT
from muntin.spark.shard import SparkShard
from muntin.store.saved import pack, unpack
from reference import declared
from scenario import SECOND


@pytest.mark.parametrize("many", [1, 10**9])
@pytest.mark.parametrize("keys", ["", "k"])
def test_an_event_is_late_when_the_slice_that_filters_share_has_ended(
    keys: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slices are of two seconds; of two events behind the watermark, one lies in a slice that has not ended."""
    lanes_from(monkeypatch, many)
    shards = Shards(declared(STREAM), subscriptions(keys, [f"k = 'k{i}'" for i in range(3)]), shards=1)
    shards.send([events_of(0, 10).to_batches()])  # the greatest time is 9.75, so the watermark 7.75
    late = events_of(0, 1).slice(1, 1)  # of k1, n = 1
    for at, total in ((5_900_000, 0), (7_000_000, 1)):
        events = late.set_column(0, "ts", pa.array([at], pa.timestamp("us")))
        before = _held(shards, "q1")
        shards.send([events.to_batches()])
        assert _held(shards, "q1") - before == total
    assert shards.late == 1


def _held(shards: Shards, name: str) -> int:
    """The sum that one query has from the fourth second to the eighth."""
    found = [
        each._shard.lookup(name, None, 8 * SECOND) for each in shards.of_route(shards.job.routes[0].name)
    ]
    return sum(pa.concat_tables(found)["total"].to_pylist())


def test_a_shard_without_lanes_has_none_after_it_was_rewound() -> None:
    """The log from before there were any may have a REWIND STREAM in it."""
    shards = Shards(declared(STREAM), subscriptions("j", [f"k = 'k{i}'" for i in range(30)]), shards=1)
    shard = SparkShard(shards.job, shards.job.routes[0], 0)
    shard.has_lanes = False
    shard.register(shards.job.routes[0].queries)
    shard.skip(20 * SECOND, None)
    shard.rewind(5 * SECOND)
    assert len(shard._shard.state.stores) == 30
    shard.has_lanes = True
    shard.rewind(4 * SECOND)
    assert len(shard._shard.state.stores) == 1


@pytest.mark.parametrize("keys", ["", "j"])
@pytest.mark.parametrize("base", [True, False])
def test_a_checkpoint_from_before_there_were_lanes(
    keys: str, base: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every filter has a store there, and cells in the log of its own; more filters come later."""
    conditions = [f"k = 'k{i % 7}' AND n > {i}" for i in range(32)]
    queries = subscriptions(keys, ["k IN ('k1', 'k2')", *conditions[:16]])
    with monkeypatch.context() as before:
        before.setattr("muntin.spark.plan_job.lanes_of", lambda query, is_by_demand: LanesOf(None, ()))
        before.setattr("muntin.shard.shard.Shard.has_lanes", property(lambda shard: False, _without_lanes))
        if base:
            before.setattr("muntin.spark.ledger._SMALL", 0)
        shards = Shards(declared(STREAM), queries, shards=2)
        reference = reference_of(queries)
        for at in range(0, 30, 10):
            send_both(shards, reference, at)
    _write_as_format_3(shards)
    shards.restart(queries)
    send_both(shards, reference, 30)
    later = subscriptions(keys, ["k IN ('k1', 'k2')", *conditions])
    for name in later.keys() - queries.keys():
        reference.register(later[name], name=name)
    shards.restart(later)
    for at in range(40, 60, 10):
        assert send_both(shards, reference, at)
    for shard in shards.of_route(keys):
        assert len(shard._shard.state.stores) == (18 if keys else 2)
        assert "  lanes    by the value of k" in shard._shard.explain("q32")
        assert "  lanes " not in shard._shard.explain("q3")
        shard.check()


def _without_lanes(shard: Any, has_lanes: bool) -> None:
    shard.state.manager.has_lanes = False


def _write_as_format_3(shards: Shards) -> None:
    for shard in (each for route in shards.job.routes for each in route.ids):
        (text,) = shards.tester.peekValueState("head", shard)
        assert json.loads(text)["format"] == FORMAT
        shards.tester.updateValueState("head", shard, (json.dumps(json.loads(text) | {"format": 3}),))
        log = shards.tester.peekMapState("log", shard)
        for entry, (data,) in log.items():
            description, arrays = unpack(data)
            del description["lanes"]
            log[entry] = (pack(description, arrays).to_pybytes(),)
        shards.tester.updateMapState("log", shard, log)


def _put(name: str, first: int) -> Any:
    """Another number in the first place."""
    return lambda arrays: arrays | {name: np.append(first, arrays[name][1:])}


@pytest.mark.parametrize(
    ("damage", "how"),
    [
        (_put("0 pair lane", -1), "pair lane' has -1"),
        (_put("0 pair lane", 7), "pair lane' has 7"),
        (_put("0 pair key", 99), "pair key' has 99"),
        (_put("0 key", -5), "0 key' has -5"),
        (_put("0 at", 2**60), "0 at' does not ascend"),
        (
            lambda arrays: arrays | {"0 pair key": arrays["0 pair key"][1:]},
            "pair key' has 34 elements instead of 35",
        ),
        (lambda arrays: arrays | {"0 lane 0": pa.array([1, 2])}, "lane 0' is of int64, not of string"),
        (lambda arrays: arrays | {"key 0": pa.array(["a"])}, "key 0' is of string, not of int64"),
        (lambda arrays: {name: each for name, each in arrays.items() if " sum of " not in name}, "sum of n"),
        (
            lambda arrays: {
                name: each.astype("f8") if "count of" in name else each for name, each in arrays.items()
            },
            "count",
        ),
    ],
)
def test_a_damaged_entry_of_the_log_is_refused(damage: Any, how: str) -> None:
    """As a damaged snapshot is: what is replayed came from outside."""
    shards = Shards(declared(STREAM), subscriptions("j", [f"k = 'k{i}'" for i in range(30)]), shards=1)
    shards.send([events_of(0, 10).to_batches()])
    shards.send([events_of(10, 20).to_batches()])
    (shard,) = shards.job.routes[0].ids
    log = shards.tester.peekMapState("log", shard)
    entry, (data,) = next(each for each in log.items() if each[0] == (2,))
    description, arrays = unpack(data)
    place = str(description["kinds"].index("cells"))
    told, cells = unpack(arrays[place].data)
    damaged = np.frombuffer(pack(told, damage(cells)).to_pybytes(), np.uint8)
    log[entry] = (pack(description, {**arrays, place: damaged}).to_pybytes(),)
    shards.tester.handle.setGroupingKey(shard)
    shards.tester.handle.map_states["log"].updateValue(entry, log[entry])
    shards.restart()
    with pytest.raises(CheckpointError, match=how):
        shards.send([events_of(20, 30).to_batches()])


def test_a_query_that_came_by_a_statement_is_not_forgotten() -> None:
    """Without the control stream nobody would fold events for it."""
    queries = subscriptions("", [f"k = 'k{i}'" for i in range(10)])
    shards = Shards(declared(STREAM), queries, keys=[""], is_controlled=True)
    shards.send([events_of(0, 10).to_batches()])
    more = SUBSCRIBED.format("", "k = 'another'", "")
    shards.tell(f"REGISTER QUERY more AS {more}")
    shards.options = {"zone": None}
    shards.restart(queries)
    with pytest.raises(CheckpointError, match="query 'more' came by a statement"):
        shards.send([events_of(10, 20).to_batches()])
    shards.restart(queries | {"more": more})
    assert "more" in shards.send([events_of(10, 20).to_batches()])
