"""A file of answers: rows are gathered to row groups, and nothing is there before it is whole."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from muntin.run import outputs
from muntin.run.outputs import AnswerFile

SCHEMA = pa.schema([("x", pa.int64())])


def rows(begin: int, end: int) -> pa.Table:
    return pa.table({"x": list(range(begin, end))}, SCHEMA)


def test_small_tables_are_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "ROW_GROUP", 10)
    file = AnswerFile(tmp_path / "a.parquet", SCHEMA, "parquet")
    for begin in range(0, 36, 4):
        file.write(rows(begin, begin + 4))
    file.commit()
    written = pa.parquet.ParquetFile(tmp_path / "a.parquet")
    sizes = [written.metadata.row_group(i).num_rows for i in range(written.num_row_groups)]
    assert sizes == [12, 12, 12]  # as soon as there are ten
    assert written.read()["x"].to_pylist() == list(range(36))


@pytest.mark.parametrize("format", ["parquet", "csv", "jsonl"])
def test_nothing_is_there_before_it_is_whole(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "ROW_GROUP", 2)
    path = tmp_path / f"a.{format}"
    file = AnswerFile(path, SCHEMA, format)
    file.write(rows(0, 5))
    assert not path.exists()
    file.discard()
    assert not list(tmp_path.iterdir())
    again = AnswerFile(path, SCHEMA, format)
    again.write(rows(0, 1))
    again.commit()
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
