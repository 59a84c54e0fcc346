"""The service: whatever ends it, all that was acknowledged is there once, and answers keep their ids."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from muntin import CheckpointError, MuntinError, NotFound, SqlError
from muntin.serve.answers import Gone
from muntin.serve.applied import REPEATED
from muntin.serve.debt import apart
from muntin.serve.log import LogError
from muntin.serve.portion import Cursor
from muntin.serve.producers import Once, OutOfSequence
from muntin.serve.record import Record
from muntin.serve.service import Service
from muntin.serve.settings import Busy, Settings, Stopped, TooMuchOwed
from muntin.serve.waiting import Change

SCRIPT = """
CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts DELAY 3 SECONDS;
CREATE TABLE limits (k VARCHAR, most BIGINT, PRIMARY KEY (k));
REGISTER QUERY sums AS SELECT k, SUM(n) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k;
REGISTER QUERY over AS SELECT s.k, SUM(s.n) AS n FROM s [RANGE 10 SECONDS SLIDE 2 SECONDS] AS s
JOIN limits AS l ON s.k = l.k GROUP BY s.k HAVING SUM(s.n) > l.most EMIT CHANGES
"""
CASCADES = """;
CREATE STREAM many AS SELECT ts, k, n * 2 AS n FROM s WHERE n > 3;
REGISTER QUERY pairs AS SELECT SUM(n) AS n, COUNT(*) AS c FROM many [RANGE 2 SECONDS SLIDE 1 SECOND];
CREATE STREAM summed FROM QUERY sums;
REGISTER QUERY of_sums AS SELECT k, MAX(n) AS n, COUNT(*) AS c FROM summed [RANGE 6 SECONDS SLIDE 3 SECONDS] GROUP BY k
"""
QUIET = Settings(checkpoint_seconds=1e9)


def given_out(service: Service) -> list[str]:
    """All answers that are kept, as whoever follows from the beginning gets them."""
    missed, follower = service.answers.follow(None, lambda: None)
    service.answers.leave(follower)
    assert missed == []
    kept = service.answers.between(1, service.answers._log.last)
    return [told for portion in kept for _, _, told in portion.rows]


def events(chance: random.Random, at: int) -> pa.Table:
    many = chance.randrange(1, 6)
    return pa.table(
        {
            "ts": [max(0, at + chance.randrange(-5_000_000, 2_000_000)) for _ in range(many)],
            "k": [chance.choice("ab") for _ in range(many)],
            "n": [chance.randrange(10) for _ in range(many)],
        }
    )


def changes(chance: random.Random, turns: int) -> list[tuple[str, Any]]:
    """Pushes with late events among them, statements and changes of tables."""
    found: list[tuple[str, Any]] = []
    for turn in range(turns):
        kind = chance.random()
        if kind < 0.6:
            found.append(("push", events(chance, turn * 900_000)))
        elif kind < 0.75:
            found.append(("load", pa.table({"k": [chance.choice("ab")], "most": [chance.randrange(20)]})))
        elif kind < 0.85:
            name = chance.choice(["extra", "more"])
            text = f"SELECT COUNT(*) AS n FROM s [RANGE {chance.randrange(1, 5)} SECONDS SLIDE 1 SECOND]"
            found.append(("execute", f"CREATE OR REPLACE QUERY {name} AS {text}"))
        elif kind < 0.92:
            found.append(("execute", f"DROP QUERY {chance.choice(['extra', 'more'])}"))
        else:
            found.append(("advance", turn * 900_000))
    return found


def do(service: Service, kind: str, what: Any) -> None:
    """One change; an error is what it gives, and has changed nothing."""
    made = {
        "push": lambda: service.push("s", what),
        "load": lambda: service.load("limits", what),
        "execute": lambda: service.execute(what),
        "advance": lambda: service.advance(what),
    }[kind]
    try:
        made().result(120)
    except MuntinError:
        assert kind == "execute", (kind, what)


@pytest.mark.parametrize("seed", range(6))
def test_killed_at_any_point(tmp_path: Path, seed: int) -> None:
    """A copy of the folder is what a killed process leaves. A service that goes on from it, with torn bytes at the end
    of its log, gives out what one that nobody killed does: the same answers, in the same order, with the same ids."""
    chance = random.Random(seed)
    todo = changes(chance, 25)
    script = SCRIPT + CASCADES  # what derived streams have follows from the log, and is not in it
    whole = Service(tmp_path / "whole", script, QUIET)
    for each in todo:
        do(whole, *each)
    wanted = given_out(whole)
    assert any(json.loads(told)["query"] == "of_sums" for told in wanted) or len(wanted) < 30
    assert any(json.loads(told)["query"] == "over" for told in wanted) or len(wanted) > 10

    service, folder = Service(tmp_path / "0", script, QUIET), tmp_path / "0"
    synced = 8  # bytes of answers that a checkpoint has left behind
    for number, each in enumerate(todo, 1):
        do(service, *each)
        if chance.random() < 0.2:
            service.checkpoint().result(120)
            synced = service.answers.nbytes
        if chance.random() < 0.25:
            copy = tmp_path / str(number)
            shutil.copytree(folder, copy)
            service.stop(is_kept=False)
            with open(max((copy / "log").glob("*.log")), "ab") as file:
                file.write(chance.randbytes(chance.randrange(60)))
            if chance.random() < 0.5:  # what the disk had not been asked to keep: it is made again
                last = max((copy / "answers").glob("*.log"))
                with open(last, "r+b") as file:
                    file.truncate(max(synced, last.stat().st_size - chance.randrange(2_000)))
            service, folder = Service(copy, script, QUIET), copy
    with pytest.raises(MuntinError, match="cannot be pushed"):
        service.push("summed", pa.table({"ts": [1]}))
    assert given_out(service) == wanted
    for name in whole.engine.queries:
        assert service.engine.lookup(name).equals(whole.engine.lookup(name)), name
    service.engine.check()
    service.stop()
    whole.stop()


def test_a_replacement_goes_on_with_its_numbers(tmp_path: Path) -> None:
    """A query that is dropped and registered again is another incarnation."""
    service = Service(tmp_path, SCRIPT, QUIET)
    text = "SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND]"

    def ids() -> list[str]:
        return [found["id"] for told in given_out(service) if (found := json.loads(told))["query"] == "q"]

    service.execute(f"REGISTER QUERY q AS {text}").result()
    first = service.incarnation("q")
    service.push("s", pa.table({"ts": [0, 5_000_000], "k": ["a", "a"], "n": [1, 1]})).result()
    assert ids() == [f"{first}-1", f"{first}-2"]
    service.execute(f"CREATE OR REPLACE QUERY q AS {text} HAVING COUNT(*) >= 0").result()
    service.push("s", pa.table({"ts": [6_000_000], "k": ["a"], "n": [1]})).result()
    assert ids() == [f"{first}-{number}" for number in (1, 2, 3)]
    service.execute(f"DROP QUERY q; REGISTER QUERY q AS {text}").result()
    service.push("s", pa.table({"ts": [7_000_000], "k": ["a"], "n": [1]})).result()
    second = service.incarnation("q")
    assert second != first
    assert ids() == [f"{first}-{number}" for number in (1, 2, 3)] + [f"{second}-1"]
    service.stop()


def test_what_is_there_keeps_its_number(tmp_path: Path) -> None:
    """IF NOT EXISTS makes no incarnation, also of a script that is read again; sinks and sources likewise."""
    text = "SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND]"
    script = f"{SCRIPT}; REGISTER QUERY IF NOT EXISTS q AS {text}"
    service = Service(tmp_path, script, QUIET)
    first = service.incarnation("q")
    service.execute(
        f"REGISTER QUERY IF NOT EXISTS q AS {text} HAVING 1 > 2; DROP QUERY IF EXISTS nobody"
    ).result()
    sink = "CREATE SINK IF NOT EXISTS out FROM q WITH (sink = 'http', url = 'http://127.0.0.1:9/')"
    service.execute(f"{sink}; {sink}; DROP SINK IF EXISTS nothing; DROP SINK IF EXISTS out").result()
    assert service.execute("SHOW QUERIES").result()["name"].to_pylist().count("q") == 1
    assert (service.incarnation("q"), service.engine.query("q").text) == (first, text)
    service.stop()
    again = Service(tmp_path, script.replace("1 SECOND SLIDE", "2 SECONDS SLIDE"), QUIET)
    assert (again.incarnation("q"), again.engine.query("q").text) == (first, text)
    again.stop()


def test_a_damaged_checkpoint_falls_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """To the one before, with the log behind that; without any that is good it says so."""
    service = Service(tmp_path, SCRIPT, QUIET)
    for at in range(4):
        service.push("s", pa.table({"ts": [at * 1_000_000], "k": ["a"], "n": [1]})).result()
        service.checkpoint().result()
    wanted = service.engine.lookup("sums")
    service.stop()
    kept = sorted((tmp_path / "checkpoints").iterdir())
    assert len(kept) == 2
    kept[-1].write_bytes(kept[-1].read_bytes()[:-1])
    service = Service(tmp_path, SCRIPT, QUIET)
    assert service.engine.lookup("sums").equals(wanted)
    assert f"checkpoint {kept[-1].name} cannot be used" in caplog.text
    service.stop(is_kept=False)
    for each in kept:
        each.write_bytes(b"")
    log = sorted((tmp_path / "log").glob("*.log"))
    log[0].rename(tmp_path / "log" / f"{2:020}.log")
    with pytest.raises(MuntinError):
        Service(tmp_path, SCRIPT, QUIET)


def test_no_checkpoint_and_no_log(tmp_path: Path) -> None:
    """A log that begins later than its first record cannot be done again from nothing."""
    service = Service(tmp_path, SCRIPT, Settings(checkpoint_seconds=1e9))
    service._log._segment_bytes = 1
    for at in range(4):
        service.push("s", pa.table({"ts": [at * 1_000_000], "k": ["a"], "n": [1]})).result()
        service.checkpoint().result()
    assert service._log.first > 1
    service.stop()
    for each in (tmp_path / "checkpoints").iterdir():
        each.write_bytes(b"nothing")
    with pytest.raises(
        CheckpointError, match=r"no checkpoint in .* can be used, and the log begins at record"
    ):
        Service(tmp_path, SCRIPT)


def test_bad_changes_change_nothing(tmp_path: Path) -> None:
    """What cannot be read is refused before it is logged, what cannot be done when it is applied; others go on."""
    service = Service(tmp_path, SCRIPT, QUIET)
    before = service._log.last
    with pytest.raises(MuntinError, match="no column 'k'"):
        service.push("s", pa.table({"ts": [0]}))
    with pytest.raises(MuntinError, match="NULL"):
        service.push("s", pa.table({"ts": pa.array([None], pa.int64()), "k": ["a"], "n": [1]}))
    with pytest.raises(NotFound):
        service.push("other", pa.table({"ts": [0]}))
    with pytest.raises(SqlError):
        service.execute("SELEKT")
    assert service._log.last == before
    with pytest.raises(MuntinError, match="there is no query"):
        service.execute("DROP QUERY nobody").result()
    with pytest.raises(SqlError, match="no column 'prize'"):
        service.execute("REGISTER QUERY q AS SELECT prize FROM s [RANGE 1 SECOND]").result()
    assert service.push("s", pa.table({"ts": [0], "k": ["a"], "n": [1]})).result() == 1
    service.stop()
    with pytest.raises(Stopped):
        service.push("s", pa.table({"ts": [0], "k": ["a"], "n": [1]}))


def test_null_alone_as_an_argument(tmp_path: Path) -> None:
    service = Service(tmp_path, SCRIPT, QUIET)
    text = "SELECT COUNT(NULL) AS c, MIN(NULL) AS low, LAST(NULL) AS last FROM s [RANGE 5 SECONDS]"
    service.execute(f"REGISTER QUERY nothing AS {text}").result()
    with pytest.raises(SqlError, match="has more digits than the 38 of a DECIMAL"):
        service.execute(
            "CREATE STREAM money (ts BIGINT, m DECIMAL(12, 2)) TIMESTAMP BY ts;"
            f"REGISTER QUERY m AS SELECT COUNT(*) AS n FROM money [ROWS 3] GROUP BY NULLIF({'1' * 40}.5, m)"
        ).result()
    for _ in range(2):
        service.push("s", pa.table({"ts": [1], "k": ["a"], "n": [2]})).result()
        assert service.engine.value("nothing") == 0
        service.stop(is_kept=False)
        service = Service(tmp_path, SCRIPT, QUIET)
    service.stop()


def test_a_script_that_changed(tmp_path: Path) -> None:
    """New queries come, changed ones are replaced, those that are gone are dropped, and others are left alone."""
    service = Service(tmp_path, SCRIPT, QUIET)
    service.execute("REGISTER QUERY own AS SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND]").result()
    service.push("s", pa.table({"ts": [0], "k": ["a"], "n": [1]})).result()
    sums = service.incarnation("sums")
    service.stop()
    changed = SCRIPT.replace("[RANGE 5 SECONDS", "[RANGE 6 SECONDS").partition("REGISTER QUERY over")[0]
    changed += "CREATE TABLE other (id BIGINT PRIMARY KEY); "
    changed += "REGISTER QUERY new AS SELECT COUNT(*) AS n FROM s [RANGE 1 HOUR]"
    service = Service(tmp_path, changed, QUIET)
    assert set(service.engine.queries) == {"sums", "own", "new"}
    assert "6 SECONDS" in service.engine.queries["sums"].text
    assert service.incarnation("sums") == sums
    assert set(service.engine.tables) == {"limits", "other"}
    service.stop()
    with pytest.raises(MuntinError, match="stream 's' is declared otherwise"):
        Service(tmp_path, changed.replace("n BIGINT) TIMESTAMP", "n DOUBLE) TIMESTAMP"), QUIET)
    service = Service(tmp_path, changed, QUIET)
    assert set(service.engine.queries) == {"sums", "own", "new"}
    service.stop()


def test_answers_are_kept_for_a_time(tmp_path: Path) -> None:
    """A cursor leads on from where it stands; once its portion has gone, that is said."""
    service = Service(tmp_path, SCRIPT, Settings(checkpoint_seconds=1e9, answers_seconds=0))
    service.answers._log._segment_bytes = 1
    assert service.answers.follow(Cursor(1, 0, 0), lambda: None)[0] == []
    with pytest.raises(Gone, match=r"no answer has had the id 2\.0\.0"):
        service.answers.follow(Cursor(2, 0, 0), lambda: None)
    for at in range(5):
        service.push("s", pa.table({"ts": [at * 5_000_000], "k": ["a"], "n": [1]})).result()
    places = [place for place, _, _ in service.answers._index]
    before_all, (record, portion) = Cursor(1, 0, 0), places[-1]
    for later in (Cursor(record, portion + 1, 0), Cursor(record + 1, 0, 0), Cursor(10**18, 0, 0)):
        with pytest.raises(Gone, match=f"no answer has had the id {later}"):
            service.answers.follow(later, lambda: None)
    for cursor in (Cursor(*places[0], 0), before_all):
        behind, follower = service.answers.follow(cursor, lambda: None)
        assert len(behind) == len(places)
        service.answers.leave(follower)
    service.checkpoint().result()
    with pytest.raises(Gone, match="not kept any more"):
        service.answers.follow(Cursor(*places[0], 0), lambda: None)
    service.stop()


def test_more_than_can_wait(tmp_path: Path) -> None:
    """Changes beyond what may wait are refused at once, and those that wait are done."""
    service = Service(tmp_path, SCRIPT, Settings(checkpoint_seconds=1e9, waiting=3))
    waiting, refused = [], 0
    with service.engine._lock:  # so that the writer has to wait
        for _ in range(10):
            try:
                waiting.append(service.push("s", pa.table({"ts": [0], "k": ["a"], "n": [1]})))
            except Busy:
                refused += 1
    assert refused
    assert sum(each.result(120) for each in waiting) == len(waiting)
    service.stop()


def test_whoever_waits_may_go(tmp_path: Path) -> None:
    """A caller that gives up does not take the change back, and the next change is made."""
    service = Service(tmp_path, SCRIPT, QUIET)
    with service.engine.alone():
        waiting = service.push("s", pa.table({"ts": [0], "k": ["a"], "n": [1]}))
        assert not waiting.cancel()
    assert waiting.result(120) == 1
    assert service.push("s", pa.table({"ts": [0], "k": ["a"], "n": [1]})).result(120) == 1
    service.stop()


def test_producers_are_kept_with_their_changes(tmp_path: Path) -> None:
    """Whether a start finds them in a checkpoint or in the log: what was made is not made again."""
    service = Service(tmp_path, SCRIPT, QUIET)
    table = pa.table({"ts": [0], "k": ["a"], "n": [1]})
    assert service.push("s", table, once=Once("me", 1)).result(120) == 1
    service.checkpoint().result(120)
    assert service.push("s", table, once=Once("me", 2)).result(120) == 1
    assert service.push("s", table, once=Once("you", 5)).result(120) == 1
    for is_kept in (False, True):
        service.stop(is_kept)
        service = Service(tmp_path, SCRIPT, QUIET)
        for once in (Once("me", 1), Once("me", 2), Once("you", 5)):
            assert service.push("s", table, once=once).result(120) is REPEATED
        with pytest.raises(OutOfSequence, match="number 3, not 4"):
            service.push("s", table, once=Once("me", 4)).result(120)
        assert service.engine.stats()["streams"]["s"]["events"] == 3
    service.stop()


def test_a_slow_follower_is_dropped(tmp_path: Path) -> None:
    """It is told so, and nobody waits for it."""
    service = Service(tmp_path, SCRIPT, QUIET)
    _, slow = service.answers.follow(None, lambda: None, waiting=1)
    _, quick = service.answers.follow(None, lambda: None)
    for at in range(4):
        service.push("s", pa.table({"ts": [at * 5_000_000], "k": ["a"], "n": [1]})).result()
    service.stop()
    assert (slow.is_dropped, quick.is_dropped, service.answers.dropped) == (True, False, 1)


def test_the_clock_of_a_replay_is_that_of_the_log(tmp_path: Path) -> None:
    """An event that was ahead of the clock is left out again, however late it is done again."""
    script = "CREATE STREAM s (ts TIMESTAMP, n BIGINT) TIMESTAMP BY ts AHEAD 1 HOUR; " \
        "REGISTER QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 1 DAY]"  # fmt: skip
    service = Service(tmp_path, script, QUIET)
    far = 4_102_444_800_000_000  # the year 2100
    service.push("s", pa.table({"ts": pa.array([0, far], pa.timestamp("us")), "n": [1, 1]})).result()
    told = service.engine.stats()["streams"]["s"]
    service.stop(is_kept=False)
    again = Service(tmp_path, script, QUIET)
    assert again.engine.stats()["streams"]["s"]["ahead"] == told["ahead"] == 1
    again.stop()


@pytest.mark.parametrize("pushes", [6, 7])
def test_checkpoints_by_the_size_of_the_log(tmp_path: Path, pushes: int) -> None:
    """So many bytes since the last one make a checkpoint due, also when the log has forgotten what came before."""
    service = Service(tmp_path, SCRIPT, Settings(checkpoint_seconds=1e9, checkpoint_bytes=1))
    service._log._segment_bytes = 1
    for at in range(pushes):
        service.push("s", pa.table({"ts": [at * 1_000_000], "k": ["a"], "n": [1]})).result()
    last = service._log.last
    service.stop(is_kept=False)
    assert service._log.first > 1
    assert max(int(each.stem) for each in (tmp_path / "checkpoints").iterdir()) == last


INSTANTS = Settings(checkpoint_seconds=1e9, instants=1_000)
SECOND = 1_000_000


def pushed(service: Service, *seconds: float, stream: str = "s") -> Any:
    """Events at these seconds; their number, or the error."""
    count = len(seconds)
    rows = {"ts": [int(each * SECOND) for each in seconds], "k": ["a"] * count, "n": [1] * count}
    return service.push(stream, pa.table(rows)).result(120)


def owing(tmp_path: Path, *queries: str, declared: str = "") -> Service:
    columns = "(ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts"
    script = f"CREATE STREAM s {columns} {declared}; CREATE STREAM t {columns}"
    for number, query in enumerate(queries):
        script += f"; REGISTER QUERY q{number} AS {query}"
    return Service(tmp_path / "data", script, INSTANTS)


FAST = "SELECT SUM(n) AS n FROM s [RANGE 5 SECONDS SLIDE 1 MILLISECOND]"


@pytest.mark.parametrize(
    ("query", "most"),
    [  # seconds of silence that are still let pass
        (FAST, 1),
        (FAST + "; REGISTER QUERY also AS " + FAST, 0.5),
        ("SELECT SUM(n) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND]", 1_000),
        ("SELECT k, SUM(n) AS n FROM s [RANGE 500 MILLISECONDS SLIDE 1 MILLISECOND] GROUP BY k", 1e6),
        ("SELECT k, SUM(n) AS n FROM s [RANGE 5 SECONDS SLIDE 1 MILLISECOND] GROUP BY k", 1),
        ("SELECT k, COUNT(*) AS n FROM s [RANGE 5 SECONDS SLIDE 1 MILLISECOND] GROUP BY k EMIT CHANGES", 1e6),
        ("SELECT SUM(n) AS n FROM s [RANGE 5 SECONDS]", 1e6),
        ("SELECT SUM(n) AS n FROM s [ROWS 5]", 1e6),
        ("SELECT SUM(n) AS n FROM t [RANGE 5 SECONDS SLIDE 1 MILLISECOND]", 1e6),
        (
            "SELECT COUNT(*) AS n FROM s [RANGE 5 SECONDS SLIDE 1 MILLISECOND] AS a "
            "JOIN t [RANGE 5 SECONDS SLIDE 1 MILLISECOND] AS b ON a.k = b.k",
            1e6,  # its windows wait for the other stream
        ),
    ],
)
def test_what_one_change_may_owe(tmp_path: Path, query: str, most: float) -> None:
    """A change by which windows would close at too many instants is refused, and is not in the log."""
    service = owing(tmp_path, query)
    assert pushed(service, 10) == 1
    if most < 1e6:
        before = service.log_bytes
        for refused in ((10 + most + 1,), (10, 11 + most), (11 + most, 10)):
            with pytest.raises(TooMuchOwed, match=r"query 'q0' .* the limit is 'instants'"):
                pushed(service, *refused)
        with pytest.raises(TooMuchOwed):
            service.advance(int((11 + most) * SECOND)).result(120)
        assert service.log_bytes == before
        assert pushed(service, 10 + most * 0.9) == 1
        service.advance(int((10 + most * 1.8) * SECOND)).result(120)
        assert pushed(service, 10 + most * 2.7) == 1
    else:
        assert pushed(service, 10 + most) == 1
    service.stop()
    Service(tmp_path / "data", service._applied.roster.script, INSTANTS).stop()


def test_what_the_first_events_may_owe(tmp_path: Path) -> None:
    """Nothing is owed before the first one, wherever it lies; a statement may come along with them."""
    service = owing(tmp_path, declared="AHEAD 1 DAY")
    with service.engine.alone():  # so that all of them wait, and are done together
        statement = service.execute(f"REGISTER QUERY late AS {FAST}")
        first = service.push("s", pa.table({"ts": [0, 2 * SECOND], "k": ["a"] * 2, "n": [1, 1]}))
        second = service.push("s", pa.table({"ts": [SECOND], "k": ["a"], "n": [1]}))
        third = service.push(
            "s", pa.table({"ts": [2 * 10**17, 3 * SECOND // 2], "k": ["a"] * 2, "n": [1, 1]})
        )
    statement.result(120)
    with pytest.raises(TooMuchOwed):
        first.result(120)
    assert (second.result(120), third.result(120)) == (1, 2)  # an event of the third lies too far ahead
    assert service.engine.stats()["streams"]["s"]["ahead"] == 1
    assert service.answers.rows == 500
    service.execute("CREATE STREAM w FROM QUERY late").result(120)
    service.execute(
        "REGISTER QUERY over AS SELECT SUM(n) AS n FROM w [RANGE 1 SECOND SLIDE 10 SECONDS]"
    ).result(120)
    service.execute("DROP QUERY over; DROP STREAM w; DROP QUERY late").result(120)
    assert pushed(service, 1e6) == 1
    service.stop()


def test_what_is_owed_is_owed_behind_the_delay(tmp_path: Path) -> None:
    """Windows close as the watermark goes on, from the first event that was taken."""
    service = owing(tmp_path, FAST, declared="DELAY 10 SECONDS")
    for refused in ((100, 112), (100, 111.5)):
        with pytest.raises(TooMuchOwed):
            pushed(service, *refused)
    assert pushed(service, 50, 60.5) == 2
    with pytest.raises(TooMuchOwed):
        pushed(service, 62)
    assert pushed(service, 61.4) == 1
    service.stop()


def test_what_was_not_logged_is_owed_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk lets time go on nowhere."""

    def refuse(records: object) -> int:
        raise LogError("the disk is full")

    service = owing(tmp_path, FAST)
    pushed(service, 10), pushed(service, 10.1)
    with monkeypatch.context() as full:
        full.setattr(service._log, "append", refuse)
        with pytest.raises(LogError):
            pushed(service, 11)
    with pytest.raises(TooMuchOwed):
        pushed(service, 11.9)
    assert pushed(service, 11) == 1
    service.stop()


