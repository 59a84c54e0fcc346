"""Counters of a shard, for people and dashboards."""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.engine.shard import Shard


def stream_stats(shard: Shard) -> dict[str, Any]:
    """Events accepted and late, event time, watermark, and what is kept."""
    clock = shard.clock
    return {
        "events": clock.events,
        "late": clock.late_events,
        "greatest": _instant(clock.greatest),
        "watermark": _instant(clock.watermark),
        "queries": len(shard.registrations),
        "groups": len(shard.synopses),
        "keys": sum(len(keys) for keys in shard.keys.values()),
        "bytes": shard.nbytes(),
    }


def _instant(at: int | None) -> np.datetime64 | None:
    return None if at is None else np.datetime64(at, "us")
