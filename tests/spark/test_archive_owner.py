"""A view on Spark belongs to the checkpoint that began it: which micro-batch of which checkpoint may go on with which
archive, without a JVM."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from muntin.archive import Archive
from muntin.errors import ArchiveError, MuntinError, NameTaken
from muntin.spark.view_owner import OwnedView
from muntin.sql import parse_view
from muntin.stream import Stream
from muntin.view.materialized_view import KEPT_BY, MaterializedView, definition_of

TEXT = """CREATE MATERIALIZED VIEW v AS SELECT a.k, x, y FROM a [RANGE 5 SECONDS] JOIN b [RANGE 3 SECONDS]
ON a.k = b.k EVERY 1 SECOND INDEX 'rebuild 2x2'"""
STREAMS = {
    name: Stream(
        name, pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), (column, pa.int64())]), "ts"
    )
    for name, column in (("a", "x"), ("b", "y"))
}
VIEW = parse_view(TEXT, STREAMS)
assert VIEW is not None
OWN, OTHER = "own", "other"


def owned(folder: Path, owner: str = OWN) -> OwnedView:
    checkpoint = folder / f"checkpoint of {owner}"
    checkpoint.mkdir(exist_ok=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": owner}))
    assert VIEW is not None
    return OwnedView(VIEW, folder / "v", checkpoint)


def make(folder: Path, owner: str | None, last: int | None) -> None:
    """An archive: of an owner, "" for an embedded engine, None for a version that wrote none; up to a micro-batch."""
    assert VIEW is not None
    if owner is None:
        about = {"name": "v", "text": VIEW.text, "because": "", "source": "JoinQuery"}
        archive = Archive.create(folder / "v", definition_of(VIEW), "rebuild 2x2", about)
    else:
        archive = MaterializedView(VIEW, folder / "v", kept_by=owner).archive
    if last is not None:
        archive.note_batch(last)
    archive.close()


@pytest.mark.parametrize("batch", range(5))
@pytest.mark.parametrize("last", [None, 0, 2, 3])
@pytest.mark.parametrize("owner", [OWN, OTHER, "", None])
def test_who_may_go_on(tmp_path: Path, owner: str | None, last: int | None, batch: int) -> None:
    """The own checkpoint, with the micro-batch after the last one, or the last one again; and nobody else."""
    make(tmp_path, owner, last)
    before = (tmp_path / "v" / "directory").read_bytes()
    wanted = {0} if last is None else {last, last + 1}
    if owner == OWN and batch in wanted:
        owned(tmp_path).open(batch).close()
    else:
        with pytest.raises(ArchiveError if owner == OWN else NameTaken, match="start with a new checkpoint"):
            owned(tmp_path).open(batch)
    assert (tmp_path / "v" / "directory").read_bytes() == before
    Archive.open(tmp_path / "v").close()  # nobody holds it


@pytest.mark.parametrize("batch", range(3))
def test_a_view_that_is_not_there(tmp_path: Path, batch: int) -> None:
    """Only the first micro-batch begins one; later ones would leave out what came before."""
    if batch:
        with pytest.raises(ArchiveError, match="there is no view"):
            owned(tmp_path).open(batch)
        assert not (tmp_path / "v").exists()
        return
    with owned(tmp_path).open(0) as archive:
        assert archive.view.epoch.about[KEPT_BY] == OWN
        with pytest.raises(MuntinError, match="being written"):
            owned(tmp_path).open(0)
    owned(tmp_path).open(0).close()
    with pytest.raises(NameTaken, match="streaming query own"):
        owned(tmp_path, OTHER).open(0)
