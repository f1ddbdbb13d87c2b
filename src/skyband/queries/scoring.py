"""Scoring functions of subscriptions: how good an event is for one user.

These are the three families for which the best possible score within a cell of a grid is known. Any other score is an
expression, as in `Query`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np

from skyband.errors import QueryError
from skyband.order import FloatArray

Order = Literal["asc", "desc"]


@dataclass(frozen=True)
class ScoringFunction:
    """The base of the families: without a point, values are compared with 0; without weights, all count alike."""

    family: ClassVar[str]
    order: ClassVar[Order]

    def __post_init__(self) -> None:
        for part in fields(self):
            values = getattr(self, part.name)
            known = values.values() if isinstance(values, Mapping) else ()
            if not known or not all(isinstance(v, int | float) and np.isfinite(v) for v in known):
                msg = f"{part.name} is {values!r}; give a finite number for at least one column"
                raise QueryError(msg)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it looks at."""
        return tuple(getattr(self, fields(self)[0].name))

    def row(self, columns: tuple[str, ...]) -> tuple[FloatArray, FloatArray]:
        """Return point and weights in the order of columns."""
        point: Mapping[str, float] = getattr(self, "point", {})
        weights: Mapping[str, float] = getattr(self, "weights", dict.fromkeys(point, 1.0))
        return np.array([point.get(c, 0.0) for c in columns]), np.array([weights.get(c, 0.0) for c in columns])


@dataclass(frozen=True)
class WeightedSum(ScoringFunction):
    """The sum of columns, each times a weight; larger is better unless the query says otherwise.

    Examples
    --------
    >>> WeightedSum({"pm10": 0.7, "no2": 0.3}).columns
    ('pm10', 'no2')
    """

    weights: Mapping[str, float]
    family = "sum"
    order = "desc"


@dataclass(frozen=True)
class Distance(ScoringFunction):
    """The Euclidean distance to a point; smaller is better unless the query says otherwise.

    Examples
    --------
    >>> Distance({"lat": 45.8, "lon": 16.0}).columns
    ('lat', 'lon')
    """

    point: Mapping[str, float]
    family = "distance"
    order = "asc"


@dataclass(frozen=True)
class AttributeDistance(ScoringFunction):
    """The largest of the distances to a point, column by column, each times a weight; smaller is better.

    Examples
    --------
    >>> AttributeDistance({"price": 100.0, "size": 50.0}, weights={"price": 2.0, "size": 1.0}).columns
    ('price', 'size')
    """

    point: Mapping[str, float]
    weights: Mapping[str, float]
    family = "attributes"
    order = "asc"

    def __post_init__(self) -> None:
        super().__post_init__()
        if set(self.point) != set(self.weights):
            msg = (
                f"the point has {sorted(self.point)} and the weights {sorted(self.weights)}; give both for each column"
            )
            raise QueryError(msg)
        if min(self.weights.values()) < 0:
            msg = f"the weights of distances are {dict(self.weights)}; give none below 0"
            raise QueryError(msg)


Scoring = WeightedSum | Distance | AttributeDistance
FAMILIES: dict[str, type[Scoring]] = {family.family: family for family in (WeightedSum, Distance, AttributeDistance)}


def as_dict(score: Scoring | str) -> dict[str, Any] | str:
    """Return a scoring function as plain values; `from_dict` makes it again.

    Examples
    --------
    >>> as_dict(Distance({"lat": 45.8, "lon": 16.0}))
    {'distance': {'point': {'lat': 45.8, 'lon': 16.0}}}
    """
    if isinstance(score, str):
        return score
    return {score.family: {part.name: dict(getattr(score, part.name)) for part in fields(score)}}


def from_dict(given: Mapping[str, Any] | str) -> Scoring | str:
    """Make a scoring function, or leave an expression as it is."""
    if isinstance(given, str):
        return given
    if len(given) != 1 or (kind := next(iter(given))) not in FAMILIES:
        allowed = ", ".join(map(repr, FAMILIES))
        msg = f"score is {dict(given)!r}; give an expression, or one of {allowed} with its values"
        raise QueryError(msg)
    known = [part.name for part in fields(FAMILIES[kind])]
    if sorted(given[kind]) != sorted(known):
        msg = f"the score {kind!r} has {', '.join(sorted(given[kind])) or 'nothing'}; it needs {' and '.join(known)}"
        raise QueryError(msg)
    return FAMILIES[kind](**given[kind])
