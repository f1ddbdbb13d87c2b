"""How many files of the package the way of an event runs through: who adds a layer or a detour raises a number here."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import skyband as sb

ROOT = Path(sb.__file__).parent
WINDOW = sb.Window(10)
ROWS = {"t": [1, 3, 12], "name": ["a", "b", "c"], "x": [5.0, 7.0, 1.0]}
LATER = {"t": [13, 17, 24], "name": ["c", "d", "a"], "x": [2.0, 3.0, 4.0]}


def _value(ids: Any) -> dict[Any, float]:
    return dict.fromkeys(ids, 1.0)


def _files(query: sb.Query) -> set[str]:
    """Return the files whose functions run in one push and one advance of a monitor that has begun."""
    for _ in range(2):  # the first one compiles and looks things up once and for all
        monitor = sb.Monitor([query], time="t", id="name", services={"likes": _value})
        monitor.push(ROWS)
        monitor.advance(11)
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            found.add(str(path.relative_to(ROOT)))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        monitor.push(LATER)
        monitor.advance(22)
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.parametrize(
    ("query", "most"),
    [
        (sb.Query("ranking", k=2, score="x", window=WINDOW), 19),
        (sb.Query("aggregate", k=2, score="sum(x)", window=WINDOW), 23),
        (sb.Query("join", k=2, score="x + likes", window=WINDOW, join=sb.Join("likes", budget=2)), 26),
    ],
    ids=lambda given: getattr(given, "name", None),
)
def test_the_way_of_an_event_is_short(query: sb.Query, most: int) -> None:
    files = _files(query)
    assert len(files) <= most, sorted(files)


def test_a_ranking_runs_no_code_of_other_kinds() -> None:
    files = _files(sb.Query("ranking", k=2, score="x", window=WINDOW))
    assert not {name for name in files if name.startswith("remote/") or "join" in name or "aggregates" in name}
