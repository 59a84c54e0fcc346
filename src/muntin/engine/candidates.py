"""Candidates: the keys that may pass a query's HAVING at an instant, found by an index."""

from __future__ import annotations

from muntin.engine.reading import Reading
from muntin.engine.shard import Shard
from muntin.synopsis.contract import LONG_AGO
from muntin.synopsis.finders import FEW, KeyBand
from muntin.synopsis.key_finder import Candidates


def may_use_index(shard: Shard, reading: Reading) -> bool:
    """Whether it is worth asking for candidates."""
    return reading.range is not None and (
        reading.range.is_forced or len(shard.keys[reading.key_expressions]) >= FEW
    )


def candidates(shard: Shard, reading: Reading, instant: int, sharers: int = 1) -> Candidates | None:
    """All keys that pass HAVING and some that do not; None if all keys are to be visited.

    Whoever asks evaluates HAVING for them: then the answer is exact. `sharers` is how many queries would
    share one visit to all keys.
    """
    if reading.range is None or not may_use_index(shard, reading):
        return None
    part, low, high, is_forced, tolerance = reading.range
    number, window, _ = reading.places[part.place]
    watermark = shard.clock.watermark
    return shard.synopses[number].candidates(
        part.need,
        window,
        instant - instant % window.slide if window.slide else instant,
        LONG_AGO if watermark is None else watermark,
        KeyBand(low, high, len(shard.keys[reading.key_expressions]), sharers, is_forced, tolerance),
    )
