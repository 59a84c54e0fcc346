"""A table: rows with a primary key, that streams are joined with and that change from outside."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from muntin.argument import kept_text_of, shown, texts_of
from muntin.errors import MuntinError, SchemaError, nearest
from muntin.fixed_point import check_columns

SPAN = pa.duration("us")  # what INTERVAL is


@dataclass(frozen=True)
class Table:
    """What `CREATE TABLE` declares: columns, and those that tell rows apart.

    >>> limits = Table("limits", pa.schema([("account", pa.int64()), ("daily", pa.float64())]), ("account",))
    >>> limits.column("dayly")
    Traceback (most recent call last):
    muntin.errors.SchemaError: table 'limits' has no column 'dayly'; did you mean 'daily'?
    """

    name: str
    schema: pa.Schema
    key: tuple[str, ...]

    def __post_init__(self) -> None:
        kept_text_of("name", self.name)
        if not isinstance(self.schema, pa.Schema):
            raise MuntinError(f"schema is a pyarrow.Schema, not {shown(self.schema)}")
        check_columns(self.schema, self.label)
        texts_of("key", self.key)
        if not self.key:
            raise SchemaError(f"table '{self.name}' needs a primary key")
        for name in self.key:
            self.column(name)
        if len(set(self.key)) < len(self.key):
            raise SchemaError(f"a column stands twice in the primary key of table '{self.name}'")

    def __hash__(self) -> int:
        return hash((self.name, self.key))  # hashing the Arrow schema each time would cost more

    @property
    def label(self) -> str:
        """What errors call it."""
        return f"table '{self.name}'"

    @property
    def left_out(self) -> tuple[tuple[str, str], ...]:
        """Columns of its source that it does not have: none, unlike those of a stream."""
        return ()

    def column(self, name: str) -> pa.Field:
        """The field called `name`, or an error with the nearest name."""
        position = self.schema.get_field_index(name)
        if position < 0:
            raise SchemaError(f"{self.label} has no column '{name}'{nearest(name, self.schema.names)}")
        return self.schema.field(position)

    def __str__(self) -> str:
        return f"{self.name} (PRIMARY KEY ({', '.join(self.key)}))"
