"""Cuts a history that fails down to a small one that still does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import Field, replace
from typing import Any, ClassVar, Protocol, TypeVar

from tests.simulation.histories import History


class Whole(Protocol):
    """Any history: its steps have a `do`, `rows`, an `ask` and a `name`."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def steps(self) -> tuple[Any, ...]: ...


H = TypeVar("H", bound=Whole)


def shrink(history: H, fails: Callable[[H], bool], rounds: int = 2_000) -> H:
    """Return the smallest history found that still fails; each round tries one smaller one."""
    found = True
    while found and rounds:
        found = False
        for smaller in candidates(history):
            rounds -= 1
            if is_sound(smaller) and fails(smaller):
                history, found = smaller, True
                break
            if not rounds:
                break
    return history


def candidates(history: H) -> Iterator[H]:
    """Yield what is left when something is taken away: large parts first."""
    steps = history.steps
    for size in (len(steps) // 2, len(steps) // 4, 1):
        for at in range(0, len(steps), size) if size else ():
            yield replace(history, steps=steps[:at] + steps[at + size :])
    for place, step in enumerate(steps):
        rows = step.rows
        for size in (len(rows) // 2, len(rows) // 8, 1):
            for at in range(0, len(rows), size) if size else ():
                yield _with(history, place, replace(step, rows=rows[:at] + rows[at + size :]))
    for place, step in enumerate(steps):
        if step.ask is not None:
            for ask in step.ask.simpler():
                yield _with(history, place, replace(step, ask=ask))
    for place in range(len(steps) - 1):
        if steps[place].do == steps[place + 1].do == "push":
            joined = replace(steps[place], rows=steps[place].rows + steps[place + 1].rows)
            yield replace(history, steps=(*steps[:place], joined, *steps[place + 2 :]))


def is_sound(history: Whole) -> bool:
    """Tell whether every step speaks of a query that is there, and every new one of a new name."""
    alive: set[str] = set()
    for step in history.steps:
        name = step.name or (step.ask.name if step.ask else "")
        if step.do in ("register", "add"):
            if name in alive:
                return False
            alive.add(name)
        elif step.do in ("change", "pause", "resume", "remove") and name not in alive:
            return False
        if step.do == "remove":
            alive.remove(name)
    return bool(history.begun) if isinstance(history, History) else True


def _with(history: H, place: int, step: Any) -> H:
    return replace(history, steps=(*history.steps[:place], step, *history.steps[place + 1 :]))
