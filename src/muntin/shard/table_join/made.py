"""Answers of a query that joins tables, before HAVING and SELECT: keys, rows, and windows to compute the rest from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.answer import to_instants
from muntin.arrays import Bools, Ints
from muntin.expression import Expression
from muntin.keys.key_dictionary import KeyDictionary
from muntin.shard.read.left_out import Values, either, evaluate_each, no_sum
from muntin.shard.read.lower import lower
from muntin.shard.read.reading import Reading
from muntin.shard.state import State
from muntin.shard.table_join.joined_rows import JoinedRows, Sources
from muntin.structure.synopsis import Found


class Made:
    """Some answers; `ids` has the keys of GROUP BY by their ids."""

    def __init__(self, state: State, reading: Reading, sources: Sources, ids: KeyDictionary | None, joined: JoinedRows,
                 answer: Ints, is_there: Bools, found: list[Found], bounds: Sequence[pa.Array],
                 complete: Bools):  # fmt: skip
        self._state, self._reading, self._sources = state, reading, sources
        self._ids, self._joined = ids, joined
        self.answer = answer  # ids
        self.is_there = is_there
        self.found = found
        self.bounds = bounds
        self.complete = complete
        self.unknown: Bools | None = None  # HAVING has no value
        self._calls: dict[int, tuple[pa.Array, Bools | None]] = {}
        self._columns: dict[str, pa.Array] = {}

    def at(self, rows: Ints) -> Made:
        """Some of them."""
        found = [
            each._replace(
                partials={need: tuple(a[rows] for a in part) for need, part in each.partials.items()}
            )
            for each in self.found
        ]
        taken = pa.array(rows)
        bounds = [each.take(taken) for each in self.bounds]
        return Made(self._state, self._reading, self._sources, self._ids, self._joined.at(rows), self.answer[rows],
                    self.is_there[rows], found, bounds, self.complete[rows])  # fmt: skip

    def evaluate(self, expression: Expression) -> Values:
        """An expression over calls, keys of GROUP BY and columns of tables, for each answer."""
        named: dict[str, pa.Array] = {}
        lost: Bools | None = None
        reason = ""
        for name in expression.columns:
            if name.startswith("$"):
                column, gone = self._call(int(name[1:]))
                named[name] = column
                if gone is not None:
                    lost, reason = (
                        either(lost, gone),
                        reason or no_sum(self._reading.query.calls[int(name[1:])]),
                    )
            elif name not in self._columns:
                self._columns |= self._read(expression.columns)
        named |= {name: self._columns[name] for name in expression.columns if name in self._columns}
        values = evaluate_each(expression, named or {"": pa.array(self.answer)})
        if lost is None:
            return values
        return Values(values.column, either(lost, values.lost), reason or values.reason)

    def _call(self, number: int) -> tuple[pa.Array, Bools | None]:
        if number not in self._calls:
            self._calls[number] = lower(self._reading.calls[number], self.found, None, self._state.texts)
        return self._calls[number]

    def _read(self, names: Sequence[str]) -> dict[str, pa.Array]:
        keys = {key.name: number for number, key in enumerate(self._sources.query.keys)}
        found: dict[str, pa.Array] = {}
        if any(name in keys for name in names) and self._ids is not None:
            columns = self._ids.take(self.answer)
            found = {name: columns[number] for name, number in keys.items()}
        rest = [name for name in names if name not in keys and not name.startswith("$")]
        return found | (self._sources.columns(rest, self._joined) if rest else {})


def bounds_of(
    reading: Reading, found: Sequence[Found], instant: int, lengths: Ints | None = None
) -> list[pa.Array]:
    """Where the window of each answer begins and ends."""
    presence = [found[part.window] for part in reading.presence]
    window = reading.query.window
    if window is None:
        start: Any = np.minimum.reduce([each.start for each in presence])
        end: Any = np.full(len(start), instant)
        is_known: Any = [reading.is_by_time, True]
    else:
        start, end = presence[0].start, presence[0].end
        is_known = 2 * [window.is_time or end > start]
        if lengths is not None:  # without a length there is no start
            is_known = [lengths > 0, True]
    return [to_instants(side, known) for side, known in zip((start, end), is_known, strict=True)]
