"""CAST and TRY_CAST at the ends of every integer type: what fits is itself, and nothing else passes."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from muntin.errors import MuntinError
from muntin.sql import parse_expression

BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
BOUNDS = {name: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in BITS.items()}
BOUNDS |= {f"U{name}": (0, 2**bits - 1) for name, bits in BITS.items()}


def tried(text: str, column: pa.Array) -> list[object]:
    answers: list[object] = parse_expression(text, {"x": column.type}).evaluate({"x": column}).to_pylist()
    return answers


@pytest.mark.parametrize("name", BOUNDS)
def test_texts_at_the_ends(name: str) -> None:
    low, high = BOUNDS[name]
    texts = pa.array([str(each) for each in (low - 1, low, high, high + 1)])
    assert tried(f"TRY_CAST(x AS {name})", texts) == [None, low, high, None]


@pytest.mark.parametrize("name", [name for name in BOUNDS if BOUNDS[name][1] < 2**62])
def test_integers_at_the_ends(name: str) -> None:
    low, high = BOUNDS[name]
    column = pa.array([low - 1, low, high, high + 1, None], pa.int64())
    assert tried(f"TRY_CAST(x AS {name})", column) == [None, low, high, None, None]
    assert tried(f"CAST(x AS {name})", column.slice(1, 2)) == [low, high]
    for outside in (column.slice(0, 1), column.slice(3, 1)):
        with pytest.raises((MuntinError, pa.ArrowInvalid)):
            tried(f"CAST(x AS {name})", outside)


@pytest.mark.parametrize("name", [name for name in BOUNDS if BOUNDS[name][1] < 2**32])
def test_floats_at_the_ends(name: str) -> None:
    low, high = map(float, BOUNDS[name])
    column = pa.array([low - 1, low, high, high + 1, float("nan"), float("inf"), float("-inf")])
    assert tried(f"TRY_CAST(x AS {name})", column) == [None, low, high, None, None, None, None]


def test_a_double_that_no_bigint_holds() -> None:
    column = pa.array([2.0**63, -(2.0**63), 2.0**63 - 1024, -(2.0**63) - 2048])
    assert tried("TRY_CAST(x AS BIGINT)", column) == [None, -(2**63), 2**63 - 1024, None]


WRITTEN = {
    "BIGINT": {
        " 12 ": 12,
        "\u00a07": 7,
        "+5": 5,
        "+-5": None,
        "0x1F": 31,
        "0" * 40 + "1": 1,
        "12a": None,
        "": None,
    },
    "UBIGINT": {"-0": 0, "-1": None, "18446744073709551615": 2**64 - 1},
    "DOUBLE": {" 1e3": 1000.0, "nan(x)": math.nan, "+-5": None, "-.5": -0.5, "1e": None},
    "DECIMAL(6, 2)": {"1e3": Decimal("1000.00"), " 9.995": Decimal("10.00"), "1e9": None},
    "DATE": {
        " 2020-02-29 ": date(2020, 2, 29),
        "2020-01-31T12:00:00.5Z": date(2020, 1, 31),
        "2020-02-30": None,
    },
    "TIMESTAMP": {
        "2020-01-31T12:00:00Z": datetime(2020, 1, 31, 12),
        "2020-01-31 12": datetime(2020, 1, 31, 12),
        "2020-01-31T12:00:00+02:00": None,
        "1969-12-31 23:59:59.999999": datetime(1969, 12, 31, 23, 59, 59, 999999),
        "2020-01-31 12:00:60": None,
    },
    "TIMESTAMP_S": {"2020-01-31 12:00:00.25": datetime(2020, 1, 31, 12)},
    "TIMESTAMP_NS": {"9999-12-31": None, "2020-01-31": datetime(2020, 1, 31)},
    "TIMESTAMPTZ": {
        "2020-01-31": datetime(2020, 1, 31, tzinfo=UTC),
        "2020-01-31 12:00:00": datetime(2020, 1, 31, 12, tzinfo=UTC),
        "2020-01-31T12:00:00+02:00": datetime(2020, 1, 31, 10, tzinfo=UTC),
    },
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_a_text_becomes_does_not_depend_on_the_others(name: str) -> None:
    """In one batch with a text that is nothing, TRY_CAST goes another way than alone."""
    for written, meant in WRITTEN[name].items():
        for beside in ([], ["nothing"], ["12", "2020-01-31 10:00:00", "nothing"]):
            got = tried(f"TRY_CAST(x AS {name})", pa.array([*beside, written]))[-1]
            assert got == meant or (got != got and meant != meant), (written, beside)
        try:
            (cast,) = tried(f"CAST(x AS {name})", pa.array([written]))
        except MuntinError:
            cast = None
        assert cast == meant or (cast != cast and meant != meant), written


def test_texts_of_doubles_stay_as_they_were() -> None:
    """DuckDB writes some of them in another way; these are keys in checkpoints."""
    texts = {
        1.0: "1", 1e7: "10000000", 1e10: "1e+10", 1e16: "1e+16", 1e-4: "0.0001", 1e-5: "0.00001", 1e-7: "1e-7",
        1234.5: "1234.5", -0.0: "-0", math.inf: "inf",
    }  # fmt: skip
    for kind in (pa.float64(), pa.float32()):
        written = tried("CAST(x AS VARCHAR)", pa.array(list(texts), kind))
        assert written == list(texts.values())
