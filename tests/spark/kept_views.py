"""Views kept by the driver, fed micro-batch by micro-batch without a JVM; and what they must hold, found by looking at
all events ever (`tests/view/naive.py`)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.archive import View
from muntin.spark.view_events import STREAM, EventKeeper
from muntin.spark.view_owner import OwnedView
from muntin.spark.view_pairs import column_of
from muntin.sql import parse_view
from muntin.stream import Stream
from muntin.view.folders import folder_of
from tests.view.naive import DELAYS, EVERY, SECOND, VIEWS, Twin, statement

KINDS = [view for view in VIEWS if view != "join"]  # that one is kept by Spark's own join
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("n", pa.int64())])
STREAMS = {name: Stream(name, SCHEMA, "ts", delay * SECOND) for name, delay in DELAYS.items()}


class Frame:
    """What a keeper asks of the DataFrame of a micro-batch."""

    def __init__(self, table: pa.Table):
        self._table, self.ran = table, 0
        save = SimpleNamespace(save=self._run)
        self.write = SimpleNamespace(format=lambda _: SimpleNamespace(mode=lambda _: save))

    def _run(self) -> None:
        self.ran += 1

    def toArrow(self) -> pa.Table:
        self._run()
        return self._table


def frame(events: dict[str, list[tuple[Any, ...]]], streams: tuple[str, ...]) -> Frame:
    """Events (time, key, number) of some streams, as tasks hand them to the driver: streams in pieces, in any order."""
    tables = []
    for number, name in enumerate(streams):
        columns = zip(*events[name], strict=True) if events[name] else ((), (), ())
        own = {
            column_of(number, field.name): pa.array(list(values), field.type)
            for field, values in zip(SCHEMA, columns, strict=True)
        }
        tables.append(pa.table({STREAM: pa.array([number] * len(events[name]), pa.int32()), **own}))
    return Frame(pa.concat_tables(tables, promote_options="default"))


class Kept:
    """A view of one of the kinds, in a folder, with the checkpoint that keeps it."""

    def __init__(self, folder: Path, view: str, text: str | None = None):
        self.view, self.folder = view, folder
        query = parse_view(text or statement(view), STREAMS)
        assert query is not None
        checkpoint = folder / "checkpoint"
        checkpoint.mkdir(parents=True, exist_ok=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": "own"}))
        self.owned = OwnedView(query, folder_of(folder / "views", query.name), checkpoint)
        self.start()

    def start(self) -> None:
        """In a new process, as it were: nothing is left of what was in memory."""
        self.keeper = EventKeeper(self.owned)

    def frame(self, events: dict[str, list[tuple[Any, ...]]]) -> Frame:
        return frame(events, self.owned.query.streams)

    @property
    def stored(self) -> View:
        return View.open(self.owned.folder)

    def held(self, stored: View | None = None) -> Counter[tuple[int, ...]]:
        """The numbers of the events of each row, of a view that has been opened or as it is now."""
        table = (stored or self.stored).read_all()
        names = [name for name in ("n", "m", "o") if name in table.column_names]
        return Counter(zip(*(table[name].to_pylist() for name in names), strict=True))


class Source(Twin):
    """Micro-batches of events, and where the watermark stands after each."""

    def __init__(self, seed: int):
        super().__init__()
        self.random, self.now = np.random.default_rng(seed), 0
        self.batches: list[dict[str, list[tuple[Any, ...]]]] = []

    def next(self) -> dict[str, list[tuple[Any, ...]]]:
        """Some seconds of events, none of them late; now and then none at all."""
        until = self.now + int(self.random.integers(0, 5))
        drawn = self.draw(self.random, self.now, until) if until > self.now else {}
        self.now = until
        batch = {name: self.events[name][drawn[name]] if name in drawn else [] for name in self.events}
        self.batches.append(batch)
        return batch

    def instant(self, streams: tuple[str, ...], batches: int | None = None) -> int | None:
        """The last update that the watermark has passed after some micro-batches, in seconds."""
        greatest = {
            name: max((event[0] for batch in self.batches[:batches] for event in batch[name]), default=None)
            for name in streams
        }
        if None in greatest.values():
            return None
        mark = min(at - DELAYS[name] * SECOND for name, at in greatest.items() if at is not None)
        return mark // SECOND // EVERY * EVERY
