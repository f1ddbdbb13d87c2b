"""Aggregates: queries that rank ids by counts, sums and the like of their events in each window.

Nothing can be left out before the window closes: an id that is last now may be first with one more event. So of every
pane and id one row is kept, `skyband.engine.partials`, and a window merges those of its panes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Self

import numpy as np
import pyarrow as pa

from skyband.answers.answer import AnswerBlock, Events
from skyband.engine.explain import query_line
from skyband.engine.groups import Stream
from skyband.engine.intake import too_many_ties
from skyband.engine.partial_rows import ID, PART, STREAM, TIME
from skyband.engine.partial_tables import PartialTables
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
    """The rows of one answer, the best first, partition by partition, and why they are not exact, if they are not."""

    id: pa.Array
    score: FloatArray
    time: IntArray
    part: IntArray
    partition: pa.Array
    shown: pa.Table | None
    doubt: str

    def look(self) -> str:
        """Return a digest of what the answer shows."""
        columns = [self.id.to_pylist(), self.score.tolist(), self.time.tolist(), self.partition.to_pylist()]
        columns += [] if self.shown is None else [self.shown.to_pylist()]
        return blake2b(repr(columns).encode(), digest_size=12).hexdigest()


class AggregateGroup(PartialsGroup[PartialTables]):
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

    def _made(self, query: Query) -> PartialTables:
        return PartialTables(query)

    def answer(self, due: DueWindows, limits: Sequence[int]) -> list[AnswerBlock]:
        """Answer windows, in order; those of a query that came later may not have seen all."""
        (one,) = self.members
        found = [_best(one, one.objects(end)) for end in due.end.tolist()]
        self.close(limits)
        self._early = {end: look for end, look in self._early.items() if end > one.schedule.closed_to}
        return self._blocks(due, found)

    def early(self) -> list[AnswerBlock]:
        """Answer the windows that are still open and look different from when they were last shown."""
        (one,) = self.members
        if one.query.emit != "early" or one.schedule.paused or one.last == NEVER:
            return []
        due = self.due([one.schedule.last_open(one.last)])
        found = [_best(one, one.peek(end)) for end in due.end.tolist()]
        looks = [best.look() for best in found]
        news = [place for place, end in enumerate(due.end.tolist()) if self._early.get(end) != looks[place]]
        self._early |= {int(due.end[place]): looks[place] for place in news}
        return self._blocks(due[np.array(news, np.int64)], [found[place] for place in news], provisional=True)

    def current(self, name: str) -> AnswerBlock | None:  # noqa: ARG002 - there is one
        """Return the ranking of all ids in the current window as things stand."""
        (one,) = self.members
        if one.last == NEVER:
            return None
        end = one.schedule.first_end_after(max(one.last, one.schedule.closed_to))
        window = DueWindows(*(np.array([each], np.int64) for each in (0, one.schedule.start_of(end), end)))
        (block,) = self._blocks(window, [_best(one, one.peek(end), whole=True)], whole=True)
        return block

    def _blocks(
        self, due: DueWindows, found: Sequence[_Best], provisional: bool = False, whole: bool = False
    ) -> list[AnswerBlock]:
        """Make the answers of windows; `whole` ones also where the query emits changes or is paused."""
        if not found:
            return []
        (one,) = self.members
        ids = pa.concat_arrays([best.id for best in found])
        shown = [best.shown for best in found if best.shown is not None]
        events = Events(
            id=ids if pa.types.is_string(ids.type) or ids.null_count else ids.to_numpy(),
            score=np.concatenate([best.score for best in found]),
            time=np.concatenate([best.time for best in found]),
            part=None if one.partition is None else np.concatenate([best.part for best in found]),
            partition=None if one.partition is None else pa.concat_arrays([best.partition for best in found]),
            payload=pa.concat_tables(shown).combine_chunks() if shown else None,
        )  # fmt: skip
        offsets = np.cumsum([0, *(len(best.score) for best in found)])
        warm, doubt = due.start >= one.schedule.exact_from, np.array([best.doubt for best in found])
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


def _best(one: PartialTables, found: pa.Table, whole: bool = False) -> _Best:
    """Return the best of the objects of a window, of each partition, or all of them."""
    query, doubt = one.query, one.doubt
    score, time = np.asarray(found[STREAM].to_numpy(), np.float64), np.asarray(found[TIME].to_numpy(), np.int64)
    scored = np.flatnonzero(~np.isnan(score))
    ids, part = found[ID].take(pa.array(scored)), np.zeros(len(scored), np.int64)
    if PART in found.column_names:
        part = value_ranks(found[PART].take(pa.array(scored)))
    merit = merit_of(score[scored], query.order)
    order = best_first(merit, recency_of(time[scored], query.prefer), value_ranks(ids), part)
    if not whole:
        order = order[ranks_in_runs(query.ties, merit[order], part[order]) < query.most_rows]
        fits = rank_in_runs(part[order]) < (len(order) if query.ties is None else query.max_ties)
        order, doubt = order[fits], doubt if fits.all() else too_many_ties(query.max_ties)
    rows = scored[order]
    taken = pa.array(rows, pa.int64())
    return _Best(
        id=found[ID].take(taken).combine_chunks().cast(one.id_type),
        score=score[rows],
        time=time[rows],
        part=part[order],
        partition=found[PART].take(taken).combine_chunks() if PART in found.column_names else one.no_partitions,
        shown=one.shown(found, taken) if query.columns and len(rows) else None,
        doubt=doubt,
    )
