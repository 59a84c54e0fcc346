"""kill -9 of the real server at random points, under pushes, statements and changes of tables over HTTP.

Clients number their changes (`Muntin-Producer`, `Muntin-Sequence`) and send one again until it is answered. In the end
every event has been counted once, and the answers, by id, are those of an engine that does by itself, without a stop,
what the log says.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from muntin import Engine, MuntinError
from muntin.arrow_bytes import stream_bytes
from muntin.serve.json_text import json_rows
from muntin.serve.log import Log
from muntin.serve.record import read_table, unpack_record
from muntin.serve.script import Roster
from muntin.serve.wire import ARROW
from muntin.shard.emit.portion import portions

KILLS = int(os.environ.get("MUNTIN_KILLS", "300"))
CLIENTS = 3
SECOND = 1_000_000
SCRIPT = """
CREATE STREAM s (ts BIGINT, client BIGINT, number BIGINT, k VARCHAR) TIMESTAMP BY ts DELAY 60 SECONDS;
CREATE TABLE limits (k VARCHAR, most BIGINT, PRIMARY KEY (k));
REGISTER QUERY counted AS SELECT client, COUNT(*) AS n, SUM(number) AS total FROM s [RANGE 900 DAYS] GROUP BY client;
REGISTER QUERY sums AS SELECT k, COUNT(*) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k;
REGISTER QUERY over AS SELECT s.k, COUNT(*) AS n FROM s [RANGE 10 SECONDS SLIDE 2 SECONDS] AS s
JOIN limits AS l ON s.k = l.k GROUP BY s.k HAVING COUNT(*) > l.most EMIT CHANGES
"""


class Killed:
    """A server that is killed again and again, and started again on the same folder."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._errors = open(folder / "errors.txt", "w")  # noqa: SIM115
        self.process: subprocess.Popen[str] | None = None
        self.port = 0
        (folder / "script.sql").write_text(SCRIPT)

    def begin(self) -> None:
        """Start the process, and wait for nothing."""
        command = [
            sys.executable, "-m", "muntin", "serve", str(self._folder / "script.sql"),
            "--data", str(self._folder / "data"), "--listen", "127.0.0.1:0", "--checkpoint-seconds", "1.5",
        ]  # fmt: skip
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )

    def wait(self) -> None:
        """Until it listens."""
        assert self.process is not None
        assert self.process.stdout is not None
        told = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", told)
        assert found, (told, (self._folder / "errors.txt").read_text()[-2_000:])
        self.port = int(found[1])

    def kill(self, by: signal.Signals = signal.SIGKILL) -> None:
        assert self.process is not None
        self.process.send_signal(by)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        self._errors.close()


class Client(threading.Thread):
    """Sends changes one after the other, each until it is answered."""

    def __init__(self, number: int, server: Any, clock: Iterator[int]):
        super().__init__(daemon=True)
        self._number, self._server, self._clock = number, server, clock
        self._chance = random.Random(number)
        self.is_done = threading.Event()  # set: finish the change at hand and stop
        self.pushed, self.total, self.again, self.repeated = 0, 0, 0, 0
        self.problem: str | None = None

    def run(self) -> None:
        for sequence in count(1):
            if self.is_done.is_set():
                return
            try:
                self._send(sequence, *self._change())
            except AssertionError as error:
                self.problem = str(error)
                return

    def _change(self) -> tuple[str, str, bytes, str]:
        kind, chance = self._chance.random(), self._chance
        if kind < 0.75:
            return self._push()
        if kind < 0.85:
            rows = json.dumps([{"k": chance.choice("abc"), "most": chance.randrange(12)}]).encode()
            return "POST", "/tables/limits", rows, "application/json"
        name = f"own{self._number}{chance.randrange(2)}"
        if kind < 0.95:
            text = f"SELECT COUNT(*) AS n FROM s [RANGE {chance.randrange(1, 5)} SECONDS SLIDE 1 SECOND]"
            return (
                "PUT",
                f"/queries/{name}?replace=true",
                json.dumps({"sql": text}).encode(),
                "application/json",
            )
        if kind < 0.98:
            return "DELETE", f"/queries/{name}", b"", ""
        return "POST", "/checkpoint", b"", ""

    def _push(self) -> tuple[str, str, bytes, str]:
        many = self._chance.randrange(1, 20)
        numbers = list(range(self.pushed + 1, self.pushed + many + 1))
        self.pushed, self.total = self.pushed + many, self.total + sum(numbers)
        rows = {
            "ts": [next(self._clock) for _ in numbers], "client": [self._number] * many, "number": numbers,
            "k": [self._chance.choice("abcd") for _ in numbers],
        }  # fmt: skip
        if self._chance.random() < 0.5:
            return "POST", "/streams/s", stream_bytes(pa.table(rows)), ARROW
        return "POST", "/streams/s", json.dumps(rows).encode(), "application/json"

    def _send(self, sequence: int, method: str, path: str, body: bytes, kind: str) -> None:
        headers = {
            "Muntin-Producer": f"client {self._number}", "Muntin-Sequence": str(sequence), "Content-Type": kind
        }  # fmt: skip
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                told = answer.read()
                connection.close()
            except (OSError, http.client.HTTPException):
                self.again += 1
                time.sleep(0.02)
                continue
            if answer.status in (429, 503):
                time.sleep(0.02)
                continue
            # a query that is not there to be dropped: its number is free for the next change
            if (answer.status == 404 and method == "DELETE") or path == "/checkpoint":
                method, path, body, kind = self._push()
                headers["Content-Type"] = kind
                continue
            assert answer.status == 200, (method, path, answer.status, told[:300])
            self.repeated += b'"repeated":true' in told
            return


