"""What an advance gives out, before it is cut: tables of single queries, and tables that many queries share.

A cut into a table for each query costs microseconds for each, which is more than all else costs of a small answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.arrays import Ints
from muntin.shard.emit.portion import Answers

QUERY = "query"  # the column that says whose answer a row is


class SharedTable(NamedTuple):
    """Rows of several queries, those of one next to each other."""

    names: pa.Array  # of queries
    query: Ints  # of each row, among the names
    table: pa.Table

    def cut(self) -> dict[str, pa.Table]:
        """A table for each query that has rows; O(queries that have some)."""
        begins = np.flatnonzero(np.append(True, self.query[1:] != self.query[:-1]))
        names = self.names.take(pa.array(self.query[begins])).to_pylist()
        many = np.diff(np.append(begins, len(self.query))).tolist()
        slice_of = self.table.slice
        return {
            name: slice_of(lo, count) for name, lo, count in zip(names, begins.tolist(), many, strict=True)
        }


class Emitted:
    """Of one shard, or of several; `more` says that another call has more to give."""

    def __init__(self) -> None:
        self.alone: dict[str, pa.Table] = {}  # of queries by name
        self.shared: list[SharedTable] = []
        self.more = False

    @classmethod
    def of(cls, answers: Answers) -> Emitted:
        made = cls()
        made.alone, made.more = dict(answers), answers.more
        return made

    def also(self, other: Emitted) -> None:
        self.alone |= other.alone
        self.shared += other.shared
        self.more |= other.more

    def by_query(self) -> Answers:
        """A table for each query that has rows."""
        answers = Answers(self.alone)
        for each in self.shared:
            answers |= each.cut()
        answers.more = self.more
        return answers

    def together(self) -> Together:
        """As few tables as there are schemas, with a first column that says whose answer a row is. O(queries that are
        alone), and O(rows) of the others for that column alone."""
        names, tables = list(self.alone), list(self.alone.values())
        number = np.repeat(np.arange(len(names)), [table.num_rows for table in tables])
        by_schema: dict[pa.Schema, list[pa.Table]] = {}
        begin = 0
        every = pa.array(names, pa.string())
        for table in tables:
            end = begin + table.num_rows
            _add(by_schema, every, number[begin:end], table)
            begin = end
        for each in self.shared:
            _add(by_schema, *each)
        found = Together(_joined(some) for some in by_schema.values())
        found.more = self.more
        return found


def _add(by_schema: dict[pa.Schema, list[pa.Table]], names: pa.Array, number: Ints, table: pa.Table) -> None:
    whole = table.add_column(0, pa.field(QUERY, pa.string()), names.take(pa.array(number)))
    by_schema.setdefault(whole.schema, []).append(whole)


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


class Together(list[pa.Table]):
    """What `advance(together=True)` gives: a table for each schema that answers have. `more` says that another call has
    more to give."""

    more: bool = False
