"""How the top-k is kept: the interface, the registry, and one package per paper; `staircase` is the default.

A new algorithm is a module here that subclasses `skyband.algorithms.base.Algorithm`, and a line in the registry below.
"""

from __future__ import annotations

from skyband.algorithms.base import Algorithm
from skyband.algorithms.mtops.mtopband import MTopBand
from skyband.algorithms.mtops.top_list import MinTopK, MTopList
from skyband.algorithms.naive import Naive
from skyband.algorithms.staircase.staircase import Staircase
from skyband.algorithms.stkqf.partitioned import SAP, PHBase, PHTree
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
