"""The service over HTTP: what each address takes and gives.

Every change waits until it is in the log; every error is the engine's own, as JSON. `/docs` describes all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from importlib.metadata import version
from typing import Annotated, Any

import pyarrow as pa
from fastapi import Body, Depends, FastAPI, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, StreamingResponse
from starlette.exceptions import HTTPException

from muntin.argument import kept_text_of, query_name_of
from muntin.derived import carrier_of
from muntin.errors import MuntinError, NotFound
from muntin.serve.access import Limits, Pace, Room, Tokens
from muntin.serve.applied import REPEATED
from muntin.serve.asked import Asked
from muntin.serve.body import answer_rows, hand_in, kind_of, read_body
from muntin.serve.console.history import History
from muntin.serve.console.routes import add_console
from muntin.serve.corked import CONNECTION
from muntin.serve.docs_page import POLICY, docs_page
from muntin.serve.json_text import json_rows, json_value
from muntin.serve.metrics import metrics_text
from muntin.serve.openapi import FORMATS, PROBLEMS, REQUESTS, ROWS, Called
from muntin.serve.pages import Pages
from muntin.serve.portion import Cursor
from muntin.serve.problems import described, misread, refused, told
from muntin.serve.producers import Once
from muntin.serve.push_shortcut import PushShortcut
from muntin.serve.query_facts import Order, QueryFacts
from muntin.serve.script import connects, names_of_queries, read_names
from muntin.serve.service import Service
from muntin.serve.shortcut import Shortcut
from muntin.serve.subscription import subscription
from muntin.serve.wire import ARROW, arrow_rows, instant_of, json_or_text, requests_of
from muntin.sql import parse_query


def make_app(service: Service, tokens: Tokens, limits: Limits, origins: Sequence[str] = ()) -> FastAPI:
    """All addresses of a service."""
    history = History(service)
    facts = QueryFacts(service, history)
    pace, room = Pace(limits.requests_per_second), Room(service, limits.queries)
    pages, asked = Pages(not tokens.is_open, origins), Asked(service, limits)
    shortcut = Shortcut(asked.one_key, asked.at_once, tokens, pace, pages)
    app = _App(pages, shortcut, PushShortcut(service, limits, tokens, pace), history.taken)
    app.add_exception_handler(MuntinError, told)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, misread)
    if origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(origins), allow_methods=["*"], allow_headers=["*"]
        )

    def may(role: str) -> Any:
        async def check(request: Request, authorization: Annotated[str | None, Header()] = None) -> None:
            if not pace.takes(request.client.host if request.client else ""):
                raise HTTPException(429, "too many requests: slow down", {"Retry-After": "1"})
            allowed = tokens.allows(authorization, role)
            if allowed is None:
                raise HTTPException(
                    401, "give a token: Authorization: Bearer …", {"WWW-Authenticate": "Bearer"}
                )
            if not allowed:
                raise HTTPException(403, f"this token may not do that: it takes the role '{role}'")

        return Depends(check)

    # -- the service itself ------------------------------------------------------------------------

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()), headers={"Content-Security-Policy": POLICY})

    @app.get("/health", tags=["service"])
    def health() -> dict[str, str]:
        """Whether the process is there."""
        return {"status": "ok", "version": version("muntin")}

    @app.get("/ready", tags=["service"])
    def ready(authorization: Annotated[str | None, Header()] = None) -> JSONResponse:
        """Whether it takes changes; and for who may read, how sources and sinks fare."""
        why = None if service.failure is None else str(service.failure)
        told: dict[str, Any] = {"ready": service.is_ready, "failure": why}
        if tokens.allows(authorization, "read"):
            told |= service.connections.told()
        return JSONResponse(told, 200 if service.is_ready else 503)

    @app.get("/metrics", tags=["service"], dependencies=[may("read")], response_class=PlainTextResponse)
    def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(metrics_text(service), media_type="text/plain; version=0.0.4")

    @app.post("/checkpoint", tags=["service"], dependencies=[may("admin")])
    async def checkpoint() -> dict[str, int]:
        """Write a checkpoint now."""
        return {"record": await _done(service.checkpoint())}

    @app.post("/execute", tags=["service"], dependencies=[may("write")])
    async def execute(
        sql: Annotated[str, Body(embed=True)],
        once: Called,
        authorization: Annotated[str | None, Header()] = None,
    ) -> Any:
        """Run statements that change something: REGISTER QUERY, DROP QUERY, CREATE TABLE, INSERT, DELETE, …; all or
        none. Sources and sinks reach other machines: they take the role admin."""
        statements = await run_in_threadpool(read_names, sql)
        if connects(statements) and not tokens.allows(authorization, "admin"):
            raise HTTPException(403, "sources and sinks take the role 'admin'")
        with room.taken(*names_of_queries(statements)):
            found = await _done(await run_in_threadpool(service.execute, sql, once))
        if found is REPEATED:
            return {"answer": None, "repeated": True}
        return {"answer": json_rows(found) if isinstance(found, pa.Table) else found}

    @app.get("/producers/{name}", tags=["service"], dependencies=[may("read")])
    async def producer(name: str) -> dict[str, Any]:
        """The number of a producer's last change; null if it has made none, or too many others have made some since."""
        return {"producer": name, "sequence": service.producers.last(name)}

    # -- streams and tables ------------------------------------------------------------------------

    @app.get("/streams", tags=["streams"], dependencies=[may("read")])
    def streams() -> list[dict[str, Any]]:
        """Streams with their columns, and how far each has come."""
        told = service.engine.stats(queries=False)["streams"]
        return [
            {
                "name": name, "time": stream.time, "columns": _columns(stream.schema),
                **{each: of[each] for each in ("events", "late", "ahead")},
                "watermark": json_value(of["watermark"]), "bytes": of["bytes"],
            }
            for name, stream in service.engine.streams.items()
            if (of := told[carrier_of(stream)])
        ]  # fmt: skip

    @app.post("/streams/{name}", tags=["streams"], dependencies=[may("write")], openapi_extra=FORMATS)
    async def push(name: str, request: Request, once: Called) -> dict[str, Any]:
        """Events: JSON (a list of objects, or an object of lists), JSON lines, CSV, or Arrow's stream format, by
        Content-Type. Once this is answered they are on disk, and in every answer."""
        if name not in service.streams:
            raise NotFound(f"there is no stream '{name}'")
        body = await read_body(request, limits)
        found = await _done(
            await run_in_threadpool(
                hand_in, service.streams[name], service.push, limits, body, kind_of(request), once
            )
        )
        return {"events": 0, "repeated": True} if found is REPEATED else {"events": found}

    @app.get("/tables", tags=["tables"], dependencies=[may("read")])
    def tables() -> list[dict[str, Any]]:
        """Tables with their columns and numbers of rows."""
        told = service.engine.stats(queries=False)["tables"]
        return [
            {"name": name, "key": list(table.key), "columns": _columns(table.schema), **told[name]}
            for name, table in service.engine.tables.items()
        ]

    @app.post("/tables/{name}", tags=["tables"], dependencies=[may("write")], openapi_extra=FORMATS)
    async def load(name: str, request: Request, once: Called) -> dict[str, Any]:
        """Rows of a table, inserted or replaced by primary key; formats as for events. All or none."""
        if name not in service.tables:
            raise NotFound(f"there is no table '{name}'")
        body = await read_body(request, limits)
        found = await _done(
            await run_in_threadpool(
                hand_in, service.tables[name], service.load, limits, body, kind_of(request), once
            )
        )
        return {"rows": 0, "repeated": True} if found is REPEATED else {"rows": found}

    # -- queries -----------------------------------------------------------------------------------

    @app.get("/queries", tags=["queries"], dependencies=[may("read")])
    def queries(
        search: str = "",
        offset: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
        sort: Order = "registered",
    ) -> dict[str, Any]:
        """Queries whose name or text has a word in it, a page at a time, with what each has given and its share of what
        is kept and spent; by name, or those with the most of something first."""
        return facts.page(search, sort, offset, limit)

    @app.post("/queries", tags=["queries"], dependencies=[may("write")])
    async def register_many(
        queries: Annotated[dict[str, str], Body(embed=True)], replace: bool = False
    ) -> dict[str, Any]:
        """Register many queries, each by itself: one that cannot be leaves the others alone."""
        results: dict[str, dict[str, Any]] = {}
        for name in queries:  # a name that UTF-8 cannot say cannot be told to have failed, either
            kept_text_of("a query's name", name)
        for name, sql in queries.items():
            try:
                await _register(service, room, name, sql, replace)
                results[name] = {"registered": True}
            except MuntinError as error:
                results[name] = {"registered": False, "error": described(error)}
        return {"results": results}

    @app.get("/queries/{name}", tags=["queries"], dependencies=[may("read")])
    def query(name: str, plan: bool = True) -> dict[str, Any]:
        """One query: its text, its share of what is kept and spent, whether its windows are covered, and its plan."""
        return facts.one(name, plan)

    @app.put("/queries/{name}", tags=["queries"], dependencies=[may("write")])
    async def register(
        name: str, once: Called, sql: Annotated[str, Body(embed=True)], replace: bool = False
    ) -> dict[str, Any]:
        """Register a query; with `replace`, in place of the one of that name, whose answers it goes on to number."""
        await _register(service, room, name, sql, replace, once)
        return facts.told(name, await run_in_threadpool(service.engine.query, name))

    @app.delete("/queries/{name}", tags=["queries"], dependencies=[may("write")])
    async def drop(name: str, once: Called) -> dict[str, str]:
        """Drop a query; no other query's answer changes."""
        await _done(service.execute(f"DROP QUERY {_quoted(name)}", once))
        return {"dropped": name}

    @app.post("/explain", tags=["queries"], dependencies=[may("read")])
    def explain(sql: Annotated[str, Body(embed=True)]) -> dict[str, str]:
        """The plan of a query that is not registered: what it would share, and why; or what is wrong with it."""
        _parsed(service, sql)
        return {"plan": str(service.engine.execute(f"EXPLAIN {sql}"))}

    # -- answers -----------------------------------------------------------------------------------

    @app.get("/queries/{name}/answer", tags=["answers"], dependencies=[may("read")], responses=ROWS)
    async def lookup(name: str, request: Request, key: str | None = None, at: str | None = None) -> Response:
        """The answer as of now, or `at` an instant; of one `key`, as JSON (`"AAPL"`, or `["AAPL", 3]` for two columns;
        a text may come without quotes)."""
        instant = instant_of(at)

        def found() -> pa.Table:
            keys = None if key is None else asked.key(name, json_or_text(key))
            return service.engine.lookup(name, keys, instant)

        return await answer_rows(request, await asked.in_time(found), limits)

    @app.post("/lookup", tags=["answers"], dependencies=[may("read")], responses=ROWS)
    async def lookup_keys(
        request: Request,
        query: Annotated[str, Body()],
        keys: Annotated[list[Any], Body()],
        at: Annotated[str | None, Body()] = None,
    ) -> Response:
        """The answers of many keys."""
        if len(keys) > limits.keys:
            raise HTTPException(413, f"a look-up has at most {limits.keys:,} keys, not {len(keys):,}")
        instant = instant_of(at)

        def found() -> pa.Table:
            return service.engine.lookup(query, [asked.key(query, each) for each in keys], instant)

        return await answer_rows(request, await asked.in_time(found), limits)

    @app.post(
        "/lookup_at", tags=["answers"], dependencies=[may("read")], responses=ROWS, openapi_extra=REQUESTS
    )
    async def lookup_at(request: Request, query: Annotated[list[str], Query()], at: str = "at") -> Response:
        """Answers at instants of their own: a table of requests (keys, and an instant in the column `at`) as JSON or
        Arrow; several queries make one wide table."""
        body = await read_body(request, limits)
        given = arrow_rows(body) if kind_of(request) == ARROW else requests_of(body, at)
        names = query[0] if len(query) == 1 else query
        return await answer_rows(
            request, await asked.in_time(lambda: service.engine.lookup_at(names, given, at=at)), limits
        )

    @app.get(
        "/answers", tags=["answers"], dependencies=[may("read")],
        responses={200: {"description": "Server-sent events.", "content": {"text/event-stream": {}}}},
    )  # fmt: skip
    async def follow(
        request: Request,
        query: Annotated[list[str] | None, Query()] = None,
        last_event_id: Annotated[str | None, Header()] = None,
        seconds: Annotated[float | None, Query(ge=0)] = None,
    ) -> StreamingResponse:
        """Answers as windows close and as keys enter and leave (EMIT CHANGES), as server-sent events; of some queries
        or of all. With `Last-Event-ID`, from there on; 410 if that is not kept any more, or no answer has
        had that id. It has no end, unless `seconds` says after how long: 0 gives what is kept."""
        for name in query or ():
            if service.incarnation(name) is None:
                raise NotFound(f"there is no query '{name}'")
        if service.answers.followers >= limits.followers:
            raise HTTPException(
                429, f"there are {limits.followers:,} subscriptions already", {"Retry-After": "10"}
            )
        cursor = None if last_event_id is None else Cursor.read(last_event_id)
        chosen = None if query is None else frozenset(query)
        told = subscription(service, cursor, chosen, seconds, request.scope.get(CONNECTION))
        return StreamingResponse(told, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    add_console(app, service, facts, history, may)
    return app


class _App(FastAPI):
    """The framework, behind shortcuts."""

    def __init__(self, pages: Pages, shortcut: Shortcut, pushes: PushShortcut, lifespan: Any):
        about = __doc__.partition("\n\n")[2]
        super().__init__(
            title="muntin",
            version=version("muntin"),
            description=about,
            responses=PROBLEMS,
            lifespan=lifespan,
            docs_url=None,  # the framework's pages load scripts from elsewhere
            redoc_url=None,
        )
        self._pages, self._shortcut, self._pushes = pages, shortcut, pushes
        self.body_for = shortcut.body_for

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            if fault := self._pages.fault(scope["method"], scope["headers"]):
                await (await refused(Request(scope), HTTPException(403, fault)))(scope, receive, send)
                return
            if await self._shortcut.answers(scope, send) or await self._pushes.takes(scope, receive, send):
                return
        await super().__call__(scope, receive, send)


async def _done(future: Future[Any]) -> Any:
    return await asyncio.wrap_future(future)


async def _register(
    service: Service, room: Room, name: str, sql: str, replace: bool, once: Once | None = None
) -> None:
    query_name_of(name)
    with room.taken({name}):
        await run_in_threadpool(_parsed, service, sql)
        words = "CREATE OR REPLACE QUERY" if replace else "REGISTER QUERY"
        await _done(service.execute(f"{words} {_quoted(name)} AS {sql}", once))


def _parsed(service: Service, sql: str) -> None:
    """An error that points into the text as it was given, not into a statement made of it."""
    parse_query(sql, service.engine.sources)


def _columns(schema: pa.Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
