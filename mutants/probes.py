"""Probes: muntin's modules, loaded so that each block of code notes that it ran.

A block of statements (the body of a function, a branch or a loop, or the rest of one after an early `return`) begins
with a probe, `_HITS[17] = 1`. A probe
takes some 20 nanoseconds; a tracer would take longer than the code it traces. Numba could not compile a probe, so
a kernel is noted when Python calls it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from mutants.project import relative

COMPILED = ("muntin.kernels", "muntin.component")
NOT_COMPILED = "muntin.component.rules"
HITS = bytearray()  # one byte for each block


class Block(NamedTuple):
    """Statements that run one after the other; lines are counted from 1, the last one is inclusive."""

    path: str
    first: int
    last: int


BLOCKS: list[Block] = []


def add_block(path: str, first: int, last: int) -> int:
    """The number of a new block."""
    BLOCKS.append(Block(path, first, last))
    HITS.append(0)
    return len(BLOCKS) - 1


def add_probes(path: str, module: ast.Module) -> ast.Module:
    """Put a probe at the head of each block.

    >>> print(ast.unparse(add_probes("a.py", ast.parse("def f(x):\\n    if x:\\n        x += 1\\n    return x"))))
    from mutants.probes import HITS as _HITS
    <BLANKLINE>
    def f(x):
        _HITS[...] = 1
        if x:
            _HITS[...] = 1
            x += 1
        return x
    >>> BLOCKS[-2:]
    [Block(path='a.py', first=1, last=4), Block(path='a.py', first=3, last=3)]
    """
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            _probe(path, function.body, function.lineno)
    place = sum(_opens_module(statement) for statement in module.body)
    module.body.insert(place, ast.parse("from mutants.probes import HITS as _HITS").body[0])
    return ast.fix_missing_locations(module)


def _opens_module(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    return _is_docstring(statement)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _probe_within(path: str, statement: ast.AST) -> None:
    """Probe the blocks within a statement, but not in functions: those have their own turn."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    for name in ("body", "orelse", "finalbody"):
        body = getattr(statement, name, None)
        if isinstance(body, list) and body:
            _probe(path, body, body[0].lineno)
    for part in [*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]:
        _probe_within(path, part)


def _probe(path: str, body: list[ast.stmt], first: int) -> None:
    """Probe a body, and again after each statement that may leave it."""
    statements, last = list(body), body[-1].end_lineno or first
    body.clear()
    is_due = True
    for statement in statements:
        if is_due and not _is_docstring(statement):
            number = add_block(path, statement.lineno if body else first, last)
            body += ast.parse(f"_HITS[{number}] = 1").body
        is_due = (is_due and _is_docstring(statement)) or _may_leave(statement)
        _probe_within(path, statement)
        body.append(statement)


def _may_leave(statement: ast.stmt) -> bool:
    is_compound = isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Try | ast.Match)
    leaving = (ast.Return, ast.Raise, ast.Continue, ast.Break)
    return is_compound and any(isinstance(each, leaving) for each in ast.walk(statement))


class _ProbingLoader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        file = self.get_filename(fullname)
        module = ast.parse(self.get_data(file), file)
        return compile(add_probes(relative(file), module), file, "exec", dont_inherit=True)


class _ProbingFinder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        is_compiled = fullname.startswith(COMPILED) and fullname != NOT_COMPILED
        if fullname.split(".")[0] != "muntin" or is_compiled:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _ProbingLoader(spec.loader.name, spec.loader.path)
        return spec


def _probe_kernels() -> None:
    from numba.core.registry import CPUDispatcher

    call = CPUDispatcher.__call__

    def noted(self: Any, *arguments: Any, **named: Any) -> Any:
        try:
            HITS[self._probe] = 1
        except AttributeError:
            self._probe = _kernel_block(self.py_func.__code__)
            HITS[self._probe] = 1
        return call(self, *arguments, **named)

    CPUDispatcher.__call__ = noted


def _kernel_block(code: CodeType) -> int:
    last = max(line for *_, line in code.co_lines() if line is not None)
    return add_block(relative(code.co_filename), code.co_firstlineno, last)


def install() -> None:
    """Have all modules of muntin that are imported from now on take notes."""
    sys.meta_path.insert(0, _ProbingFinder())
    _probe_kernels()
