"""Archives in tests need not survive a loss of power: flushing is what would take the time."""

from __future__ import annotations

import pytest

from muntin.archive import disk


@pytest.fixture(autouse=True)
def _no_flushing(monkeypatch):
    monkeypatch.setattr(disk.os, "fsync", lambda descriptor: None)
