"""The commands on the pages are those of the command line, and so are their options."""

from __future__ import annotations

import re
import shlex

import pytest
import typer

from muntin.cli import app
from tests.docs.markdown import ROOT, pages

_LINE = re.compile(r"^(?:    |\$ |RUN |ExecStart=)(?:[\w./]*/)?(muntin [^\n]*)$", re.MULTILINE)
_INLINE = re.compile(r"`(muntin [^`\n]*)`")


def commands() -> list[tuple[str, str]]:
    """Page and text of each command, what the pages generate left out."""
    found = []
    for page in pages():
        text = re.sub(r"<!-- generated: .*?<!-- end -->", "", page.read_text(), flags=re.DOTALL)
        text = re.sub(r"\\\n +", "", text)
        found += [
            (str(page.relative_to(ROOT)), match[1])
            for each in (_LINE, _INLINE)
            for match in each.finditer(text)
        ]
    return found


def unknown_words(text: str) -> list[str]:
    """The command, or the options, that a text names and the command line does not have."""
    command = typer.main.get_command(app)
    words = shlex.split(text, comments=True)[1:]
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name = words.pop(0)
        if name not in command.commands:
            return [name]
        command = command.commands[name]
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
    return [word for word in words if word.startswith("--") and word.partition("=")[0] not in known]


@pytest.mark.parametrize(("page", "text"), commands())
def test_commands_and_options_exist(page, text):
    assert not unknown_words(text), f"{page}: {text}"


def test_commands_are_found_and_wrong_ones_told():
    assert len(commands()) > 20
    assert unknown_words("muntin run a.sql --engine spark --output b") == ["--output"]
    assert unknown_words("muntin runn a.sql") == ["runn"]
