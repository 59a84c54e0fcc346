"""Random requests for look-ups at instants of their own, and queries that they meet in every kind of window."""

from __future__ import annotations

import pyarrow as pa

from queries import FILTERS, KEY_EXPRESSIONS, OwnWindows, Question, random_output, random_window
from scenario import SECOND, VALUES, Dice

KEYS = {
    "k": pa.string(),
    "j": pa.int64(),
    "b": pa.bool_(),
    "w": pa.string(),
    "y": pa.float64(),
    "parity": pa.int64(),
}
OPTIONS = {**VALUES, "k": (*VALUES["k"], "z"), "parity": (1, 0, -1, None)}
CALLS = (
    "COUNT(*)", "SUM(n)", "MAX(n)", "MIN(y)", "AVG(n)", "LAST(k)", "FIRST(n)", "SUM(y)", "MAX(w)", "MEDIAN(y)",
    "COUNT(DISTINCT w)", "COUNT(*) FILTER (WHERE w = 'ask')", "SUM(n) FILTER (WHERE w = 'bid')",
)  # fmt: skip
LANES = ("w = 'ask'", "w = 'bid'", "w IN ('ask', 'bid')", "b", "w = 'ask' AND n > 1", "w = 'ask' AND n > 0")
SHIFTS = (1, 0, SECOND, 3 * SECOND, 20 * SECOND, -1, -2 * SECOND, -7 * SECOND, 700_000)


def keyed_question(dice: Dice) -> Question:
    """Per key, mostly with a filter that compares with a constant; windows of every kind."""
    keys = dice.pick((("k",), ("j",), ("k", "j"), ("parity",)))
    window = random_window(dice)
    items = [f"{KEY_EXPRESSIONS[key]} AS {key}" if key in KEY_EXPRESSIONS else key for key in keys]
    items += [
        f"{random_output(dice, OwnWindows(dice, window)) if dice.chance(40) else dice.pick(CALLS)} AS a{number}"
        for number in range(dice.whole(1, 3))
    ]
    where = f" WHERE {dice.pick((*LANES, *FILTERS))}" if dice.chance(60) else ""
    by = ", ".join(KEY_EXPRESSIONS.get(key, key) for key in keys)
    having = dice.pick(("", "", " HAVING COUNT(*) > 1", " HAVING SUM(n) >= 3"))
    return Question(f"SELECT {', '.join(items)} FROM s {window}{where} GROUP BY {by}{having}", keys)


def sketched_question(dice: Dice) -> Question:
    """Approximate aggregates, which cannot go back in time."""
    keys = dice.pick(((), ("k",)))
    call = dice.pick(("APPROX_QUANTILE(y, 0.5, 0.1)", "APPROX_COUNT(w = 'ask', 0.1)"))
    window = dice.pick(
        ("[RANGE 5 SECONDS]", "[RANGE 20 SECONDS SLIDE 2 SECONDS]", "[RANGE 5 SECONDS TO 1 SECOND]")
    )
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    return Question(f"SELECT {', '.join([*keys, f'{call} AS a0'])} FROM s {window}{by}", keys)


def random_requests(dice: Dice, times: list[int], many: int) -> pa.Table:
    columns = {name: [dice.pick(OPTIONS[name]) for _ in range(many)] for name in KEYS}
    at = [dice.pick(times) + dice.pick(SHIFTS) for _ in range(many)]
    if dice.chance(50):
        at.sort()
    return pa.table(
        {name: pa.array(values, KEYS[name]) for name, values in columns.items()}
        | {"at": pa.array(at, pa.timestamp("us")), "label": list(range(many))}
    )
