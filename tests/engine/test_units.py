"""Integers that are instants of our time in another unit do not pass unnoticed, wherever times can be given."""

from __future__ import annotations

import warnings
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import Engine, MuntinError

NOW = datetime(2024, 5, 1)
COUNTS = {"s": 1_714_521_600, "ms": 1_714_521_600_000, "us": 1_714_521_600_000_000}
FORMS = {
    "list": list, "int64": lambda values: np.array(values, np.int64),
    "uint64": lambda values: np.array(values, np.uint64),
    "arrow": lambda values: pa.array(values), "with nulls": lambda values: pa.array([*values]),
}  # fmt: skip
names = iter(f"s{number}" for number in range(10_000))


def engine_of(kind: str = "TIMESTAMP") -> tuple[Engine, str]:
    engine, name = Engine(), next(names)
    engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, u {kind}) TIMESTAMP BY ts")
    engine.register(f"SELECT COUNT(*) AS n, MAX(u) AS u FROM {name} [RANGE 1 HOUR]", "q")
    return engine, name


@pytest.mark.parametrize("unit", COUNTS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("column", ["ts", "u"])
def test_push(column: str, form: str, unit: str) -> None:
    """Seconds and milliseconds are named, once; microseconds and the seconds of 1970 are what they are."""
    engine, name = engine_of()
    batch: dict[str, Any] = {"ts": [NOW, NOW], "u": [NOW, NOW]}
    batch[column] = FORMS[form]([COUNTS[unit]] * 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        engine.push(name, batch)
        engine.push(name, batch)
    said = [str(each.message) for each in caught]
    if unit == "us":
        assert said == []
        return
    (message,) = said
    assert f"column '{column}' of stream '{name}'" in message
    assert f"the integer {COUNTS[unit]} is read as microseconds since 1970, which is 1970-01" in message
    assert f"pyarrow.timestamp('{unit}')" in message


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_declared_unit(unit: str) -> None:
    """A column that is declared in the unit takes its integers."""
    engine, name = engine_of(f"TIMESTAMP_{unit.upper()}")
    count = {**COUNTS, "ns": COUNTS["us"] * 1000}[unit]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.push(name, {"ts": [NOW], "u": [count]})
        engine.push(name, {"ts": [0, 5_000_000], "u": [count, count]})
    assert engine.lookup("q")["u"].to_pylist()[0] == NOW


def test_streams_about_1970() -> None:
    """Small integers are microseconds, as in tests."""
    engine, name = engine_of()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.push(name, {"ts": [0, 1_000_000], "u": [0, None]})
        engine.push(name, {"ts": [2_000_000_000], "u": [3_000_000_000]})
    assert engine.lookup("q", at=2_000_000_001)["n"].to_pylist() == [3]


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_instants(unit: str) -> None:
    """`at` and `until` beside events of our time."""
    engine, name = engine_of()
    engine.push(name, {"ts": [NOW], "u": [NOW]})
    for ask in (
        lambda at: engine.lookup("q", at=at),
        lambda at: engine.value("q", at=at),
        lambda at: engine.lookup_many(["q"], at=at),
        lambda at: engine.advance(at),
    ):
        for number in (COUNTS[unit], np.int64(COUNTS[unit])):
            with pytest.raises(
                MuntinError, match="integers are microseconds since 1970, and this one seems to count"
            ):
                ask(number)
    assert engine.value("q", at=COUNTS["us"] + 1) == 1
