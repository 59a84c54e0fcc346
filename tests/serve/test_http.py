"""The service over HTTP: what each address gives, how errors look, and who is let in."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from muntin import CheckpointError, Engine, MuntinError, NotFound
from muntin.arrow_bytes import stream_bytes
from muntin.serve import access
from muntin.serve.access import Limits, Room, Tokens
from muntin.serve.http import make_app
from muntin.serve.service import Service
from muntin.serve.settings import Settings
from muntin.serve.wire import ARROW
from tests.serve.local_client import LocalClient

SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts;
CREATE TABLE limits (k VARCHAR, most BIGINT, PRIMARY KEY (k));
REGISTER QUERY sums AS SELECT k, SUM(n) AS n FROM s [RANGE 1 MINUTE SLIDE 1 SECOND] GROUP BY k;
REGISTER QUERY total AS SELECT SUM(x) AS x FROM s [RANGE 1 HOUR]
"""
EVENTS = [
    {"ts": "2026-01-31T12:00:00Z", "k": "a", "n": 1, "x": 0.5},
    {"ts": "2026-01-31T12:00:01.5Z", "k": "b", "n": 2, "x": None},
    {"ts": "2026-01-31T12:00:02Z", "k": "a", "n": 3, "x": 1.5},
]
QUIET = Settings(checkpoint_seconds=1e9)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path, SCRIPT, QUIET)
    yield made
    made.stop(is_kept=False)


@pytest.fixture
def client(service: Service) -> LocalClient:
    return LocalClient(make_app(service, Tokens(None), Limits()))


def push(client: LocalClient) -> None:
    assert client.post("/streams/s", json=EVENTS).json() == {"events": 3}


def test_a_query_may_read_a_view(client: LocalClient) -> None:
    """A view that is kept, by its name in FROM, as in a script; and an error still points into the text."""
    view = "CREATE MATERIALIZED VIEW kept AS SELECT k, n FROM s [RANGE 1 MINUTE SLIDE 1 SECOND]"
    made = client.post("/execute", json={"sql": view})
    assert made.status_code == 200, made.text
    sums = {"sql": "SELECT k, SUM(n) AS n FROM kept [RANGE 30 SECONDS SLIDE 1 SECOND] GROUP BY k"}
    assert client.put("/queries/of_view", json=sums).status_code == 200
    push(client)
    assert client.get("/queries/of_view/answer?key=a").json()[0]["n"] == 1
    wrong = client.put("/queries/typo", json={"sql": "SELECT k FROM kepd [RANGE 1 MINUTE] GROUP BY k"})
    assert (wrong.status_code, wrong.json()["error"]["column"]) == (400, 15)


