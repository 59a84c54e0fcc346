"""Whoever waits for kernels to be compiled is told so every second, also while one kernel alone takes longer."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from muntin.kernels import told
from muntin.kernels.told import Compiling


def event_of(name: str, module: str = "muntin.kernels.made") -> SimpleNamespace:
    return SimpleNamespace(
        data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__name__=name, __module__=module))}
    )


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> Compiling:
    monkeypatch.setattr(told, "_EVERY", 0.02)
    return Compiling()


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "muntin.kernels"]


def test_a_long_kernel_is_told_of_again_and_again(
    compiling: Compiling, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing else is compiled meanwhile, and once it is done nothing more is said."""
    compiling.on_start(event_of("slow"))
    until = time.monotonic() + 20
    while len(lines_of(caplog)) < 4:
        assert time.monotonic() < until
        time.sleep(0.005)
    compiling.on_end(event_of("slow"))
    time.sleep(0.1)
    lines = lines_of(caplog)
    assert lines[0].startswith("muntin: compiling kernels for first use")
    assert all(line.endswith("now slow in muntin.kernels.made") for line in lines[1:])
    time.sleep(0.1)
    assert lines_of(caplog) == lines


def test_short_kernels_are_not_each_told_of(
    compiling: Compiling, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that another one calls, and functions that are not ours."""
    monkeypatch.setattr(told, "_EVERY", 60.0)
    for _ in range(50):
        compiling.on_start(event_of("outer"))
        compiling.on_start(event_of("inner"))
        compiling.on_end(event_of("inner"))
        compiling.on_end(event_of("outer"))
    compiling.on_start(event_of("theirs", "elsewhere"))
    compiling.on_end(event_of("theirs", "elsewhere"))
    assert compiling.kernels == 50
    assert len(lines_of(caplog)) == 1
