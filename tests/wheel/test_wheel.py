"""The wheel works where a user has it: installed alone, on each Python that the machine has, outside of the checkout.

It takes minutes and downloads packages: `make test-wheels`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = tuple(
    each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: Python :: 3\.\d+$", each)
)
SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k VARCHAR, v BIGINT) TIMESTAMP BY ts;
REGISTER QUERY q AS SELECT k, SUM(v) AS v FROM s [RANGE 1 MINUTE SLIDE 1 SECOND] GROUP BY k;
"""
MOST_CPU_SECONDS = (
    0.1  # of `import muntin`, once its bytecode is kept; the least of several, whatever else the machine does
)

pytestmark = pytest.mark.wheel


def find_python(version: str) -> str | None:
    """An interpreter of this version: on the path, or one of pyenv's, whose shims alone are no interpreters."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    kept = [str(path) for path in sorted(home.glob(f"versions/{version}.*/bin/python"))]
    for each in (shutil.which(f"python{version}"), *kept):
        code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
        if each and _output_of([each, "-c", code]) == version:
            return each
    return None


def _output_of(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what a release holds, so that nothing of the checkout helps."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "src", ignore=ignored)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", "."]
    subprocess.run(command, cwd=folder, check=True)
    (made,) = (folder / "dist").glob("*.whl")
    return made


@pytest.fixture(scope="module", params=PYTHONS)
def home(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a fresh environment, `venv`, that has the wheel with the server, and nothing else."""
    python = find_python(request.param)
    if python is None:
        pytest.skip(f"there is no Python {request.param} on this machine")
    folder = tmp_path_factory.mktemp(f"python-{request.param}")
    subprocess.run([python, "-m", "venv", "venv"], cwd=folder, check=True)
    install = ["venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, f"{wheel}[serve]"], cwd=folder, check=True)
    return folder


def run(home: Path, *command: str) -> str:
    """What it prints, with nothing of the checkout to be found, and kernels of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=home, env=kept | {"MUNTIN_CACHE_DIR": str(home / "kernels"), "COLUMNS": "100"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_the_wheel_holds_the_package_alone(wheel: Path) -> None:
    """All modules, the types' mark and the pages of the console: no tests, no benchmarks."""
    held = set(zipfile.ZipFile(wheel).namelist())
    ours = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "muntin").rglob("*.py")}
    assert {name for name in held if name.endswith(".py")} == ours
    assert {"muntin/py.typed", "muntin/serve/console/static/index.html"} <= held
    assert {name.partition("/")[0] for name in held} == {"muntin", f"muntin-{PROJECT['version']}.dist-info"}


def test_it_is_imported_from_the_environment(home: Path) -> None:
    """And is the version that it should be, without an optional package."""
    found = run(home, "venv/bin/python", "-c", "import muntin; print(muntin.__file__, muntin.__version__)")
    place, version = found.split()
    assert Path(place).is_relative_to(home)
    assert version == PROJECT["version"]
    assert run(home, "venv/bin/muntin", "--version") == f"muntin {PROJECT['version']}\n"


def test_import_is_light(home: Path) -> None:
    code = "import time; began = time.process_time(); import muntin; print(time.process_time() - began)"
    spent = [float(run(home, "venv/bin/python", "-c", code)) for _ in range(8)]
    assert min(spent) < MOST_CPU_SECONDS


def test_ten_lines_of_the_readme(home: Path) -> None:
    """Embedded: the first block of Python, which makes its own events, and the next one, which asks."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    (home / "ten_lines.py").write_text("\n".join(blocks[:2]))
    assert len(blocks[0].strip().splitlines()) < 20
    printed = run(home, "venv/bin/python", "ten_lines.py")
    assert "slices by symbol" in printed
    assert re.search(r"^busy [1-9]\d*$", printed, re.MULTILINE)


def test_the_demo(home: Path) -> None:
    """It ends with its events: kernels are compiled first, which takes a while on a busy machine."""
    printed = run(
        home, "venv/bin/muntin", "demo", "--queries", "50", "--events", "300000", "--seconds", "900"
    )
    assert "300,000 events" in printed


def test_a_server_checks_its_script(home: Path) -> None:
    (home / "script.sql").write_text(SCRIPT)
    printed = run(home, "venv/bin/muntin", "serve", "script.sql", "--check")
    assert printed.strip() == "script.sql declares 1 stream, 1 query"


def test_spark_says_what_it_needs(home: Path) -> None:
    code = "import muntin\ntry:\n    import muntin.spark\nexcept muntin.MissingPackage as error: print(error)"
    assert "pip install 'muntin[spark]'" in run(home, "venv/bin/python", "-c", code)
