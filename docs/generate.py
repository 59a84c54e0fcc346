"""Fill the generated parts of the docs: `python docs/generate.py [--check]`.

A part stands between `<!-- generated: WHAT -->` and `<!-- end -->`; WHAT is a function of this file, or
a command whose output is shown. With `--check` nothing is written, and stale pages are named.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

import matrix
import stability

DOCS = Path(__file__).parent
_PART = re.compile(r"(<!-- generated: (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def algorithm_table() -> str:
    """One line per synopsis, from the fact sheets that open their modules."""
    rows = ["| synopsis | answers | insert | look-up | space |", "|---|---|---|---|---|"]
    for name, text in _synopsis_docstrings().items():
        facts = dict(re.findall(r"^\| ([^|]+?) \| (.+) \|$", text, re.MULTILINE))
        cells = (facts[fact] for fact in ("Answers", "Insert", "Lookup", "Space"))
        rows.append(f"| [{name}](#{name}) | {' | '.join(cells)} |")
    return "\n".join(rows)


def fact_sheets() -> str:
    """The docstring of each synopsis module, under a heading of its own."""
    parts = []
    for name, text in _synopsis_docstrings().items():
        opening, _, rest = text.partition("\n")
        summary = opening.partition(": ")[2]
        parts.append(f"## {name}\n\n{summary[:1].upper()}{summary[1:]}\n{rest}")
    return "\n\n".join(parts)


def choices() -> str:
    """The planner's choices, in the order they are tried."""
    from muntin.plan.choices import CHOICES

    rows = ["| | because | synopsis |", "|---|---|---|"]
    for number, choice in enumerate(CHOICES, 1):
        synopsis = f"`{choice.synopsis}`" if choice.synopsis else "the one that the query names"
        rows.append(f"| {number} | {choice.because} | {synopsis} |")
    return "\n".join(rows)


def index_variants() -> str:
    """The index variants of an archive: how they split both times, and how they lay out a part."""
    from muntin.archive import VARIANTS

    words = {1: "one run a part, rewritten whole", 4: "runs are appended; up to 4 a part"}
    rows = ["| variant | in the paper | generation | expiry | layout |", "|---|---|---|---|---|"]
    for variant in VARIANTS.values():
        layout = (
            words[variant.layout.most_runs]
            if variant.layout.is_sorted
            else "not sorted: probes read everything"
        )
        rules = (rule.replace("_", " ") for rule in (variant.generation, variant.expiry))
        rows.append(f"| `{variant.name}` | {variant.title} | {' | '.join(rules)} | {layout} |")
    return "\n".join(rows)


def functions() -> str:
    """The functions of one row."""
    from muntin.sql.vocabulary import FUNCTIONS

    rows = ["| function | gives |", "|---|---|"]
    return "\n".join(rows + [f"| `{written}` | {gives} |" for written, gives in FUNCTIONS.values()])


def queries_by_runtime() -> str:
    """What a query may have, and where it runs."""
    return matrix.table_of(matrix.QUERIES, ("embedded", "table", "stream"))


def statements_by_runtime() -> str:
    """Statements while a stream runs."""
    return matrix.table_of(matrix.STATEMENTS, ("embedded", "stream"))


def views_by_runtime() -> str:
    """What a materialised view may keep, and where."""
    return matrix.table_of(matrix.VIEWS, ("embedded", "stream"))


def python_stability() -> str:
    """The marks of Python's names, by module."""
    return _marks({f"`{area}`": marks for area, marks in stability.PYTHON.items()})


def interface_stability() -> str:
    """The marks of commands and of the server's addresses."""
    return _marks({"commands": stability.COMMANDS, "HTTP": stability.HTTP})


def language_stability() -> str:
    """The marks of aggregates, and the forms that are experimental."""
    rows = ["| | stable | experimental |", "|---|---|---|"]
    stable, experimental = (
        stability.names_text(stability.AGGREGATES, mark) for mark in ("stable", "experimental")
    )
    forms = f"| forms | all others | {', '.join(stability.EXPERIMENTAL_FORMS)} |"
    return "\n".join([*rows, f"| aggregates | {stable} | {experimental} |", forms])


def _marks(areas: Mapping[str, stability.Marks]) -> str:
    """A row for each area; names that are deprecated have a list of their own on the page."""
    rows = ["| | stable | experimental |", "|---|---|---|"]
    for area, marks in areas.items():
        cells = [stability.names_text(marks, mark) for mark in ("stable", "experimental")]
        if any(cells):
            rows.append(f"| {area} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _synopsis_docstrings() -> dict[str, str]:
    """One algorithm, one file: each is in the module that has its name."""
    import muntin
    from muntin.plan.synopses import INDEXES, SYNOPSES

    source = Path(muntin.__file__).parent
    folders = ("structure", "structure/baseline", "key_index", "sketch")
    modules = {file.stem: file for folder in folders for file in (source / folder).glob("*.py")}
    texts = {}
    for name in (*SYNOPSES, *INDEXES):
        module = import_module(".".join(("muntin", *modules[name].relative_to(source).with_suffix("").parts)))
        texts[name] = inspect.cleandoc(module.__doc__ or "")
    return texts


def command_output(command: str) -> str:
    """What a `muntin` command prints, as a block."""
    from typer.testing import CliRunner

    from muntin.cli import app

    result = CliRunner().invoke(app, command.split()[1:], prog_name="muntin")
    lines = [line.rstrip() for line in result.output.strip().splitlines()]
    return "\n".join(["```", f"$ {command}", *lines, "```"])


PARTS: dict[str, Callable[[], str]] = {
    part.__name__: part for part in (algorithm_table, fact_sheets, choices, functions, index_variants,
                                     queries_by_runtime, statements_by_runtime, views_by_runtime,
                                     python_stability, interface_stability, language_stability)
}  # fmt: skip


def fill(text: str) -> str:
    """A page with its generated parts as they should be now."""

    def replace(match: re.Match[str]) -> str:
        what = match[2]
        made = command_output(what) if what.startswith("muntin ") else PARTS[what]()
        return f"{match[1]}\n{made}\n\n{match[4]}"

    return _PART.sub(replace, text)


def main() -> int:
    """Rewrite stale pages, or with `--check` only name them; 1 if there were any to name."""
    os.environ |= {"COLUMNS": "100", "TERMINAL_WIDTH": "100"}
    stale = [page for page in sorted(DOCS.rglob("*.md")) if fill(page.read_text()) != page.read_text()]
    for page in stale:
        print(f"{'stale' if '--check' in sys.argv else 'written'}: {page.relative_to(DOCS.parent)}")
        if "--check" not in sys.argv:
            page.write_text(fill(page.read_text()))
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
