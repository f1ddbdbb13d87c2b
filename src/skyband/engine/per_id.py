"""A query that ranks ids by what a window says of them: its events in, reduced to what is needed of them.

Its kinds are joined queries, `skyband.engine.joined_query`, and aggregated ones, `skyband.engine.aggregates`.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pyarrow as pa

from skyband.engine.groups import ReducedBatch
from skyband.engine.intake import BatchOutcome, Counts
from skyband.engine.measures import ROWS
from skyband.engine.partials import FIRST, TIME, Partials
from skyband.engine.snapshot import State, under
from skyband.engine.stats import GroupStats
from skyband.events.batch import EventBatch
from skyband.queries.query import Query
from skyband.windows import NEVER, Schedule, WindowGrid


class PerIdQuery:
    """One query and its side of the stream.

    Parameters
    ----------
    query
        The query.
    """

    def __init__(self, query: Query) -> None:
        assert query.sides is not None
        self.query, self.sides = query, query.sides
        self.schedule = Schedule.of(query)
        self.windows = WindowGrid(self.schedule.size, self.schedule.slide, self.schedule.phase)
        on = None if query.join is None else query.join.on
        self.side = Partials(self.sides, self.windows, query.order, on, query.select, query.group_by)
        self.counts = Counts()
        self.last = NEVER
        self._unfit = 0

    @property
    def name(self) -> str:
        """The query's name."""
        return self.query.name

    def __str__(self) -> str:
        query = self.query
        return (
            f"score {query.score_expression} {query.order}"
            + ("" if query.group_by is None else f", group by {query.group_by}")
            + ("" if query.where is None else f", where {query.where_expression}")
        )

    # Events in.

    @property
    def late_before(self) -> int:
        """Where the next window starts: an event before it has missed all its windows."""
        return self.schedule.next_start

    def push(self, rows: EventBatch) -> BatchOutcome:
        """Take in one batch."""
        rows = rows.by(self.query.group_by)
        passed, good = self.side.passing(rows)
        missed = good & (rows.time < self.late_before)
        partly = np.flatnonzero(good & ~missed & (rows.time < self._answered_to))
        late, taken = np.flatnonzero(missed), np.flatnonzero(good & ~missed)
        seen = BatchOutcome(passed, np.flatnonzero(passed & ~good), late, partly)
        partials = self.side.partials(rows, taken)
        self.take(ReducedBatch(partials, rows.newest, len(late), len(partly), len(seen.rejected)))
        return seen

    def take(self, reduced: ReducedBatch) -> None:
        """Take in a batch that is reduced already; of late rows, only their number."""
        partials, counts = reduced.partials, self.counts
        counts.late += reduced.late
        counts.partly_late += reduced.partly_late
        counts.rejected += reduced.rejected
        if partials.num_rows:
            time = partials[TIME].to_numpy()
            # Which windows are the first is the same for all times of the first pane.
            self._note(int(time.min()), int(time.max()), int(partials[ROWS].to_numpy().sum()))
            self.side.add(partials)
        if reduced.aside is not None and reduced.aside.num_rows:
            first, last, rows = (reduced.aside[name].to_numpy() for name in (FIRST, TIME, ROWS))
            self._note(int(first.min()), int(last.max()), int(rows.sum()))
            self.side.put_aside(reduced.aside)

    def _note(self, first: int, last: int, rows: int) -> None:
        self.schedule.first, self.last = min(self.schedule.first, first), max(self.last, last)
        self.counts.events += rows

    @property
    def partly_before(self) -> int:
        """The first pane that no answered window has: what lies before it has missed some of its windows."""
        return NEVER if self._answered_to == NEVER else int(self.side.grid.of(np.array([self._answered_to]))[0])

    @property
    def _answered_to(self) -> int:
        start = self.late_before
        return NEVER if start == NEVER else start + self.schedule.size - self.schedule.slide

    # Answers out.

    def objects(self, end: int) -> pa.Table:
        """Return the objects of a window; those whose integer sum does not fit are rejected, and so counted."""
        found = self.side.objects(self.windows.ending(end))
        self.counts.rejected += self.side.unfit
        self._unfit += self.side.unfit
        return found

    def take_unfit(self) -> int:
        """Return how many objects were rejected so since this was asked last."""
        unfit, self._unfit = self._unfit, 0
        return unfit

    # Looking inside, and snapshots.

    def stats(self) -> GroupStats:
        """Return the numbers so far; nothing bounds what is kept but the window."""
        kept = len(self.side)
        return GroupStats(str(self), (self.name,), **asdict(self.counts), kept=kept, bound=kept)

    def state(self) -> State:
        """Return everything as plain values and tables."""
        return {
            "query": self.query.as_dict(), "schedule": asdict(self.schedule), "counts": asdict(self.counts),
            "last": self.last,
        }, {f"side/{name}": table for name, table in self.side.state().items()}  # fmt: skip

    def load(self, state: State) -> None:
        """Take over what `state` returned, of the same query."""
        meta, tables = state
        self.schedule, self.counts = Schedule(**meta["schedule"]), Counts(**meta["counts"])
        self.last = meta["last"]
        self.side.load(under("side/", tables))
