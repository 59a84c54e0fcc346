"""Reading ahead: a thread reads the next batches of a file while those before them are taken in.

To decode a file takes about as long as to fold its events, and neither needs Python's lock for most of that time.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")

_AHEAD = 4  # batches that wait at most


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items in their order, read by a thread; an error comes where it would have come. Whoever leaves off
    early waits for the item that is being read, no more.

    >>> list(read_ahead(iter("abcdef")))
    ['a', 'b', 'c', 'd', 'e', 'f']
    """
    read: queue.Queue[tuple[T] | BaseException | None] = queue.Queue(_AHEAD)  # None: that was all
    is_over = threading.Event()

    def work() -> None:
        end: BaseException | None = None
        try:
            for item in items:
                read.put((item,))
                if is_over.is_set():
                    break
        except BaseException as error:
            end = error
        finally:
            if close := getattr(items, "close", None):
                close()  # here, where it was read: it may hold a file
        read.put(end)

    thread = threading.Thread(target=work, name="muntin reading ahead", daemon=True)
    thread.start()
    try:
        while isinstance(found := read.get(), tuple):
            yield found[0]
        if found is not None:
            raise found
    finally:
        is_over.set()
        while thread.is_alive():  # it may wait for room
            try:
                read.get(timeout=0.01)
            except queue.Empty:
                continue
