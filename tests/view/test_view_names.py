"""Names of views, however hostile: each has its own folder in the archive, and nothing outside is touched."""

from __future__ import annotations

import re
import string
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from effort import every_second
from muntin import Engine
from muntin.errors import ArchiveError, MuntinError, NotFound
from muntin.view.folders import folder_name, folder_of, view_name

STREAMS = """CREATE STREAM a (ts BIGINT, k VARCHAR, x BIGINT) TIMESTAMP BY ts;
CREATE STREAM b (ts BIGINT, k VARCHAR, y BIGINT) TIMESTAMP BY ts"""
EXCEPT = "SELECT k, x FROM a [RANGE 9 SECONDS] EXCEPT SELECT k FROM b [RANGE 3 SECONDS] EVERY 1 SECOND"
HOSTILE = [
    "", " ", ".", "..", "...", "../..", "../other", "../../etc", "/", "/etc", "a/b", "a\\b", "..\\..", "~", "~root",
    "v", "V", "v.", ".v", "v ", " v", "view", "VIEW", "View", "con", "CON", "nul", "com1", "lpt9", "aux.txt", "c:",
    "*", "?", "[v]", "%", "%%", "%2E%2E", "%2e%2e", "%252E", "%00", "\0", "a\0b", "\n", "\t", "é", "e\u0301", "É",
    "ß", "ſ", "İ", "ı", "K", "\u202e", "\ufeff", "👁", "directory", "lock", "readers", "waiting", "directory.tmp",
    "-", "-rf", "--", "$(rm)", "`rm`", ";", "|", "&", "'", "x" * 200, "x" * 201, "x" * 5000, "X" * 90, "é" * 70,
]  # fmt: skip


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def content(folder: Path):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def surrounded(tmp_path):
    """An archive with things beside it that must stay as they are."""
    for name in ("beside", "other/v", "other", "deep/archive/../beside"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "precious.txt").write_text(name)
    archive = tmp_path / "deep" / "archive"
    archive.mkdir(exist_ok=True)
    return archive


def outside(tmp_path):
    return {name: held for name, held in content(tmp_path).items() if not name.startswith("deep/archive")}


def test_every_name_has_a_folder_of_its_own():
    random = np.random.default_rng(1)
    signs = [*string.printable, "é", "\0", "👁", "%"]
    drawn = ["".join(random.choice(signs, int(random.integers(0, 9)))) for _ in range(3000)]
    names = sorted({*HOSTILE, *drawn})
    folders = [folder_name(name) for name in names]
    assert len({folder.casefold() for folder in folders}) == len(names)
    assert all(re.fullmatch(r"[a-zA-F0-9_%-]{1,255}", folder) for folder in folders)
    assert all(folder.encode() and folder not in (".", "..") for folder in folders)
    for name, folder in zip(names, folders, strict=True):
        assert view_name(folder) == (folder if "%%" in folder else name)
        assert "%%" not in folder or len(name) > 60


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_dropping_a_name_that_is_no_view_touches_nothing(tmp_path, name):
    archive = surrounded(tmp_path)
    engine = Engine(archive=archive)
    engine.execute(f'{STREAMS}; CREATE MATERIALIZED VIEW "kept" AS {EXCEPT}')
    (archive / "precious").mkdir()
    (archive / "precious" / "file.txt").write_text("no view's")
    held = content(tmp_path)
    for dropping in (engine, Engine(archive=archive)):
        with pytest.raises(MuntinError):
            dropping.execute(f"DROP MATERIALIZED VIEW {quoted(name)}")
        with pytest.raises(MuntinError):
            dropping._views.drop(name)
    assert content(tmp_path) == held


def test_a_view_of_any_name_comes_and_goes(tmp_path):
    archive = surrounded(tmp_path)
    held, engine, made = outside(tmp_path), Engine(archive=archive), []
    engine.execute(STREAMS)
    names = every_second(HOSTILE)
    for name in names:
        try:
            engine.execute(f"CREATE MATERIALIZED VIEW {quoted(name)} AS {EXCEPT}")
        except MuntinError:
            assert name in ("", "\0", "a\0b"), name  # which the language does not take
            continue
        made.append(name)
    assert len(made) > len(names) - 4
    assert len(list(archive.iterdir())) == len(made)
    engine.push("a", {"ts": [0], "k": ["p"], "x": [1]})
    engine.push("b", {"ts": [0], "k": ["q"], "y": [1]})
    engine.advance(2_000_000)
    assert outside(tmp_path) == held
    for name in made:
        assert engine.lookup(name).num_rows == 1, name
    engine.close()
    other = Engine(archive=archive)
    assert other._views.known().keys() == set(made)
    for number, name in enumerate(made):
        if number % 2:
            other.execute(f"DROP MATERIALIZED VIEW {quoted(name)}")
        else:
            other._views.drop(name)
        assert len(list(archive.iterdir())) == len(made) - number - 1
    assert outside(tmp_path) == held


@pytest.mark.parametrize("name", ["Sales", "a.b", "v", "a b", "É", "%", "~x"])
def test_folders_of_version_0_1_are_found(tmp_path, name):
    engine = Engine(archive=tmp_path)
    engine.execute(f"{STREAMS}; CREATE MATERIALIZED VIEW {quoted(name)} AS {EXCEPT}")
    engine.push("a", {"ts": [0], "k": ["p"], "x": [1]})
    engine.push("b", {"ts": [0], "k": ["q"], "y": [1]})
    engine.advance(2_000_000)
    engine.close()
    old = tmp_path / quote(name, safe="")
    (tmp_path / folder_name(name)).rename(old)
    assert folder_of(tmp_path, name) == old
    engine = Engine(archive=tmp_path)
    assert engine.lookup(name).num_rows == 1
    engine.execute(f"{STREAMS}; CREATE MATERIALIZED VIEW {quoted(name)} AS {EXCEPT}")
    assert [path.name for path in tmp_path.iterdir()] == [old.name]
    engine.execute(f"DROP MATERIALIZED VIEW {quoted(name)}")
    assert not list(tmp_path.iterdir())


def test_only_who_may_write_drops(tmp_path):
    engine, other = Engine(archive=tmp_path), Engine(archive=tmp_path)
    engine.execute(f"{STREAMS}; CREATE MATERIALIZED VIEW v AS {EXCEPT}")
    held = content(tmp_path)
    with pytest.raises(ArchiveError, match="is being written by another process"):
        other.execute("DROP MATERIALIZED VIEW v")
    assert content(tmp_path) == held
    (tmp_path / "v" / "notes.txt").write_text("mine")
    with pytest.raises(ArchiveError, match="no part of the archive"):
        engine.execute("DROP MATERIALIZED VIEW v")
    assert "v" in engine.stats()["views"]
    (tmp_path / "v" / "notes.txt").unlink()
    engine.close()
    other.execute("DROP MATERIALIZED VIEW v")
    assert not list(tmp_path.iterdir())
    with pytest.raises(NotFound):
        other.execute("DROP MATERIALIZED VIEW v")
