"""Leases: an epoch can be opened by name while updates replace its segments, until whoever leased it is gone."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from muntin.archive import Archive, View, lock
from muntin.archive.lock import Lease
from muntin.archive.stored import Stored
from muntin.errors import ArchiveError, NotFound
from tests.archive.naive import bag
from tests.archive.test_disk import filled, segments, step


def read(taken: Lease) -> object:
    """What is in the links, opened anew."""
    epoch = taken.epoch
    stored = [
        Stored.from_description(
            taken.folder, run.describe(), epoch.definition, index.indexing.variant.layout.is_sorted
        )
        for index in epoch.indexes
        for run in index.runs()
    ]
    liveness = epoch.liveness()
    rows = [row for run in stored for batch in run.segment.between(0, run.rows)
            for row in batch.filter(pa.array(liveness.is_alive(batch))).to_pylist()]  # fmt: skip
    return bag(rows)


def leases(folder):
    return sorted(path.name for path in (folder / "readers").iterdir())


def test_a_leased_epoch_stays_while_updates_go_on(tmp_path):
    archive, oracle = filled(tmp_path)
    taken, expected = Lease.take(tmp_path), bag(oracle.alive())
    random = np.random.default_rng(2)
    for now in range(14, 60, 2):
        step(archive, oracle, now, random)
    assert not {path.name for path in segments(tmp_path)} & taken.epoch.files()
    assert read(taken) == expected
    later = Lease.take(tmp_path)
    assert read(later) == bag(oracle.alive()) != expected
    archive.close()
    with Archive.open(tmp_path):  # removes what is left over, and a lease is not
        assert read(taken) == expected
    taken.release()
    taken.release()
    assert len(leases(tmp_path)) == 2  # the other one and its lock
    del later
    gc.collect()
    assert leases(tmp_path) == []


def test_an_update_that_comes_between(tmp_path, monkeypatch):
    """Its segments are linked, not those that it has removed."""
    archive, oracle = filled(tmp_path)
    random, times = np.random.default_rng(3), iter([14, 16, 18])

    def read_late(folder):
        epoch = View.open(folder).epoch
        if (now := next(times, None)) is not None:
            step(archive, oracle, now, random)
        return epoch

    monkeypatch.setattr(lock, "read_epoch", read_late)
    taken = Lease.take(tmp_path)
    assert taken.epoch.now == 18
    assert read(taken) == bag(oracle.alive())
    archive.close()


def test_the_lease_of_a_process_that_was_killed(tmp_path):
    filled(tmp_path)[0].close()
    code = (
        "import os, signal; from muntin.archive.lock import Lease; "
        f"taken = Lease.take({str(tmp_path)!r}); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    assert len(leases(tmp_path)) == 2
    Archive.open(tmp_path).close()
    assert leases(tmp_path) == []


def test_what_cannot_be_leased(tmp_path, monkeypatch):
    with pytest.raises(NotFound, match="there is no archive in"):
        Lease.take(tmp_path / "nowhere")
    filled(tmp_path)[0].close()

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(lock.os, "link", refuse)
    with pytest.raises(ArchiveError, match="cannot be leased: Operation not permitted"):
        Lease.take(tmp_path)
    assert leases(tmp_path) == []
