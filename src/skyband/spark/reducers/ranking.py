"""One micro-batch into the monitor: the thresholds go to the data, and only what reaches them comes back.

A batch is read in one pass. Rows come back that reach the threshold of their interval of time, that are late or
incomplete, that lie at the end of the batch (so that its latest event time is known exactly), or that belong to a thin
sample from which the next thresholds are guessed. Where a guess let too few through, that part of the batch is read
again: after `RankingReducer.reduce`, the monitor has all that any window still to be answered needs.

What a task may send is limited to a few times what tasks sent before. A task that reaches its limit shows that scores
are not what they were: what came is discarded, and Spark chooses the best of each pane (`contest`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.engine.monitor import Monitor
from skyband.engine.plans import RankingPlan
from skyband.events.ahead import ahead_time
from skyband.events.batch import EventBatch, StreamColumns, event_times
from skyband.order import BoolArray, IntArray, value_ranks
from skyband.spark import columns
from skyband.spark.reducers.base import BatchProgress
from skyband.spark.reducers.candidates import MOST_FILTERED, RankingPrefilter, used
from skyband.spark.reducers.contest import ROW, SAMPLE, Contest, best_of_panes, gather
from skyband.spark.reducers.groups import GroupScores
from skyband.spark.reducers.guesses import EVERY, SMALL, THIN, BatchForecast, ScoreDistribution
from skyband.spark.reducers.thresholds import Thresholds, constant, thresholded
from skyband.windows import ALWAYS, NEVER, watermark_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

USUAL, MOST_SLACK = 1.25, 16.0
MANY = 2 * SMALL
"""Where so many rows of a group would reach its thresholds, Spark chooses the best of them first."""
WORTH = 4
"""So many times the rows that can win must reach the thresholds, or a contest costs more than it saves."""
MOST_COLLECTED = 1 << 14
"""What a task may send at least, before it is too much."""
OF_GROUPS = 16
"""One row in so many is in the first sample where there are partitions: each has few."""
PLACE = (1 << 33) - 1
"""The bits of `monotonically_increasing_id` that say which row of its task it is; those above are the task."""


class RankingReducer:
    """Reads the batches of one stream, and learns from each how to read the next.

    `delay` is how far the watermark stays behind the newest event, None without a watermark. `whole` rows come back
    with all their columns, for side outputs.
    """

    def __init__(self, source: StreamColumns, schema: pa.Schema, delay: int | None = None, whole: bool = False) -> None:
        self.source, self.schema, self.delay, self.whole = source, schema, delay, whole
        self.time, self.id = columns.event_time_sql(source, schema), columns.quoted(source.id)
        self.mixed = columns.mixed(self.time, self.id, whole=pa.types.is_integer(schema.field(source.id).type))
        self.marked = not pa.types.is_integer(schema.field(source.id).type)  # Spark must say what decides on the sample
        self.forecast = BatchForecast()
        self.scores: dict[str, ScoreDistribution] = {}
        self.groups: dict[str, GroupScores] = {}
        self.slack: dict[str, float] = {}
        self.most = 0  # rows that a task has sent of late
        self._known: tuple[list[Any] | None, list[str | Column]] = (None, [])
        self._row: Column | None = None

    def needed(self, monitor: Monitor) -> list[str | Column]:
        """Return the columns that the monitor needs, and perhaps what decides on the sample; none: all of them."""
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        groups = [(plan.ranking, plan.outputs) for plan in monitor.ranking_plans()]
        if groups != self._known[0]:
            rankings, outputs = [ranking for ranking, _ in groups], [one for _, some in groups for one in some]
            more = self.schema.names if self.whole else []
            names, values = columns.needed(self.source, self.schema, rankings, outputs, more)
            if self.marked:
                values.append(F.expr(self.mixed).alias(SAMPLE))
            # A select costs Spark some milliseconds; it is needed where thresholds are joined, by partition.
            joined = any(ranking.partition_by is not None for ranking, _ in groups)
            plain = not values and not joined and set(names) == set(self.schema.names)
            self._known = (groups, [] if plain else [*map(columns.quoted, names), *values])
        return self._known[1]

    @property
    def row(self) -> Column:
        """The number of a row among those of its task; made once, since each call of Spark costs time."""
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        if self._row is None:
            self._row = F.monotonically_increasing_id().alias(ROW)
        return self._row

    def sample(self, every: int) -> str:
        """Return, as SQL, which rows belong to a sample of one row in so many."""
        return f"({self.mixed} & {every - 1}L) = 0"

    def sampled(self, table: pa.Table, every: int) -> pa.Table:
        """Return the rows that belong to a sample, with all columns but that which decides on it."""
        if self.marked:
            mixed = table[SAMPLE].fill_null(1).to_numpy()
            return table.filter(pa.array((mixed & (every - 1)) == 0)).drop_columns([SAMPLE])
        time = event_times(table[self.source.time].combine_chunks(), self.source)
        ids = table[self.source.id].combine_chunks().cast(pa.int64())
        good = pc.and_(time.is_valid(), ids.is_valid())
        mixed = _mix(time.fill_null(0).to_numpy(), ids.fill_null(0).to_numpy())
        return table.filter(pc.and_(good, pa.array((mixed & (every - 1)) == 0)))

    def reduce(self, df: DataFrame, target: Monitor, progress: BatchProgress | None = None) -> BatchProgress:
        """Take a batch into a monitor: after it, the monitor has all that any window still to be answered needs."""
        batch, before = _Batch(self, df, target, progress or BatchProgress()), target.newest
        if target.queries and not batch.plans:
            return batch.progress
        if len(batch.plans) > MOST_FILTERED:
            batch.read_candidates()
            self.forecast, self.groups = BatchForecast(), {}  # nothing was learned for a filter
            return batch.progress
        batch.progress.reduced_by = "filter"
        low, all_from = before, self.forecast.read_all_from(before)
        if all_from is None:
            low, all_from = batch.probe()
        right = batch.verify(batch.read(low, all_from))
        since = batch.oldest if before == NEVER else before
        self.forecast.learn(since, target.newest, batch.sampled_after(since), right)
        self.scores = batch.scores_after(before)
        batch.learn(since)
        return batch.progress

    def sql(self, plan: RankingPlan) -> tuple[str, str, str | None]:
        """Return a group's filter, its merit and its partition as SQL texts."""
        ranking, schema = plan.ranking, self.schema
        where = "true" if ranking.where is None else ranking.where.spark_sql(schema)
        score = f"double({ranking.score.spark_sql(schema)})"
        part = None if ranking.partition_by is None else ranking.partition_by.spark_sql(schema)
        return where, score if ranking.order == "desc" else f"(-{score})", part


