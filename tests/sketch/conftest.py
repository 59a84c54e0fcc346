"""All sketches here have small blocks."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def every_test(small_blocks: None) -> None:
    """Has sketches of few elements."""
