"""Every variant holds the oracle's results after every update, and touches what the formulas say."""

from __future__ import annotations

import tempfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import some_of
from muntin.archive import VARIANTS, Archive, Indexing, View
from tests.archive.naive import Oracle, assert_agrees, definition, result, table

SHAPES = {
    "reindex": "4", "reindex_by_expiry": "4", "del": "4", "del_by_expiry": "4", "wata": "3", "wata_swept": "3",
    "lazy_rebuild": "3x3", "lazy_no_rebuild": "3x2",
}  # fmt: skip
BY_TIME = [f"{name} {SHAPES.get(name, '2x3')}" for name in VARIANTS]
KEYS = [1, 2, 3]


@st.composite
def deliveries(draw, window=16, every=2):
    """Updates: their instants, not always at the end of a slot, some after silence; and their results."""
    now, steps = draw(st.integers(1, 40)), []
    for _ in range(draw(st.integers(1, 14))):
        before = now
        now += draw(st.sampled_from([every] * 6 + [1, 3, 7, 3 * window]))
        # The newer event came since the last update, the other one is still in its window.
        times = st.tuples(st.integers(before + 1, now), st.integers(0, window))
        matches = draw(st.lists(st.tuples(st.sampled_from(KEYS), times, st.booleans()), max_size=8))
        rows = []
        for key, (newer, ago), is_left in matches:
            older = max(0, newer - ago)
            a, b = (newer, older) if is_left else (older, newer)
            rows.append(result(key, a, b, window))
        steps.append((now, rows))
    return steps


@pytest.mark.parametrize("label", BY_TIME)
@settings(max_examples=some_of(3, 67))
@given(steps=deliveries(), reopen_at=st.integers(0, 8))
def test_agrees_with_the_oracle(label, steps, reopen_at):
    with tempfile.TemporaryDirectory() as folder:
        made = definition()
        archive, oracle = Archive.create(folder, made, label), Oracle()
        for number, (now, rows) in enumerate(steps):
            archive.update(now, table(rows, made.schema.names))
            oracle.results += rows
            oracle.now = now
            assert_agrees(archive, oracle, KEYS)
            if number == reopen_at:
                archive.close()
                archive = Archive.open(folder)
                assert_agrees(archive, oracle, KEYS)
        assert View.open(folder).read_all().equals(archive.view.read_all())
        archive.close()


def dense_updates(archive, every, per_window, updates, seed=1, begin=0):
    """Updates at the end of each slot, with results that fill every class of expiry; the first brings all that is
    alive at the end of slot `begin`."""
    random = np.random.default_rng(seed)
    window, waiting = per_window * every, []
    for slot in range(updates):
        now = (slot + 1) * every
        waiting += [
            result(int(random.integers(5)), now, max(1, now - ago), window) for ago in range(0, window, every)
        ]
        if slot >= begin:
            yield slot, archive.update(now, table(waiting, archive.definition.schema.names))
            waiting = []


@pytest.mark.parametrize(
    ("label", "touched"),
    [("rebuild 2x2", 3), ("rebuild 3x3", 5), ("rebuild 4x4", 7), ("rebuild 2x8", 9), ("rebuild 8x2", 9),
     ("rebuild 5x5", 9), ("no_rebuild 4x4", 7), ("random_rebuild 4x4", 7), ("random_no_rebuild 3x3", 5),
     ("chronological 4x4", 7), ("chronological_no_rebuild 3x3", 5), ("none 4x4", 7), ("reindex 9", 9),
     ("reindex_by_expiry 9", 9), ("del 9", 9), ("del_by_expiry 9", 9)],
)  # fmt: skip
def test_touched_parts(tmp_path, label, touched):
    with Archive.create(tmp_path / "a", definition(window=36, every=1), label) as archive:
        for slot, counted in dense_updates(archive, every=1, per_window=36, updates=47, begin=36):
            if slot > 36:  # ten in a row: more than there are classes
                assert (counted.parts, counted.of) == (touched, archive.indexing.parts)


@pytest.mark.parametrize(
    ("label", "updates", "recycled"), [("lazy_rebuild 4x4", 143, 12), ("lazy_no_rebuild 4x4", 35, 3)]
)
def test_touched_parts_of_lazy_indexes(tmp_path, label, updates, recycled):
    with Archive.create(tmp_path / "a", definition(window=36, every=1), label) as archive:
        counts = [
            counted.parts
            for slot, counted in dense_updates(
                archive, every=1, per_window=36, updates=36 + updates, begin=35
            )
            if slot >= 36
        ]
    assert sorted(set(counts)) == [6, 7]
    assert counts.count(7) == recycled
    assert len(counts) == updates


def test_wata_touches_the_newest_part_alone(tmp_path):
    with Archive.create(tmp_path / "a", definition(window=36, every=1), "wata 4") as archive:
        counts = {counted.parts for _, counted in dense_updates(archive, every=1, per_window=36, updates=60)}
        assert counts == {1}
        assert archive.view.stats()["dead"] > 0
    with Archive.create(tmp_path / "b", definition(window=36, every=1), "wata_swept 4") as archive:
        counts = [counted.parts for _, counted in dense_updates(archive, every=1, per_window=36, updates=60)]
        assert set(counts[37:]) == {3, 4}


def test_bytes_touched_follow_the_parts(tmp_path):
    written = {}
    for label in ("reindex 16", "rebuild 2x2", "rebuild 4x4", "no_rebuild 4x4"):
        with Archive.create(tmp_path / label, definition(window=36, every=1), label) as archive:
            counted = list(dense_updates(archive, every=1, per_window=36, updates=56, begin=36))
            written[label] = sum(touched.bytes_read for slot, touched in counted if slot > 40)
    assert written["no_rebuild 4x4"] < written["rebuild 4x4"] < written["rebuild 2x2"] < written["reindex 16"]


def test_clustered_parts_are_one_run_and_appended_ones_a_few(tmp_path):
    for label, most in (("rebuild 3x3", 1), ("no_rebuild 3x3", 4), ("del_by_expiry 4", 4)):
        with Archive.create(tmp_path / label, definition(window=36, every=1), label) as archive:
            seen = set()
            for _ in dense_updates(archive, every=1, per_window=36, updates=44):
                seen |= {len(part.runs) for part in archive.view.epoch.index.parts}
            assert max(seen) <= most
            assert (max(seen) > 1) == (most > 1)


@pytest.mark.parametrize("label", ["lazy_rebuild 2x2", "lazy_no_rebuild 2x5"])
def test_lazy_with_two_classes_is_refused(tmp_path, label):
    with pytest.raises(Exception, match="94 % more than is alive"):
        Archive.create(tmp_path, definition(), label)


def test_labels_are_read_back():
    for name in VARIANTS:
        label = f"{name} {SHAPES.get(name, '2x3')}"
        assert Indexing.parse(label).label == label
