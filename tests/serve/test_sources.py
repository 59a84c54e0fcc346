"""Sources: every message once, whatever ends the process, and what is wrong with one is shown and harms no other."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from muntin import MuntinError, SqlError
from muntin.serve.feed import Feed
from muntin.serve.record import Record
from muntin.serve.service import Service
from muntin.serve.settings import Settings
from muntin.serve.taken import Lost, Range

STEP = 500_000  # between events whose answers are compared: in two minutes and more, windows close despite the DELAY
QUERY = "REGISTER QUERY sums AS SELECT k, SUM(n) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k; "
QUERY += "REGISTER QUERY total AS SELECT COUNT(*) AS n, SUM(n) AS sum FROM s [RANGE 1 DAY]"


def script(source: str) -> str:
    return f"CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts DELAY 1 MINUTE WITH ({source}); {QUERY}"


def until(is_so: Callable[[], Any], seconds: float = 120.0) -> None:
    """Wait for something to become true. The limit is far beyond what a busy machine needs: it costs time only in a
    test that fails."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.02)


def count(service: Service) -> int:
    return int(service.engine.lookup("total")["n"][0].as_py())


def wait_for(service: Service, events: int) -> None:
    until(lambda: count(service) == events)


def leave_a_copy(service: Service, folder: Path, copy: Path) -> None:
    """What a killed process leaves; and the process goes on. The writer stands still meanwhile: of a folder that is
    copied while it is written to, answers might be younger than the log, which no process leaves behind."""
    with service.engine.alone():
        shutil.copytree(folder, copy)


def settle(service: Service) -> None:
    """Wait for the writer: events are in the engine, and their ranges taken, before answers that they close are given
    out."""
    service.change(Record("connect")).result(120)


def settings(folder: Path, **others: Any) -> Settings:
    return Settings(checkpoint_seconds=1e9, folders=(folder,), **others)


def given_out(service: Service) -> list[str]:
    answers = service.answers
    return [told for portion in answers.between(1, answers._log.last) for _, _, told in portion.rows]


def sums(service: Service) -> list[str]:
    """The answers of windows with a SLIDE, which do not depend on how events came in portions."""
    return [told for told in given_out(service) if json.loads(told)["query"] == "sums"]


def rows(first: int, many: int, step: int = 100_000) -> list[dict[str, Any]]:
    return [{"ts": at * step, "k": "ab"[at % 2], "n": at} for at in range(first, first + many)]


def put(folder: Path, name: str, some: list[dict[str, Any]]) -> None:
    """A file that appears whole."""
    hidden = folder / f".{name}"
    if name.endswith(".parquet"):
        pa.parquet.write_table(pa.Table.from_pylist(some), hidden)
    else:
        hidden.write_text("".join(f"{json.dumps(row)}\n" for row in some))
    hidden.rename(folder / name)


def test_a_feed_takes_each_range_once() -> None:
    """Kafka: by partition. A folder: by the order of names."""
    feed = Feed({"source": "folder", "path": "x"})
    feed.move([Range("a", 0, 5, 5)])
    feed.move([Range("a", 5, -1, 2)])
    for wrong in (Range("a", 5, -1, 2), Range("Z", 0, 3, 3), Range("b", 1, 3, 2)):
        with pytest.raises(MuntinError, match="taken already"):
            feed.move([wrong])
    feed.move([Range("b", 0, -1, 3)])
    assert feed.position == {"b": -1}
    assert feed.changed({"source": "folder", "path": "x", "bad": "skip"}).position == {"b": -1}
    assert feed.changed({"source": "folder", "path": "y"}).position == {}


