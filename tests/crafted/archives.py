"""Reads mutants of archives, with all their checksums made right again, and goes on writing to them."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crafted.mutants import each_of, mutate_bytes, mutate_description, try_all
from muntin.archive import Archive, Definition, View

_TAIL = struct.Struct("<QI8s")
_COLUMNS = pa.schema([("k", pa.string()), ("n", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
_TIMED: dict[str, Any] = {"inputs": ("a", "b"), "sizes": (16, 16)}
KINDS = {
    "sorted": (Definition(_COLUMNS, ("k",), 16, 2, **_TIMED), "chronological 2x2"),
    "appended": (Definition(_COLUMNS, ("n", "k"), 16, 2, **_TIMED), "no_rebuild 2x2"),
    "unsorted": (Definition(_COLUMNS, ("n",), 16, 2), "none 2x2"),
    "counted": (Definition(_COLUMNS, ("k",), 16, 2, by_count=True, **_TIMED), "count_rebuild 2x2"),
    "negated": (Definition(_COLUMNS, ("k",), 16, 2), "rebuild 2x2"),
}


def results(now: int, definition: Definition) -> pa.Table:
    chance = np.random.default_rng(now)
    rows = 40
    columns = {
        "k": pa.array([f"key {number}" for number in chance.integers(0, 9, rows)]),
        "n": pa.array(chance.integers(0, 9, rows)),
        "a": pa.array(now - chance.integers(0, 3, rows)),
        "b": pa.array(now - chance.integers(0, 3, rows)),
        "generated_at": pa.array(np.full(rows, now)),
    }
    if not definition.by_count:
        columns["expires_at"] = pa.array(now + chance.integers(1, 16, rows))
    return pa.table(columns)


def update(archive: Archive, now: int) -> None:
    definition = archive.definition
    more: dict[str, Any] = {"counts": (now, now)} if definition.by_count else {}
    if definition.negated_on == ("k",) and not definition.inputs:
        more["invalidated"] = {"k": [f"key {now % 9}"], "invalidated_at": [now]}
    archive.update(now, results(now, definition), **more)


def write_all(folder: Path) -> None:
    """An archive of each kind."""
    for name, (definition, indexing) in KINDS.items():
        with Archive.create(folder / name, definition, indexing) as archive:
            for now in range(20, 32, 2):
                update(archive, now)


def read_and_use(folder: Path, chance: random.Random) -> None:
    """Mutate the directory, or a segment and all that is bound to it."""
    mutant = folder / "mutant"
    shutil.rmtree(mutant, ignore_errors=True)
    shutil.copytree(folder / chance.choice(sorted(KINDS)), mutant)
    description = json.loads((mutant / "directory").read_bytes()[40:])
    if chance.random() < 0.4:
        description = mutate_description(description, chance)
    else:
        path = chance.choice(sorted(mutant.glob("*.arrow")))
        content = _mutate_segment(path.read_bytes(), chance)
        path.write_bytes(content)
        _bind(description, path.name, content)
    body = json.dumps(description).encode()
    (mutant / "directory").write_bytes(b"MUNTAR01" + hashlib.sha256(body).digest() + body)
    each_of([View.open, _go_on], lambda use: _use(use(mutant)))


def _use(view: View) -> None:
    keys = [("key 1",), ("key 5",)] if view.definition.key == ("k",) else [(3,), (7,)]
    each_of(keys, view.probe)
    each_of([None], lambda _: view.read_all())
    each_of([None], lambda _: view.probe_range(keys[0], keys[1]))
    each_of([None], lambda _: view.stats())


def _go_on(folder: Path) -> View:
    with Archive.open(folder) as archive:
        for now in (32, 40):
            update(archive, now)
        archive.check()
        return archive.view


def _mutate_segment(content: bytes, chance: random.Random) -> bytes:
    length, _, version = _TAIL.unpack(content[-_TAIL.size :])
    body, trailer = content[: -_TAIL.size - length], content[-_TAIL.size - length : -_TAIL.size]
    how = chance.random()
    if how < 0.3:  # the blocks themselves
        body = mutate_bytes(body, chance)
        trailer = _rewritten(trailer, lambda blocks: _checksums(blocks, body))
    elif how < 0.8:  # what the trailer says of them
        trailer = _rewritten(trailer, lambda blocks: _mutate_blocks(blocks, chance))
    elif how < 0.95:
        trailer = mutate_bytes(trailer, chance)
    else:
        length = chance.choice((0, 1, len(content), 2**63, 2**31))
        return body + trailer + _TAIL.pack(length, zlib.crc32(trailer), version)
    return body + trailer + _TAIL.pack(len(trailer), zlib.crc32(trailer), version)


def _rewritten(trailer: bytes, change: Any) -> bytes:
    with pa.ipc.open_stream(trailer) as reader:
        batch = reader.read_next_batch()
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    change(columns)
    rows = min(map(len, columns.values()), default=0)
    batch = pa.record_batch({name: column[:rows] for name, column in columns.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _checksums(blocks: dict[str, pa.Array], body: bytes) -> None:
    places = zip(blocks["offset"].to_pylist(), blocks["length"].to_pylist(), strict=True)
    sums = [zlib.crc32(body[offset : offset + length]) for offset, length in places]
    blocks["checksum"] = pa.array(sums, pa.int64())


def _mutate_blocks(blocks: dict[str, pa.Array], chance: random.Random) -> None:
    name = chance.choice(sorted(blocks))
    column = blocks[name]
    if chance.random() < 0.1:
        del blocks[name]
    elif chance.random() < 0.1:
        blocks[name] = column[:0]
    elif pa.types.is_int64(column.type):
        numbers = (0, 1, -1, 8, 1000, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63), None)
        values = column.to_pylist()
        place = chance.randrange(len(values))
        by = chance.choice((-8, -1, 1, 8))
        values[place] = chance.choice(numbers) if chance.random() < 0.6 else values[place] + by
        blocks[name] = pa.array(values, pa.int64())
    else:
        blocks[name] = chance.choice((pa.nulls(len(column), column.type), pa.array(range(len(column)))))


def _bind(description: dict[str, Any], name: str, content: bytes) -> None:
    """Have the directory say of a segment what it now is."""
    length = _TAIL.unpack(content[-_TAIL.size :])[0]
    trailer = content[max(0, len(content) - _TAIL.size - length) : -_TAIL.size]
    checksum = hashlib.sha256(trailer).hexdigest()[:32]
    if description["log"] == name:
        description["log_checksum"] = checksum
    for index in description["indexes"]:
        for part in index["parts"]:
            for run in part["runs"]:
                if run["file"] == name:
                    run["checksum"], run["bytes"] = checksum, len(content)


if __name__ == "__main__":
    try_all(read_and_use)