JSON_BODY = {"Content-Type": "application/json"}
HALF = r"\ud800"  # of a surrogate pair, as JSON writes it
READS_HALF = f"SELECT COUNT(*) AS n FROM s [ROWS 3] WHERE k = '{HALF}'"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/execute", f"""{{"sql": "INSERT INTO limits VALUES ('{HALF}', 3)"}}"""),
        ("POST", "/execute", f"""{{"sql": "DELETE FROM limits WHERE k = '{HALF}'"}}"""),
        ("POST", "/execute", f"""{{"sql": "REGISTER QUERY q AS {READS_HALF}"}}"""),
        (
            "POST",
            "/execute",
            f"""{{"sql": "CREATE TABLE t (\\"{HALF}\\" BIGINT, PRIMARY KEY (\\"{HALF}\\"))"}}""",
        ),
        (
            "POST",
            "/execute",
            f"""{{"sql": "REGISTER QUERY \\"{HALF}\\" AS SELECT COUNT(*) AS n FROM s [ROWS 3]"}}""",
        ),
        ("POST", "/execute", b"""{"sql": "-- \xed\xa0\x80"}"""),
        ("PUT", "/queries/q", f"""{{"sql": "{READS_HALF}"}}"""),
        ("POST", "/queries", f"""{{"queries": {{"{HALF}": "SELECT COUNT(*) AS n FROM s [ROWS 3]"}}}}"""),
        ("POST", "/explain", f"""{{"sql": "{READS_HALF}"}}"""),
        ("POST", "/lookup", f"""{{"query": "sums", "keys": ["{HALF}"]}}"""),
        ("POST", "/lookup", f"""{{"query": "{HALF}", "keys": ["a"]}}"""),
        ("POST", "/lookup_at?query=sums", f"""[{{"{HALF}": "a", "at": 1}}]"""),
        ("GET", "/queries/sums/answer?key=%22%5Cud800%22", ""),
        ("POST", "/streams/s", f"""[{{"ts": 1, "k": "{HALF}"}}]"""),
        ("POST", "/tables/limits", f"""[{{"k": "{HALF}", "most": 1}}]"""),
    ],
)
def test_what_utf8_cannot_say_is_refused(
    client: LocalClient, service: Service, method: str, path: str, body: str | bytes
) -> None:
    """Half of a surrogate pair, which JSON can write, at any door: refused before anything is logged."""
    logged = service._log.last
    told = client.request(method, path, content=body, headers=JSON_BODY)
    assert told.status_code in (400, 404), told.text
    assert told.json()["error"]["message"]
    assert service.is_ready
    assert service._log.last == logged


def test_a_pair_is_a_character(client: LocalClient) -> None:
    sql = r"INSERT INTO limits VALUES ('\ud83d\ude00', 3)"
    assert client.post("/execute", content=f'{{"sql": "{sql}"}}', headers=JSON_BODY).status_code == 200
    rows = r'[{"k": "\ud83d\ude80", "most": 4}]'
    assert client.post("/tables/limits", content=rows).json() == {"rows": 1}
    found = client.post("/execute", json={"sql": "SELECT k FROM limits ORDER BY k"}).json()["answer"]
    assert [row["k"] for row in found] == ["\U0001f600", "\U0001f680"]


def test_formats_of_events(client: LocalClient) -> None:
    """A list of objects, an object of lists, lines, CSV and Arrow bring the same events."""
    table = pa.table(
        {
            "ts": pa.array([0], pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
            "k": ["a"],
            "n": [1],
            "x": [0.5],
        }
    )
    sent: list[tuple[bytes, str]] = [
        (
            json.dumps([{"ts": "1970-01-01T00:00:00Z", "k": "a", "n": 1, "x": 0.5}]).encode(),
            "application/json",
        ),
        (
            json.dumps({"ts": [0], "k": ["a"], "n": [1], "x": [0.5]}).encode(),
            "application/json; charset=utf-8",
        ),
        (b'{"ts": "1970-01-01 00:00:00", "k": "a", "n": 1, "x": 0.5, "more": 3}\n', "application/x-ndjson"),
        (b"ts,k,n,x\n1970-01-01 00:00:00,a,1,0.5\n", "text/csv"),
        (stream_bytes(table), ARROW),
    ]
    for number, (body, kind) in enumerate(sent, 1):
        told = client.post("/streams/s", content=body, headers={"Content-Type": kind})
        assert (told.status_code, told.json()) == (200, {"events": 1}), kind
        assert (
            client.get("/queries/sums/answer", params={"key": "a", "at": "1970-01-01T00:00:01"}).json()[0][
                "n"
            ]
            == number
        )


def test_answers(client: LocalClient) -> None:
    """By key, by keys, at an instant, at instants of their own; as JSON and as Arrow."""
    push(client)
    assert client.get("/queries/total/answer").json()[0]["x"] == 2.0
    at = {"at": "2026-01-31T12:00:03"}
    found = client.get("/queries/sums/answer", params=at).json()
    assert [(row["k"], row["n"]) for row in found] == [("a", 4), ("b", 2)]
    assert found[0]["window_end"] == "2026-01-31T12:00:03Z"
    assert [row["n"] for row in client.get("/queries/sums/answer", params={"key": '"a"', **at}).json()] == [4]
    asked = {"query": "sums", "keys": ["b", "nobody", "a"], **at}
    assert sorted(row["n"] for row in client.post("/lookup", json=asked).json()) == [2, 4]
    arrow = client.get("/queries/sums/answer", params=at, headers={"Accept": ARROW})
    with pa.ipc.open_stream(arrow.content) as reader:
        assert reader.read_all()["n"].to_pylist() == [4, 2]
    requests = [{"k": "a", "at": "2026-01-31T12:00:01"}, {"k": "a", "at": "2026-01-31T12:00:02"}]
    told = client.post("/lookup_at", params={"query": "sums"}, json=requests).json()
    assert [(row["n"], row["found"], row["complete"]) for row in told] == [
        (1, True, False),
        (1, True, False),
    ] or [row["k"] for row in told] == ["a", "a"]


def test_queries_come_and_go(client: LocalClient) -> None:
    """Registered, listed page by page, searched, replaced, explained and dropped; a batch has a result for each."""
    text = "SELECT COUNT(*) AS n FROM s [RANGE 5 SECONDS]"
    made = client.put("/queries/counted", json={"sql": text}).json()
    assert (made["name"], made["sql"]) == ("counted", text)
    again = client.put("/queries/counted", json={"sql": text})
    assert (again.status_code, again.json()["error"]["kind"]) == (409, "NameTaken")
    other = text.replace("5", "6")
    replaced = client.put("/queries/counted", params={"replace": True}, json={"sql": other}).json()
    assert (replaced["sql"], replaced["incarnation"]) == (other, made["incarnation"])
    batch = client.post(
        "/queries", json={"queries": {"one": text, "bad": "SELECT prize FROM s [RANGE 1 SECOND]"}}
    ).json()
    assert batch["results"]["one"] == {"registered": True}
    assert batch["results"]["bad"]["error"]["column"] == 8
    listed = client.get("/queries", params={"search": "count", "offset": 1, "limit": 1}).json()
    assert (listed["total"], [each["name"] for each in listed["queries"]]) == (2, ["one"])
    assert "plan" in client.get("/queries/one").json()
    assert "RANGE" in client.post("/explain", json={"sql": text}).json()["plan"]
    assert client.delete("/queries/one").json() == {"dropped": "one"}
    assert client.get("/queries/one").status_code == 404


def test_tables(client: LocalClient, service: Service) -> None:
    """Loaded by rows, changed by statements."""
    assert client.post("/tables/limits", json=[{"k": "a", "most": 3}, {"k": "b", "most": 4}]).json() == {
        "rows": 2
    }
    client.post(
        "/execute", json={"sql": "INSERT INTO limits VALUES ('a', 7); DELETE FROM limits WHERE k = 'b'"}
    )
    assert service.engine.execute("SELECT k, most FROM limits").to_pylist() == [{"k": "a", "most": 7}]
    assert client.get("/tables").json()[0]["rows"] == 1


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "word"),
    [
        ("POST", "/streams/nobody", {"json": []}, 404, "no stream 'nobody'"),
        ("POST", "/streams/s", {"json": [{"k": "a"}]}, 400, "time column 'ts' is NULL"),
        ("POST", "/streams/s", {"content": b"x", "headers": {"Content-Type": ARROW}}, 400, "Arrow"),
        ("POST", "/streams/s", {"content": b"x", "headers": {"Content-Type": "image/png"}}, 400, "image/png"),
        ("POST", "/streams/s", {"content": b"{", "headers": {"Content-Type": "application/json"}}, 400, "JSON"),
        ("PUT", "/queries/q", {"json": {"sql": "SELECT prize FROM s [RANGE 1 SECOND]"}}, 400, "prize"),
        ("GET", "/queries/nobody/answer", {}, 404, "nobody"),
        ("GET", "/queries/sums/answer", {"params": {"key": "[1, 2]"}}, 400, "key"),
        ("GET", "/queries/total/answer", {"params": {"key": "a"}}, 400, "no keys"),
        ("GET", "/queries/sums/answer", {"params": {"at": "yesterday"}}, 400, "yesterday"),
        ("GET", "/answers", {"headers": {"Last-Event-ID": "x"}}, 400, "place among answers"),
        ("GET", "/answers", {"headers": {"Last-Event-ID": "9.0.0"}}, 410, "no answer has had the id 9.0.0"),
        ("GET", "/answers", {"params": {"query": "nobody"}}, 404, "nobody"),
        ("POST", "/execute", {"json": {"sql": "DROP QUERY nobody"}}, 404, "nobody"),
        ("POST", "/lookup_at", {"params": {"query": "sums"}, "json": {"k": ["a"]}}, 400, "at"),
        ("POST", "/lookup_at", {"params": {"query": "sums"}, "json": {"k": 3, "at": None}}, 400, "an object of lists"),
        ("POST", "/lookup_at", {"params": {"query": "sums"}, "json": {"k": ["a", 1], "at": [0, 0]}}, 400, "column 'k'"),
        ("POST", "/lookup_at", {"params": {"query": "sums"}, "json": {"k": [], "at": [0]}}, 400, "differ in length"),
        ("POST", "/lookup_at", {"params": {"query": "sums"}, "json": {"k": ["a"], "at": [[0]]}}, 400, ""),
    ],
)  # fmt: skip
def test_errors(client: LocalClient, method: str, path: str, options: Any, status: int, word: str) -> None:
    """Each is the engine's own, names the problem, and nothing has changed."""
    push(client)
    before = client.get("/queries").json(), client.get("/streams").json()
    told = client.request(method, path, **options)
    assert (told.status_code, word in told.json()["error"]["message"]) == (status, True), told.text
    assert (client.get("/queries").json(), client.get("/streams").json()) == before


