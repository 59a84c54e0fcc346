"""`muntin run` with materialized views: they are left in the archive, and SELECTs from them are answered at the end."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from muntin import Engine

SECOND = 1_000_000
STREAMS = """
CREATE STREAM a (ts TIMESTAMP, k VARCHAR, x BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS;
CREATE STREAM b (ts TIMESTAMP, k VARCHAR, y BIGINT) TIMESTAMP BY ts;
"""
VIEWS = """
CREATE MATERIALIZED VIEW pairs AS SELECT a.k, x, y FROM a [RANGE 20 SECONDS] JOIN b [RANGE 10 SECONDS] ON a.k = b.k
EVERY 2 SECONDS;
CREATE MATERIALIZED VIEW latest AS SELECT a.k, x, y FROM a [ROWS 20] JOIN b [ROWS 10] ON a.k = b.k EVERY 4 SECONDS;
"""
SCRIPT = f"""{STREAMS}{VIEWS}
REGISTER QUERY counts AS SELECT k, COUNT(*) AS n FROM a [RANGE 4 SECONDS SLIDE 4 SECONDS] GROUP BY k;
SELECT k, COUNT(*) AS n FROM pairs GROUP BY k ORDER BY n DESC LIMIT 2;
SELECT k, x, y FROM pairs [RANGE 4 SECONDS] WHERE k = 'q';
"""


@pytest.fixture
def inputs(tmp_path):
    random, paths = np.random.default_rng(1), {}
    for name, column in (("a", "x"), ("b", "y")):
        ts = pa.array(np.sort(random.integers(0, 60 * SECOND, 200)), pa.int64()).cast(pa.timestamp("us"))
        keys = [["p", "q", "r"][n] for n in random.integers(0, 3, 200)]
        paths[name] = tmp_path / f"{name}.parquet"
        table = pa.table({"ts": ts, "k": keys, column: random.integers(0, 9, 200)})
        pa.parquet.write_table(table, paths[name])
    return paths


def rows(table):
    return Counter(zip(*(table[name].to_pylist() for name in ("k", "x", "y")), strict=True))


def test_views_and_what_is_read_of_them(muntin, tmp_path, inputs):
    script = tmp_path / "views.sql"
    script.write_text(SCRIPT)
    given = [word for name, path in inputs.items() for word in ("--input", f"{name}={path}")]
    out, archive = tmp_path / "answers", tmp_path / "archive"
    done = muntin("run", script, *given, "--out", out, "--archive", archive, "--batch-rows", 67)
    assert done.exit_code == 0, done.output
    assert sorted(path.stem for path in out.iterdir()) == ["counts", "query_1", "query_2"]
    tables = {name: pa.parquet.read_table(path) for name, path in inputs.items()}
    end = 60 * SECOND

    def pairs(left, right, size=None):
        sides = []
        for name, reach in (("a", left), ("b", right)):
            events = [
                (t, k, v) for t, k, v in zip(*(c.to_pylist() for c in tables[name].columns), strict=True)
            ]
            micros = tables[name]["ts"].cast(pa.int64()).to_pylist()
            sides.append(
                [e for t, e in zip(micros, events, strict=True) if t >= end - min(reach, size or reach)]
            )
        return Counter((a[1], a[2], b[2]) for a in sides[0] for b in sides[1] if a[1] == b[1])

    engine = Engine(archive=archive)
    expected = pairs(20 * SECOND, 10 * SECOND)
    assert rows(engine.execute("SELECT k, x, y FROM pairs")) == expected
    last = [tables[n].slice(200 - rows) for n, rows in (("a", 20), ("b", 10))]
    assert rows(engine.execute("SELECT k, x, y FROM latest")) == Counter(
        (a["k"], a["x"], b["y"]) for a in last[0].to_pylist() for b in last[1].to_pylist() if a["k"] == b["k"]
    )
    counts = Counter()
    for (k, _, _), n in expected.items():
        counts[k] += n
    top = pa.parquet.read_table(out / "query_1.parquet")
    assert top["n"].to_pylist() == sorted(counts.values(), reverse=True)[:2]
    found = pa.parquet.read_table(out / "query_2.parquet")
    small = pairs(20 * SECOND, 10 * SECOND, 4 * SECOND)
    assert rows(found) == Counter({row: n for row, n in small.items() if row[0] == "q"})
    assert sum(pa.parquet.read_table(out / "counts.parquet")["n"].to_pylist()) == 200


def test_views_need_a_place(muntin, tmp_path, inputs):
    script = tmp_path / "views.sql"
    script.write_text(SCRIPT)
    given = [word for name, path in inputs.items() for word in ("--input", f"{name}={path}")]
    done = muntin("run", script, *given, "--out", tmp_path / "answers")
    assert done.exit_code == 2
    assert "'pairs' needs a place on disk: choose one with --archive" in done.output
    assert not (tmp_path / "answers").exists()
    explained = muntin("explain", script)
    assert explained.exit_code == 0
    assert "view latest" in explained.output
