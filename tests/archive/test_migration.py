"""Migration: from every variant to every other, at random instants, both ways; answers never change."""

from __future__ import annotations

import tempfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import every_second
from muntin.archive import VARIANTS, Archive
from tests.archive.naive import Oracle, bag, definition, deliver_counted, result, table
from tests.archive.test_count_windows import LABELS, by_count, match, stream
from tests.archive.test_variants import BY_TIME

PAIRS = [(old, new) for old in BY_TIME for new in BY_TIME if old != new]


def deliver(archive, oracle, now, random):
    before = oracle.now
    rows = []
    for _ in range(int(random.integers(0, 6))):
        newer = int(random.integers(before + 1, now + 1))
        rows.append(result(int(random.integers(3)), newer, max(0, newer - int(random.integers(17))), 16))
    archive.update(now, table(rows, archive.definition.schema.names))
    oracle.results += rows
    oracle.now = now


@pytest.mark.parametrize("old", every_second(BY_TIME))
def test_every_pair(tmp_path, old):
    """To every other variant in turn, by both ways, with a few updates between."""
    random, now = np.random.default_rng(1), 0
    archive, oracle = Archive.create(tmp_path, definition(), old), Oracle()
    for number, new in enumerate(new for new in BY_TIME if new != old):
        for label in (new, old):
            how = archive.migrate(label, "stop" if number % 2 else "parallel")
            assert bag(archive.view.read_all()) == bag(oracle.alive())
            now += 2
            deliver(archive, oracle, now, random)
            assert bag(archive.view.read_all()) == bag(oracle.alive())
            assert archive.indexing.label == label
            assert how == ("stop" if number % 2 else "parallel")
    archive.check()
    archive.close()


@settings(max_examples=10)
@given(
    seed=st.integers(0, 1000), old=st.sampled_from(BY_TIME), new=st.sampled_from(BY_TIME),
    how=st.sampled_from(["stop", "parallel"]), at=st.integers(0, 10), step=st.sampled_from([1, 2, 3]),
)  # fmt: skip
def test_at_random_instants(seed, old, new, how, at, step):
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        archive, oracle, now = Archive.create(folder, definition(), old), Oracle(), 0
        for number in range(22):
            now += step
            deliver(archive, oracle, now, random)
            if number == at:
                archive.migrate(new, how)
                archive.close()
                archive = Archive.open(folder)
            assert bag(archive.view.read_all()) == bag(oracle.alive())
            assert bag(archive.view.probe(1)) == bag([each for each in oracle.alive() if each["k"] == 1])
        archive.check()
        archive.close()


def test_the_old_index_goes_when_its_results_have_expired(tmp_path):
    random = np.random.default_rng(3)
    with Archive.create(tmp_path, definition(), "lazy_rebuild 3x3") as archive:
        oracle = Oracle()
        for now in range(2, 30, 2):
            deliver(archive, oracle, now, random)
        archive.migrate("rebuild 2x2", "parallel")
        held = []
        for now in range(30, 50, 2):
            deliver(archive, oracle, now, random)
            held.append(len(archive.view.epoch.indexes))
        assert held[0] == 2
        assert held[-1] == 1
        assert held == sorted(held, reverse=True)


@pytest.mark.parametrize(
    ("new", "how"), [(new, ("stop", "parallel")[number % 2]) for number, new in enumerate(LABELS)]
)
def test_windows_by_count(tmp_path, new, how):
    made = by_count(every=1, window=16, sizes=(128, 128))
    oracle = Oracle(sizes=(128, 128))
    with Archive.create(tmp_path, made, "count_no_rebuild 2x2") as archive:
        for now, counts, rows in stream(40, seed=4):
            deliver_counted(archive, oracle, now, counts, rows)
            if now == 12:
                archive.migrate(new, how)
            if now % 6 == 0:
                assert bag(archive.view.read_all()) == bag(oracle.alive())
        assert len(archive.view.epoch.indexes) == 1


@pytest.mark.parametrize("alive", range(1, 6))
def test_windows_by_count_of_streams_that_fell_silent(tmp_path, alive):
    """Results live on for as long as nothing comes, however long ago their index was retired: even if few are left."""
    made = by_count(every=1, window=16, sizes=(20, 20))
    names = [name for name in made.schema.names if name != "expires_at"]
    oracle = Oracle(sizes=(20, 20))
    with Archive.create(tmp_path, made, "count_no_rebuild 2x2") as archive:
        for now in range(1, 90):
            seen = min(30, 6 * now) if now < 10 else 30 + 20 - alive  # then they are silent for ever
            rows = [match(n % 3, n, n, now) for n in range(seen - 5, seen + 1)] if now < 6 else []
            archive.update(now, table(rows, names), counts=(seen, seen))
            oracle.results += rows
            oracle.now, oracle.counts = now, (seen, seen)
            if now == 8:
                archive.migrate("count_rebuild 2x2", "parallel")
            assert bag(archive.view.read_all()) == bag(oracle.alive())
        assert len(oracle.alive()) == alive


def test_auto_stops_for_what_is_small(tmp_path):
    random = np.random.default_rng(5)
    with Archive.create(tmp_path, definition(), "rebuild 2x2") as archive:
        deliver(archive, Oracle(), 2, random)
        assert archive.migrate("no_rebuild 2x2", budget=60) == "stop"
        assert archive.migrate("rebuild 4x4", budget=0) == "parallel"
        with pytest.raises(Exception, match="auto, stop or parallel, not 'later'"):
            archive.migrate("rebuild 2x2", "later")


def test_all_pairs_are_many():
    assert len(PAIRS) == len(VARIANTS) * (len(VARIANTS) - 1)
