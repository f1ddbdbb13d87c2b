"""STKQF (Jing et al.): partitions of the window, SAP, PH-Base, PH-Tree, the skyline of queries."""

from skyband.algorithms.stkqf.phbase import PHBase
from skyband.algorithms.stkqf.phtree import PHTree
from skyband.algorithms.stkqf.sap import SAP
from skyband.algorithms.stkqf.stkqf import STKQF

__all__ = ["SAP", "STKQF", "PHBase", "PHTree"]
