"""`muntin run --table`: rows of a script's tables, from files and from INSERT."""

from __future__ import annotations

from pathlib import Path

import pytest

from muntin.run.script import parse_script

SCRIPT = """
CREATE STREAM s (ts BIGINT, k BIGINT) TIMESTAMP BY ts;
CREATE TABLE limits (k BIGINT, most BIGINT, PRIMARY KEY (k));
INSERT INTO limits VALUES (1, 10), (2, 20);
SELECT COUNT(*) AS n FROM s [ROWS 5];
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "q.sql").write_text(SCRIPT)
    (tmp_path / "s.csv").write_text("ts,k\n1,1\n2,2\n")
    (tmp_path / "limits.csv").write_text("k,most\n2,5\n3,30\n")
    return tmp_path


def test_a_file_is_loaded_over_what_the_script_inserts(files: Path) -> None:
    engine = parse_script(SCRIPT).start_engine(tables={"limits": files / "limits.csv"})
    assert engine.execute("SELECT * FROM limits").to_pydict() == {"k": [1, 2, 3], "most": [10, 5, 30]}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["limits=limits.csv"], None),
        (["limit=limits.csv"], "the script has no table 'limit'; did you mean 'limits'?"),
        (["limits.csv"], "which table is 'limits.csv'? write --table TABLE=FILE"),
        (["limits=limits.csv", "limits=limits.csv"], "two files are given for table 'limits'"),
        (["limits=nowhere.csv"], "there is no input file 'nowhere.csv'"),
        (["limits=s.csv"], "'s.csv' has no column 'most'"),
    ],
)
def test_run(muntin, files: Path, monkeypatch, options: list[str], words: str | None) -> None:
    monkeypatch.chdir(files)
    tables = [word for option in options for word in ("--table", option)]
    done = muntin("run", "q.sql", "--input", "s.csv", "--out", "out.csv", *tables)
    assert done.exit_code == (2 if words else 0), done.output
    assert words is None or words in done.output


def test_a_script_may_not_change_tables_otherwise(muntin, files: Path) -> None:
    (files / "q.sql").write_text(SCRIPT + "DELETE FROM limits")
    done = muntin("run", files / "q.sql", "--input", files / "s.csv", "--out", files / "out.csv")
    assert (
        "a script only declares streams, tables, views and queries; it cannot DELETE FROM limits"
        in done.output
    )


def test_the_file_of_a_table_is_not_overwritten(muntin, files: Path) -> None:
    path = files / "limits.csv"
    done = muntin(
        "run", files / "q.sql", "--input", files / "s.csv", "--out", path, "--table", f"limits={path}"
    )
    assert "is a file that is read" in done.output