@pytest.mark.parametrize("is_short", [True, False])
def test_look_ups_that_mean_nothing(client: LocalClient, is_short: bool) -> None:
    """Numbers without an end, digits of other scripts and brackets alone are refused, by either way."""
    made = {
        "sql": "CREATE STREAM d (ts TIMESTAMP, price DECIMAL(9, 2)) TIMESTAMP BY ts; "
        "REGISTER QUERY priced AS SELECT price, COUNT(*) AS n FROM d [RANGE 1 HOUR] GROUP BY price"
    }
    assert client.post("/execute", json=made).status_code == 200
    headers = {} if is_short else {"Origin": "http://localhost"}
    for key in ('"1E+999999999"', '"1E-999999999"', "1e999", "-1e999", "NaN", '"NaN"', '"sNaN"', "[" * 3_000):
        told = client.get("/queries/priced/answer", params={"key": key}, headers=headers)
        assert (told.status_code, "key 'price'" in told.json()["error"]["message"]) == (400, True), key
    for at in ("\u00b2", "--5", "-", "5" * 5_000, "9" * 19, "\u0661"):
        told = client.get("/queries/sums/answer", params={"key": "a", "at": at}, headers=headers)
        assert (told.status_code, told.json()["error"]["kind"]) == (400, "MuntinError"), at
    told = client.get("/queries/sums/answer", params={"key": "[" * 3_000, "at": "-5"}, headers=headers)
    assert (told.status_code, told.json()) == (200, [])


