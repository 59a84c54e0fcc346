"""`muntin doctor` names what it finds, and what to do about what is missing."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from muntin import doctor
from muntin.cli import app


def test_it_names_what_is_there() -> None:
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0
    for name in ("Python", "numba", "pyarrow", "kernel cache", "fastapi", "pyspark", "deltalake"):
        assert name in result.output


@pytest.mark.parametrize("extra", ["serve", "spark", "delta"])
def test_it_says_how_to_get_what_is_missing(monkeypatch: pytest.MonkeyPatch, extra: str) -> None:
    looked_for = {"serve": "_FOR_SERVING", "spark": "_FOR_SPARK", "delta": "_FOR_DELTA"}
    monkeypatch.setattr(doctor, looked_for[extra], ("no-such-package",))
    missing = [str(finding) for finding in doctor.examine() if finding.is_missing]
    assert any("no-such-package" in each and f"pip install 'muntin[{extra}]'" in each for each in missing)
