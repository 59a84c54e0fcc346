"""Alike: queries that differ in nothing but the threshold of HAVING are answered together.

A thousand screening rules ask for few things and have many thresholds. What costs most of an answer is the
number of Arrow arrays made for it, not their length; those that are alike share theirs.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from muntin.errors import MuntinError
from muntin.operator.evaluate import answers_by_band
from muntin.operator.lookup import look
from muntin.operator.reading import Reading, reading_of
from muntin.operator.shard import Shard
from muntin.operator.stretch import Stretch
from muntin.synopsis.contract import Ints


def answers_of_alike(shard: Shard, due: Iterable[tuple[str, Ints]], stretch: Stretch) -> dict[str, pa.Table]:
    """Answers of those queries due at some instants that others are alike; O(rows), and a binary search per query.

    Where one of them has no answer, none of its like is here: each must find out for itself.
    """
    alike: dict[tuple[int, int], list[tuple[str, Reading]]] = {}
    instants_of: dict[int, Ints] = {}
    for name, instants in due:
        reading = reading_of(shard, name)
        if reading.same_but_band is not None:
            alike.setdefault((reading.same_but_band, id(instants)), []).append((name, reading))
            instants_of[id(instants)] = instants
    answers: dict[str, pa.Table] = {}
    for (_, which), some in alike.items():
        if len(some) > 1:
            tables = _answer(shard, [reading for _, reading in some], instants_of[which], stretch)
            answers.update(zip((name for name, _ in some), tables, strict=False))
    return answers


def _answer(shard: Shard, readings: list[Reading], instants: Ints, stretch: Stretch) -> list[pa.Table]:
    """Nothing if they have no answer together."""
    conditions = [reading.query.having for reading in readings]
    bands = [each.band for each in conditions if each is not None and each.band is not None]
    rows, find = look(shard, readings[0], instants, None, stretch)
    if rows.width == 0:
        return []
    try:
        return answers_by_band(readings[0], bands, rows, find, shard.texts, stretch.once)
    except (MuntinError, pa.ArrowException):
        return []
