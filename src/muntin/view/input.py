"""ViewInput: the events of one input of a view, in their window as of an instant, and those that come after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.window import Window

AT, NUMBER = "#at", "#number"  # the time of an event, and which one it is in the order of times, from 1


class ViewInput:
    """Takes events in any order; `turn` goes to an instant before which no more will come.

    A turn costs the sorting of what came, and a pass over the window.
    """

    def __init__(self, columns: pa.Schema, window: Window):
        self.window = window
        own = [pa.field(AT, pa.int64()), pa.field(NUMBER, pa.int64())]
        self.rows = pa.schema([*columns, *own]).empty_table()  # in the window, in order
        self.coming = pa.schema([*columns, own[0]]).empty_table()  # as they arrived
        self.seen = 0  # events before the instant
        self.counted = 0  # of these, how many came this way: the others an archive has told of

    def insert(self, events: pa.Table) -> None:
        """Take events in."""
        self.coming = pa.concat_tables([self.coming, events])

    def turn(self, instant: int) -> int:
        """Go to an instant; the number of the last event that was seen before."""
        before, coming = self.seen, self.coming.combine_chunks()
        at = coming[AT].to_numpy()
        in_order = np.argsort(at, kind="stable")
        came = int(np.searchsorted(at[in_order], instant, "left"))
        number = pa.array(before + 1 + np.arange(came))
        fresh = coming.take(pa.array(in_order[:came])).append_column(self.rows.schema.field(NUMBER), number)
        self.coming = coming.take(pa.array(in_order[came:]))
        self.seen, self.counted = before + came, self.counted + came
        if self.window.is_time:
            is_inside = pc.field(AT) >= instant - self.window.size
        else:
            is_inside = pc.field(NUMBER) > self.seen - self.window.size
        self.rows = pa.concat_tables([self.rows, fresh]).filter(is_inside).combine_chunks()
        return before

    def continue_from(self, seen: int) -> None:
        """Have seen that many events: others, before those that came here."""
        more = seen - self.seen
        self.seen = seen
        place = self.rows.column_names.index(NUMBER)
        numbers = pc.add(self.rows[NUMBER], more)
        self.rows = self.rows.set_column(place, self.rows.schema.field(NUMBER), numbers)

    def covers(self, known_from: int, now: int) -> bool:
        """Whether all of the window is known, if all events from a time on are."""
        if self.window.is_time:
            return now - self.window.size >= known_from
        return self.counted >= self.window.size

    def snapshot(self) -> tuple[dict[str, int], dict[str, Any]]:
        """A description that JSON can hold, and named arrays."""
        arrays = {
            f"{kind}/{name}": table[name].combine_chunks()
            for kind, table in (("rows", self.rows), ("coming", self.coming))
            for name in table.column_names
        }
        return {"seen": self.seen, "counted": self.counted}, arrays

    def restore(self, description: dict[str, int], arrays: dict[str, Any]) -> None:
        """State from a snapshot."""
        self.seen, self.counted = description["seen"], description["counted"]
        for kind in ("rows", "coming"):
            schema = getattr(self, kind).schema
            columns = [arrays[f"{kind}/{name}"] for name in schema.names]
            setattr(self, kind, pa.table(columns, schema=schema))
