"""Aggregates: queries that rank ids by counts, sums and the like of their events in each window.

Nothing can be left out before the window closes: an id that is last now may be first with one more event. So something
is kept of every pane and id, `skyband.engine.partials`, and a window is made of its panes. Counts, sums, maxima and
minima are kept as arrays, `skyband.engine.pane_sums`; where a query asks for more, as tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Self

import numpy as np
import pyarrow as pa

from skyband.answers.answer import AnswerBlock, Events
from skyband.engine.explain import query_line
from skyband.engine.groups import Stream
from skyband.engine.intake import too_many_ties
from skyband.engine.pane_kernels import reach
from skyband.engine.pane_sums import PaneSums
from skyband.engine.partial_tables import PartialTables
from skyband.engine.partials import Scored
from skyband.engine.partials_group import PartialsGroup
from skyband.engine.snapshot import State
from skyband.order import (
    FloatArray,
    IntArray,
    best_first,
    merit_of,
    rank_in_runs,
    ranks_in_runs,
    recency_of,
    value_ranks,
)
from skyband.queries.query import Query
from skyband.windows import NEVER, DueWindows


@dataclass(frozen=True)
class _Best:
    """The rows of some answers, each the best first, partition by partition, and why they are not exact, if not."""

    edges: IntArray
    id: pa.Array
    score: FloatArray
    time: IntArray
    part: IntArray | None
    partition: pa.Array | None
    shown: pa.Table | None
    doubts: list[str]

    def take(self, chosen: IntArray) -> _Best:
        """Return only some of the answers."""
        runs = [np.arange(self.edges[each], self.edges[each + 1]) for each in chosen]
        rows = np.concatenate([np.empty(0, np.int64), *runs])
        taken = pa.array(rows)
        return _Best(
            np.cumsum([0, *map(len, runs)]), self.id.take(taken), self.score[rows], self.time[rows],
            None if self.part is None else self.part[rows],
            None if self.partition is None else self.partition.take(taken),
            None if self.shown is None else self.shown.take(taken),
            [self.doubts[each] for each in chosen],
        )  # fmt: skip

    def looks(self) -> list[str]:
        """Return a digest of what each answer shows."""
        columns = [self.id.to_pylist(), self.score.tolist(), self.time.tolist()]
        columns += [column.to_pylist() for column in (self.partition, self.shown) if column is not None]
        rows = [[column[low:high] for column in columns] for low, high in pairwise(self.edges.tolist())]
        return [blake2b(repr(row).encode(), digest_size=12).hexdigest() for row in rows]


Member = PaneSums | PartialTables


class AggregateGroup(PartialsGroup[Member]):
    """One aggregated query."""

    kind = "aggregate"

    def __init__(self) -> None:
        super().__init__()
        self._early: dict[int, str] = {}  # digests of provisional answers, by the ends of their windows

    @classmethod
    def handles(cls, query: Query) -> bool:
        """Tell whether a query ranks ids by aggregates of the stream alone."""
        return not query.ranks_events and query.join is None

    @classmethod
    def of(cls, query: Query, stream: Stream, newest: int = NEVER) -> Self:  # noqa: ARG003 - as all kinds
        """Make a group for a query."""
        group = cls()
        group.answers.periods = query.window.periods
        return group

    def serves(self, query: Query) -> bool:  # noqa: ARG002 - as all kinds
        """Tell whether a query can be added: each has a group of its own."""
        return not self.members

    def _made(self, query: Query) -> Member:
        return PaneSums(query) if PaneSums.handles(query) else PartialTables(query)

    def answer(self, due: DueWindows, limits: Sequence[int]) -> list[AnswerBlock]:
        """Answer windows, in order; those of a query that came later may not have seen all."""
        (one,) = self.members
        found = [_best(one, some) for some in one.scored(due.end.tolist())]
        self.close(limits)
        self._early = {end: look for end, look in self._early.items() if end > one.schedule.closed_to}
        return self._blocks(due, found)

    def early(self) -> list[AnswerBlock]:
        """Answer the windows that are still open and look different from when they were last shown."""
        (one,) = self.members
        if one.query.emit != "early" or one.schedule.paused or one.last == NEVER:
            return []
        due = self.due([one.schedule.last_open(one.last)])
        found = [_best(one, some) for some in one.peek(due.end.tolist())]
        looks = [look for best in found for look in best.looks()]
        news = np.array([self._early.get(end) != look for end, look in zip(due.end.tolist(), looks, strict=True)], bool)
        self._early |= dict(zip(due.end.tolist(), looks, strict=True))
        edges = np.cumsum([0, *(len(best.doubts) for best in found)]).tolist()
        found = [
            best.take(np.flatnonzero(news[low:high]))
            for best, (low, high) in zip(found, pairwise(edges), strict=True)
        ]  # fmt: skip
        return self._blocks(due[np.flatnonzero(news)], found, provisional=True)

    def current(self, name: str) -> AnswerBlock | None:  # noqa: ARG002 - there is one
        """Return the ranking of all ids in the current window as things stand."""
        (one,) = self.members
        if one.last == NEVER:
            return None
        end = one.schedule.first_end_after(max(one.last, one.schedule.closed_to))
        window = DueWindows(*(np.array([each], np.int64) for each in (0, one.schedule.start_of(end), end)))
        (block,) = self._blocks(window, [_best(one, some, whole=True) for some in one.peek([end])], whole=True)
        return block

    def _blocks(
        self, due: DueWindows, found: Sequence[_Best], provisional: bool = False, whole: bool = False
    ) -> list[AnswerBlock]:
        """Make the answers of windows; `whole` ones also where the query emits changes or is paused."""
        if not len(due):
            return []
        (one,) = self.members
        ids = pa.concat_arrays([best.id for best in found])
        shown = [best.shown for best in found if best.shown is not None]
        parts = [(best.part, best.partition) for best in found]
        partitioned = one.partition is not None
        events = Events(
            id=ids if pa.types.is_string(ids.type) or ids.null_count else ids.to_numpy(),
            score=np.concatenate([best.score for best in found]),
            time=np.concatenate([best.time for best in found]),
            part=np.concatenate([part for part, _ in parts if part is not None]) if partitioned else None,
            partition=pa.concat_arrays([part for _, part in parts if part is not None]) if partitioned else None,
            payload=pa.concat_tables(shown).combine_chunks() if shown else None,
        )  # fmt: skip
        offsets = np.cumsum(np.concatenate([[0], *(np.diff(best.edges) for best in found)]))
        warm, doubt = due.start >= one.schedule.exact_from, np.array([why for best in found for why in best.doubts])
        why = np.where(warm, doubt, self.incomplete(due))
        if whole:
            return [self.answers.block(due, offsets, events, why == "", why, provisional=True)]
        return self.answers.blocks(due, offsets, events, why == "", why, provisional=provisional)

    def explain(self, number: int) -> list[str]:  # noqa: ARG002 - only rankings are numbered
        """Say what is kept."""
        (one,) = self.members
        by = [str(key.expression) for key in (*one.query.partition_keys, *one.query.group_keys)]
        by += [] if one.query.group_keys else ["the id"]
        key, aggregates = ", ".join(by), ", ".join(map(str, one.decomposition.aggregates))
        return [
            f"aggregated: {one}",
            f"  {query_line(one.query)}",
            f"  {key} counts once, with {aggregates} of its events; one row for each "
            f"pane and {key} is kept{one.kept_now()}",
        ]

    # Snapshots.

    def state(self) -> State:
        """Return everything as plain values and tables."""
        meta, tables = super().state()
        return meta | {"early": list(self._early.items())}, tables

    @classmethod
    def load(cls, state: State, stream: Stream) -> Self:
        """Make a group again from what `state` returned."""
        group = super().load(state, stream)
        group._early = dict(state[0]["early"])
        return group


def _best(one: Member, found: Scored, whole: bool = False) -> _Best:
    """Return the best objects of windows, of each partition, or all of them."""
    query, windows = one.query, len(found.doubts)
    merit = merit_of(found.score, query.order)
    rows = np.flatnonzero(~np.isnan(merit)) if whole else _candidates(query, merit, found)
    ids, partition, _ = found.pick(rows)
    ids = ids.cast(one.id_type)
    window = np.searchsorted(found.edges, rows, side="right") - 1
    runs = (window,) if found.partition is None else (window, found.partition[rows])
    order = best_first(merit[rows], recency_of(found.time[rows], query.prefer), value_ranks(ids), *runs)
    cut = np.zeros(windows, bool)
    if not whole:
        ranks = ranks_in_runs(query.ties, merit[rows][order], *(run[order] for run in runs))
        order = order[ranks < query.most_rows]
        if query.ties is not None:
            fits = rank_in_runs(*(run[order] for run in runs)) < query.max_ties
            cut[window[order[~fits]]] = True
            order = order[fits]
    rows = rows[order]
    shown = found.pick(rows)[2]
    taken = pa.array(order)
    return _Best(
        edges=np.searchsorted(window[order], np.arange(windows + 1)),
        id=ids.take(taken),
        score=found.score[rows],
        time=found.time[rows],
        part=None if one.partition is None else runs[-1][order],
        partition=one.no_partitions if partition is None and one.partition is not None
        else None if partition is None else partition.take(taken),
        shown=shown,
        doubts=[too_many_ties(query.max_ties) if cut[place] else doubt for place, doubt in enumerate(found.doubts)],
    )  # fmt: skip


def _candidates(query: Query, merit: FloatArray, found: Scored) -> IntArray:
    """Return the objects that may be among the best: those that reach the k-th best of their window."""
    if found.partition is not None or query.ties == "dense":  # of each partition, or of the k best merits
        return np.flatnonzero(~np.isnan(merit))
    chosen, heap = np.empty(len(merit), np.int64), np.empty(query.most_rows)
    return chosen[: reach(merit, found.edges, query.most_rows, heap, chosen)]
