"""SQL's names for Arrow's types, both ways."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from muntin.errors import nearest
from muntin.fixed_point import MOST_DIGITS, WIDEST, is_decimal, is_kept
from muntin.sql.place import misfit

_INSTANT = pa.timestamp("us")
_TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(),
    "BIGINT": pa.int64(), "UTINYINT": pa.uint8(), "USMALLINT": pa.uint16(), "UINT": pa.uint32(),
    "UBIGINT": pa.uint64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "VARCHAR": pa.string(),
    "TEXT": pa.string(), "CHAR": pa.string(),
    "TIMESTAMP": _INSTANT, "TIMESTAMPNTZ": _INSTANT, "DATETIME": _INSTANT, "DATE": pa.date32(),
    "TIMESTAMPTZ": pa.timestamp("us", tz="UTC"), "TIMESTAMP_S": pa.timestamp("s"),
    "TIMESTAMP_MS": pa.timestamp("ms"), "TIMESTAMP_NS": pa.timestamp("ns"), "INTERVAL": pa.duration("us"),
}  # fmt: skip
_ELSEWHERE = {
    "TIME": "BIGINT, or TIMESTAMP for an instant", "UUID": "VARCHAR", "BLOB": "VARCHAR", "VARBINARY": "VARCHAR",
    "FLOAT64": "DOUBLE", "FLOAT32": "REAL", "INT128": "BIGINT", "HUGEINT": "BIGINT", "NUMBER": "BIGINT or DOUBLE",
    "MONEY": "DECIMAL(18, 2)",
}  # fmt: skip
_OFFERED = (
    "BOOLEAN",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "REAL",
    "DOUBLE",
    "DECIMAL",
    "VARCHAR",
    "TIMESTAMP",
    "DATE",
)
_DECIMAL = pa.decimal128(18, 3)  # as in DuckDB, without sizes
_NAMES = {kind: name for name, kind in reversed(_TYPES.items())} | {
    pa.int32(): "INTEGER", pa.uint32(): "UINTEGER", pa.float32(): "REAL", pa.string(): "VARCHAR", _INSTANT: "TIMESTAMP",
    pa.null(): "NULL",
}  # fmt: skip


def arrow_type(node: exp.Expr) -> pa.DataType:
    """The Arrow type a declaration or CAST names; a fault with the nearest name if there is none.

    >>> arrow_type(exp.DataType.build("BIGINT"))
    DataType(int64)
    """
    kind = node.this if isinstance(node, exp.DataType) else None
    name = kind.name if isinstance(kind, exp.DataType.Type) else str(node)
    has_size = bool(node.args.get("expressions"))
    if name in ("ARRAY", "LIST", "MAP", "STRUCT", "OBJECT", "JSON", "VARIANT"):
        raise misfit(
            node, f"{written_type(name)} is not supported: a column has one value; declare a column for each"
        )
    if name == "DECIMAL":
        return _decimal(node)
    if name in _TYPES and (not has_size or _TYPES[name] == pa.string()):
        return _TYPES[name]
    written = str(node.args.get("kind") or name).upper()
    if has_size:
        raise misfit(node, f"type {written} takes no size here; write {written}")
    raise misfit(node, unknown_type(written))


def column_type(node: exp.Expr) -> pa.DataType:
    """The same for a column, whose values are kept."""
    kind = arrow_type(node)
    if is_decimal(kind) and not is_kept(kind):
        raise misfit(
            node, f"a column has at most {MOST_DIGITS} digits: write DECIMAL({MOST_DIGITS}, {kind.scale})"
        )
    return kind


def _decimal(node: exp.Expr) -> pa.DataType:
    sizes = [each.this for each in node.args.get("expressions") or ()]
    if not sizes:
        return _DECIMAL
    if len(sizes) > 2 or not all(isinstance(each, exp.Literal) and each.name.isdigit() for each in sizes):
        raise misfit(
            node,
            "DECIMAL takes a number of digits, and how many of them stand after the point: DECIMAL(12, 2)",
        )
    digits, scale = int(sizes[0].name), int(sizes[1].name) if len(sizes) > 1 else 0
    if not 1 <= digits <= WIDEST or scale > digits:
        raise misfit(
            node,
            f"DECIMAL({digits}, {scale}) is none: of 1 to {WIDEST} digits, all or some may stand after the point",
        )
    return pa.decimal128(digits, scale)


def written_type(name: str) -> str:
    return "an array" if name in ("ARRAY", "LIST") else name


def unknown_type(name: str) -> str:
    """What to say about a name that is no type."""
    if (meant := _ELSEWHERE.get(name.upper())) is not None:
        return f"unknown type '{name}'; use {meant}"
    return f"unknown type '{name}'{nearest(name.upper(), _OFFERED)}"


def type_name(kind: pa.DataType) -> str:
    """What SQL calls an Arrow type, for errors and canonical text.

    >>> type_name(pa.float64()), type_name(pa.duration("us"))
    ('DOUBLE', 'INTERVAL')
    """
    if pa.types.is_duration(kind):
        return "INTERVAL"
    if is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return _NAMES.get(kind) or ("TIMESTAMP" if pa.types.is_timestamp(kind) else str(kind).upper())
