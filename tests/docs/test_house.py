"""The house is as the docs say: files that prose names exist, none is too long, and nobody reaches into a shard."""

from __future__ import annotations

import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "muntin"
FOLDERS = ("src", "tests", "benchmarks", "docs", "examples", "mutants")
FILES = {file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")}
ABOVE = ("join", "view", "engine", "spark", "run", "demo", "serve")  # the folders that drive shards
# A file in prose: store/ring.py. Names of files that a reader makes are written in capitals.
NAMED = re.compile(r"(?<![\w/.])((?:[a-z_0-9]+/)*[a-z_0-9]+\.py)\b")
SPOKEN = [
    file
    for pattern in ("src/**/*.py", "docs/**/*.md", "*.md", "benchmarks/**/*.md", "benchmarks/**/*.py")
    for file in ROOT.glob(pattern)
]

GLOSSARY = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", SPOKEN, ids=lambda file: str(file.relative_to(ROOT)))
def test_files_that_prose_names_exist(file: Path) -> None:
    """Without its folder, a name in the package is that of a file of the package."""
    for name in NAMED.findall(file.read_text(encoding="utf-8")):
        is_ours = file.is_relative_to(SOURCE) and "/" not in name
        among = (each for each in FILES if each.is_relative_to(SOURCE) or not is_ours)
        assert any(str(each).endswith(f"/{name}") for each in among), f"{file.relative_to(ROOT)}: {name}"


def test_no_file_is_too_long() -> None:
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in SOURCE.rglob("*.py")}
    assert not {str(file.relative_to(ROOT)): lines for file, lines in lengths.items() if lines > 400}


def test_every_folder_of_the_package_is_in_the_architecture() -> None:
    told = (ROOT / "docs" / "contributing" / "architecture.md").read_text(encoding="utf-8")
    folders = {file.parent.relative_to(SOURCE).as_posix() for file in SOURCE.rglob("__init__.py")} - {"."}
    assert not {folder for folder in folders if f"`{folder}/`" not in told and f"{folder}/" not in told}


def test_nobody_outside_its_folder_reaches_into_a_shard() -> None:
    """The state of a shard is for `shard/` alone: others call the methods of `Shard`."""
    reaching = re.compile(r"(?<!clock)\.state\.\w|muntin\.shard\.state\b")
    outside = [file for folder in ABOVE for file in (SOURCE / folder).rglob("*.py")]
    assert len(outside) > 40
    found = {
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in outside
        for line in file.read_text(encoding="utf-8").splitlines()
        if reaching.search(line) and "org.apache.spark" not in line
    }
    assert not found


def test_classes_that_the_glossary_names_are_there() -> None:
    """All but the words that were given up, in the first column of their table."""
    named = {
        name
        for line in GLOSSARY.splitlines()
        for name in re.findall(r"`([A-Z]\w*[a-z]\w*)`", line.partition("|")[2].partition("|")[2] or line)
    }
    made = {
        name
        for file in SOURCE.rglob("*.py")
        for name in re.findall(r"^(?:class )?([A-Z]\w*)\b", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(named) > 20
    assert not named - made


def test_words_that_were_given_up_are_not_used() -> None:
    table = GLOSSARY.partition("## Words that were given up")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    retired = {word for row in rows for word in re.findall(r"`(\w+)`", row)}
    assert len(retired) > 8
    found = {
        f"{file.relative_to(ROOT)}:{token.start[0]}: {token.string}"
        for file in SOURCE.rglob("*.py")
        for token in tokenize.generate_tokens(
            iter(file.read_text("utf-8").splitlines(keepends=True)).__next__
        )
        if token.type == tokenize.NAME and token.string in retired
    }
    assert not found
