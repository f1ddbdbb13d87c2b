"""One micro-batch into the monitor: the thresholds go to the data, and only what reaches them comes back.

A batch is read in one pass. Rows come back that reach the threshold of their stretch of time, that are late or
incomplete, that lie at the end of the batch (so that its latest event time is known exactly), or that belong to a thin
sample from which the next thresholds are guessed. Where a guess let too few through, that part of the batch is read
again: after `RankingReducer.read`, the monitor has all that any window still to be answered needs.

What a task may send is limited to a few times what tasks sent before. A task that reaches its limit shows that scores
are not what they were: what came is thrown away, and Spark chooses the best of each pane (`contest`).
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.answers.answer import Answers
from skyband.engine.monitor import Monitor
from skyband.engine.ranking import RankingGroup
from skyband.events.ahead import ahead_time
from skyband.events.batch import StreamColumns, event_times
from skyband.order import BoolArray, IntArray, merit_of, value_ranks
from skyband.spark import columns
from skyband.spark.reducers.candidates import MOST_FILTERED, RankingPrefilter, used
from skyband.spark.reducers.contest import ROW, SAMPLE, Contest, best_of_panes, gather
from skyband.spark.reducers.guesses import EVERY, SMALL, THIN, BatchForecast, ScoreDistribution
from skyband.spark.reducers.thresholds import Thresholds, constant
from skyband.windows import ALWAYS, NEVER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

USUAL, MOST_GENEROUS = 1.25, 16.0
MANY = 2 * SMALL
"""Where so many rows of a group would reach its thresholds, Spark chooses the best of them first."""
LEAST = 1 << 14
"""What a task may send at least, before it counts as a flood."""
PLACE = (1 << 33) - 1
"""The bits of `monotonically_increasing_id` that say which row of its task it is; those above are the task."""


@dataclass
class BatchProgress:
    """What reading one batch took: passes over it, rows that came back, panes guessed and read again.

    `contests` counts in how many groups Spark chose the best of each pane, since their scores were too equal;
    `discarded` the rows that came before it was known that too many would. `reduced_by` says who left rows out: the
    "filter" that Spark compiled, or the "core", run by each task; None where all rows come.
    """

    passes: int = 0
    shipped: int = 0
    discarded: int = 0
    rows_read: int | None = None  # of the batch; None where nobody counted them
    ahead_at: int | None = None  # the time of a row that is later than it may be
    contests: int = 0
    reduced_by: str | None = None
    guesses: int = 0
    re_reads: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    answers: list[Answers] = field(default_factory=list)
    tables: list[pa.Table] = field(default_factory=list)

    @property
    def rows(self) -> pa.Table:
        """All rows that came back."""
        return pa.concat_tables(self.tables)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a phase."""
        began = clock.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + clock.perf_counter() - began


