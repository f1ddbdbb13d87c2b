"""One micro-batch into the monitor: the thresholds go to the data, and only what reaches them comes back.

A batch is read in one pass. Rows come back that reach the threshold of their stretch of time, that are late or
incomplete, that lie at the end of the batch (so that its latest event time is known exactly), or that belong to a thin
sample from which the next thresholds are guessed. Where a guess let too few through, that part of the batch is read
again: after `Reader.read`, the monitor has all that any window still to be answered needs.
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.answers.answer import Answers
from skyband.engine.monitor import Monitor
from skyband.engine.ranking import RankingGroup
from skyband.events.batch import StreamColumns, event_times
from skyband.order import BoolArray, IntArray, merit_of
from skyband.spark import columns
from skyband.spark.reducers.guesses import EVERY, SMALL, BatchForecast, ScoreDistribution
from skyband.spark.reducers.thresholds import Thresholds, constant
from skyband.windows import ALWAYS, NEVER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAMPLE = "skyband sample"
USUAL, MOST_GENEROUS = 1.25, 16.0
FLOOD = 1 << 20


@dataclass
class BatchProgress:
    """What reading one batch took: passes over it, rows that came back, panes guessed and read again."""

    passes: int = 0
    shipped: int = 0
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
        self.sample = f"({_mixed(self.time, self.id, schema.field(source.id).type)} & {EVERY - 1}L) = 0"
        self.marked = not pa.types.is_integer(schema.field(source.id).type)  # Spark must tell which rows are sampled
        self.outlook = BatchForecast()
        self.scores: dict[str, dict[Any, ScoreDistribution]] = {}
        self.generosity: dict[str, float] = {}
        self._known: tuple[list[Any] | None, list[Any]] = (None, [])

    def needed(self, df: DataFrame, monitor: Monitor) -> DataFrame:
        """Return the columns that the monitor needs, and perhaps which rows are of the sample."""
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        groups = [(group.ranking, group.intake.select) for group in monitor.groups]
        if groups != self._known[0]:
            carried = self.schema.names if self.whole else [name for _, select in groups for name in select]
            names, values = columns.needed(self.source, self.schema, [ranking for ranking, _ in groups], carried)
            if self.marked:
                values.append(F.expr(self.sample).alias(SAMPLE))
            # A select costs Spark some milliseconds; it is needed where thresholds are joined, by partition.
            joined = any(ranking.partition_by is not None for ranking, _ in groups)
            plain = not values and not joined and set(names) == set(self.schema.names)
            self._known = (groups, [] if plain else [*(F.col(columns.quoted(name)) for name in names), *values])
        return df.select(*self._known[1]) if self._known[1] else df

    def sampled(self, table: pa.Table) -> pa.Table:
        """Return which rows belong to the sample, of all columns but that which says so."""
        if self.marked:
            return table.filter(table[SAMPLE]).drop_columns([SAMPLE])
        time = event_times(table[self.source.time].combine_chunks(), self.source)
        ids = table[self.source.id].combine_chunks().cast(pa.int64())
        good = pc.and_(time.is_valid(), ids.is_valid())
        mixed = _mix(time.fill_null(0).to_numpy(), ids.fill_null(0).to_numpy())
        return table.filter(pc.and_(good, pa.array((mixed & (EVERY - 1)) == 0)))

    def read(self, df: DataFrame, monitor: Monitor) -> BatchProgress:
        """Take a batch into the monitor."""
        batch, before = _Batch(self, df, monitor), monitor.newest
        low, tail = before, self.outlook.tail(before)
        if tail is None:
            low, tail = batch.probe()
        batch.read(low, tail)
        told = batch.settle(tail)
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


class _Batch:
    """One batch on its way from Spark into the monitor."""

    def __init__(self, reader: RankingReducer, df: DataFrame, monitor: Monitor) -> None:
        self.reader, self.df, self.monitor = reader, df, monitor
        self.reading = BatchProgress()
        self.oldest, self.newest = ALWAYS, NEVER
        self.sample = pa.table({})
        self.seen = ""  # what has come back already, as SQL
        self.thresholds: list[Thresholds | None] = [None] * len(monitor.groups)
        self.laid_out = list(self.thresholds)

    # Passes.

    def probe(self) -> tuple[int, int]:
        """Look at a thin sample when nothing is known: return from when to when the batch reaches, if it is large."""
        self.sample = self.reader.sampled(self._collect(self.reader.sample))
        time = self._times(self.sample)
        if len(time) * EVERY <= SMALL:
            return NEVER, NEVER
        self.reader.scores = self.scores_after(self.monitor.newest)
        newest = self.monitor.newest
        return int(time.min()) if newest == NEVER else newest, int(time.max())

    def read(self, low: int, tail: int) -> None:
        """Read what may matter, and everything from `tail` on."""
        if tail == NEVER:
            self._take(self._collect("true"))
            return
        with self.reading.phase("plan"):
            wanted = []
            for number, group in enumerate(self.monitor.groups):
                name = str(group.ranking)
                scores, generosity = self.reader.scores.get(name, {}), self.reader.generosity.get(name, USUAL)
                self.thresholds[number] = Thresholds.of(group, low, tail, self._settled(tail), scores, generosity)
                wanted.append(self._reaching(number, f"{number}", group.answered_to))
            wanted.append(f"{self.reader.time} >= {constant(tail, self.reader.time)}")
            wanted += [self.reader.sample, f"isnull({self.reader.id})"]
            self.laid_out = list(self.thresholds)
            self.reading.guesses = sum(t.guesses for t in self.thresholds if t is not None)
            self.seen = " OR ".join(wanted)
        self._take(self._collect(self.seen))

    def _reaching(self, number: int, name: str, low: int) -> str:
        """Return, as SQL, which rows reach a group's thresholds; joins them to the batch where need be."""
        where, merit, part = self.reader.sql(self.monitor.groups[number])
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
        told = whole and count <= max(4, self.reading.guesses // 20) and self.reading.shipped <= FLOOD
        self._adapt(missed)
        scores = self.scores_after(NEVER) if self._rows_in(missed) > SMALL else {}
        for turn in range(3):
            if not missed and whole:
                break
            self.reading.re_reads += sum(int(np.count_nonzero(m)) for m in missed.values())
            self._read_again(missed, whole, scores if turn == 0 else {}, turn)
            whole = True
            missed = self._missed(whole)
        assert not missed, "a stretch without a guess cannot miss anything"
        for thresholds, group in zip(self.laid_out, self.monitor.groups, strict=True):
            if thresholds is not None:
                thresholds.note(group, self.newest, self._settled(self.newest))
        return told

    def _settled(self, newest: int) -> int:
        """Return up to where windows will have been answered."""
        return NEVER if self.reader.delay is None else newest - self.reader.delay

    def _missed(self, whole: bool) -> dict[int, BoolArray]:
        """Return, by group, the stretches where events may be missing."""
        newest = self.newest if whole else ALWAYS
        found = {i: t.missed(self.monitor.groups[i], newest) for i, t in enumerate(self.thresholds) if t is not None}
        return {i: panes for i, panes in found.items() if panes.any()}

    def _rows_in(self, missed: dict[int, BoolArray]) -> int:
        """Return about how many rows lie in stretches that missed events."""
        time, inside = self._times(self.sample), np.zeros(0, bool)
        for number, stretches in missed.items():
            thresholds = self.thresholds[number]
            assert thresholds is not None
            found = thresholds.lie_in(stretches, time)
            inside = found if len(inside) == 0 else inside | found
        return int(np.count_nonzero(inside)) * EVERY

    def _adapt(self, missed: dict[int, BoolArray]) -> None:
        """Guess lower next time where guesses were often too high, else slowly higher."""
        for number, thresholds in enumerate(self.thresholds):
            if thresholds is not None and thresholds.guesses:
                name = str(self.monitor.groups[number].ranking)
                often = number in missed and np.count_nonzero(missed[number]) > thresholds.guesses / 100
                factor = self.reader.generosity.get(name, USUAL) * (1.5 if often else 0.98)
                self.reader.generosity[name] = min(max(factor, 1.0), MOST_GENEROUS)

    def _read_again(
        self, missed: dict[int, BoolArray], whole: bool, scores: dict[str, dict[Any, ScoreDistribution]], turn: int
    ) -> None:
        """Read what missed events once more: with a guess from this batch's own sample, or with none."""
        time, low, high, wanted = self.reader.time, ALWAYS, NEVER, []
        with self.reading.phase("plan"):
            for number, panes in missed.items():
                group, before = self.monitor.groups[number], self.thresholds[number]
                assert before is not None
                start, end = before.extent(panes)
                low, high = min(low, start), max(high, end)
                again, newest = scores.get(str(group.ranking), {}), self.newest if whole else ALWAYS
                self.thresholds[number] = before.lowered(group, panes, again, newest)
                wanted.append(self._reaching(number, f"{number}_{turn}", NEVER))
            if not whole:
                low, high = min(low, self.newest + 1), ALWAYS
                wanted.append(f"{time} > {self.newest}L")
            reached = f"({time} >= {low}L AND {time} < {high}L AND ({' OR '.join(wanted)}))"
            fresh = f"{reached} AND NOT coalesce({self.seen}, false)"
            self.seen = f"{self.seen} OR {reached}"
        self._take(self._collect(fresh))

    # What came back.

    def _collect(self, wanted: str) -> pa.Table:
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        with self.reading.phase("plan"):
            chosen = self.reader.needed(self.df.where(F.expr(wanted)), self.monitor)
        self.reading.passes += 1
        with self.reading.phase("scan"):
            table = chosen.toArrow()
        return table.cast(columns.in_utc(table.schema))

    def _take(self, table: pa.Table) -> None:
        """Push rows into the monitor, and keep those of the sample."""
        with self.reading.phase("push"):
            self.reading.shipped += table.num_rows
            if self.reading.passes == 1 or self.sample.num_rows == 0:
                self.sample = self.reader.sampled(table)
            rows = table.drop_columns([SAMPLE]) if self.reader.marked else table
            if any(group.ranking.counts for group in self.monitor.groups):
                # Spark gives rows no order of arrival: within a batch it is that of their times, then of their ids.
                rows = rows.sort_by([(self.reader.source.time, "ascending"), (self.reader.source.id, "ascending")])
            time = self._times(rows)
            self.oldest = min(self.oldest, int(time.min(initial=ALWAYS)))
            self.newest = max(self.newest, int(time.max(initial=NEVER)))
            self.reading.tables.append(rows)
            answers = self.monitor.push(rows, joined=False)
            if len(answers):
                self.reading.answers.append(answers)

    def _times(self, table: pa.Table) -> IntArray:
        """Return the event times of the rows that have one."""
        if table.num_rows == 0:
            return np.empty(0, np.int64)
        column = table[self.reader.source.time].combine_chunks()
        return event_times(column, self.reader.source).drop_null().to_numpy()  # type: ignore[no-any-return]

    # What the sample says.

    def sampled_after(self, before: int) -> int:
        """Return about how many rows of the batch are later than a time."""
        return int(np.count_nonzero(self._times(self.sample) > before)) * EVERY

    def scores_after(self, before: int) -> dict[str, dict[Any, ScoreDistribution]]:
        """Learn from the sample how each group's scores are spread, by partition, among events after a time."""
        if self.sample.num_rows == 0:
            return {}
        batch = self.sample.combine_chunks().to_batches()[0]
        self.monitor.declare(batch.schema)
        time = event_times(batch.column(self.reader.source.time), self.reader.source)
        good = time.is_valid().to_numpy(zero_copy_only=False)
        moment = time.fill_null(NEVER).to_numpy()
        fresh = good & (moment > before)
        if np.count_nonzero(fresh) < np.count_nonzero(good) // 4:
            fresh = good
        span = int(np.ptp(moment[fresh])) if fresh.any() else 0
        return {str(g.ranking): _spread(g, batch, moment, fresh, span) for g in self.monitor.groups}


def _mix(time: IntArray, ids: IntArray) -> IntArray:
    """Mix times and ids into numbers whose last bits look random."""
    return time ^ (time >> 10) ^ (time >> 20) ^ ids ^ (ids >> 9)


def _mixed(time: str, id_: str, kind: pa.DataType) -> str:
    """Return `_mix` as SQL: cheaper than a hash, and it cannot overflow."""
    number = f"cast({id_} AS BIGINT)" if pa.types.is_integer(kind) else f"cast(hash({id_}) AS BIGINT)"
    return f"({time} ^ shiftright({time}, 10) ^ shiftright({time}, 20) ^ {number} ^ shiftright({number}, 9))"


def _spread(
    group: RankingGroup, batch: pa.RecordBatch, time: IntArray, fresh: BoolArray, span: int
) -> dict[Any, ScoreDistribution]:
    bounds = group.intake.bounds
    assert bounds is not None
    score, known = bounds.score.scores(batch)
    taken = fresh & ~np.isnan(score)
    for mask in (known, None if bounds.where is None else bounds.where.mask(batch)):
        taken = taken if mask is None else taken & mask
    merit = merit_of(score, group.ranking.order)
    if bounds.partition_by is None:
        return {None: ScoreDistribution.fit(time[taken], merit[taken], span)}
    coded = bounds.partition_by.values(batch).dictionary_encode(null_encoding="encode")
    code = coded.indices.to_numpy(zero_copy_only=False)
    found: dict[Any, ScoreDistribution] = {}
    for number, value in enumerate(coded.dictionary.to_pylist()):
        mine = taken & (code == number)
        found[value] = ScoreDistribution.fit(time[mine], merit[mine], span)
    return found
