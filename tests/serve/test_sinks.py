"""Sinks: every answer at least once, with its id, from where the last start has come; one that fails harms no other."""

from __future__ import annotations

import json
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from muntin import MuntinError, NameTaken, NotFound, SqlError
from muntin.serve import sink as sink_file
from muntin.serve.answers import AnswersReader
from muntin.serve.log import Log, LogReader
from muntin.serve.metrics import metrics_text
from muntin.serve.server import check_script
from muntin.serve.service import Service
from muntin.serve.settings import Settings
from tests.docs.markdown import ROOT
from tests.serve.kafka_mock import MockBroker
from tests.serve.test_sources import given_out, settings, until

SCRIPT = """
CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts;
REGISTER QUERY sums AS SELECT k, SUM(n) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k;
REGISTER QUERY other AS SELECT COUNT(*) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND]"""


def push(service: Service, first: int, many: int = 3) -> None:
    at = range(first, first + many)
    events = {"ts": [each * 1_000_000 for each in at], "k": ["ab"[each % 2] for each in at], "n": list(at)}
    service.push("s", pa.table(events)).result(120)


def wanted(service: Service, query: str = "sums") -> list[dict[str, Any]]:
    """What a sink of a query is to deliver, in order."""
    return [found for told in given_out(service) if (found := json.loads(told))["query"] == query]


class Hook:
    """A server that takes answers, or fails as it is told to."""

    def __init__(self) -> None:
        self.status = 200
        self.bodies: list[dict[str, Any]] = []
        self.tokens: set[str | None] = set()
        self.asked = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = outer.status  # once: a test may change it while this is at work
                outer.asked += 1
                outer.tokens.add(self.headers["Authorization"])
                if status == 200:
                    outer.bodies.append(body)
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        url = f"http://127.0.0.1:{self._server.server_port}/hook"
        # a request that a busy machine keeps waiting is not posted twice
        self.options = f"sink = 'http', url = '{url}', seconds = 120"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def answers(self) -> list[dict[str, Any]]:
        return [each for body in self.bodies for each in body["answers"]]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address that refuses connections: its port is taken, and nobody listens."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/"


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(sink_file, "_WAITS", (0.05,))
    made = Hook()
    yield made
    made.close()


def test_a_log_that_grows_is_read_once(tmp_path: Path) -> None:
    """Whoever reads on gets each record once, over the borders of segments."""
    log = Log(tmp_path, segment_bytes=100)
    log.append([b"x" * 40] * 3)
    reader, found = LogReader(log, 2), list[int]()
    for _ in range(20):
        found += [number for number, _ in reader.next()]
        log.append([b"y" * 40] * 2)
    found += [number for number, _ in reader.next()]
    assert found == list(range(2, log.last + 1))
    assert len(log._segments) > 5
    log.close()


def test_a_hook(tmp_path: Path, hook: Hook, nobody: str) -> None:
    """Answers come in order, in portions. While the hook fails they wait, and nothing else does; then they come."""
    (tmp_path / "token").write_text("secret-of-the-hook\n")
    sinks = f"; CREATE SINK pager FROM sums WITH ({hook.options}, rows = 2, "
    sinks += f"token_file = '{tmp_path / 'token'}'); CREATE SINK dead FROM other WITH (sink = 'http', url = '{nobody}')"
    service = Service(tmp_path / "data", SCRIPT + sinks, settings(tmp_path))
    push(service, 0)
    until(lambda: len(hook.answers) == len(wanted(service)) > 0)
    for first, status in enumerate((500, 302, 404), 1):
        hook.status = status
        push(service, 3 * first)
        until(lambda: str(service.connections.sinks["pager"].error).endswith(f"status {status}"))  # noqa: B023
        assert service.connections.told()["sinks"]["pager"]["waiting"]
    metrics = metrics_text(service)
    assert 'muntin_sink_failing{sink="pager"} 1' in metrics
    page = (ROOT / "docs/concepts/running.md").read_text()
    assert [name for name in re.findall(r"# TYPE (\w+)", metrics) if f"`{name}`" not in page] == []
    hook.status = 200
    until(lambda: hook.answers == wanted(service))
    until(lambda: service.connections.sinks["pager"].waiting == 0)
    until(lambda: service.connections.sinks["dead"].waiting == len(wanted(service, "other")))
    until(lambda: service.connections.sinks["dead"].error)  # it may not have tried yet
    told = service.connections.told()["sinks"]
    assert (told["pager"]["delivered"], told["pager"]["error"]) == (len(hook.answers), None)
    assert "cannot be reached" in told["dead"]["error"]
    assert hook.tokens == {"Bearer secret-of-the-hook"}
    assert all(len(each["answers"]) <= 2 and each["sink"] == "pager" for each in hook.bodies)
    service.stop()


