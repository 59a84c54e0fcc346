"""The figures of Patroumpas & Sellis: what they draw is there, and wrong chains or answers are noticed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from benchmarks.figures.__main__ import module_of
from benchmarks.figures.page import rows_of
from benchmarks.figures.patroumpas_sellis.connections import SECOND, connections, together
from benchmarks.figures.patroumpas_sellis.fig10_chains import check
from benchmarks.figures.patroumpas_sellis.fig11_memory import SECONDS, tuples, tuples_of_chain
from benchmarks.figures.patroumpas_sellis.standing import Standing
from benchmarks.figures.patroumpas_sellis.window_classes import CLASSES, LONGEST, draw_windows
from muntin.plan.chain_cover import chain_cover

NAMES = ("ps10", "ps11", "ps12")


@pytest.mark.parametrize("name", NAMES)
def test_figure_runs_and_is_drawn(name: str, tmp_path: Path) -> None:
    """Every line of every panel has points; chains and answers have been compared on the way."""
    module = module_of(name)
    record = asdict(module.run(quick=True))
    assert record["name"] == f"patroumpas_sellis/{name}"
    for mode in module.CHART.panels:
        for series in module.CHART.names:
            assert any(row.get(series, 0) > 0 for row in rows_of(record, mode)), f"{series} in {mode}"
    module.CHART.draw(record, tmp_path / "one.svg")
    module.CHART.draw(record, tmp_path / "two.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    for part in set(module.PARTS) - {"origin"}:  # which needs a machine
        assert "|---" in module.PARTS[part](record)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("multiples", [False, True])
def test_windows_are_of_their_class(name: str, multiples: bool) -> None:
    for least in (1, 2):
        windows = draw_windows(name, 2_000, seed=5, multiples=multiples, least=least)
        sizes, slides = np.array(windows).T
        assert sizes.max() <= LONGEST
        assert (slides.min(), slides.max()) == (least, CLASSES[name])
        assert (slides < sizes).all()
        assert (sizes % slides == 0).all() or not multiples


def test_a_chain_that_is_none_is_noticed() -> None:
    windows = draw_windows("smooth", 50, seed=1)
    chains = chain_cover(windows)
    check(windows, chains)
    with pytest.raises(AssertionError, match="in no chain"):
        check([*windows, (61, 7)], chains)
    chains[0].members[0].slide += 1
    with pytest.raises(AssertionError):
        check(windows, chains)


def test_a_wrong_answer_is_noticed() -> None:
    standing, batches = Standing([(8, 2), (9, 3)]), list(connections(20, 0, 30, seed=1))
    for batch in batches:
        standing.push(batch)
    standing.check(batches, 30)
    found = standing.find(30)
    standing.check_found(batches, 30, found)
    found[0] += 1
    with pytest.raises(AssertionError, match=r"\(8, 2\) is not what NumPy has"):
        standing.check_found(batches, 30, found)
    standing.owe_from(29)
    closed = standing.closed(30)
    standing.check_closed(batches, 30, closed)
    closed["w1"] = closed["w1"] + 1
    with pytest.raises(AssertionError, match=r"\(9, 3\) is not what NumPy has"):
        standing.check_closed(batches, 30, closed)
    batches[-1].bytes[-1] += 1
    with pytest.raises(AssertionError, match="is not what NumPy has"):
        standing.check(batches, 30)


def test_the_trace_is_in_order_at_its_rate() -> None:
    for batches in (connections(100, 5, 20, seed=1), together(connections(100, 5, 20, seed=1), 7)):
        at = np.concatenate([batch.at for batch in batches])
        assert (np.diff(at) >= 0).all()
        assert np.bincount(at // SECOND)[5:].tolist() == [100] * 20


def test_tuples_of_a_chain_are_those_of_its_stairs() -> None:
    """What cores and buffers hold when levels are moved one by one, as the paper has it."""
    at = np.arange(SECONDS) * SECOND
    for seed in range(3):
        for chain in chain_cover(draw_windows("medium", 40, seed)):
            specs = [(member.size, member.slide) for member in chain.members]
            assert tuples_of_chain(chain, at) == stairs(specs, SECONDS)
    assert tuples((60, 1), at) == 60


def stairs(specs: list[tuple[int, int]], until: int) -> int:
    """Tuples in all queues after timestamps 0 to `until`, one tuple in each."""
    pending: list[int] = []
    cores: list[list[int]] = [[] for _ in specs]
    buffers: list[list[int]] = [[] for _ in specs]
    for now in range(1, until + 1):
        pending.append(now - 1)
        for level, (size, slide) in enumerate(specs):
            if now % slide == 0:
                source = buffers[level] if level else pending
                cores[level] += source
                source.clear()
                gone = [each for each in cores[level] if each < now - size]
                cores[level] = [each for each in cores[level] if each >= now - size]
                if level + 1 < len(specs):
                    buffers[level + 1] += gone
    return len(pending) + sum(map(len, cores)) + sum(map(len, buffers))
