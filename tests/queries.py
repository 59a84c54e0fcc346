"""Random queries over the stream of scenario.py, as SQL text: every aggregate, filter and kind of window."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from muntin.window import LANDMARKS, Window

if TYPE_CHECKING:
    from scenario import Dice

SECOND = 1_000_000
SIZES = (*(seconds * SECOND for seconds in (5, 1, 2, 3, 10, 20, 60)), 1_500_000, 1, 700_000)
SLIDES = (*(seconds * SECOND for seconds in (1, 2, 5, 7, 30)), 1_500_000)
COUNTS = (3, 1, 2, 5, 8, 13, 100)
COUNT_SLIDES = (2, 1, 3, 5)

NUMBERS = ("n", "x", "y", "n + 1", "n * 2 - j", "y * 2", "n % 3")
OTHERS = ("k", "w", "b")
OF_NUMBERS = (
    "SUM({})", "COUNT({})", "AVG({})", "MIN({})", "MAX({})", "FIRST({})", "LAST({})", "COUNT(DISTINCT {})",
    "MEDIAN({})", "MODE({})", "QUANTILE({}, 0.1)", "QUANTILE({}, 0.29)", "QUANTILE({}, 0.9)", "QUANTILE({}, 1)",
    "VAR_POP({})", "VAR_SAMP({})", "STDDEV_POP({})", "STDDEV_SAMP({})", "VARIANCE({})", "STDDEV({})",
    "ARG_MAX({}, n)", "ARG_MIN({}, y)", "ARG_MIN({}, b)",
)  # fmt: skip
OF_OTHERS = (
    "COUNT({})", "FIRST({})", "LAST({})", "MIN({})", "MAX({})", "COUNT(DISTINCT {})", "ARG_MAX({}, y)",
    "ARG_MIN({}, n)", "MODE({})",
)  # fmt: skip
FILTERS = (
    "n > 1", "b", "NOT b", "w = 'ask'", "k IS NOT NULL", "n IS NULL", "y < 1.5", "k <> 'a'",
    "n BETWEEN 0 AND 4", "w IN ('ask', 'bid')", "n > 0 AND y > 0", "b OR n = 2",
    "x > 0.5", "n > 1000000000000", "TRUE",
)  # fmt: skip
KEYS = (("k",), ("j",), ("k", "j"), ("b",), ("j", "w"), ("y",), ("parity",), ("k", "parity"))
KEY_EXPRESSIONS = {"parity": "n % 2"}  # of keys that are no columns

# expressions over answers: exact, or of tame numbers, so that rounding cannot tip them
EXPRESSIONS = (
    "MAX(n){o} - MIN(n){o}", "SUM(n){o} + COUNT(*){o}", "SUM(y){o} / COUNT(*){o}",
    "LAST(n){o} / FIRST(n){o} - 1", "2 * AVG(y){o}", "COALESCE(SUM(n){o}, 0)",
    "COUNT(*) FILTER (WHERE b){o} * 100 / COUNT(*){o}",
)  # fmt: skip
CONDITIONS = (
    "COUNT(*){o} > 1", "SUM(n){o} >= 3", "MAX(n){o} - MIN(n){o} > 2", "AVG(y){o} < 1.5",
    "LAST(n){o} BETWEEN 0 AND 5", "SUM(n) FILTER (WHERE w = 'ask'){o} >= 0.5 * SUM(n){o}",
    "COUNT(n){o} = 2", "MIN(y){o} IS NULL",
    "COUNT(*){o} > 1 AND MAX(n){o} > 1", "COUNT(*){o} = 1 OR MIN(n){o} < 0", "NOT SUM(y){o} > 0",
)  # fmt: skip
# what keys are ranked by: exact, or of tame numbers; ties are frequent
RANKS = (
    "COUNT(*){o}", "SUM(n){o}", "MAX(n){o}", "MIN(y){o}", "LAST(w){o}", "MODE(n){o}", "COUNT(DISTINCT w){o}",
    "MAX(n){o} - MIN(n){o}", "MEDIAN(y){o}",
)  # fmt: skip
# of sessions, whose aggregates merge
GAPS = (2 * SECOND, 5 * SECOND, SECOND, 1, 3 * SECOND + 1, 30 * SECOND, 10 * SECOND, 100 * SECOND)
MERGED_NUMBERS = (
    "SUM({})", "COUNT({})", "AVG({})", "MIN({})", "MAX({})", "FIRST({})", "LAST({})", "VAR_POP({})", "STDDEV({})",
    "ARG_MAX({}, n)", "ARG_MIN({}, y)", "SUM({}) FILTER (WHERE b)",
)  # fmt: skip
MERGED_OTHERS = ("COUNT({})", "FIRST({})", "LAST({})", "ARG_MAX({}, y)", "ARG_MIN({}, n)")


@dataclass(frozen=True)
class Question:
    """A query's text, and the names of its keys."""

    sql: str
    keys: tuple[str, ...]


