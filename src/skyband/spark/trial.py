"""New queries are on trial: one that breaks a batch, or makes it too slow, is suspended and stops nobody.

A batch that fails or exceeds its budget while queries are on trial is tried again without the newest half of them,
until it passes. Whoever was suspended together with others is tried again by itself in a later batch, and so is
everybody where the batch was too slow without them as well.
"""

from __future__ import annotations

import threading
import time as clock
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal

TRIAL_BATCHES = 3  # after so many batches a query is no longer on trial
COLD = 4  # so many times the budget has the first batch of a process, for which Spark compiles everything anew
SLOW = 3  # a batch may take so many times as long as the slowest of the recent ones, whatever the budget
RECENT = 10
POLL = 0.25


class Watch:
    """Stops the Spark jobs of a batch that takes too long, or of which someone has `asked` for another attempt.

    The session of a batch is the stream's own, so nobody else's jobs are stopped.
    """

    def __init__(self, session: Any, asked: Callable[[], bool]) -> None:
        self.session, self.asked = session, asked
        self.began = clock.monotonic()
        self.limit: float | None = None  # in seconds; None: the batch may take as long as it likes
        self.why: Literal["slow", "asked"] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="skyband-watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()  # what it stops after that would belong to another attempt

    @property
    def seconds(self) -> float:
        """How long the batch has taken so far."""
        return clock.monotonic() - self.began

    @property
    def is_slow(self) -> bool:
        """Whether the batch takes longer than it may."""
        return self.limit is not None and self.seconds > self.limit

    def _run(self) -> None:
        while not self._over.wait(POLL):
            with suppress(Exception):  # such as a file that is just being written; there is another look
                if self.why is None:
                    self.why = "slow" if self.is_slow else "asked" if self.asked() else None
                if self.why is not None:  # again and again: while Spark plans there is no job to stop yet
                    self.session.interruptAll()


def newest_half(names: Sequence[str]) -> list[str]:
    """Return whom to do without in the next attempt; at least one, if there is one.

    Examples
    --------
    >>> newest_half(["a", "b", "c", "d", "e"]), newest_half(["a"]), newest_half([])
    (['d', 'e'], ['a'], [])
    """
    return list(names[-max(1, len(names) // 2) :])


def allowed(budget: float, earlier: Iterable[float], cold: bool) -> float:
    """Return how many seconds a batch may take, by the budget and by what earlier batches took.

    Examples
    --------
    >>> allowed(30, [1.0, 2.0], cold=False), allowed(30, [40.0], cold=False), allowed(30, [], cold=True)
    (30, 120.0, 120)
    """
    usual = max([*earlier][-RECENT:], default=0.0)
    return max(budget * (COLD if cold else 1), SLOW * usual)


def ends_stream(error: Exception) -> bool:
    """Return whether an error comes from outside the batch: somebody stops the stream, or Spark is gone."""
    text = f"{type(error).__name__}: {error}".lower()
    return any(sign in text for sign in ("cancelled", "interruptedexception", "py4jnetworkerror"))
