"""No one gets in: tokens, foreign names and sites, sizes, limits, and what error replies do not say."""

from __future__ import annotations

import io
import json
import re
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import skyband as sb
from skyband.errors import InputError, QueryError
from skyband.events.batch import StreamColumns
from skyband.serve.guard import POLICY
from skyband.serve.server import Server, run
from skyband.serve.texts import LANGUAGES, Limits, Reading
from tests.serve.conftest import MINE, TOKEN, TOP, Fed, eventually, served

CHANGES = [
    ("POST", "/api/queries", MINE),
    ("POST", "/api/check", MINE),
    ("PATCH", "/api/queries/top", {"state": "paused"}),
    ("DELETE", "/api/queries/top", None),
    ("PUT", "/api/queries/top", None),
    ("OPTIONS", "/api/queries", None),
]


def unchanged(client: httpx2.Client) -> bool:
    found = client.get("/api/queries").json()["queries"]
    return [(entry["name"], entry["state"]) for entry in found] == [("top", "active")]


@pytest.mark.parametrize(
    "token", [None, "", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Bearer x{TOKEN}"]
)
def test_without_the_token_nothing_changes(client: httpx2.Client, token: str | None) -> None:
    bare = httpx2.Client(base_url=client.base_url, trust_env=False)
    for method, path, body in CHANGES:
        reply = bare.request(method, path, json=body, headers={} if token is None else {"authorization": token})
        assert reply.status_code == 401, path
        assert reply.headers["www-authenticate"].startswith("Bearer")
        assert TOKEN not in reply.text
    assert unchanged(client)


def test_a_token_twice_is_no_token(client: httpx2.Client) -> None:
    bare = httpx2.Client(base_url=client.base_url, trust_env=False)
    twice = [("authorization", "Bearer wrong"), ("authorization", f"Bearer {TOKEN}")]
    assert bare.delete("/api/queries/top", headers=twice).status_code == 401
    assert unchanged(client)


def test_other_names_are_refused(client: httpx2.Client) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "evil@127.0.0.1", "127.0.0.1, evil.example", "", "[::2]:80"):
        for path in ("/", "/api/queries", "/api/feed", "/metrics"):
            assert client.get(path, headers={"host": host}).status_code == 421
        assert client.delete("/api/queries/top", headers={"host": host}).status_code == 421
    assert unchanged(client)


def test_other_sites_are_refused(client: httpx2.Client) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "file://", "http://[::1"):
        assert client.get("/api/queries", headers={"origin": origin}).status_code == 403
        assert client.post("/api/queries", json=MINE, headers={"origin": origin}).status_code == 403
    assert unchanged(client)


