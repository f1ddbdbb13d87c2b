"""An aggregated query at work: ids ranked by counts, sums and the like of their events in each window.

Nothing can be left out before the window closes: an id that is last now may be first with one more event. So of every
pane and id one row is kept, `skyband.engine.partials`, and a window puts those of its panes together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.answers.answer import AnswerBlock, Events
from skyband.engine.groups import AnswerBuilder
from skyband.engine.intake import WARMING_UP
from skyband.engine.partials import ID, STREAM, TIME
from skyband.engine.per_id import PerIdQuery
from skyband.order import FloatArray, IntArray, best_first, merit_of
from skyband.windows import DueWindows


@dataclass(frozen=True)
class _Best:
    """The rows of one answer, the best first."""

    id: pa.Array
    score: FloatArray
    time: IntArray
    carried: pa.Table | None


class AggregatedQuery(PerIdQuery):
    """One aggregated query."""

    def answer(self, due: DueWindows, answers: AnswerBuilder) -> list[AnswerBlock]:
        """Answer windows, in order; those of a query that came later may not have seen all."""
        found = [self._best(end) for end in due.end.tolist()]
        ids = pa.concat_arrays([best.id for best in found])
        carried = [best.carried for best in found if best.carried is not None]
        events = Events(
            id=ids if self.side.text_ids else ids.to_numpy(),
            score=np.concatenate([best.score for best in found]),
            time=np.concatenate([best.time for best in found]),
            part=None, partition=None, payload=pa.concat_tables(carried).combine_chunks() if carried else None,
        )  # fmt: skip
        offsets = np.cumsum([0, *(len(best.score) for best in found)])
        return answers.blocks(due, offsets, events, due.start >= self.schedule.exact_from, WARMING_UP)

    def _best(self, end: int) -> _Best:
        found = self.objects(end)
        kind = pa.string() if self.side.text_ids else pa.int64()
        if not found.num_rows:
            return _Best(pa.array([], kind), np.empty(0), np.empty(0, np.int64), None)
        score = np.asarray(found[STREAM].to_numpy(), np.float64)
        scored = np.flatnonzero(~np.isnan(score))
        merit, time = merit_of(score[scored], self.query.order), np.asarray(found[TIME].to_numpy(), np.int64)
        names = found[ID].take(pa.array(scored)).combine_chunks()
        place = np.asarray(pc.rank(names, tiebreaker="dense"), np.int64)
        rows = scored[best_first(merit, time[scored], place)[: self.query.most_rows]]
        ids = found[ID].take(pa.array(rows)).combine_chunks().cast(kind)
        return _Best(ids, score[rows], time[rows], self.side.carried(ids.to_pylist()))