def test_what_waits_is_known(tmp_path: Path, nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of answers that are given out just after the sink has looked for some, and of a sink that cannot begin."""
    look, is_pushed = AnswersReader.next, threading.Event()

    def look_too_early(reader: AnswersReader, query: str) -> Iterator[Any]:
        yield from look(reader, query)
        if not is_pushed.is_set():
            is_pushed.set()
            push(service, 0)

    service = Service(tmp_path / "data", SCRIPT, settings(tmp_path))
    monkeypatch.setattr(AnswersReader, "next", look_too_early)
    create = f"CREATE SINK dead FROM sums WITH (sink = 'http', url = '{nobody}'"
    service.execute(
        f"{create}); {create.replace('dead', 'lost')}, token_file = '{tmp_path / 'none'}')"
    ).result(120)
    until(lambda: all(each.failures for each in service.connections.sinks.values()))
    many = len(wanted(service))
    assert many
    assert [each.waiting for each in service.connections.sinks.values()] == [many, many]
    service.stop(is_kept=False)
    service = Service(tmp_path / "data", SCRIPT, settings(tmp_path))
    until(lambda: all(each.failures for each in service.connections.sinks.values()))
    assert [each.waiting for each in service.connections.sinks.values()] == [many, many]
    service.stop()


def test_what_is_not_delivered_is_kept(tmp_path: Path, hook: Hook) -> None:
    """Beyond the time for which answers are kept, and through a crash; then it may go."""
    hook.status = 503
    sink = f"; CREATE SINK pager FROM sums WITH ({hook.options})"
    short = Settings(checkpoint_seconds=1e9, answers_seconds=0)
    service = Service(tmp_path / "data", SCRIPT + sink, short)
    service.answers._log._segment_bytes = 1
    for first in range(0, 15, 3):
        push(service, first)
        service.checkpoint().result(120)
    expected = wanted(service)
    assert expected[0]["id"] == "1-1"
    service.stop(is_kept=False)
    service = Service(tmp_path / "data", SCRIPT + sink, short)
    service.answers._log._segment_bytes = 1
    hook.status = 200
    until(lambda: hook.answers == expected)
    until(lambda: service.connections.sinks["pager"].waiting == 0)
    push(service, 20)
    until(lambda: service.connections.sinks["pager"].waiting == 0)
    service.checkpoint().result(120)
    assert service.answers._log.first > 1
    service.stop()


def test_on_from_where_it_was(tmp_path: Path, hook: Hook) -> None:
    """A clean stop delivers nothing again. A crash goes back to the checkpoint: what comes again has the same ids."""
    sink = f"; CREATE SINK pager FROM sums WITH ({hook.options})"
    service = Service(tmp_path / "data", SCRIPT + sink, settings(tmp_path))
    push(service, 0)
    until(lambda: hook.answers == wanted(service))
    service.stop()
    service = Service(tmp_path / "data", SCRIPT + sink, settings(tmp_path))
    push(service, 3)
    until(lambda: len(hook.answers) >= len(wanted(service)))
    assert hook.answers == wanted(service)
    until(lambda: service.connections.told()["sinks"]["pager"]["waiting"] == 0)  # it knows, too
    service.checkpoint().result(120)
    place = len(hook.answers)
    push(service, 6)
    until(lambda: hook.answers == wanted(service))
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    service.stop(is_kept=False)
    service = Service(tmp_path / "copy", SCRIPT + sink, settings(tmp_path))
    every = wanted(service)
    until(lambda: len(hook.answers) == 2 * len(every) - place)
    assert hook.answers == every + every[place:]
    service.stop()


@pytest.mark.parametrize("format", ["parquet", "json"])
def test_files(tmp_path: Path, format: str) -> None:
    """Whole files, of answers in order, rolled by size or by time or when the server stops; none is half there."""
    out = tmp_path / "out"
    sink = f"; CREATE SINK alerts FROM sums WITH (sink = 'files', path = '{out}', format = '{format}', bytes = 1)"
    sink += (
        f"; CREATE SINK slow FROM other WITH (sink = 'files', path = '{tmp_path / 'slow'}', seconds = 3600)"
    )
    out.mkdir()
    (out / ".alerts-1.part").write_bytes(b"of a process that was killed")
    service = Service(tmp_path / "data", SCRIPT + sink, settings(tmp_path))
    slow = service.connections.sinks["slow"]
    for first in range(0, 9, 3):
        held = wanted(service, "other")
        push(service, first)
        until(lambda: service.connections.sinks["alerts"].waiting == 0)
        until(
            lambda: not slow._woken.is_set()
        )  # it has begun to read these, so it holds what was there before them
    assert held
    assert not list((tmp_path / "slow").iterdir())
    expected, others = wanted(service), wanted(service, "other")
    service.stop()
    files = sorted(out.iterdir())
    assert len(files) > 1
    assert all(each.name.startswith("alerts-") for each in files)
    if format == "json":
        found = [json.loads(line) for each in files for line in each.read_text().splitlines()]
        assert found == expected
    else:
        found = [row for each in files for row in pa.parquet.read_table(each).to_pylist()]
        assert [(each["id"], each["n"]) for each in found] == [(each["id"], each["n"]) for each in expected]
    [only] = (tmp_path / "slow").iterdir()
    ids = pa.parquet.read_table(only)["id"].to_pylist()
    assert len(held) <= len(ids) <= len(others)  # a stop does not wait until all has been read
    assert ids == [each["id"] for each in others[: len(ids)]]


def test_a_topic(tmp_path: Path) -> None:
    """A message for each answer, its id as the key or in the header; again from the checkpoint after a crash."""
    broker = MockBroker()
    where = f"WITH (sink = 'kafka', brokers = '{broker.address}', topic ="
    sinks = f"; CREATE SINK a FROM sums {where} 'plain'); CREATE SINK b FROM sums {where} 'keyed', key = 'k')"
    service = Service(tmp_path / "data", SCRIPT + sinks, settings(tmp_path))
    push(service, 0, 6)
    expected = wanted(service)
    plain, keyed = (broker.messages(topic, len(expected)) for topic in ("plain", "keyed"))

    def told(messages: list[Any]) -> dict[str, Any]:
        return {dict(each.headers())["muntin-id"].decode(): json.loads(each.value()) for each in messages}

    assert told(plain) == told(keyed) == {each["id"]: each for each in expected}
    assert {each.key().decode() for each in plain} == {each["id"] for each in expected}
    assert {each.key().decode() for each in keyed} == {"a", "b"}
    until(lambda: service.connections.sinks["a"].waiting == 0)
    assert service.connections.sinks["a"].delivered == len(expected)
    service.stop()


def test_statements(tmp_path: Path, hook: Hook) -> None:
    """A sink has a name of its own and a query that stays; it delivers what comes after it was created."""
    service = Service(tmp_path / "data", SCRIPT, settings(tmp_path))
    create = f"CREATE SINK pager FROM sums WITH ({hook.options})"
    with pytest.raises(SqlError, match="needs the option 'url'"):
        service.execute("CREATE SINK pager FROM sums WITH (sink = 'http')")
    with pytest.raises(NotFound, match="there is no query 'sum'; did you mean 'sums'"):
        service.execute(create.replace("sums", "sum")).result(120)
    with pytest.raises(NotFound, match="there is no sink 'pager'"):
        service.execute("DROP SINK pager").result(120)
    push(service, 0)
    old = len(wanted(service))
    service.execute(create).result(120)
    with pytest.raises(NameTaken, match="already a sink 'pager'"):
        service.execute(create).result(120)
    with pytest.raises(MuntinError, match="query 'sums' is read by sink 'pager'"):
        service.execute("DROP QUERY sums").result(120)
    with pytest.raises(SqlError):  # nothing of it is done
        service.execute("DROP SINK pager; REGISTER QUERY x AS SELECT oops FROM s [RANGE 1 HOUR]").result(120)
    push(service, 3)
    until(lambda: hook.answers == wanted(service)[old:])
    delivery = service.connections.sinks["pager"]
    service.execute("DROP SINK pager; DROP QUERY sums").result(120)
    delivery.join()
    assert not service.connections.sinks
    service.stop(is_kept=False)
    service = Service(tmp_path / "data", SCRIPT, settings(tmp_path))
    assert not service.connections.sinks
    service.stop()


def test_a_script_that_changed(tmp_path: Path, hook: Hook) -> None:
    """Sinks come and go with it; one with other options goes on from its place, one with another query begins anew."""

    def sink(name: str, query: str, more: str = "") -> str:
        return f"; CREATE SINK {name} FROM {query} WITH ({hook.options}{more})"

    service = Service(tmp_path / "data", SCRIPT + sink("a", "sums") + sink("b", "other"), settings(tmp_path))
    push(service, 0)
    until(lambda: len(hook.answers) == len(given_out(service)))
    service.stop()
    changed = SCRIPT.partition("REGISTER QUERY other")[0].rstrip().rstrip(";") + sink(
        "a", "sums", ", rows = 1"
    )
    service = Service(tmp_path / "data", changed + sink("c", "sums"), settings(tmp_path))
    assert set(service.connections.sinks) == {"a", "c"}
    before, hook.bodies = len(wanted(service)), []
    push(service, 3)
    until(lambda: len(hook.answers) == 2 * (len(wanted(service)) - before))
    assert all(len(each["answers"]) == 1 for each in hook.bodies if each["sink"] == "a")
    service.stop()


CONNECTED = """
CREATE STREAM s (ts BIGINT, k VARCHAR) TIMESTAMP BY ts WITH (source = 'folder', path = '{folder}/in');
CREATE TABLE t (k VARCHAR PRIMARY KEY, n BIGINT);
REGISTER QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 1 HOUR];
REGISTER QUERY who AS SELECT k, COUNT(*) AS n FROM s [RANGE 1 HOUR] GROUP BY k EMIT CHANGES;
CREATE SINK a FROM q WITH (sink = 'files', path = '{folder}/out')"""


def test_a_script_is_checked_where_nothing_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views alone need a folder, which goes again."""
    script = "CREATE STREAM s (ts BIGINT, n BIGINT) TIMESTAMP BY ts"
    view = f"{script}; CREATE MATERIALIZED VIEW v AS SELECT n FROM s [RANGE 1 MINUTE SLIDE 1 SECOND]"
    assert check_script(view) == "1 stream, 1 materialized view"
    monkeypatch.setattr("tempfile._get_default_tempdir", _no_folder)
    monkeypatch.setattr("tempfile.tempdir", None)
    assert check_script(script) == "1 stream"
    with pytest.raises(MuntinError, match="No usable temporary directory"):
        check_script(view)


