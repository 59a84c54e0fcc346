"""The console's files, the drawing of what is shared, and what each query costs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from muntin.serve.access import Limits, Tokens
from muntin.serve.console.history import History
from muntin.serve.console.routes import POLICY, console_files
from muntin.serve.http import make_app
from muntin.serve.service import Service
from muntin.serve.settings import Settings
from tests.serve.local_client import LocalClient

SCRIPT = """
CREATE STREAM s (ts TIMESTAMP, k VARCHAR, n BIGINT, x DOUBLE) TIMESTAMP BY ts;
CREATE STREAM t (ts TIMESTAMP, k VARCHAR, n BIGINT) TIMESTAMP BY ts;
CREATE TABLE limits (k VARCHAR, most BIGINT, PRIMARY KEY (k));
REGISTER QUERY sums AS SELECT k, SUM(n) AS n FROM s [RANGE 1 MINUTE SLIDE 1 SECOND] GROUP BY k;
REGISTER QUERY more AS SELECT k, SUM(n) AS n, MAX(x) AS x FROM s [RANGE 5 MINUTES SLIDE 1 SECOND] GROUP BY k;
REGISTER QUERY total AS SELECT SUM(x) AS x, MAX(x) AS most FROM s [RANGE 1 HOUR];
REGISTER QUERY half AS SELECT APPROX_QUANTILE(x, 0.5, 0.1) AS half FROM s [RANGE 1 HOUR];
REGISTER QUERY limited AS SELECT l.k, SUM(s.n) AS n FROM s [RANGE 1 MINUTE SLIDE 1 SECOND] AS s
  JOIN limits AS l ON s.k = l.k GROUP BY l.k HAVING SUM(s.n) > l.most;
REGISTER QUERY pairs AS SELECT a.k, a.n FROM s [RANGE 1 MINUTE SLIDE 1 SECOND] AS a
  JOIN t [RANGE 1 MINUTE SLIDE 1 SECOND] AS b ON a.k = b.k
"""
EVENTS = [
    {"ts": f"2026-01-31T12:00:{second:02}Z", "k": "ab"[second % 2], "n": second, "x": 0.5}
    for second in range(30)
]
NAMES = ("sums", "more", "total", "half", "limited", "pairs")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    made = Service(tmp_path_factory.mktemp("served"), SCRIPT, Settings(checkpoint_seconds=1e9))
    yield made
    made.stop(is_kept=False)


@pytest.fixture(scope="module")
def client(service: Service) -> LocalClient:
    found = LocalClient(make_app(service, Tokens(None), Limits()))
    assert found.post("/streams/s", json=EVENTS).status_code == 200
    assert found.post("/streams/t", json=[{**each, "x": None} for each in EVENTS]).status_code == 200
    assert (
        found.post("/tables/limits", json=[{"k": "a", "most": 3}, {"k": "b", "most": 1_000}]).status_code
        == 200
    )
    return found


# -- files -----------------------------------------------------------------------------------------


def test_files(client: LocalClient) -> None:
    """Each has its type and the policy; what a page names is there, and of this server."""
    kinds = {
        "html": "text/html",
        "js": "text/javascript",
        "css": "text/css",
        "svg": "image/svg+xml",
        "LICENSE": "text/plain",
    }
    held = console_files()
    assert {"index.html", "app.js", "style.css", "sharing.css", "vendor/uplot/LICENSE"} <= held.keys()
    for name, body in held.items():
        told = client.get(f"/console/{name}")
        assert told.status_code == 200
        assert told.content == body
        assert told.headers["content-type"].startswith(kinds[re.split(r"[./]", name)[-1]])
        assert told.headers["content-security-policy"] == POLICY
        if name.startswith("vendor/") or not name.endswith((".js", ".html")):
            continue
        text = body.decode()
        assert not re.search(r"https?://(?!www\.w3\.org)", text), f"{name} names another host"
        assert "innerHTML" not in text
        folder = name.rpartition("/")[0]
        for found in re.findall(r"""(?:from '|src="|href=")(\.{0,2}[\w./-]+\.(?:js|css|svg))['"]""", text):
            assert str((Path("/") / folder / found).resolve())[1:] in held, f"{name} names {found}"


