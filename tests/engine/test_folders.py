"""An engine that is restricted to folders reads and writes nothing outside, however a path is spelt."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muntin import Engine
from muntin.errors import MuntinError

STREAM = "CREATE STREAM s (ts BIGINT, v BIGINT) TIMESTAMP BY ts"
SUM = "SELECT SUM(v) AS total FROM s [RANGE 1 HOUR]"
EVENTS = "ts,v\n1,10\n2,20\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """`inside` is allowed, `outside` is not, and links lead from one to the other."""
    for folder in ("inside/deep", "inside/linked", "outside/deep", "inside-out"):
        (tmp_path / folder).mkdir(parents=True)
    for file in (
        "inside/e.csv",
        "inside/deep/e.csv",
        "outside/e.csv",
        "outside/deep/e.csv",
        "inside-out/e.csv",
    ):
        (tmp_path / file).write_text(EVENTS)
    (tmp_path / "inside/link.csv").symlink_to(tmp_path / "outside/e.csv")
    (tmp_path / "inside/linked/e.csv").symlink_to(tmp_path / "outside/e.csv")
    (tmp_path / "inside/away").symlink_to(tmp_path / "outside")
    (tmp_path / "outside/back.csv").symlink_to(tmp_path / "inside/e.csv")
    (tmp_path / "outside/loop").symlink_to(tmp_path / "outside/loop")
    monkeypatch.chdir(tmp_path / "inside")
    return tmp_path


ALLOWED = [
    "{0}/inside/e.csv", "{0}/inside/deep", "{0}/inside/deep/e.csv", "{0}/inside/deep/../e.csv", "e.csv", "./deep",
    "{0}/outside/../inside/e.csv", "{0}/outside/back.csv", "../inside/e.csv",
]  # fmt: skip
REFUSED = [
    "{0}/outside/e.csv", "{0}/outside/deep", "{0}/outside", "{0}", "{0}/inside-out/e.csv",
    "{0}/inside/../outside/e.csv",
    "../outside/e.csv", "{0}/inside/link.csv", "link.csv", "{0}/inside/linked", "{0}/inside/away/e.csv",
    "{0}/inside/away", "away/deep/e.csv", "/etc/passwd", "/", "..", "{0}/outside/nothing.csv", "{0}/outside/loop",
    "/proc/self/environ", "e.csv\0/../../outside/e.csv",
]  # fmt: skip


def ways(engine, path):
    """All that lead from a path to its events."""
    text = str(path).replace("'", "''")
    return {
        "text": lambda: engine.execute(f"REGISTER QUERY q AS {SUM} BACKFILL '{text}'"),
        "script": lambda: engine.execute(
            f"REGISTER QUERY o AS {SUM}; REGISTER QUERY q AS {SUM} BACKFILL '{text}'"
        ),
        "register": lambda: engine.register(SUM, "q", backfill=path),
        "many": lambda: engine.register_many({"q": SUM}, backfill=path),
    }


@pytest.mark.parametrize("way", ["text", "script", "register", "many"])
def test_histories(place, way):
    for path in ALLOWED:
        engine = Engine(folders=[place / "inside"])
        engine.execute(STREAM)
        engine.push("s", {"ts": [3], "v": [3]})
        ways(engine, path.format(place))[way]()
        assert engine.value("q") == 30, path
    engine = Engine(folders=["."])
    engine.execute(STREAM)
    engine.push("s", {"ts": [3], "v": [3]})
    for path in REFUSED:
        with pytest.raises(MuntinError) as refusal:
            ways(engine, path.format(place))[way]()
        assert "outside of the folders of this engine" in str(refusal.value) or "no path" in str(
            refusal.value
        ), path
        assert not engine.queries
    for given in (Path(REFUSED[0].format(place)),):
        with pytest.raises(MuntinError, match="outside of the folders"):
            engine.register(SUM, "q", backfill=given)


def test_archives(place):
    for path in ("{0}/inside/views", "{0}/inside", "views", "{0}/outside/../inside/views"):
        Engine(archive=path.format(place), folders=[place / "inside"])
    for path in (
        "{0}/outside/views",
        "{0}",
        "../views",
        "{0}/inside/away",
        "{0}/inside/away/views",
        "/",
        "{0}/outside/loop",
    ):
        before = set(place.rglob("*"))
        with pytest.raises(MuntinError, match=r"outside of the folders of this engine|no path"):
            Engine(archive=path.format(place), folders=[place / "inside"])
        assert set(place.rglob("*")) == before


def test_a_view_that_is_a_link_elsewhere(place):
    text = (
        f"{STREAM}; CREATE MATERIALIZED VIEW v AS SELECT v FROM s [RANGE 1 HOUR] "
        "EXCEPT SELECT v FROM s [RANGE 1 SECOND] EVERY 1 SECOND"
    )
    engine = Engine(archive=place / "outside/views")
    engine.execute(text)
    engine.close()
    (place / "inside/views").mkdir()
    (place / "inside/views/v").symlink_to(place / "outside/views/v")
    Engine(archive=place / "inside/views").execute("SELECT v FROM v")
    restricted = Engine(archive=place / "inside/views", folders=[place / "inside"])
    for statement in ("SELECT v FROM v", text):
        with pytest.raises(MuntinError, match="outside of the folders of this engine"):
            restricted.execute(statement)
    held = sorted(os.listdir(place / "outside/views/v"))
    with pytest.raises(MuntinError):
        restricted.execute("DROP MATERIALIZED VIEW v")
    assert sorted(os.listdir(place / "outside/views/v")) == held


def test_restored_engines(place):
    engine = Engine()
    engine.execute(STREAM)
    engine.checkpoint(place / "checkpoint")
    with pytest.raises(MuntinError, match="outside of the folders"):
        Engine.restore(place / "checkpoint", archive=place / "outside", folders=[place / "inside"])
    restored = Engine.restore(place / "checkpoint", folders=[place / "inside"])
    with pytest.raises(MuntinError, match="outside of the folders"):
        restored.register(SUM, "q", backfill=place / "outside/e.csv")


@pytest.mark.parametrize("folders", ["/data", Path("/data"), 5, [5], ["\0"]])
def test_what_are_no_folders(folders):
    with pytest.raises(MuntinError, match="folders"):
        Engine(folders=folders)


def test_no_folder_at_all(place):
    engine = Engine(folders=[])
    engine.execute(STREAM)
    with pytest.raises(MuntinError, match="outside of the folders of this engine: none"):
        engine.register(SUM, "q", backfill=place / "inside/e.csv")
    engine.register(SUM, "q", backfill={"ts": [1], "v": [1]})  # what is not a path is the caller's own
