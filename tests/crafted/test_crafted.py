"""Files that nobody wrote, with right checksums: all three readers end in an answer or in an error of ours.

Ordinary runs try 60 mutants of each; `python tests/crafted/archives.py FOLDER 0 5000` tries more, of what
`write_all` wrote.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from crafted import archives, checkpoints, summaries
from crafted.mutants import run_mutants
from effort import some_of


@pytest.mark.parametrize(("reader", "seeds"), [(checkpoints, 1000), (archives, 1000), (summaries, 1000)])
def test_no_crafted_file_does_harm(reader: ModuleType, seeds: int, tmp_path: Path) -> None:
    reader.write_all(tmp_path)
    assert reader.__file__
    run_mutants(reader.__file__, tmp_path, range(some_of(seeds, 6)))
