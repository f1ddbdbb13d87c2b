"""What subscriptions are told, from the definition alone: everything is kept, and sorted anew at every step."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan, sqrt
from typing import Any

import skyband as sb

Row = dict[str, Any]
Told = tuple[int, str, str, Any, float]  # at which moment, who, what, of which id, with which score
TEXTS: dict[str, Callable[[Row], Any]] = {  # scores and conditions, the plain way
    "x * y": lambda row: row["x"] * row["y"],
    "case when kind = 'b' then y end": lambda row: row["y"] if row["kind"] == "b" else None,
    "kind = 'a'": lambda row: row["kind"] == "a",
    "y > 0.5": lambda row: row["y"] > 0.5,
}


def _differs(value: int) -> Callable[[Row], Any]:
    return lambda row: None if row["y"] is None else row["y"] != value


TEXTS |= {f"y <> {i}": _differs(i) for i in range(200)}
LOOKED_AT = {"x * y": ("x", "y"), "case when kind = 'b' then y end": ()}


def evaluated(text: str, row: Row) -> Any:
    """Return what an expression is for a row, None where something is missing."""
    try:
        return TEXTS[text](row)
    except TypeError:
        return None


class Plain:
    """One subscription: `come` with each row, `pass_time` where there is none; `told` is what it hears.

    An event leaves a window of time at a moment of its own, before any row of that moment comes.
    """

    def __init__(self, one: sb.Subscription, now: int = -1) -> None:
        self.one, self.now = one, now
        self.size, self.counts = one.extent
        self.seen: list[tuple[int, Row, float]] = []
        self.best: list[Any] = []
        self.ever: set[Any] = set()
        self.told: list[Told] = []
        self.counted = 0
        self.ended = False

    def come(self, row: Row) -> None:
        """Take in a row of the stream."""
        self.pass_time(self.now if row["t"] is None or row["id"] is None else row["t"])
        if self.ended or row["t"] is None or row["id"] is None or not self._counts(row):
            return
        self.counted += 1
        score = self._score(row)
        if (self.one.starts is None or self.now >= self.one.starts) and score is not None:
            self.seen.append((self.counted if self.counts else row["t"], row, score))
        self._step(self.now, (self.counted if self.counts else self.now) - self.size)

    def pass_time(self, to: int) -> None:
        """Let time pass; it never goes back."""
        before, self.now = self.now, max(self.now, to)
        ends = self.one.ends
        over = ends is not None and self.now >= ends
        leaves = set() if self.counts else {position + self.size for position, *_ in self.seen}
        for moment in sorted(moment for moment in leaves if before < moment <= self.now):
            if not self.ended and (ends is None or moment < ends):
                self._step(moment, moment - self.size)
        if over and not self.ended:
            self.seen = []
            self._step(ends or 0, 0)
            self.ended = True

    def _step(self, moment: int, edge: int) -> None:
        inside = [each for each in self.seen if each[0] > edge]
        sign = -1 if self.one.better == "desc" else 1
        inside.sort(key=lambda each: (sign * each[2], -each[1]["t"], each[1]["id"]))
        worth = {row["id"]: score for _, row, score in self.seen} | getattr(self, "worth", {})
        self.worth: dict[Any, float] = worth
        best = [row["id"] for _, row, _ in inside[: self.one.k]]
        changes = self.one.emit == "changes"
        happened = [("left", each) for each in self.best if each not in best and changes]
        for each in best:
            if each not in self.best and (each not in self.ever or changes):
                happened.append(("returned" if each in self.ever else "entered", each))
        self.told += [(moment, self.one.name, what, each, worth[each]) for what, each in happened]
        self.ever |= set(best)
        self.best = best

    def _counts(self, row: Row) -> bool:
        """Tell whether a row meets the condition, and has what is looked at."""
        one = self.one
        if one.where is not None and not evaluated(one.where, row):
            return False
        text = isinstance(one.score, str)
        names = {*one.within, *(LOOKED_AT[one.score] if isinstance(one.score, str) else one.score.columns)}
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
