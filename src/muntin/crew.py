"""A crew: threads that share pieces of work with whoever has some to do.

Kernels, Arrow and NumPy let go of Python's lock, so pieces that are made of them run side by side. Whoever shares work
takes part in it, and waits for nothing but pieces that another has begun. So pieces may share work in their turn, and
all is done also if nobody comes to help (in a process that was forked, threads are gone).
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")
MOST_THREADS = 1_024
FEW = 16_384  # events to be folded per key, or slots of an answer: less is not worth waking a thread for
# so many times as many where each takes a few nanoseconds: filters, keys to ids, stores without keys
QUICK = 4


class Crew:
    """As many threads as are said, the one that has the work among them.

    >>> Crew(2).share([lambda: 1, lambda: 2, lambda: 3])
    [1, 2, 3]
    """

    def __init__(self, threads: int):
        self.threads = threads
        self._offers: SimpleQueue[_Work | None] = SimpleQueue()
        for number in range(1, threads):
            threading.Thread(target=_help, args=(self._offers,), name=f"muntin-{number}", daemon=True).start()
        weakref.finalize(self, _dismiss, self._offers, threads - 1)

    def share(self, pieces: Sequence[Callable[[], Result]]) -> list[Result]:
        """What each piece returns, in their order. All are done before the first error among them is raised."""
        if self.threads == 1 or len(pieces) < 2:
            return [piece() for piece in pieces]
        work = _Work(pieces)
        for _ in range(min(self.threads, len(pieces)) - 1):
            if self._offers.qsize() < self.threads:  # more would be left over from those that came too late
                self._offers.put(work)
        work.do()
        return work.results()

    def fit_for(self, elements: int) -> Crew:
        """Itself, or one thread alone if there are so few elements to be worked on that one is as fast."""
        return self if elements >= FEW else ALONE


class _Work:
    """Pieces, each done by who takes it first."""

    def __init__(self, pieces: Sequence[Callable[[], Any]]):
        self._pieces = pieces
        self._number = itertools.count()
        self._done: SimpleQueue[int] = SimpleQueue()
        self._results: list[Any] = [None] * len(pieces)
        self._errors: list[BaseException | None] = [None] * len(pieces)

    def do(self) -> None:
        """Take pieces until none is left."""
        pieces = self._pieces
        for number in self._number:
            if number >= len(pieces):
                return
            try:
                self._results[number] = pieces[number]()
            except BaseException as error:
                self._errors[number] = error
            self._done.put(number)

    def results(self) -> list[Any]:
        """Of all pieces, when those are done that others have taken."""
        interrupted: BaseException | None = None
        for _ in range(len(self._pieces)):
            while True:
                try:
                    self._done.get()
                    break
                except BaseException as error:  # Ctrl-C: nobody may be at work on a state that is left
                    interrupted = error
        self._pieces = ()  # they hold arrays, and an offer may be kept for a while
        for each in (interrupted, *self._errors):
            if each is not None:
                raise each
        return self._results


def _help(offers: SimpleQueue[_Work | None]) -> None:
    while (work := offers.get()) is not None:
        work.do()
        del work  # not to be kept until the next one comes


def _dismiss(offers: SimpleQueue[_Work | None], threads: int) -> None:
    for _ in range(threads):
        offers.put(None)


ALONE = Crew(1)


def pieces_of(count: int, parts: int) -> list[slice]:
    """So many elements, cut into parts of about the same length.

    >>> pieces_of(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    edges = [count * part // parts for part in range(parts + 1)]
    return [slice(lo, hi) for lo, hi in itertools.pairwise(edges)]
