"""The integrated list of MinTopK and MTopList, as a keeper: each event once, with marks; each view with a pointer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyband.algorithms.base import Picks
from skyband.algorithms.in_order import Keeper
from skyband.algorithms.mtops import top_list_kernels as kernel
from skyband.algorithms.mtops.views import Scheduler
from skyband.algorithms.shared_kernels import PICKED, WALK
from skyband.events.store import EventStore
from skyband.order import IntArray, SlotArray
from skyband.windows import DueWindows, Schedule


class TopList(Keeper):
    """One list for all views of some queries.

    Parameters
    ----------
    arena
        Where the events live.
    members
        The queries' windows, each once.
    first
        Where the first event lies.
    """

    def __init__(self, arena: EventStore, members: Sequence[Schedule], first: int) -> None:
        self.arena = arena
        self.scheduler = Scheduler(members, first)
        self.numbers = np.zeros(kernel.NUMBERS, np.int64)
        self.views, self.bar, self.least = np.zeros((0, kernel.VIEW), np.int64), np.empty(0), np.empty(0)
        self.nodes, self.merit = np.zeros((0, kernel.NODE), np.int64), np.empty(0)
        self.links = np.zeros((0, kernel.LEVELS, 2), np.int64)
        self._widen(64)
        kernel.reset(self.links, self.numbers)

    def pass_over(self, slots: SlotArray, due: DueWindows, ks: IntArray, passed: int) -> Picks:
        """Take in events in order, and answer windows on the way."""
        return self.follow(slots, *self.scheduler.until(passed), due, ks, passed)

    def follow(
        self, slots: SlotArray, opened: IntArray, steps: IntArray, due: DueWindows, ks: IntArray, passed: int
    ) -> Picks:
        """Do what a scheduler says: open views, let them hold fewer events, close them."""
        arena, at = self.arena, np.zeros(WALK, np.int64)
        events = (arena.merit, arena.time, arena.key, arena.part, arena.position)
        live = self._live()
        self.nodes[live, kernel.KEY] = arena.key[self.nodes[live, kernel.SLOT]]  # keys move when ids come and go
        self._make_room(opened.shape[1])
        picks, offsets = np.empty(int(ks.sum()), np.int32), np.zeros(len(due) + 1, np.int64)
        while kernel.pass_over(
            events, slots, self.nodes, self.merit, self.links, self.free, self.numbers, self.views, self.bar,
            self.least, opened, steps, (due.start, due.end, ks), passed, at, picks, offsets,
        ) == kernel.FULL:  # fmt: skip
            self._widen(2 * len(self.nodes))
        return Picks(picks[: at[PICKED]], offsets)

    def _widen(self, room: int) -> None:
        """Make room for more nodes."""
        more = room - len(self.nodes)
        self.nodes, self.merit, self.links = (
            np.concatenate([column, np.zeros((more, *column.shape[1:]), column.dtype)])
            for column in (self.nodes, self.merit, self.links)
        )
        self.free = np.empty(room, np.int64)  # none is free, or there would be room

    def _make_room(self, opening: int) -> None:
        """Forget the views that are closed, and make room for those that open."""
        count = self.numbers[kernel.VIEWS]
        alive = np.flatnonzero(self.views[:count, kernel.DEPTH] > 0)
        place = np.full(count + 1, -1, np.int64)
        place[alive] = np.arange(len(alive))
        live = self._live()
        for mark in (kernel.FIRST, kernel.LAST):
            self.nodes[live, mark] = place[self.nodes[live, mark]]
        blocks = (len(alive) + opening) // kernel.BLOCK + 1
        views, bar = np.zeros((blocks * kernel.BLOCK, kernel.VIEW), np.int64), np.full(blocks * kernel.BLOCK, np.inf)
        views[: len(alive)], bar[: len(alive)] = self.views[alive], self.bar[alive]
        self.views, self.bar, self.least = views, bar, bar.reshape(blocks, -1).min(axis=1)
        self.numbers[kernel.VIEWS] = len(alive)

    def _live(self) -> IntArray:
        """Return the nodes of the list, best first."""
        live: IntArray = kernel.listed(self.links, self.numbers)
        return live

    def marks(self) -> list[tuple[int, int, int]]:
        """Return the events, best first: slot, and where the first and the last view start that hold it."""
        live, start = self._live(), self.views[:, kernel.START]
        first, last = (start[self.nodes[live, mark]].tolist() for mark in (kernel.FIRST, kernel.LAST))
        return list(zip(self.nodes[live, kernel.SLOT].tolist(), first, last, strict=True))

    def pointers(self) -> dict[int, int]:
        """Return, by the start of each open view, the slot of the worst event that it holds."""
        views = self.views[: self.numbers[kernel.VIEWS]]
        views = views[views[:, kernel.COUNT] > 0]
        return dict(
            zip(views[:, kernel.START].tolist(), self.nodes[views[:, kernel.LOW], kernel.SLOT].tolist(), strict=True)
        )

    def kept(self) -> SlotArray:
        """Return the slots of all events of the list."""
        return np.sort(self.nodes[self._live(), kernel.SLOT]).astype(np.int32)

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        live = self._live()
        self.nodes[live, kernel.SLOT] = moved[self.nodes[live, kernel.SLOT]]

    def bound(self) -> int:
        """Return the sum of what the views can hold."""
        return int(self.views[: self.numbers[kernel.VIEWS], kernel.DEPTH].sum())

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold."""
        live = self._live()
        slot, position, first, last = (
            self.nodes[live, column] for column in (kernel.SLOT, kernel.POSITION, kernel.FIRST, kernel.LAST)
        )
        assert np.array_equal(self.arena.best_first(slot), np.arange(len(live))), "the list is not in order"
        held = np.zeros((self.numbers[kernel.VIEWS], len(live)), bool)
        for view, (start, k, count, low) in enumerate(self.views[: len(held)].tolist()):
            inside = np.flatnonzero(position >= start)[:k]
            held[view, inside] = True
            assert count == len(inside), "a view does not count what it holds"
            assert count == 0 or low == live[inside[-1]], "a pointer is wrong"
        assert np.all(held.any(axis=0)), "an event is in no view"
        if len(live) == 0:
            return
        assert np.array_equal(held.argmax(axis=0), first), "a starting mark is wrong"
        assert np.array_equal(len(held) - 1 - held[::-1].argmax(axis=0), last), "an ending mark is wrong"
        assert np.array_equal(self.arena.position[slot], position), "an event moved"
