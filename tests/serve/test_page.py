"""The live page in a real browser: it moves, takes queries, shows mistakes, and finds a server again."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.serve.server import Server
from tests.serve.conftest import START, TOKEN, TOP, Clock, Fed, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
TOML = '[[query]]\nname = "{name}"\nk = 2\nscore = "{score}"\nsize = "10 seconds"\n'
NASTY = '<img src=x onerror="document.title=1">'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium; install it: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(20_000)
    opened = context.new_page()
    failures: list[str] = []
    opened.on("pageerror", lambda error: failures.append(str(error)))
    yield opened
    context.close()
    assert failures == []


@pytest.fixture
def server(stream: Fed) -> Iterator[Server]:
    made = Server(stream, port=0, token=TOKEN)
    with made.running():
        yield made


def board(page: Page, name: str) -> Any:
    return page.locator(".board").filter(has=page.get_by_role("heading", name=name, exact=True))


def ids(page: Page, name: str = "top") -> list[str]:
    return [text or "" for text in board(page, name).locator(".id b").all_text_contents()]


def feed_until(stream: Fed, at: int, *symbols: str) -> None:
    """Let a window of ten seconds pass in which these symbols are ranked so."""
    stream.feed(*((at + 1, symbol, 100.0 - rank) for rank, symbol in enumerate(symbols)), (at + 10, "next", 0.0))


def test_the_board_moves(page: Page, server: Server, stream: Fed) -> None:
    page.goto(server.address)
    page.get_by_text("The first window has not closed yet.").wait_for()
    feed_until(stream, 0, "ANN", "BOB", "CAT")
    eventually(lambda: ids(page) == ["ANN", "BOB", "CAT"])
    feed_until(stream, 10, "CAT", "ANN", "DAN")
    eventually(lambda: ids(page) == ["CAT", "ANN", "DAN"])
    moves = board(page, "top").locator(".move")
    assert moves.all_inner_texts() == ["▲2", "▼1", "new"]
    assert moves.first.get_attribute("aria-label") == "up 2"
    assert board(page, "top").locator(".chip").inner_text() == "exact"
    assert board(page, "top").locator(".threshold").inner_text() == "98 at rank 3"
    assert board(page, "top").locator("footer .spark path").count() == 2
    assert page.locator("[data-number=kept] dd").inner_text().split(" ")[0] != "0"
    assert page.locator("#live").inner_text() == "live"


def test_a_query_is_registered_in_the_form_and_removed(page: Page, server: Server, stream: Fed) -> None:
    page.goto(server.address_with_token)
    page.wait_for_function("!location.hash")  # the token does not stay in the address
    page.get_by_role("button", name="Add a query").click()
    page.get_by_role("radio", name="TOML").check()
    text = page.get_by_label("The query")
    text.fill(TOML.format(name="mine", score="price * / 2"))
    problem = page.locator("#problem")
    page.get_by_role("button", name="Register").click()
    eventually(lambda: "something is missing at '/'" in problem.inner_text())
    shown = problem.inner_text().splitlines()
    assert shown[-2].index("/") == shown[-1].index("^")
    assert text.get_attribute("aria-invalid") == "true"
    text.fill(TOML.format(name="mine", score="price * 2"))
    eventually(lambda: "mine: best 2" in problem.inner_text())  # it is checked while one writes
    page.get_by_role("button", name="Register").click()
    board(page, "mine").wait_for()
    feed_until(stream, 20, "ANN", "BOB", "CAT")
    feed_until(stream, 30, "BOB", "ANN")
    eventually(lambda: ids(page, "mine") == ["BOB", "ANN"])
    page.get_by_role("button", name="Pause mine").click()
    eventually(lambda: board(page, "mine").locator(".chip").inner_text() == "paused")
    page.get_by_role("button", name="Remove mine").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    board(page, "mine").wait_for(state="detached")
    eventually(lambda: page.locator("#said").inner_text() == "removed mine")
    assert [query.name for query in stream.monitor.queries] == ["top"]


def test_other_languages_and_a_wrong_token(page: Page, server: Server, stream: Fed) -> None:
    page.goto(server.address)
    page.get_by_role("button", name="Add a query").click()
    page.get_by_role("radio", name="SQL", exact=True).check()
    page.get_by_label("Token").first.fill("not the token at all")
    page.get_by_role("button", name="Register").click()
    eventually(lambda: "the token is missing or wrong" in page.locator("#problem").inner_text())
    assert len(stream.monitor.queries) == 1
    page.get_by_label("Token").first.fill(TOKEN)
    page.get_by_role("button", name="Register").click()  # the sample that the page offers
    board(page, "my_query").wait_for()
    page.get_by_role("button", name="Add a query").click()
    page.get_by_role("radio", name="RSP-QL").check()
    text = page.get_by_label("The query")
    text.fill(text.input_value().replace("my_query", "other").replace("LIMIT 5", "LIMIT LIMIT"))
    page.get_by_role("button", name="Register").click()
    eventually(lambda: page.locator("#problem").inner_text().split("\n")[-1].strip() == "^")
    text.fill(text.input_value().replace("LIMIT LIMIT", "LIMIT 5"))
    page.get_by_role("button", name="Register").click()
    board(page, "other").wait_for()


def test_pausing_without_the_token_asks_for_it_and_nothing_else(page: Page, server: Server, stream: Fed) -> None:
    page.goto(server.address)
    page.get_by_role("button", name="Pause top").click()
    asked = page.get_by_role("dialog")
    assert asked.get_by_role("heading").inner_text() == "Pause “top”?"
    assert "Changes need the server's token. It was printed when the server was started" in asked.inner_text()
    assert page.get_by_label("The query").is_hidden(), "no form of a new query"
    asked.get_by_role("button", name="Pause").click()
    eventually(lambda: "the token is missing or wrong" in asked.inner_text())
    asked.get_by_label("Token").fill("not the token at all")
    asked.get_by_role("button", name="Pause").click()
    eventually(lambda: "the token is missing or wrong" in asked.inner_text())
    asked.get_by_label("Token").fill(TOKEN)
    asked.get_by_role("button", name="Pause").click()
    asked.wait_for(state="hidden")
    eventually(lambda: board(page, "top").locator(".chip").inner_text() == "paused")
    assert [query.name for query in stream.monitor.queries] == ["top"]
    page.get_by_role("button", name="Resume top").click()  # the token is known now
    eventually(lambda: board(page, "top").locator(".chip").inner_text() != "paused")
    page.evaluate("sessionStorage.setItem('skyband-token', 'of a server that was started anew')")
    page.get_by_role("button", name="Pause top").click()
    eventually(lambda: "the token is missing or wrong" in asked.inner_text())
    assert asked.get_by_label("Token").is_visible()
    assert [query.name for query in stream.monitor.queries] == ["top"]


def test_a_set_is_shown_without_ranks(page: Page) -> None:
    likes = {"A": 9.0, "B": 8.0, "C": 1.0}
    query = sb.Query(
        "liked", k="all", score="likes", where="likes > 5", window=sb.Window("20 seconds", slide="10 seconds"),
        join=sb.Join("likes"),
    )  # fmt: skip
    stream = Fed([query], services={"likes": lambda ids: {name: likes[name] for name in ids}})
    try:
        server = Server(stream, port=0, token=TOKEN)
        with server.running():
            page.goto(server.address)
            stream.feed((1, "B", 1.0), (2, "C", 1.0), (11, "A", 1.0), (21, "C", 1.0))
            eventually(lambda: ids(page, "liked") == ["A", "B"])
            found = board(page, "liked")
            assert found.locator(".rank").all_text_contents() == ["", ""]
            assert found.locator(".move").all_text_contents() == ["new", ""]
            assert (found.locator(".what").text_content() or "").startswith("all that pass")
            assert not found.locator(".threshold").is_visible()
    finally:
        stream.close()


def test_text_from_outside_is_text(page: Page) -> None:
    stream = Fed([sb.Query(NASTY, k=2, score="price", window=sb.Window("10 seconds"), select=("venue",))])
    server = Server(stream, port=0, token=TOKEN)
    try:
        with server.running():
            page.goto(server.address)
            stream.feed((1, NASTY, 5.0), (11, "x", 1.0))
            eventually(lambda: ids(page, NASTY) == [NASTY])
            assert page.locator("img").count() == 0
            assert page.title() == "Skyband"
    finally:
        stream.close()


def test_the_page_finds_a_server_again(page: Page, stream: Fed) -> None:
    first = Server(stream, port=0, token=TOKEN)
    with first.running():
        page.goto(first.address)
        feed_until(stream, 0, "ANN", "BOB", "CAT")
        eventually(lambda: ids(page) == ["ANN", "BOB", "CAT"])
    eventually(lambda: page.locator("#live").inner_text() == "reconnecting")
    other = Fed([TOP, sb.Query("since then", k=1, score="price", window=sb.Window("10 seconds"))])
    try:
        with Server(other, port=first.port, token=TOKEN).running():
            feed_until(other, 40, "EVE", "FAY", "GUS")
            eventually(lambda: ids(page) == ["EVE", "FAY", "GUS"])
            assert page.locator("#live").inner_text() == "live"
            assert ids(page, "since then") == ["EVE"]
    finally:
        other.close()


def test_a_source_that_stops_and_a_stream_that_dies_can_be_seen(page: Page, stream: Fed) -> None:
    clock = Clock()
    server = Server(stream, port=0, token=TOKEN, clock=clock)
    live, speed, lag = (page.locator(f"{name}") for name in ("#live", "[data-number=speed] dd", "[data-number=lag] dd"))
    with server.running():
        page.goto(server.address)
        eventually(lambda: live.inner_text() == "no events yet")
        feed_until(stream, 0, "ANN", "BOB", "CAT")
        eventually(lambda: live.inner_text() == "live")
        colour = live.evaluate("node => getComputedStyle(node.firstElementChild).backgroundColor")
        clock.ahead = 45.0
        eventually(lambda: re.fullmatch("no events for (4[5-9]|5\\d) s", live.inner_text()))
        assert live.evaluate("node => getComputedStyle(node.firstElementChild).backgroundColor") != colour
        assert speed.inner_text() == "0"
        clock.ahead = 600.0
        eventually(lambda: live.inner_text() == "no events for 10 min")
        feed_until(stream, 10, "ANN", "BOB", "CAT")
        eventually(lambda: live.inner_text() == "live")
        stream.queue.put(pa.record_batch({"x": [1]}))  # the stream fails
        eventually(lambda: live.inner_text() == "the stream has failed; the log says why")
        assert speed.evaluate("node => getComputedStyle(node).opacity") == "0.45"
        assert lag.inner_text() != ""
    eventually(lambda: live.inner_text() == "reconnecting")


def test_a_batch_that_was_mostly_rejected_can_be_seen(page: Page, server: Server, stream: Fed) -> None:
    years = 10 * 365 * 86_400.0
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(server.address)
    feed_until(stream, 0, "ANN", "BOB", "CAT")
    eventually(lambda: ids(page) == ["ANN", "BOB", "CAT"])
    said, why = page.locator("#degraded"), page.locator("[data-number=rejected] small")
    assert said.is_hidden()
    assert why.inner_text() == "no score, time or id"
    stream.feed((years, "X", 9.0), (years, "Y", 9.0), (12, "E", 2.0))
    said.wait_for()
    assert "2 of the 3 rows of the last batch were rejected" in said.inner_text()
    assert why.inner_text() == "2 ahead of the clock"
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    stream.feed((13, "F", 3.0))
    said.wait_for(state="hidden")


def test_an_answer_says_how_old_it_is(page: Page) -> None:
    """Its window ended just now; then nothing comes any more."""
    clock, stream = Clock(), Fed()
    clock.ahead = (START - datetime.now(UTC)).total_seconds()
    try:
        server = Server(stream, port=0, token=TOKEN, clock=clock)
        with server.running():
            page.goto(server.address)
            feed_until(stream, 0, "ANN", "BOB", "CAT")
            footer = board(page, "top").locator("time")
            eventually(lambda: footer.inner_text() == "to 09:30:10")
            clock.ahead += 600.0
            eventually(lambda: re.fullmatch(r"to 09:30:10, 1\d min ago", footer.inner_text()))
            lag = page.locator("[data-number=lag] dd")
            eventually(lambda: re.fullmatch(r"1\d min", lag.inner_text()))
    finally:
        stream.close()


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (360, "light"), (1920, "dark"), (2560, "light")])
def test_it_fits_and_can_be_read(page: Page, server: Server, stream: Fed, width: int, scheme: Any) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.goto(server.address)
    feed_until(stream, 0, "A NAME THAT IS MUCH LONGER THAN ANY OTHER NAME", "BOB", "CAT")
    eventually(lambda: len(ids(page)) == 3)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Add").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("Escape")
    for selector in ("h2", ".what", ".how", ".id", ".score", ".age", ".move", ".chip", "footer .threshold", "dt", "dd"):
        assert contrast(page, selector) >= 4.5, selector


def contrast(page: Page, selector: str) -> float:
    """Return the contrast of the first such element's text to what lies behind it, as WCAG defines it."""
    return float(page.locator(f"main {selector}, dl {selector}").first.evaluate(
        """node => {
          const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
          const rgb = (colors) => {
            canvas.clearRect(0, 0, 1, 1);
            for (const color of colors) { canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); }
            return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
          };
          const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
          const light = (color) => color.map((c) => linear(c / 255))
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
          const behind = [];
          for (let at = node; at; at = at.parentElement) behind.unshift(getComputedStyle(at).backgroundColor);
          const [one, two] = [light(rgb([...behind, getComputedStyle(node).color])), light(rgb(behind))];
          return (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
        }"""
    ))  # fmt: skip


def test_by_keyboard_alone(page: Page, server: Server) -> None:
    page.goto(server.address_with_token)
    board(page, "top").wait_for()
    reached = []
    for _ in range(4):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.innerText")
        )
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert reached == ["Theme: as the system", "+ Add a query", "Pause top", "Remove top"]
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Remove top"
