"""STKQF (Jing et al.): partitions of the window, SAP, PH-Base, PH-Tree, the skyline of queries."""

from skyband.algorithms.stkqf.partitioned import SAP, PHBase, PHTree
from skyband.algorithms.stkqf.stkqf import STKQF

__all__ = ["SAP", "STKQF", "PHBase", "PHTree"]
