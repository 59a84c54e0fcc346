"""What is registered as a function is compiled and tried; what cannot be one is refused, with a counterexample."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import muntin
from muntin.errors import MuntinError, NameTaken, SqlError
from muntin.own.registered import REGISTERED, used_in


def rules(**changed: Any) -> type:
    """A class of an aggregate; by default of a sum."""
    plain: dict[str, Any] = {
        "identity": 0.0,
        "lift": lambda x: x,
        "combine": lambda left, right: left + right,
        "lower": lambda state: state,
    }
    return type("Rules", (), {**plain, **changed})


def register(name: str = "TRIED", takes: type = float, returns: type = float, **changed: Any) -> None:
    muntin.aggregate(name, takes=takes, returns=returns)(rules(**changed))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"combine": lambda a, b: a[0] + b[0], "identity": (0.0,), "lift": lambda x: (x,)},
            "combine gives float64, and a partial is (float) as identity is",
        ),
        ({"combine": lambda a, b: a + b + 1.0}, "identity is none\n  a = 1.0, of 1.0\n  combine(identity, a) = 2.0"),
        ({"combine": lambda a, b: a - b}, "combine(identity, a) = -1.0"),
        (
            {"combine": lambda a, b: a + b if a * b != 2.0 else 7.0},
            "combine is not associative",
        ),
        (
            {"combine": lambda a, b: b if b != 0.0 else a},
            "combine is not commutative\n  a = 1.0, of 1.0\n  b = 2.0, of 2.0\n  combine(a, b) = 2.0",
        ),
        (
            {"subtract": lambda whole, part: whole - part},
            "subtract does not undo combine",
        ),
        ({"lift": lambda x: len(x)}, "lift cannot be compiled"),
        ({"lift": lambda: 1.0}, "lift takes (x) or (x, at), not ()"),
        ({"identity": "a"}, "identity is the partial over nothing"),
        ({"identity": (0, 0, 0, 0)}, "a tuple of up to 3"),
        ({"lower": lambda state: int(state) // 2 if state > 1.0 else REFUSE()}, "lower cannot be compiled"),
        ({"lower": None}, "needs a function lower"),
    ],
)  # fmt: skip
def test_wrong_algebra(changed: dict[str, Any], message: str) -> None:
    """The error names the function and shows what is wrong; nothing is registered."""
    with pytest.raises(MuntinError, match=re.escape(message)) as found:
        register(**changed)
    assert str(found.value).startswith("TRIED")
    assert "TRIED" not in REGISTERED


def REFUSE() -> float:
    """No kernel can call it."""
    return 0.0


def raising(state: float) -> float:
    if state > 5.0:
        raise ValueError
    return state


def test_what_may_raise_is_refused() -> None:
    """It would stop a loop that has changed half of its cells."""
    with pytest.raises(MuntinError, match="TRIED: lower may raise"):
        register(lower=raising)


@pytest.mark.parametrize("name", ["sum", "Median", "COUNT_IF", "abs", "approx", "m2", "case", "x y", "", 5])
def test_names_of_the_language_are_taken(name: Any) -> None:
    with pytest.raises(MuntinError):
        muntin.function(name, takes=[float], returns=float)


def test_one_meaning_a_process() -> None:
    """The same code may come again. Other code may, as long as no query has used the name."""

    def first(x: pa.Array) -> pa.Array:
        return x

    def second(y: pa.Array) -> pa.Array:
        return y.slice(0)

    decorate: Callable[..., Any] = muntin.function("SAME", takes=[float], returns=float)
    decorate(first)
    decorate(first)
    decorate(second)
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, x DOUBLE) TIMESTAMP BY ts")
    engine.register("SELECT SUM(same(x)) AS a FROM s [ROWS 5]", name="q")
    decorate(second)
    with pytest.raises(NameTaken, match="has been used by queries of this process"):
        decorate(first)
    assert [each.name for each in used_in(["SELECT Same (x) FROM s", "SELECT 'DOUBLED(x)'"])] == ["SAME"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT TOTAL(x) AS a FROM s [ROWS 5]", "TOTAL takes an integer, and x is DOUBLE"),
        (
            "SELECT TOTAL(d) AS a FROM s [ROWS 5]",
            "TOTAL takes no DECIMAL; write CAST(x AS BIGINT), and d is DECIMAL",
        ),
        ("SELECT TOTAL(n, n) AS a FROM s [ROWS 5]", "TOTAL takes 1 argument"),
        ("SELECT TOTAL(*) AS a FROM s [ROWS 5]", "TOTAL(*) is not supported"),
        ("SELECT SUM(x) AS a FROM s [ROWS 5] WHERE TOTAL(n) > 3", "an aggregate cannot stand in WHERE"),
        ("SELECT TOTALS(n) AS a FROM s [ROWS 5]", "did you mean 'TOTAL'?"),
        ("SELECT DOUBLE_D(SUM(n)) AS a FROM s [ROWS 5]", "did you mean 'DOUBLED'?"),
        ("SELECT SUM(DOUBLED(x, x)) AS a FROM s [ROWS 5]", "DOUBLED takes 1 argument: DOUBLED(DOUBLE)"),
        ("SELECT SUM(DOUBLED(k)) AS a FROM s [ROWS 5]", "DOUBLED takes DOUBLE here, and k is VARCHAR"),
        ("SELECT DOUBLED(x) OVER [ROWS 5] AS a FROM s", "DOUBLED is no aggregate"),
    ],
)
def test_wrong_calls(query: str, message: str) -> None:
    """The error points at the call."""
    engine = muntin.Engine()
    engine.execute(
        "CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT, x DOUBLE, d DECIMAL(12, 2)) TIMESTAMP BY ts"
    )
    with pytest.raises(SqlError, match=re.escape(message)) as found:
        engine.register(query, name="q")
    assert "^" in str(found.value)
