"""Signs of life in a checkpoint folder: they show any process that sees the folder whether the stream still runs.

A thread beside the stream sets the time of one file every few seconds. So a long batch does not look like a death, and
batches write nothing for it. A stream that ends says so in the file. One whose process was killed says nothing more,
and after some silence it counts as gone.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

from skyband.spark.checkpoint import Checkpoint

EVERY = 5.0  # seconds
SILENCE = 30.0  # seconds without a beat after which a stream is gone
Seen = Literal["elsewhere", "ended", "failed", "gone"]


class Heartbeat:
    """Beats every so many seconds while a stream runs; without Spark's handle of it, as long as the process lives."""

    _of: ClassVar[dict[Path, Heartbeat]] = {}  # those of this process

    def __init__(self, checkpoint: Checkpoint, query: Any = None, every: float = EVERY) -> None:
        self.checkpoint, self.query, self.every = checkpoint, query, every
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="skyband-heartbeat", daemon=True)
        if (before := self._of.get(checkpoint.folder)) is not None:
            before._stopping.set()
        self._of[checkpoint.folder] = self
        if query is not None:
            checkpoint.mark("running")
        self._thread.start()

    @classmethod
    def ensure(cls, checkpoint: Checkpoint) -> None:
        """Beat from this process too, if it does not: on Spark Connect batches run in a process of their own."""
        if checkpoint.folder not in cls._of:
            cls(checkpoint)

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # of a session that was stopped, or a server that is out of reach
            while self.query is None or self.query.isActive:
                if self._stopping.wait(self.every):
                    return
                self.checkpoint.beat()
            self._end()

    def stop(self) -> None:
        """Beat no longer, and say how the stream ended."""
        self._stopping.set()
        self._thread.join()
        self._end()

    def _end(self) -> None:
        if self._of.get(self.checkpoint.folder) is self:  # else the stream was started again
            del self._of[self.checkpoint.folder]
            with contextlib.suppress(Exception):  # the folder may be gone by now, and Spark too
                self.checkpoint.mark("ended" if self.query.exception() is None else "failed")


class Observer:
    """Finds out from its folder whether a stream runs.

    Machines do not agree about the time. So what counts is how long the observer has seen no new beat, by its own
    clock; only for a beat that was there before the observer does the file's time say how old it is.
    """

    def __init__(self, checkpoint: Checkpoint, clock: Callable[[], float] = time.time) -> None:
        self.checkpoint, self.clock = checkpoint, clock
        self.heard: float | None = None  # when there was the last sign of life, in seconds since 1970
        self._last: float | None = None

    def look(self) -> Seen:
        """Return the state of the stream; one that never gave a sign of life is gone."""
        found, now = self.checkpoint.sign_of_life(), self.clock()
        if found is None:
            return "gone"
        state, at = found
        if at != self._last:
            self.heard = min(at, now) if self._last is None else now
            self._last = at
        if state != "running":
            return "failed" if state == "failed" else "ended"
        return "elsewhere" if self.heard is not None and now - self.heard < SILENCE else "gone"
