"""The user's functions by name, one version of each in a process; which of them texts call, and if kept state fits.

A name means one thing in a process: state, templates and compiled loops are shared by what it means. So it can be given
again only with the same code (a module that is loaded twice, a cell that is run again), or as long as no query has
used it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from types import CodeType
from typing import Any, Protocol

from sqlglot import exp
from sqlglot.errors import ParseError

from muntin.aggregates import AGGREGATES
from muntin.aggregates.component import APPROXIMATE, COMPONENTS, HOLISTIC
from muntin.argument import count_of, shown, text_of
from muntin.errors import CheckpointError, MuntinError, NameTaken
from muntin.sql.dialect import functions_called, read_expression
from muntin.sql.vocabulary import COMPOSED, FUNCTIONS, SYNONYMS

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Target(Protocol):
    """What queries call."""

    is_used: bool  # whether a query has ever called it


@dataclass
class Registered:
    """A function under its name, in capitals."""

    name: str
    version: int
    module: str
    is_local: bool  # defined inside another function
    code: Any = field(repr=False)  # equal if it was written alike
    target: Target | None = None

    @classmethod
    def of(
        cls, name: str, version: Any, module: str, functions: list[Callable[..., Any]], declared: Any
    ) -> Registered:
        count_of(f"{name}: version", version, 1)
        plain = [getattr(each, "py_func", each) for each in functions]
        is_local = any("<locals>" in each.__qualname__ for each in plain)
        code = (repr(declared), tuple(_written(each.__code__) for each in plain))
        return cls(name, version, module, is_local, code)


REGISTERED: dict[str, Registered] = {}


def name_of(given: Any) -> str:
    """The name of a function as it is kept; an error if it cannot be one, or is one of the language's own."""
    name = text_of("the name of a function", given).upper()
    if not _NAME.fullmatch(name):
        raise MuntinError(f"the name of a function is made of letters, digits and _, not {shown(given)}")
    if name in REGISTERED:
        return name
    known = {*AGGREGATES, *COMPONENTS, *HOLISTIC, *APPROXIMATE, *SYNONYMS, *COMPOSED, "approx"}
    if name.lower() in known or name in FUNCTIONS:
        raise NameTaken(f"'{name}' is a function of the language: choose another name")
    if not _is_read_as_a_call(name):
        raise NameTaken(f"'{name}' is a word of the language: choose another name")
    return name


def _is_read_as_a_call(name: str) -> bool:
    try:
        tree = read_expression(f"{name}(x)")
    except ParseError:
        return False
    return isinstance(tree, exp.Anonymous) and tree.name == name


def enter(about: Registered, install: Callable[[], Target]) -> None:
    """Have a function under its name; `install` makes it known to the language, or raises."""
    before = REGISTERED.get(about.name)
    if before is not None and (before.version, before.code) == (about.version, about.code):
        return
    if before is not None and before.target is not None and before.target.is_used:
        raise NameTaken(
            f"function {about.name} (version {before.version}) has been used by queries of this process, and is "
            "written otherwise now: choose another name, or start a new process"
        )
    about.target = install()
    REGISTERED[about.name] = about


def _written(code: CodeType) -> tuple[Any, ...]:
    constants = tuple(_written(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts)
    return code.co_code, code.co_names, constants


# Texts, and the functions that they call.


def used_in(texts: Iterable[str]) -> list[Registered]:
    """The functions that texts call, by name; O(characters) for texts that were not seen before."""
    if not REGISTERED:
        return []
    called = {name for text in texts for name in _called(text)}
    return [REGISTERED[name] for name in sorted(called & REGISTERED.keys())]


_called = lru_cache(maxsize=65_536)(functions_called)


def versions_in(texts: Iterable[str]) -> dict[str, int]:
    """What state of some queries depends on."""
    return {each.name: each.version for each in used_in(texts)}


def check_versions(kept: Mapping[str, int], what: str) -> None:
    """An error unless the functions that state was made by are those of this process."""
    for name, version in kept.items():
        found = REGISTERED.get(name)
        if found is None:
            raise CheckpointError(
                f"{what} is of queries that call {name}, version {version}, which is not registered: import the module "
                "that defines it first"
            )
        if found.version != version:
            raise CheckpointError(
                f"{what} is of queries that call {name}, version {version}, and version {found.version} is registered: "
                "go on with the version that made the state, or register the queries anew"
            )


def import_functions(module: str) -> None:
    """Import a module by name, so that the functions it defines are registered."""
    if module.endswith(".py") or "/" in module:
        plain = module.removesuffix(".py").strip("./").replace("/", ".")
        raise MuntinError(f"functions are in a module that Python can import: write {plain}, not {module}")
    try:
        import_module(module)
    except ImportError as error:
        raise MuntinError(f"the functions of module '{module}' cannot be imported: {error}") from error
