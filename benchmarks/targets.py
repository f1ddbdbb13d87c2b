"""What is promised, and whether a run kept it: computed from the rows, never typed in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.measure import Row


@dataclass(frozen=True)
class Target:
    """One promise: a measured figure, and the most (or the least) that it may be."""

    text: str
    figure: float
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the figure keeps to the limit."""
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The target as a line of a table: what, measured, promised, met or not."""
        sign = "≥" if self.at_least else "≤"
        return self.text, f"{self.figure:.2f}", f"{sign} {self.limit:.2f}", "met" if self.met else "not met"


def of(rows: Iterable[Row], experiment: str, way: str = "", value: str = "") -> list[Row]:
    """Return the rows of an experiment whose way begins so (and whose value is this)."""
    return [r for r in rows if r.experiment == experiment and r.way.startswith(way) and value in ("", r.value)]
