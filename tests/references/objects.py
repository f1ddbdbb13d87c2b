"""What all references rank: objects of a stream, in the one order that the package has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cmp_to_key

from skyband.order import is_better


@dataclass(frozen=True)
class Object:
    """An object: F(o), when it arrived, and its id."""

    F: float
    time: int
    id: int


def better(a: Object, b: Object) -> bool:
    """Tell whether a ranks above b."""
    return bool(is_better.py_func(a.F, a.time, a.id, b.F, b.time, b.id))


def _compare(a: Object, b: Object) -> int:
    return better(b, a) - better(a, b)


def ranked(objects: Iterable[Object]) -> list[Object]:
    """Return objects, the best first."""
    return sorted(objects, key=cmp_to_key(_compare))
