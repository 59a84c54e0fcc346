"""Look-ups beside the writer: at once if the engine is free, otherwise as soon as it is.

One key is read in less time than it takes to hand it to another thread. So the thread that asks reads it, unless the
engine is at work for another one. Then the look-up waits in line, and whoever has the engine next answers all that
wait: the writer, between two changes and between the steps of an `advance`, or a thread that does nothing else. Without
the line the writer would starve look-ups: it lets go of the engine for moments only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from muntin.engine import Engine
from muntin.serve.latency import Latency

T = TypeVar("T")


class LookUps:
    """The line of look-ups that wait for an engine.

    >>> look_ups = LookUps(Engine())
    >>> asyncio.run(look_ups.ask(lambda: 7))
    7
    >>> look_ups.close()
    """

    def __init__(self, engine: Engine):
        self._engine = engine
        self.latency = Latency()  # of those that requests ask for
        self._line: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._thread = ThreadPoolExecutor(1, "muntin look-ups")
        engine.pause = self.answer

    def at_once(self, work: Callable[[], T]) -> T | None:
        """What a quick look-up gives; None if the engine is at work."""
        with self._engine.alone(wait=False) as is_free:
            return work() if is_free else None

    async def ask(self, work: Callable[[], T], seconds: float = 0) -> T:
        """What a quick look-up gives, which is not None; a TimeoutError if it has to wait for longer than so many
        seconds, if any."""
        if (found := self.at_once(work)) is not None:
            return found
        done: Future[T] = Future()
        self._line.append((work, done))
        if len(self._line) == 1:  # else whoever answers those before it answers it, too
            self._thread.submit(self.answer)
        return await asyncio.wait_for(asyncio.wrap_future(done), seconds or None)

    def answer(self) -> None:
        """Answer all that wait; O(1) if there are none."""
        if not self._line:
            return
        with self._engine.alone():
            while self._line:
                work, done = self._line.popleft()
                if done.set_running_or_notify_cancel():
                    try:
                        done.set_result(work())
                    except BaseException as error:
                        done.set_exception(error)

    def close(self) -> None:
        """Answer what waits, and no more."""
        self._thread.shutdown()
