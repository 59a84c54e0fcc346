"""`muntin serve` as a process: it says where it listens, ends with a checkpoint, and a kill loses nothing."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from muntin.arrow_bytes import stream_bytes
from muntin.cli import app
from muntin.serve.wire import ARROW
from tests.serve.test_sources import until

LIMIT = 300  # seconds for an answer or an end; httpx by itself would give up after five
SCRIPT = """
CREATE STREAM s (ts BIGINT, n BIGINT) TIMESTAMP BY ts;
REGISTER QUERY total AS SELECT SUM(n) AS n FROM s [RANGE 1 HOUR]
"""


def start(
    folder: Path, *options: str, errors: Any = None, script: str = SCRIPT
) -> tuple[subprocess.Popen[str], str]:
    """A server at a port of its own choice, and its address."""
    (folder / "script.sql").write_text(script)
    command = [
        sys.executable,
        "-m",
        "muntin",
        "serve",
        str(folder / "script.sql"),
        "--data",
        str(folder / "data"),
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", *options],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )
    assert process.stdout is not None
    told = process.stdout.readline()
    found = re.match(r"muntin listens at (http://127\.0\.0\.1:\d+);", told)
    assert found, told
    return process, found[1]


def push(address: str, n: int) -> None:
    assert httpx.post(f"{address}/streams/s", json=[{"ts": n, "n": n}], timeout=LIMIT).json() == {"events": 1}


def total(address: str) -> int:
    return int(httpx.get(f"{address}/queries/total/answer", timeout=LIMIT).json()[0]["n"])


@pytest.mark.slow
def test_killed_and_stopped(tmp_path: Path) -> None:
    """kill -9: what was acknowledged is there. SIGTERM: it ends well, and the next start has nothing to do again."""
    process, address = start(tmp_path)
    for n in range(1, 6):
        push(address, n)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process, address = start(tmp_path)
    assert total(address) == 15
    push(address, 6)
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT) == 0
    kept = sorted((tmp_path / "data" / "checkpoints").iterdir())
    assert int(kept[-1].stem) == 7  # the script and six pushes


BY_KEY = """
CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts;
REGISTER QUERY sums AS SELECT k, SUM(n) AS n FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY k
"""


@pytest.mark.slow
def test_the_shorter_ways(tmp_path: Path) -> None:
    """On one connection: plain look-ups, pushes of Arrow, and what the framework answers, in turn. A subscription goes
    on after the process that sends to it has ended, and ends with the server."""
    process, address = start(tmp_path, script=BY_KEY)
    plain = {"Accept": "*/*"}
    with httpx.Client(base_url=address, timeout=LIMIT) as client, client.stream("GET", "/answers") as answers:
        lines = answers.iter_lines()
        for second in range(3):
            rows = pa.table({"ts": [second * 1_000_000] * 2, "k": ["a", "b"], "n": [second, 1]})
            headers = {"Content-Type": ARROW}
            told = client.post("/streams/s", content=stream_bytes(rows), headers=headers)
            assert told.json() == {"events": 2}
            found = client.get("/queries/sums/answer?key=a", headers=plain)
            longer = client.get("/queries/sums/answer?key=a", headers={"Origin": "https://elsewhere.example"})
            assert found.json() == longer.json()
            assert found.headers["content-type"] == longer.headers["content-type"] == "application/json"
            assert [row["n"] for row in found.json()] == ([sum(range(second))] if second else [])
        assert client.get("/queries/none/answer?key=a", headers=plain).status_code == 404
        assert client.post("/streams/s", content=b"x", headers=headers).status_code == 400
        seen = [next(line for line in lines if line.startswith("id:")) for _ in range(2)]
        [crier] = psutil.Process(process.pid).children()
        until(
            lambda: any(each.status == "ESTABLISHED" for each in crier.net_connections())
        )  # it has been given
        assert _metric(client, "muntin_followers") == 1
        crier.kill()
        with pytest.raises(httpx.RemoteProtocolError):
            list(lines)
        # the connection ends before the server has heard that the process has
        until(lambda: _metric(client, "muntin_followers") == 0)
    again = {"Last-Event-ID": seen[0].removeprefix("id: ")}
    with httpx.stream("GET", f"{address}/answers", headers=again, timeout=LIMIT) as answers:
        lines = answers.iter_lines()
        assert next(line for line in lines if line.startswith("id:")) == seen[1]
        process.send_signal(signal.SIGTERM)
        list(lines)
    assert process.wait(LIMIT) == 0


def _metric(client: httpx.Client, name: str) -> float:
    return float(re.findall(rf"^{name} (.*)$", client.get("/metrics").text, re.M)[0])


@pytest.mark.slow
def test_a_full_disk(tmp_path: Path) -> None:
    """Changes are refused with 507, look-ups go on, and a start with room has what was acknowledged."""
    (tmp_path / "data").mkdir()
    process, address = start(tmp_path)
    push(address, 1)
    _, most = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)  # which nobody may raise again
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (40_000, most))  # as a disk that is full then
    status, pushed, sequence = 200, 1, 0
    while status == 200:
        sequence += 1
        rows = [{"ts": 1, "n": 1}] * 100
        headers = {"Muntin-Producer": "me", "Muntin-Sequence": str(sequence)}
        told = httpx.post(f"{address}/streams/s", json=rows, headers=headers, timeout=LIMIT)
        status = told.status_code
        pushed += 100 * (status == 200)
    assert (status, "cannot be written" in told.json()["error"]["message"]) == (507, True)
    assert total(address) == pushed
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, most))
    assert httpx.post(f"{address}/streams/s", json=rows, headers=headers, timeout=LIMIT).json() == {
        "events": 100
    }
    process.send_signal(signal.SIGKILL)
    process.wait()
    process, address = start(tmp_path)
    assert total(address) == pushed + 100
    assert httpx.post(f"{address}/streams/s", json=rows, headers=headers, timeout=LIMIT).json()["repeated"]
    process.kill()
    process.wait()


@pytest.mark.slow
def test_tokens_are_in_no_log(tmp_path: Path) -> None:
    """Neither good nor bad ones, whatever the request; and each line of the log is JSON, if that was asked for."""
    tokens, log = tmp_path / "tokens", tmp_path / "log.txt"
    tokens.write_text("admin secret-of-the-administrator\n")
    tokens.chmod(0o600)
    with open(log, "w") as errors:
        process, address = start(tmp_path, "--tokens", str(tokens), "--log-format", "json", errors=errors)
        for token in ("secret-of-the-administrator", "secret-of-somebody-else"):
            for path in ("/queries", "/queries/total/answer", "/nowhere", "/queries/%ff/answer?key=%"):
                httpx.get(address + path, headers={"Authorization": f"Bearer {token}"}, timeout=LIMIT)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0
    lines = log.read_text().splitlines()
    assert "secret" not in log.read_text()
    assert {json.loads(line)["level"] for line in lines} == {"info"}


def run(*arguments: str) -> Result:
    """In this process: none of these commands listens."""
    return CliRunner().invoke(app, ["serve", *arguments])


def test_what_is_refused_before_it_starts(tmp_path: Path) -> None:
    """An open port without tokens; and a script is checked without serving it."""
    script = tmp_path / "script.sql"
    script.write_text(SCRIPT)
    told = run(str(script), "--data", str(tmp_path / "data"), "--listen", "0.0.0.0:0")
    assert (told.exit_code, "give --tokens FILE" in told.stderr) == (2, True)
    checked = run(str(script), "--check")
    assert checked.stdout.endswith("declares 1 stream, 1 query\n")
    script.write_text(SCRIPT + "; REGISTER QUERY again AS SELECT COUNT(*) FROM s [ROWS 5]")
    assert run(str(script), "--check").stdout.endswith("declares 1 stream, 2 queries\n")
    script.write_text("CREATE STREAM s (ts BIGINT")
    assert run(str(script), "--check").exit_code == 2
    assert not (tmp_path / "data").exists()
