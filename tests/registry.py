"""Where functions of the user's own are known, and how tests leave no trace there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from muntin.aggregates import AGGREGATES
from muntin.aggregates.component import COMPONENTS
from muntin.own.registered import REGISTERED
from muntin.sql.own_call import OWN

BOOKS: tuple[dict[str, Any], ...] = (AGGREGATES, COMPONENTS, OWN, REGISTERED)


@contextmanager
def books_restored() -> Iterator[None]:
    before = [dict(book) for book in BOOKS]
    try:
        yield
    finally:
        for book, was in zip(BOOKS, before, strict=True):
            book.clear()
            book.update(was)
