"""Changes: which keys enter and which leave the answers of a query, from one instant to the next.

What `EMIT CHANGES` makes of a query. A key *enters* at the first instant at which it qualifies and did
not at the one before, and *leaves* at the first at which it no longer does: no more than that, so a
key that hovers about its threshold enters and leaves as often as it crosses it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.shard.read.left_out import LeftOut
from muntin.shard.read.lookup import answers_at, qualifying
from muntin.shard.read.reading import reading_of
from muntin.shard.read.stretch import Stretch
from muntin.shard.state import State


class Changes(NamedTuple):
    """Tables of changes, the keys that qualify at the last instant, and the rows left out."""

    tables: list[pa.Table]
    inside: Ints
    left_out: LeftOut


def changes_at(
    state: State, name: str, instants: Ints, inside: Ints, stretch: Stretch | None, ids: Ints | None = None
) -> Changes:
    """Changes at each instant, after one at which the keys `inside` qualified. Only keys among `ids` qualify, if
    given. O(keys) per instant for the selection, O(changes) for the tables.

    A key whose row cannot be told, since a value of it does not exist, stays as it was.
    """
    reading = reading_of(state, name)
    schema = reading.query.emission_schema()
    tables: list[pa.Table] = []
    qualified, unknown, left_out = qualifying(state, name, instants, stretch, ids)
    for instant, now, unsure in zip(instants, qualified, unknown, strict=True):
        if len(unsure):
            now = np.union1d(now, np.intersect1d(inside, unsure, assume_unique=True))
        changed = np.setxor1d(inside, now, assume_unique=True)
        if len(changed):
            of = changed if reading.keys is not None else None
            answers = answers_at(state, name, np.array([instant]), of, is_filtered=False)
            if answers.gone is not None:
                now = np.setxor1d(now, changed[answers.gone], assume_unique=True)
                changed = changed[~answers.gone]
                left_out = left_out.also(answers.left_out)
            enters = np.isin(changed, now, assume_unique=True)
            change = pa.array(np.where(enters, "enter", "leave"), pa.string())
            tables.append(pa.Table.from_arrays([*answers.table.columns, change], schema=schema))
        inside = now
    return Changes(tables, inside, left_out)
