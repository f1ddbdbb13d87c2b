"""Aggregates: queries that rank ids by counts, sums and the like of their events in each window.

Nothing can be left out before the window closes: an id that is last now may be first with one more event. So of every
pane and id one row is kept, `skyband.engine.partials`, and a window merges those of its panes.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.answers.answer import AnswerBlock, Events
from skyband.engine.explain import query_line
from skyband.engine.groups import Stream
from skyband.engine.intake import WARMING_UP, too_many_ties
from skyband.engine.partials import ID, STREAM, TIME, Partials, PartialsGroup
from skyband.order import FloatArray, IntArray, best_first, merit_of, ranks_in_runs, recency_of
from skyband.queries.query import Query
from skyband.windows import NEVER, DueWindows


@dataclass(frozen=True)
class _Best:
    """The rows of one answer, the best first."""

    id: pa.Array
    score: FloatArray
    time: IntArray
    carried: pa.Table | None
    cut: bool = False


class AggregateGroup(PartialsGroup[Partials]):
    """One aggregated query."""

    kind = "aggregate"

    @classmethod
    def handles(cls, query: Query) -> bool:
        """Tell whether a query ranks ids by aggregates of the stream alone."""
        return not query.ranks_events and query.join is None

    @classmethod
    def of(cls, query: Query, stream: Stream, newest: int = NEVER) -> Self:  # noqa: ARG003 - as all kinds
        """Make a group for a query."""
        return cls()

    def serves(self, query: Query) -> bool:  # noqa: ARG002 - as all kinds
        """Tell whether a query can be added: each has a group of its own."""
        return not self.members

    def _made(self, query: Query) -> Partials:
        return Partials(query)

    def answer(self, due: DueWindows, limits: Sequence[int]) -> list[AnswerBlock]:
        """Answer windows, in order; those of a query that came later may not have seen all."""
        blocks = self._blocks(self.members[0], due) if len(due) else []
        self.close(limits)
        return blocks

    def current(self, name: str) -> AnswerBlock | None:  # noqa: ARG002 - there is one
        """Return the ranking of all ids in the current window as things stand."""
        one = copy(self.members[0])  # what is looked at is not forgotten
        if one.last == NEVER:
            return None
        end = one.schedule.first_end_after(max(one.last, one.schedule.closed_to))
        window = DueWindows(*(np.array([each], np.int64) for each in (0, end - one.schedule.size, end)))
        (block,) = self._blocks(one, window, whole=True)
        return block

    def _blocks(self, one: Partials, due: DueWindows, whole: bool = False) -> list[AnswerBlock]:
        """Answer windows; `whole` ones with all ids, also where the query emits changes or is paused."""
        found = [_best(one, end, whole) for end in due.end.tolist()]
        ids = pa.concat_arrays([best.id for best in found])
        carried = [best.carried for best in found if best.carried is not None]
        events = Events(
            id=ids if pa.types.is_string(ids.type) else ids.to_numpy(),
            score=np.concatenate([best.score for best in found]),
            time=np.concatenate([best.time for best in found]),
            part=None, partition=None, payload=pa.concat_tables(carried).combine_chunks() if carried else None,
        )  # fmt: skip
        offsets = np.cumsum([0, *(len(best.score) for best in found)])
        full, cut = due.start >= one.schedule.exact_from, np.array([best.cut for best in found])
        why = np.where(full & cut, too_many_ties(one.query.max_ties), WARMING_UP)
        if whole:
            return [self.answers.block(due, offsets, events, full, why, provisional=True)]
        return self.answers.blocks(due, offsets, events, full & ~cut, why)

    def explain(self, number: int) -> list[str]:  # noqa: ARG002 - only rankings are numbered
        """Say what is kept."""
        (one,) = self.members
        key, aggregates = one.group_by or "the id", ", ".join(map(str, one.decomposition.aggregates))
        return [
            f"aggregated: {one}",
            f"  {query_line(one.query)}",
            f"  {key} counts once, with {aggregates} of its events; one row for each "
            f"pane and {key} is kept{one.kept_now()}",
        ]


def _best(one: Partials, end: int, whole: bool = False) -> _Best:
    """Return the best of the window that ends there, or all of it."""
    found = one.objects(end)
    if not found.num_rows:
        return _Best(pa.array([], one.id_type), np.empty(0), np.empty(0, np.int64), None)
    score = np.asarray(found[STREAM].to_numpy(), np.float64)
    scored = np.flatnonzero(~np.isnan(score))
    merit, time = merit_of(score[scored], one.query.order), np.asarray(found[TIME].to_numpy(), np.int64)
    names = found[ID].take(pa.array(scored)).combine_chunks()
    place = np.asarray(pc.rank(names, tiebreaker="dense"), np.int64)
    order = best_first(merit, recency_of(time[scored], one.query.prefer), place)
    if not whole:
        order = order[ranks_in_runs(one.query.ties, merit[order]) < one.query.most_rows]
    cut = not whole and one.query.ties is not None and len(order) > one.query.max_ties
    rows = scored[order[: one.query.max_ties] if cut else order]
    ids = found[ID].take(pa.array(rows)).combine_chunks().cast(one.id_type)
    return _Best(ids, score[rows], time[rows], one.carried(ids.to_pylist()), cut)
