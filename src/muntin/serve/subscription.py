"""A subscription: answers as server-sent events, from a place on.

What has come before is sent here. Once a subscription has caught up, its connection is given to the crier
(`crier.py`), which sends it all that comes; unless there is none, TLS is spoken, or it is to end after some time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from math import inf

from fastapi.concurrency import run_in_threadpool

from muntin.serve.corked import Corked
from muntin.serve.portion import Cursor, Portion, events_of
from muntin.serve.service import Service

_BEAT = 15.0  # seconds after which a silent subscription says that it is there
_TURNS = 3  # of the event loop, in which what was written goes out


def subscription(
    service: Service,
    cursor: Cursor | None,
    queries: frozenset[str] | None,
    seconds: float | None = None,
    connection: Corked | None = None,
) -> AsyncIterator[bytes]:
    """Answers behind a cursor (None: those to come) of some queries (None: all), for so long (None: without an end);
    `Gone` if they are not kept. They go out by `connection`, which the crier may be given."""
    loop, woken = asyncio.get_running_loop(), asyncio.Event()
    end = inf if seconds is None else loop.time() + seconds

    def wake() -> None:
        with suppress(RuntimeError):  # a loop that has ended has nobody to wake
            loop.call_soon_threadsafe(woken.set)

    missed, follower = service.answers.follow(cursor, wake)

    def events(portion: Portion) -> bytes:
        if queries is None and (cursor is None or portion.place > cursor[:2]):
            return portion.events
        return events_of(
            row
            for row in portion.rows
            if (queries is None or row[1] in queries) and (cursor is None or row[0] > cursor)
        )

    async def is_given_away() -> bool:
        if connection is None or seconds is not None:
            return False
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        opened = connection.opened()
        return opened is not None and service.answers.hand_over(follower, opened, queries)

    async def told() -> AsyncIterator[bytes]:
        try:
            yield b": muntin\n\n"
            kept = service.answers.between(missed[0], missed[-1]) if missed else iter(())
            while portion := await run_in_threadpool(next, kept, None):
                yield events(portion)
            while not (follower.is_dropped or follower.is_over) and service.is_ready:
                woken.clear()
                while portion := follower.next():
                    yield events(portion)
                if await is_given_away():
                    assert connection is not None
                    connection.abort()  # here it is closed; the crier has it open
                    await asyncio.sleep(_BEAT)  # until the framework notices
                    return
                if (left := end - loop.time()) <= 0:
                    break
                try:
                    await asyncio.wait_for(woken.wait(), min(_BEAT, left))
                except TimeoutError:
                    yield b": still here\n\n"
            if follower.is_dropped:
                yield b"event: dropped\ndata: this subscription was too slow; go on with Last-Event-ID\n\n"
        finally:
            service.answers.leave(follower)

    return told()