@pytest.mark.parametrize("seed", range(2))
def test_a_folder_through_crashes(tmp_path: Path, seed: int) -> None:
    """A copy of the data folder is what a killed process leaves. Files of all formats are read once, also those that
    appear while nobody is there; answers are those of a service that nobody killed."""
    chance = random.Random(seed)
    inbox = tmp_path / "in"
    inbox.mkdir()
    told = script(f"source = 'folder', path = '{inbox}'")
    service, folder, sent = Service(tmp_path / "0", told, settings(tmp_path)), tmp_path / "0", 0
    for number in range(12):
        many = chance.randrange(0, 40)
        put(
            inbox,
            f"{number:03}.{chance.choice(['jsonl', 'parquet'] if many else ['jsonl'])}",
            rows(sent, many, STEP),
        )
        sent += many
        if chance.random() < 0.5:
            wait_for(service, sent)
        if chance.random() < 0.3:
            service.checkpoint().result(120)
        if chance.random() < 0.4:
            copy = tmp_path / str(number + 1)
            leave_a_copy(service, folder, copy)
            service.stop(is_kept=False)
            service, folder = Service(copy, told, settings(tmp_path)), copy
    until(lambda: count(service) == sent)
    assert service.engine.lookup("total")["sum"][0].as_py() == sum(range(sent))
    until(
        lambda: service.connections.sources["s"].told()["position"] == {sorted(inbox.iterdir())[-1].name: -1}
    )
    settle(service)
    found = sums(service)
    assert len(found) > 50
    service.stop()
    whole = Service(tmp_path / "whole", script("source = 'http'"), settings(tmp_path))
    whole.push("s", pa.Table.from_pylist(rows(0, sent, STEP), whole.engine.streams["s"].schema)).result(120)
    assert found == sums(whole)
    whole.stop()


def test_folders_of_others_and_files_that_are_none(tmp_path: Path) -> None:
    """A folder that was not named at the start is refused, and not read if it is not named any more. A file that is no
    file of events stops its source, or is left out and counted; what stands before it is taken."""
    inbox = tmp_path / "in"
    inbox.mkdir()
    told = script(f"source = 'folder', path = '{inbox}'")
    elsewhere = Settings(folders=(tmp_path / "other",))
    with pytest.raises(SqlError, match="outside of the folders"):
        Service(tmp_path / "data", told, elsewhere)
    Service(tmp_path / "data", told, settings(tmp_path)).stop()
    service = Service(tmp_path / "data", told, elsewhere)
    until(lambda: service.connections.sources["s"].error)
    assert "outside of the folders" in str(service.connections.sources["s"].error)
    service.stop()
    put(inbox, "1.jsonl", rows(0, 3))
    (inbox / "2.jsonl").write_text("{nothing")
    put(inbox, "3.jsonl", rows(3, 3))
    service = Service(tmp_path / "data", told, settings(tmp_path))
    until(lambda: not service.connections.sources["s"].is_running)
    assert count(service) == 3
    assert "2.jsonl' is no file of events" in service.connections.told()["sources"]["s"]["error"]
    service.stop()
    skipping = told.replace("WITH (", "WITH (bad = 'skip', ")
    service = Service(tmp_path / "data", skipping, settings(tmp_path))
    until(lambda: count(service) == 6)
    assert service.connections.sources["s"].bad == 1
    put(inbox, "0.jsonl", rows(6, 3))  # too late
    until(lambda: service.connections.sources["s"].bad == 2)
    service.stop()


