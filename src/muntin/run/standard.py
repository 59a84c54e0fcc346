"""`-` in the place of a file: events from standard input, answers to standard output.

A run is finite and its answers appear when all went well, so both pass through a file that nobody else sees.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from muntin.errors import MuntinError

_BEGINNINGS = {b"PAR1": "parquet", b"ARROW1": "arrow", b"{": "jsonl"}  # of formats; all else is CSV
STANDARD = "-"


@contextmanager
def standard_streams(inputs: Sequence[str], out: Path, format: str) -> Iterator[tuple[list[str], Path]]:
    """Inputs and output with files in the place of `-`; what is in the latter is written out at the end."""
    with tempfile.TemporaryDirectory(prefix="muntin-") as folder:
        is_read = [each == STANDARD or each.endswith(f"={STANDARD}") for each in inputs]
        if sum(is_read) > 1:
            raise MuntinError("standard input can be read once; give the other streams files")
        given = [
            each.removesuffix(STANDARD) + str(_spooled(Path(folder))) if is_standard else each
            for each, is_standard in zip(inputs, is_read, strict=True)
        ]
        with _called_as_written(folder):
            if out != Path(STANDARD):
                yield given, out
                return
            answers = Path(folder) / f"stdout.{format}"
            yield given, answers
        with answers.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


@contextmanager
def _called_as_written(folder: str) -> Iterator[None]:
    """Errors name standard input, and not the file that stands for it."""
    try:
        yield
    except MuntinError as error:
        spool = re.compile(f"'{re.escape(folder)}/stdin[^']*'")
        error.args = tuple(spool.sub("standard input", str(each)) for each in error.args)
        raise


def _spooled(folder: Path) -> Path:
    """Standard input as a file, named after its format, which its first bytes tell."""
    spool = folder / "stdin"
    with spool.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    with spool.open("rb") as file:
        start = file.read(64).lstrip()
    format = next((name for bytes_, name in _BEGINNINGS.items() if start.startswith(bytes_)), "csv")
    return spool.rename(spool.with_suffix(f".{format}"))
