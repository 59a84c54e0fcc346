"""Bulk: while thousands of objects are made that all stay, the search for garbage among them is put off."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 100


@contextmanager
def bulk(many: int) -> Iterator[None]:
    """Objects for so many queries are made; if these are many, without looking for cycles of garbage meanwhile.

    That search takes a fifth of the time, ever longer as the objects become more, and finds nothing.
    """
    if many < _MANY or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
