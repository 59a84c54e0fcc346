"""Counters of a shard, for people and dashboards."""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.operator.shard import Shard
from muntin.plan.explain import Running, predicted_combines
from muntin.plan.nesting import Nesting


def stream_stats(shard: Shard) -> dict[str, Any]:
    """Events accepted and late, event time, watermark, and what is kept."""
    clock, nestings = shard.clock, shard.manager.nestings.by_signature
    return {
        "pushed": clock.events + clock.late_events + clock.ahead_events,
        "events": clock.events,
        "late": clock.late_events,
        "ahead": clock.ahead_events,
        "greatest": _instant(clock.greatest),
        "watermark": _instant(clock.watermark),
        "queries": len(shard.registrations),
        "groups": len(shard.synopses),
        "keys": sum(len(keys) for keys in shard.keys.values()),
        "bytes": shard.nbytes(),
        "nestings": {str(each): _nested(nesting) for each, nesting in nestings.items()},
        "costs": {number: _costs(shard, number) for number in shard.manager.groups},
    }


def running(shard: Shard, number: int) -> Running:
    """A window group at work, as EXPLAIN shows it."""
    group, meter = shard.manager.groups[number], shard.meter
    return Running(shard.synopses[number], meter.groups[number], meter.stores[group.store])


def _nested(nesting: Nesting) -> dict[str, int]:
    """How the windows of one operation signature nest."""
    return {
        "windows": nesting.windows,
        "chains": len(nesting.chains),
        "optimum": nesting.optimum,
        "members": nesting.members,
        "piggybacked": nesting.piggybacked,
    }


def _costs(shard: Shard, number: int) -> dict[str, Any]:
    """What a window group costs, predicted and measured; None where nothing was observed yet."""
    group, (synopsis, own, store) = shard.manager.groups[number], running(shard, number)
    return {
        "synopsis": group.synopsis,
        "planned": group.planned,
        "combines": predicted_combines(group, synopsis),
        "update_ns": own.updates.mean,
        "store_update_ns": store.updates.mean,
        "lookups": own.lookups.total,
        "lookup_us": None if own.lookups.mean is None else own.lookups.mean / 1000,
    }


def _instant(at: int | None) -> np.datetime64 | None:
    return None if at is None else np.datetime64(at, "us")
