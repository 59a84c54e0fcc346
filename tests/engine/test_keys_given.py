"""A key that its column cannot hold is refused, whatever its Python type; one that it can hold is found."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import Engine, MuntinError

DAY, NOON = datetime(2024, 1, 1), datetime(2024, 1, 1, 12, 0, 0, 250_000)
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
REALS = ("REAL", "DOUBLE")
TIMES = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")


def _all(kinds: tuple[str, ...], values: Any) -> dict[str, Any]:
    return {kind: values for kind in kinds}  # noqa: C420 - lists are never changed


# what is pushed for each type, and which of the values below is that key
PUSHED: dict[str, Any] = {
    **_all(INTEGERS, 1), **_all(REALS, 1.0), **_all(TIMES, DAY), "BOOLEAN": True,
    "VARCHAR": "1", "DATE": date(2024, 1, 1),
}  # fmt: skip
EQUAL: dict[str, list[Any]] = {
    **_all(INTEGERS, [1, np.int8(1), np.uint64(1), pa.scalar(1)]),
    **_all(REALS, [1, 1.0, np.float32(1), np.float64(1), np.int64(1)]),
    **_all(
        TIMES, [DAY, DAY.replace(tzinfo=UTC), np.datetime64("2024-01-01"), np.datetime64("2024-01-01", "ns")]
    ),
    "BOOLEAN": [True, np.True_],
    "VARCHAR": ["1", np.str_("1")],
    "DATE": [date(2024, 1, 1), np.datetime64("2024-01-01")],
}
OTHER: dict[str, list[Any]] = {  # values of the type that were not pushed
    **_all(INTEGERS, [2, np.int16(100)]), **_all(REALS, [1.5, 2, float("nan"), np.float32(2)]),
    **_all(TIMES, [datetime(2024, 1, 1, 12), np.datetime64("2024-01-01T05")]), "BOOLEAN": [False, np.False_],
    "VARCHAR": ["", "a"], "DATE": [date(2024, 1, 2), np.datetime64("2024-01-02")],
}  # fmt: skip
NEVER: dict[str, list[Any]] = {
    **_all(
        INTEGERS, [1.0, 1.5, np.float64(1), True, np.True_, "1", 2**70, Decimal(1), DAY, date(2024, 1, 1)]
    ),
    **_all(REALS, [True, np.True_, "1", Decimal(1), DAY, 2**70 + 1]),
    **_all(
        TIMES, [0, 1_704_067_200_000_000, 1.0, "2024-01-01", date(2024, 1, 1), True, np.datetime64("NaT")]
    ),
    "BOOLEAN": [0, 1, 1.0, "True", np.int8(1)],
    "VARCHAR": [1, b"1", True, 1.0, DAY],
    "DATE": [DAY, NOON, DAY.replace(tzinfo=UTC), 19723, "2024-01-01", True, np.datetime64("2024-01-01T05")],
}
NEVER["TINYINT"] = [*NEVER["TINYINT"], 128, 300, -129]
NEVER["SMALLINT"] = [*NEVER["SMALLINT"], 2**15]
NEVER["INTEGER"] = [*NEVER["INTEGER"], 2**31]
NEVER["UTINYINT"] = [*NEVER["UTINYINT"], -1, 256]
NEVER["UBIGINT"] = [*NEVER["UBIGINT"], -1, 2**64]
NEVER["REAL"] = [*NEVER["REAL"], 1e300]
NEVER["TIMESTAMP_S"] = [*NEVER["TIMESTAMP_S"], NOON]
NOTHING = [b"1", timedelta(1), object(), {}, {1}, 1j, np.array([1]), [[1]], Engine]
WINDOWS = ("[RANGE 1 HOUR SLIDE 1 MINUTE]", "[RANGE 1 HOUR]", "[ROWS 5]")


def engine_of(kind: str, window: str, columns: str = "k") -> Engine:
    engine = Engine()
    engine.execute(f"CREATE STREAM s (ts TIMESTAMP, k {kind}, j VARCHAR, n BIGINT) TIMESTAMP BY ts")
    engine.register(f"SELECT {columns}, SUM(n) AS n FROM s {window} GROUP BY {columns}", "q")
    return engine


def push(engine: Engine, kind: str) -> None:
    engine.push("s", {"ts": [DAY] * 2, "k": [PUSHED[kind], None], "j": ["x", "y"], "n": [5, 7]})
    engine.advance(DAY + timedelta(minutes=1))


AT = DAY + timedelta(minutes=1)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", PUSHED)
def test_every_kind_of_value(kind: str, window: str) -> None:
    """Of one column: by `lookup` and by `value`, alone and in a list, in any order of calls."""
    engine = engine_of(kind, window)
    push(engine, kind)
    assert engine.lookup("q", key=[None], at=AT)["n"].to_pylist() == [7]
    for _ in range(2):  # once more, when ids are remembered
        for key in EQUAL[kind]:
            assert engine.lookup("q", key=key, at=AT)["n"].to_pylist() == [5], repr(key)
            assert engine.value("q", key=key, at=AT) == 5, repr(key)
        for key in OTHER[kind]:
            assert engine.lookup("q", key=key, at=AT).num_rows == 0, repr(key)
            assert engine.value("q", key=key, at=AT) is None, repr(key)
        for key in [*NEVER[kind], *(each for each in NOTHING if not isinstance(each, list) or kind)]:
            for ask in (engine.lookup, engine.value):
                with pytest.raises(MuntinError, match=r"key|keys"):
                    ask("q", key=key, at=AT)
                if not isinstance(key, list):
                    with pytest.raises(MuntinError, match=r"key"):
                        engine.lookup("q", key=[EQUAL[kind][0], key], at=AT)


@pytest.mark.parametrize("kind", PUSHED)
def test_keys_of_two_columns(kind: str) -> None:
    """The same in a tuple, and before the first event."""
    engine = engine_of(kind, WINDOWS[0], "k, j")
    for key in NEVER[kind]:
        with pytest.raises(MuntinError, match="is not a value of key 'k'"):
            engine.value("q", key=(key, "x"))
    push(engine, kind)
    for key in EQUAL[kind]:
        assert engine.value("q", key=(key, "x"), at=AT) == 5
    for key in NEVER[kind]:
        with pytest.raises(MuntinError, match="is not a value of key 'k'"):
            engine.value("q", key=(key, "x"), at=AT)
    with pytest.raises(MuntinError, match="is not a value of key 'j'"):
        engine.value("q", key=(EQUAL[kind][0], 1), at=AT)


@pytest.mark.parametrize("kind", [kind for kind in PUSHED if kind != "BOOLEAN"])
def test_views(kind: str, tmp_path: Path) -> None:
    """A materialised view is looked up by the same rules."""
    engine = Engine(archive=tmp_path / "views")
    engine.execute(f"CREATE STREAM a (ts TIMESTAMP, k {kind}, n BIGINT) TIMESTAMP BY ts")
    engine.execute(f"CREATE STREAM b (ts TIMESTAMP, k {kind}) TIMESTAMP BY ts")
    engine.execute(
        "CREATE MATERIALIZED VIEW v KEY (k) AS SELECT a.k, a.n FROM a [RANGE 1 HOUR] JOIN b [RANGE 1 HOUR] "
        "ON a.k = b.k EVERY 1 MINUTE"
    )
    engine.push("a", {"ts": [DAY], "k": [PUSHED[kind]], "n": [5]})
    engine.push("b", {"ts": [DAY], "k": [PUSHED[kind]]})
    engine.advance(AT)
    for key in EQUAL[kind]:
        assert engine.lookup("v", key=key)["n"].to_pylist() == [5], repr(key)
    for key in OTHER[kind]:
        assert engine.lookup("v", key=key).num_rows == 0, repr(key)
    for key in [*NEVER[kind], *NOTHING[:-2]]:
        with pytest.raises(MuntinError, match="is not a value of key 'k'"):
            engine.lookup("v", key=key)
    engine.close()
