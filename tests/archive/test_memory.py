"""An archive may be larger than memory: updates, scans and migrations hold a few pieces of it."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os

import numpy as np
import pyarrow as pa
import pytest

from muntin.archive import Archive, Definition, View, rewrite
from muntin.archive.disk import MappedFile

MIB = 1 << 20
ROWS, WIDTH = 48_000, 1_000  # 46 MiB


@pytest.fixture
def pool(monkeypatch):
    """Counts what Arrow allocates; pieces are small, so that there are many of them."""
    monkeypatch.setattr(rewrite, "PIECE_BYTES", MIB)
    before = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(before)
    pa.set_memory_pool(counted)
    yield counted
    pa.set_memory_pool(before)


def rows(since: int, count: int) -> pa.Table:
    random = np.random.default_rng(since)
    width = WIDTH - 24
    content = pa.py_buffer(np.zeros(count * width, np.uint8))
    payload = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), count, [None, content])
    generated = np.full(count, since)
    return pa.table({"k": random.integers(0, 1000, count), "payload": payload, "generated_at": generated,
                     "expires_at": generated + random.integers(1, 101, count)})  # fmt: skip


@pytest.mark.parametrize("label", ["reindex 1", "no_rebuild 2x2"])
def test_memory_does_not_grow_with_the_archive(tmp_path, pool, label):
    columns = pa.schema([("k", pa.int64()), ("payload", pa.binary(WIDTH - 24))])
    with Archive.create(tmp_path, Definition(columns, ("k",), 100, 1), label) as archive:
        for _ in range(12):
            archive.update(1, rows(1, ROWS // 12))
        assert sum(run.size for run in archive.view.epoch.runs()) > 45 * MIB
        peaks = {}
        for what, action in {
            "update": lambda: archive.update(2, rows(2, 100)),
            "scan": lambda: [piece.num_rows for piece in archive.view.scan()],
            "migration": lambda: archive.migrate("rebuild 2x2", "stop"),
        }.items():
            counted = pa.proxy_memory_pool(pool)
            pa.set_memory_pool(counted)
            kept = action()
            peaks[what] = counted.max_memory()
            pa.set_memory_pool(pool)
            assert kept is not None
        assert max(peaks.values()) < 20 * MIB, peaks
        assert min(peaks.values()) > 0


def test_opening_reads_no_results(tmp_path):
    """Of segments larger than what systems read ahead, only the ends are in memory."""
    columns = pa.schema([("k", pa.int64()), ("payload", pa.binary(WIDTH - 24))])
    Archive.create(tmp_path, Definition(columns, ("k",), 100, 1), "reindex 1").close()
    with Archive.open(tmp_path) as archive:
        archive.update(1, rows(1, ROWS))
    del archive
    gc.collect()
    (path,) = tmp_path.glob("*.arrow")
    descriptor = os.open(path, os.O_RDONLY)
    os.fdatasync(descriptor)  # what archives do is nothing here: see no_flushing
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    if resident(path) > MIB:
        pytest.skip("this file system keeps its files in memory")
    opened = len(os.listdir("/proc/self/fd"))
    view = View.open(tmp_path)
    assert resident(path) < MIB
    assert view.probe(7).num_rows > 0
    assert 0 < resident(path) < 8 * MIB
    assert len(os.listdir("/proc/self/fd")) == opened  # mapped files need no descriptor


def resident(path) -> int:
    """Bytes of a file that are in memory."""
    mapped = MappedFile(path)
    pages = (ctypes.c_ubyte * -(-mapped.size // mmap.PAGESIZE))()
    libc = ctypes.CDLL(None)
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    assert libc.mincore(mapped.slice(0, 1).address, mapped.size, pages) == 0
    return sum(page & 1 for page in pages) * mmap.PAGESIZE
