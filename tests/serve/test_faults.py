"""A record that cannot be applied, and a disk that is full: nothing is lost, nothing counts twice."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from muntin import CheckpointError, Engine, MuntinError
from muntin.serve.applied import REPEATED, Unapplied
from muntin.serve.log import Log, LogError
from muntin.serve.producers import Once
from muntin.serve.service import Service
from muntin.serve.settings import Settings, Stopped
from tests.serve.test_process import LIMIT, push, start, total
from tests.serve.test_service import QUIET, changes, given_out
from tests.serve.test_service import SCRIPT as SLIDING
from tests.serve.test_sources import until

SCRIPT = SLIDING + "; REGISTER QUERY total AS SELECT SUM(n) AS n FROM s [RANGE 1 HOUR]"
POISON = 666


def event(n: int, at: int = 0) -> pa.Table:
    return pa.table({"ts": [at * 1_000_000], "k": ["a"], "n": [n]})


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """An engine that does not bear a certain event; what is returned heals it."""
    push = Engine.push

    def pushed(self: Engine, stream: str, batch: Any) -> None:
        if POISON in batch["n"].to_pylist():
            raise ZeroDivisionError("too evil")
        push(self, stream, batch)

    monkeypatch.setattr(Engine, "push", pushed)
    return monkeypatch.undo


def poisoned_folder(folder: Path, once: Once | None = None) -> int:
    """A service that has met the event, and died; the number of its record."""
    service = Service(folder, SCRIPT, QUIET)
    ended = threading.Event()
    service.when_failed(ended.set)
    service.push("s", event(1)).result()
    number = service._log.last + 1
    with pytest.raises(
        Stopped, match=f"record {number} of the log .push. cannot be applied: ZeroDivisionError"
    ):
        service.push("s", event(POISON), once=once).result()
    assert ended.wait(LIMIT)
    assert isinstance(service.failure, Unapplied)
    with pytest.raises(Stopped):
        service.push("s", event(2))
    service.stop()
    return number


def test_a_record_that_cannot_be_applied(
    tmp_path: Path, poisoned: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    """The service ends and says why, a start says so too, and goes on without the record if it is told to."""
    number = poisoned_folder(tmp_path)
    told = rf"record {number} of the log \(push\) cannot be applied: ZeroDivisionError: too evil; "
    with pytest.raises(Unapplied, match=told + f"a start with --skip-record {number} "):
        Service(tmp_path, SCRIPT, QUIET)
    caplog.clear()
    service = Service(tmp_path, SCRIPT, Settings(checkpoint_seconds=1e9, skipped=frozenset([number])))
    assert f"record {number} of the log (push, " in caplog.text
    assert "what it says is lost" in caplog.text
    service.push("s", event(2)).result()
    assert service.engine.value("total") == 3
    service.stop(is_kept=False)
    service = Service(tmp_path, SCRIPT, QUIET)  # it stands behind a checkpoint now
    assert service.engine.value("total") == 3
    service.stop()
    service = Service(tmp_path, SCRIPT, Settings(skipped=frozenset([number])))
    assert f"--skip-record has no effect on {number}" in caplog.text
    service.stop()


def test_a_better_version_applies_it(tmp_path: Path, poisoned: Callable[[], None]) -> None:
    poisoned_folder(tmp_path)
    poisoned()
    service = Service(tmp_path, SCRIPT, QUIET)
    assert service.engine.value("total") == 1 + POISON
    service.stop()


def test_a_producer_goes_on_behind_what_was_passed_over(tmp_path: Path, poisoned: Callable[[], None]) -> None:
    number = poisoned_folder(tmp_path, Once("me", 7))
    service = Service(tmp_path, SCRIPT, Settings(checkpoint_seconds=1e9, skipped=frozenset([number])))
    assert service.push("s", event(5), once=Once("me", 7)).result() is REPEATED
    assert service.push("s", event(5), once=Once("me", 8)).result() == 1
    service.stop()


def test_a_source_goes_on_behind_what_was_passed_over(tmp_path: Path, poisoned: Callable[[], None]) -> None:
    given = tmp_path / "given"
    given.mkdir()
    script = (
        f"CREATE STREAM s (ts BIGINT, n BIGINT) TIMESTAMP BY ts WITH (source = 'folder', path = '{given}');"
    )
    script += "REGISTER QUERY total AS SELECT SUM(n) AS n FROM s [RANGE 1 HOUR]"
    settings = Settings(checkpoint_seconds=1e9, folders=(given,))
    service = Service(tmp_path / "data", script, settings)
    (given / "1.csv").write_text(f"ts,n\n0,{POISON}\n")
    until(lambda: service.failure is not None)
    service.stop()
    number = service._log.last
    with pytest.raises(Unapplied):
        Service(tmp_path / "data", script, settings)
    (given / "2.csv").write_text("ts,n\n0,3\n")
    skipping = Settings(checkpoint_seconds=1e9, folders=(given,), skipped=frozenset([number]))
    service = Service(tmp_path / "data", script, skipping)
    until(lambda: service.engine.value("total") == 3)
    service.stop()


@pytest.mark.parametrize("data", [b"\x05\0\0\0hello", b"", b'\x0d\0\0\0{"do": "push"}'])
def test_a_record_that_cannot_be_read(tmp_path: Path, data: bytes) -> None:
    Service(tmp_path, SCRIPT, QUIET).stop()
    log = Log(tmp_path / "log")
    number = log.append([data])
    log.close()
    with pytest.raises(Unapplied, match=f"record {number} of the log .*--skip-record {number}"):
        Service(tmp_path, SCRIPT, QUIET)
    Service(tmp_path, SCRIPT, Settings(checkpoint_seconds=1e9, skipped=frozenset([number]))).stop(
        is_kept=False
    )
    Service(tmp_path, SCRIPT, QUIET).stop()


def test_a_record_of_a_later_version(tmp_path: Path) -> None:
    Service(tmp_path, SCRIPT, QUIET).stop()
    log = Log(tmp_path / "log")
    head = json.dumps({"do": "fly", "at": 0, "last": log.last + 1}).encode()
    number = log.append([len(head).to_bytes(4, "little") + head])
    log.close()
    with pytest.raises(
        Unapplied, match=f"record {number} of the log asks for 'fly', which this version does not know"
    ):
        Service(tmp_path, SCRIPT, QUIET)


def test_windows_that_cannot_be_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of muntin's own: the engine owes the windows, and the next change gives them. Any other: the end."""
    service = Service(tmp_path, SCRIPT, QUIET)

    def fail(_: Engine, until: Any = None) -> Any:
        raise MuntinError("a function of yours has raised")

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "advance", fail)
        service.push("s", event(1)).result()
        service.push("s", event(1, 20)).result()
    assert service.closing.failures >= 2
    assert "windows stay open that record 3 would close: a function of yours has raised" in caplog.text
    assert given_out(service) == []
    service.push("s", event(1, 21)).result()
    assert given_out(service) != []
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "advance", lambda *_: 1 // 0)
        with pytest.raises(
            Stopped, match="windows up to record 5 of the log cannot be closed: ZeroDivisionError"
        ):
            service.push("s", event(1, 40)).result()
    service.stop()


