"""Probing an archive of five million results: one key, warm, by index and type of key, beside a scan."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import Column, Result
from muntin.archive import EXPIRES, GENERATED, Archive, Definition

RESULTS, QUICK_RESULTS = 5_000_000, 50_000
KEYS = 100_000
UPDATES = 36
PROBES = 500
KINDS = {"integers": pa.int64(), "texts": pa.string()}
LABELS = ("reindex 1", "rebuild 2x2", "rebuild 4x4", "no_rebuild 4x4")
COLUMNS = [
    Column("kind", "keys"), Column("label", "index"), Column("runs", "runs", "d"),
    Column("found", "results found", ".0f"), Column("probe_ms", "probe, ms", ".3f"), Column("cpu_ms", "CPU, ms", ".3f"),
    Column("slow_ms", "99 of 100 below, ms", ".3f"), Column("scan_s", "scan, s", ".2f"),
    Column("scan_cpu_s", "CPU, s", ".2f"),
]  # fmt: skip
NOTES = f"""\
{RESULTS:,} results of a key, a number and two times are alive, with {KEYS:,} keys; two updates have passed since
they were loaded. A probe finds all results with one key, drawn at random and probed before, so that its blocks have
been compared with their checksums; median of {PROBES}. A scan reads everything in the order of keys. Numbers of
results found are compared with NumPy."""


def run(quick: bool) -> Result:
    """Measure every index with both types of keys."""
    results, keys = (QUICK_RESULTS, 1_000) if quick else (RESULTS, KEYS)
    rows = [measure(label, kind, results, keys) for kind in KINDS for label in LABELS]
    return Result(
        name="archive_probes",
        title="Probes of an archive",
        notes=" ".join(NOTES.split()),
        columns=COLUMNS,
        rows=rows,
        parameters={"results": results, "keys": keys, "probes": PROBES},
    )


def measure(label: str, kind: str, results: int, keys: int) -> dict[str, Any]:
    """One row: an archive is loaded, updated twice, probed and scanned."""
    folder = Path(tempfile.mkdtemp(prefix="muntin-benchmark-"))
    try:
        window = UPDATES * 1_000
        columns = pa.schema([("k", KINDS[kind]), ("x", pa.float64())])
        with Archive.create(folder / "a", Definition(columns, ("k",), window, 1_000), label) as archive:
            return probe(archive, kind, *load(archive, kind, results, keys), keys)
    finally:
        shutil.rmtree(folder)


def load(archive: Archive, kind: str, results: int, keys: int) -> tuple[Any, Any]:
    """Fill a window and two updates more; keys and expiry of everything, as NumPy sees it."""
    random, window, every = np.random.default_rng(1), archive.definition.window, archive.definition.every
    told = []
    for since, now, count in [(0, window, 2 * results), *(
        (now - every, now, 2 * results // UPDATES) for now in (window + every, window + 2 * every)
    )]:  # fmt: skip
        key, generated = random.integers(0, keys, count), random.integers(since + 1, now + 1, count)
        expires = generated + random.integers(1, window + 1, count)
        rows = {"k": named(key, kind), "x": random.random(count), GENERATED: generated, EXPIRES: expires}
        archive.update(now, pa.table(rows))
        told.append((key, expires))
    key, expires = (np.concatenate(each) for each in zip(*told, strict=True))
    return key[expires > window + 2 * every], expires


def named(key: Any, kind: str) -> pa.Array:
    """Keys as they are stored."""
    return pa.array(key) if kind == "integers" else pa.array(np.char.add("key ", key.astype(str)))


def probe(archive: Archive, kind: str, alive: Any, expires: Any, keys: int) -> dict[str, Any]:
    """Time probes and a scan."""
    view, chosen = archive.view, np.random.default_rng(2).integers(0, keys, PROBES)
    sought = named(chosen, kind).to_pylist()
    counts = np.bincount(alive, minlength=keys)
    for key, number in zip(sought, chosen, strict=True):
        assert view.probe(key).num_rows == counts[number], f"{archive.indexing.label}, key {key}"
    seconds, cpu = [], time.process_time()
    for key in sought:
        before = time.perf_counter()
        view.probe(key)
        seconds.append(time.perf_counter() - before)
    cpu = time.process_time() - cpu
    before, scanned = time.perf_counter(), time.process_time()
    assert sum(piece.num_rows for piece in view.scan()) == len(alive)
    return {
        "kind": kind, "label": archive.indexing.label, "runs": view.stats()["runs"], "found": counts[chosen].mean(),
        "probe_ms": 1e3 * median(seconds), "cpu_ms": 1e3 * cpu / PROBES,
        "slow_ms": 1e3 * float(np.quantile(seconds, 0.99)), "scan_s": time.perf_counter() - before,
        "scan_cpu_s": time.process_time() - scanned,
    }  # fmt: skip
