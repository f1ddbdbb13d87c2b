"""Thresholds as data: what an event must reach in its stretch of time, in a form that Spark looks up inside the scan.

Stretches become buckets of equal width, so that a row finds its threshold by one division. All numbers that change
from batch to batch sit in array constants: Spark hands those to its generated code by reference and compiles
nothing anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.algorithms.base import Thresholded
from skyband.engine.ranking import RankingGroup
from skyband.events.keys import is_text
from skyband.order import BoolArray, FloatArray, IntArray
from skyband.spark.reducers.guesses import ScoreDistribution, wanted
from skyband.windows import ALWAYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_BUCKETS = 1 << 14
MOST_NUMBERS = 1 << 22
FEW_PARTITIONS = 64
"""So many partitions at most are looked up in a constant; more are joined."""
NOTHING = np.inf
"""A threshold that only infinite merits reach, which no other threshold keeps out."""


@dataclass
class Thresholds:
    """What events must reach, by partition and by *stretch* between neighbouring cuts.

    A stretch is a pane, or, where it is `wide`, several. Within a pane an event cannot matter that K others of the
    same pane beat. A wide stretch is at most half as long as the shortest window; so every window that holds a part
    of it holds it all, or all of the stretch before, or all of the one behind: an event cannot matter that K others
    beat in each of these three. That lets far fewer through than pane after pane would.

    `values` has the merit that K events of each stretch reach; `guessed` where that is not known but guessed.
    """

    cuts: IntArray
    wide: BoolArray
    partitions: pa.Array | None
    values: FloatArray
    guessed: BoolArray

    @classmethod
    def of(
        cls,
        group: RankingGroup,
        low: int,
        tail: int,
        settled: int,
        scores: dict[Any, ScoreDistribution],
        generosity: float,
    ) -> Thresholds | None:
        """Lay out the thresholds of a group's open panes up to `tail`; None where every event matters.

        Parameters
        ----------
        group
            As it is before the batch.
        low, tail
            From when to when the batch will reach.
        settled
            Up to where no window is left to answer after the batch. Wide stretches end before: a query that comes
            later finds what it would have found without them.
        scores, generosity
            What guesses are made of.
        """
        algorithm = group.algorithm.thresholded
        by = group.intake.bounds.partition_by if group.intake.bounds else None
        if algorithm is None or (by is not None and by.type == "time"):  # a moment has other forms in other zones
            return None
        cuts = algorithm.pane_edges(low, tail)
        cuts = cuts[: np.searchsorted(cuts, tail) + 1]
        wide = np.zeros(max(len(cuts) - 1, 0), bool)
        if all(spread.slope == 0.0 for spread in scores.values()):  # else wide stretches would be guessed too low
            cuts, wide = _widened(cuts, low, settled, group.shortest // 2)
        starts, ends = cuts[:-1], np.minimum(cuts[1:], tail)
        place, part, merit = algorithm.kth_best(cuts)
        known, row = _partitions(group, part, scores)
        if known is not None and len(known) == 0:
            return None
        values = np.full((1 if known is None else len(known), len(starts)), -np.inf)
        for number, value in enumerate([None] if known is None else known.to_pylist()):
            if value in scores:
                values[number] = scores[value].guess(starts, ends, generosity * wanted(group.k))
        guessed = values > -np.inf
        values[row, place] = merit
        guessed[row, place] = False
        return cls(cuts, wide, known, values, guessed)

    @property
    def guesses(self) -> int:
        """In how many stretches, partition by partition, the threshold is a guess."""
        return int(np.count_nonzero(self.guessed))

    def missed(self, group: RankingGroup, newest: int) -> BoolArray:
        """Return where events may be missing: fewer than K have reached a guess, here or, if wide, next to here.

        Parameters
        ----------
        group
            After it took in what was read.
        newest
            The batch has no events after this time.
        """
        if not self.guesses:
            return self.guessed
        failed = self.guessed & ~(self._held(group) >= self.values)
        missed: BoolArray = failed | (self.wide & _beside(failed, np.logical_or, False))
        return missed & (self.cuts[:-1] <= newest)

    def _held(self, group: RankingGroup) -> FloatArray:
        """Return the merit of the K-th best event that each stretch now holds, minus infinity where it holds fewer."""
        place, part, merit = _thresholded(group).kth_best(self.cuts)
        row = np.zeros(len(part), np.int64)
        if self.partitions is not None:
            places = {value: place for place, value in enumerate(self.partitions.to_pylist())}
            row = np.array([places.get(v, -1) for v in group.intake.partitions.decode(part).to_pylist()], np.int64)
        held = np.full(self.values.shape, -np.inf)
        held[row[row >= 0], place[row >= 0]] = merit[row >= 0]
        return held

    def expected(self, scores: dict[Any, ScoreDistribution], low: int, high: int) -> float:
        """Return about how many events reach these thresholds from `low` to `high`, as their scores are spread."""
        start, end = np.clip(self.cuts[:-1], low, high), np.clip(self.cuts[1:], low, high)
        rows = zip([None] if self.partitions is None else self.partitions.to_pylist(), self._bars(), strict=True)
        return float(sum(scores[value].reaching(start, end, bars).sum() for value, bars in rows if value in scores))

    def extent(self, stretches: BoolArray) -> tuple[int, int]:
        """Return where the first of some stretches begins and the last one ends."""
        places = np.flatnonzero(stretches.any(axis=0))
        return int(self.cuts[places[0]]), int(self.cuts[places[-1] + 1])

    def lie_in(self, stretches: BoolArray, time: IntArray) -> BoolArray:
        """Tell which times lie in some stretches, of whatever partition."""
        chosen = np.concatenate([[False], stretches.any(axis=0), [False]])
        return chosen[np.searchsorted(self.cuts, time, side="right")]

    def lowered(
        self, group: RankingGroup, stretches: BoolArray, scores: dict[Any, ScoreDistribution], newest: int
    ) -> Thresholds:
        """Return lower thresholds for the stretches that missed events; the others let nothing more through.

        What begins after `newest` got nothing from the batch: no stretch before it can rely on it.
        """
        values = np.full(self.values.shape, NOTHING)
        values[stretches] = -np.inf
        for place, value in enumerate([None] if self.partitions is None else self.partitions.to_pylist()):
            if value in scores:
                guess = scores[value].guess(self.cuts[:-1], self.cuts[1:], 2 * wanted(group.k))
                values[place] = np.where(stretches[place] & (guess < self.values[place]), guess, values[place])
        held = self._held(group)
        values[stretches] = np.maximum(values[stretches], held[stretches])
        values[:, self.cuts[:-1] > newest] = held[:, self.cuts[:-1] > newest]
        return Thresholds(self.cuts, self.wide, self.partitions, values, stretches & (values > held))

    def note(self, group: RankingGroup, newest: int, settled: int) -> None:
        """Let a group know what it was not shown; `settled` is how far the batch has brought it in the end."""
        behind, bars = np.append(self.cuts[2:], ALWAYS), self._bars().max(axis=0)
        filtered = bars > -np.inf  # where nothing lies below the bar, nothing was held back
        for place in np.flatnonzero(self.wide & filtered & (self.cuts[:-1] <= newest)).tolist():
            low, high = int(self.cuts[place]), min(int(self.cuts[place + 1]), newest + 1)
            depth = group.k if behind[place] <= settled else 0
            _thresholded(group).record_filtered(low, high, depth, float(bars[place]))

    def apply(self, df: DataFrame, time: str, partition: str | None, name: str, low: int) -> tuple[DataFrame, str]:
        """Return the DataFrame, joined where needed, and the SQL text of an event's threshold.

        Before `low` and after the last pane there is no threshold: the text gives minus infinity there.
        """
        origin, width, ladders = self._ladders(low)
        bucket = f"({time} - {constant(origin, time)}) div {width}L"
        place = f"cast(least(greatest({bucket}, 0L), {ladders.shape[1] - 1}L) AS INT) + 1"
        if self.partitions is None:
            return df, f"element_at({numbers(ladders[0].tolist(), 'double')}, {place})"
        assert partition is not None
        values = self.partitions
        if is_text(values.type):  # by its bytes: a collation may take other texts for equal
            values, partition = values.cast(pa.binary()), f"cast({partition} AS BINARY)"
        if len(values) <= FEW_PARTITIONS and ladders.size <= MOST_BUCKETS:
            return df, _chosen(values, partition, ladders, place)
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        key, ladder = f"skyband_key_{name}", f"skyband_ladder_{name}"
        lists = pa.ListArray.from_arrays(
            np.arange(len(ladders) + 1, dtype=np.int32) * ladders.shape[1], ladders.ravel()
        )
        table = df.sparkSession.createDataFrame(pa.table({key: values, ladder: lists}))
        joined = df.join(F.broadcast(table), F.expr(f"{partition} <=> {key}"), "left")
        return joined, f"coalesce(element_at({ladder}, {place}), double('-Infinity'))"

    def _bars(self) -> FloatArray:
        """Return what an event must reach in each stretch: if that is wide, the least of it and its neighbours."""
        bars: FloatArray = np.minimum(self.values, _beside(self.values, np.minimum, np.inf))
        return np.where(self.wide, bars, self.values)

    def _ladders(self, low: int) -> tuple[int, int, FloatArray]:
        """Return where buckets begin, how wide they are, and per partition their thresholds.

        The first and the last bucket of each row stand for all times before and after the panes.
        """
        cuts = self.cuts
        if len(cuts) < 2:
            return 0, 1, np.full((len(self.values), 2), -np.inf)
        begin, span = int(cuts[0]), int(cuts[-1] - cuts[0])
        most = max(1, min(MOST_BUCKETS, MOST_NUMBERS // len(self.values)))
        width = max(int(np.diff(cuts).min()), -(-span // most))
        buckets = -(-span // width)
        edges = begin + width * np.arange(buckets + 1)
        first = np.searchsorted(cuts, edges[:-1], side="right") - 1
        last = np.searchsorted(cuts, np.minimum(edges[1:], cuts[-1]) - 1, side="right") - 1
        bars = self._bars()  # a bucket must let through what any of its stretches lets through
        ladder = np.minimum(np.minimum.reduceat(bars, first, axis=1), bars[:, last])
        ladder[:, edges[:-1] < low] = -np.inf
        # Lengths in steps of powers of two keep the generated code the same while the number of panes varies.
        room = 1 << max(6, (buckets + 2).bit_length())
        ladders = np.full((len(ladder), room), -np.inf)
        ladders[:, 1 : buckets + 1] = ladder
        return begin - width, width, ladders


def _thresholded(group: RankingGroup) -> Thresholded:
    algorithm = group.algorithm.thresholded
    assert algorithm is not None, "a group without thresholds has some"
    return algorithm


def _beside(values: Any, either: np.ufunc, none: float) -> Any:
    """Return, place by place, what either neighbour has; `none` stands beside the first and the last."""
    column = np.full((len(values), 1), none, values.dtype)
    return either(np.hstack([column, values[:, :-1]]), np.hstack([values[:, 1:], column]))


def _widened(cuts: IntArray, low: int, high: int, most: int) -> tuple[IntArray, BoolArray]:
    """Leave out cuts between `low` and `high`, so that stretches become up to `most` long; tell which are wide.

    Towards either end they get shorter and shorter, since a wide stretch shares the threshold of its neighbours.

    Examples
    --------
    >>> cuts, wide = _widened(np.arange(0, 301, 10), 20, 260, 60)
    >>> cuts.tolist()
    [0, 10, 20, 30, 40, 60, 100, 160, 210, 230, 240, 250, 260, 270, 280, 290, 300]
    >>> np.diff(cuts)[wide].tolist()
    [20, 40, 60, 50, 20]
    """
    first, last = np.searchsorted(cuts, low), np.searchsorted(cuts, high, side="right") - 1
    if last - first < 4 or np.diff(cuts[max(first - 1, 0) : last + 2]).max() > most:
        return cuts, np.zeros(max(len(cuts) - 1, 0), bool)
    begin, end = cuts[first], cuts[last]
    kept = [*range(first), first]
    while kept[-1] < last:
        here = cuts[kept[-1]]
        length = min(most, here - begin, (end - here) // 2)
        kept.append(max(int(np.searchsorted(cuts, here + length, side="right")) - 1, kept[-1] + 1))
    kept += range(last + 1, len(cuts))
    return cuts[kept], np.diff(kept) > 1


def _partitions(
    group: RankingGroup, part: IntArray, scores: dict[Any, ScoreDistribution]
) -> tuple[pa.Array | None, IntArray]:
    """Return the partitions that have thresholds, and the place among them of each bar's partition."""
    if group.ranking.partition_by is None:
        return None, np.zeros(len(part), np.int64)
    known, row = np.unique(part, return_inverse=True)
    values = group.intake.partitions.decode(known)
    listed = set(values.to_pylist())
    more = [value for value in scores if value not in listed and value == value]  # NaN is no key of a dict
    if more:
        values = pa.concat_arrays([values, pa.array(more, values.type)]) if len(values) else pa.array(more)
    return values, row


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


def constant(number: int, time: str) -> str:
    """Return a whole number as SQL that Spark does not write into its generated code, which would change with it.

    The place in the array looks as if it depended on the time, so that Spark does not look the number up too early.
    """
    return f"element_at({numbers([number], 'bigint')}, 1 + cast(pmod({time}, 1L) AS INT))"


def numbers(numbers: Sequence[float], kind: str) -> str:
    """Return an array constant; a text that Spark splits once is far cheaper than a literal for each number."""
    text = ",".join(map(repr, numbers)).replace("inf", "Infinity")
    return f"cast(split('{text}', ',') AS array<{kind}>)"
