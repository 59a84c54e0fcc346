"""Optional means optional: `import muntin` brings in neither Spark nor a web stack."""

from __future__ import annotations

import json
import subprocess
import sys

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
