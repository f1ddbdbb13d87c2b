"""Rankings of the events of a batch: queries that rank alike, or one.

Queries that rank alike share the scans and the panes. A first scan finds a threshold for each pane, and a second one
leaves out what does not reach it; of the rest Spark ranks each pane (``WindowGroupLimit`` in the plan, for `k` below
``spark.sql.optimizer.windowGroupLimitThreshold``). Only the candidates left are copied into their windows and ranked
again; where queries are many, tasks run the core over them instead.

Where only the latest event of an id counts, it lies in a window only as long as the id has no later event there; the
panes follow from these windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import TYPE_CHECKING

from skyband.queries.query import UNIQUE_RANK, Query
from skyband.spark.batch import thresholds
from skyband.spark.batch.core import by_core
from skyband.spark.batch.rows import (
    NUMBER,
    best,
    carried_name,
    cut_ties,
    numbered,
    one_per_id,
    order_of,
    partition_columns,
)
from skyband.spark.batch.windows import ends_of, in_periods, so_far, start_of, up_to_the_last
from skyband.windows import Schedule

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MOST_COPIED = 4
"""Where more queries rank alike, candidates are not copied into all windows of each, but go to the core."""
_PANE = "pane"


def shares_panes(query: Query) -> bool:
    """Tell whether the windows of a query can be made of panes that other queries cut, too."""
    return query.window.kind in ("sliding", "cumulative") and query.distinct != "latest" and query.ties != "dense"


def answers_alone(events: DataFrame, query: Query) -> DataFrame:
    """Return the answers of a query that shares nothing."""
    windows = Schedule.of(query.name, query.most_rows, query.window)
    if windows.endless and query.ties is None:  # else as many rows as tie may be in an answer
        ranked = _running(events, query, windows)
    else:
        ranked = best(_in_windows(events, query, windows), query, "end")
    return cut_ties(numbered(ranked, query, windows), query)


def answers_together(events: DataFrame, alike: Sequence[Query]) -> DataFrame:
    """Return the answers of queries that share panes, with the `NUMBER` of each."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    query = alike[0]
    grids = [Schedule.of(one.name, one.most_rows, one.window) for one in alike]
    deepest = max(one.most_rows for one in alike)
    candidates = _candidates(events, query, grids, deepest)
    if len(alike) > MOST_COPIED:
        return by_core(candidates, alike, [carried_name(place) for place in range(len(query.columns))])
    extents = [ends_of(windows) for windows in grids]
    if _touch(grids):
        copied = candidates.withColumns({NUMBER: F.lit(0), "end": extents[0][0]})
    else:
        slides = [F.lit(one.slide).cast("bigint") for one in grids]
        ends = [F.sequence(*extent, slide) for extent, slide in zip(extents, slides, strict=True)]
        copies = F.concat(*(F.transform(some, _copy(number)) for number, some in enumerate(ends)))
        copied = candidates.withColumn("copy", F.explode(copies)).select("*", "copy.*").drop("copy")
    frame = (NUMBER, "end")
    ranked = best(one_per_id(copied, query, *frame), query, *frame, k=deepest)
    if len(alike) > 1:
        own = F.get(F.array(*(F.lit(one.most_rows) for one in alike)), F.col(NUMBER))
        ranked = ranked.where(F.col("rank") <= own)
    starts = F.array(*(start_of(one, windows) for one, windows in zip(alike, grids, strict=True)))
    shift = grids[0].shift
    bounds = {"start": F.get(starts, F.col(NUMBER)) - shift, "end": F.col("end") - shift}
    return cut_ties(ranked.withColumns(bounds), query)


def _candidates(events: DataFrame, query: Query, grids: Sequence[Schedule], k: int) -> DataFrame:
    """Return, of each pane that no window of some queries cuts, the best `k` events at least."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    anchor = grids[0].phase
    width = gcd(*(n for one in grids for n in (one.size, one.slide, one.period, one.phase - anchor)))
    panes = events.withColumn(_PANE, F.expr(f"time - pmod(time - {anchor}L, {width}L)"))
    if thresholds.serve(query, k):
        panes = thresholds.reaching(panes, query, k, _PANE, *partition_columns(query))
    if len(grids) > MOST_COPIED or _touch(grids):
        return panes.drop(_PANE)
    return best(one_per_id(panes, query, _PANE), query, _PANE, k=k).drop(_PANE, "rank", UNIQUE_RANK)


def _touch(grids: Sequence[Schedule]) -> bool:
    """Tell whether each event lies in one window only."""
    return len(grids) == 1 and grids[0].size == grids[0].slide


def _copy(number: int) -> Callable[[Column], Column]:
    """Return what makes of a window's end a copy for the query of this number."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    return lambda end: F.struct(F.lit(number).alias(NUMBER), end.alias("end"))


def _in_windows(events: DataFrame, query: Query, windows: Schedule) -> DataFrame:
    """Return the events that may be in an answer, once for each of their windows, with its `end`."""
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    if query.window.periods is not None:
        return one_per_id(in_periods(events, query.window.periods), query, "end")
    slide, (begin, last) = F.lit(windows.slide).cast("bigint"), ends_of(windows)
    if windows.size == windows.slide:
        return one_per_id(events.withColumn("end", begin), query, "end")
    panes = one_per_id(events.withColumns({"first": begin, "last": last}), query, "first", "last")
    if query.distinct == "latest":
        panes = until_the_next(panes, windows, *partition_columns(query), "id")
    # Whether a score keeps others out is not known before each id has its best one of the window.
    whole = query.ties == "dense" and query.distinct == "best"
    candidates = panes if whole else best(panes, query, "first", "last")
    candidates = up_to_the_last(candidates, windows)
    copies = candidates.withColumn("end", F.explode(F.sequence("first", "last", slide)))
    return one_per_id(copies, query, "end") if query.distinct == "best" else copies


def until_the_next(panes: DataFrame, windows: Schedule, *key: str) -> DataFrame:
    """Let the latest event of a key in each pane count only up to the windows that also hold the next one."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    following = F.lead("first").over(Window.partitionBy(*key).orderBy("time"))
    slide = F.lit(windows.slide).cast("bigint")
    return panes.withColumn("last", F.least("last", following - slide)).where(F.col("first") <= F.col("last"))


def _running(events: DataFrame, query: Query, windows: Schedule) -> DataFrame:
    """Return the answers of windows of all time."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    begin, _ = ends_of(windows)
    panes = best(one_per_id(events.withColumn("end", begin), query, "end"), query, "end")
    panes = panes.crossJoin(F.broadcast(panes.agg(F.max("end").alias("last"))))
    parts = ["last", *partition_columns(query)]
    place = F.row_number().over(Window.partitionBy(*parts).orderBy(*order_of(panes, query)))
    placed = panes.withColumn("place", place)
    return so_far(placed, parts, query.most_rows, windows, distinct=query.distinct is not None)
