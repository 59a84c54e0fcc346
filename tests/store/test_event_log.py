"""The event log takes events by number from whatever chunks they lie in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from muntin.store import event_log
from muntin.store.event_log import EventLog


@pytest.mark.parametrize("chunk", [4, 1 << 17])
def test_takes_what_was_logged(monkeypatch, chunk):
    monkeypatch.setattr(event_log, "_CHUNK", chunk)
    random, log, texts = np.random.default_rng(1), EventLog(), []
    log.keep({"x": pa.string()})
    for _ in range(60):
        new = [
            None if n % 7 == 0 else f"event {n}"
            for n in range(len(texts), len(texts) + random.integers(0, 5))
        ]
        log.extend(np.arange(len(new)), {"x": pa.array(new, pa.string())})
        texts += new
        log.drop_first(int(random.integers(0, min(4, len(log)) + 1)))
        log.check()
        for many in (0, 1, 9):
            numbers = random.integers(log.first, log.end, many) if len(log) else np.zeros(0, np.int64)
            assert log.take("x", numbers).to_pylist() == [texts[n] for n in numbers]
        everything = np.arange(log.first, log.end)
        assert log.take("x", everything).to_pylist() == texts[log.first :]
