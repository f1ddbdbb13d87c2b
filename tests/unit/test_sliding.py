"""Windows of aggregates that slide, stand still or jump over panes that come, change and go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skyband.engine.folds import folds_of
from skyband.engine.measures import measures
from skyband.engine.sliding import Partial, SlidingWindow
from skyband.expressions import parse
from skyband.order import NEVER
from skyband.queries.decomposition import Aggregate

LENGTH = 5
SCHEMA = pa.schema([("i", pa.int64()), ("x", pa.float64())])
FOLDS = folds_of(
    measures([Aggregate("sum", parse("i")), Aggregate("max", parse("i")), Aggregate("sum", parse("x"))], SCHEMA)
)


def pane(rng: np.random.Generator, objects: int, number: int) -> Partial:
    """Draw a pane; all of its times are later than those of the panes before."""
    chosen = np.flatnonzero(rng.random(objects) < 0.5).astype(np.int32)
    rows, latest = rng.integers(1, 9, len(chosen)), 10 * number + rng.integers(0, 10, len(chosen))
    kinds: list[Any] = [(rng.integers(0, 100, len(chosen)) * 1.0, np.zeros(len(chosen))) if fold.kind == "pair"
                        else (rng.integers(-99, 99, len(chosen)),) for fold in FOLDS]  # fmt: skip
    return Partial(chosen, rows, latest, kinds)


def together(parts: list[Partial], objects: int) -> tuple[Any, ...]:
    """Return rows, latest times and folds, pane by pane and value by value."""
    rows, latest = np.zeros(objects, np.int64), np.full(objects, NEVER)
    found = [fold.nothing(objects) for fold in FOLDS]
    for part in parts:
        rows[part.objects] += part.rows
        latest[part.objects] = np.maximum(latest[part.objects], part.latest)
        for fold, more, into in zip(FOLDS, part.folds, found, strict=True):
            fold.merge(part.objects, more, into)
    names = {name: array for fold, arrays in zip(FOLDS, found, strict=True)
             for name, array in zip(fold.names, arrays, strict=True)}  # fmt: skip
    return rows, latest, names


@pytest.mark.parametrize("forgets", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_a_window_holds_what_its_panes_hold(seed: int, forgets: bool) -> None:
    rng = np.random.default_rng(seed)
    objects, first = 3, int(rng.integers(-9, 9))
    panes: dict[int, Partial] = {}
    window = SlidingWindow(
        FOLDS, LENGTH, lambda low, high: [n for n in sorted(panes) if low <= n < high], lambda number: panes[number]
    )
    for _ in range(60):
        objects += int(rng.integers(0, 3))
        for number in rng.integers(first, first + LENGTH + 3, int(rng.integers(0, 4))).tolist():
            panes[number] = pane(rng, objects, number)
            window.touch(number)
        window.move(first, first + LENGTH, objects)
        wanted = together([panes[n] for n in sorted(panes) if first <= n < first + LENGTH], objects)
        inside = np.flatnonzero(wanted[0])
        assert np.array_equal(window.rows[:objects], wanted[0])
        assert np.array_equal(window.latest[inside], wanted[1][inside])
        kept = window.kept(inside)
        assert {name: array.tolist() for name, array in kept.items()} == {
            name: array[inside].tolist() for name, array in wanted[2].items()
        }
        first += int(rng.choice([0, 1, 1, 1, 2, 4, 7, 12]))
        if forgets:
            window.leave(first)
            for number in [n for n in panes if n < first]:
                del panes[number]


def test_a_window_begins_anew_once_in_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, begun = np.random.default_rng(1), list[int]()
    begin = SlidingWindow._begin

    def counted(self: SlidingWindow, first: int, behind: int, objects: int) -> None:
        begun.append(first)
        begin(self, first, behind, objects)

    monkeypatch.setattr(SlidingWindow, "_begin", counted)
    panes = {number: pane(rng, 4, number) for number in range(60)}
    window = SlidingWindow(FOLDS, LENGTH, lambda low, high: list(range(max(low, 0), min(high, 60))), panes.__getitem__)
    for first in range(50):
        window.move(first, first + LENGTH, 4)
    assert begun == list(range(0, 50, LENGTH))
