"""Takes the screenshots of the console: `python docs/screenshots.py`, with the extras serve and browser, and Chromium.

A server with the demo's trades, payments under fraud rules, windows of all lengths and approximate aggregates runs in
this process until its charts have something to show. `--serve` leaves it running, to be looked at.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import uvicorn
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from muntin.demo.trades import SUBSCRIPTIONS, trade_queries
from muntin.serve.access import Limits, Tokens
from muntin.serve.http import make_app
from muntin.serve.service import Service, Settings
from muntin.testing import TradeStream

OUT = Path(__file__).parent / "console"
RATE = 2_000.0  # trades a second
CATEGORIES = ("fuel", "groceries", "travel", "jewellery", "games", "cash")
COUNTRIES = ("FR", "DE", "ES", "PL", "BR", "NG", "US")
FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
]  # fmt: skip


def script() -> str:
    """Streams, a table of subscriptions, and some 900 queries."""
    trades = TradeStream(rate=RATE).create_statement
    payments = (
        "CREATE STREAM payments (ts TIMESTAMP, account BIGINT, category VARCHAR, country VARCHAR, amount DOUBLE) "
        "TIMESTAMP BY ts DELAY 2 SECONDS"
    )
    named = {**trade_queries(700, 7, RATE), **fraud_rules(160), **approximate()}
    registered = [f"REGISTER QUERY {name} AS {text}" for name, text in named.items()]
    return ";\n".join([trades, payments, SUBSCRIPTIONS, *registered])


def fraud_rules(many: int) -> dict[str, str]:
    """Rules over payments, each with a filter and a threshold of its own."""
    random, named = Random(7), dict[str, str]()
    for number in range(many):
        minutes = random.choice((1, 5, 10, 30, 60))
        category, country, least = (
            random.choice(CATEGORIES),
            random.choice(COUNTRIES),
            random.randrange(2_000, 9_000, 100),
        )
        where = f"category = '{category}'" + (f" AND country = '{country}'" if number % 4 else "")
        named[f"fraud_{number:03}"] = (
            "SELECT account, SUM(amount) AS spent, COUNT(*) AS payments FROM payments "
            f"[RANGE {minutes} MINUTES SLIDE 5 SECONDS] WHERE {where} "
            f"GROUP BY account HAVING SUM(amount) > {least} EMIT CHANGES"
        )
    return named


def approximate() -> dict[str, str]:
    """Quantiles and counts with a promised error."""
    return {
        "price_p99": "SELECT APPROX_QUANTILE(price, 0.99, 0.005) AS p99, APPROX_QUANTILE(price, 0.5, 0.005) AS median "
        "FROM trades [RANGE 1 MINUTE SLIDE 2 SECONDS]",
        "jewellery_seen": "SELECT APPROX_COUNT(category = 'jewellery', 0.02) AS bought "
        "FROM payments [RANGE 1 MINUTE SLIDE 2 SECONDS]",
        "exchange_volume": "SELECT exchange, SUM(shares) AS volume, AVG(price) AS price "
        "FROM trades [RANGE 1 MINUTE SLIDE 2 SECONDS] GROUP BY exchange",
    }  # fmt: skip


def payments(random: np.random.Generator, start: int, many: int) -> pa.Table:
    """Payments of a second; few accounts spend most."""
    account = np.minimum(random.zipf(1.4, many), 5_000)
    return pa.table(
        {
            "ts": pa.array(np.sort(start + random.integers(0, 1_000_000, many)), pa.timestamp("us")),
            "account": account,
            "category": random.choice(CATEGORIES, many, p=(0.2, 0.4, 0.1, 0.05, 0.15, 0.1)),
            "country": random.choice(COUNTRIES, many),
            "amount": np.round(random.lognormal(3.2, 1.0, many), 2),
        }
    )


def feed(service: Service, stop: threading.Event, past: int) -> None:
    """Trades and payments as of now, after some seconds of the past at once."""
    start = time.time_ns() // 1_000 - past * 1_000_000
    random, paid = np.random.default_rng(7), start
    for batch in TradeStream(seed=7, rate=RATE, start=start, late=2e-5).batches(None, int(RATE) // 2):
        reached = batch.column("ts").cast(pa.int64())[-1].as_py()
        while reached > time.time_ns() // 1_000 and not stop.is_set():
            time.sleep(0.05)
        if stop.is_set():
            return
        service.push("trades", pa.Table.from_batches([batch])).result()
        while paid < reached - 1_000_000:
            busy = int(300 * (1.2 + np.sin(paid / 20_000_000)))  # payments come and go
            service.push("payments", payments(random, paid, busy)).result()
            paid += 1_000_000


@contextmanager
def served(past: int) -> Iterator[tuple[Service, str]]:
    """A server in this process, with events coming in."""
    folder, stop = Path(tempfile.mkdtemp()), threading.Event()
    service = Service(folder, script(), Settings(checkpoint_seconds=1e9))
    table = pa.table(
        {
            "id": [1, 2, 3, 4],
            "symbol": ["CQAA", "OPHZ", "CQAA", "AAAA"],
            "span": pa.array([60_000_000, 300_000_000, 600_000_000, 60_000_000], pa.duration("us")),
            "floor": [200_000, 500_000, 2_000_000, 50_000],
        }
    )
    service.load("subscriptions", table).result()
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(
                make_app(service, Tokens(None), Limits()), log_level="warning", timeout_graceful_shutdown=1
            )
        )
        threads = [
            threading.Thread(target=server.run, kwargs={"sockets": [opened]}),
            threading.Thread(target=feed, args=(service, stop, past)),
        ]
        for each in threads:
            each.start()
        try:
            yield service, f"http://127.0.0.1:{opened.getsockname()[1]}"
        finally:
            stop.set()
            server.should_exit = True
            for each in threads:
                each.join()
            service.stop(is_kept=False)
            shutil.rmtree(folder)


def shoot(page: Page, address: str, suffix: str) -> None:
    """All pages that the docs show."""

    def taken(name: str, hash: str, wait: float = 2.5) -> None:
        page.goto(f"{address}/console/#/{hash}")
        page.wait_for_timeout(wait * 1000)
        if name == "alerts":
            page.get_by_label("Kind").select_option("change")
            page.locator(".feed li", has_text="enters").first.wait_for()
        if name == "editor":
            page.fill("#name", "busy_symbols")
            page.fill("#sql", TYPO)
            page.wait_for_selector(".trouble")
            page.wait_for_timeout(300)
        page.screenshot(path=OUT / f"{name}-{suffix}.png")
        if name == "sharing":
            page.locator(".picture svg").screenshot(path=OUT / f"drawing-{suffix}.png")

    taken("overview", "overview")
    taken("sharing", "sharing")
    taken("queries", "queries")
    taken("query", "queries/exchange_volume", 9)
    taken("approximate", "queries/jewellery_seen", 9)
    taken("alerts", "alerts", 8)
    taken("editor", "editor")


def slim() -> None:
    """Pictures of 256 colours: nobody sees the difference, and a repository keeps them for ever."""
    for path in OUT.glob("*.png"):
        Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


TYPO = """SELECT symbol, SUM(shares) AS volume
FROM trades [RANGE 5 MINUTES SLIDE 10 SECONDS]
GROUP BY symbl
HAVING SUM(shares) > 1000000"""


def main() -> None:
    """Take them all, or leave the server running."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true", help="only serve, until Ctrl-C")
    parser.add_argument("--seconds", type=int, default=90, help="how long it runs before pictures are taken")
    given = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with served(past=60) as (_, address):
        print(address, flush=True)
        if given.serve:
            threading.Event().wait()
        if chromium is None:
            raise SystemExit("there is no Chromium on the path")
        time.sleep(given.seconds)
        OUT.mkdir(exist_ok=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            for scheme in ("light", "dark"):
                context = browser.new_context(color_scheme=scheme, viewport={"width": 1360, "height": 860})  # type: ignore[arg-type]
                shoot(context.new_page(), address, scheme)
                context.close()
            phone = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark")
            page = phone.new_page()
            page.goto(f"{address}/console/#/overview")
            page.wait_for_timeout(2500)
            page.screenshot(path=OUT / "phone.png")
            browser.close()
        slim()


if __name__ == "__main__":
    main()
