"""Servers on loopback that do what a test tells them: answer, dawdle, fail, lie. They end with their `with` block."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Reply:
    """What a server sends; `trickle` sends one byte at a time, without an end, until the server closes."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    trickle: bool = False
    cut: int | None = None

    def bytes(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass
class Request:
    """What a server got."""

    method: str
    path: str
    query: dict[str, list[str]]
    form: dict[str, list[str]]


class Loopback:
    """A server of one function, which gets the request and its number."""

    def __init__(self, answer: Callable[[Request, int], Reply]) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.handle(self, b"")

            def do_POST(self) -> None:
                outer.handle(self, self.rfile.read(int(self.headers.get("content-length", 0))))

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ARG002 - as there; tests are quiet
                return

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - clients may hang up
                return

        self.server = Server(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> Loopback:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()

    def handle(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        parts = urlsplit(handler.path)
        request = Request(handler.command, parts.path, parse_qs(parts.query), parse_qs(body.decode()))
        self.requests.append(request)
        reply = self.answer(request, len(self.requests))
        if reply.delay:
            self.closing.wait(reply.delay)
        data = reply.bytes()
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        if not reply.trickle:
            handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        for piece in self._pieces(reply, data):
            handler.wfile.write(piece)
            handler.wfile.flush()

    def _pieces(self, reply: Reply, data: bytes) -> Iterator[bytes]:
        yield data[: reply.cut]
        while reply.trickle and not self.closing.wait(0.01):
            yield b" "


class Clock:
    """A clock that moves only when somebody sleeps; safe for threads."""

    def __init__(self) -> None:
        self.time = 1_000.0
        self.slept: list[float] = []
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.time += seconds
            self.slept.append(seconds)
