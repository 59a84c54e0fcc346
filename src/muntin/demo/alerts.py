"""Alerts: keys that newly satisfy a query's HAVING."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

QUIET = timedelta(minutes=1)


@dataclass(frozen=True)
class Alert:
    """A key that satisfied a query at an instant and had not done so before."""

    at: datetime
    query: str
    key: str
    values: Mapping[str, Any]

    def __str__(self) -> str:
        values = "  ".join(f"{name} {shown(value)}" for name, value in self.values.items())
        return f"{self.at:%H:%M:%S}  {self.query:<18} {self.key:<5} {values}"


@dataclass
class AlertWatch:
    """A key is news when it qualifies after a minute of event time without: one that hovers around
    its threshold is told once."""

    queries: tuple[str, ...]
    count: int = 0
    _qualified_at: dict[tuple[str, str], datetime] = field(default_factory=dict)

    def notice(self, answers: Mapping[str, pa.Table]) -> list[Alert]:
        """The alerts among freshly emitted answers; the first column of a watched query is its key."""
        found = []
        for query in self.queries:
            if query not in answers:
                continue
            for row in answers[query].to_pylist():
                at = row["window_end"]
                key = str(next(iter(row.values())))
                before = self._qualified_at.get((query, key))
                self._qualified_at[query, key] = at
                if before is None or at - before > QUIET:
                    found.append(Alert(at, query, key, _values(row)))
        self.count += len(found)
        return found


def shown(value: Any) -> str:
    """A value as people write it.

    >>> shown(1234567), shown(3.14159), shown(None)
    ('1,234,567', '3.14', 'NULL')
    """
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, datetime):
        return f"{value:%H:%M:%S}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    names = list(row)[1:-3]  # without the key and window_start, window_end, complete
    return {name: row[name] for name in names}
