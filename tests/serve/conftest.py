"""A stream that a test feeds by hand, and a real server on loopback."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from queue import Empty, Queue
from typing import Any

import httpx2
import pyarrow as pa
import pytest

import skyband as sb
from skyband.events.batch import StreamColumns
from skyband.serve.local_stream import LocalStream
from skyband.serve.server import Server

TOKEN = "a token that only tests know"
START = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
SECOND = 1_000_000
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("symbol", pa.string()),
        ("price", pa.float64()),
        ("volume", pa.int64()),
        ("venue", pa.string()),
    ]
)
TOP = sb.Query("top", k=3, score="price", window=sb.Window("10 seconds"), distinct="best", select=("venue",))
MINE = {"name": "mine", "k": 2, "size": "10 seconds", "score": "price * volume"}
Event = tuple[float, str, float]


def batch(*events: Event) -> pa.RecordBatch:
    """Make a batch of events: seconds after the start, symbol, price."""
    base = int(START.timestamp()) * SECOND
    columns = [
        pa.array([base + int(second * SECOND) for second, _, _ in events]).cast(SCHEMA.field("ts").type),
        pa.array([symbol for _, symbol, _ in events], pa.string()),
        pa.array([price for _, _, price in events], pa.float64()),
        pa.array([1] * len(events), pa.int64()),
        pa.array(["XPAR"] * len(events), pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class Fed(LocalStream):
    """A local stream that gets its batches from a test."""

    def __init__(self, queries: Sequence[sb.Query] = (TOP,), **options: Any) -> None:
        self.queue: Queue[pa.RecordBatch] = Queue()
        stopping = threading.Event()

        def batches() -> Iterator[pa.RecordBatch]:
            while not stopping.is_set():
                try:
                    yield self.queue.get(timeout=0.02)
                except Empty:
                    continue

        super().__init__(
            queries, batches(), schema=SCHEMA, source=StreamColumns("ts", "symbol"), delay=0,
            stopping=stopping, **options
        )  # fmt: skip

    def feed(self, *events: Event) -> None:
        """Give it events, and wait until they are in."""
        before = self.monitor.stats().batches
        self.queue.put(batch(*events))
        eventually(lambda: self.monitor.stats().batches > before)


class Clock:
    """A clock that can be put forward."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def eventually(holds: Callable[[], Any], seconds: float = 120.0) -> Any:
    """Wait until something holds, and return it; on a fresh machine kernels are compiled meanwhile."""
    until = time.monotonic() + seconds
    while True:
        if found := holds():
            return found
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def stream() -> Iterator[Fed]:
    made = Fed()
    yield made
    made.close()


@contextmanager
def served(stream: Any, **options: Any) -> Iterator[httpx2.Client]:
    """Serve a stream; gives a client that knows the token."""
    server = Server(stream, port=0, token=TOKEN, **options)
    with server.running():
        headers = {"authorization": f"Bearer {TOKEN}"}
        with httpx2.Client(base_url=server.address, headers=headers, trust_env=False, timeout=120) as client:
            eventually(lambda: _up(client))
            yield client


def _up(client: httpx2.Client) -> bool:
    try:
        return client.get("/healthz").status_code in (200, 503)
    except httpx2.TransportError:
        return False


@pytest.fixture
def client(stream: Fed) -> Iterator[httpx2.Client]:
    with served(stream) as found:
        yield found


def answers(client: httpx2.Client, name: str = "top", limit: int = 1) -> list[dict[str, Any]]:
    return list(client.get(f"/api/answers/{name}", params={"limit": limit}).raise_for_status().json()["answers"])
