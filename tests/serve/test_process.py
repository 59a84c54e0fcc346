"""`muntin serve` as a process: it says where it listens, ends with a checkpoint, and a kill loses nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

SCRIPT = """
CREATE STREAM s (ts BIGINT, n BIGINT) TIMESTAMP BY ts;
REGISTER QUERY total AS SELECT SUM(n) AS n FROM s [RANGE 1 HOUR]
"""


def start(folder: Path, *options: str) -> tuple[subprocess.Popen[str], str]:
    """A server at a port of its own choice, and its address."""
    (folder / "script.sql").write_text(SCRIPT)
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
        [*command, "--listen", "127.0.0.1:0", *options], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    told = process.stdout.readline()
    found = re.match(r"muntin listens at (http://127\.0\.0\.1:\d+);", told)
    assert found, told
    return process, found[1]


def push(address: str, n: int) -> None:
    assert httpx.post(f"{address}/streams/s", json=[{"ts": n, "n": n}]).json() == {"events": 1}


def total(address: str) -> int:
    return int(httpx.get(f"{address}/queries/total/answer").json()[0]["n"])


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
    assert process.wait(30) == 0
    kept = sorted((tmp_path / "data" / "checkpoints").iterdir())
    assert int(kept[-1].stem) == 7  # the script and six pushes


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "muntin", "serve", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_what_is_refused_before_it_starts(tmp_path: Path) -> None:
    """An open port without tokens; and a script is checked without serving it."""
    script = tmp_path / "script.sql"
    script.write_text(SCRIPT)
    told = run(str(script), "--data", str(tmp_path / "data"), "--listen", "0.0.0.0:0")
    assert (told.returncode, "give --tokens FILE" in told.stderr) == (2, True)
    checked = run(str(script), "--check")
    assert checked.stdout.endswith("declares 1 streams, 1 queries\n")
    script.write_text("CREATE STREAM s (ts BIGINT")
    assert run(str(script), "--check").returncode == 2
    assert not (tmp_path / "data").exists()
