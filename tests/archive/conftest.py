"""No test of an archive has to wait for the disk."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def every_test(no_flushing):
    """Is quick."""
