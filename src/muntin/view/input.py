"""ViewInput: the events of one input of a view, in their window as of an instant, and those that come after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.store.event_log import EventLog
from muntin.store.saved import Saved
from muntin.window import Window

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