def any_question(dice: Dice) -> Question:
    """As `random_question`, at times of sessions, or with ORDER BY … LIMIT; `lookup_at` takes neither."""
    if dice.chance(8):
        return session_question(dice)
    return random_question(dice, ranks=dice.chance(25))


def random_question(dice: Dice, ranks: bool = False) -> Question:
    """SELECT … FROM s [window] WHERE … GROUP BY … HAVING … ORDER BY … LIMIT …"""
    keys = dice.pick(KEYS) if ranks or dice.chance(50) else ()
    window = random_window(dice) if ranks or dice.chance(90) else None
    if ranks and window is not None and not window.is_time:
        window = replace(window, slide=0)  # keys that move at their own events are not ranked
    over = OwnWindows(dice, window)
    items = [f"{KEY_EXPRESSIONS[key]} AS {key}" if key in KEY_EXPRESSIONS else key for key in keys]
    items += [f"{random_output(dice, over)} AS a{number}" for number in range(dice.whole(1, 4))]
    sql = f"SELECT {', '.join(items)} FROM s{f' {window}' if window else ''}"
    if dice.chance(30):
        sql += f" WHERE {dice.pick(FILTERS)}"
    if keys:
        sql += f" GROUP BY {', '.join(KEY_EXPRESSIONS.get(key, key) for key in keys)}"
    if dice.chance(25):
        sql += f" HAVING {dice.pick(CONDITIONS).replace('{o}', over.clause())}"
    if ranks:
        by = [dice.pick(RANKS).replace("{o}", over.clause()) for _ in range(dice.pick((1, 1, 2)))]
        sql += f" ORDER BY {', '.join(each + dice.pick((' DESC', '')) for each in by)} LIMIT {dice.pick((1, 2, 3, 50))}"
    return Question(sql, keys)


def session_question(dice: Dice, may_change: bool = False) -> Question:
    """SELECT … FROM s [SESSION …] WHERE … GROUP BY … HAVING …"""
    keys = dice.pick(KEYS) if dice.chance(70) else ()
    items = [f"{KEY_EXPRESSIONS[key]} AS {key}" if key in KEY_EXPRESSIONS else key for key in keys]
    for number in range(dice.whole(1, 3)):
        of, value = (
            (MERGED_NUMBERS, dice.pick(NUMBERS)) if dice.chance(70) else (MERGED_OTHERS, dice.pick(OTHERS))
        )
        items.append(f"{dice.pick(of).format(value)} AS a{number}")
    sql = f"SELECT {', '.join([*items, 'COUNT(*) AS many'])} FROM s [SESSION {dice.pick(GAPS)} MICROSECONDS]"
    if dice.chance(30):
        sql += f" WHERE {dice.pick(FILTERS)}"
    if keys:
        sql += f" GROUP BY {', '.join(KEY_EXPRESSIONS.get(key, key) for key in keys)}"
    if dice.chance(30):
        sql += f" HAVING {dice.pick(CONDITIONS).replace('{o}', '')}"
    if may_change and (keys or " HAVING " in sql) and dice.chance(50):
        sql += " EMIT CHANGES"
    return Question(sql, keys)


