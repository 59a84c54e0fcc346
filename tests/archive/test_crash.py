"""kill -9 at any point loses nothing that was reported, doubles nothing, and leaves a view that can be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def kill(folder: Path, kills: int, seed: int) -> str:
    command = [sys.executable, "-m", "tests.archive.crash", str(folder / "a"), str(kills), str(seed)]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert child.returncode == 0, child.stdout + child.stderr
    return child.stdout


def test_a_few_kills(tmp_path):
    assert kill(tmp_path, kills=4, seed=1).startswith("4 kills")


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("seed", range(10))
def test_many_kills(tmp_path, seed):
    """Two hundred in all."""
    assert kill(tmp_path, kills=20, seed=100 + seed).startswith("20 kills")
