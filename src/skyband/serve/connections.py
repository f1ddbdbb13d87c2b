"""Connections that wait for a request: for how long, and how many.

uvicorn has no time-out for a request that is coming in: its keep-alive time-out ends with the first byte. So a client
that sends half of a request holds its connection for good, and a thousand of them shut everyone else out. Here a
connection without a complete request is closed after some seconds, whatever it sends meanwhile. Only so many may wait
for more than a moment, from one address and in all: beyond that those that have waited longest are closed. So a client
that sends its request at once is served, however many others wait.
"""

from __future__ import annotations

import asyncio
import logging
import time as clock
from dataclasses import dataclass
from itertools import islice

from uvicorn.protocols.http.h11_impl import H11Protocol

logger = logging.getLogger(__name__)
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
WARNING = 60.0  # seconds between two warnings


@dataclass(eq=False)
class Waiting:
    """The connections that wait for a request, or for the rest of one."""

    seconds: float = 10.0  # how long a connection may wait
    most: int = 256  # how many may wait for longer than the grace
    most_of_one: int = 64  # how many of them may come from one address
    grace: float = 1.0  # seconds in which one does not count: many that come at once may all have sent their requests

    def __post_init__(self) -> None:
        self._by_age: dict[Connection, float] = {}  # since when; a dict keeps its order, so the oldest is the first
        self._by_address: dict[str, dict[Connection, float]] = {}
        self._warned = -WARNING

    def add(self, connection: Connection) -> None:
        """Let a connection wait; where too many have waited beyond the grace, the oldest have to go."""
        now = clock.monotonic()
        same = self._by_address.setdefault(connection.address, {})
        self._by_age[connection] = same[connection] = now
        for crowd, most in ((same, self.most_of_one), (self._by_age, self.most)):
            while next(islice(crowd.values(), most, None), now) < now - self.grace:
                self._drop(next(iter(crowd)))

    def remove(self, connection: Connection) -> None:
        """Forget a connection whose request has come, or that is closed."""
        if connection in self._by_age:
            del self._by_age[connection]
            same = self._by_address[connection.address]
            del same[connection]
            if not same:
                del self._by_address[connection.address]

    def _drop(self, connection: Connection) -> None:
        address = connection.address
        self.remove(connection)
        connection.transport.abort()
        if clock.monotonic() - self._warned >= WARNING:
            self._warned = clock.monotonic()
            logger.warning("too many connections wait without a request, also from %s; the oldest close", address)


class Connection(H11Protocol):
    """A connection that may not wait for ever. `limited_by` makes the class that a server uses."""

    waiting: Waiting
    address = ""
    _deadline: asyncio.TimerHandle | None = None

    @classmethod
    def limited_by(cls, waiting: Waiting) -> type[Connection]:
        """Return the class of connections that wait together."""
        return type(cls.__name__, (cls,), {"waiting": waiting})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn does
        """Begin to wait."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._update()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        super().connection_lost(exc)
        self._stop_waiting()

    def data_received(self, data: bytes) -> None:
        """Look whether the request is complete."""
        super().data_received(data)
        self._update()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._update()

    def _update(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.waiting.seconds, self._expire)
            self.waiting.add(self)

    def _stop_waiting(self) -> None:
        self.waiting.remove(self)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        if self.transport.get_write_buffer_size():  # of a reply that is still being read; the system ends what is dead
            self._deadline = self.loop.call_later(self.waiting.seconds, self._expire)
            return
        half_sent, _ = self.conn.trailing_data
        if half_sent and not self.transport.is_closing():
            self.transport.write(TOO_SLOW)
        self.transport.close()
