"""A lane: the events of which some attributes have given values, as `WHERE symbol = 'IBM'` asks for.

Queries that compare the same attributes with constants share one store, whose keys are those of the queries and the
attributes. Each query reads its own lanes of that store; events of lanes that nobody asks for are dropped first.

One more attribute may be *banded*: `WHERE category = 'fuel' AND amount > 50` asks for a range of `amount`. The ends of
all ranges that queries ask for are *cuts* of its axis. What lies between two neighbouring cuts is a *band*, and the
store has a key more: the band of an event. A query reads the bands inside its range.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from muntin.band import sort_value
from muntin.expression import Columns, Expression, not_written
from muntin.fixed_point import decimal_of
from muntin.passing import Range, domain_of

# For each attribute a sort key (`band.py`) or a text, None for NULL; and last, if one is banded, a `Range` of it.
Lane = tuple[Any, ...]


class Asked(Expression):
    """The filter of a store with lanes: the attributes have values that some query asks for, the value of `banded` lies
    in a range that it asks for, if there is such an attribute, and all of `rest` is true.

    Which lanes are asked for, the shard knows (`shard/lanes.py`): they come and go with queries. `keys` are those of
    the queries: the lanes that are asked for per account are not those that are asked for without keys.
    """

    attributes: tuple[Expression, ...]
    rest: tuple[Expression, ...]
    keys: tuple[Expression, ...]
    banded: Expression | None
    ends: tuple[Expression, ...]  # of the band of an event, as keys of the store; none if nothing is banded

    def __init__(
        self,
        attributes: tuple[Expression, ...],
        rest: tuple[Expression, ...],
        keys: tuple[Expression, ...],
        banded: Expression | None = None,
    ):
        ranges = () if banded is None else (banded,)
        conditions = [
            *(f"{each} = ?" for each in attributes),
            *(f"{each} BETWEEN ? AND ?" for each in ranges),
            *(f"({each})" for each in rest),
        ]
        per = f" PER {', '.join(map(str, keys))}" if keys else ""
        read = {name for each in (*attributes, *ranges, *rest) for name in each.columns}
        sql = " AND ".join(conditions) + per
        self.__dict__.update(
            sql=sql,
            type=pa.bool_(),
            columns=tuple(sorted(read)),
            evaluate=_depends_on_queries,
            written=None,
            band=None,
            understand=None,
            attributes=attributes,
            rest=rest,
            keys=keys,
            banded=banded,
            ends=tuple(_end(which, each, sql) for each in ranges for which in ("least", "greatest")),
        )

    @property
    def indexed(self) -> tuple[Expression, ...]:
        """What must be known of an event to find its lane."""
        return self.attributes if self.banded is None else (*self.attributes, self.banded)

    @property
    def store_keys(self) -> tuple[Expression, ...]:
        """The keys of the store: those of the queries, then the attributes, then the ends of a band."""
        return (*self.keys, *self.attributes, *self.ends)


def _end(which: str, banded: Expression, where: str) -> Expression:
    """An end of the band that an event is in, as a sort key. Stores with other filters have other cuts."""
    text = f"{which} of the band of {banded} where {where}"
    return Expression(text, pa.int64(), banded.columns, _depends_on_queries, not_written)


def _depends_on_queries(columns: Columns) -> pa.Array:
    raise AssertionError("what passes depends on the lanes that queries ask for")


class Laned(NamedTuple):
    """What a query with lanes reads: which lanes of which store."""

    asked: Asked
    lanes: tuple[Lane, ...]

    @property
    def range(self) -> Range | None:
        """The range of the banded attribute, the same in all lanes; None if no attribute is banded."""
        found: Range | None = None if self.asked.banded is None else self.lanes[0][-1]
        return found

    @property
    def way(self) -> str | None:
        """Whether a range is all that lies above its cut (`up`) or below it (`down`); None if neither."""
        if self.range is None or self.asked.banded is None:
            return None
        least, greatest = domain_of(self.asked.banded.type)
        return "up" if self.range[1] == greatest else "down" if self.range[0] == least else None


def columns_of_lanes(asked: Asked, lanes: Sequence[Lane]) -> list[pa.Array]:
    """The values of lanes, a column for each attribute."""
    return [
        _values([lane[number] for lane in lanes], each.type) for number, each in enumerate(asked.attributes)
    ]


def _values(points: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The values with given sort keys; texts are themselves.

    >>> _values([0, None, 1], pa.bool_()).to_pylist(), _values([5], pa.date32()).to_pylist()
    ([False, None, True], [datetime.date(1970, 1, 6)])
    """
    if pa.types.is_boolean(kind):
        return pa.array([None if each is None else bool(each) for each in points], kind)
    if pa.types.is_floating(kind):
        return pa.array([None if each is None else sort_value(each) + 0.0 for each in points], kind)
    if pa.types.is_temporal(kind):
        keys = pa.array(points, pa.int32() if kind.bit_width == 32 else pa.int64())
        return keys.view(kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if each is None else decimal_of(each, kind.scale) for each in points], kind)
    return pa.array(points, kind)


def can_be(point: Any, kind: pa.DataType) -> bool:
    """Whether a value of a type has a sort key: REAL has fewer values than DOUBLE has keys."""
    if point is None or not pa.types.is_float32(kind):
        return True
    value = sort_value(point)
    return value != value or struct.unpack("<f", struct.pack("<f", value))[0] == value