def test_no_checkpoint_hides_that_windows_cannot_be_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(tmp_path, SCRIPT, QUIET)
    faults = iter([LogError("there is no room"), Unapplied("windows up to record 1 cannot be closed")])

    def fail() -> None:
        raise next(faults)

    with monkeypatch.context() as patch:
        patch.setattr(service.closing, "go_on", fail)
        with pytest.raises(Stopped, match="windows up to record 1 cannot be closed"):
            service.checkpoint().result()
    assert isinstance(service.failure, Unapplied)
    service.stop()


class Disk:
    """A disk on which there is no room in some folders, for a time. Half of what is written gets there before."""

    def __init__(self, patch: pytest.MonkeyPatch):
        self.full: set[str] = set()
        write = Log._write

        def written(log: Log, data: bytes) -> None:
            if log._folder.name in self.full:
                write(log, data[: len(data) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            write(log, data)

        patch.setattr(Log, "_write", written)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_no_room_for_answers(tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    """What was taken is taken; then changes are refused until what it closed has been kept, without anybody asking."""
    service = Service(tmp_path, SCRIPT, QUIET)
    service.push("s", event(1)).result()
    disk.full = {"answers"}
    assert service.push("s", event(2, 20)).result() == 1
    last = service._log.last
    for _ in range(2):
        with pytest.raises(LogError, match="answers' cannot be written: No space left on device"):
            service.push("s", event(4, 21)).result()
    assert service._log.last == last
    assert given_out(service) == []
    assert service.engine.value("total") == 3
    assert "changes are refused until answers can be kept" in caplog.text
    disk.full = set()
    until(lambda: not service.closing.is_behind)
    told = given_out(service)
    assert told
    disk.full = {"answers"}
    assert service.push("s", event(4, 40)).result() == 1
    with pytest.raises(LogError):  # a checkpoint would leave answers behind that are nowhere
        service.checkpoint().result()
    disk.full = set()
    assert service.push("s", event(4, 41)).result() == 1
    service.checkpoint().result()
    assert len(given_out(service)) > len(told)
    service.stop(is_kept=False)
    service = Service(tmp_path, SCRIPT, QUIET)
    assert given_out(service)[: len(told)] == told
    service.stop()


@pytest.mark.parametrize("seed", range(4))
def test_a_disk_that_is_full_again_and_again(tmp_path: Path, disk: Disk, seed: int) -> None:
    """Whoever sends again what was refused has the answers of a service that never wanted for room, each once; whether
    it is killed meanwhile or not."""
    chance = random.Random(seed)
    wanted, service = Service(tmp_path / "twin", SCRIPT, QUIET), Service(tmp_path / "tried", SCRIPT, QUIET)
    for kind, what in changes(chance, 60):
        make = {
            "push": lambda of, what=what: of.push("s", what),
            "load": lambda of, what=what: of.load("limits", what),
            "execute": lambda of, what=what: of.execute(what),
            "advance": lambda of, what=what: of.advance(what),
        }[kind]
        expected = _outcome(make(wanted))
        while True:
            disk.full = set(chance.sample(["answers", "log"], chance.choice([0, 0, 1, 2])))
            found = _outcome(make(service))
            disk.full = set()
            if not isinstance(found, LogError):
                break
        assert repr(found) == repr(expected)
        if chance.random() < 0.1:
            if chance.random() < 0.5:
                service.checkpoint().result()
            service.stop(is_kept=False)
            service = Service(tmp_path / "tried", SCRIPT, QUIET)
    until(lambda: not service.closing.is_behind)
    assert given_out(service) == given_out(wanted)
    assert service.engine.lookup("sums").equals(wanted.engine.lookup("sums"))
    service.stop()
    wanted.stop()


def _outcome(done: Any) -> Any:
    try:
        found = done.result()
    except MuntinError as error:
        return error
    return found.to_pylist() if isinstance(found, pa.Table) else found


def test_what_cannot_be_taken_back_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: Disk
) -> None:
    """Half a record stays for as long as the disk does not even shorten a file: the next one takes its place."""
    log = Log(tmp_path / "log")
    log.append([b"one"])

    def fail(*_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    disk.full = {"log"}
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", fail)
        for _ in range(2):
            with pytest.raises(LogError, match="nothing of it was taken"):
                log.append([b"two"])
        disk.full = set()
        with pytest.raises(LogError, match="Input/output error"):
            log.append([b"two"])
    assert log.append([b"three"]) == 2
    log.close()
    log = Log(tmp_path / "log")
    assert (list(log.read(1)), log.cut_off) == ([(1, b"one"), (2, b"three")], 0)
    log.close()


@pytest.mark.parametrize(
    "error", [CheckpointError("no space left"), OSError(errno.ENOSPC, "full"), ValueError("?")]
)
def test_a_checkpoint_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """It is counted, told, and tried again; changes go on."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "checkpoint", fail)
        service = Service(tmp_path, SCRIPT, Settings(checkpoint_seconds=0.1, checkpoint_bytes=1))
        until(lambda: service.keeping.failures >= 2)
        before = service.keeping.failures
        assert service.push("s", event(1)).result() == 1
        with pytest.raises(CheckpointError):
            service.checkpoint().result()
        assert service.is_ready
        assert service.keeping.failures > before
        assert "no checkpoint was written, and one is tried again" in caplog.text
    until(lambda: service.unkept == 0)
    assert service.keeping.record == service._log.last
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "checkpoint", fail)
        service.push("s", event(2)).result()
        service.stop()  # it lets go of the folder all the same
    service = Service(tmp_path, SCRIPT, QUIET)
    assert service.engine.value("total") == 3
    service.stop()


@pytest.mark.slow
def test_the_process_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a status that says so; the next start names the record, and --skip-record passes it over."""
    (tmp_path / "evil.py").write_text(EVIL)
    monkeypatch.syspath_prepend(str(tmp_path))
    process, address = start(tmp_path, "--functions", "evil", errors=subprocess.PIPE)
    push(address, 1)
    told = httpx.post(f"{address}/streams/s", json=[{"ts": 1, "n": POISON}], timeout=LIMIT)
    assert (told.status_code, told.json()["error"]["kind"]) == (503, "Stopped")
    _, errors = process.communicate(timeout=LIMIT)
    reason = "error: record 3 of the log (push) cannot be applied: ZeroDivisionError"
    assert (process.returncode, reason in errors) == (2, True)
    script, data = str(tmp_path / "script.sql"), str(tmp_path / "data")
    command = [sys.executable, "-m", "muntin", "serve", script, "--data", data, "--functions", "evil"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    again = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert (again.returncode, reason in again.stderr) == (2, True)
    process, address = start(tmp_path, "--functions", "evil", "--skip-record", "3")
    assert total(address) == 1
    push(address, 5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT) == 0
    process, address = start(tmp_path, "--functions", "evil")
    assert total(address) == 6
    process.kill()
    process.wait()


EVIL = f"""
from muntin import Engine
push = Engine.push
def pushed(self, stream, batch):
    if {POISON} in batch["n"].to_pylist():
        raise ZeroDivisionError
    push(self, stream, batch)
Engine.push = pushed
"""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(made, capture_output=True, check=False).returncode:
        pytest.skip("whoever runs this may not mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_a_file_system_that_is_full(small: Path) -> None:
    """507 until there is room; each event that was taken is there once, and each answer has been given once."""
    script = "CREATE STREAM s (ts BIGINT, n BIGINT) TIMESTAMP BY ts;"
    script += "REGISTER QUERY total AS SELECT SUM(n) AS n FROM s [RANGE 1 HOUR];"
    script += (
        "REGISTER QUERY each AS SELECT n, COUNT(*) AS c FROM s [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY n"
    )
    service = Service(small / "data", script, Settings(checkpoint_seconds=0.2, checkpoint_bytes=1))
    ballast, taken, refused, at = small / "ballast", 0, 0, 0
    while at < 60:
        if at % 20 == 10 and not ballast.exists():
            ballast.write_bytes(bytes(max(0, shutil.disk_usage(small).free - 30_000)))
        rows = pa.table({"ts": [at * 1_000_000] * 500, "n": list(range(500))})
        try:
            taken += service.push("s", rows).result()
            at += 1
        except LogError:
            assert service.is_ready
            refused += 1
            if refused % 3 == 0:
                ballast.unlink(missing_ok=True)
    assert refused >= 3
    assert service.keeping.failures > 0
    assert service.engine.value("total") == taken // 500 * sum(range(500))
    until(lambda: service.unkept == 0)
    found = [json.loads(told) for told in given_out(service)]
    each = [(told["window_end"], told["n"]) for told in found if told["query"] == "each"]
    assert len(each) == len(set(each)) == 59 * 500
    service.stop()
