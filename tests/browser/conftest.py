"""A server in this process, and a real Chromium to look at it with."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
SCRIPT = """
CREATE STREAM trades (ts TIMESTAMP, symbol VARCHAR, price DOUBLE, shares BIGINT) TIMESTAMP BY ts;
CREATE TABLE limits (symbol VARCHAR, most BIGINT, PRIMARY KEY (symbol));
REGISTER QUERY total AS SELECT SUM(shares) AS shares FROM trades [RANGE 1 MINUTE SLIDE 1 SECOND]
"""
Start = Callable[..., tuple[Any, str]]


@contextmanager
def served(folder: Path, script: str, tokens: Path | None) -> Iterator[tuple[Any, str]]:
    """A service, and the address of its port."""
    import uvicorn

    from muntin.serve.access import Limits, Tokens
    from muntin.serve.http import make_app
    from muntin.serve.service import Service, Settings

    service = Service(folder, script, Settings(checkpoint_seconds=1e9))
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        app = make_app(service, Tokens(tokens), Limits())
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
        thread.start()
        try:
            yield service, f"http://127.0.0.1:{opened.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
            service.stop(is_kept=False)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a server with a script and perhaps tokens; it ends with the test."""
    with ExitStack() as running:

        def started(script: str = SCRIPT, tokens: Path | None = None) -> tuple[Any, str]:
            return running.enter_context(served(tmp_path / "data", script, tokens))

        (tmp_path / "data").mkdir()
        yield started


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium, or whatever is called so."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install '.[browser]'"
    )
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("there is no Chromium on the path")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """A page of its own, in which nothing may fail unseen: no error of a script, nothing that the policy blocks."""
    contexts, wrong = [], list[str]()

    def opened(**options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(30_000)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "console",
            lambda told: wrong.append(told.text) if "Content Security Policy" in told.text else None,
        )
        return page

    yield opened
    for each in contexts:
        each.close()
    assert not wrong
