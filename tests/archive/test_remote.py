"""Updates whose parts are rewritten elsewhere: the same archive as if they had been rewritten here."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from muntin.archive import Archive, View
from muntin.archive.update import RemoteUpdate
from muntin.errors import ArchiveError
from tests.archive.naive import Oracle, assert_agrees, definition, result, table

KEYS = [1, 2, 3]


def rewrite_elsewhere(archive, now, rows, attempts=1):
    """What tasks would do that were told as text, some of them twice; the reports of the last attempts."""
    update = archive.plan_remote(now)
    told = json.dumps(update.describe())
    remote = RemoteUpdate.from_description(json.loads(told))
    belongs = remote.part_of(rows)
    parts = sorted(set(belongs.tolist()) | update.due)
    reports = [
        remote.rewrite(part, rows.filter(pa.array(belongs == part)), str(attempt))
        for attempt in range(attempts)
        for part in parts
    ]
    return update, reports[-len(parts) :] if parts else []


@pytest.mark.parametrize(
    "label", ["rebuild 2x2", "no_rebuild 3x3", "lazy_rebuild 3x2", "reindex 3", "none 2x2"]
)
def test_agrees_with_the_oracle(tmp_path, label):
    random, made = np.random.default_rng(1), definition()
    archive, oracle = Archive.create(tmp_path, made, label), Oracle()
    for number, now in enumerate([2, 4, 6, 9, 10, 12, 14, 30, 32, 34, 100, 102]):
        rows = [
            result(int(random.choice(KEYS)), now - int(ago), now, 16)
            for ago in random.integers(0, 17, 5)
            if ago < now
        ]
        given = made.conform(table(rows, made.schema.names), now)
        update, reports = rewrite_elsewhere(archive, now, given, attempts=1 + number % 2)
        archive.publish_remote(update, reports, batch=number)
        oracle.results += rows
        oracle.now = now
        assert_agrees(archive, oracle, KEYS)
        # what the attempts before left is gone
        assert {path.name for path in tmp_path.glob("*.arrow")} == archive.view.epoch.files()
    assert View.open(tmp_path).epoch.batch == 11
    archive.check()
    archive.close()


def test_a_plan_is_for_the_epoch_it_was_made_of(tmp_path):
    made = definition()
    with Archive.create(tmp_path, made, "rebuild 2x2") as archive:
        given = made.conform(table([result(1, 1, 2, 16)], made.schema.names), 2)
        update, reports = rewrite_elsewhere(archive, 2, given)
        archive.update(2, given)
        with pytest.raises(ArchiveError, match="was planned before the archive went on"):
            archive.publish_remote(update, reports)
        assert archive.view.read_all().num_rows == 1
        archive.note_batch(7)
        assert View.open(tmp_path).epoch.batch == 7
        with pytest.raises(ArchiveError, match="cannot go back"):
            archive.plan_remote(1)
        archive.migrate("no_rebuild 3x3", "parallel")
        with pytest.raises(ArchiveError, match="a migration is under way"):
            archive.plan_remote(4)