def random_window(dice: Dice) -> Window:
    """By time or by events; with and without TO (up to its size) and SLIDE (up to beyond it)."""
    if dice.chance(35):
        return random_rows(dice, dice.pick(COUNT_SLIDES) if dice.chance(40) else 0)
    size = dice.pick(SIZES)
    slide = dice.pick((*SLIDES, size)) if dice.chance(50) else 0
    return _time(dice, size, max(slide, SECOND // 2) if slide else 0)


def _time(dice: Dice, size: int, slide: int) -> Window:
    """With SLIDE, at times with OFFSET; at times since a landmark instead of a size."""
    offset = dice.pick((slide // 2, slide // 3, slide - 1)) if slide and dice.chance(30) else 0
    if dice.chance(20):
        return landmark_window(dice, slide, offset)
    return Window("time", size, _to(dice, size), slide, offset=offset)


def landmark_window(dice: Dice, slide: int, offset: int = 0) -> Window:
    return Window("time", dice.pick(tuple(LANDMARKS.values())), 0, slide, offset=offset, since=True)


def often_landmark(dice: Dice, size: int, slide: int) -> Window:
    """A window with a slide, at times since a landmark."""
    return landmark_window(dice, slide) if dice.chance(20) else Window("time", size, 0, slide)


def random_rows(dice: Dice, slide: int) -> Window:
    size = dice.pick(COUNTS)
    return Window("rows", size, _to(dice, size), slide)


def _to(dice: Dice, size: int) -> int:
    return dice.pick((size // 2, 1, size // 3, size)) if dice.chance(25) else 0


class OwnWindows:
    """OVER clauses that may stand in a query with the given window after FROM.

    Without one, every aggregate needs its own, and those by time all have a slide, or none has.
    """

    def __init__(self, dice: Dice, window: Window | None) -> None:
        self._dice = dice
        self._must = window is None
        self._only_rows = window is not None and not window.is_time and window.slide > 0
        self._is_rows = self._only_rows or dice.chance(25)
        self._slide = 0
        # of two counts, the slide of one must divide that of the other
        self._count_slides: tuple[int, ...] = COUNT_SLIDES
        if window is not None and self._only_rows:
            self._count_slides = (1, window.slide, 2 * window.slide)
        if self._must and dice.chance(50):
            self._slide = dice.pick(SLIDES)

    def clause(self) -> str:
        """` OVER [window]`, or nothing where the aggregate may share the window after FROM."""
        if not self._must and not self._dice.chance(25):
            return ""
        dice = self._dice
        if self._must:
            if self._is_rows or dice.chance(15):
                return f" OVER {self._rows()}"
            size, slide = dice.pick(SIZES), self._slide
            if slide and dice.chance(40):
                slide = dice.pick(SLIDES)
            return f" OVER {Window('time', size, _to(dice, size), slide)}"
        return f" OVER {self._rows() if self._is_rows else self._time()}"

    def _rows(self) -> Window:
        slide = self._dice.pick(self._count_slides) if self._dice.chance(30) else 0
        return random_rows(self._dice, slide)

    def _time(self) -> Window:
        size = self._dice.pick(SIZES)
        return _time(self._dice, size, self._dice.pick(SLIDES) if self._dice.chance(20) else 0)


def random_output(dice: Dice, over: OwnWindows) -> str:
    """One aggregate, or an expression of some."""
    if dice.chance(20):
        pattern = dice.pick(EXPRESSIONS)
        clause = over.clause()
        return pattern.replace("{o}", clause)
    if dice.chance(10):
        call = "COUNT(*)"
    elif dice.chance(75):
        call = dice.pick(OF_NUMBERS).format(dice.pick(NUMBERS))
    else:
        call = dice.pick(OF_OTHERS).format(dice.pick(OTHERS))
    kept = f" FILTER (WHERE {dice.pick(FILTERS)})" if dice.chance(20) else ""
    return call + kept + over.clause()
