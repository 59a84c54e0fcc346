"""A patch takes effect in functions, methods and kernels that are imported already: each in a fork of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from weakref import proxy

import numpy as np
from numba.core.caching import NullCache

import muntin
from muntin.archive.indexing import slot_of
from muntin.component import RULES
from muntin.component.extremes import Leasts
from muntin.kernels.fold import merge_runs
from muntin.kernels.match import first_later, sort_matches
from muntin.kernels.slices import follow_chain
from muntin.plan.synopses import is_sliced
from muntin.window import Window
from mutants.mutation import Mutation
from mutants.patch import Patcher
from mutants.project import read


def mutation(path: str, before: str, after: str) -> Mutation:
    source = read(path).encode()
    begin = source.index(before.encode())
    line = source[:begin].count(b"\n") + 1
    return Mutation(path, "", line, begin, begin + len(before.encode()), after)


def with_mistake(made: Mutation, ask: Callable[[], object]) -> str:
    """What is answered in a fork that has been patched."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writer, repr(ask()).encode() if Patcher().patch(made) else b"not found")
        except BaseException as error:
            os.write(writer, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said


def test_dead_references_are_passed_over() -> None:
    """Among all objects there may be weak references to what is gone, which answer no question."""
    gone = Window("rows", 5)
    dead = [proxy(gone)]
    del gone
    assert Patcher().patch(
        mutation("src/muntin/archive/indexing.py", "instant, np.int64) - 1", "instant, np.int64) - 1")
    )
    assert len(dead) == 1


def test_a_function() -> None:
    made = mutation(
        "src/muntin/archive/indexing.py", "(np.asarray(instant, np.int64) - 1)", "np.asarray(instant)"
    )
    assert with_mistake(made, lambda: int(slot_of(2, 2))) == "1"
    assert int(slot_of(2, 2)) == 0


def test_a_method() -> None:
    made = mutation("src/muntin/window.py", "if self.to > self.size:", "if self.to < self.size:")
    assert "Error" in with_mistake(made, lambda: Window("time", 1, 0, 0))
    assert Window("time", 1, 0, 0).to == 0


def test_a_function_that_remembers() -> None:
    """What it answered before the fork was made does not hide the mistake."""
    window = Window("time", 60, 0, 20)
    assert is_sliced(window)
    made = mutation(
        "src/muntin/plan/synopses.py", "window.is_time and window.slide > 0", "not window.is_time"
    )
    assert with_mistake(made, lambda: is_sliced(window)) == "False"
    assert is_sliced(window)


def test_a_kernel_that_is_compiled_and_its_callers() -> None:
    """The mistake is in a helper of a helper; the kernel that Python calls was compiled with the right one."""
    columns = [np.array([2, 1, 0]) for _ in range(4)]

    def ordered() -> list[int]:
        order = np.arange(3)
        sort_matches(*columns, order, order.copy())
        return order.tolist()

    assert ordered() == [2, 1, 0]
    path = "src/muntin/kernels/match.py"
    made = mutation(path, "return one < other", "return one > other")
    assert with_mistake(made, ordered) == "[0, 1, 2]"
    names = {kernel.py_func.__name__ for kernel in Patcher().kernels_of(made)}
    assert names == {"_precedes", "merge_runs", "sort_matches", "sort_ties"}
    assert ordered() == [2, 1, 0]
    made = mutation(
        path,
        "if max(left_at[mid], right_at[mid]) < instant",
        "if max(left_at[mid], right_at[mid]) <= instant",
    )
    at = np.array([1, 2, 3])
    assert with_mistake(made, lambda: first_later(at, at, 2)) == "2"
    assert first_later(at, at, 2) == 1


def test_a_function_that_numba_puts_in_place_of_another(monkeypatch) -> None:
    """`combine` of cells is chosen by their class while a kernel is compiled, here before the fork is made."""
    value, alone, chain = np.array([3, 1, 2]), np.array([-1, 0, 1]), (0, 2, 0, 3)
    path, follow_leasts = "src/muntin/component/extremes.py", follow_chain(Leasts)
    for made in (
        mutation(path, "right if undercuts(right[0], left[0])", "left if undercuts(right[0], left[0])"),
        mutation(path, "(new < old) |", "(new > old) |"),  # which a rule calls
    ):
        assert follow_leasts in Patcher().kernels_of(made)
        monkeypatch.setattr(follow_leasts, "_cache", NullCache())
        follow_leasts._reset_overloads()
        assert follow_leasts(alone, *chain, value)[0] == (1,)
        assert with_mistake(made, lambda: follow_leasts(alone, *chain, value)[0]) == "(3,)"


def test_a_kernel_that_is_made_when_it_is_asked_for() -> None:
    """One for each kind of cells: those that are on disk know nothing of the mistake, and none with it goes there."""

    def merged() -> list[int]:
        lo, hi, key, into = np.array([0]), np.array([3]), np.zeros(3, np.int64), np.array([2**62])
        merge_runs(Leasts)(lo, hi, key, np.array([3, 1, 2]), into)
        return into.tolist()

    made = mutation("src/muntin/kernels/fold.py", "state = combine(into, state, take(cells, c))", "return")
    for _ in range(2):
        assert merged() == [1]
        merge_runs.cache_clear()  # as in a process that has not asked for it
        assert with_mistake(made, merged) == f"[{2**62}]"
    assert len(Patcher().kernels_of(made)) == len(
        {kind for each in RULES for kind in (each.ints, each.floats)}
    )


def test_a_helper_that_is_inlined() -> None:
    """The code of the helper is part of the kernels that call it; they are found and compiled again."""
    from muntin.kernels import jit
    from muntin.own import algebra  # whose helpers are made for functions of users, and called by theirs

    patcher = Patcher()
    inlined = [kernel for kernel in patcher._kernels if kernel.targetoptions.get("inline") == "always"]
    codes = [helper.py_func.__code__ for helper in inlined]
    package = str(Path(muntin.__file__).parent)  # other tests may have defined components of their own
    ours = [
        code
        for code in codes
        if code.co_filename.startswith(package) and code.co_filename not in (jit.__file__, algebra.__file__)
    ]
    assert ours
    for code in ours:
        path = "src/muntin/" + code.co_filename.removeprefix(f"{package}/")
        found = patcher.kernels_of(Mutation(path, "", code.co_firstlineno + 1, 0, 0, ""))
        assert len(found) > 1, f"{path}: nobody calls {code.co_name}"
