"""MTopS (Shastri 2011): MinTopK, MTopBand and MTopList over predicted views."""

from skyband.algorithms.mtops.mintopk import MinTopK
from skyband.algorithms.mtops.mtopband import MTopBand
from skyband.algorithms.mtops.mtoplist import MTopList

__all__ = ["MTopBand", "MTopList", "MinTopK"]
