"""What joined queries must answer where everything may be asked: every window anew, id by id, slowly and obviously."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import skyband as sb

Event = dict[str, Any]
Score = Callable[[list[Event], float], float | None]
"""The score of an id, of its events in the window (in order of time) and its remote value."""


class Found(NamedTuple):
    """One id of an answer: its score, its remote value, and the event that counts."""

    id: Any
    score: float
    value: float | None
    event: Event

    @property
    def time(self) -> int:
        return int(self.event["t"])


def events(seed: int, n: int = 120, span: int = 400, ids: int = 9, jitter: int = 0) -> list[Event]:
    """Return a stream: in order of time, then shaken by up to `jitter`; now and then something is NULL or NaN."""
    rng = random.Random(seed)
    made = []
    for _ in range(n):
        x = rng.choice([rng.randint(0, 9) / 2, rng.randint(0, 9) / 2, None, math.nan]) if rng.random() < 0.1 else 0.5
        made.append(
            {
                "t": rng.randrange(span), "id": rng.randrange(ids) if rng.random() > 0.02 else None,
                "home": f"h{rng.randrange(4)}" if rng.random() > 0.02 else None,
                "x": rng.randint(0, 9) / 2 if rng.random() > 0.1 else x, "ok": rng.random() > 0.2,
            }
        )  # fmt: skip
    return sorted(made, key=lambda event: event["t"] + rng.uniform(0, jitter))


def answers(
    query: sb.Query,
    stream: Sequence[Event],
    score: Score,
    remote: Mapping[Any, float],
    *,
    on: str = "id",
    keep: Callable[[Event], bool] = lambda _: True,
    passes: Callable[[float], bool] = lambda _: True,
) -> list[tuple[int, int, list[tuple[Any, float]]]]:
    """Return (start, end, [(id, score)]) for every window that contains an event, and the empty ones between."""
    window = query.window
    taken = [e for e in stream if e["t"] is not None and e["id"] is not None and e[on] is not None and keep(e)]
    if not taken:
        return []
    right = window.closed == "right"
    first, last = min(e["t"] for e in taken), max(e["t"] for e in taken)
    start = (first - window.size - window.offset) // window.slide * window.slide + window.offset - window.slide
    found = []
    while start <= last:
        end = start + window.size
        inside = [e for e in taken if (start < e["t"] <= end if right else start <= e["t"] < end)]
        best = best_of(query, inside, score, remote, on=on, passes=passes, part=_x)
        found.append((start, end, [(one.id, one.score) for one in best]))
        start += window.slide
    held = [i for i, (low, high, _) in enumerate(found) if any(_in(e, low, high, right) for e in taken)]
    return found[held[0] : held[-1] + 1]


def _in(event: Event, low: int, high: int, right: bool) -> bool:
    return bool(low < event["t"] <= high if right else low <= event["t"] < high)


def best_of(
    query: sb.Query,
    inside: Sequence[Event],
    score: Score,
    remote: Mapping[Any, float | None] | None,
    *,
    key: str = "id",
    on: str = "id",
    passes: Callable[[float], bool] = lambda _: True,
    part: Callable[[Event], float] | None = None,
) -> list[Found]:
    """Return the ids of one window, the best first, or by id where the query asks for a set.

    Parameters
    ----------
    query, inside, score
        The query, the events of the window, and the score of an id.
    remote
        The remote values, by the column `on`; None where there is no join.
    key
        The column of ids.
    passes
        The condition on the remote value.
    part
        The stream's part of the score, where one event counts; None where all do.
    """
    rows = []
    sign = -1 if query.order == "desc" else 1
    for name in {e[key] for e in inside}:
        mine = sorted((e for e in inside if e[key] == name), key=lambda e: _turn(e, sign, part, on, query.select))
        value = None if remote is None else remote.get(mine[-1][on])
        if remote is not None and (value is None or not passes(value)):
            continue
        total = score(mine, value or 0.0)
        if total is not None and not math.isnan(total):
            rows.append(Found(name, total, value, mine[-1]))
    first = {None: 0}  # NULL comes before every id
    rows.sort(
        key=lambda one: one.id if query.is_set else (sign * one.score, -one.time, first.get(one.id, 1), one.id or 0)
    )
    return rows[: query.most_rows]


def _turn(event: Event, sign: int, part: Callable[[Event], float] | None, on: str, select: Sequence[str]) -> Any:
    """Sort events of an id, the one that counts last: the latest, then by part, remote id, and what is selected."""
    return (event["t"], 0.0 if part is None else -sign * part(event), event[on], _Backwards(event, select))


class _Backwards:
    """What is selected of an event, in the opposite order: NULL last."""

    def __init__(self, event: Event, select: Sequence[str]) -> None:
        values = [event[name] for name in select]
        self.values = [(value is not None, 0 if value is None else value) for value in values]

    def __lt__(self, other: _Backwards) -> bool:
        return self.values > other.values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Backwards) and self.values == other.values

    __hash__ = None  # type: ignore[assignment]


def _x(event: Event) -> float:
    x = event["x"]
    return -math.inf if x is None or math.isnan(x) else float(x)