def test_an_error_points_at_the_word(client: LocalClient) -> None:
    error = client.put(
        "/queries/q", json={"sql": "SELECT k,\n  SUM(prize) FROM s [RANGE 1 SECOND] GROUP BY k"}
    ).json()
    assert (error["error"]["line"], error["error"]["column"]) == (2, 7)
    assert "^^^^^" in error["error"]["excerpt"]


def test_limits(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond each a clear answer of its own."""
    limits = Limits(body_bytes=100, rows=1, keys=1, queries=2, followers=0, requests_per_second=0)
    client = LocalClient(make_app(service, Tokens(None), limits))
    assert client.post("/streams/s", json=EVENTS).status_code == 413
    assert client.post("/lookup", json={"query": "sums", "keys": ["a", "b"]}).status_code == 413
    assert (
        client.put("/queries/q", json={"sql": "SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND]"}).status_code
        == 400
    )
    assert client.get("/answers").status_code == 429
    for k in "ab":
        client.post("/streams/s", json=[{"ts": 0, "k": k, "n": 1, "x": 1}])
    assert client.get("/queries/sums/answer", params={"at": "1970-01-01T00:00:01"}).status_code == 413
    monkeypatch.setattr(access, "time", SimpleNamespace(monotonic=lambda: 0.0))
    slow = LocalClient(make_app(service, Tokens(None), Limits(requests_per_second=1)))
    assert slow.get("/queries").status_code == 200
    assert slow.get("/queries").status_code == 429


def test_no_more_queries_than_the_limit(service: Service) -> None:
    """By whatever address they come, also many at once; one that takes the place of another finds room."""
    client = LocalClient(make_app(service, Tokens(None), Limits(queries=4)))
    select = "SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND]"

    def execute(sql: str) -> int:
        return client.post("/execute", json={"sql": sql}).status_code

    def register(*names: str) -> str:
        return "; ".join(f"REGISTER QUERY {each} AS {select}" for each in names)

    assert execute(register("a", "b", "c")) == 400
    assert service.queries == 2
    with ThreadPoolExecutor(8) as pool:
        made = [pool.submit(execute, register(f"q{number}")) for number in range(8)]
        assert sorted(each.result() for each in made) == [200] * 2 + [400] * 6
    assert service.queries == 4
    last = list(service.engine.queries)[-1]
    view = "CREATE MATERIALIZED VIEW v AS SELECT k, n FROM s [RANGE 1 MINUTE SLIDE 1 SECOND]"
    assert (execute(view), client.put("/queries/one_more", json={"sql": select}).status_code) == (400, 400)
    assert execute(f"CREATE OR REPLACE QUERY {last} AS {select.replace('1', '2')}") == 200
    assert execute(f"DROP QUERY {last}; {register('another')}") == 200
    assert execute("INSERT INTO limits VALUES ('a', 7); DROP QUERY another") == 200
    assert client.put("/queries/another", json={"sql": select}).status_code == 200
    assert service.queries == 4


def test_an_event_that_owes_too_much(client: LocalClient, service: Service) -> None:
    """It is refused with a status of its own, by either way, and nothing has changed."""
    sql = "REGISTER QUERY fast AS SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 MICROSECOND]"
    assert client.post("/execute", json={"sql": sql}).status_code == 200
    push(client)
    rows = [{"ts": "2026-01-31T13:00:00Z", "k": "a", "n": 1, "x": 0.5}]
    arrow = stream_bytes(pa.table({name: [row[name] for row in rows] for name in ("k", "n", "x")}).add_column(
        0, "ts", pa.array([1_769_864_400_000_000]).cast(pa.timestamp("us"))
    ))  # fmt: skip
    for told in (
        client.post("/streams/s", json=rows),
        client.post("/streams/s", content=arrow, headers={"Content-Type": ARROW}),
    ):
        assert (told.status_code, told.json()["error"]["kind"]) == (413, "TooMuchOwed"), told.text
    assert client.get("/streams").json()[0]["events"] == 3


def test_queries_that_are_coming_have_room(service: Service) -> None:
    """Whoever asks before the writer has come to them finds none."""
    room = Room(service, 4)
    with room.taken({"a"}), room.taken({"a", "b"}):
        refused = room.taken({"c"})
        with pytest.raises(MuntinError, match="no more than 4"):
            refused.__enter__()
    with pytest.raises(NotFound), room.taken({"c"}):
        raise NotFound
    with (
        room.taken({"a", "b"}),
        room.taken({"sums", "total"}),
        room.taken({"d"}, {"total"}),
        room.taken(set()),
    ):
        """Nothing is new of the second; the third takes the place of another."""


def test_rows_that_take_no_bytes(service: Service) -> None:
    """A column of NULLs has a length and nothing else: the limit of rows holds before it is made what is declared."""
    client = LocalClient(make_app(service, Tokens(None), Limits()))
    nulls = pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])
    batch = pa.record_batch([nulls] * 4, ["ts", "k", "n", "x"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    told = client.post("/streams/s", content=bytes(sink.getvalue()), headers={"Content-Type": ARROW})
    assert (told.status_code, "10,000,000 rows" in told.json()["error"]["message"]) == (413, True)


def test_a_look_up_that_takes_too_long(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it longer than is allowed: not for the engine, and not once more the long way."""
    client = LocalClient(make_app(service, Tokens(None), Limits(lookup_seconds=0.05)))
    with concurrent_hold(service):
        for path in ("/queries/sums/answer", "/queries/sums/answer?key=a"):
            told = client.get(path)
            assert (told.status_code, "0.05 seconds" in told.json()["error"]["message"]) == (408, True)
            monkeypatch.setattr("muntin.serve.asked.Asked.in_time", None)
    monkeypatch.undo()
    assert service.look_ups.latency.count == 2
    patient = LocalClient(make_app(service, Tokens(None), Limits()))
    assert patient.get("/queries/sums/answer").status_code == 200


@contextmanager
def concurrent_hold(service: Service) -> Iterator[None]:
    """Another thread has the engine."""
    begun, done = threading.Event(), threading.Event()

    def hold() -> None:
        with service.engine.alone():
            begun.set()
            done.wait(120)

    thread = threading.Thread(target=hold)
    thread.start()
    assert begun.wait(120)
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_look_ups_that_wait_are_answered(service: Service) -> None:
    """Many at once while the engine is at work: each gets its own answer when it is free."""
    client = LocalClient(make_app(service, Tokens(None), Limits()))
    push(client)
    with ThreadPoolExecutor(4) as pool:
        with concurrent_hold(service):
            asked = [
                pool.submit(
                    client.get, "/queries/sums/answer", params={"key": k, "at": "2026-01-31T12:00:03"}
                )
                for k in "abab"
            ]
        assert [each.result().json()[0]["n"] for each in asked] == [4, 2, 4, 2]


def test_the_shortcut_says_what_the_framework_says(service: Service) -> None:
    """Of one key: with a header that keeps it from the shortcut, the same."""
    app = make_app(service, Tokens(None), Limits())
    client = LocalClient(app)
    push(client)
    client.post("/streams/s", json=[{"ts": "2026-01-31T12:00:03Z", "k": "é+ &", "n": None, "x": None}])
    client.put(
        "/queries/wild", json={"sql": "SELECT n, SUM(x) / 0.0 AS bad FROM s [RANGE 1 HOUR] GROUP BY n"}
    )
    for path, params in [
        ("sums", {"key": "a"}), ("sums", {"key": '"a"'}), ("sums", {"key": "é+ &"}), ("sums", {"key": "nobody"}),
        ("sums", {"key": "1"}), ("sums", {"key": "[1"}), ("sums", {"key": "a", "at": "2026-01-31T12:00:02"}),
        ("sums", {"key": "a", "at": "never"}), ("sums", {"key": ""}), ("total", {"key": "a"}), ("nobody", {"key": "a"}),
        ("wild", {"key": "1"}), ("wild", {"key": "null"}),
    ]:  # fmt: skip
        address = f"/queries/{path}/answer"
        short, long = (
            client.get(address, params=params, headers=headers) for headers in ({}, {"Origin": "http://x"})
        )
        assert (short.status_code, short.json()) == (long.status_code, long.json()), (path, params)


def test_a_change_that_is_sent_again(client: LocalClient, service: Service) -> None:
    """Under its number it counts once; a number that leaves one out is refused; one that failed is free."""

    def told(sequence: int, **headers: str) -> Any:
        named = {"Muntin-Producer": "me", "Muntin-Sequence": str(sequence), **headers}
        return client.post("/streams/s", json=EVENTS[:1], headers=named)

    assert told(7).json() == {"events": 1}
    assert told(7).json() == {"events": 0, "repeated": True}
    assert told(9).status_code == 409
    assert told(8).json() == {"events": 1}
    assert told(7).json() == {"events": 0, "repeated": True}
    assert client.get("/producers/me").json() == {"producer": "me", "sequence": 8}
    assert client.get("/producers/nobody").json()["sequence"] is None
    named = {"Muntin-Producer": "me", "Muntin-Sequence": "9"}
    assert client.post("/execute", json={"sql": "DROP QUERY nobody"}, headers=named).status_code == 404
    text = {"sql": "SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND]"}
    for _ in range(2):
        assert client.put("/queries/own", json=text, headers=named).status_code == 200
    assert client.get("/streams").json()[0]["events"] == 2
    half = client.post("/streams/s", json=EVENTS, headers={"Muntin-Producer": "me"})
    assert half.status_code == 400


def test_other_sites(service: Service) -> None:
    """A browser lets the pages of an origin read answers only if the origin was named."""
    origin = {"Origin": "https://console.example"}
    closed = LocalClient(make_app(service, Tokens(None), Limits()))
    assert "access-control-allow-origin" not in closed.get("/queries", headers=origin).headers
    named = LocalClient(make_app(service, Tokens(None), Limits(), ["https://console.example"]))
    for path in ("/queries", "/queries/sums/answer?key=a"):
        assert named.get(path, headers=origin).headers["access-control-allow-origin"] == origin["Origin"]
        other = named.get(path, headers={"Origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers


def test_limits_on_a_command_line() -> None:
    assert Limits.read(["rows=5", "requests_per_second=2.5"]) == Limits(rows=5, requests_per_second=2.5)
    for wrong in ("row=5", "rows", "rows=x", "rows=-1", "requests_per_second=inf", "lookup_seconds=nan"):
        with pytest.raises(MuntinError, match="limit"):
            Limits.read([wrong])


ROLES = [("GET", "/queries", "read"), ("POST", "/execute", "write"), ("POST", "/checkpoint", "admin")]


REBOUND = {"Host": "rebound.example"}
FOREIGN = {"Origin": "https://elsewhere.example"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/queries", {}, 200),
        ("GET", "/queries", {"Host": "127.0.0.1:8088"}, 200),
        ("GET", "/queries", {"Host": "[::1]:8088"}, 200),
        ("GET", "/queries", REBOUND, 403),
        ("GET", "/queries", {"Host": "localhost.example"}, 403),
        ("GET", "/queries/sums/answer?key=a", REBOUND, 403),
        ("GET", "/answers?seconds=0", REBOUND, 403),
        ("GET", "/health", REBOUND, 403),
        ("GET", "/console/", REBOUND, 403),
        ("GET", "/queries", FOREIGN, 200),
        ("POST", "/tables/limits", {}, 200),
        ("POST", "/tables/limits", {"Origin": "http://localhost"}, 200),
        ("POST", "/tables/limits", {"Host": "127.0.0.1:1", "Origin": "http://127.0.0.1:1"}, 200),
        ("POST", "/tables/limits", {"Host": "127.0.0.1:1", "Origin": "http://127.0.0.1:2"}, 403),
        ("POST", "/tables/limits", REBOUND, 403),
        ("POST", "/tables/limits", {**REBOUND, "Origin": "http://rebound.example"}, 403),
        ("POST", "/tables/limits", FOREIGN, 403),
        ("POST", "/tables/limits", {"Origin": "null"}, 403),
        ("POST", "/tables/limits", {**FOREIGN, "Content-Type": "text/plain"}, 403),
        ("POST", "/streams/s", {**FOREIGN, "Content-Type": ARROW}, 403),
        ("POST", "/streams/s", {**REBOUND, "Content-Type": ARROW}, 403),
        ("DELETE", "/queries/sums", FOREIGN, 403),
        ("POST", "/tables/limits", {"Origin": "https://named.example"}, 200),
    ],
)  # fmt: skip
def test_pages_of_other_sites(
    service: Service, tmp_path: Path, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    """Without tokens a request says by its headers whether a page of another site made it. With tokens it needs one."""
    client = LocalClient(make_app(service, Tokens(None), Limits(), ["https://named.example"]))
    told = client.request(method, path, headers=headers, content=b"[]")
    assert told.status_code == status, told.text
    assert status == 200 or told.json()["error"]["kind"] == "Refused"
    anyone = LocalClient(make_app(service, Tokens(None), Limits(), ["*"]))
    if headers is FOREIGN and path == "/tables/limits":
        assert anyone.request(method, path, headers=headers, content=b"[]").status_code == 200
    tokens = tmp_path / "tokens"
    tokens.write_text("admin 0123456789abcdef\n")
    tokens.chmod(0o600)
    client = LocalClient(make_app(service, Tokens(tokens), Limits()))
    bearer = {"Authorization": "bearer 0123456789abcdef", **headers}
    assert client.request(method, path, headers=bearer, content=b"[]").status_code in (200, 400)


@pytest.mark.parametrize(
    ("mode", "text", "word"),
    [
        (0o640, "read 0123456789abcdef", "read or changed by others: chmod 600"),
        (0o620, "read 0123456789abcdef", "read or changed by others: chmod 600"),
        (0o602, "read 0123456789abcdef", "read or changed by others: chmod 600"),
        (0o600, "read 0123456789abcde\u00e9", "line 1 .* of ASCII alone"),
        (0o600, "read 0123456789abcde", "line 1 .* 16 characters or more"),
        (0o600, "read 0123456789abcdef\nwrite 0123456789abcdef", "line 2 .* the role 'write' that has the role 'read'"),
        (0o600, "# nothing", "no token"),
    ],
)  # fmt: skip
def test_files_of_tokens(tmp_path: Path, mode: int, text: str, word: str) -> None:
    """What others may read or change, or could not work, is refused at the start."""
    path = tmp_path / "tokens"
    path.write_text(text, "utf-8")
    path.chmod(mode)
    with pytest.raises(MuntinError, match=word):
        Tokens(path)


def test_tokens(service: Service, tmp_path: Path) -> None:
    """A token opens what its role may do and all below; nothing else opens anything."""
    path = tmp_path / "tokens"
    held = {role: f"{role}-token-of-this-test" for role in ("read", "write", "admin")}
    path.write_text("# who may what\n" + "".join(f"{role} {token}\n" for role, token in held.items()))
    path.chmod(0o600)
    client = LocalClient(make_app(service, Tokens(path), Limits()))
    order = list(held)
    for method, address, needed in ROLES:
        options: Any = {"json": {"sql": "DELETE FROM limits"}} if address == "/execute" else {}
        good = held["admin"]
        wrong = (
            "",
            "Bearer",
            "Bearer x",
            f"Bearer {good[:-1]}",
            f"Bearer {good.upper()}",
            good,
            f"Basic {good}",
        )
        for given in (None, *wrong):
            headers = {} if given is None else {"Authorization": given}
            assert client.request(method, address, headers=headers, **options).status_code == 401, (
                address,
                given,
            )
        for role, token in held.items():
            told = client.request(method, address, headers={"Authorization": f"Bearer {token}"}, **options)
            assert told.status_code == (200 if order.index(role) >= order.index(needed) else 403), (
                address,
                role,
            )
    assert client.get("/health").status_code == 200
    sink = {"sql": "CREATE SINK a FROM sums WITH (sink = 'http', url = 'http://127.0.0.1:9/')"}
    for role, status in (("write", 403), ("admin", 200)):  # it reaches other machines
        headers = {"Authorization": f"Bearer {held[role]}"}
        assert client.post("/execute", json=sink, headers=headers).status_code == status
    assert "sinks" not in client.get("/ready").json()
    assert "a" in client.get("/ready", headers={"Authorization": f"Bearer {held['read']}"}).json()["sinks"]


def test_every_address_asks_for_a_role(service: Service, tmp_path: Path) -> None:
    """But for health and readiness, which balancers ask, and what describes the addresses."""
    path = tmp_path / "tokens"
    path.write_text("read 0123456789abcdef\n")
    path.chmod(0o600)
    app = make_app(service, Tokens(path), Limits())
    client = LocalClient(app)
    for address, methods in app.openapi()["paths"].items():
        for method in methods:
            told = client.request(method.upper(), address.replace("{name}", "s"), content=b"")
            assert (told.status_code == 401) != (address in ("/health", "/ready")), (
                method,
                address,
                told.status_code,
            )


def test_subscriptions(client: LocalClient, service: Service) -> None:
    """Answers come as their windows close; whoever was cut off goes on behind the last one that it saw."""
    push(client)
    place = next(iter(service.answers._index))[0]
    first = _follow(client, f"{place[0]}.{place[1]}.0")
    assert [json.loads(data)["query"] for _, data in first] == ["sums", "sums"]
    ids = [json.loads(data)["id"] for _, data in first]
    assert ids == ["1-2", "1-3"]
    assert _follow(client, first[0][0]) == first[1:]
    assert _follow(client, None) == []


def _follow(client: LocalClient, last: str | None) -> list[tuple[str, str]]:
    """Place and data of the answers that are kept behind a place."""
    headers = {} if last is None else {"Last-Event-ID": last}
    told = client.get("/answers", params={"query": "sums", "seconds": 0}, headers=headers).text
    events = [dict(line.split(": ", 1) for line in event.splitlines()) for event in told.split("\n\n")]
    return [(each["id"], each["data"]) for each in events if "data" in each]


def test_the_page_of_addresses_loads_nothing(client: LocalClient) -> None:
    """A server may have no internet, and so may whoever looks at it."""
    page = client.get("/docs").text
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        assert all(f"<code>{method.upper()} {path}</code>" in page for method in methods)
    assert "src=" not in page
    assert "<link" not in page


def test_metrics(client: LocalClient) -> None:
    push(client)
    text = client.get("/metrics").text
    assert 'muntin_stream_events{stream="s"} 3' in text
    assert "muntin_queries 2" in text
    assert all(line.startswith("#") or len(line.rsplit(" ", 1)) == 2 for line in text.splitlines())
    assert int(metric(text, "process_resident_memory_bytes")) > 10_000_000


def metric(text: str, name: str) -> str:
    [value] = [line.rsplit(" ", 1)[1] for line in text.splitlines() if line.rsplit(" ", 1)[0] == name]
    return value


def test_metrics_of_look_ups(client: LocalClient) -> None:
    """Each that is answered counts once, whichever way it takes; what is wrong does not."""
    push(client)
    assert client.get("/queries/sums/answer?key=a").status_code == 200  # at once
    assert (
        client.get("/queries/sums/answer?key=a", headers={"Origin": "http://else.where"}).status_code == 200
    )
    assert client.post("/lookup", json={"query": "sums", "keys": ["a", "b"]}).status_code == 200
    requests = [{"k": "a", "at": "2026-01-31T12:00:01Z"}]
    assert client.post("/lookup_at?query=sums", json=requests).status_code == 200
    assert client.get("/queries/none/answer?key=a").status_code == 404
    text = client.get("/metrics").text
    assert metric(text, "muntin_look_up_seconds_count") == "4"
    assert metric(text, 'muntin_look_up_seconds_bucket{le="+Inf"}') == "4"
    assert 0 < float(metric(text, "muntin_look_up_seconds_sum")) < 300
    counts = re.findall(r'^muntin_look_up_seconds_bucket\{le=".*"\} (\d+)$', text, re.M)
    assert list(map(int, counts)) == sorted(map(int, counts))


def test_metrics_of_checkpoints(
    client: LocalClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(client)
    text = client.get("/metrics").text
    assert re.search("^muntin_checkpoint_age_seconds", text, re.M) is None  # there is none
    assert metric(text, "muntin_checkpoint_behind") == "2"

    def fail(*_: Any, **__: Any) -> None:
        raise CheckpointError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "checkpoint", fail)
        told = client.post("/checkpoint")
        assert (told.status_code, told.json()["error"]["message"]) == (507, "no room")
    assert client.post("/checkpoint").status_code == 200
    text = client.get("/metrics").text
    assert metric(text, "muntin_checkpoint_behind") == "0"
    assert metric(text, "muntin_checkpoint_failures_total") == "1"
    assert 0 <= float(metric(text, "muntin_checkpoint_age_seconds")) < 300
