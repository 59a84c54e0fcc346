"""Every query text of the project: in tests, cases, docs, benchmarks and the package itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
from sqlglot import exp

from muntin.errors import MuntinError
from muntin.sql import CreateStream, parse_statements
from muntin.sql.dialect import read_script
from muntin.sql.place import Misfit
from muntin.sql.syntax import CreateViewSyntax, ExplainSyntax, RegisterSyntax, SelectSyntax
from muntin.stream import Stream

ROOT = Path(__file__).parents[1]
_CREATE = re.compile(r"CREATE STREAM [^;]*?TIMESTAMP BY \w+", re.DOTALL)
_WINDOW_NEXT = re.compile(r"(FROM \w+|OVER|JOIN \w+) $")
_SELECT = re.compile(r"\bSELECT\b[^;`]{0,2000}", re.DOTALL)


@cache
def texts() -> tuple[str, ...]:
    """Each SELECT once; those that the parser refuses too."""
    found: dict[str, None] = {}
    for passage in _passages():
        for match in _SELECT.finditer(passage):
            found[_whole(match[0])] = None
    return tuple(found)


def _whole(passage: str) -> str:
    """As many lines as make up a statement; all of them if none do."""
    lines = passage.split("\n\n")[0].split("\n")[:14]
    for end in range(len(lines), 0, -1):
        text = "\n".join(lines[:end]).strip()
        try:
            read_script(text)
        except (Misfit, RecursionError):
            continue
        return text
    return passage.strip()


def streams_of(text: str) -> dict[str, Stream]:
    """Streams that a text may read: those it names, with every column it names, of the types declared elsewhere."""
    try:
        selects = [each for each in map(_select, read_script(text)) if each is not None]
    except (Misfit, RecursionError):
        return {}
    trees = [
        tree for each in selects for tree in (*(item.tree for item in each.items), each.where, *each.keys)
    ]
    used = {found.name for tree in trees if tree is not None for found in tree.find_all(exp.Column)}
    columns = {name: pa.float64() for name in sorted(used)} | _column_types() | {"ts": pa.timestamp("us")}
    names = {source.stream.text for each in selects for source in (each.source, *_joined(each))}
    return {name: Stream(name, pa.schema(columns), "ts") for name in names}


@cache
def _column_types() -> dict[str, pa.DataType]:
    """The type that most streams give a column of that name."""
    votes: dict[str, list[pa.DataType]] = {}
    for passage in _passages():
        for match in _CREATE.finditer(passage):
            try:
                (made,) = parse_statements(match[0], {})
            except MuntinError:
                continue
            assert isinstance(made, CreateStream)
            for field in made.stream.schema:
                votes.setdefault(field.name, []).append(field.type)
    return {name: max(kinds, key=kinds.count) for name, kinds in votes.items()}


def _select(statement: object) -> SelectSyntax | None:
    if isinstance(statement, RegisterSyntax | ExplainSyntax | CreateViewSyntax):
        return statement.select
    return statement if isinstance(statement, SelectSyntax) else None


def _joined(select: SelectSyntax) -> list:  # type: ignore[type-arg]
    return [] if select.join is None else [select.join.source, *(each.source for each in select.join.further)]


@cache
def _passages() -> tuple[str, ...]:
    paths = [
        ROOT / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "tests").rglob("*.case")),
    ]
    scripts = [
        path
        for folder in ("tests", "benchmarks", "src", "examples")
        for path in (ROOT / folder).rglob("*.py")
    ]
    return (
        *(path.read_text() for path in paths),
        *(text for path in sorted(scripts) for text in _strings(path)),
    )


def _strings(path: Path) -> Iterator[str]:
    """The string constants of a file; what an f-string fills in becomes a window or a 3."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "S" in node.value:
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            text = ""
            for part in node.values:
                is_window = _WINDOW_NEXT.search(text)
                text += (
                    str(part.value) if isinstance(part, ast.Constant) else "[ROWS 3]" if is_window else "3"
                )
            yield text
