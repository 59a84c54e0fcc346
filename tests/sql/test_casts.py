"""CAST and TRY_CAST at the ends of every integer type: what fits is itself, and nothing else passes."""

from __future__ import annotations

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
