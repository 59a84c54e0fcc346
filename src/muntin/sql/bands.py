"""Which predicates are bands: comparisons of one attribute with constants, and conjunctions of them.

Found while terms are built, when types are known: the ends follow from how the comparison converts its
sides, so a band passes exactly what the predicate does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from muntin.band import GREATEST, LEAST, narrowed, sort_key
from muntin.sql.term import Term

_DAY = 86_400_000_000
Ends = tuple[int, int]


class TermBand(NamedTuple):
    """Low and high end as sort keys of the attribute; `tree` is the attribute's."""

    attribute: Term
    tree: exp.Expr
    low: int
    high: int


def compared(tree: exp.Expr, attribute: Term, symbol: str, constant: Term) -> TermBand | None:
    """The band of `attribute symbol constant`; the constant has been converted to their common type."""
    ends = _ENDS.get(symbol)
    value = _number(constant)
    key_of = _keys_as(attribute.type, constant.type)
    if ends is None or value is None or key_of is None:
        return None
    low, high = ends(value)
    if key_of is not _itself:
        low, high = _first_from(key_of, low), _first_from(key_of, high + 1) - 1
    return TermBand(attribute, tree, *narrowed(low, high))


def between(tree: exp.Expr, attribute: Term, low: Term, high: Term) -> TermBand | None:
    """The band of `attribute BETWEEN low AND high`."""
    return conjunction([compared(tree, attribute, ">=", low), compared(tree, attribute, "<=", high)])


def conjunction(bands: Sequence[TermBand | None]) -> TermBand | None:
    """The band that all of them make up, if all are bands of one attribute."""
    found = [band for band in bands if band is not None]
    if len(found) < len(bands) or len({band.attribute.sql for band in found}) != 1:
        return None
    ends = narrowed(max(band.low for band in found), min(band.high for band in found))
    return TermBand(found[0].attribute, found[0].tree, *ends)


def _number(constant: Term) -> int | None:
    """The sort key of a constant; None if it is no number or time, or NULL."""
    value = constant.constant
    if value is None or not value.is_valid or not _has_keys(constant.type):
        return None
    if pa.types.is_temporal(value.type):
        return int(value.value)
    return sort_key(value.as_py())


def _has_keys(kind: pa.DataType) -> bool:
    """Whether values of a type are kept in a way that their sort keys can be told."""
    is_ = pa.types
    if is_.is_integer(kind):
        return not is_.is_uint64(kind)
    return bool(is_.is_floating(kind) or is_.is_timestamp(kind) or is_.is_date32(kind))


_ENDS: dict[str, Callable[[int], Ends]] = {
    "=": lambda key: (key, key),
    "<": lambda key: (LEAST, key - 1),
    "<=": lambda key: (LEAST, key),
    ">": lambda key: (key + 1, GREATEST),
    ">=": lambda key: (key, GREATEST),
}


def _itself(key: int) -> int:
    return key


def _rounded(key: int) -> int:
    """Of an integer compared as a DOUBLE, which rounds large ones."""
    return sort_key(float(key))


def _midnight(key: int) -> int:
    """Of a date compared as a timestamp."""
    return key * _DAY


def _keys_as(attribute: pa.DataType, common: pa.DataType) -> Callable[[int], int] | None:
    """From the attribute's sort keys to those of the type in which it is compared; ascending."""
    is_ = pa.types
    if not _has_keys(attribute):
        return None
    if attribute == common or (is_.is_floating(attribute) and is_.is_floating(common)):
        return _itself
    if is_.is_integer(attribute):
        return _itself if is_.is_integer(common) else _rounded
    if is_.is_date32(attribute) and common == pa.timestamp("us"):
        return _midnight
    return None


def _first_from(key_of: Callable[[int], int], bound: int) -> int:
    """The least key whose image is `bound` or more; one past the greatest if there is none."""
    low, high = LEAST, GREATEST + 1
    while low < high:
        middle = (low + high) // 2
        if key_of(middle) < bound:
            low = middle + 1
        else:
            high = middle
    return low