class RankingReducer:
    """Reads the batches of one stream, and learns from each how to read the next.

    Parameters
    ----------
    source
        Which columns hold time and id.
    schema
        The stream's columns.
    delay
        How far the watermark stays behind the newest event; None where there is no watermark.
    whole
        Whether rows come back with all their columns, for side outputs.
    """

    def __init__(self, source: StreamColumns, schema: pa.Schema, delay: int | None = None, whole: bool = False) -> None:
        self.source, self.schema, self.delay, self.whole = source, schema, delay, whole
        self.time, self.id = columns.event_time_sql(source, schema), columns.quoted(source.id)
        self.mixed = _mixed(self.time, self.id, schema.field(source.id).type)
        self.marked = not pa.types.is_integer(schema.field(source.id).type)  # Spark must say what decides on the sample
        self.outlook = BatchForecast()
        self.scores: dict[str, dict[Any, ScoreDistribution]] = {}
        self.generosity: dict[str, float] = {}
        self.most = 0  # rows that a task has sent of late
        self._known: tuple[list[Any] | None, list[Any]] = (None, [])

    def needed(self, monitor: Monitor) -> list[Column]:
        """Return the columns that the monitor needs, and perhaps what decides on the sample; none: all of them."""
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        groups = [(group.ranking, group.intake.select) for group in monitor.rankings]
        if groups != self._known[0]:
            carried = self.schema.names if self.whole else [name for _, select in groups for name in select]
            names, values = columns.needed(self.source, self.schema, [ranking for ranking, _ in groups], carried)
            if self.marked:
                values.append(F.expr(self.mixed).alias(SAMPLE))
            # A select costs Spark some milliseconds; it is needed where thresholds are joined, by partition.
            joined = any(ranking.partition_by is not None for ranking, _ in groups)
            plain = not values and not joined and set(names) == set(self.schema.names)
            self._known = (groups, [] if plain else [*(F.col(columns.quoted(name)) for name in names), *values])
        return self._known[1]

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

    def read(self, df: DataFrame, monitor: Monitor, not_after: int | None = None) -> BatchProgress:
        """Take a batch into the monitor; rows after `not_after` are rejected, and count for nothing else."""
        batch, before = _Batch(self, df, monitor, not_after), monitor.newest
        if len(monitor.rankings) > MOST_FILTERED:
            batch.read_candidates()
            self.outlook = BatchForecast()  # nothing was learned for a filter
            return batch.reading
        batch.reading.reduced_by = "filter"
        low, tail = before, self.outlook.tail(before)
        if tail is None:
            low, tail = batch.probe()
        told = batch.settle(batch.read(low, tail))
        since = batch.oldest if before == NEVER else before
        self.outlook.learn(since, monitor.newest, batch.sampled_after(since), told)
        self.scores = batch.scores_after(before)
        return batch.reading

    def sql(self, group: RankingGroup) -> tuple[str, str, str | None]:
        """Return a group's filter, its merit and its partition as SQL texts."""
        ranking, schema = group.ranking, self.schema
        where = "true" if ranking.where is None else ranking.where.spark_sql(schema)
        score = f"double({ranking.score.spark_sql(schema)})"
        part = None if ranking.partition_by is None else ranking.partition_by.spark_sql(schema)
        return where, score if ranking.order == "desc" else f"(-{score})", part


class _Flood(Exception):  # noqa: N818 - nobody but `_Batch` sees it
    """A task has more rows to send than it may."""


