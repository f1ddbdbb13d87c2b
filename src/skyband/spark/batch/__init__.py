"""Queries over a batch DataFrame, as one lazy DataFrame: all the work is Spark's, nothing comes to the driver.

Sliding windows overlap, and a row must not be copied into each of them only to be thrown away. So the events are
cut first to what each *pane* can contribute: a pane holds the events that lie in the very same windows, and no
window needs more than the best `k` of it. `topk` is what users call; `rankings` and `objects` answer the two kinds of
queries, of the `rows` that pass, in their `windows`; `thresholds` and the `core` spare most of the copies.
"""
