"""Requests made up from the OpenAPI description, by schemathesis: none is answered with 5xx, none gets past a token.

`make test-api` runs this; `MUNTIN_API_SECONDS` says for how long each part asks.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.serve.test_process import start

SECONDS = os.environ.get("MUNTIN_API_SECONDS", "300")
TOOL = os.environ.get("SCHEMATHESIS") or shutil.which("schemathesis")
SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts;
CREATE TABLE limits (k VARCHAR, most BIGINT, PRIMARY KEY (k));
REGISTER QUERY sums AS SELECT k, SUM(n) AS n FROM s [RANGE 1 MINUTE SLIDE 1 SECOND] GROUP BY k;
REGISTER QUERY total AS SELECT SUM(x) AS x FROM s [RANGE 1 HOUR]
"""
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
OPEN = ("/health", "/ready")  # whoever asks
# A subscription has no end by itself: each that is asked for is told when to end.
HOOKS = """
import schemathesis

@schemathesis.hook
def before_call(context, case, kwargs):
    if case.operation.path == "/answers":
        case.query = {**(case.query or {}), "seconds": 0}
"""

pytestmark = [pytest.mark.api, pytest.mark.skipif(TOOL is None, reason="schemathesis is not installed")]


def ask(
    address: str, token: str, report: Path
) -> tuple[subprocess.CompletedProcess[str], Counter[tuple[str, int]]]:
    """Let schemathesis ask, and count its answers by path and status."""
    hooks = report.with_suffix(".py")
    hooks.write_text(HOOKS)
    command = [
        str(TOOL), "run", f"{address}/openapi.json", "--header", f"Authorization: Bearer {token}",
        "--max-time", SECONDS, "--checks", CHECKS, "--continue-on-failure",
        "--request-timeout", "60", "--report", "har", "--report-har-path", str(report),
    ]  # fmt: skip
    environment = os.environ | {"SCHEMATHESIS_HOOKS": str(hooks)}
    environment.pop("PYTHONPATH", None)  # the tool has an environment of its own
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=report.parent, env=environment
    )
    entries = json.loads(report.read_text())["log"]["entries"]
    found = Counter(
        (urlsplit(each["request"]["url"]).path, int(each["response"]["status"])) for each in entries
    )
    return done, found


def test_requests_made_up(tmp_path: Path) -> None:
    """With a good token: no 5xx, and only what the description says. With a wrong one: nothing gets through."""
    tokens = tmp_path / "tokens"
    tokens.write_text("admin secret-of-the-administrator\nread secret-of-the-reader\n")
    tokens.chmod(0o600)
    process, address = start(tmp_path, "--tokens", str(tokens), script=SCRIPT)
    try:
        headers = {"Authorization": "Bearer secret-of-the-administrator"}
        rows = [{"ts": 0, "k": "a", "n": 1, "x": 0.5}]
        httpx.post(f"{address}/streams/s", json=rows, headers=headers, timeout=120).raise_for_status()
        done, found = ask(address, "secret-of-somebody-else", tmp_path / "closed.har")
        let_in = {each: many for each, many in found.items() if each[0] not in OPEN and each[1] < 400}
        assert let_in == {}
        assert any(status == 401 for _, status in found), done.stdout[-6_000:] + done.stderr[-6_000:]
        assert httpx.get(f"{address}/streams", headers=headers, timeout=120).json()[0]["events"] == 1
        done, found = ask(address, "secret-of-the-administrator", tmp_path / "open.har")
        print(sum(found.values()), "requests:", Counter(status for _, status in found.elements()))
        assert not [each for each in found if each[1] >= 500]
        assert found["/answers", 200]
        assert done.returncode == 0, done.stdout[-6_000:]
        assert httpx.get(f"{address}/ready", timeout=120).status_code == 200
    finally:
        process.kill()
        process.wait()
