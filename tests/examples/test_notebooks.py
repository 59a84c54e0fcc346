"""The notebooks of `examples/` run from top to bottom, check their answers, and are stored with what they show."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LARGEST = 300_000  # bytes, with outputs and plots


def code_of(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def text_of(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)


def printed(cell: dict[str, Any]) -> list[str]:
    """What a cell shows as text: drawings and plots stand for themselves, since their bytes may differ. What goes to
    stderr is left out: there muntin says that it loads or compiles, if that takes long."""
    shown = []
    for output in cell["outputs"]:
        data = output.get("data", {})
        if output["output_type"] == "stream":
            shown += [text_of(output["text"])] if output["name"] == "stdout" else []
        elif "image/png" not in data and "<svg" not in text_of(data.get("text/html", "")):
            shown.append(text_of(data.get("text/plain", "")))
    return shown


def test_there_are_two() -> None:
    assert len(NOTEBOOKS) >= 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_with_outputs_and_small(path: Path) -> None:
    """Whoever reads it without running it sees answers, a drawing of the sharing and a plot; nobody sees an error."""
    assert path.stat().st_size < LARGEST
    notebook = json.loads(path.read_text())
    outputs = [output for cell in code_of(notebook) for output in cell["outputs"]]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert {"image/png", "text/plain"} <= kinds
    assert "<svg" in json.dumps([output.get("data") for output in outputs])
    assert all(output["output_type"] != "error" for output in outputs)
    assert [cell["execution_count"] for cell in code_of(notebook)] == [*range(1, len(code_of(notebook)) + 1)]
    assert f"({path.name})" in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_cell_compares(path: Path) -> None:
    """A check of the answers that can fail: an `assert` beside pandas or DuckDB."""
    cells = [text_of(cell["source"]) for cell in code_of(json.loads(path.read_text()))]
    comparing = [
        text for text in cells if any(isinstance(each, ast.Assert) for each in ast.walk(ast.parse(text)))
    ]
    assert any("duckdb" in text or "pd." in text for text in comparing)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_and_prints_what_is_stored(path: Path, tmp_path: Path) -> None:
    """Every cell, in a kernel of its own: an assert that fails is an error here."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    stored = [printed(cell) for cell in code_of(notebook)]
    context = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=context).execute()
    assert [printed(cell) for cell in code_of(notebook)] == stored
    assert sum(map(len, stored)) > 3
