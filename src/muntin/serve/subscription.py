"""A subscription: answers as server-sent events, from a place on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from math import inf

from fastapi.concurrency import run_in_threadpool

from muntin.serve.answers import Cursor, Portion, event
from muntin.serve.service import Service

_BEAT = 15.0  # seconds after which a silent subscription says that it is there


def subscription(
    service: Service, cursor: Cursor | None, queries: frozenset[str] | None, seconds: float | None = None
) -> AsyncIterator[bytes]:
    """Answers behind a cursor (None: those to come) of some queries (None: all), for so long (None: without an end);
    `Gone` if they are not kept."""
    loop, woken = asyncio.get_running_loop(), asyncio.Event()
    end = inf if seconds is None else loop.time() + seconds

    def wake() -> None:
        with suppress(RuntimeError):  # a loop that has ended has nobody to wake
            loop.call_soon_threadsafe(woken.set)

    missed, follower = service.answers.follow(cursor, wake)

    def events(portion: Portion) -> bytes:
        if queries is None and (cursor is None or portion.place > cursor[:2]):
            return portion.events
        return b"".join(
            event(here, name, told)
            for here, name, told in portion.rows
            if (queries is None or name in queries) and (cursor is None or here > cursor)
        )

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
