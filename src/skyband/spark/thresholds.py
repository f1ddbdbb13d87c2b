"""Thresholds as data: what an event must reach in its pane, in a form that Spark looks up inside the scan.

Panes become buckets of equal width, so that a row finds its threshold by one division. All numbers that change
from batch to batch sit in array constants: Spark hands those to its generated code by reference and compiles
nothing anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.group import Group
from skyband.keys import is_text
from skyband.order import BoolArray, FloatArray, IntArray
from skyband.spark.outlook import Scores, wanted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_BUCKETS = 1 << 14
MOST_NUMBERS = 1 << 22
NOTHING = np.inf
"""A threshold that only infinite merits reach, which no other threshold keeps out."""


@dataclass
class Thresholds:
    """What events must reach, by partition and pane; `guessed` where that is not known but guessed."""

    cuts: IntArray
    partitions: pa.Array | None
    values: FloatArray
    guessed: BoolArray

    @classmethod
    def of(cls, group: Group, low: int, tail: int, scores: dict[Any, Scores], generosity: float) -> Thresholds | None:
        """Lay out the thresholds of a group's open panes up to `tail`; None where every event matters."""
        bars = group.algorithm.bars(low, tail)
        by = group.intake.bounds.partition_by if group.intake.bounds else None
        # Spark takes some values for equal that the core tells apart (0.0 and -0.0, moments in other zones).
        if bars is None or (by is not None and by.type not in ("text", "integer", "boolean")):
            return None
        cuts = bars.cuts[: np.searchsorted(bars.cuts, tail) + 1]
        starts, ends = cuts[:-1], np.minimum(cuts[1:], tail)
        known, row = _partitions(group, bars.part, scores)
        values = np.full((1 if known is None else len(known), len(starts)), -np.inf)
        if len(starts) == 0:
            return cls(cuts, known, values, np.zeros(values.shape, bool))
        for place, value in enumerate([None] if known is None else known.to_pylist()):
            if value in scores:
                values[place] = scores[value].guess(starts, ends, generosity * wanted(bars.k))
        guessed = values > -np.inf
        pane = np.searchsorted(starts, bars.start)
        inside = (pane < len(starts)) & (bars.start >= starts[0])
        values[row[inside], pane[inside]] = bars.merit[inside]
        guessed[row[inside], pane[inside]] = False
        return cls(cuts, known, values, guessed)

    @property
    def guesses(self) -> int:
        """In how many panes, partition by partition, the threshold is a guess."""
        return int(np.count_nonzero(self.guessed))

    def missed(self, group: Group, newest: int) -> BoolArray:
        """Return where a guess proved too high: fewer than K events have reached it, and others may be there.

        Parameters
        ----------
        group
            After it took in what was read.
        newest
            The batch has no events after this time.
        """
        if not self.guesses:
            return self.guessed
        return self.guessed & (self.cuts[:-1] <= newest) & ~(self._held(group) >= self.values)

    def _held(self, group: Group) -> FloatArray:
        """Return the merit of the K-th best event that each pane now holds, minus infinity where it holds fewer."""
        bars = group.algorithm.bars(int(self.cuts[0]), int(self.cuts[-1]) - 1)
        assert bars is not None
        row = np.zeros(len(bars.part), np.int64)
        if self.partitions is not None:
            places = {value: place for place, value in enumerate(self.partitions.to_pylist())}
            values = group.intake.partitions.decode(bars.part).to_pylist()
            row = np.array([places.get(value, -1) for value in values], np.int64)
        pane = np.searchsorted(self.cuts[:-1], bars.start)
        inside = (row >= 0) & (pane < len(self.cuts) - 1) & (bars.start >= self.cuts[0])
        held = np.full(self.values.shape, -np.inf)
        held[row[inside], pane[inside]] = bars.merit[inside]
        return held

    def extent(self, panes: BoolArray) -> tuple[int, int]:
        """Return where the first of some panes begins and the last one ends."""
        places = np.flatnonzero(panes.any(axis=0))
        return int(self.cuts[places[0]]), int(self.cuts[places[-1] + 1])

    def lowered(self, group: Group, panes: BoolArray, scores: dict[Any, Scores]) -> Thresholds:
        """Return lower thresholds for the panes that missed events; the others let nothing more through."""
        values = np.full(self.values.shape, NOTHING)
        values[panes] = -np.inf
        for place, value in enumerate([None] if self.partitions is None else self.partitions.to_pylist()):
            if value in scores:
                bars = group.algorithm.bars(int(self.cuts[0]), int(self.cuts[-1]) - 1)
                assert bars is not None
                guess = scores[value].guess(self.cuts[:-1], self.cuts[1:], 2 * wanted(bars.k))
                values[place] = np.where(panes[place] & (guess < self.values[place]), guess, values[place])
        held = self._held(group)
        values[panes] = np.maximum(values[panes], held[panes])
        return Thresholds(self.cuts, self.partitions, values, panes & (values > held))

    def apply(self, df: DataFrame, time: str, partition: str | None, name: str, low: int) -> tuple[DataFrame, str]:
        """Return the DataFrame, joined where needed, and the SQL text of an event's threshold.

        Before `low` and after the last pane there is no threshold: the text gives minus infinity there.
        """
        origin, width, ladders = self._ladders(low)
        bucket = f"({time} - {constant(origin, time)}) div {width}L"
        place = f"cast(least(greatest({bucket}, 0L), {ladders.shape[1] - 1}L) AS INT) + 1"
        if self.partitions is None:
            return df, f"element_at({_numbers(ladders[0].tolist(), 'double')}, {place})"
        from pyspark.sql import functions as F  # noqa: N812 - as everywhere

        key, ladder = f"skyband_key_{name}", f"skyband_ladder_{name}"
        lists = pa.ListArray.from_arrays(
            np.arange(len(ladders) + 1, dtype=np.int32) * ladders.shape[1], ladders.ravel()
        )
        values = self.partitions
        if is_text(values.type):  # by its bytes: a collation may take other texts for equal
            values, partition = values.cast(pa.binary()), f"cast({partition} AS BINARY)"
        table = df.sparkSession.createDataFrame(pa.table({key: values, ladder: lists}))
        joined = df.join(F.broadcast(table), F.expr(f"{partition} <=> {key}"), "left")
        return joined, f"coalesce(element_at({ladder}, {place}), double('-Infinity'))"

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
        # A bucket must let through what any of its panes lets through.
        ladder = np.minimum(np.minimum.reduceat(self.values, first, axis=1), self.values[:, last])
        ladder[:, edges[:-1] < low] = -np.inf
        # Lengths in steps of powers of two keep the generated code the same while the number of panes varies.
        room = 1 << max(6, (buckets + 2).bit_length())
        ladders = np.full((len(ladder), room), -np.inf)
        ladders[:, 1 : buckets + 1] = ladder
        return begin - width, width, ladders


def _partitions(group: Group, part: IntArray, scores: dict[Any, Scores]) -> tuple[pa.Array | None, IntArray]:
    """Return the partitions that have thresholds, and the place among them of each bar's partition."""
    if group.ranking.partition_by is None:
        return None, np.zeros(len(part), np.int64)
    known, row = np.unique(part, return_inverse=True)
    values = group.intake.partitions.decode(known)
    listed = set(values.to_pylist())
    more = [value for value in scores if value not in listed]
    if more:
        values = pa.concat_arrays([values, pa.array(more, values.type)]) if len(values) else pa.array(more)
    return values, row


def constant(number: int, time: str) -> str:
    """Return a whole number as SQL that Spark does not write into its generated code, which would change with it.

    The place in the array looks as if it depended on the time, so that Spark does not look the number up too early.
    """
    return f"element_at({_numbers([number], 'bigint')}, 1 + cast(pmod({time}, 1L) AS INT))"


def _numbers(numbers: Sequence[float], kind: str) -> str:
    """Return an array constant; a text that Spark splits once is far cheaper than a literal for each number."""
    text = ",".join(map(repr, numbers)).replace("inf", "Infinity")
    return f"cast(split('{text}', ',') AS array<{kind}>)"