def test_ways_to_the_console(client: LocalClient) -> None:
    assert client.get("/").url.path == client.get("/console").url.path == "/console/"
    assert client.get("/console/").text.startswith("<!doctype html>")
    for wrong in ("nothing.js", "../routes.py", "..%2froutes.py", "%2e%2e/__init__.py"):
        assert client.get(f"/console/{wrong}").status_code == 404
    tag = client.get("/console/app.js").headers["etag"]
    assert client.get("/console/app.js", headers={"If-None-Match": tag}).status_code == 304


def test_files_need_no_token_and_data_does(service: Service, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("read 0123456789abcdef\n")
    tokens.chmod(0o600)
    client = LocalClient(make_app(service, Tokens(tokens), Limits()))
    assert client.get("/console/").status_code == 200
    for address in ("/overview", "/sharing", "/sharing.svg", "/tables/limits", "/answers/latest", "/queries"):
        assert client.get(address).status_code == 401
        assert client.get(address, headers={"Authorization": "Bearer 0123456789abcdef"}).status_code == 200


# -- sharing ---------------------------------------------------------------------------------------


def test_sharing_is_what_explain_says(client: LocalClient, service: Service) -> None:
    """Of each query: the structures and rules in its paragraphs are those of its groups, and no others."""
    for name in NAMES:
        told = client.get("/sharing", params={"query": name}).json()
        groups = [each for each in told["groups"] if each["structure"] != "table"]
        said = service.engine.explain(name)
        assert sorted(re.findall(r"because  (.*)", said)) == sorted(each["because"] for each in groups)
        if name != "pairs":
            numbers = {int(each["id"].partition("#")[2]): each["structure"] for each in groups}
            assert {int(n): kind for n, kind in re.findall(r"group (\d+): (\w+)", said)} == numbers


def test_who_reads_what(client: LocalClient) -> None:
    told = client.get("/sharing").json()
    stores = {each["id"]: each for each in told["stores"]}
    read = {name: set[str]() for name in NAMES}
    for group in told["groups"]:
        assert group["queries"] == len(group["names"])
        for name in group["names"]:
            read[name] |= set(group["stores"])
    assert told["queries"] == len(NAMES)
    for id, store in stores.items():
        assert store["readers"] == sum(id in some for some in read.values())
    assert read["sums"] == read["more"]  # cells of one grid, read by both
    assert read["limited"] == read["sums"] | {"table/limits"}
    assert {stores[id]["kind"] for id in read["pairs"]} == {"log", "matches"}


def test_shares_add_up(client: LocalClient, service: Service) -> None:
    """Those of all queries are all that is kept; and what a query reads of a store alone is its own."""
    told = client.get("/queries").json()["queries"]
    stats = service.engine.stats(queries=False)
    kept = sum(each["bytes"] for each in stats["streams"].values()) + stats["tables"]["limits"]["bytes"]
    kept += service.engine._joins.nbytes()
    assert sum(each["cost"]["bytes"] for each in told) == pytest.approx(kept)
    assert client.get("/sharing").json()["bytes"] == kept
    for each in told:
        assert 0 < each["cost"]["bytes"] <= each["cost"]["shared_bytes"]
        assert client.get(f"/queries/{each['name']}").json()["cost"] == each["cost"]


def test_time_adds_up(client: LocalClient) -> None:
    told = client.get("/sharing").json()
    spent = sum(each["update_ns"] or 0 for each in (*told["stores"], *told["groups"]))
    costs = [each["cost"]["update_ns"] for each in client.get("/queries").json()["queries"]]
    assert sum(costs) == pytest.approx(spent, rel=1e-3)
    assert spent > 0


@pytest.mark.parametrize("query", [None, *NAMES])
def test_drawing(client: LocalClient, query: str | None) -> None:
    """It is XML without a script, and has each query, structure, rule and store in it."""
    asked = {} if query is None else {"query": query}
    text = client.get("/sharing.svg", params=asked).text
    drawn = ElementTree.fromstring(text)
    assert "script" not in text
    words = " ".join("".join(each.itertext()) for each in drawn.iter())
    told = client.get("/sharing", params=asked).json()
    for group in told["groups"]:
        assert group["because"] in words
        assert all(name in words for name in group["names"])
    assert all(each["title"] in words for each in told["stores"])
    assert "<style>" in text
    assert "<style>" not in client.get("/sharing.svg", params={**asked, "style": "false"}).text


def test_a_query_that_is_not_there(client: LocalClient) -> None:
    for address in (
        "/sharing?query=nothing",
        "/sharing.svg?query=nothing",
        "/queries/nothing",
        "/tables/nothing",
    ):
        assert client.get(address).status_code == 404


# -- queries and answers ---------------------------------------------------------------------------


def test_order_of_queries(client: LocalClient) -> None:
    def names(order: str) -> list[Any]:
        return [each["name"] for each in client.get("/queries", params={"sort": order}).json()["queries"]]

    assert names("registered") == list(NAMES)
    assert names("name") == sorted(NAMES)
    found = {each["name"]: each for each in client.get("/queries").json()["queries"]}
    for order in ("bytes", "update_ns"):
        values = [found[name]["cost"][order] for name in names(order)]
        assert values == sorted(values, reverse=True)
    answers = [found[name]["answers"] for name in names("answers")]
    assert answers == sorted(answers, reverse=True)
    assert client.get("/queries?sort=nothing").status_code == 422


def test_queries_come_change_and_go(client: LocalClient) -> None:
    """The list is of now, though it is made anew after statements alone."""

    def listed() -> dict[str, str]:
        return {each["name"]: each["sql"] for each in client.get("/queries").json()["queries"]}

    before = listed()
    for text in ("SELECT COUNT(*) AS n FROM s [RANGE 1 HOUR]", "SELECT COUNT(*) AS n FROM s [RANGE 2 HOURS]"):
        assert client.put("/queries/own?replace=true", json={"sql": text}).status_code == 200
        assert listed() == before | {"own": text}
    client.delete("/queries/own")
    assert listed() == before


def test_state_of_a_query(client: LocalClient) -> None:
    told = client.get("/queries/sums", params={"plan": False}).json()
    assert "plan" not in told
    assert (told["keys"], told["slide"], told["streams"]) == (["k"], 1_000_000, ["s"])
    assert told["state"]["emitted"] == told["answers"] > 0
    assert told["state"]["missed"] == told["state"]["owed"] == 0


def test_latest_answers(client: LocalClient, service: Service) -> None:
    told = client.get("/answers/latest", params={"query": "sums", "limit": 1_000}).json()
    assert [each["query"] for each in told] == ["sums"] * service.answers.numbers[
        service.incarnation("sums") or 0
    ]
    assert [int(each["id"].partition("-")[2]) for each in told] == list(range(1, len(told) + 1))
    assert client.get("/answers/latest", params={"query": "sums", "limit": 5}).json() == told[-5:]
    assert len(client.get("/answers/latest", params={"limit": 7}).json()) == 7
    assert client.get("/answers/latest", params={"query": "nothing"}).json() == []


def test_rows_of_a_table(client: LocalClient) -> None:
    assert client.get("/tables/limits", params={"offset": 1}).json() == {
        "total": 2, "offset": 1, "rows": [{"k": "b", "most": 1_000}]
    }  # fmt: skip


def test_history(client: LocalClient, service: Service) -> None:
    """A counter is sampled, and of each query what it gave between two counts."""
    history = History(service)
    history.note()
    id = service.incarnation("sums") or 0
    assert history.answers_of([id]) == {id: []}
    before = service.answers.numbers[id]
    later = [{"ts": "2026-01-31T12:01:00Z", "k": "a", "n": 1, "x": 1.0}]
    assert client.post("/streams/s", json=later).status_code == 200
    for _ in range(5):
        history.note()
    assert history.answers_of([id, 999]) == {id: [service.answers.numbers[id] - before], 999: [0]}
    first, *_, last = history.samples()
    assert last["streams"]["s"]["events"] == first["streams"]["s"]["events"] + 1
    assert history.samples(since=first["at"])[-1] == last
    assert [each["at"] for each in history.samples()] == sorted(each["at"] for each in history.samples())


def test_samples_are_taken_while_the_server_runs(service: Service) -> None:
    with LocalClient(make_app(service, Tokens(None), Limits())) as client:
        told = client.get("/overview").json()
    assert told["samples"][0]["queries"] == len(NAMES)
    assert told["samples"][0]["streams"].keys() == {"s", "t"}
