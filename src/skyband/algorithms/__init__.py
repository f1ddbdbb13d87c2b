"""How the top-k is kept: the interface, the registry, and one package per paper; `staircase` is the default.

A new algorithm is a module here that subclasses `skyband.algorithms.base.Algorithm`, and a line in the registry below.

Examples
--------
The exact ones give the same answers.

>>> import skyband as sb
>>> q = sb.Query("top", k=2, score="x", window=sb.Window(4, slide=2))
>>> events = [{"t": t, "id": t, "x": x} for t, x in enumerate([5.0, 1.0, 4.0, 2.0, 3.0, 0.0])]
>>> for name in [name for name, algorithm in ALGORITHMS.items() if algorithm.exact]:
...     answers = sb.run([q], events, time="t", id="id", algorithm=name)
...     assert [[row.id for row in answer.rows] for answer in answers] == [[0, 1], [0, 2], [2, 4], [4, 5]], name
"""

from __future__ import annotations

from functools import lru_cache

from skyband.algorithms import options
from skyband.algorithms.base import Algorithm
from skyband.algorithms.mtops.mtopband import MTopBand
from skyband.algorithms.mtops.top_list import MinTopK, MTopList
from skyband.algorithms.naive import Naive
from skyband.algorithms.staircase.staircase import Staircase
from skyband.algorithms.stkqf.partitions import SAP, PHBase, PHTree
from skyband.algorithms.stkqf.stkqf import STKQF
from skyband.algorithms.topkw.methods import METHODS
from skyband.errors import QueryError

_ALL: tuple[type[Algorithm], ...] = (
    Staircase, Naive, MinTopK, MTopBand, MTopList, SAP, PHBase, PHTree, STKQF, *METHODS,
)  # fmt: skip
ALGORITHMS: dict[str, type[Algorithm]] = {algorithm.name: algorithm for algorithm in _ALL}


def find(text: str) -> type[Algorithm]:
    """Return an algorithm by its name, and with other options than by default: ``"pa(error=1e-4)"``.

    Raises
    ------
    QueryError
        When there is no such algorithm or option, or a value is not allowed; it lists what there is.

    Examples
    --------
    >>> find("staircase").exact
    True
    >>> find("rapf( pruning=0.3, buffer=500 )").notation()
    'rapf(buffer=500, pruning=0.3)'
    >>> find("pa(error=0.001)") is find("pa")
    True
    """
    name, given = options.parse(text) if isinstance(text, str) else (text, "")
    try:
        algorithm = ALGORITHMS[name]
    except (KeyError, TypeError):
        msg = f"there is no algorithm {name!r}; choose one of {', '.join(sorted(ALGORITHMS))}"
        raise QueryError(msg) from None
    chosen = options.read(name, algorithm.options, given)
    return _configured(algorithm, tuple(chosen.items())) if chosen else algorithm


@lru_cache(maxsize=256)
def _configured(algorithm: type[Algorithm], chosen: tuple[tuple[str, float], ...]) -> type[Algorithm]:
    """Return an algorithm with options: the same class for the same ones."""
    return algorithm.with_options(dict(chosen))
