"""A damaged view disables itself alone, says so wherever it is asked for, and can be dropped."""

from __future__ import annotations

import hashlib
import json
import warnings

import pytest

from muntin import Engine
from muntin.errors import ArchiveError, MuntinError

SECOND = 1_000_000
STREAMS = """CREATE STREAM a (ts BIGINT, k VARCHAR, x BIGINT) TIMESTAMP BY ts;
CREATE STREAM b (ts BIGINT, k VARCHAR, y BIGINT) TIMESTAMP BY ts"""
JOIN = "SELECT a.k, x, y FROM a [RANGE 20 SECONDS] JOIN b [RANGE 20 SECONDS] ON a.k = b.k EVERY 2 SECONDS"
EXCEPT = "SELECT k, x FROM a [RANGE 20 SECONDS] EXCEPT SELECT k FROM b [RANGE 3 SECONDS] EVERY 2 SECONDS"


def push(engine, second):
    for stream, column in (("a", "x"), ("b", "y")):
        engine.push(stream, {"ts": [second * SECOND], "k": ["p"], column: [second]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of the damaged view, which stays as it was
        engine.advance((second + 1) * SECOND)


def told(path, change):
    """The directory with another content, and its checksum made to fit."""
    content = json.loads((path / "directory").read_bytes()[40:])
    change(content)
    body = json.dumps(content).encode()
    (path / "directory").write_bytes(b"MUNTAR01" + hashlib.sha256(body).digest() + body)


def segment(path):
    return sorted(path.glob("*.arrow"))[0]


DAMAGES = {
    "no directory's content": lambda path: (path / "directory").write_bytes(b""),
    "half a directory": lambda path: (path / "directory").write_bytes((path / "directory").read_bytes()[:50]),
    "another version": lambda path: (path / "directory").write_bytes(b"MUNTAR99" + bytes(99)),
    "a directory of nothing": lambda path: told(path, dict.clear),
    "a directory that is no view's": lambda path: told(path, lambda told: told.update(about={})),
    "a directory of another kind": lambda path: told(path, lambda told: told.update(indexes=7)),
    "a segment is gone": lambda path: segment(path).unlink(),
    "half a segment": lambda path: segment(path).write_bytes(segment(path).read_bytes()[:100]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_only_the_damaged_view_is_refused(tmp_path, damage):
    engine = Engine(archive=tmp_path)
    engine.execute(f"{STREAMS}; CREATE MATERIALIZED VIEW v AS {JOIN}; CREATE MATERIALIZED VIEW w AS {EXCEPT}")
    for second in (1, 3, 5):
        push(engine, second)
    engine.close()
    DAMAGES[damage](tmp_path / "v")

    engine = Engine(archive=tmp_path)
    engine.execute(STREAMS)
    engine.execute(f"CREATE MATERIALIZED VIEW w AS {EXCEPT}; CREATE MATERIALIZED VIEW u AS {JOIN}")
    push(engine, 7)
    assert engine.execute("SELECT k, x FROM w").num_rows == 0
    assert engine.execute("SELECT k, x FROM u").num_rows == 1
    for asked in (
        lambda: engine.execute("SELECT k FROM v"),
        lambda: engine.select_many(["SELECT k FROM v"]),
        lambda: engine.lookup("v"),
        lambda: engine.lookup("v", key="p"),
    ):
        with pytest.raises(
            ArchiveError, match=r"view 'v' is damaged: [\s\S]*DROP MATERIALIZED VIEW removes it"
        ):
            asked()
    for statement in (f"CREATE MATERIALIZED VIEW v AS {JOIN}", "ALTER MATERIALIZED VIEW v INDEX 'auto'"):
        with pytest.raises(MuntinError):
            engine.execute(statement)
    assert engine.stats()["views"]["v"]["damaged"]
    assert engine.stats()["views"]["u"]["results"] == 1
    assert "view v: view 'v' is damaged" in engine.explain()
    assert "view v: view 'v' is damaged" in engine.execute("EXPLAIN VIEW v")
    assert "damaged" not in engine.execute("EXPLAIN VIEW u")
    engine.execute("DROP MATERIALIZED VIEW v")
    assert not (tmp_path / "v").exists()
    assert "v" not in engine.stats()["views"]
    engine.execute(f"CREATE MATERIALIZED VIEW v AS {JOIN}")
    push(engine, 9)
    assert engine.execute("SELECT k FROM v").num_rows == 4
    engine.check()


def test_a_view_that_is_damaged_while_it_is_written(tmp_path):
    engine = Engine(archive=tmp_path)
    engine.execute(
        f"{STREAMS}; CREATE MATERIALIZED VIEW v AS {JOIN} INDEX 'rebuild 1x1'; "
        f"CREATE MATERIALIZED VIEW w AS {JOIN}"
    )
    push(engine, 1)
    for path in (tmp_path / "v").glob("*.arrow"):
        with open(path, "r+b") as file:  # beneath the mapping that the view reads from
            file.write(bytes(path.stat().st_size))
    for second in (3, 5):
        push(engine, second)
    assert engine.execute("SELECT k FROM w").num_rows == 9
    stats = engine.stats()["views"]
    assert stats["w"]["results"] == 9
    assert stats["v"]["damaged"]
    assert "view v: " in engine.explain()
    engine.execute("DROP MATERIALIZED VIEW v")
    assert not (tmp_path / "v").exists()
    engine.checkpoint(tmp_path / "checkpoint")
