"""The log: what was acknowledged is there after any crash, what was not may be gone, and damage is named."""

from __future__ import annotations

import errno
import os
import random
import shutil
from pathlib import Path

import pytest

from muntin.serve.log import Log, LogError


def records_in(folder: Path, start: int = 1) -> list[bytes]:
    log = Log(folder)
    try:
        return [data for _, data in log.read(max(start, log.first))]
    finally:
        log.close()


@pytest.mark.parametrize("seed", range(8))
def test_what_was_acknowledged_survives_a_torn_end(tmp_path: Path, seed: int) -> None:
    """Cut a copy of the folder anywhere behind the last sync: a prefix is there, with all that was acknowledged."""
    chance = random.Random(seed)
    log = Log(tmp_path / "log", segment_bytes=chance.choice([1, 200, 10_000]))
    told: list[bytes] = []
    for _ in range(chance.randrange(1, 20)):
        some = [chance.randbytes(chance.randrange(40)) for _ in range(chance.randrange(1, 5))]
        assert log.append(some) == len(told) + len(some)
        told += some
    synced = log.nbytes
    unsynced = [chance.randbytes(chance.randrange(40)) for _ in range(chance.randrange(4))]
    if unsynced:
        log.append(unsynced, is_synced=False)
    written = log.nbytes
    log.close()
    last = max((tmp_path / "log").glob("*.log"))
    lost = chance.randrange(written - synced + 1) if written > synced else 0
    with open(last, "r+b") as file:
        file.truncate(max(8, last.stat().st_size - lost))
    found = records_in(tmp_path / "log")
    assert found[: len(told)] == told
    assert found == (told + unsynced)[: len(found)]


def test_pages_that_came_out_of_order_are_no_damage(tmp_path: Path) -> None:
    """A power cut may keep the second of two records that were written together, and lose the first."""
    log = Log(tmp_path / "log")
    log.append([b"kept"])
    size = log.nbytes
    log.append([b"a" * 50, b"b" * 50], is_synced=False)
    log.close()
    path = next((tmp_path / "log").glob("*.log"))
    content = bytearray(path.read_bytes())
    content[size : size + 60] = bytes(60)
    path.write_bytes(content)
    assert records_in(tmp_path / "log") == [b"kept"]


@pytest.mark.parametrize("place", ["last segment", "earlier segment"])
def test_damage_is_named(tmp_path: Path, place: str) -> None:
    """A record that others behind it knew to be on disk is not cut off in silence."""
    log = Log(tmp_path / "log", segment_bytes=1 if place == "earlier segment" else 10_000)
    for number in range(4):
        log.append([b"record %d" % number])
    log.close()
    path = sorted((tmp_path / "log").glob("*.log"))[0]
    content = bytearray(path.read_bytes())
    content[-5 if place == "earlier segment" else 40] ^= 1
    path.write_bytes(content)
    with pytest.raises(LogError, match=r"damaged at byte \d+: record [12] is not as it was written"):
        Log(tmp_path / "log")


def test_a_missing_segment_is_named(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", segment_bytes=1)
    for number in range(3):
        log.append([b"record %d" % number])
    log.close()
    sorted((tmp_path / "log").glob("*.log"))[1].unlink()
    with pytest.raises(LogError, match="records 2 to 2 are missing"):
        Log(tmp_path / "log")


def test_one_process_at_a_time(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    with pytest.raises(LogError, match="in use by another process"):
        Log(tmp_path / "log")
    log.close()
    Log(tmp_path / "log").close()


def test_a_full_disk_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of the record that failed nor of those after it, and it goes on once there is room."""
    log = Log(tmp_path / "log")
    log.append([b"one"])

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(LogError, match="No space left on device; nothing of it was taken"):
            log.append([b"lost"])
    assert log.append([b"two"]) == 2
    log.close()
    assert records_in(tmp_path / "log") == [b"one", b"two"]


def test_forgetting(tmp_path: Path) -> None:
    """Whole segments go, and none that has a record which is still needed."""
    log = Log(tmp_path / "log", segment_bytes=30)
    for number in range(1, 11):
        log.append([b"%d" % number])
    log.forget(5)
    assert log.first <= 5
    assert [data for _, data in log.read(5)] == [b"%d" % number for number in range(5, 11)]
    first = log.first
    with pytest.raises(LogError, match=f"begins at record {first}"):
        next(log.read(first - 1))
    log.close()
    assert records_in(tmp_path / "log", 5) == [b"%d" % number for number in range(5, 11)]
    shutil.rmtree(tmp_path / "log")
