"""What a measurement ran on: without it a number means nothing."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("numba", "numpy", "pyarrow", "sqlglot")


def describe_machine() -> dict[str, object]:
    """Processor, cores, memory and the versions that matter."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load": round(os.getloadavg()[0], 1),  # others at work on the same cores make runs slower
        "system": platform.system(),
        "python": platform.python_version(),
        **{package: _version(package) for package in PACKAGES},
    }


def cpu_model() -> str:
    """The processor's name as the kernel tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def describe_commit() -> str:
    """The commit measured, with a plus sign if files have changed since; "none" outside git."""
    commit = git("rev-parse", "--short=12", "HEAD")
    if not commit:
        return "none"
    return commit + (
        "+" if git("--no-optional-locks", "status", "--porcelain", "src", "benchmarks/*.py") else ""
    )


def git(*arguments: str) -> str:
    """What git prints; nothing if it fails, or where there is none."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
