"""Random queries over a stream of huge integers: of some of their values there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queries import OwnWindows, random_window

if TYPE_CHECKING:
    from scenario import Dice

HUGE = (1, 2**62, -(2**62), 2**63 - 1, -(2**63), 1_790_000_000_000_000_000, 5, None, -3, 2**61)
STREAM = "CREATE STREAM s (ts BIGINT, k VARCHAR, j BIGINT, n BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS"
OUTPUTS = (
    "SUM(n){o}", "AVG(n){o}", "COUNT(*){o}", "SUM(n){o} * 2", "SUM(n){o} - COUNT(*){o}", "MIN(n){o} - MAX(n){o}",
    "COALESCE(SUM(n){o}, 0)", "CASE WHEN COUNT(*){o} > 2 THEN LAST(n){o} * 3 END", "-MIN(n){o}",
    "SUM(n) FILTER (WHERE j = 1){o}", "CAST(AVG(n){o} AS INTEGER)",
)  # fmt: skip
CONDITIONS = (
    "SUM(n){o} > 0", "SUM(n){o} BETWEEN 1 AND 4611686018427387904", "COUNT(*){o} > 1", "SUM(n){o} IS NULL",
    "SUM(n){o} * 2 > 5", "MAX(n){o} > 4 AND SUM(n){o} < 100", "MAX(n){o} > 5", "LAST(n){o} - FIRST(n){o} > 0",
)  # fmt: skip


def random_sql(dice: Dice) -> str:
    """A query by keys or without, of whose values some may not exist."""
    keys = dice.pick(("k", "k, j", ""))
    changes = dice.chance(35)
    window = random_window(dice)
    while changes and not window.is_time:
        window = random_window(dice)
    over = OwnWindows(dice, window)
    while (
        changes and over._is_rows
    ):  # the last events of a key never grow old, so there is no silence to wait for
        over = OwnWindows(dice, window)
    items = [
        pattern.replace("{o}", over.clause())
        for pattern in (dice.pick(OUTPUTS) for _ in range(dice.whole(1, 2)))
    ]
    named = [*filter(None, [keys]), *(f"{item} AS a{number}" for number, item in enumerate(items))]
    sql = f"SELECT {', '.join(named)} FROM s {window}" + (f" GROUP BY {keys}" if keys else "")
    if dice.chance(50) or (changes and not keys):
        sql += f" HAVING {dice.pick(CONDITIONS).replace('{o}', over.clause())}"
    return sql + (" EMIT CHANGES" if changes else "")
