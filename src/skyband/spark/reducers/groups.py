"""Thresholds of rankings with partitions: each group's own, learned from what came back for it.

A thin sample holds too few events of each of many groups, but what a batch brought back holds all that reached the
thresholds of their group. From that follows how often a group's events reach a merit, and so from which merit on about
as many of a coming stretch will come as a guess aims at. A group that was not seen has no threshold: all its rows come.

Between two cuts an event cannot matter that K others dominate in every window that holds it. Open intervals are put
together into *blocks* of up to half the shortest window. A window that holds an interval of a block either goes on to
the end of the block, or began before the block did, long enough ago: it holds the interval and all of the block behind
it, or all that lies before it back to one window before the end of the block. So K better events in either stretch
suffice, and both are counted afterwards, among the events that came back.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.engine.plans import RankingPlan
from skyband.events.batch import EventBatch
from skyband.events.keys import is_text
from skyband.order import BoolArray, FloatArray, IntArray, rank_in_runs
from skyband.spark.reducers.guesses import ScoreDistribution, wanted
from skyband.spark.reducers.thresholds import MOST_BUCKETS, MOST_NUMBERS, NOTHING, Thresholds, numbers, thresholded
from skyband.windows import ALWAYS, NEVER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FINEST = 8
"""An interval is at most so much shorter than the rest of its block, so that blocks of many panes have few."""
FEW_PARTITIONS = 64
"""So many partitions at most are looked up in a constant; more are joined."""
PAST_PARTS = 8
"""Of the past, the K best of each group are known in so many parts of the shortest window."""
THINNED = 8
"""One row in so many is enough to see whether groups without thresholds could have some."""
MOST_LET_THROUGH = 0.7
"""Thresholds that let a larger share of the events through are not worth a join."""


@dataclass(frozen=True)
class GroupRows:
    """Events that came back: the code of their group, when they happened, and how good they are.

    `ident` tells apart what counts once only: ids, or scores that share a rank; None where every event counts.
    """

    code: IntArray
    time: IntArray
    merit: FloatArray
    ident: IntArray | None = None

    @classmethod
    def joined(cls, parts: Sequence[GroupRows]) -> GroupRows:
        """Return the rows of several."""
        parts = [part for part in parts if len(part)]
        if len(parts) < 2:
            return parts[0] if parts else cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        code, time, merit = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("code", "time", "merit")
        )
        idents = [part.ident for part in parts if part.ident is not None]
        return cls(code, time, merit, np.concatenate(idents) if idents else None)

    def __len__(self) -> int:
        return len(self.code)

    def __getitem__(self, chosen: Any) -> GroupRows:
        ident = None if self.ident is None else self.ident[chosen]
        return GroupRows(self.code[chosen], self.time[chosen], self.merit[chosen], ident)

    def between(self, low: int, high: int) -> GroupRows:
        """Return the events of an interval of time."""
        return self[(self.time >= low) & (self.time < high)]

    def best_first(self) -> IntArray:
        """Return the places of the rows group by group, those of each group from the best to the worst."""
        order = np.argsort(-self.merit)
        code = self.code[order]
        narrow = code.astype(np.uint16) if len(code) and int(code.max()) < 1 << 16 else code  # sorted in linear time
        return order[np.argsort(narrow, kind="stable")]

    def counting(self) -> GroupRows:
        """Return the rows that count: of those that count once, the best."""
        if self.ident is None:
            return self
        order = np.lexsort((-self.merit, self.ident, self.code))
        return self[order[rank_in_runs(self.code[order], self.ident[order]) == 0]]

    def best(self, k: int, part: IntArray | None = None) -> GroupRows:
        """Return the best k of each group, or of each part of it."""
        if part is None:
            rows = self.counting()
            order = rows.best_first()
            return rows[order[rank_in_runs(rows.code[order]) < k]]
        chosen = [self[part == one].best(k) for one in np.unique(part).tolist()]
        return GroupRows.joined(chosen) if chosen else self


def _stretch(k: int, count: IntArray) -> FloatArray:
    """Return, of events that were counted, in which share of the time they took about k others come almost surely.

    Both counts vary by chance. A guess from as long a stretch aims at `wanted(k)` events; the longer the one that
    events were counted in, the fewer are enough.

    Examples
    --------
    >>> _stretch(10, np.array([45, 450, 10])).round(2).tolist()
    [1.0, 0.07, inf]
    """
    aim = wanted(k)
    z2 = (aim - k) ** 2 / (2 * aim)  # k lies so many deviations below what is aimed at, squared
    n = count.astype(np.float64)
    half, rest = (2 * k + z2) * n, n * (n - z2)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: FloatArray = (half + np.sqrt(np.maximum(half**2 - 4 * rest * k**2, 0))) / (2 * rest)
    return np.where(n > z2, found, np.inf)


@dataclass(frozen=True)
class Cells:
    """The thresholds that rows came back by: `bars` has a row for each of the groups `codes`; of others all came.

    `places` has the row of each group, -1 where it has none. `lengths` says how much of each interval between `cuts` a
    batch took.
    """

    cuts: IntArray
    lengths: FloatArray
    codes: IntArray
    places: IntArray
    bars: FloatArray

    @classmethod
    def of(cls, cuts: IntArray, lengths: FloatArray, codes: IntArray, bars: FloatArray, groups: int) -> Cells:
        """Make it for so many groups."""
        places = np.full(groups, -1)
        places[codes] = np.arange(len(codes))
        return cls(cuts, lengths, codes, places, bars)

    def interval(self, rows: GroupRows) -> IntArray:
        """Return in which interval each row lies."""
        found: IntArray = np.clip(np.searchsorted(self.cuts, rows.time, side="right") - 1, 0, len(self.lengths) - 1)
        return found

    def place(self, code: IntArray) -> IntArray:
        """Return the row of each code's group, -1 where it has none."""
        return self.places[code]

    def reaching(self, rows: GroupRows) -> GroupRows:
        """Leave out what came for another reason, as part of a sample: it would count too often."""
        if len(self.codes) == 0:
            return rows
        place = self.place(rows.code)
        return rows[(place < 0) | (rows.merit >= self.bars[place, self.interval(rows)])]


