"""A passing set: the values of one attribute that a condition lets pass, and whether NULL passes.

Numbers, times and booleans are kept as ranges of *sort keys* (`band.py`), texts one by one. Equal sets have equal
contents, so passing sets can be compared, hashed and used as keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import inf, isfinite, isnan, nan
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from muntin.band import GREATEST, LEAST, sort_key, sort_keys, sort_value
from muntin.fixed_point import decimal_of, numbers_of

Range = tuple[int, int]  # of sort keys; both ends belong to it
_MOST_POINTS = 1024


class Passing(ABC):
    """A set of values of one type. `a & b`, `a | b` and `~a` are those of sets, with NULL as one more value."""

    has_null: bool  # whether NULL passes

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether nothing passes, not even NULL."""

    @property
    @abstractmethod
    def is_everything(self) -> bool:
        """Whether all values pass, and NULL."""

    @property
    @abstractmethod
    def known(self) -> Passing:
        """The same set without NULL."""

    @abstractmethod
    def __and__(self, other: Passing) -> Passing: ...

    @abstractmethod
    def __or__(self, other: Passing) -> Passing: ...

    @abstractmethod
    def __invert__(self) -> Passing: ...

    @property
    def complement(self) -> Passing:
        """The values that do not pass; NULL is not among them, whether it passes or not."""
        return (~self).known

    def points(self, most: int = _MOST_POINTS) -> tuple[Any, ...] | None:
        """The sort keys or texts that pass, ascending, if these are at most so many; else None. NULL is not counted."""
        return None

    @property
    def band(self) -> Range | None:
        """The ends, as sort keys, if exactly the values between two ends pass; else None."""
        return None

    def passes(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        """Which of some values pass; O(values) for each range."""
        passing = self._passing(values)
        if not values.null_count:
            return passing
        return np.where(np.asarray(values.is_valid()), passing, self.has_null)

    @abstractmethod
    def _passing(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        """Which of some values pass; where a value is NULL, anything."""


@dataclass(frozen=True, slots=True)
class PassingKeys(Passing):
    """Ranges of sort keys: ascending, within the domain, and with a value between any two that does not pass.

    Make one with `between` or `PassingKeys.at`, which bring ranges into this form.
    """

    ranges: tuple[Range, ...]
    has_null: bool
    domain: Range  # the least and the greatest sort key that a value of the type can have

    @classmethod
    def at(cls, ranges: Iterable[Range], kind: pa.DataType, has_null: bool = False) -> PassingKeys:
        """What lies in one of some ranges, which may overlap, be empty, and reach beyond the values of the type.

        >>> PassingKeys.at([(5, 9), (1, 2), (3, 3), (8, 7)], pa.int64()).ranges
        ((1, 3), (5, 9))
        >>> PassingKeys.at([(100, 300)], pa.int8()).ranges
        ((100, 127),)
        """
        domain = domain_of(kind)
        return cls(_merged(ranges, domain), has_null, domain)

    @classmethod
    def between(cls, low: int, high: int, kind: pa.DataType) -> PassingKeys:
        """What lies between two sort keys of a type, both included."""
        domain = domain_of(kind)
        low, high = _clipped(low, high, domain)
        return cls(((low, high),) if low <= high else (), False, domain)

    @property
    def is_empty(self) -> bool:
        return not self.ranges and not self.has_null

    @property
    def is_everything(self) -> bool:
        return self.has_null and self.ranges == (self.domain,)

    @property
    def known(self) -> PassingKeys:
        return PassingKeys(self.ranges, False, self.domain)

    def __and__(self, other: Passing) -> PassingKeys:
        """
        >>> near, far = PassingKeys.at([(1, 4), (8, 9)], pa.int64()), PassingKeys.between(3, 8, pa.int64())
        >>> (near & far).ranges, (near | far).ranges
        (((3, 4), (8, 8)), ((1, 9),))
        """
        assert isinstance(other, PassingKeys)
        found: list[Range] = []
        mine, theirs = iter(self.ranges), iter(other.ranges)
        one, two = next(mine, None), next(theirs, None)
        while one is not None and two is not None:
            low, high = max(one[0], two[0]), min(one[1], two[1])
            if low <= high:
                found.append((low, high))
            if one[1] < two[1]:
                one = next(mine, None)
            else:
                two = next(theirs, None)
        return PassingKeys(tuple(found), self.has_null and other.has_null, self.domain)

    def __or__(self, other: Passing) -> PassingKeys:
        assert isinstance(other, PassingKeys)
        ranges = _merged((*self.ranges, *other.ranges), self.domain)
        return PassingKeys(ranges, self.has_null or other.has_null, self.domain)

    def __invert__(self) -> PassingKeys:
        """
        >>> (~PassingKeys.between(3, 3, pa.int8())).ranges
        ((-128, 2), (4, 127))
        """
        lows = [self.domain[0], *(high + 1 for _, high in self.ranges)]
        highs = [*(low - 1 for low, _ in self.ranges), self.domain[1]]
        gaps = _merged(zip(lows, highs, strict=True), self.domain)
        return PassingKeys(gaps, not self.has_null, self.domain)

    def _passing(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        keys, found = _keys_of(values), np.zeros(len(values), np.bool_)
        for low, high in self.ranges:
            found |= (keys >= low) & (keys <= high)
        return found

    def points(self, most: int = _MOST_POINTS) -> tuple[int, ...] | None:
        """
        >>> PassingKeys.at([(1, 3), (7, 7)], pa.int64()).points()
        (1, 2, 3, 7)
        """
        if sum(high - low + 1 for low, high in self.ranges) > most:
            return None
        return tuple(key for low, high in self.ranges for key in range(low, high + 1))

    @property
    def band(self) -> Range | None:
        return self.ranges[0] if len(self.ranges) == 1 and not self.has_null else None


_FLOATS = sort_key(-inf), sort_key(nan)  # the domain of REAL and DOUBLE
_NO_FLOATS = (
    (-1, -1),
    (sort_key(inf) + 1, sort_key(nan) - 1),
)  # keys that no float has: -0.0 is 0.0, NaN is one value


def _clipped(low: int, high: int, domain: Range) -> Range:
    """The part of a range that lies in a domain, with ends that values can have."""
    low, high = max(low, domain[0]), min(high, domain[1])
    if domain == _FLOATS:
        for first, last in _NO_FLOATS:
            if first <= low <= last:
                low = last + 1
            if first <= high <= last:
                high = first - 1
    return low, high


def _next(key: int, domain: Range) -> int:
    """The least key after another that a value can have."""
    return _clipped(key + 1, GREATEST, domain)[0]


def _merged(ranges: Iterable[Range], domain: Range) -> tuple[Range, ...]:
    found: list[Range] = []
    for low, high in sorted(ranges):
        low, high = _clipped(low, high, domain)
        if low > high:
            continue
        if found and low <= _next(found[-1][1], domain):
            if high > found[-1][1]:
                found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return tuple(found)


@lru_cache(maxsize=256)
def domain_of(kind: pa.DataType) -> Range:
    """The least and the greatest sort key that a value of a type can have."""
    is_ = pa.types
    if is_.is_boolean(kind):
        return 0, 1
    if is_.is_floating(kind):
        return _FLOATS
    if is_.is_unsigned_integer(kind) and kind.bit_width < 64:
        return 0, int(2**kind.bit_width) - 1
    if is_.is_integer(kind) or is_.is_date32(kind):
        return -int(2 ** (kind.bit_width - 1)), int(2 ** (kind.bit_width - 1)) - 1
    if is_.is_decimal(kind):
        return 1 - int(10**kind.precision), int(10**kind.precision) - 1
    return LEAST, GREATEST


@dataclass(frozen=True, slots=True)
class PassingTexts(Passing):
    """Some texts, or all texts but some."""

    texts: frozenset[str]
    has_null: bool = False
    is_all_but: bool = False  # whether `texts` are those that do not pass

    @property
    def is_empty(self) -> bool:
        return not self.texts and not self.is_all_but and not self.has_null

    @property
    def is_everything(self) -> bool:
        return self.has_null and self.is_all_but and not self.texts

    @property
    def known(self) -> PassingTexts:
        return PassingTexts(self.texts, False, self.is_all_but)

    def __and__(self, other: Passing) -> PassingTexts:
        """
        >>> few, many = PassingTexts(frozenset("ab")), PassingTexts(frozenset("b"), is_all_but=True)
        >>> (few & many).points(), (few | many).complement.points()
        (('a',), ())
        """
        assert isinstance(other, PassingTexts)
        has_null = self.has_null and other.has_null
        if self.is_all_but and other.is_all_but:
            return PassingTexts(self.texts | other.texts, has_null, True)
        if self.is_all_but:
            return PassingTexts(other.texts - self.texts, has_null)
        return PassingTexts(
            self.texts - other.texts if other.is_all_but else self.texts & other.texts, has_null
        )

    def __or__(self, other: Passing) -> PassingTexts:
        return ~(~self & ~other)

    def __invert__(self) -> PassingTexts:
        return PassingTexts(self.texts, not self.has_null, not self.is_all_but)

    def _passing(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        found = np.asarray(pc.is_in(values, pa.array(sorted(self.texts), values.type)))
        return ~found if self.is_all_but else found

    def points(self, most: int = _MOST_POINTS) -> tuple[str, ...] | None:
        return None if self.is_all_but or len(self.texts) > most else tuple(sorted(self.texts))


def _keys_of(values: pa.Array) -> npt.NDArray[np.int64]:
    """The sort keys of values; of NULL, anything."""
    kind, values = values.type, numbers_of(values)
    numbers = np.asarray(values.fill_null(0) if values.null_count else values)
    return sort_keys(numbers.astype(np.float64 if pa.types.is_floating(kind) else np.int64, copy=False))


def union(sets: Sequence[Passing]) -> Passing:
    """What passes one of some sets, which are not none."""
    if not isinstance(sets[0], PassingKeys):
        return reduce(lambda left, right: left | right, sets)
    ranges: list[Range] = []
    for each in sets:
        assert isinstance(each, PassingKeys)
        ranges += each.ranges
    domain = sets[0].domain
    return PassingKeys(_merged(ranges, domain), any(each.has_null for each in sets), domain)


def passing_text(attribute: str, kind: pa.DataType, passing: Passing) -> str:
    """`attribute` lies in a passing set, as SQL; one text for each set.

    >>> passing_text("x", pa.int64(), PassingKeys.at([(1, 1), (5, 9)], pa.int64()))
    'x = 1 OR x BETWEEN 5 AND 9'
    >>> passing_text("s", pa.string(), ~PassingTexts(frozenset("a")))
    "s <> 'a' OR s IS NULL"
    """
    if passing.is_empty:
        return "FALSE"
    if passing.is_everything:
        return "TRUE"
    if isinstance(passing, PassingTexts):
        texts = [_quoted(text) for text in sorted(passing.texts)]
        said = _few(attribute, texts, passing.is_all_but)
    else:
        assert isinstance(passing, PassingKeys)
        said = _ranges(attribute, kind, passing)
    return " OR ".join([*said, f"{attribute} IS NULL"] if passing.has_null else said)


def _few(attribute: str, values: list[str], is_all_but: bool) -> list[str]:
    if not values:
        return [f"{attribute} IS NOT NULL"] if is_all_but else []
    if len(values) == 1:
        return [f"{attribute} {'<>' if is_all_but else '='} {values[0]}"]
    return [f"{attribute} {'NOT IN' if is_all_but else 'IN'} ({', '.join(values)})"]


def _ranges(attribute: str, kind: pa.DataType, passing: PassingKeys) -> list[str]:
    gaps = passing.complement
    assert isinstance(gaps, PassingKeys)
    if len(gaps.ranges) < len(passing.ranges) or not gaps.ranges:
        missing = gaps.points(len(gaps.ranges))
        if missing is not None:
            return _few(attribute, [_value(key, kind) for key in missing], True)
    single = [_value(low, kind) for low, high in passing.ranges if low == high]
    wider = [_range(attribute, kind, each, passing.domain) for each in passing.ranges if each[0] < each[1]]
    return _few(attribute, single, False) + wider


def _range(attribute: str, kind: pa.DataType, ends: Range, domain: Range) -> str:
    low, high = ends
    if low == domain[0]:
        return f"{attribute} {_end('<', high, high + 1, kind)}"
    above = _end(">", low, low - 1, kind)
    if high == domain[1]:
        return f"{attribute} {above}"
    below = _end("<", high, high + 1, kind)
    if above.startswith(">=") and below.startswith("<="):
        return f"{attribute} BETWEEN {_value(low, kind)} AND {_value(high, kind)}"
    return f"{attribute} {above} AND {attribute} {below}"


def _end(symbol: str, key: int, beyond: int, kind: pa.DataType) -> str:
    """One end of a range; `beyond` is the key that just does not belong to it. Of floats, the shorter one is written:
    `> 0.1` instead of `>= 0.10000000000000002`."""
    if pa.types.is_floating(kind) and len(_value(beyond, kind)) < len(_value(key, kind)):
        return f"{symbol} {_value(beyond, kind)}"
    return f"{symbol}= {_value(key, kind)}"


def _value(key: int, kind: pa.DataType) -> str:
    """The value with a sort key, as SQL."""
    if pa.types.is_boolean(kind):
        return "TRUE" if key else "FALSE"
    if pa.types.is_floating(kind):
        number = sort_value(key) + 0.0
        if isfinite(number):
            return repr(number)
        return f"CAST('{'NaN' if isnan(number) else 'inf' if number > 0 else '-inf'}' AS DOUBLE)"
    if pa.types.is_temporal(kind):
        word = "DATE" if pa.types.is_date(kind) else "TIMESTAMP"
        return f"{word} '{pc.cast(pa.scalar(key, kind), pa.string()).as_py()}'"
    if pa.types.is_decimal(kind):
        return f"{decimal_of(key, kind.scale):f}"
    return str(key)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
