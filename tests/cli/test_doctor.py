"""`muntin doctor` names what it finds, and what to do about what is missing."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from muntin import doctor
from muntin.cli import app


def test_it_names_what_is_there() -> None:
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0
    for name in ("Python", "numba", "pyarrow", "kernel cache", "pyspark"):
        assert name in result.output


def test_it_says_how_to_get_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_FOR_SPARK", ("no-such-package",))
    missing = [finding for finding in doctor.examine() if finding.is_missing]
    assert any("pip install 'muntin[spark]'" in str(finding) for finding in missing)
