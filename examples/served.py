"""Fraud in a server: the rules and payments of fraud.py over HTTP, alerts as server-sent events with ids."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import Request, urlopen

from fraud import SCRIPT, payments


class Server:
    """`muntin serve` as a process of its own, on a folder that keeps all that it was told."""

    def __init__(self, folder: Path):
        script = folder / "fraud.sql"
        script.write_text(SCRIPT)
        command = [
            sys.executable,
            "-m",
            "muntin",
            "serve",
            script,
            "--data",
            folder,
            "--listen",
            "127.0.0.1:0",
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._address = re.findall(r"http://[\d.]+:\d+", self._process.stdout.readline())[0]

    def post(self, path: str, rows: Iterable[dict[str, Any]]) -> None:
        """Events or rows as JSON lines; what was answered with 200 is on disk."""
        body = "\n".join(json.dumps(row, default=str) for row in rows).encode()
        urlopen(Request(self._address + path, body, {"Content-Type": "application/x-ndjson"})).close()

    def answers(self, after: str) -> list[dict[str, Any]]:
        """What was given out behind a place. Without `seconds` it goes on, and waits for what comes."""
        request = Request(f"{self._address}/answers?seconds=0", headers={"Last-Event-ID": after})
        with urlopen(request) as lines:
            return [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]

    def stop(self) -> None:
        """Let it write a checkpoint; `kill -9` would lose nothing either."""
        self._process.terminate()
        self._process.wait()


def main() -> list[str]:
    """The two hours of fraud.py; the same alerts."""
    random, alerts, now = Random(1), [], datetime(2026, 3, 2, 8)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        try:
            server.post("/tables/limits", ({"account": f"a{i}", "daily": "1500.00"} for i in range(50)))
            while now < datetime(2026, 3, 2, 10):
                minute, now = payments(random, now), now + timedelta(minutes=1)
                rows = zip(*minute.values(), strict=True)
                server.post("/streams/payments", (dict(zip(minute, row, strict=True)) for row in rows))
            for row in server.answers(after="0.0.0"):
                if row["change"] == "enter":
                    told = {name: row[name] for name in row if name in ("spent", "payments", "countries")}
                    alerts.append(f"{row['window_end'][11:19]} {row['query']}: {row['account']} {told}")
        finally:
            server.stop()
    return alerts


if __name__ == "__main__":
    print(*main(), sep="\n")
