"""Scans run by run give what a view gives between the same bounds, and open only what can hold it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from effort import some_of
from muntin.archive import Archive, Definition, View
from muntin.archive.scan import Bounds, RunScan
from muntin.archive.segment import Segment

LABELS = {
    False: ("rebuild 2x2", "no_rebuild 3x3", "lazy_rebuild 3x2", "wata 3", "reindex 3", "none 2x2"),
    True: ("rebuild 2x2", "no_rebuild 3x3", "count_rebuild 4x2", "reindex 3", "none 2x2"),
}
COLUMNS = [("k", pa.string()), ("n", pa.int64()), ("at", pa.int64()), ("to", pa.int64())]
KEYS = ["a", "b", "c", "d", None]
SIZES = (24, 16)


def made(folder: Path, label: str, by_count: bool, random: np.random.Generator, updates: int = 14) -> Archive:
    """An archive of pairs, with values that have ended before their time."""
    definition = Definition(pa.schema(COLUMNS), ("k", "n"), 16, 2, ("at", "to"), SIZES, by_count, ("k",))
    archive, seen = Archive.create(folder, definition, label), np.zeros(2, np.int64)
    for now in range(2, 2 * updates + 2, 2):
        many = int(random.integers(0, 30))
        seen += random.integers(1, 4, 2)
        ends = seen if by_count else np.array([now, now])
        places = [
            np.maximum(1, end - random.integers(0, size, many)) for end, size in zip(ends, SIZES, strict=True)
        ]
        expires = -(-np.minimum(places[0] + SIZES[0], places[1] + SIZES[1]) // 2) * 2
        rows: dict[str, Any] = {
            "k": pa.array([KEYS[at] for at in random.integers(0, 5, many)], pa.string()),
            "n": random.integers(0, 6, many), "at": places[0], "to": places[1], "generated_at": np.full(many, now),
        }  # fmt: skip
        if not by_count:
            rows["expires_at"] = np.minimum(expires, now + 16)
        ended = {"k": pa.array(["b"][: int(random.integers(0, 2))], pa.string())}
        ended["invalidated_at"] = pa.array(np.full(len(ended["k"]), now))
        archive.update(now, rows, invalidated=pa.table(ended), counts=seen.tolist() if by_count else None)
    return archive


def bag(tables: Any) -> list[tuple[Any, ...]]:
    rows = [row for table in tables for row in table.select([name for name, _ in COLUMNS]).to_pylist()]
    return sorted((tuple(row.values()) for row in rows), key=repr)


@pytest.mark.parametrize(
    ("by_count", "label"), [(by, label) for by, some in LABELS.items() for label in some]
)
@pytest.mark.parametrize("seed", range(some_of(6, 17)))
def test_gives_what_a_view_gives(
    tmp_path: Path, label: str, by_count: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muntin.archive.segment.MOST_BLOCK_ROWS", 8)
    monkeypatch.setattr("muntin.archive.segment.FEWEST_BLOCK_ROWS", 8)
    random = np.random.default_rng(seed)
    with made(tmp_path / "v", label, by_count, random) as archive:
        archive.check()
        view = View.open(tmp_path / "v")
    found = 0
    for bounds in [{}, {"key": "b"}, {"key": ("c", 3)}, {"key": "z"}, {"key": (None,)}, {"low": "b"}, {"high": "c"},
                   {"low": ("a", 2), "high": ("d", 1)}, {"low": "c", "high": "b"}]:  # fmt: skip
        for sizes in (None, SIZES, (10, 10), (20, 3), (1, 1)):
            if "key" in bounds:
                wanted = view.probe(bounds["key"], sizes)
            else:
                wanted = view.probe_range(bounds.get("low"), bounds.get("high"), sizes=sizes)
            scan, runs = RunScan.plan(tmp_path / "v", view, Bounds.of(view, **bounds), sizes)
            read = [batch for run in runs for batch in scan.read(run)]
            assert bag(read) == bag([wanted]), (bounds, sizes)
            found += wanted.num_rows
    assert found > 50


def test_opens_what_can_hold_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten parts, those whose results are young enough; of their blocks, those with the key."""
    monkeypatch.setattr("muntin.archive.segment.MOST_BLOCK_ROWS", 64)
    opened: list[Path] = []
    blocks: list[int] = []
    definition = Definition(pa.schema(COLUMNS), ("k",), 20, 2, ("at", "to"), (20, 20))
    with Archive.create(tmp_path / "v", definition, "rebuild 10x1") as archive:
        keys = [f"key {number:04d}" for number in range(1000)]
        for now in range(2, 22, 2):
            places = np.full(1000, now)
            archive.update(now, {"k": keys, "n": places, "at": places, "to": places,
                                 "generated_at": places, "expires_at": places + 20})  # fmt: skip
    view = View.open(tmp_path / "v")
    assert len(list(view.epoch.runs())) == 10
    begin, block = Segment.__init__, Segment.block
    monkeypatch.setattr(
        Segment, "__init__", lambda self, path, *more: (opened.append(path), begin(self, path, *more))[1]
    )
    monkeypatch.setattr(
        Segment, "block", lambda self, number: (blocks.append(number), block(self, number))[1]
    )

    def read(bounds: dict[str, Any], sizes: Any = None) -> tuple[int, int, int]:
        """Rows found, segments opened, and different blocks read of each, together."""
        opened.clear()
        scan, runs = RunScan.plan(tmp_path / "v", view, Bounds.of(view, **bounds), sizes)
        assert not opened, "planned without reading anything"
        rows = many = 0
        for run in runs:
            blocks.clear()
            rows += sum(len(each) for each in scan.read(run))
            many += len(set(blocks))
        return rows, len(opened), many

    assert read({}) == (10_000, 10, 160)
    assert read({"key": "key 0500"}) == (10, 10, 10)
    assert read({"key": "key 0500"}, (4, 20)) == (2, 2, 2)
    assert read({}, (4, 4)) == (2_000, 2, 32)
    assert read({"key": "a"}) == (0, 0, 0)  # before the first row of all
    assert read({"low": "key 0100", "high": "key 0200"}) == (1_000, 10, 30)
    assert read({"low": "key 0200", "high": "key 0100"})[0] == 0
