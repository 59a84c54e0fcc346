"""The longest window that works: Python can hold its start; what is longer is refused, however it is written."""

from __future__ import annotations

import pytest

from muntin import Engine, SqlError
from muntin.sql.window_clause import UNITS
from muntin.window import LONGEST_TIME

STREAM = "CREATE STREAM s (ts BIGINT, k BIGINT, x BIGINT) TIMESTAMP BY ts"


@pytest.mark.parametrize("keys", ["", "k"])
@pytest.mark.parametrize("unit", UNITS)
def test_the_longest_of_each_unit(unit: str, keys: str) -> None:
    """Of texts that are parsed, and of those that are filled into what is known of others."""
    engine = Engine()
    engine.execute(STREAM)
    group, chosen = (f" GROUP BY {keys}", f"{keys}, ") if keys else ("", "")
    longest = LONGEST_TIME // UNITS[unit]
    for number in range(4):  # from the third on they are known
        text = f"SELECT {chosen}SUM(x) AS a FROM s [RANGE {longest - number} {unit}S]{group}"
        engine.register(text, f"q{number}")
        for clause in (
            f"RANGE {longest + 1 + number} {unit}S",
            f"RANGE 1 DAY SLIDE {longest + 1 + number} {unit}S",
        ):
            with pytest.raises(SqlError, match="the longest that works is 719162 DAYS"):
                engine.register(f"SELECT {chosen}SUM(x) AS a FROM s [{clause}]{group}", "too_long")
    engine.push("s", {"ts": [0, 253_402_300_799_000_000], "k": [1, 1], "x": [1, 2]})
    for name in engine.queries:
        for at in (0, 1, 253_402_300_799_000_001):
            for row in engine.lookup(name, at=at).to_pylist():  # what Python cannot hold is an error here
                assert row["window_start"] < row["window_end"]
