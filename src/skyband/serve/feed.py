"""The change feed: server-sent events that readers can resume, and that never wait for a slow reader.

Each message is made into bytes once for all readers. The last ones are kept, so that a reader who was cut off can
resume by the id of the last message it had. Every reader has a queue of bounded length. When it overflows, the oldest
messages are dropped, and a message `missed` says how many; each answer is a whole one, so what follows is complete
again. A reader who takes nothing at all for a while is cut off.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

logger = logging.getLogger(__name__)
RETRY = b"retry: 2000\n\n"


class FeedFull(Exception):  # noqa: N818 - says it all
    """As many readers as there can be."""


@dataclass(frozen=True)
class Message:
    """One message as bytes; `query` is the query that it is about, if it is about one."""

    number: int
    query: str | None
    text: bytes


class Reader:
    """A reader of the feed: of the answers of some queries (None: of all), with at most `length` messages waiting."""

    def __init__(self, queries: Collection[str] | None, length: int) -> None:
        self.queries = queries
        self.waiting: deque[bytes] = deque()
        self.length = length
        self.missed = 0
        self.closed = False
        self._news = asyncio.Event()

    def give(self, message: Message) -> bool:
        """Put a message into the queue; return whether an older one was dropped for it."""
        if message.query is not None and self.queries is not None and message.query not in self.queries:
            return False
        self.waiting.append(message.text)
        self._news.set()
        if len(self.waiting) <= self.length:
            return False
        self.waiting.popleft()
        self.missed += 1
        return True

    def close(self) -> None:
        """End the reading."""
        self.closed = True
        self._news.set()

    async def take(self, heartbeat: float) -> bytes | None:
        """Wait for messages and return them all; a heartbeat where there are none for long; None at the end."""
        try:
            async with asyncio.timeout(heartbeat):
                await self._news.wait()
        except TimeoutError:
            return _text(None, "beat", {})
        self._news.clear()
        if self.closed:
            return None
        found = b"".join(self.waiting)
        self.waiting.clear()
        if self.missed:
            missed = _text(None, "missed", {"messages": self.missed, "why": "this reader was too slow"})
            found, self.missed = missed + found, 0
        return found


@dataclass(eq=False)
class Feed:
    """Messages for all readers."""

    remembered: int = 1_000  # how many of the last messages can be asked for again
    queued: int = 256  # how many messages may wait for one reader
    most_readers: int = 500
    heartbeat: float = 15.0  # seconds without a message after which a reader gets a sign of life
    patience: float = 30.0  # seconds after which a reader who takes nothing is cut off

    def __post_init__(self) -> None:
        self.epoch = secrets.token_hex(4)  # a server that was started again numbers its messages anew
        self.number = 0
        self.messages: deque[Message] = deque(maxlen=self.remembered)
        self.readers: set[Reader] = set()
        self.missed = 0
        self.cut_off = 0

    def publish(self, kind: str, data: dict[str, Any], query: str | None = None) -> None:
        """Send a message to all readers whom it concerns."""
        self.number += 1
        message = Message(self.number, query, _text(f"{self.epoch}-{self.number}", kind, data))
        self.messages.append(message)
        for reader in self.readers:
            self.missed += reader.give(message)

    def join(self, last: str | None, queries: Collection[str] | None, hello: Callable[[], dict[str, Any]]) -> Reader:
        """Add a reader, who goes on behind the message with the id `last`, or begins anew where that is not known.

        The reader gets the answers of some queries (None: of all); one who begins anew gets what `hello` returns first.
        """
        if len(self.readers) >= self.most_readers:
            raise FeedFull
        reader = Reader(queries, self.queued)
        after = self._after(last)
        if after is None:
            text = _text(f"{self.epoch}-{self.number}", "hello", hello())
            reader.give(Message(self.number, None, text))
        else:
            for message in self.messages:
                if message.number > after:
                    self.missed += reader.give(message)
        self.readers.add(reader)
        return reader

    def _after(self, last: str | None) -> int | None:
        """Return the number behind which to go on; None where that is not possible."""
        epoch, _, number = (last or "").rpartition("-")
        if epoch != self.epoch or not (number.isascii() and number.isdigit()) or len(number) > 18:
            return None
        oldest = self.messages[0].number if self.messages else self.number + 1
        return int(number) if oldest - 1 <= int(number) <= self.number else None

    def close(self) -> None:
        """End the reading of all readers."""
        for reader in self.readers:
            reader.close()


def _text(number: str | None, kind: str, data: dict[str, Any]) -> bytes:
    head = "" if number is None else f"id: {number}\n"
    body = json.dumps(data, separators=(",", ":"), allow_nan=False)  # has no line breaks
    return f"{head}event: {kind}\ndata: {body}\n\n".encode()


class FeedResponse(Response):
    """A reply without an end: the messages of a reader, as they come."""

    def __init__(self, feed: Feed, reader: Reader) -> None:
        super().__init__(
            media_type="text/event-stream", headers={"cache-control": "no-store", "x-accel-buffering": "no"}
        )
        del self.headers["content-length"]
        self.feed, self.reader = feed, reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's
        """Send what comes, until either side has gone."""
        gone = asyncio.create_task(_until_gone(receive, self.reader))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            text: bytes | None = RETRY
            while text is not None:
                async with asyncio.timeout(self.feed.patience):
                    await send({"type": "http.response.body", "body": text, "more_body": True})
                text = await self.reader.take(self.feed.heartbeat)
            async with asyncio.timeout(self.feed.patience):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            self.feed.cut_off += 1
            logger.warning("a reader of the feed took nothing for %g seconds and is cut off", self.feed.patience)
        finally:
            self.feed.readers.discard(self.reader)
            gone.cancel()


async def _until_gone(receive: Receive, reader: Reader) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.close()
