"""Groups at work: the rows that a query over one stream answers at each update, in the place of those before.

The query is registered with its stream like any other, and shares its state. What it answers at an instant is compared
with what the archive holds: a row that is new, or has other values than before, is generated at that instant; the one
that it replaces ends there, as results do that a negation ends. So an update brings the archive to what the query
answers, whatever it held, and there is no state to lose.

A row cannot be known to last: it expires when it has not been renewed for as long as the longest window, and one that
stays the same for longer is then written again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.archive import EXPIRES, GENERATED, Definition, View
from muntin.archive.liveness import AT as INVALIDATED_AT
from muntin.arrays import FOREVER, LONG_AGO
from muntin.shard.shard import Shard
from muntin.view.row_ids import row_ids
from muntin.view_query import GroupedQuery, place_of


class Replaced(NamedTuple):
    """What an update of groups brings to an archive."""

    results: pa.Table
    ended: pa.Table | None  # groups whose rows have become others, or are gone


def replaced(view: View, rows: pa.Table, instant: int) -> Replaced:
    """From what a view holds to the rows of an instant; O(rows of both)."""
    definition = view.definition
    held = view.read_all()
    held = held.filter(pa.array(held[EXPIRES].to_numpy() > instant))
    old, new = row_ids((held, rows), definition.columns.names)
    entering = rows.filter(pa.array(~np.isin(new, old)))
    gone = held.filter(pa.array(~np.isin(old, new))).select(definition.negated_on)
    ended = None
    if gone.num_rows:  # all that were generated before: none was at an instant between two updates
        ended = gone.append_column(INVALIDATED_AT, pa.array(np.full(gone.num_rows, instant - 1)))
    return Replaced(_dated(entering, instant, definition), ended)


def _dated(rows: pa.Table, instant: int, definition: Definition) -> pa.Table:
    """Rows as an archive takes them."""
    expires = np.full(rows.num_rows, instant + definition.window)
    if definition.inputs:  # the latest event of a row says when it goes, unless another comes
        places = rows[definition.inputs[0]].to_numpy() + definition.sizes[0]
        expires = -(-places // definition.every) * definition.every
    return pa.table(
        {**{name: rows[name] for name in definition.columns.names}, GENERATED: np.full(rows.num_rows, instant),
         EXPIRES: expires},
        schema=definition.schema,
    )  # fmt: skip


def rows_at(answers: pa.Table | None, instant: int, definition: Definition) -> pa.Table:
    """The rows of an instant among the answers of a query, with the columns that are kept."""
    if answers is None:
        return definition.columns.empty_table()
    ends = np.asarray(answers["window_end"].cast(pa.int64()))
    return kept_columns(answers.filter(pa.array(ends == instant)), definition)


def kept_columns(answers: pa.Table, definition: Definition) -> pa.Table:
    """Answers of a query with the columns that an archive keeps."""
    columns = {name: answers[name] for name in definition.columns.names}
    for name in definition.inputs:  # the instant from which an event is seen
        at = np.asarray(columns[name].cast(pa.timestamp("us")).cast(pa.int64()))
        columns[name] = pa.chunked_array([at + 1])
    return pa.table(columns, schema=definition.columns)


class QueryFeed:
    """The query of a view, registered with its stream under the view's name: what brings the rows."""

    def __init__(self, source: GroupedQuery, shard: Shard, name: str):
        self._source = source
        self._shard, self._name = shard, name

    @property
    def emitted_to(self) -> int | None:
        return self._shard.registrations[self._name].emitted_to

    @property
    def first(self) -> int | None:
        """The time of the first event of the stream."""
        return self._shard.clock.first

    @property
    def missed(self) -> int:
        return self._shard.registrations[self._name].missed

    @property
    def known_from(self) -> tuple[int]:
        """All events that its windows need are known if the first of them begins here or later."""
        coverage = self._shard.coverage(self._name)
        if coverage.complete_from is not None:
            at = int(coverage.complete_from.astype("datetime64[us]").astype(np.int64))
            return (at - self._source.side.window.size,)
        return (LONG_AGO if coverage.complete else FOREVER,)


def definition_of_groups(source: GroupedQuery, key: tuple[str, ...]) -> Definition:
    """What the archive of a view of groups keeps."""
    every, size = source.slide, source.side.window.size
    fields = [pa.field(output.name, output.expression.type) for output in source.outputs]
    places = (place_of(0),) if source.is_distinct else ()
    fields = [pa.field(each.name, pa.int64()) if each.name in places else each for each in fields]
    life = -(-(size if places else source.longest) // every) * every
    groups = tuple(each.name for each in source.query.keys)
    return Definition(
        pa.schema(fields), key, max(life, every), every, places, (size,), negated_on=groups or key
    )
