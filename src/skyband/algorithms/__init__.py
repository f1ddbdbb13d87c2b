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


def find(name: str) -> type[Algorithm]:
    """Return an algorithm by its name.

    Examples
    --------
    >>> find("staircase").exact
    True
    """
    try:
        return ALGORITHMS[name]
    except KeyError:
        msg = f"there is no algorithm {name!r}; choose one of {', '.join(sorted(ALGORITHMS))}"
        raise QueryError(msg) from None
