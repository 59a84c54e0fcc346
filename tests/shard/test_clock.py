"""Which events are late: as a loop over events tells, by the watermark as those before each left it."""

from __future__ import annotations

import numpy as np
import pytest

from muntin.shard.clock import Clock


@pytest.mark.parametrize("seed", range(200))
def test_late_events(seed: int) -> None:
    rng = np.random.default_rng(seed)
    clock = Clock(int(rng.choice([0, 3, 10, 40])))
    greatest: int | None = None
    for _ in range(4):
        if rng.random() < 0.3:
            clock.promise(int(rng.integers(0, 60)))
        at = rng.integers(0, 100, int(rng.integers(1, 8)))
        if rng.random() < 0.3:
            at.sort()
        wanted = []
        for each in at.tolist():
            watermark = clock.promised if greatest is None else max(clock.promised, greatest - clock.delay)
            wanted.append(each < watermark)
            greatest = each if greatest is None else max(greatest, each)
        ascends, late = clock.scan(at)
        assert ascends == bool((np.diff(at) >= 0).all())
        assert (wanted if any(wanted) else None) == (None if late is None else late.tolist())
        kept = at if late is None else at[~late]
        clock.observe(kept, ascends, sum(wanted))
        greatest = clock.greatest
