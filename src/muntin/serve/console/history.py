"""What a service did of late: a sample of its counters every few seconds, so that a page that is opened has a past.

Counters only grow; whoever draws them takes differences. Of each query the answers of the last minutes are counted.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import numpy as np
from fastapi.concurrency import run_in_threadpool

from muntin.arrays import Ints
from muntin.serve.json_text import json_value
from muntin.serve.metrics import resident_bytes
from muntin.serve.service import Service

SECONDS = 2.0  # between samples
_SAMPLES = 450  # a quarter of an hour
_EVERY = 5  # samples, between counts of the answers of each query
_COUNTS = 36  # of them: six minutes


class History:
    """Samples of one service; nobody waits for them."""

    def __init__(self, service: Service):
        self._service = service
        self._samples: deque[dict[str, Any]] = deque(maxlen=_SAMPLES)
        self._numbers: dict[int, int] = {}  # answers of each incarnation, when they were last counted
        self._counts: deque[tuple[Ints, Ints]] = deque(
            maxlen=_COUNTS
        )  # incarnations, and how many each gave since
        self._noted = 0

    def note(self) -> None:
        """Take a sample now."""
        self._samples.append(sample(self._service))
        if self._noted % _EVERY == 0:
            self._count_answers(dict(self._service.answers.numbers))  # a copy, while the writer goes on
        self._noted += 1

    def _count_answers(self, numbers: dict[int, int]) -> None:
        before = self._numbers
        if self._noted:  # the first time nobody knows since when
            given = {
                each: many for each, number in numbers.items() if (many := number - before.get(each, 0)) > 0
            }
            shape = len(given)
            self._counts.append(
                (np.fromiter(given, np.int64, shape), np.fromiter(given.values(), np.int64, shape))
            )
        self._numbers = numbers

    def samples(self, since: float = 0.0) -> list[dict[str, Any]]:
        """Those after an instant of the wall clock, the oldest first; at least the current one."""
        found = [each for each in list(self._samples) if each["at"] > since]
        return found or [sample(self._service)]

    def answers_of(self, incarnations: Iterable[int]) -> dict[int, list[int]]:
        """How many answers each gave in the last minutes, by ten seconds, the oldest first."""
        found = {each: [0] * len(self._counts) for each in incarnations}
        wanted = np.fromiter(found, np.int64, len(found))
        for place, (ids, given) in enumerate(list(self._counts)):
            for each in np.flatnonzero(np.isin(ids, wanted)):
                found[int(ids[each])][place] = int(given[each])
        return found

    @asynccontextmanager
    async def taken(self, *_: object) -> AsyncIterator[None]:
        """While this lasts, a sample is taken every few seconds."""

        async def go_on() -> None:
            while True:
                await run_in_threadpool(self.note)
                await asyncio.sleep(SECONDS)

        task = asyncio.create_task(go_on())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def sample(service: Service) -> dict[str, Any]:
    """The counters of a service as of now."""
    now, told = time.time(), service.engine.stats(queries=False)
    streams = {
        name: {
            "events": each["events"], "late": each["late"], "ahead": each["ahead"], "bytes": each["bytes"],
            "queries": each["queries"], "groups": each["groups"], "keys": each["keys"],
            "watermark": json_value(each["watermark"]), "lag": _lag(each["watermark"], now),
        }
        for name, each in told["streams"].items()
    }  # fmt: skip
    return {
        "at": now,
        "streams": streams,
        "tables": {name: each["rows"] for name, each in told["tables"].items()},
        "joins_bytes": sum(each["bytes"] for each in told["joins"]),
        "queries": sum(each["queries"] for each in (*told["streams"].values(), *told["joins"])),
        "answers": service.answers.rows,
        "waiting": service.waiting,
        "followers": service.answers.followers,
        "dropped": service.answers.dropped,
        "log_bytes": service.log_bytes,
        "answers_bytes": service.answers.nbytes,
        "memory": resident_bytes(),
        "ready": service.is_ready,
    }


def _lag(watermark: np.datetime64 | None, now: float) -> float | None:
    """Seconds that the watermark is behind the clock on the wall."""
    return None if watermark is None else round(now - watermark.astype(np.int64) / 1e6, 3)
