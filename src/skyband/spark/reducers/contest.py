"""The best K of each pane, chosen by Spark: for scores so equal that no threshold separates their events.

Later events win ties. So in an ordered stream each of many equal events dominates the one before, and all reach any
threshold. Where that would send many rows to the driver, Spark ranks them by the full order, within each pane and
partition, and only the best K come. Each task drops the others before it exchanges any row, while K is below
``spark.sql.optimizer.windowGroupLimitThreshold``. Where equal scores share a rank, all that tie with the K-th come, as
far as an answer may show them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.engine.plans import RankingPlan
from skyband.order import IntArray, Ties
from skyband.spark.columns import comparable
from skyband.spark.reducers.thresholds import MOST_BUCKETS, constant, numbers

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SAMPLE = "skyband sample"
ROW, ROLE = "skyband row", "skyband role"
"""Which row of the batch it is, and what it comes as."""
EVENT, LATEST = 0, 1
_FREE, _TIME = "skyband free", "skyband time"


@dataclass(frozen=True)
class Contest:
    """How the events of one group compete: within a pane and a partition, by the full order, for `k` places.

    The texts are SQL; `inside` is whether an event lies in a pane. The columns `ties` order events that are equal in
    merit, time and id. Where they are not `complete`, events that are equal by all these may differ, so all of them
    come. With `distinct`, an id takes one place only. With `tied`, equal merits share a place, and of each pane
    `most` events come.
    """

    where: str
    merit: str
    part: str
    time: str
    inside: str
    pane: str
    ties: tuple[str, ...]
    complete: bool
    k: int
    distinct: bool
    earliest: bool = False
    tied: Ties | None = None
    most: int = 0

    @classmethod
    def of(
        cls,
        plan: RankingPlan,
        sql: tuple[str, str, str | None],
        schema: pa.Schema,
        time: str,
        low: int,
        cuts: IntArray,
    ) -> Contest | None:
        """Return the contest in a group's open panes, between `cuts`; None where they cannot be numbered cheaply.

        `sql` has the group's filter, merit and partition. Events before `low` do not compete: they are counted as late.
        """
        pane = _pane(cuts, time)
        if pane is None:
            return None
        where, merit, part = sql
        inside = f"{time} >= {constant(max(low, int(cuts[0])), time)} AND {time} < {constant(int(cuts[-1]), time)}"
        ties, complete = _ties(plan, schema)
        if part is not None and plan.partition_type == "text":
            part = f"cast({part} AS BINARY)"  # by its bytes: a collation may take other texts for equal
        ranking = plan.ranking
        # Adding 0 makes one zero of the two.
        return cls(
            where, f"({merit} + 0D)", part or "0", time, inside, pane, ties, complete, plan.k,
            ranking.distinct == "best", ranking.prefer == "earliest", ranking.ties, ranking.max_ties + 1,
        )  # fmt: skip

    @property
    def free(self) -> str:
        """Which rows come whatever their rank, as SQL: the group counts them as rejected or late, or knows no pane."""
        return f"({self.where} AND (isnull({self.merit}) OR isnan({self.merit}) OR NOT coalesce({self.inside}, false)))"

    def columns(self) -> dict[str, str]:
        """Return what ranking takes, as SQL."""
        return {"where": f"coalesce({self.where}, false)", "merit": self.merit, "pane": self.pane, "part": self.part}

    def rank(self, df: DataFrame, n: int, id_: str, alone: bool) -> DataFrame:
        """Add the rank of each row as the contest's number `n`; where it is `alone`, leave only the best.

        A row that does not compete has a place of its own, so that it is the first there. The latest rows of the batch
        compete with each other.
        """
        from pyspark.sql import Window
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        merit, pane, part = (
            F.expr(f"if(`{ROLE}` = {LATEST}, NULL, `skyband {what} {n}`)") for what in ("merit", "pane", "part")
        )
        place = [F.col(ROLE), F.expr(f"if(`{ROLE}` = {LATEST} OR {_competes(n)}, -1L, `{ROW}`)"), pane, part]
        rank, own, kinds = f"skyband rank {n}", f"skyband own {n}", {field.name: field.dataType for field in df.schema}
        recency = F.expr(f"if(`{ROLE}` = {LATEST}, `{_TIME}`, -`{_TIME}`)") if self.earliest else F.col(_TIME)
        order, ties = [merit.desc(), recency.desc()], [comparable(name, kinds[name]) for name in self.ties]
        if self.distinct:
            first = F.row_number() if self.complete else F.rank()
            mine = Window.partitionBy(*place, comparable(id_, kinds[id_])).orderBy(*order, *ties)
            df = df.withColumn(own, first.over(mine))
            if alone:
                df = df.where(f"`{own}` = 1")
            else:
                place.append(F.expr(f"`{own}` = 1"))
        number = F.row_number() if self.complete else F.dense_rank() if self.distinct else F.rank()
        by = Window.partitionBy(*place).orderBy(*order, comparable(id_, kinds[id_]), *ties)
        df = df.withColumn(rank, number.over(by))
        if self.tied is not None:
            whole = self.complete or not self.distinct  # else an id may have several rows, which would count
            level = F.rank() if self.tied == "with" and whole else F.dense_rank()
            shared = level.over(Window.partitionBy(*place).orderBy(merit.desc()))
            last = F.when(F.col(rank) <= self.most, shared)
            df = df.withColumn(rank, F.when(F.col(ROLE) == LATEST, F.col(rank)).otherwise(last))
        if alone:
            return df.where(f"`{rank}` <= {self.k}")
        return df.withColumn(rank, F.expr(f"if(`{own}` = 1, `{rank}`, NULL)")) if self.distinct else df


def _competes(n: int) -> str:
    """Return, as SQL, whether a row competes in a contest: it passes the filter, and would not come anyway."""
    return f"(`skyband where {n}` AND NOT `{_FREE}`)"


def _pane(cuts: IntArray, time: str) -> str | None:
    """Return the number of the pane that a time lies in, as SQL; None where there are too many for a constant.

    Panes are cut into buckets no wider than the narrowest of them, so that at most one cut lies inside a bucket.
    """
    if len(cuts) < 2:
        return None
    width = int(np.diff(cuts).min())
    bucket = f"({time} - {constant(int(cuts[0]), time)}) div {width}L"
    if np.diff(cuts).max() == width:
        return bucket
    edges = np.arange(cuts[0], cuts[-1], width)
    if len(edges) > MOST_BUCKETS:
        return None
    first = np.searchsorted(cuts, edges, side="right")
    place = f"cast(least(greatest({bucket}, 0L), {len(edges) - 1}L) AS INT) + 1"
    pane, cut = (f"element_at({numbers(values.tolist(), 'bigint')}, {place})" for values in (first, cuts[first]))
    return f"({pane} + if({time} >= {cut}, 1L, 0L))"


def _ties(plan: RankingPlan, schema: pa.Schema) -> tuple[tuple[str, ...], bool]:
    """Return the selected columns that order events equal otherwise, and whether they decide between all of them.

    They do not from the first nested one on: Spark may order its values in another way.
    """
    nested = [pa.types.is_nested(output.type(schema)) for output in plan.outputs]
    names = tuple(output.worked_out(schema) for output in plan.outputs)
    return (names[: nested.index(True)], False) if any(nested) else (names, True)


def best_of_panes(
    df: DataFrame,
    needed: Sequence[str | Column],
    contests: Sequence[Contest],
    free: Sequence[str],
    id_: str,
    latest: tuple[int, int],
) -> DataFrame:
    """Return what must come of the rows that may matter: those that are `free`, the best of each contest, the latest.

    They have the columns `needed` (all where there are none), and `ROW` and `ROLE` for `gather`. `free` says, as SQL,
    which rows come whatever their rank; `latest` from when to when rows may be the latest.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everywhere

    always = " OR ".join([*free, *(contest.free for contest in contests)])
    df = df.select(
        *(needed or ["*"]),
        F.monotonically_increasing_id().alias(ROW),
        F.expr(contests[0].time).alias(_TIME),
        F.expr(f"coalesce({always}, false)").alias(_FREE),
        *(
            F.expr(text).alias(f"skyband {what} {n}")
            for n, c in enumerate(contests)
            for what, text in c.columns().items()
        ),
    )
    competes = " OR ".join(map(_competes, range(len(contests))))
    after, upto = (constant(moment, f"`{_TIME}`") for moment in latest)
    df = df.withColumn(
        ROLE,
        F.explode(
            F.expr(f"""CASE WHEN NOT coalesce(`{_TIME}` BETWEEN {after} AND {upto}, false) THEN array({EVENT})
                WHEN `{_FREE}` OR {competes} THEN array({EVENT}, {LATEST}) ELSE array({LATEST}) END""")
        ),
    )
    alone = len(contests) == 1
    for n, contest in enumerate(contests):
        df = contest.rank(df, n, id_, alone)
    if not alone:
        won = " OR ".join(f"({_competes(n)} AND `skyband rank {n}` <= {c.k})" for n, c in enumerate(contests))
        df = df.where(f"if(`{ROLE}` = {LATEST}, `skyband rank 0` = 1, `{_FREE}` OR {won})")
    ours = [name for name in df.columns if name.startswith("skyband ") and name not in (ROW, ROLE, SAMPLE)]
    return df.drop(*ours)


def gather(table: pa.Table, time: str) -> pa.Table:
    """Return the rows that came as events, and the latest row if it did not: the batch's newest time is known by it."""
    latest = pc.equal(table[ROLE], LATEST)
    events, others = table.filter(pc.invert(latest)), table.filter(latest)
    newest = others.take(pc.sort_indices(others, [(time, "descending")])[:1])
    known = pc.is_in(newest[ROW], events[ROW])
    return pa.concat_tables([events, newest.filter(pc.invert(known))]).drop_columns([ROW, ROLE])
