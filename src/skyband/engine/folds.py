"""Folds: what is kept of aggregates per object, as arrays, and how values are put into them and taken out.

Counts and sums of integers are subtracted again when a pane leaves a window. Maxima and minima cannot be, and sums of
floating-point numbers must not: they would drift, and infinity less infinity is no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from skyband.engine.measures import HIGH, LOW, Measure
from skyband.engine.pane_kernels import add, add_floats, add_pairs, keep_largest, keep_smallest, take_off
from skyband.order import IntArray, SlotArray

Places: TypeAlias = IntArray | SlotArray
Arrays = tuple[npt.NDArray[Any], ...]


@dataclass(frozen=True)
class Fold:
    """One measure, or both halves of a sum of floating-point numbers.

    Parameters
    ----------
    measures
        What is kept, by name.
    kind
        ``"add"`` integers, ``"pair"`` of a sum and what rounding has lost, or which is kept: `max` or `min`.
    """

    measures: tuple[Measure, ...]
    kind: Literal["add", "pair", "max", "min"]

    @property
    def names(self) -> tuple[str, ...]:
        """What the arrays are called."""
        return tuple(one.name for one in self.measures)

    @property
    def is_subtracted(self) -> bool:
        """Whether what was put in can be taken out again."""
        return self.kind == "add"

    def nothing(self, count: int) -> Arrays:
        """Return arrays for so many objects, of nothing yet."""
        return tuple(np.full(count, one.nothing, np.int64 if self._whole else np.float64) for one in self.measures)

    @property
    def _whole(self) -> bool:
        return self.kind == "add" or self.measures[0].whole

    def take(self, at: Places, values: npt.NDArray[Any], into: Arrays) -> None:
        """Put in values of single events; each belongs to the object `at` its place."""
        if self.kind == "pair":
            add_floats(at, values, *into)
        else:
            self.merge(at, (values,), into)

    def merge(self, at: Places, more: Arrays, into: Arrays) -> None:
        """Put in what was kept of other events."""
        fold = {"add": add, "pair": add_pairs, "max": keep_largest, "min": keep_smallest}[self.kind]
        fold(at, *more, *into)

    def take_off(self, at: Places, less: Arrays, of: Arrays) -> None:
        """Take out what was put in before."""
        assert self.is_subtracted
        take_off(at, *less, *of)


def folds_of(measures: Mapping[str, Measure]) -> list[Fold]:
    """Return how measures are kept; none of them is a set.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from skyband.engine.measures import measures
    >>> from skyband.expressions import parse
    >>> from skyband.queries.decomposition import Aggregate
    >>> both = [Aggregate("avg", parse("x")), Aggregate("max", parse("x"))]
    >>> [(fold.kind, fold.names) for fold in folds_of(measures(both, pa.schema([("x", pa.float64())])))]
    [('pair', ('high sum(x)', 'low sum(x)')), ('add', ('count(x)',)), ('max', ('max(x)',))]
    """
    found = []
    for one in measures.values():
        if one.half and not one.whole:
            found += [Fold((one, replace(one, half=LOW)), "pair")] if one.half == HIGH else []
        elif one.function in ("max", "min"):
            found.append(Fold((one,), "max" if one.function == "max" else "min"))
        else:
            found.append(Fold((one,), "add"))
    return found
