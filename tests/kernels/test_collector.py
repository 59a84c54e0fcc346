"""The collector of cycles rests while kernels are compiled, and is left as it was found."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest
from numba.core.errors import TypingError
from numba.extending import overload

from muntin.kernels.jit import kernel

seen: list[bool] = []


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    seen.clear()
    yield
    gc.enable()


def observed() -> Callable[[int], int]:
    """A function that kernels call; what is compiled of it notes whether the collector is on."""

    def note(number: int) -> int:
        return number

    @overload(note)
    def compile_note(number):  # type: ignore[no-untyped-def]
        seen.append(gc.isenabled())
        return lambda number: number + 1

    return note


def fault(number):  # type: ignore[no-untyped-def]
    """Nothing that kernels know."""


@pytest.mark.parametrize("is_on", [True, False])
def test_it_rests_and_is_as_before(is_on: bool) -> None:
    """Also after kernels that others call, and where somebody has turned it off."""
    note = observed()
    called = kernel(lambda number: note(number), False)
    calls = kernel(lambda number: called(number) + note(number), False)
    if not is_on:
        gc.disable()
    assert calls(1) == 4
    assert seen
    assert not any(seen)
    assert gc.isenabled() == is_on


def test_it_goes_on_after_an_error() -> None:
    note = observed()
    with pytest.raises(TypingError):
        kernel(lambda number: note(number) + fault(number), False)(1)
    assert not any(seen)
    assert gc.isenabled()
