"""Candidates: the keys that may pass a query's HAVING at an instant, found by an index."""

from __future__ import annotations

from muntin.arrays import LONG_AGO
from muntin.key_index.finders import FEW, Candidates, KeyBand
from muntin.operator.reading import Reading
from muntin.operator.shard import Shard


def candidates(shard: Shard, reading: Reading, instant: int, sharers: int = 1) -> Candidates | None:
    """All keys that pass HAVING and some that do not; None if all keys are to be visited.

    Whoever asks evaluates HAVING for them: then the answer is exact. `sharers` is how many queries would
    share one visit to all keys.
    """
    if reading.range is None or (reading.width < FEW and not reading.range.is_forced):
        return None
    part, low, high, is_forced, tolerance = reading.range
    number, window, _ = reading.places[part.place]
    watermark = shard.clock.watermark
    return shard.synopses[number].candidates(
        part.need,
        window,
        window.settle(instant),
        LONG_AGO if watermark is None else watermark,
        KeyBand(low, high, reading.width, sharers, is_forced, tolerance),
    )
