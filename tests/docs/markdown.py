"""The project's Markdown pages, and what is in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block, the line its text starts on, and its language."""

    page: Path
    line: int
    text: str
    language: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Every page a reader can open."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def blocks(page: Path, *languages: str) -> Iterator[Block]:
    """The fenced blocks of some languages, in order."""
    text = page.read_text()
    for match in _FENCE.finditer(text):
        if match[1] in languages:
            yield Block(page, text[: match.start(2)].count("\n") + 1, match[2], match[1])


def is_shown(shown: str, printed: str) -> bool:
    """Whether a page shows all that is printed, and nothing else; … stands for the rest of a line, or of a word, and
    in a line of its own for any lines.

    >>> is_shown("a 1\\nb …\\n", "a 1\\nb 2\\n"), is_shown("a 1\\n", "a 1\\nb 2\\n")
    (True, False)
    >>> is_shown("…\\nc\\n", "a\\nb\\nc\\n")
    True
    """
    lines = [
        r"(?:.*\n)*" if line.strip() == "…" else re.escape(line.rstrip()).replace("…", ".*") + r"[ ]*\n"
        for line in shown.splitlines()
    ]
    return re.fullmatch("".join(lines), printed.rstrip("\n") + "\n") is not None


def links(page: Path) -> list[str]:
    """The targets of all links outside fenced blocks."""
    return _LINK.findall(_FENCE.sub("", page.read_text()))


def anchors(page: Path) -> set[str]:
    """The fragments that headings of a page can be linked by."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
