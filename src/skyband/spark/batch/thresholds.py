"""Exact thresholds for the panes of a batch, without a guess: the maxima of buckets.

Split the events of a pane into buckets, whatever decides on them: the maxima of the buckets are different events. So
the K-th largest maximum is at most the score of the K-th best event of the pane, and what lies below it is in no
answer. A maximum per pane and bucket is a hash aggregate of numbers, the fastest that Spark has. A sample of the events
serves as well: its thresholds are lower, and cost less.

Events with the threshold's own score all reach it, so the whole order decides about them afterwards. Where ids count
once, an id's events share a bucket: then the maxima are those of different ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.queries.query import Query
from skyband.spark import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVERY = 4
"""One event in so many takes part in the maxima."""
BUCKETS = 4
"""There are at least so many buckets for each place in the answer: few of the best meet in one."""
MOST = 1 << 12
"""More buckets of a pane cost more than they save."""
WORTH = 2
"""So many times K buckets of a pane must have events, or its threshold hardly leaves any out."""
_BUCKET, _GREATEST, _THRESHOLD = "bucket", "greatest", "threshold"


def serve(query: Query, k: int) -> bool:
    """Tell whether thresholds can leave out events that are not among the best `k` of a pane.

    Only the latest event of an id says how good it is; dense ranks count scores, not events.
    """
    return query.distinct != "latest" and query.ties != "dense" and BUCKETS * k <= MOST


def reaching(events: DataFrame, query: Query, k: int, *pane: str) -> DataFrame:
    """Return the events that reach the threshold of their pane, which some columns tell apart.

    The best `k` of each pane are among them. `query` says how events rank.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere
    from pyspark.sql.types import LongType

    places = 1 << (BUCKETS * k - 1).bit_length()
    merit = "score" if query.order == "desc" else "-score"
    whole = isinstance(events.schema["id"].dataType, LongType)
    mixed = columns.mixed("0L" if query.distinct == "best" else "time", "id", whole=whole)
    sample = events.where(f"({mixed} & {EVERY - 1}L) = 0")
    bucket = F.expr(f"cast(shiftright({mixed}, {EVERY.bit_length() - 1}) & {places - 1}L AS INT)")
    maxima = sample.groupBy(*pane, bucket.alias(_BUCKET)).agg(F.expr(f"max({merit})").alias(_GREATEST))
    kth = F.expr(f"get(sort_array(collect_list({_GREATEST}), false), {k - 1})")
    lowest = maxima.groupBy(*pane).agg(kth.alias(_THRESHOLD), F.count("*").alias(_BUCKET))
    worth = lowest.where(f"{_BUCKET} >= {WORTH * k}").drop(_BUCKET)
    known = events.join(F.broadcast(worth), [*pane], "left")
    return known.where(f"{_THRESHOLD} IS NULL OR {merit} >= {_THRESHOLD}").drop(_THRESHOLD)
