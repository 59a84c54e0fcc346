"""What an engine tells of itself: what is registered, its plan, who shares what, counters, rows of tables."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from muntin.answer import Coverage
from muntin.argument import count_of, switch_of, text_of, texts_of
from muntin.engine.catalog import Catalog, coverage_of, explain, query_stats, stats
from muntin.engine.sharing import Plan, sharing_of
from muntin.join_query import AnyQuery
from muntin.plan.sharing import Sharing
from muntin.sql.sources import Sources
from muntin.stream import Stream
from muntin.table import Table


class Inspected:
    """The part of an engine that changes nothing and looks no answer up."""

    _lock: threading.RLock
    _catalog: Catalog

    @property
    def streams(self) -> Mapping[str, Stream]:
        """Streams by name."""
        with self._lock:
            return self._catalog.streams

    @property
    def tables(self) -> Mapping[str, Table]:
        """Tables by name."""
        with self._lock:
            return MappingProxyType({name: each.table for name, each in self._catalog.tables.items()})

    @property
    def sources(self) -> Sources:
        """All that the FROM of a query may name: streams, tables and materialised views."""
        with self._lock:
            return self._catalog.sources

    @property
    def queries(self) -> Mapping[str, AnyQuery]:
        """Registered queries by name, in order of registration."""
        with self._lock:
            return MappingProxyType({name: self._catalog.query(name) for name in self._catalog.stream_of})

    def query(self, name: str) -> AnyQuery:
        """A registered query, in O(1)."""
        with self._lock:
            return self._catalog.query(text_of("name", name))

    def check(self) -> None:
        """Assert every invariant of the state; for tests and for the suspicious."""
        with self._lock:
            self._catalog.check()

    def coverage(self, name: str) -> Coverage:
        """Whether the windows of a query, join or view lie within what is known of the stream, and from when on they
        will: what `complete` says, also of a query that has no row to say it."""
        with self._lock:
            return coverage_of(self._catalog, text_of("name", name))

    def explain(self, name: str | None = None) -> Plan:
        """The plan: which queries share which state, why, at what predicted and measured cost; of one
        query or of all. A text, which a notebook draws as well."""
        if name is not None:
            text_of("name", name)
        with self._lock:
            plan, sharing = Plan(explain(self._catalog, name)), sharing_of(self._catalog)
        plan.sharing = sharing if name is None else sharing.of_query(name)
        return plan

    def sharing(self) -> Sharing:
        """Which queries read which structures over which stores, by what rule, in how many bytes; `share(name)` of
        what it returns has the share of one query. A notebook draws it."""
        with self._lock:
            return sharing_of(self._catalog)

    def _repr_html_(self) -> str:
        return self.sharing().svg()

    def stats(self, *, queries: bool = True) -> dict[str, Any]:
        """Counters: events admitted, late and ahead, watermark, bytes and costs by stream; answers by query. Without
        `queries`, only what takes no longer for thousands of queries: no answers, and no costs."""
        with self._lock:
            return stats(self._catalog, switch_of("queries", queries))

    def query_stats(self, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """What `stats` has of queries, of some of them."""
        chosen = texts_of("names", names)
        with self._lock:
            return {name: query_stats(self._catalog, name) for name in chosen}

    def table_rows(self, table: str, offset: int = 0, limit: int = 1_000) -> tuple[int, pa.Table]:
        """How many rows a table has, and a page of them, in the order they were inserted."""
        count_of("offset", offset)
        count_of("limit", limit)
        with self._lock:
            rows = self._catalog.table(text_of("table", table))
            found = rows.read(rows.slots[offset : offset + limit], rows.table.schema.names)
            return len(rows), pa.table(found, schema=rows.table.schema)
