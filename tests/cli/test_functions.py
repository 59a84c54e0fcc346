"""`--functions MODULE` has the functions of a module in the folder that a command is called in."""

from __future__ import annotations

import sys

import pytest

from registry import books_restored

MODULE = """
import muntin
import pyarrow.compute as pc

@muntin.function("HALVED", takes=[float], returns=float)
def halved(x):
    return pc.divide(x, 2.0)
"""
SCRIPT = """
CREATE STREAM s (ts BIGINT, x DOUBLE) TIMESTAMP BY ts;
REGISTER QUERY q AS SELECT SUM(HALVED(x)) AS a FROM s [ROWS 5 SLIDE 2];
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "halves.py").write_text(MODULE)
    (tmp_path / "q.sql").write_text(SCRIPT)
    (tmp_path / "in.csv").write_text("ts,x\n1,2.0\n2,4.0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with books_restored():
        yield tmp_path
    sys.modules.pop("halves", None)


def test_run(muntin, folder) -> None:
    run = ("run", "q.sql", "--input", "in.csv", "--out", "out.csv")
    assert "unknown function 'HALVED'" in muntin(*run).output
    result = muntin(*run, "--functions", "halves")
    assert result.exit_code == 0, result.output
    assert (folder / "out.csv").read_text().splitlines()[1].startswith("3")
    result = muntin("serve", "q.sql", "--functions", "halves", "--check")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("./halves.py", "write halves, not ./halves.py"),
        ("no_such_module", "cannot be imported: No module named"),
    ],
)
def test_wrong_module(muntin, folder, module: str, message: str) -> None:
    result = muntin("explain", "q.sql", "--functions", module)
    assert result.exit_code == 2
    assert message in result.output
