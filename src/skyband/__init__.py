"""Continuous top-k queries over streams.

>>> import skyband as sb
>>> q = sb.Query("volatile", k=2, score="price * volume", window=sb.Window("1 hour", slide="30 minutes"))
>>> trades = [
...     {"ts": "2024-05-01T09:10:00Z", "symbol": "A", "price": 10.0, "volume": 7},
...     {"ts": "2024-05-01T09:20:00Z", "symbol": "B", "price": 20.0, "volume": 5},
...     {"ts": "2024-05-01T09:40:00Z", "symbol": "C", "price": 30.0, "volume": 1},
... ]
>>> for answer in sb.run([q], trades, time="ts", id="symbol"):
...     print(answer.end.strftime("%H:%M"), [(row.rank, row.id, row.score) for row in answer.rows])
09:30 [(1, 'B', 100.0), (2, 'A', 70.0)]
10:00 [(1, 'B', 100.0), (2, 'A', 70.0)]
10:30 [(1, 'C', 30.0)]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyband import spark as spark
    from skyband.algorithms import ALGORITHMS
    from skyband.answers.answer import Answer, Answers, Change, Row
    from skyband.answers.place import Place
    from skyband.engine.monitor import Monitor
    from skyband.engine.run import run
    from skyband.engine.stats import Stats
    from skyband.engine.subscriptions import Subscriptions
    from skyband.errors import InputError, LanguageError, QueryError, SkybandError, SnapshotError
    from skyband.languages import Mapping, parse, parse_sql, to_rspql
    from skyband.queries.join import Join
    from skyband.queries.query import Query
    from skyband.queries.scoring import AttributeDistance, Distance, WeightedSum
    from skyband.queries.subscription import Subscription
    from skyband.remote.remote import Remote
    from skyband.windows import Window

__version__ = "0.1.0"
__all__ = [
    "ALGORITHMS", "Answer", "Answers", "AttributeDistance", "Change", "Distance", "InputError", "Join", "LanguageError",
    "Mapping", "Monitor", "Place", "Query", "QueryError", "Remote", "Row", "SkybandError", "SnapshotError", "Stats",
    "Subscription", "Subscriptions", "WeightedSum", "Window", "parse", "parse_sql", "run", "to_rspql",
]  # fmt: skip
_HOMES = {
    "skyband.algorithms": ("ALGORITHMS",),
    "skyband.answers.answer": ("Answer", "Answers", "Change", "Row"),
    "skyband.answers.place": ("Place",),
    "skyband.engine.monitor": ("Monitor",),
    "skyband.engine.run": ("run",),
    "skyband.engine.stats": ("Stats",),
    "skyband.engine.subscriptions": ("Subscriptions",),
    "skyband.errors": ("InputError", "LanguageError", "QueryError", "SkybandError", "SnapshotError"),
    "skyband.languages": ("Mapping", "parse", "parse_sql", "to_rspql"),
    "skyband.queries.join": ("Join",),
    "skyband.queries.query": ("Query",),
    "skyband.queries.scoring": ("AttributeDistance", "Distance", "WeightedSum"),
    "skyband.queries.subscription": ("Subscription",),
    "skyband.remote.remote": ("Remote",),
    "skyband.windows": ("Window",),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:  # else every name would be one

    def __getattr__(name: str) -> Any:
        """Load a name when it is first asked for: numba, Arrow and Spark take their time."""
        if name == "spark":
            return import_module("skyband.spark")
        if name not in _MODULES:
            msg = f"module 'skyband' has no attribute {name!r}"
            raise AttributeError(msg)
        globals()[name] = found = getattr(import_module(_MODULES[name]), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
