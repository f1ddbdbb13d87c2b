"""What changes by the clock alone: how fast events come, how far the watermark is behind, how long nothing has come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

from skyband.serve.streams import StreamStats

QUIET = 10.0  # seconds without an event that are worth a word
UNSEEN = 30.0  # seconds in which the stream could not be read, after which it is gone
LONGEST = 60.0
Health = Literal["live", "quiet", "ended", "failed", "gone"]
WELL = frozenset({"live", "quiet"})


class Vitals:
    """How a stream does at any moment, also while nothing comes; the clock returns seconds since 1970."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.speed = Speed()
        self.busy = False  # whether a batch was under way at the last tick
        self._began = clock()
        self._unseen: float | None = None
        self._heard: float | None = None
        self._gap = 0.0
        self._before: tuple[object, ...] | None = None

    def note(self, stats: StreamStats) -> None:
        """Take in how the stream does now; the time of events is this clock's, since other machines have others."""
        now = self.clock()
        news = (stats.last_batch,) if stats.rows is None else (stats.rows,)
        if self._before is None:
            self._heard = stats.last_batch and min(stats.last_batch, now)
        elif news != self._before:
            self._gap = 0.0 if self._heard is None else now - self._heard
            self._heard = now
        self._before = news
        if stats.rows is not None:
            self.speed.note(now, stats.rows)

    def saw(self, well: bool) -> None:
        """Note whether the stream could be read."""
        self._unseen = None if well else self._unseen or self.clock()

    @property
    def silence(self) -> float:
        """For how many seconds no event has come; since the server began where there was none."""
        return max(0.0, self.clock() - (self._began if self._heard is None else self._heard))

    @property
    def is_quiet(self) -> bool:
        """Whether events should have come by now, as often as they did before."""
        return self.silence >= max(QUIET, min(2 * self._gap, LONGEST))

    def health(self, stats: StreamStats) -> tuple[Health, str]:
        """Return how the stream is, in one word and in a sentence."""
        now = self.clock()
        if stats.running == "failed":
            return "failed", "the stream has failed; the log says why"
        if stats.running == "ended":
            return "ended", "the stream has ended"
        if self._unseen is not None and now - self._unseen >= UNSEEN:
            return "gone", f"stream gone: it could not be read for {span(now - self._unseen)}; the log says why"
        if stats.running == "gone":
            sign = stats.sign_of_life
            return "gone", "stream gone" if sign is None else f"stream gone: no sign of life for {span(now - sign)}"
        if self._heard is None:
            return "quiet", "no events yet"
        if self.is_quiet:
            return ("live", "a batch is under way") if self.busy else ("quiet", f"no events for {span(self.silence)}")
        return "live", "live, in another process" if stats.running == "elsewhere" else "live"

    def shown(self, stats: StreamStats) -> dict[str, Any]:
        """Return what the clock has changed, for JSON."""
        now, mark = self.clock(), stats.watermark
        health, says = self.health(stats)
        return {
            "health": health,
            "says": says,
            "silence": None if self._heard is None else round(self.silence, 3),
            "rows_per_second": None if stats.rows is None else self.speed.at(now),
            "lag": round(now - mark.timestamp(), 3) if isinstance(mark, datetime) else None,  # else no time of day
            "now": datetime.fromtimestamp(now, UTC).isoformat().replace("+00:00", "Z"),
        }


def span(seconds: float) -> str:
    """Return a length of time as people say it.

    Examples
    --------
    >>> span(45.4), span(150), span(7200), span(400_000)
    ('45 s', '2 min', '2 h', '4 d')
    """
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds / size)} {unit}"
    return f"{max(0, int(seconds))} s"


class Speed:
    """Rows a second, over the last few seconds; over two batches where these are longer.

    Examples
    --------
    >>> speed = Speed()
    >>> for second in range(4):
    ...     speed.note(second, 100 * second)
    >>> speed.at(3.0), speed.at(6.0), speed.at(9.0)
    (100.0, 40.0, 0.0)
    """

    SECONDS = 5.0

    def __init__(self) -> None:
        self.seen: deque[tuple[float, int]] = deque()

    def note(self, now: float, rows: int) -> None:
        """Take note of how many rows there are now."""
        if not self.seen or rows != self.seen[-1][1]:
            self.seen.append((now, rows))
        while len(self.seen) > 2 and self.seen[1][0] <= now - self._span():
            self.seen.popleft()

    def _span(self) -> float:
        gap = self.seen[-1][0] - self.seen[-2][0] if len(self.seen) > 1 else 0.0
        return min(max(self.SECONDS, 2 * gap), LONGEST)

    def at(self, now: float) -> float | None:
        """Return the speed at a moment; None where too little is known."""
        if not self.seen or now <= self.seen[0][0]:
            return None
        since = max(now - self._span(), self.seen[0][0])
        before = next(rows for at, rows in reversed(self.seen) if at <= since)
        return round((self.seen[-1][1] - before) / (now - since), 1)
