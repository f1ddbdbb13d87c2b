"""How long a batch may take while queries are new, and what stops it."""

from __future__ import annotations

import threading

import pytest

from skyband.spark import trial
from skyband.spark.trial import Watch, allowed, ends_stream


class Session:
    """Counts how often its jobs were stopped."""

    def __init__(self, times: int) -> None:
        self.stopped, self.enough = 0, threading.Event()
        self.times = times

    def interruptAll(self) -> None:  # noqa: N802 - Spark's word
        self.stopped += 1
        if self.stopped == self.times:
            self.enough.set()
        raise RuntimeError("Spark may be busy")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "POLL", 0.001)


def test_a_batch_beyond_its_limit_is_stopped_until_it_ends() -> None:
    session = Session(times=3)
    with Watch(session, lambda: False) as watch:
        assert not session.enough.wait(0.02)  # nobody is on trial
        watch.limit = 0.0
        assert session.enough.wait(60)
    after = session.stopped
    assert watch.why == "slow"
    assert watch.is_slow
    assert not threading.Event().wait(0.02)
    assert session.stopped == after


def test_someone_may_ask_for_another_attempt() -> None:
    session, asked = Session(times=1), threading.Event()
    with Watch(session, asked.is_set) as watch:
        watch.limit = 600.0
        asked.set()
        assert session.enough.wait(60)
    assert watch.why == "asked"
    assert not watch.is_slow


def test_a_look_that_fails_is_taken_again() -> None:
    session, looks = Session(times=1), iter([None, False, True])

    def asked() -> bool:
        if (look := next(looks)) is None:
            raise OSError
        return look

    with Watch(session, asked) as watch:
        assert session.enough.wait(60)
    assert watch.why == "asked"


def test_slow_streams_may_go_on_being_slow() -> None:
    assert allowed(30, [50.0] + [1.0] * 10, cold=False) == 30
    assert allowed(30, [1.0, 50.0], cold=False) == 150
    assert allowed(30, [1.0], cold=True) == 120


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (RuntimeError("Job 5 cancelled part of cancelled job group 7"), True),
        (RuntimeError("java.lang.InterruptedException"), True),
        (type("Py4JNetworkError", (Exception,), {})("Answer from Java side is empty"), True),
        (RuntimeError("no such column"), False),
    ],
)
def test_whoever_stops_the_stream_is_no_query(error: Exception, ends: bool) -> None:
    assert ends_stream(error) == ends
