"""Functions of the user's own on Spark: every task must have them, and nothing executable travels.

What travels is the module that each is defined in. A task imports it when the job arrives, which registers the
function there, too. So a function of a script or a notebook is refused: no other process could import that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from muntin.errors import MuntinError
from muntin.own.registered import REGISTERED, Registered, used_in

_HOW = (
    "write it into a module of its own, such as my_functions, import that, and give its file to the executors with "
    "spark.sparkContext.addPyFile, with Spark Connect spark.addArtifacts(file, pyfile=True), or --py-files"
)


@dataclass(frozen=True)
class Shipped:
    """Functions by name, with version and module. Where it arrives, they are there."""

    functions: tuple[tuple[str, int, str], ...] = ()

    def __reduce__(self) -> Any:
        return _arrived, (self.functions,)


NO_FUNCTIONS = Shipped()


def shipped(texts: Iterable[str], is_open: bool) -> Shipped:
    """The functions that queries call, and if more queries may come (`is_open`), all that can be had elsewhere. If a
    function cannot, an error says what to do."""
    used = used_in(texts)
    for each in used:
        if (why := _unreachable(each)) is not None:
            raise MuntinError(f"function {each.name} {why}, which executors of Spark cannot import: {_HOW}")
    others = [each for each in REGISTERED.values() if is_open and each not in used and not _unreachable(each)]
    return Shipped(tuple((each.name, each.version, each.module) for each in (*used, *others)))


def _unreachable(function: Registered) -> str | None:
    """Why another process cannot import a function."""
    if function.module == "__main__":
        return "is defined in a script or notebook (__main__)"
    if function.is_local:
        return f"is defined inside a function of module '{function.module}'"
    try:
        is_there = find_spec(function.module) is not None
    except (ImportError, ValueError):
        is_there = False
    return None if is_there else f"is defined in '{function.module}', which is no module on Python's path"


def _arrived(functions: tuple[tuple[str, int, str], ...]) -> Shipped:
    for name, version, module in functions:
        if name not in REGISTERED:
            try:
                import_module(module)
            except ImportError as error:
                raise MuntinError(
                    f"function {name} is defined in module '{module}', which cannot be imported here ({error}): give "
                    "the file to the executors with spark.sparkContext.addPyFile, with Spark Connect "
                    "spark.addArtifacts(file, pyfile=True), or --py-files"
                ) from error
        found = REGISTERED.get(name)
        if found is None or found.version != version:
            here = "none" if found is None else f"version {found.version}"
            raise MuntinError(
                f"function {name} has version {version} where the job was planned, and module '{module}' defines "
                f"{here} here: give all processes the same file"
            )
    return Shipped(functions)
