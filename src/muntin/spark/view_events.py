"""Views that Spark's join cannot find: the operator of the embedded engine keeps them, in the driver.

    streams --union--> events --foreachBatch: collected--> ledger --> operator --what enters, what has ended--> archive

Windows by count need all events in one order, negations have to know when a value is there no more, and joins of three
streams are not one join. So the columns that the view reads are collected, micro-batch by micro-batch. Its steps:

1. what it brought goes to the ledger (`view_ledger.py`);
2. the operator turns to the last update instant that the watermark has passed;
3. the archive publishes what changes, with the number of the micro-batch.

Only the third counts. A process that is killed before it has done nothing: the micro-batch comes again, and its entry
is written over. One that is killed after it has done everything: the micro-batch comes again, and the archive has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from muntin.archive import Archive
from muntin.spark.fed_operator import FedOperator, inputs_of
from muntin.spark.stream_of import quoted, refuse_look_alikes, without_zone
from muntin.spark.view_ledger import ViewLedger
from muntin.spark.view_owner import OwnedView
from muntin.spark.view_pairs import column_of
from muntin.view.materialized_view import ID
from muntin.view_query import ViewQuery

STREAM = "#stream"  # the number of an event's stream


def events_of(view: ViewQuery, streams: Mapping[str, DataFrame]) -> DataFrame:
    """The events of all streams of a view, each once, with the columns that the view reads."""
    return reduce(
        lambda some, more: some.unionByName(more, allowMissingColumns=True),
        (_chosen(number, name, stream.schema.names, streams[name])
         for number, (name, stream) in enumerate(inputs_of(view).items())),
    )  # fmt: skip


def _chosen(number: int, stream: str, columns: list[str], df: DataFrame) -> DataFrame:
    refuse_look_alikes(df, stream, columns)
    own = (F.col(quoted(name)).alias(column_of(number, name)) for name in columns)
    return df.select(F.lit(number).alias(STREAM), *own)


def by_stream(view: ViewQuery, collected: pa.Table) -> dict[str, pa.Table]:
    """What `events_of` has put together, by stream again."""
    found = {}
    for number, (name, stream) in enumerate(inputs_of(view).items()):
        mine = collected.filter(pc.equal(collected[STREAM], number))
        found[name] = pa.table({
            each: without_zone(mine[column_of(number, each)]) for each in stream.schema.names
        })  # fmt: skip
    return found


class EventKeeper:
    """Takes the events of micro-batches. The operator stays in memory; another keeper, in this process or in a later
    one, finds all of it in the ledger."""

    def __init__(self, view: OwnedView):
        self._view = view
        self._ledger = ViewLedger(view.folder)
        self._held: tuple[tuple[str, int], FedOperator] | None = None  # and the epoch that it is as of

    def take(self, events: DataFrame, batch: int) -> None:
        """Bring the view as far as the watermark that a micro-batch leaves."""
        with self._view.open(batch) as archive:
            if batch == archive.view.epoch.batch:
                # repeated: it is there already, but steps before this one may have state that has to take its events in
                events.write.format("noop").mode("overwrite").save()
                return
            given = by_stream(self._view.query, events.toArrow())
            operator = self._operator(archive)
            self._held = None  # what fails from here on leaves it somewhere between
            self._ledger.append(batch, operator.take(given))
            brought = operator.advance(archive.definition)
            if brought is None:
                archive.note_batch(batch)
            else:
                assert operator.reached is not None
                archive.update(
                    operator.reached, brought.results, invalidated=brought.ended, counts=brought.counts,
                    batch=batch, known_from=operator.known_from,
                )  # fmt: skip
            self._held = _epoch(archive), operator
            if self._ledger.is_due(batch):
                self._ledger.write_base(batch, operator.snapshot())

    def _operator(self, archive: Archive) -> FedOperator:
        """As of the archive's epoch: the one in memory, or else from the ledger."""
        if self._held is not None and self._held[0] == _epoch(archive):
            return self._held[1]
        epoch = archive.view.epoch
        if epoch.batch is None:
            return FedOperator(self._view.query)
        return FedOperator.restore(self._view.query, self._ledger.read(epoch.batch), epoch.now)


def _epoch(archive: Archive) -> tuple[str, int]:
    epoch = archive.view.epoch
    return epoch.about[ID], epoch.number
