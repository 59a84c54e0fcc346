"""Sharing: which queries read which structures over which stores, by what rule, in how many bytes.

A *share* divides what is kept by those who read it: the bytes of a store by the number of queries that read it, the
bytes of a structure by the number of queries that it serves. The time that a store and a structure take per event is
divided in the same way. So the shares of all queries add up to all that is kept and spent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

from muntin.lane import Asked
from muntin.plan.choices import because_of
from muntin.plan.explain import Running
from muntin.plan.group import StoreId, WindowGroup
from muntin.plan.sharing_drawing import draw_sharing

_NAMED = 12  # queries of a group that JSON names; there may be thousands


class SharedStore(NamedTuple):
    """What is kept once for all that read it."""

    id: str  # among all stores of an engine
    stream: str
    kind: str  # ring, slices, stairs, sessions; log and matches of joins; table; archive
    title: str
    state: str  # what is in it, in words
    nbytes: int
    update_ns: float | None = None  # per event, if it was measured
    family: str = ""  # the same for stores that differ in nothing but their filter


class SharedGroup(NamedTuple):
    """A structure, the stores that it reads, and the queries that it serves."""

    id: str
    stream: str
    structure: str
    because: str
    stores: tuple[str, ...]
    queries: tuple[str, ...]
    windows: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    nbytes: int = 0  # of its own
    update_ns: float | None = None  # per event, if it was measured
    lookup_us: float | None = None  # of one window and one component
    lookups: int = 0


class Share(NamedTuple):
    """What one query reads, and its share of it."""

    groups: tuple[str, ...]
    stores: tuple[str, ...]
    nbytes: float  # its share
    shared_bytes: int  # all that it reads, whoever else does
    update_ns: float  # its share, per event
    lookup_us: float | None  # a window and a component of each of its groups; None if nobody has looked it up

    def as_json(self) -> dict[str, Any]:
        """As the server gives it."""
        return {
            "groups": list(self.groups), "stores": list(self.stores), "bytes": round(self.nbytes, 3),
            "shared_bytes": self.shared_bytes, "update_ns": round(self.update_ns, 3), "lookup_us": self.lookup_us,
        }  # fmt: skip


class Sharing:
    """All stores and structures of an engine, as of one instant. In a notebook it shows itself as a drawing."""

    def __init__(
        self,
        stores: Iterable[SharedStore],
        groups: Iterable[SharedGroup],
        part_of: Sharing | None = None,
        query: str = "",
    ):
        self._whole = part_of
        self.query = query  # whose part it is; empty for all
        self.stores = {each.id: each for each in stores}
        self.groups = {each.id: each for each in groups}

    @cached_property
    def groups_of(self) -> dict[str, list[SharedGroup]]:
        """By query."""
        found: dict[str, list[SharedGroup]] = {}
        for group in self.groups.values():
            for name in group.queries:
                found.setdefault(name, []).append(group)
        return found

    @cached_property
    def readers(self) -> dict[str, int]:
        """How many queries read each store, of all that there are."""
        if self._whole is not None:
            return self._whole.readers
        found: Counter[str] = Counter()
        for groups in self.groups_of.values():
            found.update({store for group in groups for store in group.stores})
        return {id: found[id] for id in self.stores}

    @property
    def nbytes(self) -> int:
        """Of all stores and structures."""
        stores = sum(each.nbytes for each in self.stores.values())
        return stores + sum(each.nbytes for each in self.groups.values())

    def share(self, query: str) -> Share:
        """What a query reads, and its share of it."""
        groups = self.groups_of.get(query, [])
        stores = [self.stores[id] for id in dict.fromkeys(id for each in groups for id in each.stores)]
        parts = [(each.nbytes, each.update_ns, self.readers[each.id]) for each in stores]
        parts += [(each.nbytes, each.update_ns, len(each.queries)) for each in groups]
        looked_up = [each.lookup_us for each in groups if each.lookup_us is not None]
        return Share(
            tuple(each.id for each in groups),
            tuple(each.id for each in stores),
            sum(nbytes / readers for nbytes, _, readers in parts),
            sum(nbytes for nbytes, _, _ in parts),
            sum((spent or 0.0) / readers for _, spent, readers in parts),
            sum(looked_up) if looked_up else None,
        )

    def of_query(self, query: str) -> Sharing:
        """The part that a query reads, with all others that read it."""
        groups = self.groups_of.get(query, [])
        stores = [self.stores[id] for id in dict.fromkeys(id for each in groups for id in each.stores)]
        return Sharing(stores, groups, self, query)

    def as_json(self) -> dict[str, Any]:
        """As the server gives it; of thousands of queries the first names of each group."""
        return {
            "queries": len(self.groups_of),
            "bytes": self.nbytes,
            "stores": [
                {**_told(each._asdict()), "readers": self.readers[each.id]} for each in self.stores.values()
            ],
            "groups": [
                {**_told(each._asdict()), "queries": len(each.queries), "names": list(each.queries[:_NAMED])}
                for each in self.groups.values()
            ],
        }

    def svg(self, is_styled: bool = True) -> str:
        """The drawing; without its style for pages that have it already."""
        return draw_sharing(self, is_styled)

    def _repr_html_(self) -> str:
        return self.svg()


def _told(described: dict[str, Any]) -> dict[str, Any]:
    return {"bytes" if name == "nbytes" else name: value for name, value in described.items()}


# Window groups at work, as they are shared.


def shared_store(stream: str, id: StoreId, number: int, running: Running) -> SharedStore:
    """The store of a group; `number` tells it from others of its stream."""
    store = running.synopsis.store
    family = "" if isinstance(id.where, Asked) else f"{stream}: {id.kind}{_by(None, id.keys)}"
    return SharedStore(
        f"{stream}/{number}", stream, id.kind, f"{id.kind}{_by(id.where, id.keys)}", str(store), store.nbytes(),
        running.store.updates.mean, family,
    )  # fmt: skip


def shared_group(stream: str, group: WindowGroup, store: str, running: Running) -> SharedGroup:
    """A group of a stream, over the store of that id."""
    asked = running.own.lookups
    return SharedGroup(
        f"{stream}#{group.number}",
        stream,
        group.synopsis,
        because_of(group),
        (store,),
        tuple(group.queries),
        tuple(str(window) for window in sorted(group.needs.windows)),
        tuple(sorted(map(str, group.needs.components))),
        running.synopsis.nbytes(),
        running.own.updates.mean,
        None if asked.mean is None else asked.mean / 1000,
        asked.total,
    )


def _by(where: Any, keys: tuple[Any, ...]) -> str:
    if isinstance(where, Asked):
        lanes = [
            *map(str, where.attributes),
            *([] if where.banded is None else [f"ranges of {where.banded}"]),
        ]
        per = f" by {', '.join(map(str, where.keys))}" if where.keys else ""
        rest = f" where {' AND '.join(map(str, where.rest))}" if where.rest else ""
        return f"{per}, a lane for each {' and '.join(lanes)}{rest}"
    keyed = f" by {', '.join(map(str, keys))}" if keys else ""
    return keyed + (f" where {where}" if where is not None else "")