@dataclass(frozen=True)
class Levels:
    """How often the events of each group reach a merit.

    The rows are group by group, best first: `count` events of the group are as good as `merit`, in the `time` in which
    such events came back. `codes` are the groups that have enough rows, and `starts` says where each begins; `others`
    is how many events a microsecond the rest has together.
    """

    codes: IntArray
    starts: IntArray
    merit: FloatArray
    count: IntArray
    time: FloatArray
    reach: FloatArray
    others: float

    @classmethod
    def of(cls, rows: GroupRows, k: int, cells: Cells) -> Levels:
        """Learn from the rows that came back."""
        interval, cell = cells.interval(rows), cells.place(rows.code)
        enough = int(wanted(k))
        many = np.bincount(rows.code, minlength=len(cells.places)) >= enough
        taken = many[rows.code]
        if len(cells.codes) == 0 and np.count_nonzero(taken) < (1 - MOST_LET_THROUGH) * len(taken):
            many[:], taken[:] = False, False
        others = float(np.count_nonzero(~taken)) / max(float(cells.lengths.sum()), 1.0)
        rows, interval, cell = rows[taken], interval[taken], cell[taken]
        codes, bars = cells.codes[many[cells.codes]], cells.bars[many[cells.codes]]
        # A threshold lies behind the events that reach it. Below it, neither its interval nor what came there counts.
        counts = np.zeros(cells.bars.shape, np.int64)
        np.add.at(counts, (cell[cell >= 0], interval[cell >= 0]), 1)
        above = bars > -np.inf
        code = np.concatenate([rows.code, np.repeat(codes, above.sum(axis=1))])
        union = GroupRows(code, code, np.concatenate([rows.merit, bars[above]]))
        step = np.concatenate([np.ones(len(rows), np.int64), -counts[many[cells.codes]][above]])
        width = np.concatenate([np.zeros(len(rows)), np.broadcast_to(cells.lengths, bars.shape)[above]])
        order = union.best_first()
        code, step, width = code[order], step[order], width[order]
        begins = np.flatnonzero(np.diff(code, prepend=-1))
        first = np.repeat(begins, np.diff(np.append(begins, len(code))))
        count, passed = np.cumsum(step), np.cumsum(width)
        count = count - (count[first] - step[first])
        time = np.maximum(cells.lengths.sum() - (passed - (passed[first] - width[first])), 1.0)
        chosen = order < len(rows)
        code, count, time = code[chosen], count[chosen], time[chosen]
        starts = np.flatnonzero(np.diff(code, prepend=-1))
        reach = time * _stretch(k, count)
        return cls(code[starts], np.append(starts, len(code)), union.merit[order][chosen], count, time, reach, others)

    def bars(self, lengths: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return, by group, the merit that enough events of stretches of these lengths reach, and how many a time do.

        Minus infinity where even all that came back are too few.
        """
        groups = len(self.codes)
        bars, rates = np.full((groups, len(lengths)), -np.inf), np.zeros((groups, len(lengths)))
        if groups == 0 or len(lengths) == 0:
            return bars, rates
        top = 2.0 * max(float(lengths.max()), 1.0)
        row = np.repeat(np.arange(groups), np.diff(self.starts))
        keys = 2.0 * row + 1.0 - np.minimum(self.reach, top) / top
        keys = np.maximum.accumulate(keys)  # the first row that is enough, though a later one may not be
        sought = 2.0 * np.arange(groups)[:, None] + 1.0 - lengths / top
        place = np.searchsorted(keys, sought.ravel()).reshape(sought.shape)
        known = place < self.starts[1:, None]
        last = np.minimum(place, self.starts[1:, None] - 1)
        bars[known] = self.merit[place[known]]
        rates[:] = self.count[last] / self.time[last]
        return bars, rates


@dataclass
class GroupThresholds(Thresholds):
    """What events must reach, by group and by interval, and how it is proved that it was not too much.

    `partitions` are the groups, `codes` their codes; `through` is how many events are expected to reach these
    thresholds per microsecond.
    """

    partitions: pa.Array = field(kw_only=True)
    scores: GroupScores = field(kw_only=True)
    codes: IntArray = field(kw_only=True)
    blocks: Blocks = field(kw_only=True)
    through: FloatArray = field(kw_only=True)

    def missed(self, plan: RankingPlan, newest: int) -> BoolArray:
        """Return where events may be missing: fewer than K reached a guess behind it in its block, or before it."""
        missed = np.zeros(self.values.shape, bool)
        if not self.guesses:
            return missed
        evidence, blocks, k = self.scores.evidence(), self.blocks, plan.k
        place = np.full(self.scores.groups, -1)
        place[self.codes] = np.arange(len(self.codes))
        evidence = evidence[place[evidence.code] >= 0]
        for begin, end in blocks.each():
            if self.cuts[begin] > newest or not self.guessed[:, begin:end].any():
                continue
            start, stop = int(self.cuts[begin]), int(self.cuts[end])
            bars = np.where(self.guessed[:, begin:end], self.values[:, begin:end], np.inf)
            inside = evidence.between(start, stop)
            least = bars.min(axis=1)
            inside = inside[inside.merit >= least[place[inside.code]]].counting()
            held = _reached(inside, place, self.cuts[begin : end + 1], bars, blocks.whole[begin:end], behind=True)
            failed = held < k
            if end - begin > 1:
                low = max(stop - plan.shortest, NEVER)
                best = np.full(len(self.codes), -np.inf)
                best[:] = self.scores.kth_best(low, start, k)[self.codes]
                open_ = best < self.values[:, begin:end].max(axis=1)
                if open_.any():
                    before = evidence.between(low, stop)
                    before = before[open_[place[before.code]]]
                    before = before[before.merit >= least[place[before.code]]].counting()
                    held = _reached(
                        before, place, self.cuts[begin : end + 1], bars, blocks.whole[begin:end], behind=False
                    )
                    failed |= open_[:, None] & (held < k)
            missed[:, begin:end] = failed
        return missed & self.guessed & (self.cuts[:-1] <= newest)

    @property
    def known(self) -> int:
        """How many groups there are, as far as is known."""
        return self.scores.groups

    def expected(self, scores: ScoreDistribution | None, low: int, high: int) -> float:  # noqa: ARG002 - knows its own
        """Return about how many events reach these thresholds from `low` to `high`."""
        lengths = np.clip(self.cuts[1:], low, high) - np.clip(self.cuts[:-1], low, high)
        return float((self.through * lengths).sum())

    def lowered(
        self,
        plan: RankingPlan,  # noqa: ARG002 - guesses are made of the groups' own scores
        intervals: BoolArray,
        scores: ScoreDistribution | None,  # noqa: ARG002
        newest: int,  # noqa: ARG002
    ) -> GroupThresholds:
        """Return none for the intervals that missed events; the others let nothing more through."""
        values = np.where(intervals, -np.inf, NOTHING)
        self.scores.missed(intervals)
        return replace(self, values=values, guessed=np.zeros(values.shape, bool))

    def note(self, plan: RankingPlan, newest: int, closed_to: int) -> None:
        """Record in the ranking which events were filtered; all windows up to `closed_to` are answered afterwards."""
        best, blocks = self.values.max(axis=0, initial=-np.inf), self.blocks
        for place in np.flatnonzero((best > -np.inf) & ~blocks.alone & (self.cuts[:-1] <= newest)).tolist():
            low, high = int(self.cuts[place]), min(int(self.cuts[place + 1]), newest + 1)
            depth = plan.k if blocks.ends[place] <= closed_to else 0
            thresholded(plan).record_filtered(low, high, depth, float(best[place]))

    def _limits(self) -> FloatArray:
        return self.values

    def apply(self, df: DataFrame, time: str, partition: str | None, name: str, low: int) -> tuple[DataFrame, str]:
        """Return the DataFrame, joined where needed, and the SQL text of an event's threshold."""
        assert partition is not None
        place, ladders = self._ladders(time, low)
        values = self.partitions
        if is_text(values.type):  # by its bytes: a collation may take other texts for equal
            values, partition = values.cast(pa.binary()), f"cast({partition} AS BINARY)"
        if len(values) <= FEW_PARTITIONS and ladders.size <= MOST_BUCKETS:
            return df, _chosen(values, partition, ladders, place)
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        key, ladder = f"skyband_key_{name}", f"skyband_ladder_{name}"
        begins = np.arange(len(ladders) + 1, dtype=np.int32) * ladders.shape[1]
        lists = pa.ListArray.from_arrays(begins, ladders.ravel())
        table = df.sparkSession.createDataFrame(pa.table({key: values, ladder: lists}))
        joined = df.join(F.broadcast(table), F.expr(f"{partition} <=> {key}"), "left")
        return joined, f"coalesce(element_at({ladder}, {place}), double('-Infinity'))"


def _chosen(values: pa.Array, partition: str, ladders: FloatArray, place: str) -> str:
    """Return the threshold in one of a few partitions: all ladders in one constant, after one for all others."""
    known = values.is_valid().to_numpy(zero_copy_only=False)
    order = np.argsort(~known, kind="stable")  # NULL comes last: it is in no array that Spark can search
    ladders = np.vstack([np.full(ladders.shape[1], -np.inf), ladders[order]])
    listed = values.drop_null()
    if pa.types.is_binary(listed.type):
        texts = [f"unhex('{value.hex()}')" for value in listed.to_pylist()]
        array = f"array({', '.join(texts)})"
    elif pa.types.is_floating(listed.type):
        array = numbers(listed.to_pylist(), "double")
    else:
        array, partition = numbers(listed.cast(pa.int64()).to_pylist(), "bigint"), f"cast({partition} AS BIGINT)"
    null = len(known) if not known.all() else 0
    row = f"if(isnull({partition}), {null}, 0)"
    if len(listed):
        row = f"cast(coalesce(array_position({array}, {partition}), {row}) AS INT)"
    return f"element_at({numbers(ladders.ravel().tolist(), 'double')}, {row} * {ladders.shape[1]} + {place})"


def _reached(
    rows: GroupRows, place: IntArray, cuts: IntArray, bars: FloatArray, whole: BoolArray, *, behind: bool
) -> IntArray:
    """Count, by group and interval of a block, the rows that reach its bar, from it on, or else up to it.

    Of an interval that a cut goes through, its own rows do not count: not every window that holds a part holds them.
    """
    found = np.zeros(bars.shape, np.int64)
    interval = np.searchsorted(cuts, rows.time, side="right") - 1
    order = np.argsort(interval, kind="stable")
    row, merit = place[rows.code[order]], rows.merit[order]
    edges = np.searchsorted(interval[order], np.arange(bars.shape[1] + 1))
    for number in range(bars.shape[1]):
        if behind:
            part = slice(edges[number] if whole[number] else edges[number + 1], None)
        else:
            part = slice(0, edges[number + 1] if whole[number] else edges[number])
        mine = row[part]
        found[:, number] = np.bincount(mine[merit[part] >= bars[mine, number]], minlength=len(bars))
    return found


@dataclass(frozen=True)
class Blocks:
    """How open panes are put together: the cuts of the intervals, and for each the `ends` of its block.

    `whole` marks intervals of one pane; `alone` blocks of one.
    """

    cuts: IntArray
    ends: IntArray
    whole: BoolArray
    alone: BoolArray

    @classmethod
    def of(cls, cuts: IntArray, closed_to: int, most: int) -> Blocks:
        """Put panes that end by `closed_to` together into blocks of up to `most`; those behind stay alone.

        Examples
        --------
        >>> blocks = Blocks.of(np.arange(0, 210, 10), 180, 300)
        >>> blocks.cuts.tolist()
        [0, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160, 170, 180, 190, 200]
        >>> blocks.ends.tolist()[-4:], blocks.whole.tolist()[:4]
        ([180, 180, 190, 200], [False, True, True, True])
        """
        last = int(np.searchsorted(cuts, closed_to, side="right")) - 1
        kept, ends, alone = [], [], []
        for place in range(len(cuts) - 2, max(last, 0) - 1, -1):
            kept.append(place)
            ends.append(int(cuts[place + 1]))
            alone.append(True)
        here = max(last, 0)
        while here > 0:
            begin = min(int(np.searchsorted(cuts, cuts[here] - most)), here - 1)
            place, alone_ = here, begin == here - 1
            while place > begin:
                length = (int(cuts[here]) - int(cuts[place])) // FINEST
                place = min(max(int(np.searchsorted(cuts, cuts[place] - length)), begin), place - 1)
                kept.append(place)
                ends.append(int(cuts[here]))
                alone.append(alone_)
            here = begin
        places = np.array([*kept[::-1], len(cuts) - 1], np.int64)
        return cls(cuts[places], np.array(ends[::-1], np.int64), np.diff(places) == 1, np.array(alone[::-1], bool))

    def each(self) -> list[tuple[int, int]]:
        """Return the first interval of each block, and the one behind its last."""
        begins = [0, *(np.flatnonzero(np.diff(self.ends)) + 1).tolist(), len(self.ends)]
        return list(itertools.pairwise(begins))


class GroupScores:
    """What is known of the groups of one ranking: what came back for them, and what follows for the next batch."""

    def __init__(self, plan: RankingPlan) -> None:
        self.plan = plan
        self.values: pa.Array | None = None  # of the groups, by code
        self.past, self.recent = GroupRows.joined(()), GroupRows.joined(())
        self.levels: Levels | None = None
        self._taken: list[GroupRows] = []
        self._evidence: GroupRows | None = None
        self._idents: dict[Any, int] = {}
        self._given: GroupThresholds | None = None  # as laid out in the first pass
        self._bars = np.empty((0, 0))

    @classmethod
    def can_learn(cls, plan: RankingPlan) -> bool:
        """Tell whether a ranking has groups whose events can be left out elsewhere."""
        split = plan.ranking.partition_by is not None and plan.partition_type != "time"  # other forms in other zones
        return split and plan.thresholded is not None

    @property
    def groups(self) -> int:
        """How many groups have codes."""
        return 0 if self.values is None else len(self.values)

    # What comes back.

    def take(self, rows: EventBatch) -> None:
        """Note what came back of this batch; where no group has a threshold, a part of it is enough to learn from."""
        if not self._barred:
            some = np.random.default_rng(len(rows.batch)).random(len(rows.batch)) < 1 / THINNED
            rows = EventBatch(rows.batch.filter(pa.array(some)), rows.source, rows.not_after)
        self._taken.append(self._rows(rows))
        self._evidence = None

    def sampled(self, rows: EventBatch, every: int, span: int) -> None:
        """Learn from a sample of one row in so many, that reaches over a span of time."""
        found = self._rows(rows)
        none = np.empty(0, np.int64)
        self.levels = Levels.of(
            found, self.plan.k, Cells.of(none, np.array([span / every]), none, np.empty((0, 1)), self.groups)
        )

    @property
    def _barred(self) -> bool:
        """Whether any group has a threshold in this batch."""
        return self._given is not None and len(self._given.codes) > 0

    def evidence(self) -> GroupRows:
        """Return all events that are known to have come back."""
        if self._evidence is None:
            self._evidence = GroupRows.joined([self.past, self.recent, *self._taken])
        return self._evidence

    def kth_best(self, low: int, high: int, k: int) -> FloatArray:
        """Return, by code, the merit of the K-th best event of the past in an interval of time, as far as is known."""
        rows = self.past.between(low, high).counting()
        found: FloatArray = np.full(self.groups, -np.inf)
        order = rows.best_first()
        kth = order[rank_in_runs(rows.code[order]) == k - 1] if len(order) else order
        found[rows.code[kth]] = rows.merit[kth]
        return found

    def missed(self, intervals: BoolArray) -> None:
        """Note that everything came back of some intervals: they are read again."""
        assert self._given is not None
        self._bars[intervals] = -np.inf

    def learn(self, before: int, newest: int, closed_to: int, *, all_came: bool = True) -> None:
        """Learn from a batch that reached from `before` to `newest`; windows up to `closed_to` are answered.

        Where not `all_came` that reached the thresholds, only the best of each pane, nothing is learned of the others.
        """
        rows, self._taken = GroupRows.joined(self._taken), []
        if newest == NEVER:  # no row had a time
            self._evidence, self._given = None, None
            return
        fresh = rows[(rows.time > before) & (rows.time <= newest)]
        since = max(before, int(fresh.time.min(initial=newest)))
        none = np.empty(0, np.int64)
        cells = Cells.of(none, np.array([max(newest - since, 1) / THINNED]), none, np.empty((0, 1)), self.groups)
        if self._given is not None and self._barred:
            lengths = np.diff(np.clip(np.append(self._given.cuts[:-1], ALWAYS), since, newest)).astype(np.float64)
            cells = Cells.of(self._given.cuts, lengths, self._given.codes, self._bars, self.groups)
        if all_came or self.levels is None:
            self.levels = Levels.of(cells.reaching(fresh).counting(), self.plan.k, cells)
        barred = np.zeros(self.groups, bool)
        barred[self.levels.codes] = True  # of the others, no threshold will have to be proved
        known = [part[barred[part.code]] for part in (self.past, self.recent, rows)] if self._barred else []
        self._keep(GroupRows.joined(known), newest, closed_to)
        self._evidence, self._given = None, None
        self._forget()

    def _keep(self, rows: GroupRows, newest: int, closed_to: int) -> None:
        """Keep what may prove a threshold: of sealed panes, the best of each part of the shortest window."""
        low = max(closed_to, int(rows.time.min(initial=newest)))  # without a watermark, nothing is ever closed
        edges = thresholded(self.plan).pane_edges(low, newest)
        place = max(int(np.searchsorted(edges, closed_to, side="right")) - 1, 0)
        sealed = int(edges[place]) if len(edges) else closed_to
        size = self.plan.shortest
        past, self.recent = rows[rows.time < sealed], rows[rows.time >= sealed]
        if size > 1 << 50:  # as where windows have no end
            self.past = past.best(self.plan.k, np.zeros(len(past), np.int64))
            return
        past = past[past.time >= newest - size]
        self.past = past.best(self.plan.k, past.time // max(size // PAST_PARTS, 1))

    def _rows(self, rows: EventBatch) -> GroupRows:
        merit, taken, part = self.plan.merits(rows.batch)
        assert part is not None
        taken = taken & ~np.isnan(merit)
        taken = taken if rows.valid is None else taken & rows.valid
        ident, ranking = None, self.plan.ranking
        if ranking.ties == "dense":
            ident = (merit + 0.0).view(np.int64)[taken]
        elif ranking.distinct is not None:
            ident = self._numbers(rows.ids)[taken]
        return GroupRows(self._codes(part)[taken], rows.time[taken], merit[taken], ident)

    def _numbers(self, ids: pa.Array) -> IntArray:
        """Return numbers that tell ids apart, from one batch to the next."""
        if pa.types.is_integer(ids.type):
            return ids.fill_null(0).cast(pa.int64()).to_numpy()  # type: ignore[no-any-return]
        coded = ids if pa.types.is_dictionary(ids.type) else ids.dictionary_encode()
        known = np.array(
            [self._idents.setdefault(one, len(self._idents)) for one in coded.dictionary.to_pylist()] or [0]
        )
        found: IntArray = known[coded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
        return found

    def _codes(self, part: pa.Array) -> IntArray:
        """Return the codes of the rows' groups."""
        if pa.types.is_dictionary(part.type):
            part = part.dictionary_decode()
        if pa.types.is_floating(part.type):
            part = pc.add(part, pa.scalar(0.0, part.type))  # makes one zero of the two, as Spark does
        coded = part.dictionary_encode(null_encoding="encode")
        if self.values is None:
            self.values = coded.dictionary
            return coded.indices.to_numpy().astype(np.int64)  # type: ignore[no-any-return]
        place = pc.index_in(coded.dictionary, value_set=self.values)
        fresh = place.is_null().to_numpy(zero_copy_only=False)
        codes = place.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        codes[fresh] = self.groups + np.arange(np.count_nonzero(fresh))
        self.values = pa.concat_arrays([self.values, coded.dictionary.filter(pa.array(fresh))])
        found: IntArray = codes[coded.indices.to_numpy()]
        return found

    def _forget(self) -> None:
        """Forget the groups of which nothing is known any more."""
        assert self.values is not None
        assert self.levels is not None
        live = np.zeros(self.groups, bool)
        live[self.past.code] = live[self.recent.code] = live[self.levels.codes] = True
        if self.groups < 2 * np.count_nonzero(live) + 1024:
            return
        moved = np.cumsum(live) - 1
        self.values = self.values.filter(pa.array(live))
        self.past, self.recent = (replace(rows, code=moved[rows.code]) for rows in (self.past, self.recent))
        self.levels = replace(self.levels, codes=moved[self.levels.codes])

    # What follows.

    def thresholds(self, low: int, all_from: int, closed_to: int, slack: float) -> GroupThresholds | None:
        """Lay out the thresholds of a batch that will reach from `low` to `all_from`; None where there are no panes.

        After it, all windows up to `closed_to` will be answered.
        """
        plan, levels = self.plan, self.levels
        cuts = thresholded(plan).pane_edges(low, all_from)
        cuts = cuts[: np.searchsorted(cuts, all_from) + 1]
        if len(cuts) < 2:
            return None
        most = 0 if plan.ranking.periods is not None else plan.shortest // 2  # a calendar measures on another axis
        blocks = Blocks.of(cuts, closed_to, most)
        codes, values, through = np.empty(0, np.int64), np.empty((0, len(blocks.ends))), np.zeros(len(blocks.ends))
        if levels is not None and len(levels.codes) * len(blocks.ends) <= MOST_NUMBERS:
            codes = levels.codes
            values, rates = self._guesses(levels, blocks, all_from, slack)
            lengths = np.clip(blocks.cuts[1:], low, all_from) - np.clip(blocks.cuts[:-1], low, all_from)
            seen = levels.starts[1:] - 1
            everything = float((levels.count[seen] / levels.time[seen]).sum()) + levels.others
            through = rates.sum(axis=0) + levels.others
            some = (values > -np.inf).any(axis=1)
            if float((through * lengths).sum()) > MOST_LET_THROUGH * everything * float(lengths.sum()):
                some, through = np.zeros(len(codes), bool), np.full(len(lengths), everything)
            codes, values = codes[some], values[some]
        partitions = pa.array([]) if self.values is None else self.values.take(pa.array(codes))
        self._given = GroupThresholds(
            blocks.cuts, np.zeros(len(blocks.ends), bool), values, values > -np.inf,
            partitions=partitions, scores=self, codes=codes, blocks=blocks, through=through,
        )  # fmt: skip
        self._bars = values.copy()
        return self._given

    def _guesses(self, levels: Levels, blocks: Blocks, all_from: int, slack: float) -> tuple[FloatArray, FloatArray]:
        """Return what events of each interval must reach, and how many a microsecond will."""
        plan, cuts = self.plan, blocks.cuts
        inner = np.where(blocks.whole, cuts[:-1], cuts[1:])
        values, rates = levels.bars((np.minimum(blocks.ends, all_from) - inner) / slack)
        since = int(min(self.past.time.min(initial=ALWAYS), self.recent.time.min(initial=ALWAYS), cuts[0]))
        for begin, end in blocks.each():
            if end - begin == 1:
                continue
            low = max(int(cuts[end]) - plan.shortest, since)
            best = self.kth_best(low, int(cuts[begin]), plan.k)[levels.codes]
            short = best < values[:, begin:end].max(axis=1)
            if short.any():
                outer = np.where(blocks.whole[begin:end], cuts[begin + 1 : end + 1], cuts[begin:end])
                before, more = levels.bars(np.maximum(outer - low, 1) / slack)
                before = np.maximum(before, best[:, None])
                lower = short[:, None] & (before < values[:, begin:end])
                values[:, begin:end] = np.where(lower, before, values[:, begin:end])
                rates[:, begin:end] = np.where(lower, more, rates[:, begin:end])
        return values, rates

    def serves(self, plan: RankingPlan) -> bool:
        """Tell whether this is about a ranking, not about one that was there before."""
        return self.plan is plan
