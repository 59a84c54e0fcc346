"""`make serve`: the demo's stream flows through a server, which says where to look."""

from __future__ import annotations

from pathlib import Path

import pytest

from muntin.demo import served
from muntin.demo.served import demo_script, main
from muntin.serve.server import check_script
from muntin.testing import TradeStream


def test_its_script(tmp_path: Path) -> None:
    told = check_script(demo_script(TradeStream(), tmp_path, 60), [tmp_path])
    assert told.splitlines()[0] == "1 stream, 60 queries, 1 sink"


@pytest.mark.slow
def test_it_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """For a moment, with few queries."""
    monkeypatch.setattr(served, "demo_script", lambda stream, folder: demo_script(stream, folder, 5))
    main("127.0.0.1:0", seconds=0.5)
    assert "/queries/market/answer" in capsys.readouterr().out
