"""Small blocks, so that short streams have many."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muntin.synopsis.sketch import geometry


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geometry, "SMALLEST_BASE", 1)
        patch.setattr(geometry, "SMALLEST_UNIT", 1)
        yield
