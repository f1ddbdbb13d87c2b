"""Many queries that rank alike over the candidates of a batch: each task runs the core for an interval of time.

One by one, every query would copy each candidate into all of its windows. The core reads all windows off one list, so a
hundred queries cost little more than one. An interval is several times as long as the longest window. Its task gets the
candidates of the windows that end in it, so an event goes to two tasks at most. Tasks need Skyband on the executors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from skyband.engine.run import run
from skyband.queries.query import UNIQUE_RANK, Query
from skyband.spark import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WINDOWS = 16
"""An interval is so many times as long as the longest window."""
SHARES = 32
"""The partitions of a query are dealt out to so many tasks of each interval."""
_INTERVAL, _SHARE = "interval", "share"


def by_core(candidates: DataFrame, queries: Sequence[Query], carried: Sequence[str]) -> DataFrame:
    """Return the answers of all queries, with the `number` of each query.

    `candidates` have a score and what is `carried`; among them are the best of each pane of the queries.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    partitioned, tied = queries[0].partition_by is not None, queries[0].ties is not None
    inner = [
        replace(
            query, name=str(number), score="score", where=None, select=tuple(carried), group_by=None,
            partition_by="partition" if partitioned else None,
        )
        for number, query in enumerate(queries)
    ]  # fmt: skip
    longest = max(query.window.size for query in queries)
    width = WINDOWS * longest
    first, last = (f"(({at}) - pmod({at}, {width}L)) div {width}L" for at in ("time - 1L", f"time + {longest}L"))
    share = F.expr(f"pmod(hash(partition), {SHARES})" if partitioned and not tied else "0")
    copies = candidates.withColumns({_INTERVAL: F.expr(f"explode(sequence({first}, {last}))"), _SHARE: share})
    kinds = {field.name: field.dataType.simpleString() for field in candidates.schema}
    names = ["id", "score", "time", *(["partition"] if partitioned else []), *carried]
    fields = [f"`{name}` {kinds[name]}" for name in names]
    quality = [f"{UNIQUE_RANK} INT", "exact BOOLEAN", "why STRING"] if tied else []
    schema = ", ".join(["number INT, start BIGINT, end BIGINT, rank INT", *fields, *quality])

    def answers(events: pa.Table) -> pa.Table:
        return _answers(events, inner, width)

    return copies.groupBy(_INTERVAL, _SHARE).applyInArrow(answers, schema)


def _answers(events: pa.Table, queries: Sequence[Query], width: int) -> pa.Table:
    """Return the answers of the windows that end in the interval of some events."""
    begin = events[_INTERVAL][0].as_py() * width
    events = events.drop_columns([_INTERVAL, _SHARE])
    kinds = {field.name: field.type for field in columns.in_utc(events.schema)}  # as Spark wants moments back
    parts = [part.table(quality=True) for part in run(queries, events, time="time", id="id").parts()]
    found = pa.concat_tables(parts, promote_options="permissive")  # an event lies in some window
    end, start, time = (found[name].cast(pa.int64()) for name in ("window_end", "window_start", "time"))
    own = {"number": found["query"].cast(pa.int32()), "start": start, "end": end, "rank": found["rank"]}
    rest = {name: found[name].cast(kinds[name]) for name in found.column_names if name in kinds and name != "time"}
    quality = [UNIQUE_RANK, "exact", "why"] if queries[0].ties is not None else []
    answers = pa.table({**own, **rest, "time": time, **{name: found[name] for name in quality}})
    inside = pc.and_(pc.greater(end, begin), pc.less_equal(end, begin + width))
    return answers.filter(inside)
