"""MTopS (Shastri 2011): MinTopK, MTopBand and MTopList over predicted views."""
