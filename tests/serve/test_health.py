"""A source that stops, a stream that dies: the numbers follow the clock, and everything that people look at says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pytest

from skyband.serve import edge
from skyband.serve.spark_stream import SparkStream
from skyband.serve.streams import StreamStats, StreamUpdate
from skyband.serve.vitals import Vitals
from skyband.spark import Control
from skyband.spark.checkpoint import Checkpoint
from tests.serve.conftest import TOP, Clock, Fed, eventually, served
from tests.serve.test_feed import listening


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(edge, "TICK", 0.05)
    return Clock()


@pytest.fixture
def client(stream: Fed, clock: Clock) -> Iterator[httpx2.Client]:
    with served(stream, clock=clock) as found:
        yield found


def numbers(client: httpx2.Client) -> dict[str, Any]:
    return dict(client.get("/api/stream").raise_for_status().json()["numbers"])


def metrics(client: httpx2.Client) -> dict[str, float]:
    lines = (line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines() if not line.startswith("#"))
    return {name.removeprefix("skyband_"): float(value) for name, value in lines}


def health(client: httpx2.Client, **asked: Any) -> tuple[int, str, str]:
    """Return what a probe says; "" where it changes just now, and those who are asked do not agree."""
    probes = [client.get(path, params=asked) for path in ("/healthz", "/healthz/ready")]
    found = probes[0].json()
    assert set(found) == {"state", "health", "says", "silence"}
    measured = [name for name, value in metrics(client).items() if name.startswith("stream_health") and value]
    shown = numbers(client)
    agree = {(found["health"], probes[0].status_code), (probes[1].json()["health"], probes[1].status_code)}
    agree |= {(shown["health"], probes[0].status_code), (measured[0].split('"')[1], probes[0].status_code)}
    says = re.sub(r"\d+ (s|min)", "N", found["says"])
    return probes[0].status_code, found["health"] if len(agree) == len(measured) == 1 else "", says


def soon(holds: Callable[[], Any]) -> Any:
    return eventually(holds, 20.0)


def test_when_the_source_stops_the_numbers_say_so(client: httpx2.Client, stream: Fed, clock: Clock) -> None:
    assert health(client) == (200, "quiet", "no events yet")
    stream.feed((1, "A", 5.0), (2, "B", 7.0), (11, "C", 1.0))
    soon(lambda: numbers(client)["rows"] == 3)
    assert health(client) == (200, "live", "live")
    before = soon(lambda: (found := numbers(client))["rows_per_second"] and found)
    clock.ahead = 45.0
    now = numbers(client)
    assert re.fullmatch("no events for 4[5-9] s", now["says"])
    assert now["rows_per_second"] == 0.0
    assert now["lag"] - before["lag"] >= 45.0
    assert 45.0 <= now["silence"] < 60.0
    assert health(client) == (200, "quiet", "no events for N")
    assert health(client, max_silence=60) == (200, "quiet", "no events for N")
    assert health(client, max_silence=30) == (503, "quiet", "no events for N")
    assert client.get("/healthz/live").status_code == 200
    assert client.get("/healthz", params={"max_silence": "soon"}).status_code == 422
    measured = metrics(client)
    assert (measured["stream_up"], measured["rows_per_second"]) == (1.0, 0.0)
    assert measured["silence_seconds"] >= 45.0
    assert measured["watermark_lag_seconds"] >= now["lag"]
    stream.feed((12, "D", 5.0))
    soon(lambda: health(client) == (200, "live", "live"))
    assert numbers(client)["silence"] < 30.0


def test_the_feed_tells_numbers_though_nothing_happens(client: httpx2.Client, stream: Fed, clock: Clock) -> None:
    stream.feed((1, "A", 5.0))
    soon(lambda: numbers(client)["rows"] == 1)
    with listening(client) as events:
        told = (data for _, kind, data in events if kind == "numbers")
        assert next(told)["health"] == "live"
        clock.ahead = 45.0
        found = next(one for one in told if one["health"] == "quiet")
        clock.ahead = 300.0
        later = next(one for one in told if one["says"] == "no events for 5 min")
    assert later["lag"] - found["lag"] > 200.0
    assert later["silence"] >= 300.0
    assert later["rows_per_second"] == 0.0


def test_a_stream_that_failed_wants_a_restart(clock: Clock) -> None:
    stream = Fed()
    with served(stream, clock=clock) as client:
        assert client.get("/healthz/live").status_code == 200
        stream.queue.put(pa.record_batch({"x": [1]}))  # has none of the columns
        soon(lambda: health(client) == (503, "failed", "the stream has failed; the log says why"))
        assert client.get("/healthz/live").status_code == 503
        assert metrics(client)["stream_up"] == 0.0
    stream.close()


class Unseen(Fed):
    """A stream that cannot be looked at any more."""

    out_of_sight = False

    def poll(self) -> StreamUpdate | None:
        if self.out_of_sight:
            raise OSError(5, "Input/output error")
        return super().poll()


def test_a_stream_that_cannot_be_looked_at_is_gone(clock: Clock) -> None:
    stream = Unseen()
    with served(stream, clock=clock) as client:
        stream.feed((1, "A", 5.0))
        soon(lambda: health(client) == (200, "live", "live"))
        stream.out_of_sight = True
        gone = "stream gone: it could not be read for N; the log says why"

        def is_gone() -> bool:
            clock.ahead += 31.0
            return health(client) == (503, "gone", gone)

        soon(is_gone)
        stream.out_of_sight = False
        soon(lambda: health(client)[0] == 200)
    stream.close()


# A stream in another process, known by its checkpoint folder.


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    made = Checkpoint(tmp_path)
    identity = {"time": "ts", "id": "symbol", "time_unit": None, "id_type": "string", "algorithm": "staircase"}
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("symbol", pa.string()), ("price", pa.float64())])
    made.open({**identity, "placement": "driver"}, schema, [TOP.as_dict()])
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "4").touch()
    return made


@pytest.fixture
def attached(checkpoint: Checkpoint, clock: Clock) -> Iterator[httpx2.Client]:
    control = Control(checkpoint)
    control.observer.clock = clock
    with served(SparkStream(control), clock=clock) as found:
        yield found


def show(checkpoint: Checkpoint, batch: int) -> None:
    watermark = (datetime.now(UTC) - timedelta(seconds=2)).isoformat()
    listed = [{"name": TOP.name, "state": "active", "query": TOP.as_dict()}]
    progress = [{"batchId": batch, "watermark": watermark}]
    checkpoint.show({"batch": batch, "queries": listed, "windows": {}, "progress": progress}, None)


def test_a_stream_elsewhere_lives_as_long_as_it_beats(
    attached: httpx2.Client, checkpoint: Checkpoint, clock: Clock
) -> None:
    soon(lambda: health(attached) == (503, "gone", "stream gone"))
    checkpoint.mark("running")
    soon(lambda: health(attached) == (200, "quiet", "no events yet"))
    show(checkpoint, 4)
    soon(lambda: health(attached) == (200, "live", "live, in another process"))
    before = numbers(attached)["lag"]
    clock.ahead = 20.0
    checkpoint.beat()
    soon(lambda: health(attached) == (200, "quiet", "no events for N"))
    soon(lambda: numbers(attached)["lag"] > before + 19.0)  # it does not freeze

    def is_gone() -> bool:
        clock.ahead += 31.0  # silence begins when the last beat is seen, which may be only now
        return health(attached) == (503, "gone", "stream gone: no sign of life for N")

    soon(is_gone)
    assert attached.get("/healthz/live").status_code == 200, "this process can do nothing about it"
    assert metrics(attached)["stream_up"] == 0.0
    checkpoint.beat()
    soon(lambda: health(attached)[:2] == (200, "quiet"))


def test_a_long_batch_is_no_silence(attached: httpx2.Client, checkpoint: Checkpoint, clock: Clock) -> None:
    checkpoint.mark("running")
    show(checkpoint, 4)
    soon(lambda: health(attached)[1] == "live")
    (checkpoint.folder / "offsets" / "5").touch()
    clock.ahead = 3_600.0
    checkpoint.beat()
    soon(lambda: health(attached) == (200, "live", "a batch is under way"))
    (checkpoint.folder / "commits" / "5").touch()
    soon(lambda: health(attached) == (200, "quiet", "no events for N"))


@pytest.mark.parametrize(
    ("state", "says"), [("ended", "the stream has ended"), ("failed", "the stream has failed; the log says why")]
)
def test_a_stream_elsewhere_that_is_over(
    attached: httpx2.Client, checkpoint: Checkpoint, clock: Clock, state: str, says: str
) -> None:
    checkpoint.mark("running")
    soon(lambda: health(attached)[0] == 200)
    checkpoint.mark(state)
    soon(lambda: health(attached) == (503, state, says))
    clock.ahead = 100.0
    assert health(attached) == (503, state, says)
    assert attached.get("/healthz/live").status_code == 200


# By the clock alone.


def test_what_is_quiet_depends_on_how_often_events_came() -> None:
    now = [1_000.0]
    vitals = Vitals(lambda: now[0])
    for batch in range(4):
        vitals.note(StreamStats("running", batch, 2_000 * batch, last_batch=now[0]))
        now[0] += 20.0
    assert vitals.speed.at(now[0] - 1.0) == 100.0, "rows come in batches, and yet evenly"
    found = []
    for _ in range(8):
        found.append((vitals.shown(StreamStats("running", 3, 6_000))["rows_per_second"], vitals.is_quiet))
        now[0] += 5.0
    assert found == [(50.0, False)] * 4 + [(0.0, True)] * 4, "quiet once two batches are missing"
