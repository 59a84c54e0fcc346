"""An aggregate with components of its own is added as CONTRIBUTING says, and every structure answers it."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import muntin
from effort import THOROUGH, every_second
from muntin.aggregate import AGGREGATES
from muntin.aggregate.component import COMPONENTS, Component
from muntin.aggregate.contract import Aggregate, Lowered, Partials
from muntin.component.rules import INT, Numbers, Rules, rule

# Step 1: the rules of the components. `bits` can be subtracted; `product`, modulo 2**64, has two arrays.


class Bits(NamedTuple):
    value: Any

    @staticmethod
    def lift(value: Any, at: Any) -> Numbers:
        return (value,)

    @staticmethod
    def combine(left: Numbers, right: Numbers) -> Numbers:
        return (left[0] ^ right[0],)

    @staticmethod
    def subtract(whole: Numbers, part: Numbers) -> Numbers:
        return (whole[0] ^ part[0],)


class Products(NamedTuple):
    odds: Any  # the product of the odd values
    evens: Any  # how many values are even

    @staticmethod
    def lift(value: Any, at: Any) -> Numbers:
        return (value, 0) if is_odd(value) else (1, 1)

    @staticmethod
    def combine(left: Numbers, right: Numbers) -> Numbers:
        return left[0] * right[0], left[1] + right[1]


@rule
def is_odd(value: Any) -> Any:
    return value & 1 == 1


BITS = Rules("bits", Bits, Bits, lambda _: ((INT, 0),), lifts_columns=True)
PRODUCT = Rules("product", Products, Products, lambda _: ((INT, 1), (INT, 0)))


# Step 3: the aggregates.


class BitXor(Aggregate):
    """NULL over nothing."""

    name = "bit_xor"
    components = ("count", "bits")

    def answer_type(self, argument: pa.DataType | None) -> pa.DataType:
        if argument is None or not pa.types.is_integer(argument):
            raise TypeError("takes an integer")
        return pa.int64()

    def lower(self, partials: Partials) -> Lowered:
        (count,) = partials["count"]
        return Lowered(partials[self.components[1]][0], count > 0)


class Product(BitXor):
    """The product of the odd values, plus the number of the others."""

    name = "odd_product"
    components = ("count", "product")

    def lower(self, partials: Partials) -> Lowered:
        (count,), (odds, evens) = partials["count"], partials["product"]
        return Lowered(odds + evens, count > 0)


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps 2 and 4: all are known by name."""
    for rules in (BITS, PRODUCT):
        monkeypatch.setitem(COMPONENTS, rules.name, Component.of(rules))
    for aggregate in (BitXor(), Product()):
        monkeypatch.setitem(AGGREGATES, aggregate.name, aggregate)


# Step 5: naively.


def bit_xor(values: list[int]) -> int | None:
    return reduce(lambda left, right: left ^ right, values) if values else None


def odd_product(values: list[int]) -> int | None:
    odds = reduce(lambda left, right: left * right, (value for value in values if value % 2), 1)
    total = odds + sum(value % 2 == 0 for value in values)
    return (total + 2**63) % 2**64 - 2**63 if values else None


Naive = Callable[[list[int]], int | None]
Event = tuple[int, int, int | None]  # time, key, value
Asked = tuple[bool, str, str]
NAIVELY: dict[str, Naive] = {"bit_xor": bit_xor, "odd_product": odd_product}
SECOND, KEYS, EVENTS = 1_000_000, 3, 400
SLIDING, LOOSE, ROWS = "[RANGE 20 SECONDS SLIDE 4 SECONDS]", "[RANGE 20 SECONDS]", "[ROWS 30]"
# (keyed, hint, window): what a new component must be right in, and all that could answer it
USUAL = (
    (False, "slices", SLIDING), (False, "b_int", SLIDING), (False, "b_int", LOOSE), (False, "rescan", LOOSE),
    (True, "slices", SLIDING), (True, "stairs", SLIDING), (True, "rescan", LOOSE), (True, "key_runs", LOOSE),
)  # fmt: skip
# L-INT takes longest to compile, and what is compiled for components of tests is not kept
L_INT = ((False, "l_int", SLIDING), (False, "l_int", ROWS)) if THOROUGH else ()
EVERY = (
    *USUAL,
    *L_INT,
    *[(False, hint, SLIDING) for hint in ("panes", "paired_windows", "range_tree")],
    *[(False, hint, LOOSE) for hint in ("psoup", "materialize_none", "range_tree")],
    *[(False, hint, ROWS) for hint in ("b_int", "rescan_rows")],
    (True, "key_runs_rows", ROWS),
)
SUBTRACTED = ((False, "r_int", SLIDING), (False, "r_int", LOOSE), (False, "r_int", ROWS))


