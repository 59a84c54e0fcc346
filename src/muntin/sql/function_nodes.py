"""Functions of one row that sqlglot's base language lacks, or whose arguments it reads otherwise than DuckDB."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp


class RegexpMatches(exp.Expression, exp.Func):
    """Whether a pattern is found in a text."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True, "options": False}


class RegexpExtract(exp.Expression, exp.Func):
    """What a pattern, or a group of it, matches first."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True, "expression": True, "group": False, "options": False,
    }  # fmt: skip


class SplitPart(exp.Expression, exp.Func):
    """One of the parts of a text between separators."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True, "number": True}


class Replace(exp.Expression, exp.Func):
    """A text with every occurrence of a part replaced."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True, "replacement": True}


class Left(exp.Expression, exp.Func):
    """The first characters of a text."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class Right(exp.Expression, exp.Func):
    """The last characters of a text."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class Log(exp.Expression, exp.Func):
    """LOG(x), to base 10; LOG(base, x)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": False}


class Xor(exp.Expression, exp.Func):
    """The bits in which two numbers differ. `^` would be a power in some systems."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class TimeBucket(exp.Expression, exp.Func):
    """The beginning of the bucket, of a length of time, in which a time lies."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True, "origin": False}


# What composed aggregates are made of (`comoment.py`); a name that begins with $ is in no text.


class Paired(exp.Expression, exp.Func):
    """A value where another one is not NULL."""

    _sql_names: ClassVar[list[str]] = ["$PAIRED"]
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class ProductRest(exp.Expression, exp.Func):
    """What the rounding of a product has lost."""

    _sql_names: ClassVar[list[str]] = ["$PRODUCT_REST"]
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class Comoment(exp.Expression, exp.Func):
    """Of a count, and sums in two parts each: x, y, their products, what these have lost."""

    _sql_names: ClassVar[list[str]] = ["$COMOMENT"]
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": True}
    is_var_len_args = True


# What SUM and AVG of decimals are made of (`decimals.py`).


class DecimalSum(exp.Expression, exp.Func):
    """Of the total and the shadow of a sum of integers, and the scale."""

    _sql_names: ClassVar[list[str]] = ["$DECIMAL_SUM"]
    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}
    is_var_len_args = True


class DecimalMean(exp.Expression, exp.Func):
    """Of the same, with the number of values."""

    _sql_names: ClassVar[list[str]] = ["$DECIMAL_MEAN"]
    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}
    is_var_len_args = True


class Clipped(exp.Expression, exp.Func):
    """A number, held to what a correlation can be."""

    _sql_names: ClassVar[list[str]] = ["$CLIPPED"]
    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Pair(exp.Expression, exp.Func):
    """A value with another one that it is compared by; the `order` is max or min."""

    _sql_names: ClassVar[list[str]] = ["$PAIR"]
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True, "order": True}


class Hash(exp.Expression, exp.Func):
    """A hash of a value, as an integer of 64 bits."""

    _sql_names: ClassVar[list[str]] = ["$HASH"]
    arg_types: ClassVar[dict[str, bool]] = {"this": True}


OWN_FUNCTIONS: tuple[type[exp.Func], ...] = (
    RegexpMatches, RegexpExtract, SplitPart, Replace, Left, Right, Log, Xor, TimeBucket, Paired, ProductRest, Comoment,
    DecimalSum, DecimalMean,
    Clipped, Pair, Hash,
)  # fmt: skip
