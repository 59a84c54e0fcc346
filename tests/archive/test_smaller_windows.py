"""Smaller windows answered from a larger view."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from muntin.archive import Archive, Definition
from muntin.archive.view import compare_sharing
from tests.archive.naive import Oracle, bag, definition, deliver_counted, result, table
from tests.archive.test_count_windows import by_count, stream


def test_vector(tmp_path):
    """A join of two windows of 20 at 100 answers windows of 16 with what expires from 105 on."""
    made = definition(window=20, every=4)
    with Archive.create(tmp_path, made, "rebuild 2x2") as archive:
        rows = [result(1, 100, expires - 20, 20) for expires in range(101, 121)]
        archive.update(100, table(rows, made.schema.names))
        assert sorted(archive.view.probe(1, sizes=(16, 16))["expires_at"].to_pylist()) == list(
            range(105, 121)
        )


@pytest.mark.parametrize("label", ["rebuild 2x2", "no_rebuild 3x2", "lazy_rebuild 3x3", "none 2x2"])
def test_agrees_with_the_oracle(tmp_path, label):
    random, made, oracle = np.random.default_rng(1), definition(), Oracle()
    with Archive.create(tmp_path, made, label) as archive:
        for now in range(2, 50, 2):
            rows = []
            for _ in range(6):
                newer = int(random.integers(now - 1, now + 1))
                older = newer - int(random.integers(16))
                a, b = random.permutation([newer, older]).tolist()
                rows.append(result(int(random.integers(3)), a, b, 16))
            archive.update(now, table(rows, made.schema.names))
            oracle.results += rows
            oracle.now = now
        for sizes in [(16, 16), (10, 10), (16, 5), (3, 14), (1, 1), (16, 0)]:
            assert bag(archive.view.read_all(sizes)) == bag(oracle.alive(sizes))
            for key in range(3):
                expected = bag([each for each in oracle.alive(sizes) if each["k"] == key])
                assert bag(archive.view.probe(key, sizes)) == expected
                assert [bag(found) for found in archive.view.probe_many(key, [(16, 16), sizes])][
                    1
                ] == expected


def test_windows_by_count(tmp_path):
    made = by_count(every=1, window=16, sizes=(128, 128))
    oracle = Oracle(sizes=(128, 128))
    with Archive.create(tmp_path, made, "count_rebuild 2x2") as archive:
        for now, counts, rows in stream(30, seed=4):
            deliver_counted(archive, oracle, now, counts, rows)
        for sizes in ((128, 128), (64, 64), (100, 20)):
            assert bag(archive.view.read_all(sizes)) == bag(oracle.alive(sizes))


def test_what_cannot_be_answered_is_refused(tmp_path):
    with Archive.create(tmp_path / "a", definition(), "rebuild 2x2") as archive:
        with pytest.raises(Exception, match="window 2 of 17 is larger than the view's, which is 16"):
            archive.view.probe(1, sizes=(16, 17))
        with pytest.raises(Exception, match="joins 2 windows, not 1"):
            archive.view.probe(1, sizes=(16,))
    bare = Definition(pa.schema([("k", pa.int64())]), ("k",), 16, 2, sizes=(16, 18))
    with Archive.create(tmp_path / "b", bare, "rebuild 2x2") as archive:
        archive.update(2, {"k": [1], "generated_at": [2], "expires_at": [12]})
        assert archive.view.probe(1, sizes=(10, 12)).num_rows == 1
        assert archive.view.probe(1, sizes=(6, 8)).num_rows == 0
        with pytest.raises(Exception, match="does not keep the time of each input"):
            archive.view.probe(1, sizes=(10, 18))


def test_sharing_pays_for_wide_results():
    narrow = compare_sharing(1000, 24, [(4, 4)], definition())
    wide = compare_sharing(1000, 1000, [(12, 12), (8, 8)], definition())
    assert not narrow.pays
    assert wide.pays
    assert wide.shared == 16_000
