"""Randomised sketches beside deterministic ones: all theorems are there, failures are noticed, arithmetic holds."""

from __future__ import annotations

from dataclasses import asdict

import pytest

pytest.importorskip("matplotlib")

from benchmarks.figures.arasu_manku import x17_samples
from benchmarks.figures.arasu_manku.x17_samples import measure_point, paper_row, sample_of


def test_every_theorem_is_measured():
    record = asdict(x17_samples.run(quick=True))
    beside = [row for row in record["rows"] if row["mode"] == "beside"]
    assert {row["theorem"] for row in beside} == {3, 4, 7, 8}
    for row in beside:
        assert row["sure_error"] <= 1
        assert 0 < row["entries"] <= row["stated"]
    for part in ("beside", "rising", "paper"):
        assert "|---" in x17_samples.PARTS[part](record)


def test_too_many_failures_are_noticed(monkeypatch):
    right = x17_samples.errors_of
    monkeypatch.setattr(
        x17_samples,
        "errors_of",
        lambda of, sketch, *rest: [
            error + 2 * ("sampled" in sketch.name) for error in right(of, sketch, *rest)
        ],
    )
    with pytest.raises(AssertionError, match="quantiles, one: 100% of answers failed"):
        measure_point("quantiles", "one", 2**14, 16, 2)


def test_the_papers_sketch_samples_from_where_it_says():
    """The smallest blocks are sampled as soon as they have twice their sample, the largest long after."""
    begins = paper_row(2**22, 128, 0.01)["begins"]
    assert 41e6 < begins < 42e6
    assert paper_row(2**25, 128, 0.01)["sampled"] == 0
    assert paper_row(2**26, 128, 0.01)["sampled"] == 1
    assert sample_of(9, 9, 0.01) > 10**10
