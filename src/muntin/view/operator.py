"""ViewOperator: what feeds a view that no join of the engine can: it follows its streams by itself.

All inputs are in memory, as far as their windows reach. At an update instant it says which results enter and
which have ended before their time. Events are found by their values (`KeyedRows`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import LONG_AGO, Bools, Ints
from muntin.described import COUNT, WHOLE, Maybe, check_shape
from muntin.kernels.match import count_chained, list_chained
from muntin.keys.key_dictionary import KeyDictionary
from muntin.keys.sweeper import Sweeper
from muntin.shard.clock import Clock, least_watermark
from muntin.shard.intake import Admitted
from muntin.store.chains import Chains
from muntin.store.columns import Columns
from muntin.store.event_log import EventLog
from muntin.store.saved import Saved
from muntin.view_query import NegationQuery, SelectionQuery, WideJoinQuery
from muntin.window import Window

# ViewInput: the events of one input of a view, in their window as of an instant, and those that come after
# it.

AT = "#at"  # the time of an event


class ViewInput:
    """Takes events in any order; `turn` goes to an instant before which no more will come.

    A turn costs the sorting of what came, however large the window is.
    """

    def __init__(self, columns: pa.Schema, window: Window):
        self.window = window
        self.log = EventLog()  # in the window, in order
        self.log.keep({field.name: field.type for field in columns})
        self.coming = pa.schema([*columns, pa.field(AT, pa.int64())]).empty_table()  # as they arrived
        self.seen = 0  # events before the instant, also those that only an archive has told of

    def insert(self, events: pa.Table) -> None:
        """Take events in."""
        self.coming = pa.concat_tables([self.coming, events])

    def turn(self, instant: int) -> int:
        """Go to an instant; the number in the log of the first event that is new."""
        begin, coming = self.log.end, self.coming.combine_chunks()
        at = coming[AT].to_numpy()
        if (at[1:] < at[:-1]).any():
            in_order = np.argsort(at, kind="stable")
            coming, at = coming.take(pa.array(in_order)), at[in_order]
        came = int(np.searchsorted(at, instant, "left"))
        fresh = coming.take(pa.array(np.arange(came)))  # copied, so that what is left does not keep it
        self.log.extend(at[:came], {name: fresh[name].combine_chunks() for name in self.log.columns})
        self.coming = coming.slice(came)
        self.seen += came
        if self.window.is_time:
            self.log.drop_first(int(np.searchsorted(self.log.at, instant - self.window.size, "left")))
        else:
            self.log.drop_first(max(0, len(self.log) - self.window.size))
        return begin

    def at_of(self, numbers: Ints) -> Ints:
        """Times of some events, by their numbers in the log."""
        return self.log.at[numbers - self.log.first]

    def number_of(self, numbers: Ints) -> Ints:
        """Which ones they are in the order of times, from 1; the last one in the log is the last one seen."""
        return numbers + (self.seen - self.log.end + 1)

    def continue_from(self, seen: int) -> None:
        """Have seen that many events: others, before those that came here."""
        self.seen = seen

    def covers(self, known_from: int, now: int) -> bool:
        """Whether all of the window is known, if all events from a time on are. One by count is if it is full of
        such events."""
        if self.window.is_time:
            return now - self.window.size >= known_from
        return len(self.log) >= self.window.size and int(self.log.at[0]) >= known_from

    def snapshot(self) -> tuple[dict[str, int], dict[str, Any]]:
        """A description that JSON can hold, and named arrays."""
        arrays = {f"log/{name}": array for name, array in self.log.snapshot().items()}
        arrays |= {f"coming/{name}": self.coming[name].combine_chunks() for name in self.coming.column_names}
        return {"seen": self.seen}, arrays

    def restore(self, description: dict[str, int], saved: Saved) -> None:
        """State from a snapshot."""
        self.seen = description["seen"]
        self.log.restore(saved.under("log/"), first=0)
        coming = saved.under("coming/")
        at = coming.column(AT, {pa.int64()})
        columns = [coming.column(each.name, {each.type}, len(at)) for each in self.coming.schema]
        if at.null_count or (self.log.at[1:] < self.log.at[:-1]).any():
            raise saved.damaged(AT, "has events that are not in order")
        self.coming = pa.table(columns, schema=self.coming.schema)


Prepared = list[pa.Table | None]  # for each input, if the batch is for it


class Turn(NamedTuple):
    """What changes at an instant."""

    instant: int
    entering: pa.Table  # outputs and places of the results that are new
    ended: pa.Table | None  # values whose results have ended before their time
    counts: tuple[int, ...]  # events seen of each input that results have a place of


class ViewOperator(ABC):
    """`schemas` are of what is kept of the events of each input, `clocks` those of their streams."""

    def __init__(
        self,
        query: WideJoinQuery | NegationQuery | SelectionQuery,
        schemas: Sequence[pa.Schema],
        clocks: Sequence[Clock],
    ):
        self.query = query
        self._clocks = clocks
        self.inputs = [
            ViewInput(schema, side.window) for schema, side in zip(schemas, query.sides, strict=True)
        ]
        self.reached: int | None = None
        # all events from these times on are known
        self.known_from = [LONG_AGO if clock.now is None else clock.now for clock in clocks]

    @abstractmethod
    def _kept(self, side: int, given: Mapping[str, pa.Array]) -> tuple[dict[str, pa.Array], pa.Array | None]:
        """What is kept of the events of an input, and which of them, if not all."""

    @abstractmethod
    def _turn(self, instant: int) -> Turn:
        """Go to an instant."""

    def prepare(self, stream: str, admitted: Admitted) -> Prepared:
        """What a batch adds to each input; whatever can fail does so here."""
        given = dict(zip(admitted.events.schema.names, admitted.events.columns, strict=True))
        return [
            self._events(number, given, admitted.at) if side.stream.name == stream else None
            for number, side in enumerate(self.query.sides)
        ]

    def insert(self, prepared: Prepared) -> None:
        """Take in what was prepared."""
        for each, events in zip(self.inputs, prepared, strict=True):
            if events is not None:
                each.insert(events)

    @property
    def watermark(self) -> int | None:
        """The least one of the streams': before it no more events are expected."""
        return least_watermark(self._clocks)

    @property
    def next_event(self) -> int | None:
        """The time of the first event that has come and is in no window yet; None if there is none."""
        firsts = [int(each.coming[AT].to_numpy().min()) for each in self.inputs if each.coming.num_rows]
        return min(firsts, default=None)

    @property
    def holds_events(self) -> bool:
        """Whether a window holds an event."""
        return any(len(each.log) for each in self.inputs)

    def advance(self, until: int | None, through: int | None, counts: Sequence[int] = ()) -> Turn | None:
        """Go to the last update instant up to `until` (by default the watermark); None if that is no step.

        What was a result at `through`, an instant between, is not new any more; `counts` events had been seen
        of the inputs then.
        """
        target = self.watermark if until is None else until
        has_begun = self.reached is not None or any(each.coming.num_rows for each in self.inputs)
        if target is None or not has_begun:
            return None
        instant = target - target % self.query.slide
        if self.reached is not None and instant <= self.reached:
            return None
        if through is not None and _is_before(self.reached, through) and through <= instant:
            turn = self._go(through)
            self._continue_from(counts)
            if through == instant:
                return turn
        elif through is not None and self.reached is not None and through < self.reached:
            # an archive that lacks the last updates may all the same have counted further
            self._continue_from(
                [max(each.seen, seen) for each, seen in zip(self.inputs, counts, strict=False)]
            )
        return self._go(instant)

    def covers(self, now: int, known_from: int) -> bool:
        """Whether all windows at an instant are known from their start, if nothing from a time on is missing."""
        if self.query.by_count and self.reached is not None and self.reached > now:
            return False  # the windows have gone on without the archive
        known = zip(self.inputs, self.known_from, strict=True)
        return all(each.covers(max(since, known_from), now) for each, since in known)

    def _continue_from(self, counts: Sequence[int]) -> None:
        """Number events on from where the archive is; those that it has seen need not be pushed again."""
        for each, seen in zip(self.inputs, counts, strict=False):
            each.continue_from(seen)

    def _go(self, instant: int) -> Turn:
        turn = self._turn(instant)
        self.reached = instant
        return turn

    def _events(self, side: int, given: Mapping[str, pa.Array], at: Any) -> pa.Table:
        columns, passing = self._kept(side, given)
        table = pa.table({**columns, AT: pa.array(at, pa.int64())})
        # taken, so copied: what the caller does to his arrays later is none of ours
        chosen = np.arange(len(at)) if passing is None else np.flatnonzero(passing.fill_null(False))
        return table.take(pa.array(chosen))

    def snapshot(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """A description that JSON can hold, and named arrays."""
        described: list[dict[str, int]] = []
        arrays: dict[str, Any] = {}
        for number, each in enumerate(self.inputs):
            description, named = each.snapshot()
            described.append(description)
            arrays |= {f"{number}/{name}": array for name, array in named.items()}
        return {"reached": self.reached, "known_from": self.known_from, "inputs": described}, arrays

    def restore(self, description: dict[str, Any], arrays: dict[str, Any]) -> None:
        """State from a snapshot."""
        input = {"seen": COUNT}
        known_from = [WHOLE] * len(self.inputs)
        shape = {"reached": Maybe(WHOLE), "known_from": tuple(known_from), "inputs": [input]}
        check_shape(description, shape, "the state of a view")
        saved = Saved(arrays)
        for number, (each, described) in enumerate(zip(self.inputs, description["inputs"], strict=True)):
            each.restore(described, saved.under(f"{number}/"))
        self.reached, self.known_from = description["reached"], description["known_from"]


def _is_before(one: int | None, other: int) -> bool:
    return one is None or one < other


# PresentValues: which values the events of an input have, and how that changes.


class PresentValues:
    """Follows a log; a value is present while some event has it. NULL never is, NaN is itself.

    To follow costs O(events that came and went), to ask O(values asked for).
    """

    def __init__(self, kinds: Sequence[pa.DataType]):
        self._keys = KeyDictionary(kinds)
        self._events = Columns({"key": np.dtype(np.int64)})  # numbered as in the log; -1 is NULL
        self._count = np.zeros(0, np.int64)  # events that have a value, by its id; with room for more
        self._sweeper = Sweeper()

    def follow(
        self, log: EventLog, values_of: Callable[[Ints], list[pa.Array]]
    ) -> tuple[list[pa.Array], list[pa.Array]]:
        """Have the events of a log; the values that have come to be present, and those that are no more."""
        end = self._events.dropped + len(self._events)
        left = min(log.first, end) - self._events.dropped
        gone = self._events["key"][:left].copy()
        self._events.drop_first(left)
        self._events.dropped = log.first  # also where some have come and gone at once
        numbers = np.arange(max(log.first, end), log.end)
        new = np.zeros(0, np.int64)
        if len(numbers):
            values = values_of(numbers)
            new = without_null(self._keys.encode(values), values)
            self._events.extend({"key": new})
        gone, new = gone[gone >= 0], new[new >= 0]
        if len(self._keys) > len(self._count):
            self._count = np.pad(self._count, (0, 2 * len(self._keys) - len(self._count)))
        touched = np.unique(np.concatenate([gone, new]))
        was = self._count[touched] > 0
        np.add.at(self._count, new, 1)
        np.subtract.at(self._count, gone, 1)
        is_now = self._count[touched] > 0
        changed = self._keys.take(touched[~was & is_now]), self._keys.take(touched[was & ~is_now])
        self._sweeper.sweep(self._keys, self._mark, self._renumber)
        return changed

    def have(self, sought: Sequence[pa.Array]) -> Bools:
        """Which rows of what is sought are present."""
        key = without_null(self._keys.find(sought), sought)
        found = np.zeros(len(key), np.bool_)
        found[key >= 0] = self._count[key[key >= 0]] > 0
        return found

    def _mark(self, used: Bools) -> None:
        used |= self._count[: len(used)] > 0

    def _renumber(self, new_id: Ints) -> None:
        key = self._events["key"]
        key[key >= 0] = new_id[key[key >= 0]]
        self._count = self._count[: len(new_id)][new_id >= 0]


def without_null(key: Ints, values: Sequence[pa.Array]) -> Ints:
    """Ids of rows of values, -1 where one of them is NULL, which equals nothing."""
    for column in values:
        if column.null_count:
            key = np.where(np.asarray(column.is_valid()), key, -1)
    return key


class KeyedRows:
    """Follows a log whose events it finds by values of these `kinds`; NULL equals nothing, NaN itself.

    To follow costs O(events that came and went), to find O(events sought and found).
    """

    def __init__(self, kinds: Sequence[pa.DataType]):
        self._keys = KeyDictionary(kinds)
        self._events = Columns(
            {"key": np.dtype(np.int64), "prior": np.dtype(np.int64)}
        )  # numbered as in the log
        self._chains = Chains()
        self._sweeper = Sweeper()

    def follow(self, log: EventLog, values_of: Callable[[Ints], list[pa.Array]]) -> None:
        """Have the events of a log; `values_of` has the values of the events with some numbers."""
        end = self._events.dropped + len(self._events)
        self._events.drop_first(min(log.first, end) - self._events.dropped)
        self._events.dropped = log.first  # also where some have come and gone at once
        new = np.arange(max(log.first, end), log.end)
        if len(new):
            key = self._keys.encode(values_of(new))
            self._events.extend({"key": key, "prior": self._chains.link(key, int(new[0]))})
        self._sweeper.sweep(self._keys, self._mark, self._renumber)

    def find(self, sought: Sequence[pa.Array], below: int) -> tuple[Ints, Ints]:
        """Pairs of a row of what is `sought` and the number, below some, of an event with the same values."""
        key = without_null(self._keys.find(sought), sought)
        chain = (key, self._chains.last, self._events["prior"], self._events.dropped, below)
        many = np.empty(len(key), np.int64)
        found = np.empty(count_chained(*chain, many), np.int64)
        list_chained(*chain, found)
        return np.repeat(np.arange(len(key)), many), found

    def _mark(self, used: Bools) -> None:
        used[self._events["key"]] = True

    def _renumber(self, new_id: Ints) -> None:
        key = self._events["key"]
        key[:] = new_id[key]
        self._chains.renumber(new_id)
