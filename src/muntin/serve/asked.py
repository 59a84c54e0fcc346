"""Look-ups that requests ask for: each in the time that it may take, and all of them timed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any

import pyarrow as pa
from anyio import to_thread

from muntin.errors import SchemaError
from muntin.join_query import JoinQuery
from muntin.serve.access import Limits
from muntin.serve.service import Service
from muntin.serve.settings import TooSlow
from muntin.serve.shortcut import Rows
from muntin.serve.wire import instant_of, json_or_text, key_of


class Asked:
    """Look-ups in a service."""

    def __init__(self, service: Service, limits: Limits):
        self._service, self._limits = service, limits
        self._latency = service.look_ups.latency

    async def in_time(self, work: Callable[[], pa.Table]) -> pa.Table:
        """What a look-up gives, unless it takes longer than it may. Nobody stops it then, but nobody waits for it."""
        began = perf_counter()
        try:
            found = to_thread.run_sync(work, abandon_on_cancel=True)
            table = await asyncio.wait_for(found, self._limits.lookup_seconds or None)
        except TimeoutError:
            raise self._too_slow(began) from None
        self._latency.take(perf_counter() - began)
        return table

    def at_once(self, name: str, key: str) -> Rows | None:
        """The answer of one key, given as JSON or as a text without quotes; None if the engine is at work."""
        began, given = perf_counter(), json_or_text(key)
        service = self._service
        rows = service.look_ups.at_once(lambda: service.engine.rows(name, self.key(name, given)))
        if rows is not None:
            self._latency.take(perf_counter() - began)
        return rows

    async def one_key(self, name: str, key: str, at: str | None) -> Rows:
        """The same, whatever the engine does, and at any instant."""
        began, given, instant = perf_counter(), json_or_text(key), instant_of(at)
        service = self._service
        try:
            rows = await service.look_ups.ask(
                lambda: service.engine.rows(name, self.key(name, given), instant), self._limits.lookup_seconds
            )
        except TimeoutError:
            raise self._too_slow(began) from None
        self._latency.take(perf_counter() - began)
        return rows

    def key(self, name: str, given: Any) -> Any:
        """A key of a query as JSON has it, as the engine takes it."""
        query = self._service.engine.query(name)
        if isinstance(query, JoinQuery) or not query.keys:
            raise SchemaError(f"query '{name}' has no keys to look up by")
        return key_of(given, [(each.name, each.expression.type) for each in query.keys])

    def _too_slow(self, began: float) -> TooSlow:
        self._latency.take(perf_counter() - began)
        return TooSlow(self._limits.lookup_seconds)
