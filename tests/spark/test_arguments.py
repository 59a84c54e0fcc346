"""Calls of muntin.spark with wrong types, where no session is needed: a `MuntinError` that names the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muntin import MuntinError
from muntin.spark import answer_messages, answers_of, append_to_delta, arrow_events, shared_windows


class Frame:
    """As much of a DataFrame as is looked at before Spark is."""

    isStreaming = False
    schema = ()


QUERIES = {"q": "SELECT COUNT(*) FROM s [ROWS 5]"}
WRONG = [None, 5, 1.5, True, b"x", [], (), {1}, object(), len, [1], float("nan")]
CALLS: dict[str, Callable[[Any], object]] = {
    "df": lambda value: shared_windows(value, QUERIES, stream="s", time="ts"),
    "queries": lambda value: shared_windows(Frame(), value, stream="s", time="ts"),
    "query 'q'": lambda value: shared_windows(Frame(), {"q": value}, stream="s", time="ts"),
    "stream": lambda value: shared_windows(Frame(), QUERIES, stream=value, time="ts"),
    "time": lambda value: shared_windows(Frame(), QUERIES, stream="s", time=value),
    "delay": lambda value: shared_windows(Frame(), QUERIES, stream="s", time="ts", delay=value or 0),
    "shards": lambda value: shared_windows(
        Frame(), QUERIES, stream="s", time="ts", shards=0 if value == 5 else value
    ),
    "answers": lambda value: answers_of(value, "q"),
    "name": lambda value: answers_of(Frame(), value),
    "answers is a DataFrame": answer_messages,
    "messages": lambda value: arrow_events(value, "ts TIMESTAMP"),
    "path": lambda value: append_to_delta(value, "/checkpoint"),
    "checkpoint": lambda value: append_to_delta("/table", value),
}


@pytest.mark.parametrize("argument", CALLS)
def test_wrong_types(argument: str) -> None:
    """Refused before Spark is asked for anything."""
    for value in WRONG:
        with pytest.raises(MuntinError, match=f"{argument}"):
            CALLS[argument](value)
