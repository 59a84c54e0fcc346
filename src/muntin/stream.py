"""A stream: an unbounded sequence of events with a schema and a time column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from muntin.argument import kept_text_of, shown, text_of
from muntin.errors import MuntinError, SchemaError, nearest
from muntin.fixed_point import check_columns
from muntin.window import span


@dataclass(frozen=True)
class Stream:
    """What `CREATE STREAM` declares.

    `time` names the column with the event time (a timestamp, or a BIGINT of microseconds);
    events may come up to `delay` microseconds out of order without being late. Events more than `ahead`
    microseconds beyond all that is known of time are left out; None leaves none out. `left_out` has columns of the
    source that are not part of the stream, each with the reason.

    >>> trades = Stream("trades", pa.schema([("ts", pa.timestamp("us")), ("price", pa.float64())]), "ts")
    >>> trades.column("prize")
    Traceback (most recent call last):
    muntin.errors.SchemaError: stream 'trades' has no column 'prize'; did you mean 'price'?
    """

    name: str
    schema: pa.Schema
    time: str
    delay: int = 0
    ahead: int | None = None
    left_out: tuple[tuple[str, str], ...] = ()

    is_kept: ClassVar[bool] = True  # in state, where decimals have 18 digits

    def __post_init__(self) -> None:
        kept_text_of("name", self.name)
        text_of("time", self.time)
        if not isinstance(self.schema, pa.Schema):
            raise MuntinError(f"schema is a pyarrow.Schema, not {shown(self.schema)}")
        if self.is_kept:
            check_columns(self.schema, self.label)
        if type(self.delay) is not int:
            raise MuntinError(f"delay is a number of microseconds, not {shown(self.delay)}")
        kind = self.column(self.time).type
        if not (pa.types.is_timestamp(kind) or kind == pa.int64()):
            raise SchemaError(f"time column '{self.time}' must be TIMESTAMP or BIGINT, not {kind}")
        if self.delay < 0:
            raise SchemaError(f"the DELAY of stream '{self.name}' cannot be negative")
        if self.ahead is not None and self.ahead < 0:
            raise SchemaError(f"the AHEAD of stream '{self.name}' cannot be negative")

    def __hash__(self) -> int:
        return hash((self.name, self.time, self.delay))  # hashing the Arrow schema each time would cost more

    @property
    def label(self) -> str:
        """What errors call it."""
        return f"stream '{self.name}'"

    def column(self, name: str) -> pa.Field:
        """The field called `name`, or an error with the nearest name."""
        position = self.schema.get_field_index(name)
        if position < 0:
            raise SchemaError(f"{self.label} has no column '{name}'{nearest(name, self.schema.names)}")
        return self.schema.field(position)

    def __str__(self) -> str:
        ahead = "" if self.ahead is None else f" AHEAD {span(self.ahead)}"
        return f"{self.name} (TIMESTAMP BY {self.time} DELAY {span(self.delay)}{ahead})"
