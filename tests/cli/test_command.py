"""The command itself: help, version, and what it does not import."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version


def test_help_names_every_command(muntin):
    done = muntin("--help")
    assert done.exit_code == 0
    assert all(command in done.output for command in ("demo", "run", "explain", "bench"))


def test_version(muntin):
    assert muntin("--version").output == f"muntin {version('muntin')}\n"


def test_bench_lists_the_benchmarks():
    command = [sys.executable, "-m", "muntin", "bench", "--list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "push_throughput" in done.stdout


def test_help_imports_no_display():
    script = "import sys, muntin.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"rich", "muntin.demo", "muntin.run"} & set(done.stdout.split())
