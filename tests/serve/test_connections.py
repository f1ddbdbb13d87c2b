"""Half-sent requests: they end by themselves, and shut nobody out."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import httpx2
import pytest

from skyband.serve import app
from skyband.serve.connections import Waiting
from skyband.serve.feed import Feed
from tests.serve.conftest import MINE, TOKEN, Fed, eventually, served

HALF = b"GET /api/queries HTTP/1.1\r\nHost: 127.0.0.1\r\n"
SLOW = 60.0  # seconds after which a test gives up


def begun() -> bytes:
    """Return a request whose body is missing but for one byte."""
    head = f"POST /api/queries HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{{".encode()


@contextlib.contextmanager
def connected(client: httpx2.Client, *said: bytes) -> Iterator[list[socket.socket]]:
    """Open a connection for each of these, and say it."""
    made: list[socket.socket] = []
    try:
        for text in said:
            made.append(socket.create_connection((client.base_url.host, client.base_url.port or 0), SLOW))
            with contextlib.suppress(ConnectionError):
                made[-1].sendall(text)
        yield made
    finally:
        for one in made:
            one.close()


def rest(one: socket.socket) -> bytes:
    """Return all that comes until the other side hangs up."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := one.recv(1 << 16):
            found += part
    return found


def read_until(one: socket.socket, text: bytes) -> None:
    found = b""
    while text not in found:
        found += (part := one.recv(1 << 16))
        assert part, "it was cut off"


def is_open(one: socket.socket) -> bool:
    one.settimeout(0.0)
    try:
        return one.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


@pytest.mark.parametrize("grace", [0.0, 1.0])
def test_others_are_served_while_half_sent_requests_hang(stream: Fed, grace: float) -> None:
    """From the same address, more than there may be requests at once, long before their time is up."""
    with (
        served(stream, feed=Feed(most_readers=100), waiting=Waiting(SLOW, grace=grace)) as client,
        connected(client, *[HALF] * 150, *[b""] * 150) as hanging,
    ):
        for _ in range(3):
            with httpx2.Client(base_url=client.base_url, trust_env=False, timeout=SLOW) as other:
                assert other.get("/api/queries").status_code == 200
        assert client.post("/api/check", json=MINE).status_code == 200
        eventually(lambda: _knock(client) and sum(map(is_open, hanging)) <= 64, SLOW)
        assert sum(map(is_open, hanging)) > 32, "no more have to go than must"
        assert not is_open(hanging[0])
        assert is_open(hanging[-1])


def _knock(client: httpx2.Client) -> bool:
    """Let a new connection come, which takes the place of others."""
    with httpx2.Client(base_url=client.base_url, trust_env=False, timeout=SLOW) as other:
        return other.get("/healthz").status_code == 200


def test_in_all_only_so_many_may_wait(stream: Fed) -> None:
    with served(stream, waiting=Waiting(SLOW, most=5, grace=0.0)) as client, connected(client, *[HALF] * 20) as hanging:
        eventually(lambda: _knock(client) and sum(map(is_open, hanging)) <= 5, SLOW)
        assert client.get("/healthz").status_code == 200


def test_many_who_come_at_once_are_all_served(stream: Fed) -> None:
    whole = HALF + b"Connection: close\r\n\r\n"
    with served(stream, waiting=Waiting(SLOW, most=5)) as client, connected(client, *[whole] * 200) as asking:
        assert {rest(one)[:15] for one in asking} == {b"HTTP/1.1 200 OK"}


def test_who_keeps_a_connection_does_not_lose_it_when_many_come_at_once(stream: Fed) -> None:
    with (
        served(stream, waiting=Waiting(SLOW, most_of_one=5, grace=SLOW / 2)) as client,
        connected(client, HALF + b"\r\n") as (kept,),
    ):
        read_until(kept, b'{"queries":')
        with connected(client, *[HALF + b"\r\n"] * 100) as asking:
            for one in asking:
                read_until(one, b'{"queries":')
            assert is_open(kept)


def test_more_requests_than_may_be_under_way_are_refused(stream: Fed) -> None:
    with served(stream, feed=Feed(most_readers=1)) as client:
        eventually(lambda: client.get("/healthz").status_code == 200)
        with connected(client, begun(), begun()):  # twice as many as may read the feed
            refused = eventually(lambda: (reply := client.get("/api/queries")).status_code == 503 and reply, SLOW)
            assert refused.json() == {"error": "as many requests are under way as may; try again later"}
        eventually(lambda: client.get("/api/queries").status_code == 200, SLOW)


def test_a_half_sent_request_ends_whatever_else_it_sends(stream: Fed) -> None:
    with served(stream, waiting=Waiting(0.4)) as client, connected(client, HALF, b"") as (half, silent):
        ended = threading.Event()

        def trickle() -> None:
            with contextlib.suppress(OSError):
                while not ended.wait(0.05):
                    half.sendall(b"x")

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            assert rest(half).startswith(b"HTTP/1.1 408 ")
        finally:
            ended.set()
            thread.join()
        assert rest(silent) == b""


def test_a_second_request_that_comes_by_half_ends_too(stream: Fed) -> None:
    with served(stream, waiting=Waiting(0.4)) as client, connected(client, HALF + b"\r\n" + HALF) as (one,):
        found = rest(one)
        assert found.startswith(b"HTTP/1.1 200 ")
        assert found.count(b"HTTP/1.1 408 ") == 1


def test_one_who_reads_the_feed_is_not_cut_off(stream: Fed) -> None:
    whole = HALF.replace(b"queries", b"feed") + b"\r\n"
    with served(stream, waiting=Waiting(0.2)) as client, connected(client, whole) as (reader,):
        read_until(reader, b"event: hello")
        time.sleep(0.6)
        stream.feed((1, "A", 5.0), (11, "B", 1.0))
        read_until(reader, b"event: answer")


def test_a_body_that_does_not_come_is_refused(stream: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "BODY", 0.3)
    with served(stream, waiting=Waiting(0.3)) as client, connected(client, begun()) as (one,):
        found = rest(one)
    assert found.startswith(b"HTTP/1.1 408 ")
    assert b"the request did not come within 0.3 seconds" in found
