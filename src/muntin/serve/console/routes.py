"""The addresses of the console: its files, and the data that its pages draw.

Files are read when the server starts, so that a path can name nothing else. They hold no data, and need no token; all
data does. Pages may run scripts of this server alone, and talk to it alone.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from muntin.errors import NotFound
from muntin.plan.sharing_style import STYLE
from muntin.serve.console.history import SECONDS, History
from muntin.serve.json_text import json_rows
from muntin.serve.query_facts import QueryFacts
from muntin.serve.service import Service

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "": "text/plain; charset=utf-8",
}


def console_files() -> dict[str, bytes]:
    """All files by their paths below `/console/`."""

    def found(folder: Traversable, prefix: str) -> dict[str, bytes]:
        some: dict[str, bytes] = {}
        for each in folder.iterdir():
            if each.is_dir():
                some |= found(each, f"{prefix}{each.name}/")
            else:
                some[prefix + each.name] = each.read_bytes()
        return some

    return {**found(files("muntin.serve.console") / "static", ""), "sharing.css": STYLE.encode()}


def add_console(
    app: FastAPI, service: Service, facts: QueryFacts, history: History, may: Callable[[str], Any]
) -> None:
    """Give an app the console and its data."""
    held = console_files()
    tags = {path: f'"{sha256(body).hexdigest()[:24]}"' for path, body in held.items()}

    @app.get("/", include_in_schema=False)
    @app.get("/console", include_in_schema=False)
    def home() -> RedirectResponse:
        return RedirectResponse("console/")

    @app.get("/console/{path:path}", include_in_schema=False)
    def file(path: str, request: Request) -> Response:
        name = path or "index.html"
        if name not in held:
            raise NotFound(f"the console has no file '{name[:100]}'")
        headers = {
            "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache", "ETag": tags[name],
        }  # fmt: skip
        if request.headers.get("if-none-match") == tags[name]:
            return Response(status_code=304, headers=headers)
        kind = _TYPES[name.rpartition(".")[2] if "." in name else ""]
        return Response(held[name], media_type=kind, headers=headers)

    @app.get("/overview", tags=["console"], dependencies=[may("read")])
    def overview(since: float = 0.0) -> dict[str, Any]:
        """Counters of the last quarter of an hour, a sample every two seconds; those after an instant, in seconds since
        1970."""
        return {"seconds": SECONDS, "samples": history.samples(since)}

    @app.get("/sharing", tags=["console"], dependencies=[may("read")])
    def sharing(query: str | None = None) -> dict[str, Any]:
        """Which queries read which structures over which stores, by what rule, in how many bytes; all, or what one
        query reads."""
        return facts.sharing(query).as_json()

    @app.get("/sharing.svg", tags=["console"], dependencies=[may("read")], response_class=Response)
    def drawing(
        query: str | None = None, is_styled: Annotated[bool, Query(alias="style")] = True
    ) -> Response:
        """The same as a drawing; without its style for pages that have it."""
        told = facts.sharing(query).svg(is_styled)
        return Response(
            told, media_type="image/svg+xml", headers={"Content-Security-Policy": POLICY_OF_DRAWING}
        )

    @app.get("/tables/{name}", tags=["tables"], dependencies=[may("read")])
    async def rows(
        name: str,
        offset: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    ) -> dict[str, Any]:
        """Rows of a table in the order they were inserted, a page at a time."""
        total, found = await run_in_threadpool(service.engine.table_rows, name, offset, limit)
        return {"total": total, "offset": offset, "rows": json_rows(found)}

    @app.get("/answers/latest", tags=["answers"], dependencies=[may("read")])
    def latest(query: str | None = None, limit: Annotated[int, Query(ge=1, le=1_000)] = 100) -> Response:
        """The last answers that are kept, the oldest first; of one query, as far as the last portions have any."""
        told = service.answers.latest(limit, query)
        return Response(f"[{','.join(told)}]", media_type="application/json")


POLICY_OF_DRAWING = (
    "default-src 'none'; style-src 'unsafe-inline'"  # a drawing has its style in it, and no script
)
