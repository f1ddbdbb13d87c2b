"""The registry: every algorithm by name. A new one is a file here and a line below."""

from __future__ import annotations

from skyband.algorithms.adaptive import Adaptive
from skyband.algorithms.base import Algorithm
from skyband.algorithms.blocks import Blocks
from skyband.algorithms.cpm import CPM
from skyband.algorithms.mintopk import MinTopK
from skyband.algorithms.mtopband import MTopBand
from skyband.algorithms.mtoplist import MTopList
from skyband.algorithms.naive import Naive
from skyband.algorithms.pa import PA
from skyband.algorithms.phbase import PHBase
from skyband.algorithms.phtree import PHTree
from skyband.algorithms.ra import RA
from skyband.algorithms.rapf import RAPF
from skyband.algorithms.rarf import RARF
from skyband.algorithms.rasf import RASF
from skyband.algorithms.sa import SA
from skyband.algorithms.sap import SAP
from skyband.algorithms.sapf import SAPF
from skyband.algorithms.sarf import SARF
from skyband.algorithms.sasf import SASF
from skyband.algorithms.snn import SNN
from skyband.algorithms.staircase import Staircase
from skyband.algorithms.stkqf import STKQF
from skyband.errors import QueryError

ALGORITHMS: dict[str, type[Algorithm]] = {
    algorithm.name: algorithm
    for algorithm in (
        Staircase,
        Naive,
        MinTopK,
        MTopBand,
        MTopList,
        SAP,
        PHBase,
        PHTree,
        STKQF,
        SA,
        RA,
        PA,
        SASF,
        SARF,
        SAPF,
        RASF,
        RARF,
        RAPF,
        CPM,
        SNN,
        Blocks,
        Adaptive,
    )
}


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
