"""Patching: a mutation takes effect in a process that has imported muntin already.

Every function whose code holds the mutation gets the new code; whoever refers to the function need not be found. Of
kernels, the compiled code of the mutated one and of all that call it is forgotten, so that Numba compiles them again.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

from numba.core.caching import NullCache
from numba.core.registry import CPUDispatcher
from numba.core.typing.templates import _OverloadFunctionTemplate

from muntin.component import RULES
from muntin.kernels import jit
from mutants.memory import Memory
from mutants.mutation import Mutation
from mutants.project import PROJECT, read

_KERNELS, _RULES = "src/muntin/kernels/", "src/muntin/component/"
# the code of all functions that make a kernel for a kind of cells
_MAKES_ONE = next(
    each for each in jit.kernel_per_kind.__code__.co_consts if getattr(each, "co_name", "") == "kernel_for"
)
_CALLS_RULES = "muntin.kernels.combine"  # Numba puts the rules of a component in place of its functions


class Patcher:
    """All functions and kernels there are, so that those of a mutation are found."""

    def __init__(self) -> None:
        # by type(), since isinstance() asks a dead weak reference for its class, which raises
        within = str(PROJECT / "src")
        _make_kernels()
        everything = gc.get_objects()
        self._functions = [
            each
            for each in everything
            if type(each) is FunctionType and each.__code__.co_filename.startswith(within)
        ]
        self._kernels: list[Any] = [each for each in everything if issubclass(type(each), CPUDispatcher)]
        self._memory = Memory(everything)

    def patch(self, mutation: Mutation) -> bool:
        """Have the mutation take effect; False if there is no function that holds it."""
        new = {_identity(code): code for code in _codes_around(mutation)}
        kernels = self.kernels_of(mutation)
        concerned = [each for each in self._functions if _identity(each.__code__) in new]
        for function in concerned:
            function.__code__ = new[_identity(function.__code__)]
        self._memory.forget()
        if kernels:
            _forget_overloads()
            jit.CACHE = None  # what is compiled from now on, for kinds of cells that tests define
        for kernel in kernels:
            kernel._make_finalizer()()
            kernel._reset_overloads()
            kernel._cache = NullCache()
        return bool(concerned)

    def kernels_of(self, mutation: Mutation) -> list[Any]:
        """The compiled functions that hold the mutation, and all that call one of them."""
        if not mutation.path.startswith((_KERNELS, _RULES)) or mutation.path == f"{_RULES}rules.py":
            return []
        around = {_identity(code) for code in _codes_around(mutation)}
        concerned = {id(each) for each in self._kernels if _identity(each.py_func.__code__) in around}
        if not any(_is_named(each) for each in self._kernels if id(each) in concerned):
            # A function that Numba puts in place of another (`overload`). No kernel names the function, though Numba
            # may have compiled it already.
            users = _users_of(mutation.path)
            concerned |= {id(each) for each in self._kernels if each.py_func.__module__ in users}
        called = {id(kernel): {id(each) for each in _called_by(kernel)} for kernel in self._kernels}
        size = -1
        while concerned and size != len(concerned):
            size = len(concerned)
            concerned |= {caller for caller, callees in called.items() if callees & concerned}
        return [kernel for kernel in self._kernels if id(kernel) in concerned]


def _make_kernels() -> None:
    """Have the kernels that are made when they are asked for, one for each kind of cells. Made after a patch, they
    would be those on disk, which know nothing of it."""
    kinds = {kind for each in RULES for kind in (each.ints, each.floats)}
    for module in _modules_of_kernels().values():
        for make in vars(module).values():
            if getattr(make, "__wrapped__", None) is not None and make.__wrapped__.__code__ is _MAKES_ONE:
                for kind in kinds:
                    make(kind)


def _is_named(kernel: Any) -> bool:
    """Whether a kernel, or what makes it, is what its module has under its name: others are Numba's own."""
    found = vars(sys.modules.get(kernel.py_func.__module__, sys)).get(kernel.py_func.__name__)
    return found is kernel or getattr(getattr(found, "__wrapped__", None), "__code__", None) is _MAKES_ONE


def _modules_of_kernels() -> dict[str, Any]:
    return {name: module for name, module in sys.modules.items() if name.startswith("muntin.kernels.")}


def _forget_overloads() -> None:
    """Numba keeps what it has chosen and compiled for each `overload`, apart from kernels."""
    for template in _OverloadFunctionTemplate.__subclasses__():
        if (template._overload_func.__module__ or "").startswith("muntin."):
            template._impl_cache.clear()
            template._compiled_overloads.clear()
            template._inline_overloads.clear()


def _users_of(path: str) -> set[str]:
    """The module of a file of kernels or rules, and all modules of kernels that import something from it."""
    modules = _modules_of_kernels()
    users = {path.removeprefix("src/").removesuffix(".py").replace("/", ".")}
    if path.startswith(_RULES):
        users.add(_CALLS_RULES)
    size = 0
    while size != len(users):
        size = len(users)
        for name, module in modules.items():
            if any(getattr(value, "__module__", None) in users for value in vars(module).values()):
                users.add(name)
    return users


def _identity(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _codes_around(mutation: Mutation) -> Iterator[CodeType]:
    """The code of the functions around the mutation, with the mistake in it, from the outermost in."""
    file = str(PROJECT / mutation.path)
    code = compile(mutation.apply(read(mutation.path)), file, "exec", dont_inherit=True)
    while True:
        inner = [each for each in code.co_consts if isinstance(each, CodeType) and each.co_name[0] != "<"]
        around = [each for each in inner if each.co_firstlineno <= mutation.line <= _last_line(each)]
        if not around:
            return
        code = max(around, key=lambda each: each.co_firstlineno)
        yield code


def _last_line(code: CodeType) -> int:
    lines = [line for *_, line in code.co_lines() if line is not None]
    return max([*lines, *(_last_line(each) for each in code.co_consts if isinstance(each, CodeType))])


def _called_by(kernel: Any) -> Iterator[Any]:
    """The kernels that a kernel names: as globals, alone or in tuples, and in its closure."""
    function = kernel.py_func
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    return (value for value in _flat([*named, *held]) if isinstance(value, CPUDispatcher))


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from value
        else:
            yield value
