"""The oracle: all results ever, in a list; what is alive is found by looking at each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from muntin.archive import Archive, Definition

COLUMNS = pa.schema([("k", pa.int64()), ("payload", pa.string()), ("a", pa.int64()), ("b", pa.int64())])


def definition(window: int = 16, every: int = 2, **more: Any) -> Definition:
    """Of a join of two windows of the same size, with the times of both inputs."""
    return Definition(COLUMNS, ("k",), window, every, inputs=("a", "b"), sizes=(window, window), **more)


def result(k: Any, a: int, b: int, window: int, payload: str = "") -> dict[str, Any]:
    """A match of two events, of times `a` and `b`."""
    return {"k": k, "payload": payload or f"{k} {a} {b}", "a": a, "b": b, "generated_at": max(a, b),
            "expires_at": min(a, b) + window}  # fmt: skip


def table(results: list[dict[str, Any]], names: Any) -> dict[str, list[Any]]:
    """Results as columns."""
    return {name: [each[name] for each in results] for name in names}


@dataclass
class Oracle:
    """Everything that was ever delivered."""

    results: list[dict[str, Any]] = field(default_factory=list)
    invalidations: list[tuple[Any, int]] = field(default_factory=list)
    now: int = 0
    counts: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()

    def alive(self, sizes: tuple[int, ...] = ()) -> list[dict[str, Any]]:
        """What the view must hold; over smaller windows if `sizes` are given."""
        return [each for each in self.results if self.is_alive(each) and self.is_inside(each, sizes)]

    def is_alive(self, each: dict[str, Any]) -> bool:
        if any(value == each["k"] and each["generated_at"] <= at for value, at in self.invalidations):
            return False
        if self.counts:
            places = zip((each["a"], each["b"]), self.sizes, self.counts, strict=True)
            return all(seen < position + size for position, size, seen in places)
        return each["generated_at"] <= self.now < each["expires_at"]

    def is_inside(self, each: dict[str, Any], sizes: tuple[int, ...]) -> bool:
        ends = self.counts or (self.now,) * len(sizes)
        places = zip((each["a"], each["b"]), sizes, ends, strict=True) if sizes else ()
        return all(place + size > end for place, size, end in places)


def deliver_counted(
    archive: Archive, oracle: Oracle, now: int, counts: tuple[int, ...], rows: list[dict[str, Any]]
) -> None:
    """Tell both of results of windows by count, whose expiry the archive guesses."""
    names = [name for name in archive.definition.schema.names if name != "expires_at"]
    archive.update(now, table(rows, names), counts=counts)
    oracle.results += rows
    oracle.now, oracle.counts = now, counts


def bag(rows: Any) -> Counter[Any]:
    """Rows without their order; nor their expiry, which may be a guess."""
    dicts = rows.to_pylist() if isinstance(rows, pa.Table) else rows
    return Counter(tuple(sorted(item for item in row.items() if item[0] != "expires_at")) for row in dicts)


def assert_agrees(archive: Archive, oracle: Oracle, keys: list[Any]) -> None:
    """Scan, probes and ranges give the oracle's multiset; scans and ranges in order; invariants hold."""
    view, alive = archive.view, oracle.alive()
    scanned = view.read_all()
    assert bag(scanned) == bag(alive)
    in_order = [row["k"] for row in scanned.to_pylist()]
    assert in_order == sorted(in_order)
    for key in keys:
        assert bag(view.probe(key)) == bag([each for each in alive if each["k"] == key])
    low, high = min(keys), max(keys)
    assert bag(view.probe_range(low, high)) == bag([each for each in alive if low <= each["k"] < high])
    above = view.probe_range(low, after_low=True)
    assert bag(above) == bag([each for each in alive if low < each["k"]])
    assert above["k"].to_pylist() == sorted(above["k"].to_pylist())
    archive.check()
