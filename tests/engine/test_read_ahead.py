"""Batches are read ahead by a thread: in order, errors in their place, and a file let go of when nobody reads on."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from muntin.engine.read_ahead import read_ahead


def test_order() -> None:
    assert list(read_ahead(iter(range(1_000)))) == list(range(1_000))


def test_an_error_comes_behind_what_was_read() -> None:
    def items() -> Iterator[int]:
        yield from range(20)
        raise ValueError("torn")

    ahead = read_ahead(items())
    assert [next(ahead) for _ in range(20)] == list(range(20))
    with pytest.raises(ValueError, match="torn"):
        next(ahead)


def test_leaving_off_closes_what_is_read() -> None:
    closed = threading.Event()
    drawn = []

    def items() -> Iterator[int]:
        try:
            for each in range(1_000):
                drawn.append(each)
                yield each
        finally:
            closed.set()

    ahead = read_ahead(items())
    assert next(ahead) == 0
    ahead.close()  # type: ignore[attr-defined]
    assert closed.is_set()
    assert len(drawn) < 20  # not all of a file that nobody wants
