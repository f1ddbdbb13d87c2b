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
from skyband.engine.intake import WARMING_UP
from skyband.engine.partials import ID, STREAM, TIME
from skyband.engine.per_id import PerIdQuery
from skyband.order import FloatArray, IntArray, best_first, merit_of
from skyband.windows import DueWindows


@dataclass(frozen=True)
class _Best:
    """The rows of one answer, the best first."""

    start: int
    end: int
    id: pa.Array
    score: FloatArray
    time: IntArray
    carried: pa.Table | None


class AggregatedQuery(PerIdQuery):
    """One aggregated query."""

    def answer(self, due: DueWindows) -> list[AnswerBlock]:
        """Answer windows, in order; those of a query that came later may not have seen all."""
        found = [self._best(start, end) for start, end in zip(due.start.tolist(), due.end.tolist(), strict=True)]
        if self.schedule.paused:
            return []
        parts = {
            WARMING_UP: [best for best in found if best.start < self.schedule.exact_from],
            None: [best for best in found if best.start >= self.schedule.exact_from],
        }
        return [self.with_changes(self._block(part, why)) for why, part in parts.items() if part]

    def _best(self, start: int, end: int) -> _Best:
        found = self.objects(end)
        kind = pa.string() if self.side.text_ids else pa.int64()
        if not found.num_rows:
            return _Best(start, end, pa.array([], kind), np.empty(0), np.empty(0, np.int64), None)
        score = np.asarray(found[STREAM].to_numpy(), np.float64)
        scored = np.flatnonzero(~np.isnan(score))
        merit, time = merit_of(score[scored], self.query.order), np.asarray(found[TIME].to_numpy(), np.int64)
        names = found[ID].take(pa.array(scored)).combine_chunks()
        place = np.asarray(pc.rank(names, tiebreaker="dense"), np.int64)
        rows = scored[best_first(merit, time[scored], place)[: self.query.most_rows]]
        ids = found[ID].take(pa.array(rows)).combine_chunks().cast(kind)
        return _Best(start, end, ids, score[rows], time[rows], self.side.carried(ids.to_pylist()))

    def _block(self, answers: list[_Best], why: str | None) -> AnswerBlock:
        ids = pa.concat_arrays([best.id for best in answers])
        carried = [best.carried for best in answers if best.carried is not None]
        return AnswerBlock(
            names=[self.name], query=np.zeros(len(answers), np.int64),
            start=np.array([best.start for best in answers], np.int64) - self.schedule.shift,
            end=np.array([best.end for best in answers], np.int64) - self.schedule.shift,
            exact=np.full(len(answers), why is None),
            offsets=np.cumsum([0, *(len(best.score) for best in answers)]),
            events=Events(
                id=ids if self.side.text_ids else ids.to_numpy(),
                score=np.concatenate([best.score for best in answers]),
                time=np.concatenate([best.time for best in answers]),
                part=None, partition=None, payload=pa.concat_tables(carried).combine_chunks() if carried else None,
            ),
            place=None, selects=[self.query.select], counts=False, why=why,
        )  # fmt: skip
