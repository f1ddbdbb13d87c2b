"""What subscriptions are told, from the definition alone: everything is kept, and sorted anew at every step."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan, sqrt
from typing import Any, NamedTuple

import skyband as sb
from tests.simulation.histories import FILTERS, SCORES

Row = dict[str, Any]
Told = tuple[int, str, str, Any, float]  # at which moment, who, what, of which id, with which score


class Event(NamedTuple):
    """A row that counts: its number among all rows, its place on the axis of the window, and what it is worth."""

    number: int
    position: int
    row: Row
    score: float


class Heard(NamedTuple):
    """One notice: when it happened, at which row (-1: time alone did it), to whom, what, and of which event."""

    at: int
    row: int
    subscription: str
    change: str
    event: Event


TEXTS: dict[str, Callable[[Row], Any]] = {  # scores and conditions, the plain way
    "x * y": lambda row: row["x"] * row["y"],
    "case when kind = 'b' then y end": lambda row: row["y"] if row["kind"] == "b" else None,
    "kind = 'a'": lambda row: row["kind"] == "a",
    "y > 0.5": lambda row: row["y"] > 0.5,
}


def _differs(value: int) -> Callable[[Row], Any]:
    return lambda row: None if row["y"] is None else row["y"] != value


TEXTS |= FILTERS | SCORES | {f"y <> {i}": _differs(i) for i in range(200)}
LOOKED_AT = {"x * y": ("x", "y"), "case when kind = 'b' then y end": ()}


def evaluated(text: str, row: Row) -> Any:
    """Return what an expression is for a row, None where something is missing."""
    try:
        return TEXTS[text](row)
    except TypeError:
        return None


class Plain:
    """One subscription: `come` with each row, `pass_time` where there is none; `heard` is what it hears.

    An event leaves a window of time at a moment of its own, before any row of that moment comes.
    """

    def __init__(self, one: sb.Subscription, now: int = -(10**18)) -> None:
        self.one, self.now = one, now
        self.size, self.counts = one.extent
        self.seen: list[Event] = []
        self.top: list[Event] = []
        self.ever: set[int] = set()
        self.heard: list[Heard] = []
        self.counted = self.late = 0
        self.ended = False

    @property
    def best(self) -> list[Any]:
        """The ids of the best, the best first."""
        return [event.row["id"] for event in self.top]

    @property
    def told(self) -> list[Told]:
        """What it hears, in short."""
        return [
            (each.at, each.subscription, each.change, each.event.row["id"], each.event.score) for each in self.heard
        ]

    def come(self, row: Row, number: int | None = None) -> None:
        """Take in a row of the stream, which has a number there."""
        self.pass_time(self.now if row["t"] is None or row["id"] is None else row["t"])
        if self.ended or row["t"] is None or row["id"] is None or not self._counts(row):
            return
        self.counted += 1
        number = self.counted if number is None else number
        score, active = self._score(row), self.is_active
        self.late += active and not self.counts and row["t"] <= self.now - self.size
        if active and score is not None:
            self.seen.append(Event(number, self.counted if self.counts else row["t"], row, score))
        self._step(self.now, (self.counted if self.counts else self.now) - self.size, number)

    @property
    def is_active(self) -> bool:
        """Whether it sees the rows of now."""
        return not self.ended and (self.one.starts is None or self.now >= self.one.starts)

    def lacks(self, row: Row) -> bool:
        """Tell whether a row meets the condition, and lacks something that is looked at."""
        return self.is_active and self._passes(row) and not self._counts(row)

    def pass_time(self, to: int) -> None:
        """Let time pass; it never goes back."""
        before, self.now = self.now, max(self.now, to)
        ends = self.one.ends
        over = ends is not None and self.now >= ends
        leaves = set() if self.counts else {event.position + self.size for event in self.seen}
        for moment in sorted(moment for moment in leaves if before < moment <= self.now):
            if not self.ended and (ends is None or moment < ends):
                self._step(moment, moment - self.size, -1)
        if over and not self.ended:
            self.seen = []
            self._step(ends or 0, 0, -1)
            self.ended = True

    def _step(self, moment: int, edge: int, number: int) -> None:
        inside = [event for event in self.seen if event.position > edge]
        sign = -1 if self.one.better == "desc" else 1
        inside.sort(key=lambda event: (sign * event.score, -event.row["t"], event.row["id"], event.number))
        before, self.top = self.top, inside[: self.one.k]
        old, new = ({event.number for event in some} for some in (before, self.top))
        changes = self.one.emit == "changes"
        happened = [("left", event) for event in before if event.number not in new and changes]
        for event in self.top:
            if event.number not in old and (event.number not in self.ever or changes):
                happened.append(("returned" if event.number in self.ever else "entered", event))
        self.heard += [Heard(moment, number, self.one.name, what, event) for what, event in happened]
        self.ever |= new

    def worth(self, row: Row) -> float | None:
        """Return what a row is worth to this subscription, None where it does not count."""
        return self._score(row) if self._counts(row) else None

    def _passes(self, row: Row) -> bool:
        return self.one.where is None or bool(evaluated(self.one.where, row))

    def _counts(self, row: Row) -> bool:
        """Tell whether a row meets the condition, and has what is looked at."""
        one = self.one
        if not self._passes(row):
            return False
        text = isinstance(one.score, str)
        names = {*one.within, *(LOOKED_AT.get(one.score, ()) if isinstance(one.score, str) else one.score.columns)}
        values = [row[name] for name in names] + ([evaluated(str(one.score), row)] if text else [])
        return all(value is not None and not isnan(value) for value in values)

    def _score(self, row: Row) -> float | None:
        """Return what an event is worth, None where it lies outside of the box or is worth nothing that is known."""
        score, value = self.one.score, 0.0
        if any(not low <= row[name] <= high for name, (low, high) in self.one.within.items()):
            return None
        if isinstance(score, str):
            value = float(evaluated(score, row))
        elif isinstance(score, sb.Distance):
            value = sqrt(sum((row[name] - at) ** 2 for name, at in sorted(score.point.items())))
        elif isinstance(score, sb.WeightedSum):
            value = sum(row[name] * weight for name, weight in sorted(score.weights.items()) if weight)
        else:
            away = [
                score.weights[name] * abs(row[name] - at) for name, at in score.point.items() if score.weights[name]
            ]
            value = max(away, default=0.0)
        return None if isnan(value) else float(value)
