"""MTopS (Shastri 2011): MinTopK, MTopBand and MTopList over predicted views."""

from skyband.algorithms.mtops.mtopband import MTopBand
from skyband.algorithms.mtops.top_list import MinTopK, MTopList

__all__ = ["MTopBand", "MTopList", "MinTopK"]