def _no_folder() -> str:
    raise FileNotFoundError("No usable temporary directory")


def test_a_script_is_checked(tmp_path: Path) -> None:
    """Without serving it: what it declares, where events come from and where answers go. Nothing is opened."""
    assert check_script(CONNECTED.format(folder=tmp_path), [tmp_path]).splitlines() == [
        "1 stream, 1 table, 2 queries, 1 sink",
        f"  stream s from source = 'folder', path = '{tmp_path}/in'",
        f"  sink a from query q to sink = 'files', path = '{tmp_path}/out'",
    ]
    backfill = f"; REGISTER QUERY r AS SELECT k FROM s [ROWS 5] GROUP BY k BACKFILL '{tmp_path}/none.csv'; DROP QUERY r"
    check_script(CONNECTED.format(folder=tmp_path) + backfill, [tmp_path])
    assert list(tmp_path.iterdir()) == []


REFUSED = [
    ("REGISTER QUERY q AS SELECT COUNT(*) AS n FROM s [ROWS 5]", "there is a query 'q' already"),
    ("CREATE STREAM s (ts BIGINT) TIMESTAMP BY ts", "there is a stream 's' already"),
    ("DROP QUERY nobody", "no query 'nobody'"),
    ("DROP SINK nobody", "no sink 'nobody'"),
    ("DROP QUERY q", "read by sink 'a'"),
    ("CREATE SINK b FROM nobody WITH (sink = 'http', url = 'http://h/')", "no query 'nobody'"),
    ("CREATE SINK b FROM q WITH (sink = 'kafka', brokers = 'b', topic = 't', key = 'm')", "no column 'm'"),
    ("CREATE SINK b FROM q WITH (sink = 'kafka', brokers = 'b', topic = 't', key = 'change')", "no column 'change'"),
    ("CREATE SINK b FROM q WITH (sink = 'kafka', brokers = 'b', topic = 't', key = 'm'); "
     "CREATE SINK c FROM q WITH (sink = 'kafka', brokers = 'b', topic = 't', key = 'id')", "no column 'm'"),
    ("CREATE SINK b FROM q WITH (sink = 'files', path = '/elsewhere')", "outside of the folders"),
    ("CREATE SINK b FROM q WITH (sink = 'http', url = 'http://h/', token_file = '/t')", "outside of the folders"),
    ("CREATE SINK b FROM q WITH (sink = 'kafka', brokers = 'b', topic = 't', config = '/c')", "outside of the folders"),
    ("CREATE STREAM u (ts BIGINT) TIMESTAMP BY ts WITH (source = 'folder', path = '/elsewhere')", "outside of"),
    ("REGISTER QUERY r AS SELECT COUNT(*) AS n FROM s [ROWS 5] BACKFILL '/elsewhere.csv'", "outside of the folders"),
    ("INSERT INTO t VALUES (NULL, 1)", "column 'k' is NULL"),
    ("INSERT INTO t VALUES ('a', 1), ('a', 2)", "primary key of table 't' must differ"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "word"), REFUSED)
