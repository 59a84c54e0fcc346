"""A text means the same whatever was read before it: with templates and compiled expressions (warm) and without."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa
import pytest

from cold import read_cold, told
from effort import THOROUGH
from muntin.aggregate import AGGREGATES
from muntin.errors import SqlError
from muntin.sql import parse_query
from muntin.sql.shape import shape_of
from muntin.sql.vocabulary import SYNONYMS
from muntin.stream import Stream
from muntin.window import Window
from queries import random_question
from reference import declared
from scenario import COLUMNS, SeededDice
from texts import streams_of, texts

NUMBERS = ("1", "2", "7", "0.5")
FRACTIONS = ("0.1", "0.25", "0.5", "0.01")
STRINGS = ("'a'", "'b'", "'c'", "'2024-01-01'")
TIMES = ("[RANGE 1 MINUTE]", "[RANGE 2 MINUTES]", "[RANGE 1 HOUR TO 1 MINUTE]")
SLIDES = (
    "[RANGE 1 MINUTE SLIDE 1 SECOND]",
    "[RANGE 2 MINUTES SLIDE 2 SECONDS]",
    "[RANGE 1 HOUR SLIDE 1 SECOND]",
)
ROWS = ("[ROWS 5]", "[ROWS 6 TO 2]", "[ROWS 7]")
TYPED = {
    "s": Stream("s", pa.schema({"ts": pa.timestamp("us"), "k": pa.string(), "n": pa.int64(), "x": pa.float64(),
                                "b": pa.bool_(), "d": pa.date32(), "small": pa.int16()}), "ts")
}  # fmt: skip
ITEMS = {
    "k": ("'a'", "'b'", "'c'", "'d'"), "n": ("1", "2", "3", "4"), "x": ("0.5", "1.5", "1", "2"),
    "b": ("TRUE", "FALSE"), "ts": ("'2024-01-01'", "'2024-01-02'", "'2024-01-03'"),
    "d": ("'2024-01-01'", "'2024-01-02'", "'2024-01-03'"), "small": ("1", "2", "3", "40000"), "n + 1": ("1", "2", "3"),
}  # fmt: skip


def outcome(read: object, text: str, streams: dict[str, Stream]) -> list[object] | str:
    try:
        return told(read(text, streams))  # type: ignore[operator]
    except SqlError as error:
        return str(error)


def variants(text: str) -> Iterator[str]:
    """The text twice, so that it is a template; then with other values, all at once and one at a time."""
    yield from (text, text, text)
    shaped = shape_of(text)
    if shaped is None:
        return
    holes = shaped[1]
    for turn in range(2):
        yield _with(text, [(hole, _other(hole.value, turn)) for hole in holes])
    for hole in holes[:2]:
        yield _with(text, [(hole, _other(hole.value, 1))])


def _other(value: object, turn: int) -> str:
    if isinstance(value, Window):
        return (SLIDES if value.slide else TIMES if value.is_time else ROWS)[turn % 3]
    if isinstance(value, str):
        return STRINGS[turn]
    return (FRACTIONS if isinstance(value, float) else NUMBERS)[turn]


def _with(text: str, changes: Sequence[tuple[object, str]]) -> str:
    for hole, written in reversed(changes):
        text = text[: hole.start] + written + text[hole.end :]  # type: ignore[attr-defined]
    return text


def assert_same(many: Iterator[str], streams: dict[str, Stream]) -> None:
    for text in many:
        assert outcome(parse_query, text, streams) == outcome(read_cold, text, streams), text


def test_every_text_of_the_project() -> None:
    """In tests, cases, docs, benchmarks and the package; each with other values in its place."""
    different = {re.sub(r"'[^']*'|\d+", "", text): text for text in texts()}
    assert len(different) > 400
    for text in list(different.values())[:: 1 if THOROUGH else 4]:
        assert_same(variants(text), streams_of(text))


def test_random_texts() -> None:
    """As the random comparisons of answers ask them."""
    streams = {"s": declared(f"CREATE STREAM s (ts TIMESTAMP, {COLUMNS}) TIMESTAMP BY ts")}
    for seed in range(40):
        assert_same(variants(random_question(SeededDice(seed)).sql), streams)


@pytest.mark.parametrize("name", sorted({*AGGREGATES, *SYNONYMS} - {"count_distinct"}))
def test_every_aggregate(name: str) -> None:
    """Whatever an aggregate is called with: values that are more than operands belong to the query."""
    calls = list(chain.from_iterable(_calls(name, column, items) for column, items in ITEMS.items()))
    window = "FROM s [RANGE 1 HOUR]"
    assert_same((f"SELECT {call} AS v {window}" for _ in range(2) for call in calls), TYPED)


def _calls(name: str, column: str, items: Sequence[str]) -> Iterator[str]:
    aggregate = AGGREGATES[SYNONYMS[name][0] if name in SYNONYMS else name]
    many = 0 if name in SYNONYMS else len(aggregate.parameters)
    given = ["0.4", "0.1"][-many:] if many else []
    for item in items:
        argument = f"{column} = {item}" if aggregate.compares else column
        yield f"{name.upper()}({', '.join([argument, *given])})"
    for eps in ("0.2", "0.3") if many else ():
        yield f"{name.upper()}({', '.join([argument, *given[:-1], eps, *['0.01'] * len(aggregate.optional)])})"
