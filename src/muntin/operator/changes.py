"""Changes: which keys enter and which leave the answers of a query, from one instant to the next.

What `EMIT CHANGES` makes of a query. A key *enters* at the first instant at which it qualifies and did
not at the one before, and *leaves* at the first at which it no longer does: no more than that, so a
key that hovers about its threshold enters and leaves as often as it crosses it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from muntin.operator.lookup import answers_at, qualifying
from muntin.operator.reading import reading_of
from muntin.operator.shard import Shard
from muntin.operator.stretch import Stretch
from muntin.synopsis.contract import Ints


def changes_at(
    shard: Shard, name: str, instants: Ints, inside: Ints, stretch: Stretch | None, ids: Ints | None = None
) -> tuple[list[pa.Table], Ints]:
    """Tables of changes at each instant, after one at which the keys `inside` qualified; and those that
    qualify at the last. Only keys among `ids` qualify, if given. O(keys) per instant for the selection,
    O(changes) for the tables."""
    reading = reading_of(shard, name)
    schema = reading.query.emission_schema()
    tables: list[pa.Table] = []
    for instant, now in zip(instants, qualifying(shard, name, instants, stretch, ids), strict=True):
        changed = np.setxor1d(inside, now, assume_unique=True)
        if len(changed):
            of = changed if reading.keys is not None else None
            answers = answers_at(shard, name, np.array([instant]), of, is_filtered=False)
            enters = np.isin(changed, now, assume_unique=True)
            change = pa.array(np.where(enters, "enter", "leave"), pa.string())
            tables.append(pa.Table.from_arrays([*answers.columns, change], schema=schema))
        inside = now
    return tables, inside