class _Batch:
    """One batch on its way from Spark into the monitor."""

    def __init__(self, reader: RankingReducer, df: DataFrame, monitor: Monitor, not_after: int | None = None) -> None:
        self.reader, self.given, self.df, self.monitor, self.not_after = reader, df, df, monitor, not_after
        self.reading = BatchProgress()
        self.oldest, self.newest = ALWAYS, NEVER
        self.sample, self.every = pa.table({}), EVERY
        self.seen = ""  # what has come back already, as SQL
        self.sent = 0  # rows of the task that sent most in the last pass
        self.thresholds: list[Thresholds | None] = [None] * len(monitor.rankings)
        self.laid_out = list(self.thresholds)

    # Passes.

    def probe(self) -> tuple[int, int]:
        """Look at a thin sample when nothing is known: return from when to when the batch reaches, if it is large.

        These rows are chosen by their places, which no likeness of rows can upset; they need not be known again.
        """
        place = "monotonically_increasing_id() + 197 * spark_partition_id()"
        self.df, self.every = self.given, EVERY
        table = self._collect(f"(({place}) & {EVERY - 1}L) = 0")
        self.sample = table.drop_columns([SAMPLE]) if self.reader.marked else table
        time = self._times(self.sample)
        if self.sample.num_rows * EVERY <= SMALL or len(time) == 0:
            return NEVER, NEVER
        self.reader.scores = self.scores_after(self.monitor.newest)
        newest = self.monitor.newest
        return int(time.min()) if newest == NEVER else newest, int(time.max())

    def read_candidates(self) -> None:
        """Read what the core, run by each task, takes for candidates."""
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        reader = self.reader
        self.reading.reduced_by = "core"
        with self.reading.phase("plan"):
            names = reader.schema.names if reader.whole else used(reader.source, reader.schema, self.monitor)
            needed = self.given.select(*(F.col(columns.quoted(name)) for name in names))
            chosen = needed.mapInArrow(RankingPrefilter(self.monitor, self.not_after), needed.schema)
        self.reading.passes += 1
        with self.reading.phase("scan"):
            table = chosen.toArrow()
        self._push(table.cast(columns.in_utc(table.schema)))

    def read(self, low: int, tail: int) -> int:
        """Read what may matter, and everything from `tail` on; or, where these proved wrong, from what is returned."""
        tail = self._before_ahead(tail)
        try:
            table = self._pass(low, tail)
        except _Flood:
            if self.sample.num_rows == 0:
                low, tail = self.probe()
                tail = self._before_ahead(tail)
            table = self._pass(low, tail, flood=True)
        if tail != NEVER:
            self.reader.most = max(self.sent, self.reader.most // 2)
        self._take(table)
        return tail

    def _before_ahead(self, tail: int) -> int:
        """Let the tail begin with the rows that are rejected, at the latest: rows behind it all come back."""
        return tail if self.not_after is None else min(tail, self.not_after + 1)

    def _pass(self, low: int, tail: int, flood: bool = False) -> pa.Table:
        """Return what may matter; in a `flood`, of groups that let many rows through only the best of each pane."""
        if tail == NEVER:
            table = self._collect("true", None if flood else 4 * SMALL)
            self.reading.rows_read = table.num_rows
            return table
        with self.reading.phase("plan"):
            self.df, wanted = self.given, []
            for number, group in enumerate(self.monitor.rankings):
                name = str(group.ranking)
                scores, generosity = self.reader.scores.get(name, {}), self.reader.generosity.get(name, USUAL)
                self.thresholds[number] = Thresholds.of(group, low, tail, self._settled(tail), scores, generosity)
                wanted.append(self._reaching(number, f"{number}", group.answered_to))
            behind = f"{self.reader.time} >= {constant(tail, self.reader.time)}"
            counted = {number: group.answered_to for number, group in enumerate(self.monitor.rankings)}
            contests = self._contests(counted, self.reader.scores, low, tail)
            if flood and not contests:
                contests = self._contests(counted, self.reader.scores, low, tail, everywhere=True)
            always = [f"isnull({self.reader.id})"]
            always += [] if self.not_after is None else [f"{self.reader.time} > {self.not_after}L"]
            if self.sample.num_rows == 0:
                self.every = THIN * EVERY if contests else EVERY
                always.append(self.reader.sample(self.every))
            self.laid_out = list(self.thresholds)
            self.reading.guesses = sum(t.guesses for t in self.thresholds if t is not None)
            self.seen = " OR ".join([*wanted, behind, *always])
            always += self._without(contests, dict(enumerate(wanted)), behind)
        return self._collect(self.seen, None if flood else self._limit, list(contests.values()), always, tail)

    @property
    def _limit(self) -> int:
        """What a task may send."""
        return max(LEAST, 4 * self.reader.most)

    def _contests(
        self,
        counted: dict[int, int],
        scores: dict[str, dict[Any, ScoreDistribution]],
        low: int,
        high: int,
        everywhere: bool = False,
    ) -> dict[int, Contest]:
        """Return, by group, the contests where thresholds would let many rows through from `low` to `high`.

        `counted` has the groups, and before when each counts its rows one by one. Where it is not known which of them
        let many rows through, there are contests `everywhere`.
        """
        found: dict[int, Contest] = {}
        for number, since in counted.items():
            group, thresholds = self.monitor.rankings[number], self.thresholds[number]
            if thresholds is None:
                continue
            many = thresholds.expected(scores.get(str(group.ranking), {}), low, high)
            if many <= MANY and not everywhere:
                continue
            algorithm = group.algorithm.thresholded
            assert algorithm is not None
            cuts = algorithm.pane_edges(low, 2 * high - low)  # the batch may reach further than was foretold
            places = group.k * len(thresholds.values) * (1 + int(np.count_nonzero((cuts > low) & (cuts < high))))
            contest = Contest.of(group, self.reader.sql(group), self.reader.schema, self.reader.time, since, cuts)
            if contest is not None and (many > 2 * places or everywhere):
                found[number] = contest
        self.reading.contests = max(self.reading.contests, len(found))
        return found

    def _without(self, contests: dict[int, Contest], reaching: dict[int, str], behind: str) -> list[str]:
        """Return, as SQL, the rows of groups without a contest: that reach their thresholds, or have none `behind`."""
        rest = [number for number in range(len(self.monitor.rankings)) if number not in contests]
        reach = [text for number, text in reaching.items() if number not in contests]
        return [*reach, *(f"({self.reader.sql(self.monitor.rankings[number])[0]} AND {behind})" for number in rest)]

    def _reaching(self, number: int, name: str, low: int) -> str:
        """Return, as SQL, which rows reach a group's thresholds; joins them to the batch where need be."""
        where, merit, part = self.reader.sql(self.monitor.rankings[number])
        thresholds = self.thresholds[number]
        if thresholds is None:
            return f"({where})"
        self.df, bar = thresholds.apply(self.df, self.reader.time, part, name, low)
        reaches = f"NOT coalesce({merit} < {bar}, false)"  # rows without a merit or a time are counted, so they come
        return reaches if where == "true" else f"({where} AND {reaches})"

    def settle(self, tail: int) -> bool:
        """Read again where guesses were too high, until none is; tell whether hardly any was."""
        whole = tail == NEVER or self.newest >= tail  # all that came after the last row seen has been seen
        missed = self._missed(whole)
        count = sum(int(np.count_nonzero(m)) for m in missed.values())
        told = whole and count <= max(4, self.reading.guesses // 20)
        self._adapt(missed)
        scores = self.scores_after(NEVER) if self._rows_in(missed) > SMALL else {}
        for turn in range(3):
            if not missed and whole:
                break
            self.reading.re_reads += sum(int(np.count_nonzero(m)) for m in missed.values())
            self._read_again(missed, whole, scores, turn)
            whole = True
            missed = self._missed(whole)
        assert not missed, "a stretch without a guess cannot miss anything"
        for thresholds, group in zip(self.laid_out, self.monitor.rankings, strict=True):
            if thresholds is not None:
                thresholds.note(group, self.newest, self._settled(self.newest))
        return told

    def _settled(self, newest: int) -> int:
        """Return up to where windows will have been answered."""
        return NEVER if self.reader.delay is None else newest - self.reader.delay

    def _missed(self, whole: bool) -> dict[int, BoolArray]:
        """Return, by group, the stretches where events may be missing."""
        newest = self.newest if whole else ALWAYS
        found = {i: t.missed(self.monitor.rankings[i], newest) for i, t in enumerate(self.thresholds) if t is not None}
        return {i: panes for i, panes in found.items() if panes.any()}

    def _rows_in(self, missed: dict[int, BoolArray]) -> int:
        """Return about how many rows lie in stretches that missed events."""
        time, inside = self._times(self.sample), np.zeros(0, bool)
        for number, stretches in missed.items():
            thresholds = self.thresholds[number]
            assert thresholds is not None
            found = thresholds.lie_in(stretches, time)
            inside = found if len(inside) == 0 else inside | found
        return int(np.count_nonzero(inside)) * self.every

    def _adapt(self, missed: dict[int, BoolArray]) -> None:
        """Guess lower next time where guesses were often too high, else slowly higher."""
        for number, thresholds in enumerate(self.thresholds):
            if thresholds is not None and thresholds.guesses:
                name = str(self.monitor.rankings[number].ranking)
                often = number in missed and np.count_nonzero(missed[number]) > thresholds.guesses / 100
                factor = self.reader.generosity.get(name, USUAL) * (1.5 if often else 0.98)
                self.reader.generosity[name] = min(max(factor, 1.0), MOST_GENEROUS)

    def _read_again(
        self, missed: dict[int, BoolArray], whole: bool, scores: dict[str, dict[Any, ScoreDistribution]], turn: int
    ) -> None:
        """Read what missed events once more: with a guess from this batch's own sample, or, after that, with none."""
        time, low, high, wanted = self.reader.time, ALWAYS, NEVER, {}
        with self.reading.phase("plan"):
            for number, panes in missed.items():
                group, before = self.monitor.rankings[number], self.thresholds[number]
                assert before is not None
                start, end = before.extent(panes)
                low, high = min(low, start), max(high, end)
                again = scores.get(str(group.ranking), {}) if turn == 0 else {}
                newest = self.newest if whole else ALWAYS
                self.thresholds[number] = before.lowered(group, panes, again, newest)
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
        except _Flood:
            contests = self._contests(dict.fromkeys(missed, NEVER), scores, low, high, everywhere=True)
            table = self._collect(fresh, None, list(contests.values()), self._without(contests, wanted, behind), after)
        self._take(table)

    # What came back.

    def _collect(
        self,
        wanted: str,
        most: int | None = None,
        contests: Sequence[Contest] = (),
        free: Sequence[str] = (),
        after: int = ALWAYS,
    ) -> pa.Table:
        """Return the wanted rows: all, or of those that are not `free` the best of some contests.

        Raises `_Flood` where there are no contests, and a task has more than about `most` of these rows.
        """
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        reader = self.reader
        most = (
            None if most is None or contests else 1 << (most - 1).bit_length()
        )  # steps: the generated code stays the same
        with self.reading.phase("plan"):
            chosen, needed = self.df.where(F.expr(wanted)), reader.needed(self.monitor)
            if contests:
                latest = (after, ALWAYS if self.not_after is None else self.not_after)
                chosen = best_of_panes(chosen, needed, contests, free, reader.source.id, latest)
            else:
                chosen = chosen.select(*(needed or ["*"]), F.monotonically_increasing_id().alias(ROW))
                if most is not None:  # Spark lets no filter pass a column that depends on the rows before
                    chosen = chosen.where(f"(`{ROW}` & {PLACE}L) <= {most}L")
        self.reading.passes += 1
        with self.reading.phase("scan"):
            table = chosen.toArrow()
        table = table.cast(columns.in_utc(table.schema))
        if contests:
            table = gather(table, reader.source.time)
            self.sent = table.num_rows
            return table
        self.sent = int((table[ROW].to_numpy() & PLACE).max(initial=-1)) + 1
        if most is not None and self.sent > most:
            self.reading.discarded += table.num_rows
            raise _Flood
        return table.drop_columns([ROW])

    def _take(self, table: pa.Table) -> None:
        """Push rows into the monitor, and keep those of the sample."""
        if self.reading.passes == 1 or self.sample.num_rows == 0:
            self.sample = self.reader.sampled(table, self.every)
        self._push(table.drop_columns([SAMPLE]) if self.reader.marked else table)

    def _push(self, rows: pa.Table) -> None:
        """Push rows into the monitor."""
        with self.reading.phase("push"):
            self.reading.shipped += rows.num_rows
            if any(group.ranking.counts for group in self.monitor.rankings):
                rows = self._in_order(rows)
            time = self._times(rows)
            if self.not_after is not None and self.reading.ahead_at is None:
                self.reading.ahead_at = ahead_time(rows, self.reader.source, self.not_after)
            self.oldest = min(self.oldest, int(time.min(initial=ALWAYS)))
            self.newest = max(self.newest, int(time.max(initial=NEVER)))
            self.reading.tables.append(rows)
            answers = self.monitor.merge(rows, not_after=self.not_after)
            if len(answers):
                self.reading.answers.append(answers)

    def _in_order(self, rows: pa.Table) -> pa.Table:
        """Sort rows by time, then id, then all they have: Spark gives the rows of a batch no order of arrival."""
        first = [self.reader.source.time, self.reader.source.id]
        names = [*first, *sorted(name for name in rows.column_names if name not in first)]
        return rows.take(pa.array(np.lexsort([value_ranks(rows[name]) for name in reversed(names)])))

    def _times(self, table: pa.Table) -> IntArray:
        """Return the event times of the rows that have one, none that is later than it may be."""
        if table.num_rows == 0:
            return np.empty(0, np.int64)
        column = table[self.reader.source.time].combine_chunks()
        time: IntArray = event_times(column, self.reader.source).drop_null().to_numpy()
        return time if self.not_after is None else time[time <= self.not_after]

    # What the sample says.

    def sampled_after(self, before: int) -> int:
        """Return about how many rows of the batch are later than a time."""
        return int(np.count_nonzero(self._times(self.sample) > before)) * self.every

    def scores_after(self, before: int) -> dict[str, dict[Any, ScoreDistribution]]:
        """Learn from the sample how each group's scores are spread, by partition, among events after a time."""
        if self.sample.num_rows == 0:
            return {}
        batch = self.sample.combine_chunks().to_batches()[0]
        self.monitor.declare(batch.schema)
        time = event_times(batch.column(self.reader.source.time), self.reader.source)
        good = time.is_valid().to_numpy(zero_copy_only=False)
        moment = time.fill_null(NEVER).to_numpy()
        if self.not_after is not None:
            good &= moment <= self.not_after
        fresh = good & (moment > before)
        if np.count_nonzero(fresh) < np.count_nonzero(good) // 4:
            fresh = good
        span = int(np.ptp(moment[fresh])) if fresh.any() else 0
        return {str(g.ranking): _spread(g, batch, moment, fresh, (span, self.every)) for g in self.monitor.rankings}


def _mix(time: IntArray, ids: IntArray) -> IntArray:
    """Mix times and ids into numbers whose last bits look random."""
    return time ^ (time >> 10) ^ (time >> 20) ^ ids ^ (ids >> 9)


def _mixed(time: str, id_: str, kind: pa.DataType) -> str:
    """Return `_mix` as SQL: cheaper than a hash, and it cannot overflow."""
    number = f"cast({id_} AS BIGINT)" if pa.types.is_integer(kind) else f"cast(hash({id_}) AS BIGINT)"
    return f"({time} ^ shiftright({time}, 10) ^ shiftright({time}, 20) ^ {number} ^ shiftright({number}, 9))"


def _spread(
    group: RankingGroup, batch: pa.RecordBatch, time: IntArray, fresh: BoolArray, extent: tuple[int, int]
) -> dict[Any, ScoreDistribution]:
    bounds = group.intake.bounds
    assert bounds is not None
    score, known = bounds.score.scores(batch)
    taken = fresh & ~np.isnan(score)
    for mask in (known, None if bounds.where is None else bounds.where.mask(batch)):
        taken = taken if mask is None else taken & mask
    merit = merit_of(score, group.ranking.order)
    if bounds.partition_by is None:
        return {None: ScoreDistribution.fit(time[taken], merit[taken], *extent)}
    coded = bounds.partition_by.values(batch).dictionary_encode(null_encoding="encode")
    code = coded.indices.to_numpy(zero_copy_only=False)
    found: dict[Any, ScoreDistribution] = {}
    for number, value in enumerate(coded.dictionary.to_pylist()):
        mine = taken & (code == number)
        found[value] = ScoreDistribution.fit(time[mine], merit[mine], *extent)
    return found