def test_our_own_page_is_let_in(client: httpx2.Client) -> None:
    own = {"origin": str(client.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
    assert client.get("/api/queries", headers=own).status_code == 200
    assert client.post("/api/check", json=MINE, headers=own).status_code == 200
    assert client.get("/", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}).status_code == 200
    assert client.get("/api/feed", headers={"sec-fetch-site": "cross-site"}).status_code == 403


def test_a_name_can_be_allowed(stream: Fed) -> None:
    with served(stream, allow_hosts=["wall.example"]) as client:
        assert client.get("/healthz", headers={"host": "wall.example"}).status_code == 200
        assert client.get("/healthz", headers={"host": "WALL.example:443"}).status_code == 200
        assert client.get("/healthz", headers={"host": "other.example"}).status_code == 421


ANYWHERE = "0.0.0.0"


@pytest.mark.parametrize(("host", "here"), [(ANYWHERE, "127.0.0.1"), ("::", "[::1]")])
def test_the_printed_addresses_of_an_open_server_work(stream: Fed, host: str, here: str) -> None:
    try:
        server = Server(stream, host=host, port=0, token=TOKEN)
    except InputError:
        pytest.skip("this machine has no IPv6")
    said = Console(file=io.StringIO(), width=200)
    with patch.object(server, "run"):
        run(server, said)
    text = cast(io.StringIO, said.file).getvalue()
    printed = re.findall(r"http://[^\s,]+", text)
    assert printed[0] == f"http://{here}:{server.port}/"
    assert ("Others can reach this server" in text, len(printed)) == (True, 1 + (server.outer_address is not None))
    with server.running():
        for address in printed:
            eventually(partial(_answers, address), 20)
            page = {"origin": address.rstrip("/"), "authorization": f"Bearer {TOKEN}"}
            assert httpx2.post(f"{address}api/check", json=MINE, headers=page, trust_env=False).status_code == 200


def _answers(address: str, **headers: str) -> bool:
    try:
        return httpx2.get(address, headers=headers, trust_env=False).status_code == 200
    except httpx2.TransportError:
        return False


def test_an_open_server_answers_to_addresses_and_still_to_no_foreign_name(stream: Fed) -> None:
    with served(stream, host=ANYWHERE, allow_hosts=["wall.example:8765"]) as client:
        for host in ("10.1.2.3:8765", "192.168.0.9", "[2001:db8::7]:8765", "localhost", "wall.example"):
            assert client.get("/healthz", headers={"host": host}).status_code == 200, host
        for host in ("evil.example", "10.1.2.3.evil.example", "0x7f.1", "2130706433", "127.1", "evil@10.1.2.3", ""):
            assert client.get("/healthz", headers={"host": host}).status_code == 421, host
        for origin in ("http://10.1.2.4:8765", "http://evil.example"):
            assert client.get("/api/queries", headers={"host": "10.1.2.3", "origin": origin}).status_code == 403


def test_a_server_on_loopback_answers_to_loopback_alone(client: httpx2.Client) -> None:
    assert client.get("/healthz", headers={"host": "10.1.2.3:8765"}).status_code == 421


def test_the_name_that_it_listens_on_is_one_of_its_names(stream: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.socket.bind
    monkeypatch.setattr(socket.socket, "bind", lambda self, at: real(self, ("127.0.0.1", at[1])))
    server = Server(stream, host="wall", port=0, token=TOKEN)
    assert server.address == f"http://wall:{server.port}/"
    with server.running():
        eventually(lambda: _answers(f"http://127.0.0.1:{server.port}/", host=f"wall:{server.port}"), 20)


def test_what_is_no_name_cannot_be_allowed(stream: Fed) -> None:
    for name in ("", "a b", "http://wall.example/", "wall.example:port"):
        with pytest.raises(InputError, match="--allow-host is"):
            Server(stream, port=0, token=TOKEN, allow_hosts=[name])


def test_what_is_too_large_is_refused(client: httpx2.Client) -> None:
    def endless() -> Any:
        for _ in range(1000):
            yield b" " * 1000

    big = json.dumps(MINE | {"where": "price > 1" + " " * 20_000})
    media = {"content-type": "application/json"}
    assert client.post("/api/queries", content=big, headers=media).status_code == 413
    with suppress(httpx2.WriteError):  # the server stops reading, and may hang up on who still sends
        assert client.post("/api/queries", content=endless(), headers=media).status_code == 413
    assert client.patch("/api/queries/top", content=big, headers=media).status_code == 413
    assert unchanged(client)


def test_limits(client: httpx2.Client) -> None:
    asked: dict[str, Any]
    for asked, said in (
        ({"k": 1_001}, "k is 1,001; this server allows at most 1,000"),
        ({"k": 10**30}, "k is"),
        ({"size": "8 days"}, "size is 8 days; this server allows at most 7 days"),
        ({"size": "20000000 events"}, "size is 20,000,000 events; this server allows at most"),
        ({"size": "1 day", "slide": "1 second"}, "size is 86,400 times the slide"),
        ({"name": "x" * 121}, "the name must have at most 120"),
        ({"name": ".."}, "the name must have"),
        ({"name": "a\nb"}, "printable"),
    ):
        reply = client.post("/api/queries", json=MINE | asked)
        assert (reply.status_code, said in reply.json()["error"]) == (422, True), reply.json()
    assert unchanged(client)


def test_too_many_queries(stream: Fed) -> None:
    with served(stream, limits=Limits(queries=3)) as client:
        several = [MINE | {"name": f"q{i}"} for i in range(3)]
        assert "the stream has 1 queries and may have 3" in client.post("/api/queries", json=several).json()["error"]
        assert client.post("/api/queries", json=several[:2]).status_code == 201
        assert client.post("/api/queries", json=several[2]).status_code == 422


INJECTED = (
    "price; DROP TABLE trades", "(SELECT secret FROM users)", "java_method('java.lang.Runtime', 'exit', 1)",
    "reflect('x', 'y')", "`price`--", "__import__('os').system('id')", "price /* */ UNION SELECT 1",
    "http('http://evil.example')", "read_files('/etc/passwd')", "<img src=x onerror=alert(1)>", "price\x00",
    "(" * 3000 + "price" + ")" * 3000, "-" * 5000 + "price",
)  # fmt: skip


@pytest.mark.parametrize("key", ["score", "where", "partition_by"])
def test_injected_text_is_refused(client: httpx2.Client, key: str) -> None:
    for text in INJECTED:
        reply = client.post("/api/queries", json={**MINE, key: text})
        assert reply.status_code == 422, (text, reply.text)
    assert unchanged(client)


class Broken(Fed):
    """A stream whose innards show in its errors."""

    def explain(self) -> str:
        raise InputError(f"cannot read {Path(__file__)!s}")

    def pause(self, name: str) -> None:
        raise OSError(13, "Permission denied", f"{Path.home()}/checkpoint/{name}")


def test_error_replies_do_not_show_innards() -> None:
    stream = Broken()
    try:
        with served(stream) as client:
            for reply in (client.get("/api/explain"), client.patch("/api/queries/top", json={"state": "paused"})):
                assert reply.status_code == 500
                assert reply.json()["error"].startswith("this did not work; the server's log says why, under the mark ")
                assert "/" not in reply.text
            for path in ("/nothing", "/page.css/../app.py", "/..%2fapp.py", "/api/answers/../../etc/passwd"):
                reply = client.get(path)
                assert reply.status_code == 404, path
                assert "Traceback" not in reply.text
    finally:
        stream.close()


def test_the_page_allows_nothing_foreign(client: httpx2.Client) -> None:
    page = client.get("/")
    assert page.headers["content-security-policy"] == POLICY
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in page.headers
    for path in ("/", "/page.css", "/page.js"):
        text = client.get(path).text
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in text
        assert "innerHTML" not in text
        assert " style=" not in text


def test_tokens_that_anyone_could_guess_are_refused(stream: Fed) -> None:
    with pytest.raises(InputError, match="at least 16 characters"):
        Server(stream, port=0, token="secret")


def test_a_token_is_made_where_none_is_given(stream: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKYBAND_TOKEN", raising=False)
    one, other = Server(stream, port=0), Server(stream, port=0)
    assert one.token != other.token
    assert len(one.token) >= 32
    assert one.made_token
    monkeypatch.setenv("SKYBAND_TOKEN", TOKEN)
    third = Server(stream, port=0)
    assert (third.token, third.made_token) == (TOKEN, False)
    with pytest.raises(InputError, match=r"cannot listen on 127\.0\.0\.1, port"):
        Server(stream, port=one.port)
    for server in (one, other, third):
        server.socket.close()


# Parsers: whatever comes in, queries or an error come out.

WORDS = st.sampled_from(
    ["[[query]]", "name", "k", "size", "score", "=", '"', "'", "1", "price", "SELECT", "FROM", "ORDER BY", "LIMIT", "(",
     ")", "{", "}", "[", "]", ",", ";", "\n", "REGISTER STREAM", "WHERE", "WINDOW", "SERVICE", "<http://x>", "?s", ":W",
     "HOP", "TUMBLE", "INTERVAL", "MINUTES", "\x00", "é", "\\", "--", "/*"]
)  # fmt: skip
READING = Reading(StreamColumns("ts", "symbol"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=100, deadline=2000)
@given(text=st.lists(WORDS, max_size=30).map(" ".join) | st.text(max_size=100))
def test_any_text_gives_queries_or_an_error(language: str, text: str) -> None:
    with suppress(QueryError):
        assert all(isinstance(query, sb.Query) for query in READING.read(text, language))


@settings(max_examples=150, deadline=2000)
@given(st.dictionaries(st.sampled_from([*TOP.as_dict(), "where", "partition_by", "closed", "x"]), VALUES))
def test_any_json_gives_queries_or_an_error(given_: dict[str, Any]) -> None:
    with suppress(QueryError):
        READING.read(json.dumps({**MINE, **given_}), "json")
