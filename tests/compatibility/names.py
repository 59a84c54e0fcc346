"""The names that programs and scripts can use, read off the package: what `names.json` of a version holds.

It holds, by area, each name with its parameters: of Python `*` for what must be named, of commands the options.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

MODULES = ("muntin", "muntin.archive", "muntin.sketch", "muntin.spark", "muntin.testing")
WAS = {"muntin.sketch": "muntin.synopsis.sketch"}  # where 0.1.0 had it


def public_names() -> dict[str, dict[str, list[str]]]:
    """By module: functions and classes with their parameters, and the methods of classes; by command its options."""
    return {name: _of_module(name) for name in MODULES} | {"command line": _of_commands()}


def _of_module(name: str) -> dict[str, list[str]]:
    try:
        module = import_module(name)
    except ModuleNotFoundError:
        module = import_module(WAS[name])
    listed = getattr(module, "__all__", None) or _made_here(module)
    found: dict[str, list[str]] = {}
    for each in sorted(set(listed)):
        value = getattr(module, each)
        found[each] = _parameters(value)
        if inspect.isclass(value):
            for method, of in sorted(_members(value).items()):
                found[f"{each}.{method}"] = _parameters(of)
    return found


def _made_here(module: Any) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def _members(value: type) -> dict[str, Any]:
    """Of a class and of its parents in this package."""
    return {
        name: getattr(value, name)
        for each in value.__mro__
        if each.__module__.startswith("muntin")
        for name in vars(each)
        if not name.startswith("_")
    }


def _parameters(value: Any) -> list[str]:
    """Without self; `*name` must be named, `name=` may be left out."""
    if not callable(value) or (inspect.isclass(value) and issubclass(value, BaseException)):
        return []
    try:
        parameters = inspect.signature(value).parameters.values()
    except ValueError:
        return []
    return [
        ("*" if each.kind is each.KEYWORD_ONLY else "")
        + each.name
        + ("" if each.default is each.empty else "=")
        for each in parameters
        if each.name != "self" and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]


def _of_commands() -> dict[str, list[str]]:
    import typer.main

    from muntin.cli import app

    found: dict[str, list[str]] = {}

    def walk(command: Any, path: str) -> None:
        found[path] = sorted(
            option if parameter.param_type_name == "option" else f"<{parameter.name}>"
            for parameter in command.params
            for option in (parameter.opts if parameter.param_type_name == "option" else [""])
        )
        for name, child in sorted(getattr(command, "commands", {}).items()):
            walk(child, f"{path} {name}")

    walk(typer.main.get_command(app), "muntin")
    return found
