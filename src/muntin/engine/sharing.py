"""What an engine shares: stores and structures of its streams, joins, tables and views; a plan that shows it."""

from __future__ import annotations

from html import escape

from muntin.engine.catalog import Catalog
from muntin.join.operator import shared_joins
from muntin.plan.sharing import SharedGroup, SharedStore, Sharing
from muntin.table_query import TableQuery

_TABLE_RULE = "rows of a table, found by key: each may be a rule of its own"
_VIEW_RULE = "results are kept on disk, to be asked for later"


def sharing_of(catalog: Catalog) -> Sharing:
    """All that is shared, as of now; O(groups), beside the names of their queries."""
    parts = [each.sharing() for each in catalog.shards.values()]
    parts += [shared_joins(catalog.joins), _tables(catalog), _views(catalog)]
    return Sharing([each for some, _ in parts for each in some], [each for _, some in parts for each in some])


def _tables(catalog: Catalog) -> tuple[list[SharedStore], list[SharedGroup]]:
    """Tables that queries join; the others are shared by nobody."""
    readers: dict[str, list[str]] = {}
    for shard in catalog.shards.values():
        for query, registration in shard.registrations.items():
            if isinstance(registration.joined, TableQuery):
                for table in registration.joined.tables:
                    readers.setdefault(table.name, []).append(query)
    stores = [
        SharedStore(
            f"table/{name}", "", "table", f"table {name}", f"{len(catalog.tables[name]):,} rows",
            catalog.tables[name].nbytes(),
        )
        for name in readers
    ]  # fmt: skip
    groups = [
        SharedGroup(f"table#{name}", "", "table", _TABLE_RULE, (f"table/{name}",), tuple(queries))
        for name, queries in readers.items()
    ]
    return stores, groups


def _views(catalog: Catalog) -> tuple[list[SharedStore], list[SharedGroup]]:
    """Archives of views that are kept up to date."""
    stores, groups = [], []
    for name, told in catalog.views.stats().items():
        if name in catalog.views.at_work and "damaged" not in told:
            id, title = f"archive/{name}", f"archive of {name}, on disk"
            stores.append(
                SharedStore(id, "", "archive", title, f"{told['results']:,} results", told["bytes"])
            )
            groups.append(SharedGroup(f"view#{name}", "", "view", _VIEW_RULE, (id,), (name,)))
    return stores, groups


class Plan(str):
    """What `explain` says, as a text; a notebook draws it."""

    sharing: Sharing | None = None

    def _repr_html_(self) -> str:
        drawing = "" if self.sharing is None else self.sharing.svg()
        return f"{drawing}<pre>{escape(self)}</pre>"
