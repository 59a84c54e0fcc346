"""The process that sends answers to subscriptions: what it sends is what the server would."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from muntin.serve import crier as crier_file
from muntin.serve import crier_process
from muntin.serve.answers import Follower
from muntin.serve.crier import Crier
from muntin.serve.crier_process import Connection, chunk
from muntin.serve.portion import events_of
from muntin.serve.service import Service
from muntin.serve.settings import Settings

SCRIPT = """
CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts;
REGISTER QUERY all AS SELECT SUM(n) AS n FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS];
REGISTER QUERY each AS SELECT k, SUM(n) AS n FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k
"""
END = b"0\r\n\r\n"


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr(crier_file, "_PATIENCE", 120.0)  # a busy machine may take its time, too
    made = Service(tmp_path, SCRIPT, Settings(checkpoint_seconds=1e9))
    made.answers.crier = Crier(tmp_path / "answers")
    yield made
    made.stop()


def push(service: Service, first: int, many: int = 5) -> None:
    for at in range(first, first + many):
        service.push("s", pa.table({"ts": [at * 10_000_000] * 2, "k": ["a", "é"], "n": [at, 1]})).result()


def given(service: Service, queries: frozenset[str] | None = None) -> tuple[socket.socket, Follower]:
    """A connection that the crier has, and a follower in this process that sees what comes from then on."""
    here, there = socket.socketpair()
    _, follower = service.answers.follow(None, lambda: None)
    with there:
        assert service.answers.hand_over(follower, there, queries)
    here.settimeout(120)
    return here, service.answers.follow(None, lambda: None)[1]


def wanted(follower: Follower, queries: frozenset[str] | None = None) -> bytes:
    """What is sent of what a follower was handed."""
    sent = b""
    while portion := follower.next():
        if rows := [row for row in portion.rows if queries is None or row[1] in queries]:
            sent += chunk(events_of(rows))
    return sent


def read(connection: socket.socket, many: int) -> bytes:
    found = b""
    while len(found) < many and (some := connection.recv(many - len(found))):
        found += some
    return found


def until(service: Service, followers: int) -> None:
    end = time.monotonic() + 120
    while service.answers.followers != followers and time.monotonic() < end:
        time.sleep(0.01)
    assert service.answers.followers == followers


def test_all_and_some(service: Service) -> None:
    """Each connection gets what it asked for, whole and in order, from when it was given; then its end."""
    push(service, 0)
    some = frozenset(["each"])
    one, all_of_it = given(service)
    push(service, 5)
    other, rest = given(service, some)
    assert service.answers.followers == 4
    push(service, 10)
    first, second = wanted(all_of_it), wanted(rest, some)
    assert b'"query": "all"' in first
    assert b'"query": "all"' not in second
    assert len(second) < len(first)
    assert read(one, len(first)) == first
    one.close()
    until(service, 3)
    push(service, 15)
    second += wanted(rest, some)
    assert read(other, len(second)) == second
    service.stop()
    assert read(other, 100) == END
    other.close()


def test_one_that_ends_is_replaced(service: Service) -> None:
    """Its connections are cut off. The next ones are sent to by another, and nothing that came between is lost."""
    one, follower = given(service)
    push(service, 0)
    first = wanted(follower)
    assert read(one, len(first)) == first
    crier = service.answers.crier
    assert crier is not None
    os.kill(crier._process.pid, signal.SIGKILL)
    assert read(one, 1) == b""
    push(service, 5)
    until(service, 1)
    crier._began = 0.0  # it may be started again at once
    other, follower = given(service)
    push(service, 10)
    second = wanted(follower)
    assert read(other, len(second)) == second
    one.close()
    other.close()


def test_what_waits_is_not_left_out(service: Service) -> None:
    """A subscription that has not been sent all that it was handed keeps its connection."""
    _, follower = service.answers.follow(None, lambda: None)
    push(service, 0)
    here, there = socket.socketpair()
    with here, there:
        assert not service.answers.hand_over(follower, there, None)
        wanted(follower)
        assert service.answers.hand_over(follower, there, None)


def test_a_slow_connection_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has begun is sent to its end, then it is told why."""
    monkeypatch.setattr(crier_process, "_MOST", 3)
    here, there = socket.socketpair()
    slow, large = Connection(there, None), chunk(b"x" * 2_000_000)
    slow.offer(large)
    assert slow.send()
    for _ in range(3):
        slow.offer(chunk(b"more"))
    assert slow.is_dropped
    slow.offer(chunk(b"too late"))
    found, here_is_more = b"", True
    here.setblocking(False)
    while here_is_more:
        here_is_more = slow.send()
        while True:
            try:
                found += here.recv(1 << 16)
            except BlockingIOError:
                break
    assert found == large + chunk(crier_process._TOO_SLOW) + END
    here.close()
    there.close()
