"""Disk: what is damaged is named, what fails leaves no trace, who reads keeps what he reads."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from muntin.archive import Archive, Definition, View, disk
from muntin.errors import ArchiveError, MuntinError, NameTaken, NotFound
from tests.archive.naive import Oracle, assert_agrees, bag, definition, result, table

KEYS = [0, 1, 2]


def filled(folder: Path, label: str = "rebuild 2x2", updates: int = 6, **more) -> tuple[Archive, Oracle]:
    archive, oracle, random = (
        Archive.create(folder, definition(**more), label),
        Oracle(),
        np.random.default_rng(1),
    )
    for now in range(2, 2 * updates + 2, 2):
        step(archive, oracle, now, random)
    return archive, oracle


def step(archive: Archive, oracle: Oracle, now: int, random, count: int = 12) -> None:
    rows = [
        result(int(random.integers(3)), now, max(0, now - int(random.integers(16))), 16) for _ in range(count)
    ]
    archive.update(now, table(rows, archive.definition.schema.names), batch=now)
    oracle.results += rows
    oracle.now = now


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.arrow"))


@pytest.mark.parametrize("where", [0.05, 0.5, 0.8, 0.97, 0.999])
def test_a_changed_byte_is_detected_and_the_file_named(tmp_path, where):
    archive, _ = filled(tmp_path)
    archive.close()
    path = segments(tmp_path)[0]
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 0x40
    path.write_bytes(bytes(content))
    with (
        pytest.raises(ArchiveError, match=f"{path.name}' (is damaged|has format version)"),
        Archive.open(tmp_path) as again,
    ):
        again.check()


@pytest.mark.parametrize("left", [0, 5, 100, -1])
def test_a_torn_segment_is_detected_and_named(tmp_path, left):
    archive, _ = filled(tmp_path)
    archive.close()
    path = segments(tmp_path)[1]
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(ArchiveError, match=f"{path.name}' is damaged"):
        Archive.open(tmp_path)
    path.unlink()
    with pytest.raises(NotFound, match=f"{path.name}' is missing"):
        View.open(tmp_path)


def test_a_segment_of_another_update_is_detected(tmp_path):
    archive, _ = filled(tmp_path)
    archive.close()
    one, two = segments(tmp_path)[:2]
    two.write_bytes(one.read_bytes())
    with pytest.raises(
        ArchiveError, match=f"{two.name}' is damaged: it is whole, but not the one that the directory knows"
    ):
        View.open(tmp_path)


def test_a_damaged_directory_is_detected(tmp_path):
    archive, _ = filled(tmp_path)
    archive.close()
    path = tmp_path / "directory"
    whole = path.read_bytes()
    for content, message in (
        (whole[:-1], "damaged: its checksum does not match"),
        (whole[:60] + b"x" + whole[61:], "damaged: its checksum does not match"),
        (b"MUNTAR99" + whole[8:], "format version 99; this muntin reads 01"),
        (b"nothing", "is not the directory of an archive"),
        (b"", "is not the directory of an archive"),
    ):
        path.write_bytes(content)
        with pytest.raises(ArchiveError, match=message):
            View.open(tmp_path)


def test_nothing_there(tmp_path):
    for opened in (View.open, Archive.open):
        with pytest.raises(NotFound, match="there is no archive in"):
            opened(tmp_path / "nowhere")
    archive, _ = filled(tmp_path / "a")
    with pytest.raises(NameTaken, match="there is an archive in"):
        Archive.create(tmp_path / "a", definition(), "rebuild 2x2")
    archive.close()


def test_readers_keep_their_epoch(tmp_path):
    archive, oracle = filled(tmp_path)
    random = np.random.default_rng(2)
    mine, others, expected = archive.view, View.open(tmp_path), bag(oracle.alive())
    assert bag(mine.probe(1)) == bag([each for each in oracle.alive() if each["k"] == 1])
    for now in range(14, 80, 2):  # every segment they read from is gone
        step(archive, oracle, now, random)
    assert not {path.name for path in segments(tmp_path)} & others.epoch.files()
    assert bag(mine.read_all()) == bag(others.read_all()) == expected
    assert (mine.now, others.now, View.open(tmp_path).now) == (12, 12, 78)
    archive.close()


def test_leftovers_are_removed_at_the_next_opening(tmp_path):
    archive, oracle = filled(tmp_path)
    archive.close()
    (tmp_path / "0000000099-0000.arrow").write_bytes(b"half a segment")
    (tmp_path / "directory.tmp").write_bytes(b"half a directory")
    with Archive.open(tmp_path) as again:
        assert_agrees(again, oracle, KEYS)
        assert {path.name for path in segments(tmp_path)} == again.view.epoch.files()
        assert not (tmp_path / "directory.tmp").exists()


def test_one_writer_at_a_time(tmp_path):
    archive, _ = filled(tmp_path)
    code = f"from muntin.archive import Archive; Archive.open({str(tmp_path)!r})"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "is being written by another process" in child.stderr
    archive.close()
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


STEPS = ("open", "write", "fsync", "replace")


class FullDisk:
    """Fails one call of one kind, after so many that succeed."""

    def __init__(self, monkeypatch, kind: str, after: int):
        self.left, self.kind = after, kind
        for name in ("fsync", "replace"):
            monkeypatch.setattr(disk.os, name, self.guard(name, getattr(os, name)))
        monkeypatch.setattr(disk, "open", self.guard("open", open), raising=False)
        self.write = disk.write
        for module in ("muntin.archive.disk", "muntin.archive.segment"):
            monkeypatch.setattr(f"{module}.write", self.guard("write", self.half))

    def half(self, file, content):
        self.write(file, content)

    def guard(self, kind, call):
        def guarded(*arguments, **named):
            if kind == self.kind:
                self.left -= 1
                if self.left == -1:
                    if kind == "write":
                        self.write(arguments[0], memoryview(arguments[1])[:10])
                    raise OSError(errno.ENOSPC, "No space left on device")
            return call(*arguments, **named) if kind != "fsync" else None

        return guarded


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("label", ["rebuild 2x2", "no_rebuild 2x2", "lazy_rebuild 3x3"])
def test_a_full_disk_fails_the_update_whole(tmp_path, label, kind):
    archive, oracle = filled(tmp_path, label)
    now, failed = 12, 0
    for after in range(12):
        files = {path.name for path in tmp_path.iterdir()}
        with pytest.MonkeyPatch.context() as patch:
            FullDisk(patch, kind, after)
            before, held = archive.view, (list(oracle.results), oracle.now)
            try:
                step(archive, oracle, now + 2, np.random.default_rng(after))
                now += 2
            except ArchiveError as error:
                failed += 1
                assert "No space left on device" in str(error)
                assert archive.view is before
                oracle.results, oracle.now = held
                assert {path.name for path in tmp_path.iterdir()} == files
        assert_agrees(archive, oracle, KEYS)
    assert failed >= 1
    archive.close()
    with Archive.open(tmp_path) as again:
        assert_agrees(again, oracle, KEYS)


def test_a_full_disk_fails_a_migration_whole(tmp_path):
    archive, oracle = filled(tmp_path)
    for kind in STEPS:
        with pytest.MonkeyPatch.context() as patch:
            FullDisk(patch, kind, 0)
            with pytest.raises(ArchiveError, match="No space left on device"):
                archive.migrate("no_rebuild 3x3", "stop")
        assert archive.indexing.label == "rebuild 2x2"
        assert_agrees(archive, oracle, KEYS)
        assert {path.name for path in segments(tmp_path)} == archive.view.epoch.files()
    archive.close()


@pytest.mark.parametrize(
    ("now", "change", "message"),
    [
        (11, {}, "updated at 12: it cannot go back to 11"),
        (14, {"k": ["x"]}, "column 'k'|could not|Could not"),
        (14, {"generated_at": [15]}, "a result of 15 is generated after the update at 14"),
        (14, {"expires_at": [31]}, "a result lives for 17; no result of this view outlives 16"),
        (14, {"generated_at": [None]}, "column 'generated_at' of a result is NULL"),
        (14, {"extra": [1]}, "results have no column 'extra'"),
        (14, {"payload": None}, "results lack the column 'payload'"),
    ],
)
def test_bad_updates_change_nothing(tmp_path, now, change, message):
    archive, oracle = filled(tmp_path)
    rows = table([result(1, 14, 10, 16)], archive.definition.schema.names) | change
    rows = {name: values for name, values in rows.items() if values is not None}
    with pytest.raises((MuntinError, pa.ArrowInvalid), match=message):
        archive.update(now, rows)
    assert_agrees(archive, oracle, KEYS)
    archive.close()


def test_a_batch_is_taken_once(tmp_path):
    archive, _ = filled(tmp_path)
    rows = table([result(1, 14, 10, 16)], archive.definition.schema.names)
    assert archive.update(14, rows, batch=14).inserted == 1
    assert archive.update(14, rows, batch=14).inserted == 0
    archive.close()
    with Archive.open(tmp_path) as again:
        assert again.update(14, rows, batch=13).inserted == 0
        assert again.view.epoch.batch == 14


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": ()}, "need a key"),
        ({"key": ("kk",)}, "no column 'kk'; did you mean 'k'"),
        ({"every": 0}, "cannot be updated every 0"),
        ({"every": 17}, "cannot be updated every 17"),
        ({"inputs": ("n",), "sizes": ()}, "1 inputs have 0 window sizes"),
        ({"inputs": ("k",), "sizes": (5,)}, "'k' tells the place of an event: it must be int64"),
        ({"by_count": True}, "need a position"),
    ],
)
def test_bad_definitions(arguments, message):
    columns = pa.schema([("k", pa.string()), ("n", pa.int64())])
    with pytest.raises(MuntinError, match=message):
        Definition(**{"columns": columns, "key": ("k",), "window": 16, "every": 2} | arguments)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("rebild 2x2", "no index variant 'rebild'; did you mean 'rebuild'"),
        ("rebuild 16", "splits both times: write rebuild GxE, such as rebuild 4x4"),
        ("rebuild 9x2", "9 classes of generation are more than the 8 updates in a window"),
        ("reindex 2x2", "has 1 class of expiry, not 2"),
        ("wata 1", "needs a part to fill while the oldest one waits"),
    ],
)
def test_bad_indexings(tmp_path, label, message):
    with pytest.raises(ArchiveError, match=message):
        Archive.create(tmp_path / "a", definition(), label)
    assert not (tmp_path / "a").exists()