class Follower(threading.Thread):
    """Follows all answers over HTTP, and goes on behind the last one that it saw."""

    def __init__(self, server: Killed):
        super().__init__(daemon=True)
        self._server = server
        self.is_done = threading.Event()
        self.told: dict[str, str] = {}  # by id
        self._last: str | None = None
        self.problem: str | None = None

    def run(self) -> None:
        while not self.is_done.is_set():
            try:
                self._follow()
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.02)

    def _follow(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=5)
        # the first record of the log closes no window, so whoever stands there has missed nothing
        connection.request("GET", "/answers", headers={"Last-Event-ID": self._last or "1.0.0"})
        answer = connection.getresponse()
        if answer.status != 200:
            if answer.status != 410 or self._last is not None:
                self.problem = f"{answer.status} {answer.read()[:200]!r}"
            return
        here = None
        while not self.is_done.is_set() and (line := answer.readline()):
            if not line.endswith(b"\n"):
                return
            if line.startswith(b"id: "):
                here = line[4:].decode().strip()
            if line.startswith(b"data: ") and here is not None:
                told = json.loads(line[6:])
                before = self.told.setdefault(told["id"], line[6:].decode().strip())
                if before != line[6:].decode().strip():
                    self.problem = f"{told['id']} was {before}, then {line!r}"
                self._last = here


def uninterrupted(
    log: Path, taken: Callable[[dict[str, Any]], pa.RecordBatch] | None = None
) -> tuple[Engine, dict[str, str]]:
    """What an engine makes of a log by itself: the engine, and the answers by id. `taken` gives events of a source."""
    engine, roster, last, now = Engine(portion_rows=100_000, clock=lambda: now), Roster(), dict[int, int](), 0
    done = dict[str, int]()
    found: dict[str, str] = {}
    opened = Log(log)
    for number, data in opened.read(1):
        record = unpack_record(data)
        now = record.told["at"]
        producer, sequence = record.told.get("producer"), record.told.get("sequence", 0)
        if producer is None or done.get(producer, 0) + 1 == sequence:
            try:
                if record.do == "take" and taken is not None:
                    engine.push(record.told["stream"], taken(record.told))
                _do(engine, roster, record.do, record.told, record.body)
                if producer is not None:
                    done[producer] = sequence
            except MuntinError:
                pass
        if record.told["last"] == number or number == opened.last:
            for given in portions(engine):
                for name, table in given.items():
                    incarnation = roster.incarnations[name]
                    for row in json_rows(table):
                        last[incarnation] = last.get(incarnation, 0) + 1
                        id = f"{incarnation}-{last[incarnation]}"
                        found[id] = json.dumps({"query": name, "id": id, **row})
    opened.close()
    return engine, found


def _do(engine: Engine, roster: Roster, do: str, told: dict[str, Any], body: bytes) -> None:
    match do:
        case "push":
            engine.push(told["stream"], read_table(body))
        case "load":
            engine.load(told["table"], read_table(body))
        case "script":
            roster.follow_script(engine, told["sql"])
        case "execute":
            roster.execute(engine, told["sql"])


def ask(port: int, path: str) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("GET", path)
    return json.loads(connection.getresponse().read())


@pytest.mark.faults
@pytest.mark.parametrize("seed", [int(os.environ.get("MUNTIN_SEED", "1"))])
def test_killed_again_and_again(tmp_path: Path, seed: int) -> None:
    """Every event once, every answer as without a kill."""
    server, chance = Killed(tmp_path), random.Random(seed)
    ticks = count(0, SECOND // 10)
    lock = threading.Lock()

    def clock() -> Iterator[int]:
        while True:
            with lock:
                at = next(ticks)
            yield at

    clients = [Client(number, server, clock()) for number in range(CLIENTS)]
    follower = Follower(server)
    ends = Counter[str]()
    try:
        server.begin()
        for each in (*clients, follower):
            each.start()
        for _ in range(KILLS):
            if chance.random() < 0.15:  # while it starts, or does its log again
                time.sleep(chance.random() * 2)
                server.kill()
                server.begin()
                ends["early"] += 1
            server.wait()
            time.sleep(chance.expovariate(1 / 0.7))
            by = signal.SIGKILL if chance.random() < 0.9 else signal.SIGTERM
            server.kill(by)
            ends[by.name] += 1
            server.begin()
            assert not [each.problem for each in (*clients, follower) if each.problem]
        server.wait()
        for client in clients:
            client.is_done.set()
        for client in clients:
            client.join(300)
            assert not client.is_alive()
        assert not [each.problem for each in (*clients, follower) if each.problem]
        told = {row["client"]: row for row in ask(server.port, "/queries/counted/answer")}
        [stream] = ask(server.port, "/streams")
        assert stream["late"] == 0
        for number, client in enumerate(clients):
            assert (told[number]["n"], told[number]["total"]) == (client.pushed, client.total)
        deadline = time.monotonic() + 300
        server_told = {name: ask(server.port, f"/queries/{name}/answer") for name in ("sums", "over")}
        engine, wanted = uninterrupted(copied(tmp_path))
        while follower.told.keys() < wanted.keys() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert follower.told == wanted
        for name, rows in server_told.items():
            assert json_rows(engine.lookup(name)) == rows
        again, repeated = sum(each.again for each in clients), sum(each.repeated for each in clients)
        events = sum(each.pushed for each in clients)
        print(f"{ends}; {events} events; sent again {again} times, of which {repeated} had been made")
        assert repeated or KILLS < 50  # otherwise nothing was tried
    finally:
        follower.is_done.set()
        server.close()


def copied(folder: Path) -> Path:
    """A copy of a server's log: the server has the log open."""
    copy = folder / "copy"
    copy.mkdir()
    for each in (folder / "data" / "log").glob("*.log"):
        (copy / each.name).write_bytes(each.read_bytes())
    return copy
