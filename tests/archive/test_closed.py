"""Who does not hold the lock writes nothing: every public method of an archive, after every way to lose it."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from muntin.archive import Archive, View
from muntin.archive.lock import remove_archive
from muntin.errors import ArchiveError
from tests.archive.naive import bag, definition, result, table

READS = {"view", "definition", "indexing", "check", "close", "is_closed", "touched"}  # what needs no lock
MAKES = {"create", "open"}
ROOT = Path(__file__).parents[2]


def filled(folder: Path) -> Archive:
    archive = Archive.create(folder, definition(), "rebuild 2x2")
    archive.update(2, table([result(1, 2, 1, 16)], archive.definition.schema.names))
    return archive


WRITES: dict[str, Callable[[Archive], object]] = {
    "update": lambda archive: archive.update(4),
    "plan_remote": lambda archive: archive.plan_remote(4),
    "publish_remote": lambda archive: archive.publish_remote(
        _planned(archive), [], batch=archive.view.epoch.number
    ),
    "note_batch": lambda archive: archive.note_batch(7),
    "migrate": lambda archive: archive.migrate("no_rebuild 3x3", "stop"),
    "remove": lambda archive: archive.remove(),
}


def _planned(archive: Archive):
    from muntin.archive.update import RemoteUpdate

    return RemoteUpdate.plan(archive._folder, archive.view.epoch, 4)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_public_method_is_one_or_the_other():
    names = {name for name, _ in inspect.getmembers(Archive) if not name.startswith("_")}
    assert names | {"touched"} == READS | MAKES | WRITES.keys()


@pytest.mark.parametrize("name", WRITES)
def test_a_closed_archive_writes_nothing(tmp_path, name):
    archive = filled(tmp_path / "a")
    archive.close()
    held = content(tmp_path)
    with pytest.raises(ArchiveError, match="is closed: open it again to write"):
        WRITES[name](archive)
    with pytest.raises(ArchiveError, match="is closed"):
        archive.update(4, batch=0)  # also if there is nothing to do
    assert content(tmp_path) == held
    archive.check()
    archive.close()
    assert bag(archive.view.read_all()) == bag(View.open(tmp_path / "a").read_all())


def test_another_writer_is_left_alone(tmp_path):
    """What was closed here is open elsewhere: its update stays."""
    archive = filled(tmp_path / "a")
    archive.close()
    code = (
        "import sys; from muntin.archive import Archive; archive = Archive.open(sys.argv[1]); archive.update(8); "
        "print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "a")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as other:
        assert other.stdout.readline() == b"open\n"
        held = content(tmp_path)
        for write in WRITES.values():
            with pytest.raises(ArchiveError, match="is closed"):
                write(archive)
        for taken in (Archive.open, remove_archive):
            with pytest.raises(ArchiveError, match="is being written by another process"):
                taken(tmp_path / "a")
        assert content(tmp_path) == held
        other.stdin.close()
    assert View.open(tmp_path / "a").now == 8


@pytest.mark.parametrize("name", WRITES)
def test_a_fork_writes_nothing(tmp_path, name):
    archive = filled(tmp_path / "a")
    held = content(tmp_path)
    if not (child := os.fork()):
        try:
            WRITES[name](archive)
        except ArchiveError as error:
            os._exit(0 if "is a fork" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert content(tmp_path) == held
    archive.update(4)
    archive.close()


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("is_replaced", [False, True])
def test_an_archive_that_was_removed_under_its_writer(tmp_path, name, is_replaced):
    archive = filled(tmp_path / "a")
    shutil.rmtree(tmp_path / "a")
    if is_replaced:
        filled(tmp_path / "a").close()
    held = content(tmp_path)
    with pytest.raises(ArchiveError, match="has been removed or replaced"):
        WRITES[name](archive)
    assert content(tmp_path) == held
    archive.close()


def test_a_removed_archive_is_gone_and_closed(tmp_path):
    archive = filled(tmp_path / "a")
    archive.remove()
    assert not list(tmp_path.iterdir())
    with pytest.raises(ArchiveError, match="is closed"):
        archive.update(4)
    filled(tmp_path / "a").close()
    remove_archive(tmp_path / "a")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("stranger", ["notes.txt", "deeper/notes.txt", "directory2"])
def test_what_is_no_part_of_it_is_not_removed(tmp_path, stranger):
    archive = filled(tmp_path / "a")
    path = tmp_path / "a" / stranger
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    held = content(tmp_path)
    with pytest.raises(ArchiveError, match="is no part of the archive"):
        archive.remove()
    archive.update(2)  # it is open as before
    archive.close()
    with pytest.raises(ArchiveError, match="is no part of the archive"):
        remove_archive(tmp_path / "a")
    assert path.read_text() == "mine"
    assert held.keys() - content(tmp_path).keys() == set()


def test_only_an_archive_is_removed(tmp_path):
    (tmp_path / "plain").mkdir()
    filled(tmp_path / "a").close()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    held = content(tmp_path)
    for name in ("plain", "link", "nowhere", ".", "plain/..", "a/.."):
        with pytest.raises(ArchiveError, match="is not the folder of an archive"):
            remove_archive(tmp_path / name)
    assert content(tmp_path) == held


def test_what_cannot_be_removed_is_said(tmp_path, monkeypatch):
    archive = filled(tmp_path / "a")
    unlink = Path.unlink

    def failing(path, missing_ok=False):
        if path.suffix == ".arrow":
            raise PermissionError(13, "Permission denied", str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", failing)
    with pytest.raises(ArchiveError, match="cannot be removed: Permission denied; the rest of the archive"):
        archive.remove()
