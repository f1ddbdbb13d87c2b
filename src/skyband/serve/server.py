"""The HTTP server: where it listens, who can reach it, how it starts and stops."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import os
import secrets
import signal
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

import uvicorn
from rich.console import Console

from skyband.errors import InputError
from skyband.languages import Mapping
from skyband.serve.app import make_app
from skyband.serve.connections import Connection, Waiting
from skyband.serve.edge import Edge
from skyband.serve.feed import Feed
from skyband.serve.guard import LOOPBACK, is_address, name_in
from skyband.serve.spark_stream import SparkStream
from skyband.serve.streams import ServedStream
from skyband.serve.texts import Limits
from skyband.spark.control import Control

TOKEN = "SKYBAND_TOKEN"
SHORTEST_TOKEN = 16
SEND_BUFFER = 1 << 17
GRACE = 3.0  # seconds that open requests get at the end
ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # all addresses, and one of them
ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}  # for documentation: no machine has them


@dataclass
class Server:
    """Serves a stream over HTTP.

    Parameters
    ----------
    stream
        What to serve: a handle of `skyband.spark.start`, a `Control`, or another stream that can be served.
    host, port
        Where to listen; port 0 takes one that is free.
    token
        What changes need; else the variable ``SKYBAND_TOKEN``, else a random one.
    allow_hosts
        Names, besides `host` and those of loopback, by which the server may be asked for. One that listens beyond
        loopback may be asked for by any IP address too.
    limits, feed, waiting
        How much may be asked for; the change feed; how long, and how many, connections may wait without a request.
    mapping
        What names in RSP-QL mean.
    clock
        Returns seconds since 1970.

    Examples
    --------
    >>> server = Server(handle)  # doctest: +SKIP
    >>> with server.running():  # doctest: +SKIP
    ...     print(server.address)
    """

    stream: ServedStream
    host: str = "127.0.0.1"
    port: int = 8765
    token: str = ""
    allow_hosts: Collection[str] = ()
    limits: Limits = field(default_factory=Limits)
    mapping: Mapping | None = None
    feed: Feed = field(default_factory=Feed)
    waiting: Waiting = field(default_factory=Waiting)
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        if isinstance(self.stream, Control):
            self.stream = SparkStream(self.stream)
        self.token = self.token or os.environ.get(TOKEN, "")
        self.made_token = not self.token
        self.token = self.token or secrets.token_urlsafe(32)
        _check_token(self.token)
        hosts = {*LOOPBACK, self.host, *map(_checked_host, self.allow_hosts)}
        self.socket = _listen(self.host, self.port, self.feed.patience)
        self._bound, self.port = self.socket.getsockname()[:2]
        self._loop: asyncio.AbstractEventLoop | None = None
        edge = Edge(self.stream, self.limits, self.feed, self.mapping or Mapping(), self.clock)
        most = 2 * self.feed.most_readers
        app = make_app(edge, token=self.token, hosts=hosts, by_address=self.is_open, most_requests=most)
        self._uvicorn = _Uvicorn(
            uvicorn.Config(
                app,
                http=Connection.limited_by(self.waiting),
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=int(GRACE),
                h11_max_incomplete_event_size=1 << 16,
            )
        )

    @property
    def is_open(self) -> bool:
        """Whether others than this machine can reach the server."""
        return not ipaddress.ip_address(self._bound).is_loopback

    @property
    def address(self) -> str:
        """Where the page is; of a server that listens on all addresses, the one for this machine."""
        return self._at(ANY.get(self._bound, self.host))

    @property
    def outer_address(self) -> str | None:
        """Where the page is for others, if they can reach it and this machine has an address in a network."""
        if not self.is_open:
            return None
        host = _outward(self.socket.family) if self._bound in ANY else self.host
        return None if host is None else self._at(host)

    def _at(self, host: str) -> str:
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    @property
    def address_with_token(self) -> str:
        """Where the page is, with the token in a part of the address that browsers do not send."""
        return f"{self.address}#token={quote(self.token, safe='')}"

    def run(self) -> None:
        """Serve until a signal comes."""
        asyncio.run(self._serve(signals=True))

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Serve in a thread, as long as the block lasts."""
        thread = threading.Thread(target=lambda: asyncio.run(self._serve(signals=False)), name="skyband-serve")
        thread.start()
        try:
            yield
        finally:
            self.stop()
            thread.join()

    def stop(self) -> None:
        """End, from any thread; the feed's readers go first, or the server would wait for them."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.feed.close)
        self._uvicorn.should_exit = True

    async def _serve(self, *, signals: bool) -> None:
        self._loop = loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM) if signals else ():
            loop.add_signal_handler(number, self.stop)
        try:
            await self._uvicorn.serve(sockets=[self.socket])
        finally:
            self.socket.close()


def check(host: str, port: int, allow_hosts: Collection[str] = ()) -> None:
    """Refuse a token, names and a place that cannot be served at, before what is served takes its time to start."""
    for name in allow_hosts:
        _checked_host(name)
    _check_token(os.environ.get(TOKEN) or secrets.token_urlsafe(32))
    _listen(host, port, patience=1.0).close()


def _check_token(token: str) -> None:
    if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()):
        msg = f"the token must have at least {SHORTEST_TOKEN} characters of ASCII; leave it out for a random one"
        raise InputError(msg)


def _checked_host(host: str) -> str:
    """Return a name that may be asked for, as the guard compares it."""
    name = host if is_address(host) else name_in(host)
    if not name:
        msg = f"--allow-host is {host!r}; give the name or the IP address that browsers use, such as wall.example"
        raise InputError(msg)
    return name


def _outward(family: socket.AddressFamily) -> str | None:
    """Return the address that this machine has in its network; nothing is sent to find out."""
    with socket.socket(family, socket.SOCK_DGRAM) as out:
        try:
            out.connect((ELSEWHERE[family], 9))
        except OSError:
            return None
        return str(out.getsockname()[0])


def run(server: Server, console: Console, *, show: bool = False) -> None:
    """Print where the page is, and the token if it is a new one; serve until a signal comes.

    `show` also opens the page in a browser, if there is one.
    """
    say = functools.partial(console.print, soft_wrap=True, markup=False)  # an IPv6 address stands in brackets
    say(f"Live page: {server.address_with_token if server.made_token else server.address}")
    if server.made_token:
        say(f"Token for changes, shown only now: {server.token}")
    if server.is_open:
        at = f" at {server.outer_address}" if server.outer_address else ""
        say(f"Others can reach this server{at}, and what they send is not encrypted: put a proxy with TLS before it.")
    console.print("Stop it with Ctrl-C.", style="dim")
    if show and console.is_terminal:
        threading.Timer(1.0, webbrowser.open, [server.address_with_token]).start()
    server.run()
    console.print("stopped", style="dim")


class _Uvicorn(uvicorn.Server):
    """Leaves signals alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(host: str, port: int, patience: float) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit both. The first keeps the system from buffering megabytes for a client that does not read; by
    # the second it closes such a connection in the end, though bytes wait.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(4_000 * patience))
    try:
        listening.bind((host, port))
        listening.listen(256)
    except OSError as error:
        listening.close()
        msg = f"cannot listen on {host}, port {port}: {(error.strerror or str(error)).lower()}; choose another --port"
        raise InputError(msg) from None
    return listening
