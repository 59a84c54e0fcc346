"""The folder's own modules can be imported by name; and one session for its tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    import muntin.spark

    session = muntin.spark.local_session(cores=2, memory="1g")
    yield session
    session.stop()
