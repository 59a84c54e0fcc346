"""The directory knows its segments: another in the place of one is noticed, and no file of another folder is read."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from muntin import ArchiveError
from muntin.archive import Archive, Definition, View

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])


def written(folder: Path, number: int) -> Path:
    """An archive of segments that are alike in all but their values."""
    with Archive.create(folder, Definition(SCHEMA, ("k",), 16, 2), "no_rebuild 2x2") as archive:
        for now in (20, 22, 24):
            rows = {
                "k": ["a", "b"],
                "n": [number, now],
                "generated_at": [now] * 2,
                "expires_at": [now + 9] * 2,
            }
            archive.update(now, rows)
    return folder


def test_a_segment_of_the_same_size_is_noticed(tmp_path: Path) -> None:
    """Every pair of segments of equal size, of this archive and of another one."""
    here, there = written(tmp_path / "here", 1), written(tmp_path / "there", 2)
    segments = [*here.glob("*.arrow"), *there.glob("*.arrow")]
    pairs = 0
    for mine, other in itertools.product(here.glob("*.arrow"), segments):
        if mine.read_bytes() == other.read_bytes() or mine.stat().st_size != other.stat().st_size:
            continue
        pairs += 1
        own = mine.read_bytes()
        shutil.copy(other, tmp_path / "copy")
        os.replace(tmp_path / "copy", mine)
        with pytest.raises(ArchiveError, match="not the one that the directory knows"):
            View.open(here).read_all()
        (tmp_path / "copy").write_bytes(own)
        os.replace(tmp_path / "copy", mine)
    assert pairs
    assert View.open(here).read_all().num_rows


def test_archives_without_checksums_are_read(tmp_path: Path) -> None:
    """Version 0.1.0 wrote none."""
    folder = written(tmp_path / "here", 1)
    before = View.open(folder).read_all()
    rewrite(folder, lambda run: run.pop("checksum"))
    assert View.open(folder).read_all().equals(before)


@pytest.mark.parametrize(
    "name", ["../x.arrow", "/etc/passwd", "a/b.arrow", "..", "", "x.arrow\0", "directory"]
)
def test_only_files_of_its_own_folder(tmp_path: Path, name: str) -> None:
    folder = written(tmp_path / "here", 1)
    rewrite(folder, lambda run: run.update(file=name))
    with pytest.raises(ArchiveError, match="no segment of its folder"):
        View.open(folder)


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_no_regular_file(tmp_path: Path, kind: str) -> None:
    """A pipe would never answer."""
    folder = written(tmp_path / "here", 1)
    path = min(folder.glob("*.arrow"))
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(ArchiveError, match="no regular file"):
        View.open(folder)


def rewrite(folder: Path, change) -> None:  # type: ignore[no-untyped-def]
    """Change what the directory says of each run."""
    description = json.loads((folder / "directory").read_bytes()[40:])
    for index in description["indexes"]:
        for part in index["parts"]:
            for run in part["runs"]:
                change(run)
    body = json.dumps(description).encode()
    (folder / "directory").write_bytes(b"MUNTAR01" + hashlib.sha256(body).digest() + body)
