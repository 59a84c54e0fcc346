"""What a service tells of its queries: text, shape, answers given, and the share of each in what is kept and spent.

The share of a query is defined in `plan/sharing.py`. Sharing is looked at once a second at most, whoever asks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from muntin.join_query import AnyQuery
from muntin.plan.sharing import Sharing
from muntin.serve.console.history import History
from muntin.serve.json_text import json_value
from muntin.serve.service import Service

Order = Literal["registered", "name", "answers", "bytes", "update_ns"]
_FRESH = 1.0  # seconds for which sharing is not looked at again


class QueryFacts:
    """Of all queries of one service."""

    def __init__(self, service: Service, history: History):
        self._service, self._history = service, history
        self._lock = threading.Lock()
        self._seen: tuple[float, Sharing] | None = None
        self._named: tuple[object, Mapping[str, AnyQuery]] = None, {}

    def sharing(self, name: str | None = None) -> Sharing:
        """Who shares what, as of the last second; of all, or what one query reads."""
        with self._lock:
            if self._seen is None or time.monotonic() - self._seen[0] > _FRESH:
                self._seen = time.monotonic(), self._service.engine.sharing()
            found = self._seen[1]
        if name is None:
            return found
        self._service.engine.query(name)
        if name not in found.groups_of:  # it came after the last look
            found = self._service.engine.sharing()
        return found.of_query(name)

    def _queries(self) -> Mapping[str, AnyQuery]:
        """All queries by name. The engine, who lists them in O(queries), is asked after statements alone: each of them
        gives the service another mapping of streams."""
        since = self._service.streams
        if self._named[0] is not since:
            self._named = since, self._service.engine.queries
        return self._named[1]

    def page(self, search: str, order: Order, offset: int, limit: int) -> dict[str, Any]:
        """Queries whose name or text has a word in it, so many of them from one on."""
        word = search.lower()
        found = [
            (name, query)
            for name, query in self._queries().items()
            if word in name.lower() or word in query.text.lower()
        ]
        if order != "registered":
            found.sort(key=self._sorted_by(order))
        chosen = dict(found[offset : offset + limit])
        incarnations = {name: self._service.incarnation(name) or 0 for name in chosen}
        recent = self._history.answers_of(incarnations.values())
        sharing = self.sharing()
        rows = [
            {
                **self.told(name, query), "cost": sharing.share(name).as_json(), "recent": recent[incarnations[name]]
            }
            for name, query in chosen.items()
        ]  # fmt: skip
        return {"total": len(found), "offset": offset, "queries": rows}

    def one(self, name: str, has_plan: bool) -> dict[str, Any]:
        """Of one query, also its counters and its plan, which takes a while among thousands."""
        query, engine = self._service.engine.query(name), self._service.engine
        incarnation = self._service.incarnation(name) or 0
        state = {each: json_value(value) for each, value in engine.query_stats([name])[name].items()}
        told = {
            **self.told(name, query),
            "cost": self.sharing(name).share(name).as_json(),
            "recent": self._history.answers_of([incarnation])[incarnation],
            "complete": state["complete"],
            "state": state,
        }
        return {**told, "plan": str(engine.explain(name))} if has_plan else told

    def told(self, name: str, query: AnyQuery) -> dict[str, Any]:
        """What can be said of a query without a look at others."""
        incarnation = self._service.incarnation(name)
        schema = query.answer_schema()
        return {
            "name": name,
            "sql": query.text,
            "incarnation": incarnation,
            "answers": self._service.answers.numbers.get(incarnation or 0, 0),
            "streams": [each.name for each in query.streams],
            "keys": [each.name for each in query.keys],
            "slide": query.slide,
            "columns": {field.name: str(field.type) for field in schema},
            "emits_changes": query.emits_changes,
        }

    def _sorted_by(self, order: Order) -> Callable[[tuple[str, AnyQuery]], Any]:
        if order == "name":
            return lambda each: each[0]
        if order == "answers":
            numbers, of = self._service.answers.numbers, self._service.incarnation
            return lambda each: -numbers.get(of(each[0]) or 0, 0)
        sharing = self.sharing()
        if order == "bytes":
            return lambda each: -sharing.share(each[0]).nbytes
        return lambda each: -sharing.share(each[0]).update_ns
