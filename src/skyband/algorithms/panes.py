"""Panes: the intervals between neighbouring starts and ends of windows, and what was dropped from each.

All events of a pane enter and leave the same windows, so what is kept can be decided pane by pane. What was dropped
from a pane decides from which window on a new query is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

import numpy as np

from skyband.errors import TooManyWindows
from skyband.order import BoolArray, FloatArray, IntArray
from skyband.windows import ALWAYS, MOST_DUE, NEVER, Layout, Schedule, layout, progressions

UNTOUCHED = 2**62
"""Depth of a pane of which nothing was ever dropped."""
ANY_K = 2**61
"""Depth of a pane that lost only events which another of the same id replaces: any k is served."""
MOST_EDGES = 4 * MOST_DUE
"""Starts and ends of windows that may be listed at once; more are a mistake in the unit of time."""
AT_ONCE = 1 << 16
"""Windows that are looked at together."""
_COLUMNS = ("cuts", "depth", "best_dropped", "cut_after_loss", "starts", "dominated_from")


class Panes:
    """Every start and end of every window is a *cut*: between two neighbours lies one pane.

    Panes are numbered along the axis; `base` is the number of the first one that is still known, so numbers
    stay valid while old panes are forgotten and earlier ones are added.

    Attributes
    ----------
    depth
        Per pane: each dropped event is dominated by at least so many others; `UNTOUCHED` where none was dropped.
    best_dropped
        Per pane: no dropped event has a larger merit; minus infinity where none was dropped.
    cut_after_loss
        Per cut: whether it goes through a pane that had lost events before.
    starts
        Per cut: whether windows start there; at the others they only end. Every window that holds an event of a pane
        holds, of the panes before, all back to the last such cut.
    dominated_from
        Per pane: no event that dominates a dropped one lies before.
    """

    def __init__(self, schedules: Sequence[Schedule] = ()) -> None:
        self._schedules = schedules
        self._rest, self._slide = _residues(schedules)
        self.cuts = np.empty(0, np.int64)
        self.base = 0
        self.depth = np.empty(0, np.int64)
        self.best_dropped = np.empty(0)
        self.cut_after_loss = np.empty(0, bool)
        self.starts = np.empty(0, bool)
        self.dominated_from = np.empty(0, np.int64)
        self.forgot = False

    def __len__(self) -> int:
        return max(len(self.cuts) - 1, 0)

    def number(self, positions: IntArray | np.int64) -> IntArray:
        """Return the numbers of the panes that positions lie in (which must be covered)."""
        return np.searchsorted(self.cuts, positions, side="right") - 1 + self.base

    def cover(self, low: int, high: int) -> None:
        """Add panes so that `low` and `high` lie inside them."""
        if len(self.cuts) and self.cuts[0] <= low and high < self.cuts[-1]:
            return
        before, after = self._beyond(low, high)
        self.cuts = np.concatenate([before, self.cuts, after])
        self.starts = np.concatenate([self._are_starts(before), self.starts, self._are_starts(after)])
        self.dominated_from = np.concatenate([before, self.dominated_from, after])
        self.base -= len(before)
        added = len(before), len(after)
        depth, lost = (0, np.inf) if self.forgot else (UNTOUCHED, -np.inf)
        self.depth = np.pad(self.depth, added, constant_values=(depth, UNTOUCHED))
        self.best_dropped = np.pad(self.best_dropped, added, constant_values=(lost, -np.inf))
        self.cut_after_loss = np.pad(self.cut_after_loss, added)

    def edges(self, low: int, high: int) -> IntArray:
        """Return the cuts as they would be once `low` and `high` were covered."""
        before, after = self._beyond(low, high)
        return np.concatenate([before, self.cuts, after])

    def _beyond(self, low: int, high: int) -> tuple[IntArray, IntArray]:
        """Return the cuts that are missing before and after the known ones."""
        before = after = np.empty(0, np.int64)
        if len(self.cuts) == 0:
            return before, self._between(low, high)
        if low < self.cuts[0]:
            before = self._between(low, int(self.cuts[0]) - 1)
            before = before[before < self.cuts[0]]
        if high >= self.cuts[-1]:
            after = self._between(int(self.cuts[-1]), high)
            after = after[after > self.cuts[-1]]
        return before, after

    def refine(self, schedules: Sequence[Schedule]) -> bool:
        """Serve other schedules from now on: known panes get their cuts too; tell whether any was cut."""
        grew, known = self._grow, (self._rest, self._slide)
        before = set(zip(self._rest.tolist(), self._slide.tolist(), strict=True))
        self._schedules, (self._rest, self._slide) = schedules, _residues(schedules)
        added = set(zip(self._rest.tolist(), self._slide.tolist(), strict=True)) - before
        try:
            self.starts |= self._are_starts(self.cuts)
            return self._cut(added, grew)
        except TooManyWindows:  # they are as new the next time
            self._rest, self._slide = known
            raise

    def _cut(self, added: set[tuple[int, int]], grew: bool) -> bool:
        """Cut known panes at the places of added residue classes; tell whether any was cut."""
        if len(self.cuts) == 0 or not (added or grew):  # the cuts of queries that went may stay
            return False
        first, last = int(self.cuts[0]) + 1, int(self.cuts[-1]) - 1
        if grew or self._grow:  # panes may have been joined
            new = self._needed(first, last)
        else:
            rest, slide = np.array(sorted(added), np.int64).T
            new = _terms(rest, slide, first, last)
        place = np.searchsorted(self.cuts, new)
        known = self.cuts[place] == new
        new, place = new[~known], place[~known]
        # Both halves of a pane have lost what it lost.
        self.cut_after_loss = np.insert(self.cut_after_loss, place, self.depth[place - 1] != UNTOUCHED)
        self.depth = np.insert(self.depth, place, self.depth[place - 1])
        self.best_dropped = np.insert(self.best_dropped, place, self.best_dropped[place - 1])
        carried = self.dominated_from < self.cuts
        dominated_from = np.where(carried[place - 1], self.dominated_from[place - 1], new)
        self.dominated_from = np.insert(self.dominated_from, place, dominated_from)
        self.starts = np.insert(self.starts, place, self._are_starts(new))
        self.cuts = np.insert(self.cuts, place, new)
        return len(new) > 0

    @property
    def carry(self) -> bool:
        """Whether there are cuts at which windows only end."""
        return not (self._grow or self.starts[:-1].all())

    def starts_between(self, low: int, high: int) -> IntArray:
        """Return where windows start from `low` to `high`, known cuts and others."""
        known = self.cuts[self.starts]
        known = known[(known >= low) & (known <= high)]
        return np.union1d(known, _terms(*_starts(self._schedules), low, high))

    def _are_starts(self, cuts: IntArray) -> BoolArray:
        """Tell at which cuts windows start; where windows grow, no cut is known to be none."""
        if len(cuts) == 0 or self._grow:
            return np.ones(len(cuts), bool)
        return np.isin(cuts, _terms(*_starts(self._schedules), int(cuts[0]), int(cuts[-1])))

    @property
    def _grow(self) -> bool:
        """Whether there are windows that grow: then panes are joined, and old ones are only cut as far as needed."""
        return any(schedule.grows for schedule in self._schedules)

    def _needed(self, first: int, last: int) -> IntArray:
        """Return the cuts from `first` to `last` where windows that are not yet answered start or end."""
        columns = layout(self._schedules)
        starts = _terms(columns.phase, columns.period, np.maximum(columns.start, first), last)
        ends = _terms(columns.phase + columns.size, columns.slide, np.maximum(columns.closed + 1, first), last)
        return np.union1d(starts, ends)

    def join(self, columns: Layout, starts: IntArray, sealed_to: int) -> bool:
        """Drop the cuts before `sealed_to` where no coming window starts; tell whether there were any.

        `starts` are where the next windows start.
        """
        first = int(self.cuts[0])
        coming = _terms(columns.phase, columns.period, np.maximum(starts, first + 1), sealed_to)
        keep = (self.cuts >= sealed_to) | (self.cuts == first) | np.isin(self.cuts, coming)
        if keep.all():
            return False
        begins = np.flatnonzero(keep)
        self.depth = np.minimum.reduceat(self.depth, begins)
        self.best_dropped = np.maximum.reduceat(self.best_dropped, begins)
        self.dominated_from = np.minimum.reduceat(self.dominated_from, begins)
        self.cuts, self.cut_after_loss, self.starts = self.cuts[keep], self.cut_after_loss[keep], self.starts[keep]
        return True

    def record_loss(self, panes: IntArray, depth: int, best: FloatArray | float) -> None:
        """Record dropped events of panes: the best has merit `best`; each is dominated by `depth` kept events."""
        np.minimum.at(self.depth, panes - self.base, depth)
        np.maximum.at(self.best_dropped, panes - self.base, best)

    def record_filtered(self, low: int, high: int, depth: int, best: float) -> None:
        """Record events of ``[low, high)`` that were dropped before they got here: all its panes lost them."""
        self.cover(low, high - 1)
        first, last = self.number(np.array([low, high - 1]))
        self.record_loss(np.arange(first, last + 1), depth, best)

    def first_from(self, panes: IntArray) -> IntArray:
        """Return the last pane up to each where windows start; the first one of all where there is none."""
        begins = np.maximum.accumulate(np.where(self.starts, np.arange(len(self.cuts)), 0))
        return begins[panes - self.base] + self.base

    def record_carried(self, panes: IntArray) -> None:
        """Record that events of panes were dropped for others of the panes before, back to a start of windows."""
        begin = self.cuts[self.first_from(panes) - self.base]
        np.minimum.at(self.dominated_from, panes - self.base, begin)

    def restore(self, low: int, high: int, depth: int) -> None:
        """Record that all events of ``[low, high)`` arrive again; others were dropped by `depth`."""
        self.cover(low, high - 1)
        starts, ends = self.cuts[:-1], self.cuts[1:]
        whole, part = (starts >= low) & (ends <= high), (starts < high) & (ends > high)
        self.depth[:-1][whole], self.best_dropped[:-1][whole] = UNTOUCHED, -np.inf
        self.dominated_from[:-1][whole] = starts[whole]
        part &= self.depth[:-1] != UNTOUCHED  # a pane that has lost nothing gets back all that it had
        self.depth[:-1][part] = depth
        self.cut_after_loss[(self.cuts >= low) & (self.cuts < high)] = False

    def forget(self, panes: int) -> None:
        """Forget the first panes."""
        if panes > 0:
            for name in _COLUMNS:
                setattr(self, name, getattr(self, name)[panes:].copy())
            self.base += panes
            self.forgot = True

    def exact_from(self, schedule: Schedule, frontier: int) -> int:
        """Return the first start from which on a new query's windows miss nothing that was dropped.

        Walks back from the newest window with events (none is after `frontier`) while nothing is missing.
        """
        if frontier == NEVER or len(self.cuts) == 0:
            return NEVER
        first, slide = int(self.cuts[0]), schedule.slide
        newest = schedule.last_due(max(frontier, schedule.closed_to) if schedule.endless else frontier)
        # Back to before all panes, there may be very many; where windows grow, those that are answered do not matter.
        windows = max((newest - (max(first, schedule.closed_to) if schedule.grows else first)) // slide, 0) + 2
        if windows > MOST_EDGES:
            msg = (
                f"a new query with a slide of {slide} has {windows:,} windows among the events that are kept (from "
                f"{first} to {frontier}); at most {MOST_EDGES:,} can be served: give it a longer slide"
            )
            raise TooManyWindows(msg)
        least = np.minimum.accumulate(self.depth[::-1])[::-1]
        dominated_from = np.append(np.minimum.accumulate(self.dominated_from[::-1])[::-1], ALWAYS)
        for begin in range(0, windows, AT_ONCE):
            ends = newest - slide * np.arange(begin, min(begin + AT_ONCE, windows))
            starts = schedule.start_of(ends)
            depth = least[np.maximum(np.searchsorted(self.cuts, starts, side="right") - 1, 0)]
            exact = self._are_whole(starts, frontier) & self._are_whole(ends, frontier)
            # Of what was dropped behind the start, what dominates it must lie behind the start too.
            exact &= dominated_from[np.searchsorted(self.cuts, starts)] >= starts
            exact &= (depth >= schedule.k) & ((starts >= first) | (not self.forgot))
            exact |= (ends <= schedule.closed_to) & schedule.grows
            if not exact.all():
                return int(starts[exact.argmin()]) + schedule.period
        return NEVER

    def _are_whole(self, cuts: IntArray, frontier: int) -> BoolArray:
        """Tell where windows may start or end: they cut through no pane that lost events."""
        place = np.maximum(np.searchsorted(self.cuts, cuts, side="right") - 1, 0)
        whole = np.where(self.cuts[place] == cuts, ~self.cut_after_loss[place], self.depth[place] == UNTOUCHED)
        return np.asarray(whole | (cuts > frontier) | (cuts < self.cuts[0]))

    def worst_losses(self, start: IntArray, end: IntArray) -> FloatArray:
        """Return for windows a merit that nothing exceeds which was dropped from their panes; NaN: nothing was."""
        first = np.maximum(np.searchsorted(self.cuts, start, side="right") - 1, 0)
        behind = np.maximum(np.searchsorted(self.cuts, end - 1, side="right"), first)
        edges = np.stack([first, behind], axis=1).ravel()
        known = np.append(np.where(self.depth == UNTOUCHED, np.nan, self.best_dropped), np.nan)
        lost = np.where(first < behind, np.fmax.reduceat(known, edges)[::2], np.nan)
        return np.where(self.forgot & (start < self.cuts[0]), np.inf, lost)

    def state(self) -> dict[str, Any]:
        """Return everything but the schedules, detached from the live columns."""
        columns = {name: getattr(self, name).copy() for name in _COLUMNS}
        return {**columns, "base": self.base, "forgot": self.forgot}

    def load(self, state: dict[str, Any]) -> None:
        """Take over what `state` returned."""
        for name in (*_COLUMNS, "base", "forgot"):
            setattr(self, name, state[name])

    def _between(self, low: int, high: int) -> IntArray:
        """Return all cuts from the last one at or before `low` to the first one after `high`."""
        if self._grow:  # before what is answered there may be none for long: then there is one at `low`
            behind = min(s.first_end_after(max(high, s.closed_to)) for s in self._schedules)
            return np.union1d(self._needed(low, behind), [low, behind])
        rest, slide = self._rest, self._slide
        low = int((low - (low - rest) % slide).max())
        high = int((high + slide - (high - rest) % slide).min())
        grid = gcd(*(rest - rest[0]).tolist(), *slide.tolist())
        listed = int(np.sum((high - low) // slide + 1))
        if listed > MOST_EDGES:
            msg = (
                f"event time jumps from {low} to {high} (microseconds), {listed:,} window edges; check the unit "
                "of the time column (time_unit), or filter out rows with impossible times"
            )
            raise TooManyWindows(msg)
        if (high - low) // grid + 1 <= listed:  # a plain grid is no longer than the list, and cheaper
            return np.arange(low, high + 1, grid, dtype=np.int64)
        return _terms(rest, slide, low, high)


def _terms(rest: IntArray, slide: IntArray, first: IntArray | int, last: int) -> IntArray:
    """Return the places from `first` to `last` that are in some residue class: `rest` modulo `slide`, in order."""
    first = first + (rest - first) % slide
    count = np.maximum((last - first) // slide + 1, 0)
    if (listed := int(count.sum())) > MOST_EDGES:
        msg = (
            f"event time jumps to {last} (microseconds), {listed:,} window edges; check the unit of the time column "
            "(time_unit), or filter out rows with impossible times"
        )
        raise TooManyWindows(msg)
    return np.unique(progressions(first, slide, count)[1])


def _residues(schedules: Sequence[Schedule]) -> tuple[IntArray, IntArray]:
    """Return where windows start and end as residue classes: places that are `rest` modulo `slide`."""
    return _classes(schedules, [0, 1])


def _starts(schedules: Sequence[Schedule]) -> tuple[IntArray, IntArray]:
    """Return where windows start, as `_residues` does."""
    return _classes(schedules, [0])


def _classes(schedules: Sequence[Schedule], sizes: Sequence[int]) -> tuple[IntArray, IntArray]:
    """Return the residue classes of places that are so many sizes behind the starts of windows."""
    if not schedules:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    columns = layout(schedules)
    phase, slide = columns.phase, columns.slide  # windows that grow start where others end
    rests = [(phase + n * columns.size) % slide for n in sizes]
    pairs = {pair for rest in rests for pair in zip(rest.tolist(), slide.tolist(), strict=True)}
    rest, slide = np.array(sorted(pairs), np.int64).T.copy()
    return rest, slide


def pane_widths(schedules: Sequence[Schedule]) -> list[int]:
    """Return the least and the largest width of the panes of some schedules, once where they are equal.

    Examples
    --------
    >>> from skyband import Window
    >>> pane_widths([Schedule.of("q", 1, window) for window in (Window(10, slide=5), Window(9))])
    [1, 5]
    """
    slides = [schedule.slide for schedule in schedules]
    panes = Panes(schedules)
    panes.cover(0, min(20 * max(slides), 10_000 * min(slides)))  # by a stretch of some of them
    widths = np.diff(panes.cuts)
    return sorted({int(widths.min()), int(widths.max())})
