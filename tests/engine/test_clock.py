"""The clock judges batches as it would judge their events one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muntin.shard.clock import Clock


@given(
    st.lists(st.lists(st.integers(-20, 40), max_size=12), max_size=4),
    st.integers(0, 15),
    st.integers(-20, 40),
    st.booleans(),
)
def test_lateness_is_that_of_single_events(
    batches: list[list[int]], delay: int, promised: int, in_order: bool
) -> None:
    """Whatever the order, the delay and the promise, and also where a batch is judged by its first event."""
    clock = Clock(delay)
    clock.promise(promised)
    greatest: int | None = None
    for times in batches:
        times = sorted(times) if in_order else times
        expected = []
        for t in times:
            expected.append(t < promised or (greatest is not None and t < greatest - delay))
            greatest = t if greatest is None else max(greatest, t)
        ascends, late = clock.scan(np.array(times, np.int64))
        assert ascends == (times == sorted(times))
        assert (late is None) == (not any(expected))
        assert late is None or late.tolist() == expected
        kept = np.array([t for t, is_late in zip(times, expected, strict=True) if not is_late], np.int64)
        clock.observe(kept, ascends, sum(expected))
        greatest = clock.greatest