class _TooManyRows(Exception):  # noqa: N818 - nobody but `_Batch` sees it
    """A task has more rows to send than it may."""


class _Batch:
    """One batch on its way from Spark into the monitor."""

    def __init__(self, reducer: RankingReducer, df: DataFrame, monitor: Monitor, progress: BatchProgress) -> None:
        self.reducer, self.given, self.df, self.monitor, self.progress = reducer, df, df, monitor, progress
        self.plans, self.not_after = monitor.ranking_plans(), progress.not_after
        self.oldest, self.newest = ALWAYS, NEVER
        self.sample, self.every = pa.table({}), EVERY
        self.seen = ""  # what has come back already, as SQL
        self.sent = 0  # rows of the task that sent most in the last pass
        self.thresholds: dict[int, Thresholds] = {}  # by group, of those that have some
        self.laid_out: dict[int, Thresholds] = {}  # as they were in the first pass
        self.groups: dict[int, GroupScores] = {}  # by number of the ranking, of those with partitions

    # Passes.

    def probe(self) -> tuple[int, int]:
        """Look at a thin sample when nothing is known: return from when to when the batch reaches, if it is large.

        These rows are chosen by their places, so that similar rows do not bias the sample.
        """
        place = "monotonically_increasing_id() + 197 * spark_partition_id()"
        grouped = any(map(GroupScores.can_learn, self.plans))
        self.df, self.every = self.given, min(OF_GROUPS, EVERY) if grouped else EVERY
        table = self._collect(f"(({place}) & {self.every - 1}L) = 0")
        self.sample = table.drop_columns([SAMPLE]) if self.reducer.marked else table
        time = self._times(self.sample)
        if self.sample.num_rows * self.every <= SMALL or len(time) == 0:
            return NEVER, NEVER
        self.reducer.scores = self.scores_after(self.monitor.newest)
        newest = self.monitor.newest
        if grouped:
            rows = EventBatch(self.sample.combine_chunks().to_batches()[0], self.reducer.source, self.not_after)
            self.reducer.groups = {
                str(plan.ranking): GroupScores(plan) for plan in self.plans if GroupScores.can_learn(plan)
            }
            for scores in self.reducer.groups.values():
                scores.sampled(rows, self.every, int(np.ptp(time)))
        return int(time.min()) if newest == NEVER else newest, int(time.max())

    def read_candidates(self) -> None:
        """Read what the core, run by each task, takes for candidates."""
        reducer = self.reducer
        self.progress.reduced_by = "core"
        with self.progress.phase("plan"):
            names = reducer.schema.names if reducer.whole else used(reducer.source, reducer.schema, self.monitor)
            needed = self.given.select(*map(columns.quoted, names))
            chosen = needed.mapInArrow(RankingPrefilter(self.monitor, self.not_after), needed.schema)
        self.progress.scans += 1
        with self.progress.phase("scan"):
            table = columns.collected(chosen)
        self._push(table)

    def read(self, low: int, all_from: int) -> int:
        """Read what may matter, and all rows from a time on; return from which in the end."""
        all_from = self._before_ahead(all_from)
        try:
            table = self._pass(low, all_from)
        except _TooManyRows:
            if self.sample.num_rows == 0:
                low, all_from = self.probe()
                all_from = self._before_ahead(all_from)
            table = self._pass(low, all_from, crowded=True)
        if all_from != NEVER:
            self.reducer.most = max(self.sent, self.reducer.most // 2)
        self._take(table)
        return all_from

    def _before_ahead(self, all_from: int) -> int:
        """Let `all_from` begin with the rows that are rejected, at the latest: rows behind it all come back."""
        return all_from if self.not_after is None else min(all_from, self.not_after + 1)

    def _pass(self, low: int, all_from: int, crowded: bool = False) -> pa.Table:
        """Return what may matter; of a `crowded` batch, where groups let many rows through, the best of each pane."""
        if all_from == NEVER:
            table = self._whole(None if crowded else 4 * SMALL)
            self.progress.input_rows = table.num_rows
            return table
        with self.progress.phase("plan"):
            self.df, self.thresholds, wanted = self.given, {}, []
            for number, plan in enumerate(self.plans):
                found = self._laid_out(number, plan, low, all_from)
                if found is not None:
                    self.thresholds[number] = found
                wanted.append(self._reaching(number, f"{number}", plan.answered_to))
            behind = f"{self.reducer.time} >= {constant(all_from, self.reducer.time)}"
            counted = {number: plan.answered_to for number, plan in enumerate(self.plans)}
            contests = self._contests(counted, self.reducer.scores, low, all_from)
            if crowded and not contests:
                contests = self._contests(counted, self.reducer.scores, low, all_from, everywhere=True)
            always = [f"isnull({self.reducer.id})"]
            if self.sample.num_rows == 0:
                self.every = THIN * EVERY if contests else EVERY
                always.append(self.reducer.sample(self.every))
            self.laid_out = dict(self.thresholds)
            self.progress.guessed_thresholds = sum(thresholds.guesses for thresholds in self.laid_out.values())
            self.seen = " OR ".join([*wanted, behind, *always])
            # Rows that are rejected as too late lie behind, so only a contest could keep them out.
            if self.not_after is not None:
                always.append(f"{self.reducer.time} > {constant(self.not_after, self.reducer.time)}")
            always += self._without(contests, dict(enumerate(wanted)), behind)
            expected = self._expected(low, all_from)
        most = None if crowded else max(self._limit, int(expected))
        return self._collect(self.seen, most, list(contests.values()), always, all_from)

    def _laid_out(self, number: int, plan: RankingPlan, low: int, all_from: int) -> Thresholds | None:
        """Lay out the thresholds of a ranking before the first pass."""
        name, closed_to = str(plan.ranking), self._closed_to(all_from)
        if plan.ranking.partition_by is None:
            scores, slack = self.reducer.scores.get(name), self.reducer.slack.get(name, USUAL)
            return Thresholds.of(plan, low, all_from, closed_to, scores, slack)
        if not GroupScores.can_learn(plan):
            return None
        known = self.reducer.groups.get(name)
        self.groups[number] = groups = known if known is not None and known.plan is plan else GroupScores(plan)
        return groups.thresholds(low, all_from, closed_to, self.reducer.slack.setdefault(name, 1.0))

    def _expected(self, low: int, all_from: int) -> float:
        """Return about how many rows the first pass will bring: at thresholds, behind them, and of the sample."""
        forecast = self.reducer.forecast
        rest = forecast.rows - forecast.density * (all_from - low)
        expected = max(rest, 0.0) + (forecast.rows / self.every if self.sample.num_rows == 0 else 0.0)
        for number, thresholds in self.thresholds.items():
            scores = None if number in self.groups else self.reducer.scores.get(str(self.plans[number].ranking))
            expected += thresholds.expected(scores, low, all_from)
        if any(scores.levels is None for scores in self.groups.values()):  # of whose groups nothing is known yet
            expected = max(expected, forecast.density * (all_from - low))
        return expected

    @property
    def _limit(self) -> int:
        """What a task may send, where no more is expected."""
        return max(MOST_COLLECTED, 4 * self.reducer.most)

    def _contests(
        self,
        counted: dict[int, int],
        scores: dict[str, ScoreDistribution],
        low: int,
        high: int,
        everywhere: bool = False,
    ) -> dict[int, Contest]:
        """Return, by group, the contests where thresholds would let many rows through from `low` to `high`.

        `counted` has the groups, and before when each counts its rows one by one. Where it is not known which of them
        let many rows through, there are contests `everywhere`.
        """
        found: dict[int, Contest] = {}
        for number, thresholds in self.thresholds.items():
            if number not in counted:
                continue
            plan = self.plans[number]
            many = thresholds.expected(scores.get(str(plan.ranking)), low, high)
            if many <= MANY and not everywhere:
                continue
            cuts = thresholded(plan).pane_edges(low, 2 * high - low)  # the batch may reach further than forecast
            places = plan.k * thresholds.known * (1 + int(np.count_nonzero((cuts > low) & (cuts < high))))
            sql, since = self.reducer.sql(plan), counted[number]
            contest = Contest.of(plan, sql, self.reducer.schema, self.reducer.time, since, cuts)
            if contest is not None and (many > WORTH * places or everywhere):
                found[number] = contest
        self.progress.contests = max(self.progress.contests, len(found))
        return found

    def _without(self, contests: dict[int, Contest], reaching: dict[int, str], behind: str) -> list[str]:
        """Return, as SQL, the rows of groups without a contest: that reach their thresholds, or have none `behind`."""
        rest = [number for number in range(len(self.plans)) if number not in contests]
        reach = [text for number, text in reaching.items() if number not in contests]
        return [*reach, *(f"({self.reducer.sql(self.plans[number])[0]} AND {behind})" for number in rest)]

    def _reaching(self, number: int, name: str, low: int) -> str:
        """Return, as SQL, which rows reach a group's thresholds; joins them to the batch where need be."""
        where, merit, part = self.reducer.sql(self.plans[number])
        if number not in self.thresholds or self.thresholds[number].empty:
            return f"({where})"
        self.df, threshold = self.thresholds[number].apply(self.df, self.reducer.time, part, name, low)
        reaches = f"NOT coalesce({merit} < {threshold}, false)"  # rows without a merit or a time come to be counted
        return reaches if where == "true" else f"({where} AND {reaches})"

    def verify(self, all_from: int) -> bool:
        """Read again where guesses were too high, until none is; return whether hardly any was."""
        whole = all_from == NEVER or self.newest >= all_from  # all that came after the last row seen has been seen
        missed = self._missed(whole)
        count = sum(int(np.count_nonzero(m)) for m in missed.values())
        right = whole and count <= max(4, self.progress.guessed_thresholds // 20)
        self._adapt(missed)
        scores = self.scores_after(NEVER) if self._rows_in(missed) > SMALL else {}
        for turn in range(3):
            if not missed and whole:
                break
            self.progress.rereads += sum(int(np.count_nonzero(m)) for m in missed.values())
            self._read_again(missed, whole, scores, turn)
            whole = True
            missed = self._missed(whole)
        assert not missed, "an interval without a guess cannot miss anything"
        for number, thresholds in self.laid_out.items():
            thresholds.note(self.plans[number], self.newest, self._closed_to(self.newest))
        return right

    def _closed_to(self, newest: int) -> int:
        """Return up to where windows will have been answered."""
        watermark = watermark_of(newest, self.reducer.delay)
        return NEVER if watermark is None else watermark

    def _missed(self, whole: bool) -> dict[int, BoolArray]:
        """Return, by group, the intervals where events may be missing."""
        newest = self.newest if whole else ALWAYS
        found = {number: some.missed(self.plans[number], newest) for number, some in self.thresholds.items()}
        return {number: intervals for number, intervals in found.items() if intervals.any()}

    def _rows_in(self, missed: dict[int, BoolArray]) -> int:
        """Return about how many rows lie in intervals that missed events."""
        time = self._times(self.sample)
        inside = np.zeros(len(time), bool)
        for number, intervals in missed.items():
            inside |= self.thresholds[number].lie_in(intervals, time)
        return int(np.count_nonzero(inside)) * self.every

    def _adapt(self, missed: dict[int, BoolArray]) -> None:
        """Guess lower next time where guesses were often too high, else slowly higher."""
        for number, thresholds in self.thresholds.items():
            if thresholds.guesses:
                name = str(self.plans[number].ranking)
                often = number in missed and np.count_nonzero(missed[number]) > thresholds.guesses / 100
                factor = self.reducer.slack.get(name, USUAL) * (1.5 if often else 0.98)
                self.reducer.slack[name] = min(max(factor, 1.0), MOST_SLACK)

    def _read_again(
        self, missed: dict[int, BoolArray], whole: bool, scores: dict[str, ScoreDistribution], turn: int
    ) -> None:
        """Read what missed events once more: with a guess from this batch's own sample, or, after that, with none."""
        time, low, high, wanted = self.reducer.time, ALWAYS, NEVER, {}
        with self.progress.phase("plan"):
            for number, panes in missed.items():
                plan, before = self.plans[number], self.thresholds[number]
                start, end = before.extent(panes)
                low, high = min(low, start), max(high, end)
                again = scores.get(str(plan.ranking)) if turn == 0 else None
                newest = self.newest if whole else ALWAYS
                self.thresholds[number] = before.lowered(plan, panes, again, newest)
                wanted[number] = self._reaching(number, f"{number}_{turn}", NEVER)
            contests = self._contests(dict.fromkeys(missed, NEVER), scores, low, high) if missed else {}
            after, behind = ALWAYS, "false"
            if not whole:
                after, behind = self.newest + 1, f"{time} > {self.newest}L"
                low, high = min(low, after), ALWAYS
            reached = f"({time} >= {low}L AND {time} < {high}L AND ({' OR '.join([*wanted.values(), behind])}))"
            fresh = f"{reached} AND NOT coalesce({self.seen}, false)"
            self.seen = f"{self.seen} OR {reached}"
            free = self._without(contests, wanted, behind)
        try:
            table = self._collect(fresh, self._limit, list(contests.values()), free, after)
        except _TooManyRows:
            contests = self._contests(dict.fromkeys(missed, NEVER), scores, low, high, everywhere=True)
            table = self._collect(fresh, None, list(contests.values()), self._without(contests, wanted, behind), after)
        self._take(table)

    # What came back.

    def _whole(self, most: int | None) -> pa.Table:
        """Return all rows of the batch.

        Raises `_TooManyRows` where they are more than `most`; then no task has sent many more than that. A small batch
        costs little but the calls of Spark that make its plan, so these are few.
        """
        with self.progress.phase("plan"):
            chosen, needed = self.given, self.reducer.needed(self.monitor)
            if most is not None:
                chosen = chosen.where(f"(monotonically_increasing_id() & {PLACE}L) <= {most}L")
            chosen = chosen.select(*needed) if needed else chosen
        self.progress.scans += 1
        with self.progress.phase("scan"):
            table = columns.collected(chosen)
        if most is not None and table.num_rows > most:
            self.progress.discarded += table.num_rows
            raise _TooManyRows
        return table

    def _collect(
        self,
        wanted: str,
        most: int | None = None,
        contests: Sequence[Contest] = (),
        free: Sequence[str] = (),
        after: int = ALWAYS,
    ) -> pa.Table:
        """Return the wanted rows: all, or of those that are not `free` the best of some contests.

        Raises `_TooManyRows` where there are no contests, and a task has more than about `most` of these rows.
        """
        reducer = self.reducer
        if most is not None:  # in steps, so that the generated code stays the same
            most = None if contests else 1 << (most - 1).bit_length()
        with self.progress.phase("plan"):
            chosen, needed = self.df.where(wanted), reducer.needed(self.monitor)
            if contests:
                latest = (after, ALWAYS if self.not_after is None else self.not_after)
                chosen = best_of_panes(chosen, needed, contests, free, reducer.source.id, latest)
            else:
                chosen = chosen.select(*(needed or ["*"]), reducer.row)
                if most is not None:  # Spark lets no filter pass a column that depends on the rows before
                    chosen = chosen.where(f"(`{ROW}` & {PLACE}L) <= {most}L")
        self.progress.scans += 1
        with self.progress.phase("scan"):
            table = columns.collected(chosen)
        if contests:
            table = gather(table, reducer.source.time)
            self.sent = table.num_rows
            return table
        self.sent = int((table[ROW].to_numpy() & PLACE).max(initial=-1)) + 1
        if most is not None and self.sent > most:
            self.progress.discarded += table.num_rows
            raise _TooManyRows
        return table.drop_columns([ROW])

    def _take(self, table: pa.Table) -> None:
        """Push rows into the monitor, and keep those of the sample."""
        if self.progress.scans == 1 or self.sample.num_rows == 0:
            self.sample = self.reducer.sampled(table, self.every)
        self._push(table.drop_columns([SAMPLE]) if self.reducer.marked else table)

    def _push(self, rows: pa.Table) -> None:
        """Push rows into the monitor."""
        with self.progress.phase("push"):
            self.progress.candidate_rows += rows.num_rows
            if any(plan.ranking.counts for plan in self.plans):
                rows = self._in_order(rows)
            time = self._times(rows)
            if self.not_after is not None and self.progress.ahead_at is None:
                self.progress.ahead_at = ahead_time(rows, self.reducer.source, self.not_after)
            self.oldest = min(self.oldest, int(time.min(initial=ALWAYS)))
            self.newest = max(self.newest, int(time.max(initial=NEVER)))
            self.progress.tables.append(rows)
            answers = self.monitor.merge(rows, not_after=self.not_after)
            if len(answers):
                self.progress.answers.append(answers)
        if self.groups and rows.num_rows:
            with self.progress.phase("plan"):
                batch = EventBatch(rows.combine_chunks().to_batches()[0], self.reducer.source, self.not_after)
                for scores in self.groups.values():
                    scores.take(batch)

    def _in_order(self, rows: pa.Table) -> pa.Table:
        """Sort rows by time, then id, then all they have: Spark gives the rows of a batch no order of arrival."""
        first = [self.reducer.source.time, self.reducer.source.id]
        names = [*first, *sorted(name for name in rows.column_names if name not in first)]
        return rows.take(pa.array(np.lexsort([value_ranks(rows[name]) for name in reversed(names)])))

    def _times(self, table: pa.Table) -> IntArray:
        """Return the event times of the rows that have one, none that is later than it may be."""
        if table.num_rows == 0:
            return np.empty(0, np.int64)
        column = table[self.reducer.source.time].combine_chunks()
        time: IntArray = event_times(column, self.reducer.source).drop_null().to_numpy()
        return time if self.not_after is None else time[time <= self.not_after]

    # What is learned.

    def learn(self, since: int) -> None:
        """Learn what the groups of each ranking are like from what came back of them after a time."""
        for scores in self.groups.values():
            scores.learn(since, self.newest, self._closed_to(self.newest), all_came=not self.progress.contests)
        self.reducer.groups = {str(scores.plan.ranking): scores for scores in self.groups.values()}

    def sampled_after(self, before: int) -> int:
        """Return about how many rows of the batch are later than a time."""
        return int(np.count_nonzero(self._times(self.sample) > before)) * self.every

    def scores_after(self, before: int) -> dict[str, ScoreDistribution]:
        """Learn from the sample how scores are spread among events after a time, by ranking without partitions."""
        if self.sample.num_rows == 0:
            return {}
        batch = self.sample.combine_chunks().to_batches()[0]
        self.monitor.declare(batch.schema)
        time = event_times(batch.column(self.reducer.source.time), self.reducer.source)
        good = time.is_valid().to_numpy(zero_copy_only=False)
        moment = time.fill_null(NEVER).to_numpy()
        if self.not_after is not None:
            good &= moment <= self.not_after
        fresh = good & (moment > before)
        if np.count_nonzero(fresh) < np.count_nonzero(good) // 4:
            fresh = good
        span = int(np.ptp(moment[fresh])) if fresh.any() else 0
        plain = [plan for plan in self.plans if plan.ranking.partition_by is None]
        return {str(g.ranking): _spread(g, batch, moment, fresh, (span, self.every)) for g in plain}


def _mix(time: IntArray, ids: IntArray) -> IntArray:
    """Mix times and ids into numbers whose last bits look random, as `columns.mixed` does."""
    return time ^ (time >> 10) ^ (time >> 20) ^ ids ^ (ids >> 9)


def _spread(
    plan: RankingPlan, batch: pa.RecordBatch, time: IntArray, fresh: BoolArray, extent: tuple[int, int]
) -> ScoreDistribution:
    merit, taken, _ = plan.merits(batch)
    taken &= fresh
    return ScoreDistribution.fit(time[taken], merit[taken], *extent)
