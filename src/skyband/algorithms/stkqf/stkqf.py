"""STKQF: a PH-Tree for queries that come and go.

Paper → code (STKQF):

- algorithm 1, lines 1-15 and 17-18 → `STKQF.plan`
- algorithm 1, line 16; theorem 3 → `KeptWindow.scan`
- algorithm 1, lines 19-20 → `STKQF.answer`

Choose it to compare with the paper, or where queries change often, must be exact at once, and the whole window fits
into memory.

Guarantees: exact, and so is every query that comes later, at once, as long as it reaches no further back than the grid
of queries does. Candidates are kept as in `phtree`, for the virtual queries instead of the queries; besides, all events
of the window are kept, to be scanned when a new query asks for more than any virtual one. A query that lands in a
used cell of the grid, or is dominated, costs nothing; another one a scan of the partitions that it reaches back to
further than the queries as deep as it, but of those only the ones where something can be missing.

Invariant: an event that a virtual query can answer with is a candidate of its partition.

Notes
-----
Jing et al., *Dynamic Multiple Continuous Top-k Queries Over Streaming Data*; its grid and its cases are in
`skyband.algorithms.stkqf.skyline`, its PH-Tree in `skyband.algorithms.stkqf.partitions`.

Left open there: how far the grid reaches (here as far as the longest and the deepest query so far, twice as far when
one comes that does not fit) and how fine it is (8 by 8 unless ``cells`` says more or less). Theorem 3 bounds what is
missing in a partition by its worst candidate, which holds where candidates are its best events; ours are its meaningful
ones, so the best event that was dropped is remembered instead. Virtual queries of cells that are empty go after the
longest window has passed, when candidates are dropped the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from skyband.algorithms.base import NO_SLOTS, Selection
from skyband.algorithms.options import Option
from skyband.algorithms.stkqf.partitions import BUFFER, Partitioned, Partitions, PHTree
from skyband.algorithms.stkqf.skyline import Need, Scan, SQGrid, scan_for
from skyband.events.store import EventStore
from skyband.order import IntArray, SlotArray
from skyband.queries.query import Distinct
from skyband.times import format_duration
from skyband.windows import NEVER, DueWindows, Schedule


class STKQF(Partitioned):
    """A grid of queries, and a tree over the partitions of the window."""

    name = "stkqf"
    summary = "a PH-Tree for virtual queries, and the window itself, for queries that come and go (STKQF)"
    options = (
        Option("cells", 8, 1, 1_000, "cells along each side of the grid of queries", "1/ρ"),
        *PHTree.options,
    )
    keepers: dict[int, KeptWindow]  # type: ignore[assignment]

    def __init__(self, store: EventStore, distinct: Distinct | None) -> None:
        super().__init__(store, distinct)
        self.grid = SQGrid(1, 1, self.option("cells"))
        self.gone_before = NEVER  # events before it are no longer in memory
        self.scans: list[tuple[Scan, int, int]] = []  # of the last change: what, partitions scanned and skipped

    def plan(self, schedules: Sequence[Schedule]) -> None:
        """Serve these queries from now on; look for what new ones need in the window."""
        self.schedules = schedules
        needs = [Need(s.size, s.k) for s in schedules]
        before = self.grid.virtual()
        if not all(map(self.grid.fits, needs)):
            self.grid = _grown(self.grid, needs)
        self.grid.fill(needs, self.passed)
        new = [need for need in self.grid.virtual() if need not in before]
        self.scans = []
        for need in new if before else []:
            scan = scan_for(need, before)
            counts = [keeper.scan(scan, self.passed) for keeper in self.keepers.values()]
            self.scans.append((scan, sum(a for a, _ in counts), sum(b for _, b in counts)))

    def keeper(self, first: int) -> KeptWindow:
        """Make partitions for the virtual queries."""
        sizes = [s.size for s in self.schedules]
        width = max(min(sizes) // self.option("partitions"), 1)
        return KeptWindow(self.store, self._needs, first, width, max(sizes), tree=True)

    def _needs(self, passed: int) -> list[tuple[int, int]]:
        return [(passed - need.n, need.k) for need in self.grid.virtual()]

    def exact_from(self, schedule: Schedule, frontier: int) -> int:  # noqa: ARG002 - what waits is not lost
        """Return the first start of a window that is in memory as a whole."""
        return NEVER if self.gone_before == NEVER else schedule.first_start_from(self.gone_before)

    def answer(self, due: DueWindows, sealed_to: int) -> Selection:
        """Answer windows; then forget what lies before all virtual queries' windows, and cells that stay empty."""
        picks = super().answer(due, sealed_to)
        self.grid.forget(self.passed)
        if self.keepers:
            self.gone_before = max(self.gone_before, self.passed - self.grid.n)
        for keeper in self.keepers.values():
            keeper.forget(self.gone_before)
        return picks

    def candidates(self) -> int:
        """Return how many events are candidates; the others are kept to be scanned."""
        return sum(keeper.meaningful() for keeper in self.keepers.values())

    def snapshot(self) -> dict[str, Any]:
        """Return the state as numbers and arrays."""
        grid = self.grid
        left = [[*cell, since] for cell, since in sorted(grid.left.items())]
        return {**super().snapshot(), "gone_before": self.gone_before, "grid": [grid.n, grid.k, left]}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `snapshot` returned."""
        n, k, left = state["grid"]
        self.grid = SQGrid(n, k, self.option("cells"))
        self.grid.fill([Need(s.size, s.k) for s in self.schedules], NEVER)
        self.grid.left = {(i, j): since for i, j, since in left}
        self.gone_before = state["gone_before"]
        super().restore(state)

    def _age(self, age: int) -> str:
        return f"{age:,} events" if self.store.counts else format_duration(age)

    def explain(self, moment: Callable[[int], str]) -> list[str]:  # noqa: ARG002 - ages, not moments
        """Describe the virtual queries, and what was scanned for the last new one."""
        virtual = ", ".join(f"the best {need.k} of the last {self._age(need.n)}" for need in self.grid.virtual())
        lines = [f"virtual queries: {virtual}"]
        if not self.store.counts:
            lines.append(
                "keeps all events of the window, so that deeper queries are exact at once: on Spark, every row that "
                "passes the filter comes to the driver"
            )
        if len(self.kept()):
            lines.append(f"{self.candidates():,} of the events are candidates")
        for scan, scanned, skipped in self.scans:
            lines.append(
                f"the last change was case {scan.case.value}, {scan.case.meaning}: of ages {self._age(scan.newer)} to "
                f"{self._age(scan.older)}, {scanned} partitions were scanned, {skipped} could not miss anything"
            )
        return lines


class KeptWindow(Partitions):
    """Partitions with all of their events."""

    def __init__(self, *how: Any, **more: Any) -> None:
        self.raw: dict[int, SlotArray] = {}
        self.lost: dict[int, float] = {}  # the merit of the best event that is no candidate
        super().__init__(*how, **more)

    def process(self, slots: SlotArray, due: DueWindows, ks: IntArray, passed: int) -> Selection:
        """Take in events in order, and answer windows on the way."""
        number = self.store.position[slots] // self.width
        for which in np.unique(number).tolist():
            self.raw[which] = np.concatenate([self.raw.get(which, NO_SLOTS), slots[number == which]])
        return super().process(slots, due, ks, passed)

    def forget(self, before: int) -> None:
        """Forget partitions that lie before a moment."""
        self.raw = {number: slots for number, slots in self.raw.items() if (number + 1) * self.width > before}
        self.lost = {number: merit for number, merit in self.lost.items() if number in self.raw}

    def scan(self, scan: Scan, passed: int) -> tuple[int, int]:
        """Look for the events that a new need asks for, from the newest partition back.

        Returns how many partitions were scanned, and how many could be skipped: as many better events follow as the
        deepest query asks for (Theorem 3).
        """
        needs = self.needs(passed)
        self.depth = max(k for _, k in needs)
        held = self.raw.get(self.back, NO_SLOTS)
        self.buffer, self.used[0] = np.append(held, np.empty(BUFFER, np.int32)), len(held)
        following = self._best_first(held)[: self.depth]
        back_best, counts = following, [0, 0]
        for number in sorted((n for n in self.raw if n < self.back), reverse=True):
            first, last = number * self.width, (number + 1) * self.width
            known = self.candidates.get(number, NO_SLOTS)
            if passed - scan.older < last and first < passed - scan.newer:
                depth = max((k for start, k in needs if start < last), default=0)
                enough = 0 < depth <= len(following)
                skip = enough and bool(self.store.merit[following[depth - 1]] > self._lost(number))
                counts[skip] += 1
                if not skip:
                    known = self._best_first(self._meaningful(self.raw[number], depth, following[:depth]))
                    self.candidates[number] = known
                    self.lost.pop(number, None)
            following = self._best_first(np.concatenate([following, known]))[: self.depth]
        self._lay_out(back_best)
        return counts[0], counts[1]

    def _lost(self, number: int) -> float:
        """Return the merit of the best event of a partition that is no candidate."""
        if number not in self.lost:
            others = np.setdiff1d(self.raw[number], self.candidates.get(number, NO_SLOTS))
            self.lost[number] = float(self.store.merit[others].max(initial=-np.inf))
        return self.lost[number]

    def _prune(self, passed: int) -> None:
        super()._prune(passed)
        self.lost = {}

    def meaningful(self) -> int:
        """Return how many events are candidates."""
        return len(super().kept())

    def kept(self) -> SlotArray:
        """Return the slots of all events."""
        return np.sort(np.concatenate([*self.raw.values(), NO_SLOTS]))

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        self.raw = {number: moved[slots] for number, slots in self.raw.items()}
        super().compact(moved)


def _grown(grid: SQGrid, needs: Sequence[Need]) -> SQGrid:
    """Return a grid that needs fit into: at first just so, later twice as far, so that it seldom grows."""
    n, k = max(need.n for need in needs), max(need.k for need in needs)
    if grid.members:
        n, k = (n if n <= grid.n else 2 * n), (k if k <= grid.k else 2 * k)
    return SQGrid(max(n, grid.n), max(k, grid.k), grid.cells)
