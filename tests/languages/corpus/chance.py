"""Random queries of the forms that are read: the text, and the same question to DuckDB."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.languages.corpus.cases import CUMULATE, HOP, TUMBLE, Case

_VIEWS = {"tumble": TUMBLE, "hop": HOP, "cumulate": CUMULATE, "sales": "sales"}
_CONDITIONS = (
    "price > 60", "volume <= 3", "shop <> 'west'", "country IS NOT NULL", "product IN ('tea', 'ale')",
    "price BETWEEN 50 AND 200", "NOT (volume = 2)", "(country = 'DE' OR volume > 2)", "shop LIKE '%th'",
    "coalesce(country, 'XX') <> 'FR'", "CASE WHEN volume > 2 THEN price ELSE 10 END > 30", "price * volume < 800",
)  # fmt: skip
_SCORES = ("price", "volume", "price * volume", "price - 40 * volume", "abs(price - 100)", "volume % 3")
_AGGREGATES = (
    "SUM(price)", "COUNT(*)", "MAX(price)", "MIN(volume)", "AVG(price)", "SUM(price * volume)", "COUNT(country)",
    "COUNT(DISTINCT product)", "MAX(price) - MIN(price)", "SUM(price) + 10 * COUNT(*)",
)  # fmt: skip
_HAVING = ("COUNT(*) > 1", "SUM(volume) >= 4", "MAX(price) > 100", "COUNT(country) > 0")
_FUNCTIONS = ("ROW_NUMBER", "ROW_NUMBER", "RANK", "DENSE_RANK")
_KEYS = ("shop", "product", "country", "upper(shop)")


@dataclass
class _Draw:
    """What one query asks."""

    chance: random.Random
    view: str = ""
    where: list[str] = field(default_factory=list)
    having: list[str] = field(default_factory=list)
    function: str = ""
    keys: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    score: str = ""
    descending: bool = True
    k: int = 1

    def __post_init__(self) -> None:
        chance = self.chance
        self.view = chance.choice(list(_VIEWS))
        self.where = chance.sample(_CONDITIONS, chance.choice((0, 0, 1, 2)))
        self.function = chance.choice(_FUNCTIONS)
        self.keys = chance.sample(_KEYS, chance.choice((0, 1, 1, 2)))
        self.score = chance.choice(_AGGREGATES if self.keys else _SCORES)
        self.having = chance.sample(_HAVING, chance.choice((0, 0, 1))) if self.keys else []
        possible = self.keys if self.keys else list(_KEYS)
        self.parts = chance.sample(possible, chance.randrange(len(self.keys))) if self.keys else chance.sample(
            possible, chance.choice((0, 0, 1, 2)))  # fmt: skip
        self.descending, self.k = chance.random() < 0.7, chance.randint(1, 4)

    @property
    def edges(self) -> list[str]:
        return [] if self.view == "sales" else ["window_start", "window_end"]


def drawn(seed: int) -> Case:
    """Return a random case."""
    draw = _Draw(random.Random(seed))
    return Case(f"seed {seed}", _text(draw), _truth(draw))


def _direction(draw: _Draw) -> str:
    return "DESC" if draw.descending else "ASC"


def _conditions(conditions: list[str], word: str) -> str:
    return f" {word} {' AND '.join(conditions)}" if conditions else ""


def _text(draw: _Draw) -> str:
    """Write a query in one of the ways in which it can be said."""
    chance, inner = draw.chance, _inner(draw)
    names = {key: f"k{number}" for number, key in enumerate(draw.keys)}
    parts = [*draw.edges, *(names.get(part, part) for part in draw.parts)]
    score = "value" if draw.keys or chance.random() < 0.5 else draw.score
    partition = f"PARTITION BY {', '.join(chance.sample(parts, len(parts)))} " if parts else ""
    over = f"{draw.function}() OVER ({partition}ORDER BY {score} {_direction(draw)})"
    bound = chance.choice((f"n <= {draw.k}", f"n < {draw.k + 1}", f"{draw.k} >= n"))
    shown = ", ".join((*names.values(), "value")) if draw.keys else "id, value"
    ranked = f"SELECT *, {over} AS n FROM"
    return chance.choice((
        f"SELECT {shown}, n FROM ({ranked} ({inner}) AS t) AS r WHERE {bound}",
        f"WITH a AS ({inner}), b AS ({ranked} a) SELECT {shown}, b.n FROM b WHERE {bound}",
        f"CREATE VIEW a AS {inner}; SELECT {shown}, {over} AS n FROM a QUALIFY {bound}",
        f"CREATE VIEW v AS {ranked} ({inner}); INSERT INTO best SELECT {shown} FROM v WHERE {bound}",
    ))  # fmt: skip


def _inner(draw: _Draw) -> str:
    """Write what is ranked; conditions may stand in a query of their own."""
    chance, source, where = draw.chance, _VIEWS[draw.view], list(draw.where)
    if where and chance.random() < 0.4:
        source = f"(SELECT * FROM {source}{_conditions([where.pop()], 'WHERE')})"
    if not draw.keys:
        return f"SELECT *, {draw.score} AS value FROM {source}{_conditions(where, 'WHERE')}"
    named = [f"{key} AS k{number}" for number, key in enumerate(draw.keys)]
    by = chance.sample([*draw.edges, *draw.keys], len(draw.edges) + len(draw.keys))
    return (
        f"SELECT {', '.join([*draw.edges, *named])}, {draw.score} AS value FROM {source}{_conditions(where, 'WHERE')} "
        f"GROUP BY {', '.join(by)}{_conditions(draw.having, 'HAVING')}"
    )


def _truth(draw: _Draw) -> str:
    edge = ["window_end"] if draw.edges else []
    parts = [*edge, *draw.parts]
    partition = f"PARTITION BY {', '.join(parts)}" if parts else ""
    ties = "" if draw.function != "ROW_NUMBER" else ", max(ts) DESC" if draw.keys else ", ts DESC"
    over = f"{draw.function}() OVER ({partition} ORDER BY {draw.score} {_direction(draw)}{ties})"
    shown = [*edge, *(f"{key} AS k{number}" for number, key in enumerate(draw.keys))] if draw.keys else [*edge, "id"]
    grouped = f" GROUP BY {', '.join([*edge, *draw.keys])}" if draw.keys else ""
    return (
        f"SELECT {', '.join(shown)}, {draw.score} AS value, {over} AS rank FROM {draw.view}"
        f"{_conditions(draw.where, 'WHERE')}{grouped}{_conditions(draw.having, 'HAVING')} QUALIFY rank <= {draw.k}"
    )