def events() -> list[Event]:
    """In order of time, with NULLs and numbers of 62 bits."""
    random = np.random.default_rng(17)
    at, key = np.sort(random.integers(0, 90 * SECOND, EVENTS)), random.integers(0, KEYS, EVENTS)
    value = random.integers(-(2**62), 2**62, EVENTS)
    holds = random.random(EVENTS) < 0.9
    rows = zip(at.tolist(), key.tolist(), value.tolist(), holds, strict=True)
    return [(t, k, v if is_there else None) for t, k, v, is_there in rows]


def query(name: str, is_keyed: bool, hint: str, window: str) -> str:
    where = " WHERE v >= -5000000000000000000" if hint == "range_tree" else ""
    calls = f"SELECT /*+ SYNOPSIS({hint}) */ {'k, ' * is_keyed}{name}(v) AS a"
    return f"{calls} FROM s {window}{where}{' GROUP BY k' * is_keyed}"


def window_of(window: str, rows: list[Event], now: int) -> list[int]:
    """The values in a window that is looked up at `now`, of events that are in order of time."""
    rows = [row for row in rows if row[0] < now]
    if window == ROWS:
        return [v for _, _, v in rows[-30:] if v is not None]
    end = now // (4 * SECOND) * 4 * SECOND if window == SLIDING else now
    return [v for t, _, v in rows if end - 20 * SECOND <= t < end and v is not None]


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("bit_xor", (*every_second(USUAL), *SUBTRACTED)),
        pytest.param("odd_product", EVERY, marks=pytest.mark.slow),
    ],
    ids=["bit_xor", "odd_product everywhere"],
)
def test_it_is_answered(name: str, asked: tuple[Asked, ...], tmp_path: Path) -> None:
    """Without keys and with, in batches, alone and all keys together, before and after a restart."""
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, v BIGINT) TIMESTAMP BY ts")
    engine.register_many({str(each): query(name, *each) for each in asked})
    told = events()
    for start in range(0, EVENTS, 57):
        batch = told[start : start + 57]
        columns = dict(zip(("ts", "k", "v"), map(list, zip(*batch, strict=True)), strict=True))
        engine.push("s", pa.table({each: pa.array(column, pa.int64()) for each, column in columns.items()}))
        if start == 171:
            engine.checkpoint(tmp_path / "state")
            engine = muntin.Engine.restore(tmp_path / "state")
        for each in asked:
            compare(engine, each, NAIVELY[name], told[: start + len(batch)])


def compare(engine: muntin.Engine, asked: Asked, naively: Naive, told: list[Event]) -> None:
    is_keyed, _, window = asked
    now, name = told[-1][0], str(asked)
    table = engine.lookup(name, at=now)
    if not is_keyed:
        expected = naively(window_of(window, told, now))
        assert table["a"].to_pylist() == [expected], name
        assert engine.value(name, at=now) == expected, name
        return
    assert table.num_rows == KEYS
    for key, found in zip(table["k"].to_pylist(), table["a"].to_pylist(), strict=True):
        expected = naively(window_of(window, [event for event in told if event[1] == key], now))
        assert found == expected, name
        assert engine.value(name, key=key, at=now) == expected, name


def test_argument_is_checked() -> None:
    """An aggregate says what it takes; the language knows its name."""
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, x DOUBLE) TIMESTAMP BY ts")
    with pytest.raises(muntin.MuntinError, match="takes an integer"):
        engine.register("SELECT BIT_XOR(x) AS a FROM s [ROWS 5]", "q")


def test_rules_fit_their_cells() -> None:
    """A kind of cells has an array for each part of the identity, three at the most."""
    with pytest.raises(ValueError, match="Bits must have the arrays of its identity"):
        Rules("wrong", Bits, Bits, lambda _: ((INT, 0), (INT, 0)))
