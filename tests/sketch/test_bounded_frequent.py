"""What is said of counts for windows of at most W elements holds for every window, however short it is."""

from __future__ import annotations

from collections import Counter

import pytest

from muntin.sketch.sliding_counts import SlidingCounts
from tests.sketch.streams import make


@pytest.mark.parametrize("kind", ["zipf", "drifting"])
@pytest.mark.parametrize("support", [0.02, 0.1, 0.3])
def test_frequent_items_of_shorter_windows(kind: str, support: float) -> None:
    """All above s * n, where that is not less than the error, and none below s * count - error."""
    window, eps = 20_000, 0.02
    stream = make(kind, 5, 50_000)
    sketch = SlidingCounts(eps, window, is_auto=False)
    sketch.extend(stream)
    for rows in (window, window // 2, window // 7, 300, 20):
        summary, truth = sketch.summary(rows=rows), Counter(stream[-rows:].tolist())
        assert summary.error <= eps * window
        found = {each.item: each for each in summary.frequent(support)}
        if support * rows >= summary.error:
            assert {item for item, count in truth.items() if count > support * rows} <= found.keys()
        for item, each in found.items():
            assert truth[item] >= support * summary.count - summary.error
            assert each.lower <= truth[item] <= each.upper