def test_what_a_start_refuses(tmp_path: Path, statement: str, word: str) -> None:
    """A check refuses it as well, in the same words; and so does a server that runs, which writes nothing then."""
    script = CONNECTED.format(folder=tmp_path)
    with pytest.raises(MuntinError, match=word):
        check_script(f"{script}; {statement}", [tmp_path])
    with pytest.raises(MuntinError, match=word):
        Service(tmp_path / "first", f"{script}; {statement}", settings(tmp_path))
    (tmp_path / "in").mkdir()
    service = Service(tmp_path / "data", script, settings(tmp_path))
    with pytest.raises(MuntinError, match=word):
        service.execute(statement).result(120)
    assert service.connections.told()["sinks"].keys() == {"a"}
    service.stop()


def test_the_key_of_a_sink(tmp_path: Path) -> None:
    """A column of its query, which the same text may register; or what a row has beside them."""
    sink = "CREATE SINK {0} FROM {1} WITH (sink = 'kafka', brokers = 'b', topic = 't', key = '{2}')"
    text = CONNECTED.format(folder=tmp_path)
    for number, (query, key) in enumerate(
        [("who", "k"), ("who", "change"), ("q", "window_end"), ("q", "id")]
    ):
        text += f"; {sink.format(f'b{number}', query, key)}"
    assert "5 sinks" in check_script(text, [tmp_path])
