"""Partials of queries that join or aggregate, made by Spark: of each pane and id one row comes back.

On the executors rows are filtered, and reduced to what `skyband.engine.partials` calls partials: of each pane and id
the latest event, or the aggregates of its events. All events of a pane lie in the same windows, so the driver makes of
these rows the very objects that it would make of all events. Thresholds, which spare other queries most of their rows,
are of no use here: another event of an id, or another remote value, gives it another score.

What the replica knows is joined on the executors as far as it is final: *settled* ids (`JoinGroup.settled`) are
broadcast with every batch, and of their events only a row per pane comes back. Any other remote value may be refreshed
before the window is answered, so it is looked up then, on the driver.

Spark aggregates by hash only where what it keeps of a key has a fixed width; one struct or text, and it sorts. So the
latest event is found by the greatest time. Where several events have it, and their scores differ, these keys are
read once more, and sorted; where that is often so, all are sorted at once.

Queries over the same windows with the same partials share one pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.calendars import Calendar
from skyband.engine.groups import ReducedBatch
from skyband.engine.measures import ROWS
from skyband.engine.monitor import Monitor
from skyband.engine.partial_rows import CARRIED, FIRST, ID, PANE, PART, REFRESHED, REMOTE, STREAM, TIME
from skyband.engine.partials import part_type
from skyband.engine.plans import PartialsPlan
from skyband.events.batch import StreamColumns
from skyband.events.keys import is_text
from skyband.expressions import Expression
from skyband.queries.outputs import plain
from skyband.spark import columns
from skyband.spark.columns import quoted
from skyband.spark.reducers.base import BatchProgress
from skyband.spark.reducers.thresholds import constant, numbers
from skyband.windows import NEVER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TAKEN, REJECTED, OTHER, LATE, SETTLED, AHEAD, OUTSIDE = 0, 1, 2, 3, 4, 5, 6
PERIODS = 366
"""So many periods of a calendar before and behind the ones that are known of are sent with a batch."""
_KIND, _NEWEST, _LATEST, _SETTLED_ID, _TIED, _HASH = "kind", "newest", "latest", "settled", "tied", "hash"
_KEY = "key "
"""Columns that keys are compared with have this before their names."""
_OFTEN = 0.05
"""Where more of the keys are tied, all are sorted."""
_LEAST_BITS = 8


class PartialsReducer:
    """Reads the batches of one stream for its queries that join or aggregate."""

    def __init__(self, source: StreamColumns, schema: pa.Schema) -> None:
        self.source, self.schema = source, schema
        self.time = columns.event_time_sql(source, schema)
        self._sorted: set[str] = set()  # queries whose events tie often

    def reduce(self, df: DataFrame, target: Monitor, progress: BatchProgress) -> None:
        """Take a batch into the queries of a monitor that join or aggregate."""
        reduced: dict[str, ReducedBatch] = {}
        for plan in target.partials_plans():
            table = self._collected(df, plan, progress, target.newest, target.newest)
            outside = table.filter(pc.equal(table[_KIND], OUTSIDE))
            if outside.num_rows:
                extent = pc.min(outside[FIRST]).as_py(), pc.max(outside[_NEWEST]).as_py()
                table = self._collected(df, plan, progress, *extent)
            progress.candidate_rows += table.num_rows
            if _TIED in table.column_names:
                table = self._settled_ties(df, plan, progress, table)
            found = self._reduced(table, plan)
            ahead = table.filter(pc.equal(table[_KIND], AHEAD))
            progress.input_rows = int(pc.sum(table[ROWS]).as_py() or 0)
            progress.ahead_at = pc.min(ahead[FIRST]).as_py() if ahead.num_rows else progress.ahead_at
            reduced |= dict.fromkeys(plan.queries, found)
        with progress.phase("push"):
            target.merge(partials=reduced)

    def _collected(
        self, df: DataFrame, plan: PartialsPlan, progress: BatchProgress, low: int, high: int
    ) -> pa.Table:  # fmt: skip
        """Return the partials of a batch; of a calendar, as far as its periods around `low` to `high` reach."""
        with progress.phase("plan"):
            frame = self._frame(df, plan, progress.not_after, low, high)
        progress.scans += 1
        with progress.phase("scan"):
            return columns.collected(frame)

    def _settled_ties(
        self, df: DataFrame, plan: PartialsPlan, progress: BatchProgress, table: pa.Table
    ) -> pa.Table:  # fmt: skip
        """Return the partials of a batch, with those whose latest events tie read once more."""
        tied = pc.and_kleene(pc.equal(table[_KIND], TAKEN), table[_TIED])
        keys, table = table.filter(tied), table.filter(pc.invert(tied)).drop_columns([_TIED])
        if keys.num_rows == 0:
            return table
        if keys.num_rows > _OFTEN * (table.num_rows + keys.num_rows):
            self._sorted.update(plan.queries)
        with progress.phase("plan"):
            frame = self._frame(df, plan, progress.not_after, NEVER, NEVER, keys)
        progress.scans += 1
        with progress.phase("scan"):
            again = columns.collected(frame)
        return pa.concat_tables([table, again.select(table.column_names).cast(table.schema)])

    # On the executors.

    def _hashed(self, plan: PartialsPlan) -> bool:
        """Tell whether Spark can find the latest events by hash."""
        if plan.on is not None or plan.outputs:
            return False
        if plan.decomposition.aggregates:
            return True
        tied = not self._sorted.isdisjoint(plan.queries)
        return not tied and plan.periods is None and _bits(plan) >= _LEAST_BITS

    def _frame(
        self, df: DataFrame, plan: PartialsPlan, not_after: int | None, low: int, high: int,
        only: pa.Table | None = None,
    ) -> DataFrame:  # fmt: skip
        """Return the partials of a batch; of some panes and ids `only`, those are sorted."""
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        settled = plan.settled
        rows = df.select(
            *(F.expr(text).alias(name) for name, text in self._columns(plan, not_after, low, high).items()),
            *(columns.carried(output, self.schema).alias(CARRIED + output.name) for output in plan.outputs),
        )
        if settled.num_rows:
            known = df.sparkSession.createDataFrame(settled.rename_columns([_SETTLED_ID, REFRESHED]))
            rows = rows.join(F.broadcast(known), F.expr(f"{ID} = {_SETTLED_ID} AND {_KIND} = {TAKEN}"), "left")
            rows = rows.withColumn(_KIND, F.expr(f"CASE WHEN isnull({_SETTLED_ID}) THEN {_KIND} ELSE {SETTLED} END"))
        else:
            rows = rows.withColumn(REFRESHED, F.lit(None).cast("bigint"))
        if only is not None:
            names = [name for name in (PANE, ID, PART) if name in only.column_names]
            wanted = df.sparkSession.createDataFrame(only.select(names).rename_columns([_KEY + name for name in names]))
            same = [f"{name} <=> {quoted(_KEY + name)}" for name in names]
            rows = rows.join(F.broadcast(wanted), F.expr(" AND ".join([f"{_KIND} = {TAKEN}", *same])), "left_semi")
        keys = {PANE: f"{_KIND} IN ({TAKEN}, {SETTLED})", ID: f"{_KIND} = {TAKEN}"}
        keys |= {PART: f"{_KIND} = {TAKEN}"} if plan.partition is not None else {}
        grouped = [F.expr(f"CASE WHEN {mine} THEN {name} END").alias(name) for name, mine in keys.items()]
        return rows.groupBy(F.col(_KIND), *grouped).agg(
            *(self._greatest(plan) if only is None and self._hashed(plan) else [self._latest(rows, plan)]),
            *(F.expr(text).alias(name) for name, text in self._sums(plan)),
        )

    def _columns(self, plan: PartialsPlan, not_after: int | None, low: int, high: int) -> dict[str, str]:
        """Return what is worked out of each row, as SQL."""
        sides, schema = plan.decomposition, self.schema
        key = plain(self.source.id).expression if plan.key is None else plan.key
        found = {TIME: self.time, ID: _id(key, schema)}
        wanted = [f"isnotnull({self.time})"]
        if plan.key is None or sides.service is not None:  # else NULL is a group
            wanted.append(f"isnotnull({found[ID]})")
        if plan.partition is not None:
            found[PART] = plan.partition.spark_sql(schema)
        if plan.on is not None:
            found[REMOTE] = _id(plain(plan.on).expression, schema)
            wanted.append(f"isnotnull({quoted(plan.on)})")
        if not sides.aggregates:
            found[STREAM] = f"double({sides.part.spark_sql(schema)})"
            wanted.append(f"NOT coalesce(isnan({found[STREAM]}), true) AND isnotnull({found[STREAM]})")
            found[_HASH] = f"xxhash64({found[STREAM]})"
        where = "true" if sides.where is None else f"coalesce({sides.where.spark_sql(schema)}, false)"
        pane, outside, late_before = _pane(plan, self.time), "", plan.late_before
        if plan.periods is not None:
            late_before = plan.periods.moment(late_before)
            pane, inside = _period(plan.periods, self.time, low, high)
            outside = f" WHEN NOT {inside} THEN {OUTSIDE}"
        late = f"{self.time} < {late_before}L"
        ahead = "false" if not_after is None else f"coalesce({self.time} > {not_after}L, false)"
        found[_KIND] = (
            f"CASE WHEN {ahead} THEN {AHEAD} WHEN NOT {where} THEN {OTHER} "
            f"WHEN NOT ({' AND '.join(wanted)}) THEN {REJECTED} WHEN {late} THEN {LATE}{outside} ELSE {TAKEN} END"
        )
        found[PANE] = pane
        for place, measure in enumerate(plan.measures.values()):
            found[_argument(place)] = measure.spark_argument(schema)
        return found

    def _sums(self, plan: PartialsPlan) -> list[tuple[str, str]]:
        """Return what is worked out of the rows of a pane and id, as SQL."""
        found = [
            (ROWS, "count(1)"),
            (_NEWEST, f"max(CASE WHEN {_KIND} <> {AHEAD} THEN {TIME} END)"),
            (FIRST, f"min({TIME})"),
            (REFRESHED, f"min({REFRESHED})"),
        ]
        measures = enumerate(plan.measures.items())
        return [*found, *((name, one.spark(quoted(_argument(place)))) for place, (name, one) in measures)]

    def _greatest(self, plan: PartialsPlan) -> list[Column]:
        """Return the latest event of a pane and id by its time alone, and whether another one ties with it.

        Events tie if their scores differ, and so the hashes of these: Spark's hash gives different numbers different
        hashes. A key knows the largest and the smallest of each part of the hashes among its latest events.
        """
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        time = F.max(F.col(TIME)).alias(TIME)
        if plan.decomposition.aggregates:
            return [F.struct(time).alias(_LATEST)]
        bits, windows = _bits(plan), plan.windows
        mask = (1 << bits) - 1
        within = f"shiftleft(pmod({TIME} - {windows.phase}L, {windows.slide}L), {bits})"
        parts = [f"(shiftrightunsigned({_HASH}, {low}) & {mask}L)" for low in range(0, 64, bits)]
        tied = [
            f"(max({within} | {part}) & {mask}L) + (max({within} | ({mask}L - {part})) & {mask}L) <> {mask}L"
            for part in parts
        ]
        latest = F.struct(time, F.max_by(STREAM, TIME).alias(STREAM)).alias(_LATEST)
        return [latest, F.expr(" OR ".join(tied)).alias(_TIED)]

    def _latest(self, rows: DataFrame, plan: PartialsPlan) -> Column:
        """Return the row of a pane and id that counts: the first in the order of `skyband.engine.partials`."""
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        kinds = {field.name: field.dataType for field in rows.schema}
        found, order = [TIME], [F.expr(f"-{TIME}")]
        if not plan.decomposition.aggregates:
            found.append(STREAM)
            order.append(F.expr(f"{'-' if plan.order == 'desc' else ''}{STREAM}"))
        if plan.on is not None:
            found.append(REMOTE)
            order.append(F.expr(columns.descending(REMOTE, text=is_text(self.schema.field(plan.on).type))))
        carried = [CARRIED + output.name for output in plan.outputs]
        order += [columns.comparable(name, kinds[name]) for name in carried]
        place = F.struct(*(column.alias(f"place {i}") for i, column in enumerate(order)))
        return F.min_by(F.struct(*(F.col(quoted(name)) for name in [*found, *carried])), place).alias(_LATEST)

    # On the driver.

    def _reduced(self, table: pa.Table, plan: PartialsPlan) -> ReducedBatch:
        newest = pc.max(table[_NEWEST]).as_py()
        counts = {
            kind: int(pc.sum(table.filter(pc.equal(table[_KIND], kind))[ROWS]).as_py() or 0)
            for kind in (REJECTED, LATE, AHEAD)
        }
        taken = table.filter(pc.equal(table[_KIND], TAKEN)).combine_chunks()
        latest = taken[_LATEST].combine_chunks()
        found: dict[str, Any] = {PANE: taken[PANE], ID: taken[ID], TIME: latest.field(TIME), ROWS: taken[ROWS]}
        if plan.partition is not None:
            found[PART] = taken[PART].cast(part_type(plan.partition, self.schema))
        if plan.on is not None:
            found[REMOTE] = latest.field(REMOTE)
        if not plan.decomposition.aggregates:
            found[STREAM] = latest.field(STREAM)
        for name, measure in plan.measures.items():
            found[name] = taken[name] if measure.is_set else pc.fill_null(taken[name], measure.nothing)
        found |= {CARRIED + output.name: latest.field(CARRIED + output.name) for output in plan.outputs}
        partials = pa.table(found)
        settled = table.filter(pc.equal(table[_KIND], SETTLED)).select([PANE, ROWS, FIRST, _NEWEST, REFRESHED])
        partly = [part.filter(pc.less(part[PANE], plan.partly_before))[ROWS] for part in (partials, settled)]
        return ReducedBatch(
            partials, NEVER if newest is None else int(newest), late=counts[LATE],
            rejected=counts[REJECTED] + counts[AHEAD], ahead=counts[AHEAD],
            partly_late=sum(pc.sum(rows).as_py() or 0 for rows in partly),
            settled=settled.rename_columns([PANE, ROWS, FIRST, TIME, REFRESHED]),
        )  # fmt: skip


def _id(key: Expression, schema: pa.Schema) -> str:
    return f"cast({key.spark_sql(schema)} AS {'STRING' if key.bind(schema).type == 'text' else 'BIGINT'})"


def _argument(place: int) -> str:
    """Name what a measure aggregates: by a number, since Spark substitutes ``${…}`` in SQL, even in names."""
    return f"argument {place}"


def _period(periods: Calendar, time: str, low: int, high: int) -> tuple[str, str]:
    """Return the pane of a row of a calendar, and whether the periods around `low` to `high` have it, as SQL."""
    if low == NEVER:
        return "0L", "false"
    first, last = periods.about(low) - PERIODS, periods.about(high) + PERIODS
    origin, width, edge, before, after = periods.buckets(first, last)
    begin, inside = constant(origin, time), f"{time} >= {origin}L AND {time} < {int(edge[-1])}L"
    place = f"cast(least(greatest(({time} - {begin}) div {width}L, 0L), {len(edge) - 1}L) AS INT) + 1"
    arrays = (numbers(values.tolist(), "bigint") for values in (edge, before, after))
    following, here, there = (f"element_at({array}, {place})" for array in arrays)
    return f"2L * if({time} >= {following}, {there}, {here})", f"({inside})"


def _pane(plan: PartialsPlan, time: str) -> str:
    """Return the pane of a row, as `skyband.windows.PaneGrid` numbers them."""
    windows, rest = plan.windows, plan.panes.rest
    since = f"({time} - {windows.phase}L)"
    within = f"pmod({since}, {windows.slide}L)"
    second = f" + CASE WHEN {within} >= {rest}L THEN 1L ELSE 0L END" if rest else ""
    return f"(({since} - {within}) div {windows.slide}L) * 2L{second}"


def _bits(plan: PartialsPlan) -> int:
    """Return how many bits are left of 62 beside a time within a slide."""
    return 62 - plan.windows.slide.bit_length()
