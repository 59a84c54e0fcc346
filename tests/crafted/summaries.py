"""Merges mutants of summaries: of their characters, and of what is in them, with right checksums."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crafted.mutants import each_of, mutate_arrays, mutate_bytes, mutate_description, try_all
from muntin import Engine, MuntinError, merge_summaries

CALLS = {
    "floats": "APPROX_QUANTILE_SUMMARY(x, 0.1)",
    "integers": "APPROX_QUANTILE_SUMMARY(n, 0.1)",
    "words": "APPROX_COUNT_SUMMARY(w, 0.1)",
    "numbers": "APPROX_COUNT_SUMMARY(n, 0.1)",
    "sampled": "APPROX_COUNT_SUMMARY(w, 0.1, 0.1)",
}


def write_all(folder: Path) -> None:
    """A text of each kind."""
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, w VARCHAR, x DOUBLE, n BIGINT) TIMESTAMP BY ts")
    for name, call in CALLS.items():
        engine.register(f"SELECT {call} AS t FROM s [RANGE 1 HOUR]", name)
    chance, count = np.random.default_rng(1), 20_000
    words = np.array([f"word {number}" for number in range(200)])
    engine.push(
        "s",
        {
            "ts": np.arange(count) * 1000,
            "w": words[chance.zipf(1.3, count) % 200],
            "x": chance.normal(size=count),
            "n": chance.integers(0, 500, count),
        },
    )
    for name in CALLS:
        (folder / name).write_text(engine.value(name))


def read_and_use(folder: Path, chance: random.Random) -> None:
    name = chance.choice(sorted(CALLS))
    text = (folder / name).read_text()
    if chance.random() < 0.3:  # a few characters: never goes unnoticed
        changed = _other_characters(text, chance)
        try:
            merge_summaries([changed, text])
        except MuntinError:
            return
        raise AssertionError(f"{name} with other characters was merged")
    _use([_crafted(text, chance), text])


def _other_characters(text: str, chance: random.Random) -> str:
    characters = list(text)
    while "".join(characters) == text:
        for _ in range(chance.randint(1, 4)):
            characters[chance.randrange(len(text))] = chance.choice("abcdefXYZ0123456789+/=")
    return "".join(characters)


def _crafted(text: str, chance: random.Random) -> str:
    """With right checksums; also as version 0.1.0 wrote texts."""
    stream = zlib.decompress(base64.b64decode(text)[40:])
    if chance.random() < 0.3:
        stream = mutate_bytes(stream, chance)
    else:
        stream = _rewritten(stream, chance, "zstd" if chance.random() < 0.3 else None)
    if stream[:4] == b"\xff" * 4 and chance.random() < 0.3:
        return base64.b64encode(stream).decode()
    body = zlib.compress(stream)
    return base64.b64encode(b"MUNTSU02" + hashlib.sha256(body).digest() + body).decode()


def _rewritten(stream: bytes, chance: random.Random, compression: str | None) -> bytes:
    with pa.ipc.open_stream(stream) as reader:
        about, batch = json.loads(reader.schema.metadata[b"muntin"]), reader.read_next_batch()
    columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
    if chance.random() < 0.5:
        about = mutate_description(about, chance)
    else:
        numbers = {each: column.to_numpy() for each, column in columns.items() if column.type == pa.int64()}
        mutate_arrays(numbers, chance)
        columns |= {each: pa.array(column) for each, column in numbers.items()}
        rows = chance.choice([min, max])(map(len, columns.values()))
        columns = {
            each: pa.concat_arrays([column, pa.nulls(max(0, rows - len(column)), column.type)])[:rows]
            for each, column in columns.items()
        }
    changed = pa.record_batch(columns).replace_schema_metadata({"muntin": json.dumps(about)})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, changed.schema, options=options) as writer:
        writer.write_batch(changed)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _use(texts: list[str]) -> None:
    merged: Any = merge_summaries(texts)
    if hasattr(merged, "quantile"):
        merged.quantiles([0.001, 0.5, 1.0])
    else:
        merged.frequent(0.1)
        each_of(merged.value.to_pylist()[:3], merged.bounds)
    assert merged.count >= 0
    merge_summaries([merged.to_text(), texts[1]])


if __name__ == "__main__":
    try_all(read_and_use)
