"""Optional means optional: `import muntin` brings in neither Spark nor a web stack."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time

import pytest

from muntin import loading

OPTIONAL = {"pyspark", "fastapi", "uvicorn", "starlette", "duckdb", "polars", "matplotlib", "typer"}


def modules_after(code: str) -> set[str]:
    """Top-level modules a fresh interpreter has loaded after running `code`."""
    report = "; import json, sys; print(json.dumps(sorted(sys.modules)))"
    child = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(child.stdout.splitlines()[-1])}


def test_import_is_light() -> None:
    """None of the optional libraries is loaded by importing the package."""
    assert "muntin" in modules_after("import muntin")
    assert not modules_after("import muntin") & OPTIONAL


def test_an_engine_is_light() -> None:
    """Nor by using an engine."""
    code = (
        "import muntin; e = muntin.Engine();"
        "e.execute('CREATE STREAM s (ts TIMESTAMP, v BIGINT) TIMESTAMP BY ts');"
        "e.register('SELECT SUM(v) AS v FROM s [ROWS 2]', name='q');"
        "e.push('s', {'ts': [1, 2], 'v': [3, 4]}); assert e.lookup('q')['v'].to_pylist() == [7]"
    )
    assert not modules_after(code) & OPTIONAL


@pytest.mark.parametrize(
    ("is_watched", "patience", "lines"), [(True, 0.0, 1), (True, 3_600.0, 0), (False, 0.0, 0)], ids=str
)
def test_slow_imports_are_told_to_who_waits(
    is_watched: bool,
    patience: float,
    lines: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One line to a person before a terminal, and only if it takes long."""
    monkeypatch.setattr(loading, "PATIENCE", patience)
    monkeypatch.setattr(loading, "_is_watched", lambda: is_watched)
    others = set(threading.enumerate())
    with loading.told_if_slow():
        started = set(threading.enumerate()) - others
        while len(caplog.records) < lines and any(each.is_alive() for each in started):
            time.sleep(0.01)
    for each in started:
        each.join(120)  # it does not wait for what is over
        assert not each.is_alive()
    assert [record.name for record in caplog.records] == ["muntin.loading"] * lines
