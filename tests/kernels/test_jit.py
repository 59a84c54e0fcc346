"""Compiling kernels does not kill the process, and compiled code is found again."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import muntin
from muntin.component.count import Counts
from muntin.kernels import jit, told

# LLVM turns the inner loop into a 128-bit division; without libgcc_s the child dies of a
# segmentation fault (return code -11) with numba 0.62 to 0.68.
EDGES = """
import numpy as np
from muntin.kernels.jit import kernel

@kernel
def fold_edges(at, step, width, out):
    edge = step
    base = 0
    for i in range(len(at)):
        while at[i] >= edge:
            edge += step
            base += width
        out[base] += 1

out = np.zeros(40, np.int64)
fold_edges(np.arange(0, 40, 3), 10, 10, out)
assert out.nonzero()[0].tolist() == [0, 10, 20, 30], out
"""


def test_loop_over_edges_survives() -> None:
    """The loop that needs __udivti3 compiles and counts right, in a process of its own."""
    child = subprocess.run(
        [sys.executable, "-c", EDGES], env=os.environ | {"MUNTIN_CACHE_DIR": "off"}, check=False
    )
    assert child.returncode == 0


def run_fold(cache: Path, package: Path = Path(muntin.__file__).parents[1]) -> str:
    return told_by_fold(cache, package)[0]


def told_by_fold(cache: Path, package: Path = Path(muntin.__file__).parents[1]) -> tuple[str, str]:
    """What a process that compiles a kernel prints, and what it tells on stderr."""
    code = (
        "import numpy as np; from muntin.kernels.fold import merge_partials; "
        "from muntin.component.count import Counts; m = merge_partials(Counts); z = np.zeros(1, np.int64); "
        "m(z, z + 1, 1, z, z + 7, z); print(z[0], sum(m.stats.cache_hits.values()))"
    )
    child = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"MUNTIN_CACHE_DIR": str(cache), "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=True,
    )
    return child.stdout, child.stderr


def test_cache_is_used_by_the_next_process(tmp_path: Path) -> None:
    """A second process loads what the first compiled, from the directory it was told to use, and tells nothing."""
    (first, told), (second, nothing) = told_by_fold(tmp_path), told_by_fold(tmp_path)
    assert told.startswith("muntin: compiling kernels for first use")
    assert f"kept in {tmp_path / 'kernels'}" in told
    assert nothing == ""
    assert first.split()[0] == second.split()[0] == "7"
    assert (first.split()[1], second.split()[1]) == ("0", "1")
    assert list(tmp_path.glob("kernels/*/**/*.nbi"))


def test_compiled_code_is_found_by_the_same_sources_elsewhere(tmp_path: Path) -> None:
    """Another checkout, with other dates, loads what this one compiled; a changed file that is called compiles anew."""
    assert run_fold(tmp_path / "cache").split() == ["7", "0"]
    package = tmp_path / "elsewhere" / "muntin"
    shutil.copytree(Path(muntin.__file__).parent, package, copy_function=shutil.copyfile)
    assert run_fold(tmp_path / "cache", package.parent).split() == ["7", "1"]
    called = package / "kernels" / "combine.py"
    called.write_text(called.read_text() + "\n# changed\n")
    assert run_fold(tmp_path / "cache", package.parent).split() == ["7", "0"]


@pytest.mark.parametrize("file", sorted(Path(jit.__file__).parent.glob("*.py")), ids=lambda file: file.stem)
def test_kernels_import_in_a_way_that_their_hash_sees(file: Path) -> None:
    """At the top level, by `from muntin.kernels.name import …`; of the rest of muntin only rules of components."""
    tree = ast.parse(file.read_text())
    at_the_top = set(map(id, tree.body))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert not any(name.name.startswith("muntin") for name in node.names)
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("muntin"):
            assert id(node) in at_the_top
            package, _, name = str(node.module).rpartition(".")
            assert package == "muntin.component" or (
                package == "muntin.kernels" and (file.parent / f"{name}.py").exists()
            )


def test_concurrent_first_compiles(tmp_path: Path) -> None:
    """Four processes that compile into one empty cache at once all get the right answer."""
    code = "import numpy as np; from muntin.kernels.fold import fold_events; " \
        "from muntin.component.sum import FloatSums; f = fold_events(FloatSums); o = np.zeros(1, np.int64); " \
        "h = np.zeros(1); f(o, o + 1, 1, o, o, h + 2, o == 0, h, h * 0); assert h[0] == 2, h"  # fmt: skip
    env = os.environ | {"MUNTIN_CACHE_DIR": str(tmp_path)}
    children = [subprocess.Popen([sys.executable, "-c", code], env=env) for _ in range(4)]
    assert [child.wait() for child in children] == [0, 0, 0, 0]


def test_unwritable_cache_is_done_without(tmp_path: Path) -> None:
    """Where no cache can be written, kernels are compiled each time, and that is said once."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    found, told = told_by_fold(blocked)
    assert found.split()[0] == "7"
    assert told.count("cannot be written") == 1
    assert "MUNTIN_CACHE_DIR" in told


