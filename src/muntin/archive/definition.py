"""Definition: what the results of a view are, and how long they live; fixed when the archive is made."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrow_bytes import read_sound_schema
from muntin.described import COUNT, LONGEST, Between, Maybe
from muntin.errors import ArchiveError, SchemaError, nearest

GENERATED = "generated_at"  # a result is alive while generated_at <= now < expires_at
EXPIRES = "expires_at"


# as `describe` makes it
DEFINITION = {
    "columns": str,
    "key": [str],
    "window": Between(1, LONGEST),
    "every": Between(1, LONGEST),
    "inputs": [str],
    "sizes": [COUNT],
    "by_count": bool,
    "negated_on": [str],
    "reach": Maybe(COUNT),
}


@dataclass(frozen=True)
class Definition:
    """The columns of a result, its key, and the windows it comes from.

    Times are integers of any unit. With `by_count`, the windows hold numbers of events: `inputs` are then
    positions in the streams (from 1), a result dies when event number `position + size` of one of them
    comes, and `expires_at` is only a guess that the archive makes itself.
    """

    columns: pa.Schema  # of a result, without generated_at and expires_at
    key: tuple[str, ...]
    window: int  # the longest life of a result; with by_count, an estimate
    every: int  # between two updates
    inputs: tuple[str, ...] = ()  # a column for each input: the time, or the position, of its event
    sizes: tuple[int, ...] = ()  # the window of each input
    by_count: bool = False
    negated_on: tuple[
        str, ...
    ] = ()  # what an event on the negated side has in common with the results it ends
    reach: int | None = None  # slots around a guessed expiry that updates look at; None: as rates vary
    schema: pa.Schema = field(init=False, compare=False)  # as stored

    def __post_init__(self) -> None:
        for name in (*self.key, *self.inputs, *self.negated_on):
            if name not in self.columns.names:
                raise SchemaError(f"results have no column '{name}'{nearest(name, self.columns.names)}")
        if taken := {GENERATED, EXPIRES} & set(self.columns.names):
            raise SchemaError(f"'{min(taken)}' is the archive's own column; call yours otherwise")
        if not self.key:
            raise SchemaError("results need a key to be found by")
        if self.every < 1 or self.window < self.every:
            raise ArchiveError(
                f"a window of {self.window} cannot be updated every {self.every}: that must be 1 to {self.window}"
            )
        if len(self.inputs) != len(self.sizes) and (self.inputs or self.by_count):
            raise ArchiveError(f"{len(self.inputs)} inputs have {len(self.sizes)} window sizes")
        if self.by_count and not self.inputs:
            raise ArchiveError("results of count windows need a position for each input")
        for name in self.inputs:
            if self.columns.field(name).type != pa.int64():
                raise SchemaError(f"column '{name}' tells the place of an event: it must be int64")
        own = [pa.field(GENERATED, pa.int64()), pa.field(EXPIRES, pa.int64())]
        object.__setattr__(self, "schema", pa.schema([*self.columns, *own]))
        if not self.negated_on:
            object.__setattr__(self, "negated_on", self.key)

    @property
    def per_window(self) -> int:
        """Updates in a window."""
        return -(-self.window // self.every)

    @property
    def order(self) -> tuple[str, ...]:
        """The columns rows are sorted by."""
        return (*self.key, EXPIRES)

    def conform(self, results: Any, now: int) -> pa.Table:
        """Results as stored, or an error that names the column that does not fit."""
        if results is None:
            return self.schema.empty_table()
        table = results if isinstance(results, pa.Table) else _as_table(results, self.schema)
        wanted = [name for name in self.schema.names if not (self.by_count and name == EXPIRES)]
        if missing := [name for name in wanted if name not in table.column_names]:
            raise SchemaError(
                f"results lack the column '{missing[0]}'{nearest(missing[0], table.column_names)}"
            )
        if unknown := [name for name in table.column_names if name not in wanted]:
            raise SchemaError(f"results have no column '{unknown[0]}'{nearest(unknown[0], wanted)}")
        columns = {name: _cast(table.column(name), self.schema.field(name)) for name in wanted}
        if self.by_count:
            columns[EXPIRES] = pa.chunked_array([np.zeros(table.num_rows, np.int64)])
        stored = pa.table([columns[name] for name in self.schema.names], schema=self.schema)
        for name in (GENERATED, EXPIRES, *self.inputs):
            if stored.column(name).null_count:
                raise SchemaError(f"column '{name}' of a result is NULL")
        self._check_times(stored, now)
        return stored

    def _check_times(self, stored: pa.Table, now: int) -> None:
        if not stored.num_rows:
            return
        if (newest := pc.max(stored[GENERATED]).as_py()) > now:
            raise ArchiveError(f"a result of {newest} is generated after the update at {now}")
        if self.by_count:
            return
        longest = pc.max(pc.subtract(stored[EXPIRES], stored[GENERATED])).as_py()
        if longest > self.window:
            raise ArchiveError(f"a result lives for {longest}; no result of this view outlives {self.window}")

    def describe(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "columns": base64.b64encode(self.columns.serialize()).decode(),
            "key": self.key, "window": self.window, "every": self.every, "inputs": self.inputs,
            "sizes": self.sizes, "by_count": self.by_count, "negated_on": self.negated_on,
            "reach": self.reach,
        }  # fmt: skip

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Definition:
        """What `describe` described."""
        columns = read_sound_schema(base64.b64decode(description["columns"]))
        plain = {
            name: tuple(value) if isinstance(value, list) else value for name, value in description.items()
        }
        return cls(**{**plain, "columns": columns})


def _as_table(results: Any, schema: pa.Schema) -> pa.Table:
    if isinstance(results, pa.RecordBatch):
        return pa.Table.from_batches([results])
    if isinstance(results, dict):
        known = {
            name: pa.array(values, schema.field(name).type) if name in schema.names else pa.array(values)
            for name, values in results.items()
        }
        return pa.table(known)
    raise SchemaError(f"results must be an Arrow table or a dict of columns, not {type(results).__name__}")


def _cast(column: pa.ChunkedArray, wanted: pa.Field) -> pa.ChunkedArray:
    if column.type == wanted.type:
        return column
    try:
        return column.cast(wanted.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(f"column '{wanted.name}' is {column.type}, not {wanted.type}: {error}") from None
