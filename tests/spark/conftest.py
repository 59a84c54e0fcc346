"""The folder's own modules can be imported by name, as those of tests/ can; and one session for all tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    import muntin.spark

    session = muntin.spark.local_session(cores=2, memory="1g")
    yield session
    session.stop()