def test_compiling_is_told_of_once_and_then_now_and_then(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that compiles others is one kernel; those of other packages are none of ours."""
    now = 0.0
    monkeypatch.setattr(told, "monotonic", lambda: now)
    monkeypatch.setattr(told, "_EVERY", 60.0)  # seconds that no line here is waited for
    compiling = told.Compiling()
    inner = SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=jit.kernel)})
    theirs = SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=shutil.copy)})
    for seconds, event in ((0, theirs), (30, inner), (54, inner), (96, inner), (102, theirs)):
        now = float(seconds)
        compiling.on_start(event)
        compiling.on_start(inner)
        compiling.on_end(inner)
        deadline = time.monotonic() + 60
        while seconds == 96 and len(caplog.messages) < 2 and time.monotonic() < deadline:  # a thread says it
            time.sleep(0.01)
        compiling.on_end(event)
    assert [line.split(",")[0] for line in caplog.messages] == [
        "muntin: compiling kernels for first use",
        "muntin: 2 kernels compiled in 66 s; now kernel in muntin.kernels.jit",
    ]
    assert compiling.kernels == 3


def plus_one(number):  # type: ignore[no-untyped-def]
    return number + 1


@pytest.mark.parametrize("damage", ["index", "code", "all gone"])
def test_damaged_files_of_compiled_code_are_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """And found by those who come later."""
    monkeypatch.setattr(jit, "CACHE", tmp_path)
    assert jit.kernel(plus_one)(1) == 2
    files = [file for file in tmp_path.rglob("*") if file.suffix in (".nbi", ".nbc")]
    assert len(files) == 2
    for file in files:
        if damage == "all gone":
            file.unlink()
        elif file.suffix == {"index": ".nbi", "code": ".nbc"}[damage]:
            file.write_bytes(b"no pickle")
    compiled: Any = jit.kernel(plus_one)
    assert compiled(1) == 2
    assert not compiled.stats.cache_hits
    later: Any = jit.kernel(plus_one)
    assert later(1) == 2
    assert later.stats.cache_hits


class Foreign(NamedTuple):
    count: Any


def first_of(cells):  # type: ignore[no-untyped-def]
    return cells[0][0]


@pytest.mark.parametrize(("kind", "files"), [(Counts, 2), (Foreign, 0)])
def test_compiled_code_of_foreign_components_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any, files: int
) -> None:
    """Its rules may change without a change of our sources, and others could not even read its class."""
    monkeypatch.setattr(jit, "CACHE", tmp_path)
    assert jit.kernel(first_of)(kind(np.arange(3) + 7)) == 7
    made: Any = jit.kernel_per_kind(lambda kind: lambda array: kind(array)[0][0])(kind)
    assert made(np.arange(3) + 7) == 7
    assert len(list(tmp_path.rglob("*.nbc"))) == files
