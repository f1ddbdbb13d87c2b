"""What joined queries must answer where everything may be asked: every window anew, id by id, slowly and obviously."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import skyband as sb

Event = dict[str, Any]
Score = Callable[[list[Event], float], float | None]
"""The score of an id, of its events in the window (in order of time) and its remote value."""


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
        found.append((start, end, _best(query, inside, score, remote, on, passes)))
        start += window.slide
    held = [i for i, (low, high, _) in enumerate(found) if any(_in(e, low, high, right) for e in taken)]
    return found[held[0] : held[-1] + 1]


def _in(event: Event, low: int, high: int, right: bool) -> bool:
    return bool(low < event["t"] <= high if right else low <= event["t"] < high)


def _best(
    query: sb.Query,
    inside: Sequence[Event],
    score: Score,
    remote: Mapping[Any, float],
    on: str,
    passes: Callable[[float], bool],
) -> list[tuple[Any, float]]:
    rows = []
    sign = -1 if query.order == "desc" else 1
    for name in {e["id"] for e in inside}:
        mine = sorted((e for e in inside if e["id"] == name), key=lambda e: (e["t"], -sign * _number(e["x"]), e[on]))
        value = remote.get(mine[-1][on])
        if value is None or not passes(value):
            continue
        total = score(mine, value)
        if total is not None and not math.isnan(total):
            rows.append((sign * total, -mine[-1]["t"], name, total))
    return [(name, total) for _, _, name, total in sorted(rows)[: query.most_rows]]


def _number(x: float | None) -> float:
    return -math.inf if x is None or math.isnan(x) else x
