"""The console in a real Chromium: a query is written, mended, watched, looked up, dropped; 10,000 are searched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytestmark = pytest.mark.browser

SECOND = 1_000_000
START = 1_769_860_800 * SECOND  # 2026-01-31 12:00
TYPO = "SELECT symbol, SUM(shares) AS volume FROM trades [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY symbl"


def push(service: Any, second: int, shares: int = 10) -> None:
    """An event of each of two symbols."""
    at = pa.array([START + second * SECOND] * 2, pa.timestamp("us"))
    service.push(
        "trades", pa.table({"ts": at, "symbol": ["AAPL", "IBM"], "price": [9.5, 1.5], "shares": [shares, 1]})
    ).result()


def test_a_query_from_its_typo_to_its_end(start: Any, open_page: Callable[..., Any]) -> None:
    service, address = start()
    push(service, 0)
    page = open_page()
    page.goto(address)
    assert page.url.endswith("/console/")
    page.get_by_role("link", name="Editor").click()

    # the caret is under the wrong word
    page.get_by_label("Name").fill("busy")
    page.get_by_label("Text of the query").fill(TYPO)
    trouble = page.get_by_role("alert")
    trouble.wait_for()
    assert "did you mean 'symbol'" in trouble.inner_text()
    shown = page.locator(".excerpt").inner_text().split("\n")
    assert shown[1].index("^") == shown[0].index("symbl")
    assert page.locator(".editor .wrong").inner_text() == "symbl"

    # mended, it is explained before anything is registered
    page.get_by_label("Text of the query").fill(
        TYPO.replace("symbl", "symbol") + " HAVING SUM(shares) > 5 EMIT CHANGES"
    )
    page.locator("#plan").wait_for()
    assert "because" in page.locator("#plan pre").inner_text()
    assert "busy" not in service.engine.queries
    page.get_by_role("button", name="Register").click()
    page.get_by_role("heading", name="busy", exact=True).wait_for()
    assert service.engine.queries["busy"].text.endswith("EMIT CHANGES")

    # it answers as events come
    page.locator("#answers .badge", has_text="live").wait_for()
    for second in range(1, 4):
        push(service, second)
    page.locator("#answers td", has_text="AAPL").first.wait_for()
    assert "enter" in page.locator("#answers tbody").inner_text()
    page.locator("#answers .plot canvas").first.wait_for()

    # a key is looked up
    page.locator("#key-symbol").fill("AAPL")
    page.get_by_role("button", name="Look up").click()
    (known,) = service.engine.lookup("busy", key="AAPL").to_pylist()
    assert known["volume"] > 5
    page.locator("#found td", has_text=str(known["volume"])).first.wait_for()
    page.locator("#key-symbol").fill("IBM")
    page.get_by_role("button", name="Look up").click()
    page.locator("#found", has_text="No row").wait_for()
    page.locator(".picture", has_text="shares with").wait_for()

    # an alert arrives while somebody looks
    page.get_by_role("link", name="Alerts").click()
    page.locator(".badge", has_text="live").wait_for()
    page.get_by_label("Kind").select_option("change")
    page.locator(".feed li", has_text="enters").wait_for()
    push(service, 30, shares=1)  # what made it busy has left the window
    push(service, 32, shares=1)
    page.locator(".feed li", has_text="leaves").wait_for()
    page.locator(".feed a", has_text="busy").first.click()

    # dropped, it is gone, and no other query is
    page.get_by_role("button", name="Drop").click()
    page.get_by_role("dialog").get_by_role("button", name="Drop it").click()
    page.get_by_role("heading", name="Queries", exact=True).wait_for()
    page.locator(".rows", has_text="total").wait_for()
    assert list(service.engine.queries) == ["total"]


def test_ten_thousand_queries(start: Any, open_page: Callable[..., Any]) -> None:
    service, address = start()
    service.engine.register_many(
        {
            f"rule_{number:05}": "SELECT symbol, SUM(shares) AS n FROM trades "
            f"[RANGE {1 + number % 50} MINUTES SLIDE 1 MINUTE] GROUP BY symbol HAVING SUM(shares) > {number}"
            for number in range(10_000)
        }
    )  # straight into the engine: what is on trial here is the page
    page = open_page(viewport={"width": 1280, "height": 800})
    page.goto(f"{address}/console/#/queries")
    page.get_by_text("10,001 queries").wait_for()
    assert page.locator(".rows .row").count() < 60  # only what is seen is in the page

    page.locator(".rows").evaluate("each => { each.scrollTop = each.scrollHeight }")
    page.locator(".rows", has_text="rule_09999").wait_for()
    page.locator(".rows").evaluate("each => { each.scrollTop = each.scrollHeight / 2 }")
    page.locator(".rows", has_text="rule_05003").wait_for()

    page.get_by_label("Search queries").fill("rule_07777")
    page.get_by_text("1 query", exact=True).wait_for()
    page.get_by_label("Search queries").fill("nothing like that")
    page.get_by_text("No query is like that").wait_for()
    page.get_by_label("Search queries").fill("> 7777")
    page.get_by_role("link", name="rule_07777").click()
    page.get_by_role("heading", name="rule_07777", exact=True).wait_for()

    page.get_by_role("link", name="Sharing").click()
    page.locator(".picture svg", has_text="10,001 queries read").wait_for()
    assert page.locator(".picture [data-node]").count() < 40


def test_a_server_with_tokens(start: Any, open_page: Callable[..., Any], tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("read read-read-read-read\nadmin admin-admin-admin-admin\n")
    tokens.chmod(0o600)
    service, address = start(tokens=tokens)
    page = open_page()
    page.goto(f"{address}/console/#/queries")
    page.locator("#token").fill("not-a-token-of-this-server")
    page.get_by_role("button", name="Go on").click()
    page.get_by_text("does not know that token").wait_for()
    assert page.locator(".rows", has_text="total").count() == 0
    page.locator("#token").fill("read-read-read-read")
    page.get_by_role("button", name="Go on").click()
    page.locator(".rows", has_text="total").wait_for()
    assert page.evaluate("sessionStorage.length") == 1
    assert page.evaluate("localStorage.length") == 0

    # a token that may only read changes nothing
    page.goto(f"{address}/console/#/queries/total")
    page.get_by_role("button", name="Drop").click()
    page.get_by_role("dialog").get_by_role("button", name="Drop it").click()
    page.locator(".toast.bad", has_text="role 'write'").wait_for()
    assert "total" in service.engine.queries


def test_names_and_values_are_text(start: Any, open_page: Callable[..., Any]) -> None:
    """What others have named and pushed is shown as it is, wherever it stands."""
    service, address = start()
    evil = "<img src=x onerror=alert(1)>"
    service.execute(
        f'REGISTER QUERY "{evil}" AS SELECT symbol, SUM(shares) AS n FROM trades '
        "[RANGE 9 SECONDS SLIDE 1 SECOND] GROUP BY symbol"
    ).result()
    at = pa.array([START, START + 3 * SECOND], pa.timestamp("us"))
    service.push(
        "trades", pa.table({"ts": at, "symbol": [evil] * 2, "price": [1.0] * 2, "shares": [1] * 2})
    ).result()
    page = open_page()
    page.on("dialog", lambda _: pytest.fail("a script ran"))
    for place in ("queries", "sharing", "alerts", "queries/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E"):
        page.goto(f"{address}/console/#/{place}")
        page.get_by_text("<img src=x").first.wait_for(state="attached")
        assert page.locator("img").count() == 0


def test_tables(start: Any, open_page: Callable[..., Any]) -> None:
    service, address = start()
    page = open_page()
    page.goto(f"{address}/console/#/tables")
    page.get_by_text("No rows").wait_for()
    page.get_by_label("symbol (key)").fill("O'Neil")
    page.get_by_label("most").fill("12")
    page.get_by_role("button", name="Insert").click()
    page.locator("td", has_text="O'Neil").wait_for()
    assert service.engine.table_rows("limits")[1].to_pylist() == [{"symbol": "O'Neil", "most": 12}]
    page.get_by_role("button", name="Delete the row").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete it").click()
    page.get_by_text("No rows").wait_for()
    assert service.engine.table_rows("limits")[0] == 0


def test_dark_and_light(start: Any, open_page: Callable[..., Any]) -> None:
    _, address = start()
    page = open_page(color_scheme="dark")
    page.goto(f"{address}/console/")

    def light() -> int:
        """How bright the page is."""
        told = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, told.removeprefix("rgb(").removesuffix(")").split(",")))

    assert light() < 150
    page.get_by_role("button", name="Light theme").click()
    assert light() > 600
    page.reload()
    page.get_by_role("button", name="Dark theme").wait_for()
    assert light() > 600  # what was chosen is kept


@pytest.mark.parametrize(
    "place", ["overview", "queries", "queries/total", "sharing", "alerts", "editor", "tables", "streams"]
)
def test_a_phone(start: Any, open_page: Callable[..., Any], place: str) -> None:
    """Nothing is wider than the screen; what is, scrolls by itself."""
    service, address = start()
    push(service, 0)
    push(service, 9)
    page = open_page(viewport={"width": 360, "height": 740})
    page.goto(f"{address}/console/#/{place}")
    page.get_by_role("heading").first.wait_for()
    page.wait_for_timeout(1_000)  # until what is fetched is there, too
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