def test_a_refusal_is_of_one_change(tmp_path: Path) -> None:
    """Others of its group are judged as if it had not been there, and so is what a producer sends again."""
    service = owing(tmp_path, FAST)
    with service.engine.alone():
        asked = [
            service.push("s", pa.table({"ts": [int(at * SECOND)], "k": ["a"], "n": [1]}))
            for at in (0, 50, 50, 0.9, 90, 1.8)
        ]
    found = [each.exception(120) for each in asked]
    assert [isinstance(each, TooMuchOwed) for each in found] == [False, True, True, False, True, False]
    assert service.debt.refused == 3
    for at in (2.7, 3.6):  # made once
        service.push(
            "s", pa.table({"ts": [int(at * SECOND)], "k": ["a"], "n": [1]}), once=Once("p", 1)
        ).result(120)
    with pytest.raises(TooMuchOwed):
        pushed(service, 4)
    assert pushed(service, 3.6) == 1
    service.stop()


def test_statements_are_done_before_time_goes_on() -> None:
    """A group that the writer takes at once is parted behind them, whatever stands in between."""
    group = [
        Change(Record(do))
        for do in ("push", "execute", "load", "push", "take", "script", "checkpoint", "advance")
    ]
    parts = [[each.record.do for each in part] for part in apart(group)]
    assert parts == [["push", "execute", "load"], ["push", "take", "script", "checkpoint"], ["advance"]]
    assert list(apart([])) == [[]]


def test_a_join_owes_from_the_first_event_of_either_stream(tmp_path: Path) -> None:
    window = "[RANGE 5 SECONDS SLIDE 1 MILLISECOND]"
    service = owing(tmp_path, f"SELECT COUNT(*) AS n FROM s {window} AS a JOIN t {window} AS b ON a.k = b.k")
    assert (pushed(service, 0), pushed(service, 50)) == (1, 1)
    with pytest.raises(TooMuchOwed):
        pushed(service, 50, stream="t")
    assert pushed(service, 0.5, stream="t") == 1
    service.stop()


def test_a_join_owes_with_both_streams(tmp_path: Path) -> None:
    """Its windows close as the slower one goes on."""
    window = "[RANGE 5 SECONDS SLIDE 1 MILLISECOND]"
    service = owing(tmp_path, f"SELECT COUNT(*) AS n FROM s {window} AS a JOIN t {window} AS b ON a.k = b.k")
    pushed(service, 0), pushed(service, 0, stream="t"), pushed(service, 1e6)
    with pytest.raises(TooMuchOwed):
        pushed(service, 2, stream="t")
    assert pushed(service, 1, stream="t") == 1
    service.stop()
