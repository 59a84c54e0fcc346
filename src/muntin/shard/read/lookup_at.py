"""Look-ups at instants of their own: a point is one key at one instant, and there are as many as somebody asks for.

    settle     where each window stands for each point                  window.py
    read       partials of each point                                   points.py, structure/
    cover      points whose window lies within what is known            here
    lower      partials become values; HAVING, SELECT                   here, evaluate.py

An answer is that of `lookup` once the watermark has passed the instant. Until then nobody knows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays import Bools, Ints
from muntin.expression import Expression
from muntin.shard.read.left_out import LeftOut, Values, either, evaluate_each, lost_of, no_sum, tell
from muntin.shard.read.lower import lower
from muntin.shard.read.points import PointReads
from muntin.shard.read.reading import Reading, reading_of
from muntin.shard.state import State
from muntin.structure.synopsis import Found


class AtPoints(NamedTuple):
    """What a query answers, a row for each point."""

    values: list[pa.Array]  # of its outputs
    found: Bools  # whether `lookup` has a row
    complete: Bools  # whether the state covers the window


def lookup_at(state: State, asked: Mapping[str, Sequence[pa.Array]], at: Ints) -> dict[str, AtPoints]:
    """Answers of queries by name, at each instant, for the keys that their columns name."""
    reads = PointReads(state, asked, at)
    return {name: _answer(state, name, keys, reads) for name, keys in asked.items()}


def _answer(state: State, name: str, keys: Sequence[pa.Array], reads: PointReads) -> AtPoints:
    reading, found = reading_of(state, name), reads.found(name)
    complete = _is_covered(state, reading, found, reads.instants(name))
    if complete.all():
        return AtPoints(*_covered(state, name, keys, found, None), complete)
    kept = np.flatnonzero(complete)
    if not len(kept):
        unknown = [pa.nulls(len(complete), each.expression.type) for each in reading.query.outputs]
        return AtPoints(unknown, complete, complete)
    columns, passes = _covered(state, name, [each.take(pa.array(kept)) for each in keys], found, kept)
    place = pa.array(np.cumsum(complete) - 1, mask=~complete)
    is_found = np.zeros(len(complete), np.bool_)
    is_found[kept] = passes
    return AtPoints([each.take(place) for each in columns], is_found, complete)


def _covered(
    state: State, name: str, keys: Sequence[pa.Array], found: Sequence[Found], kept: Ints | None
) -> tuple[list[pa.Array], Bools]:
    """Values at the points that are covered (None: all), and whether there is a row of each."""
    reading = reading_of(state, name)
    calls = [Values(*lower(call, found, kept, state.texts)) for call in reading.calls]
    lowered = _Lowered(reading, calls, keys)
    present = _present(reading, found, kept)
    passes, left_out, reason = _passing(lowered, present)
    values = [lowered.evaluate(output) for output in reading.outputs]
    for each in values:
        if each.lost is not None and bool((each.lost & passes).any()):
            left_out, reason = either(left_out, each.lost & passes), reason or each.reason
    if left_out is not None:
        passes = passes & ~left_out
        tell(name, state.registrations[name], LeftOut(int(left_out.sum()), reason), stacklevel=7)
    columns, shown = [each.column for each in values], passes | ~present
    if not shown.all():
        mask = pa.array(shown)
        columns = [pc.if_else(mask, each, pa.scalar(None, each.type)) for each in columns]
    return columns, passes


def _is_covered(state: State, reading: Reading, found: Sequence[Found], instants: Ints) -> Bools:
    """Whether all windows of each point lie within what is known, and no event can enter them any more."""
    watermark = state.clock.watermark
    if watermark is None:
        return np.zeros(len(instants), np.bool_)
    covered = []
    for each, (_, window, needs, _) in zip(found, reading.windows, strict=True):
        end = each.end if window.is_time else instants
        covered += [each.complete(needs), (end <= watermark) | (window.size == window.to)]
    complete: Bools = np.logical_and.reduce(covered)
    return complete


def _present(reading: Reading, found: Sequence[Found], kept: Ints | None) -> Bools:
    """Whether the key of each point has an event; without keys, there is always something to answer."""
    held = [found[part.window].partials[part.need][0] for part in reading.presence]
    some = [each if kept is None else each[kept] for each in held]
    if not reading.query.keys:
        return np.ones(len(some[0]), np.bool_)
    present: Bools = np.logical_or.reduce([each > 0 for each in some])
    return present


class _Lowered(NamedTuple):
    """The answers of all calls of a query, and the columns of its keys."""

    reading: Reading
    calls: list[Values]
    keys: Sequence[pa.Array]

    def evaluate(self, output: int | Expression) -> Values:
        """A call by its number, or an expression over calls and keys, for each point; as far as it has a value."""
        if isinstance(output, int):
            return self.calls[output]._replace(reason=no_sum(self.reading.query.calls[output]))
        named = {f"${number}": each.column for number, each in enumerate(self.calls)}
        named |= {key.name: column for key, column in zip(self.reading.query.keys, self.keys, strict=True)}
        found = evaluate_each(output, named)
        lost, reason = lost_of(self.reading, output, [each.lost for each in self.calls])
        return Values(found.column, either(lost, found.lost), reason or found.reason)


def _passing(lowered: _Lowered, present: Bools) -> tuple[Bools, Bools | None, str]:
    """Which of the points that are present pass HAVING; for which of them it has no value, if for any, and why."""
    having = lowered.reading.query.having
    if having is None:
        return present, None, ""
    verdict = lowered.evaluate(having)
    passes = present & np.asarray(verdict.column.fill_null(False))
    if verdict.lost is None or not (present & verdict.lost).any():
        return passes, None, ""
    return passes & ~verdict.lost, present & verdict.lost, verdict.reason