def test_rows_that_the_engine_refuses(tmp_path: Path) -> None:
    """They are found by halves, and set aside by the policy; a replay sets the same ones aside."""
    create = "CREATE STREAM s (ts BIGINT, u UBIGINT) TIMESTAMP BY ts "
    query = "; REGISTER QUERY total AS SELECT COUNT(*) AS n, MAX(u) AS u FROM s [RANGE 1 DAY]"
    values = [2**64 - 1 if at in (0, 5, 6, 19) else at for at in range(20)]
    events = pa.table({"ts": list(range(20)), "u": pa.array(values, pa.uint64())})
    pa.parquet.write_table(events, tmp_path / "1.parquet")
    source = f"WITH (source = 'folder', path = '{tmp_path}'"
    service = Service(tmp_path / "data", f"{create}{source}){query}", settings(tmp_path))
    until(lambda: not service.connections.sources["s"].is_running)
    assert "row 0 of" in str(service.connections.sources["s"].error)
    service.stop()
    service = Service(tmp_path / "data", f"{create}{source}, bad = 'skip'){query}", settings(tmp_path))
    until(lambda: service.connections.sources["s"].told()["position"] == {"1.parquet": -1})
    for _ in range(2):
        [row] = service.engine.lookup("total").to_pylist()
        assert (row["n"], row["u"]) == (16, 18)
        service.stop(is_kept=False)
        service = Service(tmp_path / "data", f"{create}{source}, bad = 'skip'){query}", settings(tmp_path))
    service.stop()


@pytest.mark.parametrize("bad", ["fail", "skip"])
def test_an_event_that_owes_too_much(tmp_path: Path, bad: str) -> None:
    """Its source stops before it: what lies behind a long silence is no bad message. A higher limit goes on there."""
    put(tmp_path, "1.jsonl", [*rows(0, 3), {"ts": 10**8, "k": "a", "n": 0}, {"ts": 10**8, "k": "a", "n": 0}])
    told = script(f"source = 'folder', path = '{tmp_path}', bad = '{bad}'")
    told += "; REGISTER QUERY fast AS SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 MILLISECOND]"
    for _ in range(2):
        service = Service(tmp_path / "data", told, settings(tmp_path, instants=10_000))
        until(lambda: not service.connections.sources["s"].is_running)  # noqa: B023
        source = service.connections.sources["s"]
        assert "the limit is 'instants'" in str(source.error)
        assert (count(service), source.bad) == (3, 0)
        service.stop(is_kept=False)
    service = Service(tmp_path / "data", told, settings(tmp_path))
    wait_for(service, 5)
    assert service.connections.sources["s"].error is None
    service.stop()


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    """What must be read again and is not there stops the start, which names it; or it is left out, if that is asked."""
    inbox = tmp_path / "in"
    inbox.mkdir()
    told = script(f"source = 'folder', path = '{inbox}'")
    put(inbox, "1.jsonl", rows(0, 3))
    service = Service(tmp_path / "data", told, settings(tmp_path))
    until(lambda: count(service) == 3)
    service.stop(is_kept=False)
    (inbox / "1.jsonl").unlink()
    with pytest.raises(Lost, match=r"1\.jsonl' must be read again, and cannot be"):
        Service(tmp_path / "data", told, settings(tmp_path))
    put(inbox, "2.jsonl", rows(3, 2))
    service = Service(tmp_path / "data", told, settings(tmp_path, skips_lost=True))
    until(lambda: count(service) == 2)
    service.stop()


def test_statements_about_sources(tmp_path: Path) -> None:
    """A stream that is dropped takes its source with it; one that is created again begins anew."""
    inbox = tmp_path / "in"
    inbox.mkdir()
    service = Service(tmp_path / "data", script("source = 'http'"), settings(tmp_path))
    create = f"CREATE STREAM t (ts BIGINT) TIMESTAMP BY ts WITH (source = 'folder', path = '{inbox}'); "
    create += "REGISTER QUERY n AS SELECT COUNT(*) AS n FROM t [RANGE 1 DAY]"
    put(inbox, "1.jsonl", rows(0, 5))
    with pytest.raises(MuntinError, match="has no option 'pth'"):
        service.execute(create.replace("path", "pth"))
    service.execute(create).result(120)
    until(lambda: service.engine.value("n") == 5)
    intake = service.connections.sources["t"]
    service.execute("DROP QUERY n; DROP STREAM t").result(120)
    assert "t" not in service.connections.sources
    intake.join()
    service.execute(create).result(120)  # from the beginning
    until(lambda: service.engine.value("n") == 5)
    service.stop()
