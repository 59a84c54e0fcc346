"""Checkpoints as files: what is left of a killed process goes, links are followed, and strange paths are refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from muntin import CheckpointError, Engine, MuntinError, NotFound
from muntin.store.saved import pack_rows

KILLED = """
import os, signal, sys
from muntin import Engine
from muntin.engine import draft
draft.os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # when all is written, before it is in its place
Engine().checkpoint(sys.argv[1])
"""


def kill_while_writing(path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("then", ["checkpoint", "restore"])
def test_what_a_killed_process_left_goes(tmp_path: Path, then: str) -> None:
    path = tmp_path / "state"
    Engine().checkpoint(path)
    kill_while_writing(path)
    (tmp_path / "state.4194304.tmp").write_bytes(b"of version 0.1.0, whose process is gone")
    (tmp_path / f"state.{os.getpid()}.tmp").write_bytes(b"of version 0.1.0, still at work")
    (tmp_path / "statement.1-ab.tmp").write_bytes(b"of another checkpoint")
    assert len(list(tmp_path.iterdir())) == 5
    _ = Engine().checkpoint(path) if then == "checkpoint" else Engine.restore(path)
    left = {each.name for each in tmp_path.iterdir()}
    assert left == {"state", f"state.{os.getpid()}.tmp", "statement.1-ab.tmp"}


def test_engines_that_write_one_path(tmp_path: Path) -> None:
    """From several threads at once: one of them is there in the end, whole, and nothing else."""
    path, failed = tmp_path / "state", []

    def write(number: int) -> None:
        engine = Engine()
        engine.execute(f"CREATE STREAM s{number} (ts BIGINT) TIMESTAMP BY ts")
        for _ in range(10):
            try:
                engine.checkpoint(path)
            except MuntinError as error:
                failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(Engine.restore(path).streams) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["state"]


def test_events_that_come_while_it_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others go on meanwhile, and a checkpoint is of the moment at which it began."""
    engine, at_work = Engine(), []
    engine.execute(
        "CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts;"
        "REGISTER QUERY sums AS SELECT k, SUM(n) AS n FROM s [RANGE 10 SECONDS SLIDE 10 MICROSECONDS] GROUP BY k;"
        "REGISTER QUERY every AS SELECT MAX(n) AS n FROM s [ROWS 3]"
    )

    def pack(*saved: Any) -> Any:
        other = threading.Thread(
            target=engine.push, args=("s", {"ts": [12, 13], "k": ["b", "c"], "n": [9, 9]})
        )
        other.start()
        other.join(120)
        at_work.append(other.is_alive())
        return pack_rows(*saved)

    engine.push("s", {"ts": [0, 11], "k": ["a", "b"], "n": [1, 2]})
    before = engine.lookup("every").to_pylist()
    monkeypatch.setattr("muntin.engine.engine.pack_rows", pack)
    engine.checkpoint(tmp_path / "state")
    assert at_work == [False]
    restored = Engine.restore(tmp_path / "state")
    assert restored.lookup("every").to_pylist() == before
    sums = []
    for each in (engine, restored):
        each.push("s", {"ts": [20], "k": ["a"], "n": [0]})
        sums.append({row["k"]: row["n"] for row in each.lookup("sums").to_pylist()})
    assert sums == [{"a": 1, "b": 11, "c": 9}, {"a": 1, "b": 2}]


def test_a_link_is_followed(tmp_path: Path) -> None:
    """Also one that leads to a file that is not there yet, in another folder."""
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link", tmp_path / "there" / "state"
    link.symlink_to(target)
    for _ in range(2):
        Engine().checkpoint(link)
        assert link.is_symlink()
        assert target.is_file()
        Engine.restore(link)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "there"]


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "circle", "missing folder", "file as folder"])
@pytest.mark.parametrize("call", ["checkpoint", "restore"])
def test_no_regular_file(tmp_path: Path, kind: str, call: str) -> None:
    path = tmp_path / "state"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path = Path("/dev/null")
    elif kind == "circle":
        path.symlink_to(path)
    elif kind == "missing folder":
        path = path / "state"
    else:
        path.write_text("")
        path = path / "state"
    with pytest.raises((CheckpointError, NotFound)):
        used(call, path)


@pytest.mark.parametrize(
    "path", ["", ".", "..", "/", "a\0b", "\0", "x" * 300, "a/" * 3000, None, 5, b"x", [], 1.5]
)
@pytest.mark.parametrize("call", ["checkpoint", "restore"])
def test_strange_paths(tmp_path: Path, path: Any, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MuntinError):
        used(call, path)
    assert not list(tmp_path.iterdir())


def used(call: str, path: Any) -> None:
    if call == "checkpoint":
        Engine().checkpoint(path)
    else:
        Engine.restore(path)


NOTES = [
    {"offsets": {"trades": [[0, 17], [1, 4]]}, "at": 1.5, "text": "é \ud800"},
    [],
    {},
    0,
    "",
    False,
    2**70,
]


@pytest.mark.parametrize("note", NOTES, ids=str)
def test_a_note_comes_back(tmp_path: Path, note: Any) -> None:
    """A restored engine has the note of its checkpoint, and writes it into no other one."""
    path = tmp_path / "state"
    engine = Engine()
    engine.checkpoint(path, note=note)
    assert engine.note is None
    restored = Engine.restore(path)
    assert restored.note == note
    assert type(restored.note) is type(note)
    restored.checkpoint(path)
    assert Engine.restore(path).note is None


@pytest.mark.parametrize("note", [{3: "x"}, (1, 2), b"x", float("nan"), {"at": object}, {1}], ids=str)
def test_a_note_that_would_change_is_refused(tmp_path: Path, note: Any) -> None:
    path = tmp_path / "state"
    Engine().checkpoint(path, note="before")
    with pytest.raises(MuntinError, match="note is data that JSON can say and give back"):
        Engine().checkpoint(path, note=note)
    assert Engine.restore(path).note == "before"
