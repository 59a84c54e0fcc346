"""A checkpoint that is opened answers as an engine that was given the same events."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from asked import (
    MANY,
    AskedShards,
    Scene,
    ask,
    asked_shards,
    compare,
    cut,
    in_tasks,
    requests,
    small,
    some_events,
)
from shards import Shards

import muntin
from answers import is_close
from effort import some_of
from muntin.errors import CheckpointError, MuntinError, NotFound
from muntin.spark.restore import RestoredState, StoredLedger, opened

__all__ = ["small"]


def opened_state(shards: Any) -> RestoredState:
    """What `restore` makes of the state as it is now."""
    heads, ledgers = [], {}
    for each in (each for route in shards.job.routes for each in route.ids):
        if (head := shards.head(each)) is not None:
            heads.append(head)
            variables = [shards.tester.peekMapState(name, each) for name in ("base", "log")]
            ledgers[head.ledger] = StoredLedger(
                *({key[0]: value[0] for key, value in some.items()} for some in variables)
            )
    return opened("here", heads, ledgers)


@pytest.mark.parametrize("seed", range(some_of(120, 3)))
def test_a_checkpoint_opened_answers_as_the_engine(seed: int) -> None:
    """That of shared windows, and that of requests, of which some wait."""
    scene = Scene(3 * seed + seed % 2)
    engine = muntin.Engine(adaptive=False)
    engine.execute(scene.create)
    engine.register_many(scene.queries)
    is_asked = seed % 2 == 0
    if is_asked:
        shards: Any = AskedShards(
            scene.stream, scene.queries, schema=scene.requests.schema, delay=10**12, **scene.options()
        )
        shards.ask([], [scene.requests.to_batches()])
    else:
        shards = Shards(scene.stream, scene.queries, **scene.options())
    for part in cut(scene.events, 4):
        shards.send(in_tasks(part, 2))
        engine.push("s", part)
        engine.advance()
    if not scene.events.num_rows:
        return
    state = opened_state(shards)
    assert state.queries == scene.queries
    watermark = engine.stats()["streams"]["s"]["watermark"].item()
    assert state.watermark is not None
    assert state.watermark.replace(tzinfo=None) == watermark
    for name, query in engine.queries.items():
        expected = engine.lookup(name)
        compare_tables(expected, state.lookup(name), scene.queries[name])
        if query.keys:
            keys = [
                tuple(row.values()) for row in expected.select([each.name for each in query.keys]).to_pylist()
            ]
            for some in (keys[:3], [*keys[:2], keys[0]] if keys else [], keys[:1]):
                compare_tables(
                    engine.lookup(name, key=some), state.lookup(name, key=some), scene.queries[name]
                )
            for key in keys[:3]:
                assert is_close(engine.value(name, key=key), state.value(name, key=key))
                compare_tables(engine.lookup(name, key=key), state.lookup(name, key=key), "")
        else:
            assert is_close(engine.value(name), state.value(name))
    one, other = (each.lookup_at(list(scene.queries), scene.requests) for each in (engine, state))
    for left, right in zip(one.to_pylist(), other.to_pylist(), strict=True):
        for name in scene.queries:
            if is_asked:  # it has been told to keep all
                assert right[f"{name}.complete"] or not left[f"{name}.complete"], (
                    left,
                    right,
                    scene.queries[name],
                )
            if left[f"{name}.complete"] and right[f"{name}.complete"]:
                assert all(is_close(left[c], right[c]) for c in left if c.startswith(f"{name}."))


def compare_tables(expected: pa.Table, got: pa.Table, told: Any) -> None:
    """The same rows in any order."""
    one, other = (sorted(each.to_pylist(), key=_place) for each in (expected, got))
    assert len(one) == len(other), (one, other, told)
    for left, right in zip(one, other, strict=True):
        compare(left, right, told)


def _place(row: dict[str, Any]) -> str:
    return str([row.get(name) for name in ("k", "j", "b", "w", "y", "parity")])


def test_what_a_checkpoint_cannot_tell() -> None:
    shards = asked_shards(MANY)
    with pytest.raises(CheckpointError, match="has no shard yet"):
        opened_state(shards)
    ask(shards, some_events(1, 2, 3), None)
    state = opened_state(shards)
    with pytest.raises(NotFound, match="no query 'sum' in the checkpoint; did you mean 'sums'"):
        state.lookup("sum")
    with pytest.raises(MuntinError, match="a key of this query is"):
        state.lookup("sums", key=("a", "b"))
    with pytest.raises(MuntinError, match="give the name of a query"):
        state.lookup_at([], requests(1))
    assert state.lookup("sums", key=[]).num_rows == 0
    assert state.coverage("sums").complete
