"""Liveness: which results are alive at an instant.

By time, those that have not expired. By count, those whose inputs are all still in their windows: the
expiry is then only a guess that chooses the part, and never decides an answer. Those that were invalidated
are dead in any case.

The guess comes from the *arrivals*: a result over the last N events of a stream dies with the N-th event after its
own. The rate of events and its trend are followed by Holt's double exponential smoothing, from update to update, and
the variance of its errors says how many slots around the guess have to be looked at (Golab, Prahladka & Özsu,
section 4.2; they take the current rate and one slot).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.archive.definition import EXPIRES, GENERATED, Definition
from muntin.archive.stored import Stored
from muntin.described import COUNT, WHOLE, Maybe
from muntin.errors import SchemaError, nearest
from muntin.store.codes import with_one_of_equals

# Invalidations: results that ended before their time, remembered until their parts are next due.
#
# An event on the negated side ends all results with its value that were generated up to then. Deleting them
# at once would touch every part; instead the value and the instant are kept, probes leave such results out,
# and each part deletes its own when it is next touched. With the instant, order does not matter: a result
# generated later with the same value is not concerned.

AT, UPDATE = "invalidated_at", "update"


class Invalidations:
    """Entries (value, instant), with the number of the update that brought them."""

    def __init__(self, definition: Definition, entries: pa.Table | None = None):
        self._on = definition.negated_on
        fields = [definition.schema.field(name) for name in self._on]
        self.schema = pa.schema([*fields, pa.field(AT, pa.int64()), pa.field(UPDATE, pa.int64())])
        self.entries = (self.schema.empty_table() if entries is None else entries).combine_chunks()

    def __len__(self) -> int:
        return int(self.entries.num_rows)

    def with_entries(self, definition: Definition, given: Any, update: int, now: int) -> Invalidations:
        """These and more: a table or dict of the values and `invalidated_at`."""
        table = given if isinstance(given, pa.Table) else pa.table(given)
        wanted = [*self._on, AT]
        if missing := [name for name in wanted if name not in table.column_names]:
            hint = nearest(missing[0], table.column_names)
            raise SchemaError(f"invalidations lack the column '{missing[0]}'{hint}")
        columns = [table.column(name).cast(self.schema.field(name).type) for name in wanted]
        if table.num_rows and (pc.max(columns[-1]).as_py() or 0) > now:
            raise SchemaError(f"an invalidation at {pc.max(columns[-1])} comes after the update at {now}")
        number = pa.array(np.full(table.num_rows, update))
        added = pa.table([*columns, number], schema=self.schema)
        return Invalidations(definition, pa.concat_tables([self.entries, added]))

    def since(self, definition: Definition, update: int) -> Invalidations:
        """Those that came with later updates: all that a part touched at `update` does not know yet."""
        if not len(self):
            return self
        return Invalidations(definition, self.entries.filter(pc.field(UPDATE) > update))

    def is_hit(self, rows: pa.Table | pa.RecordBatch) -> Any:
        """Whether each of some results has ended, as a NumPy array; O(entries + rows)."""
        if not len(self) or not rows.num_rows:
            return np.zeros(rows.num_rows, bool)
        number = self._numbers([rows[name] for name in self._on], self._distinct)
        place = np.minimum(np.searchsorted(self._values, number), len(self._values) - 1)
        latest = np.where(self._values[place] == number, self._latest[place], np.iinfo(np.int64).min)
        return np.asarray(rows[GENERATED].to_numpy()) <= latest

    def may_end(self, known: Mapping[str, Any]) -> bool:
        """Whether an entry may be about results with known values of some columns; O(entries) at most."""
        for name, distinct in zip(self._on, self._distinct if len(self) else (), strict=False):
            if name in known:
                sought = with_one_of_equals(pa.array([known[name]], distinct.type))
                if not pc.index_in(sought, distinct)[0].is_valid:
                    return False
        return len(self) > 0

    @cached_property
    def _distinct(self) -> list[Any]:
        """Distinct values of each column."""
        return [pc.unique(with_one_of_equals(self.entries.column(name))) for name in self._on]

    @cached_property
    def _sorted(self) -> tuple[Any, Any]:
        number = self._numbers([self.entries.column(name) for name in self._on], self._distinct)
        values, place = np.unique(number, return_inverse=True)
        latest = np.full(len(values), np.iinfo(np.int64).min)
        np.maximum.at(latest, place, self.entries.column(AT).to_numpy())
        return values, latest

    @property
    def _values(self) -> Any:
        """A number for each combination of values that has an entry, in ascending order."""
        return self._sorted[0]

    @property
    def _latest(self) -> Any:
        """The latest instant of each."""
        return self._sorted[1]

    @staticmethod
    def _numbers(columns: Sequence[Any], distinct: Sequence[Any]) -> Any:
        """One number a row, equal for equal values; -1 where no entry has a value."""
        number: Any = 0
        is_missing: Any = False
        for column, values in zip(columns, distinct, strict=True):
            place = pc.index_in(with_one_of_equals(column), values)
            found = np.asarray(pc.fill_null(place, -1).to_numpy()).astype(np.int64)
            number, is_missing = number * len(values) + found, is_missing | (found < 0)
        return np.where(is_missing, -1, number)


@dataclass(frozen=True)
class Liveness:
    """Decides for whole tables at once."""

    definition: Definition
    now: int
    invalidations: Invalidations
    counts: tuple[int, ...] = field(default=())  # events seen of each input, for windows by count

    def is_alive(self, rows: pa.Table | pa.RecordBatch) -> Any:
        """One boolean a row, as a NumPy array."""
        alive = ~self.invalidations.is_hit(rows)
        if not self.definition.by_count:
            return alive & (_numbers(rows[EXPIRES]) > self.now)
        for name, size, seen in self._windows():
            alive &= _numbers(rows[name]) + size > seen
        return alive

    def keep(self, rows: pa.Table) -> pa.Table:
        """The rows that are alive; what has no dead among it is not copied."""
        alive = self.is_alive(rows)
        if alive.all():
            return rows
        kept, start = [], 0
        for batch in rows.to_batches():
            chosen = alive[start : start + len(batch)]
            start += len(batch)
            if chosen.any():
                kept.append(batch if chosen.all() else batch.filter(pa.array(chosen)))
        return pa.Table.from_batches(kept, rows.schema)

    def has_dead(self, run: Stored) -> bool:
        """Whether time or counts have ended a row of the run; known without reading it."""
        if not self.definition.by_count:
            return run.least_expiry <= self.now
        least = zip(self._windows(), run.least_inputs, strict=True)
        return any(position + size <= seen for (_, size, seen), position in least)

    def is_dead(self, run: Stored) -> bool:
        """Whether time has ended all rows of the run; known without reading it."""
        return not self.definition.by_count and run.greatest_expiry <= self.now

    def has_invalid(self, run: Stored, since: Invalidations) -> bool:
        """Whether some of these invalidations end a row of the run; reads it, if there are any."""
        if not len(since):
            return False
        names = [*self.definition.negated_on, GENERATED]
        columns = [batch.select(names) for batch in run.segment.between(0, run.rows)]
        return bool(since.is_hit(pa.Table.from_batches(columns)).any())

    def _windows(self) -> Any:
        return zip(self.definition.inputs, self.definition.sizes, self.counts, strict=True)


def _numbers(column: Any) -> Any:
    return np.asarray(column.to_numpy())


_LEVEL, _TREND, _VARIANCE = 0.3, 0.1, 0.2  # weights of what is new
_FURTHEST = 8  # windows: no guess lies beyond


# as `describe` makes it
ARRIVALS = {"at": Maybe(WHOLE), "seen": [COUNT], "level": [float], "trend": [float], "variance": [float]}


@dataclass(frozen=True)
class Arrivals:
    """Events seen of each input, and their number per update: level, trend, variance of the error."""

    at: int | None = None
    seen: tuple[int, ...] = ()
    level: tuple[float, ...] = ()
    trend: tuple[float, ...] = ()
    variance: tuple[float, ...] = ()

    def observe(self, now: int, counts: tuple[int, ...], definition: Definition) -> Arrivals:
        """What is known after `counts` events have come of the inputs by `now`."""
        if self.at is None or now == self.at:
            nothing = (0.0,) * len(counts)
            return Arrivals(
                now, counts, self.level or nothing, self.trend or nothing, self.variance or nothing
            )
        updates = (now - self.at) / definition.every
        came = (np.array(counts) - np.array(self.seen)) / updates
        level, trend = np.array(self.level), np.array(self.trend)
        if not level.any():
            return Arrivals(now, counts, tuple(came.tolist()), self.trend, self.variance)
        error = came - (level + trend)
        return Arrivals(
            now,
            counts,
            tuple(np.maximum(level + trend + _LEVEL * error, 0.0).tolist()),
            tuple((trend + _LEVEL * _TREND * error).tolist()),
            tuple(((1 - _VARIANCE) * np.array(self.variance) + _VARIANCE * error**2).tolist()),
        )

    def guess(self, rows: pa.Table, now: int, definition: Definition) -> Any:
        """When each result will die, as a NumPy array: when the first of its inputs has left its window."""
        soonest = np.full(rows.num_rows, float(definition.window))
        rates = self._rates()
        if rates.any():
            soonest[:] = _FURTHEST * definition.window
        for name, size, seen, rate in zip(definition.inputs, definition.sizes, self.seen, rates, strict=True):
            if rate > 0:
                left = rows[name].to_numpy() + size - seen
                np.minimum(soonest, left / rate * definition.every, out=soonest)
        return now + np.maximum(np.ceil(soonest), 1).astype(np.int64)

    def with_guess(self, rows: pa.Table, now: int, definition: Definition) -> pa.Table:
        """The results with their guess as expiry."""
        guess = pa.array(self.guess(rows, now, definition))
        return rows.set_column(rows.column_names.index(EXPIRES), definition.schema.field(EXPIRES), guess)

    def reach(self, definition: Definition) -> int:
        """Slots before and after the current one that an update looks at: two standard deviations of what
        a guess a window ahead is off by, but at least one."""
        if definition.reach is not None:
            return definition.reach
        off = 1.0
        for rate, variance in zip(self._rates(), self.variance, strict=True):
            if rate > 0:
                off = max(off, 2 * (variance * definition.per_window) ** 0.5 / rate)
        return int(min(np.ceil(off), max(1, definition.per_window // 2)))

    def _rates(self) -> Any:
        level = np.array(self.level)
        return np.maximum(level + np.array(self.trend), level / 10)

    def describe(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Arrivals:
        """What `describe` described."""
        at = description["at"]
        return cls(at, *(tuple(description[name]) for name in ("seen", "level", "trend", "variance")))
