"""Described: plain data that came from outside, as JSON, compared with what it must look like before it is used.

A shape is plain data too: a type, `Between` two numbers, `Maybe` (or None), `[shape]` for a list, a tuple for a list
of that length, `Each(shape)` for names with values, and a dict for fields, of which `Absent` ones may be missing.
Fields that no shape knows are left alone: a later version may have more.

    CLOCK = {"delay": Between(0, 10), "first": Maybe(int)}
"""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

LONGEST = 2**62


class Misshapen(ValueError):
    """Data that does not look as it must; says where."""


class Between(NamedTuple):
    """A whole number within bounds, both of which count."""

    low: int
    high: int


class Maybe(NamedTuple):
    """Of this shape, or None."""

    shape: Any


class Each(NamedTuple):
    """Names with values of one shape."""

    shape: Any


class Absent(NamedTuple):
    """A field that may be missing: what wrote the data may not have known of it."""

    shape: Any


WHOLE = Between(-LONGEST - 2**60, LONGEST)  # instants too: long ago, less what windows and slides take off it
COUNT = Between(0, LONGEST)


def check_shape(value: Any, shape: Any, place: str) -> None:
    """
    >>> check_shape({"first": None, "sizes": [3]}, {"first": Maybe(WHOLE), "sizes": [COUNT]}, "clock")
    >>> check_shape({"sizes": [3, -1]}, {"sizes": [COUNT]}, "clock")
    Traceback (most recent call last):
    muntin.described.Misshapen: clock.sizes[1] is -1, which does not lie between 0 and 4611686018427387904
    """
    if isinstance(shape, Between):
        if type(value) is not int:
            raise Misshapen(f"{place} is no whole number")
        if not shape.low <= value <= shape.high:
            raise Misshapen(f"{place} is {value}, which does not lie between {shape.low} and {shape.high}")
    elif isinstance(shape, Maybe):
        if value is not None:
            check_shape(value, shape.shape, place)
    elif isinstance(shape, Absent):
        check_shape(value, shape.shape, place)
    elif isinstance(shape, Each):
        for name, each in _a(dict, value, place).items():
            check_shape(each, shape.shape, f"{place}.{name}")
    elif isinstance(shape, dict):
        _check_fields(_a(dict, value, place), shape, place)
    elif isinstance(shape, list):
        for number, each in enumerate(_a(list, value, place)):
            check_shape(each, shape[0], f"{place}[{number}]")
    elif isinstance(shape, tuple):
        if len(_a(list, value, place)) != len(shape):
            raise Misshapen(f"{place} has {len(value)} elements instead of {len(shape)}")
        for number, (each, wanted) in enumerate(zip(value, shape, strict=True)):
            check_shape(each, wanted, f"{place}[{number}]")
    elif shape is float:
        if type(value) not in (int, float) or not isfinite(value):
            raise Misshapen(f"{place} is no number")
    else:
        _a(shape, value, place)


def _check_fields(value: dict[str, Any], shape: dict[str, Any], place: str) -> None:
    for name, each in shape.items():
        if name in value:
            check_shape(value[name], each, f"{place}.{name}")
        elif not isinstance(each, Absent):
            raise Misshapen(f"{place} has no '{name}'")


def _a(kind: type, value: Any, place: str) -> Any:
    if type(value) is not kind:
        raise Misshapen(f"{place} is no {kind.__name__}, but {value!r:.40}")
    return value
