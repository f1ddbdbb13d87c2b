"""The integrated list of MinTopK and MTopList, as a keeper: each event once, with marks; each view with a pointer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.algorithms.base import Picks
from skyband.algorithms.in_order import Keeper
from skyband.algorithms.mtops import Scheduler
from skyband.arena import Arena
from skyband.kernels import toplist as kernel
from skyband.kernels.walk import PICKED, WALK
from skyband.order import IntArray, SlotArray
from skyband.windows import Due, Schedule

_NODE = (np.int32, np.float64, *(np.int64,) * 7)
_VIEW = (np.int64, np.int64, np.int64, np.int64, np.float64)


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

    def __init__(self, arena: Arena, members: Sequence[Schedule], first: int) -> None:
        self.arena = arena
        self.scheduler = Scheduler(members, first)
        self.numbers = np.zeros(5, np.int64)
        self.nodes: Any = None
        self.views: Any = tuple(np.empty(0, kind) for kind in (*_VIEW, np.float64))
        self._widen(64)
        kernel.reset(self.nodes, self.numbers)

    def pass_over(self, slots: SlotArray, due: Due, ks: IntArray, passed: int) -> Picks:
        """Take in events in order, and answer windows on the way."""
        return self.follow(slots, *self.scheduler.until(passed), due, ks, passed)

    def follow(self, slots: SlotArray, opened: IntArray, steps: IntArray, due: Due, ks: IntArray, passed: int) -> Picks:
        """Do what a scheduler says: open views, let them hold fewer events, close them."""
        arena, at = self.arena, np.zeros(WALK, np.int64)
        events = (arena.merit, arena.time, arena.key, arena.part, arena.position)
        live = self._live()
        self.nodes[3][live] = arena.key[self.nodes[0][live]]  # keys move when ids come and go
        self._make_room(opened.shape[1])
        picks, offsets = np.empty(int(ks.sum()), np.int32), np.zeros(len(due) + 1, np.int64)
        while kernel.pass_over(
            events, slots, self.nodes, self.numbers, self.views, opened, steps, (due.start, due.end, ks), passed, at,
            picks, offsets,
        ) == kernel.FULL:  # fmt: skip
            self._widen(2 * len(self.nodes[0]))
        return Picks(picks[: at[PICKED]], offsets)

    def _widen(self, room: int) -> None:
        """Make room for more nodes."""
        flat = [np.zeros(room, kind) for kind in _NODE]
        levels = [np.zeros((kernel.LEVELS, room), np.int32) for _ in range(2)]
        if self.nodes is not None:
            for old, new in zip(self.nodes, [*flat, *levels], strict=False):
                new[..., : old.shape[-1]] = old
        self.nodes = (*flat, *levels, np.empty(room, np.int32))

    def _make_room(self, opening: int) -> None:
        """Forget the views that are closed, and make room for those that open."""
        count = self.numbers[kernel.VIEWS]
        alive = np.flatnonzero(self.views[1][:count] > 0)
        place = np.full(count + 1, -1, np.int64)
        place[alive] = np.arange(len(alive))
        live = self._live()
        for marks in self.nodes[5:7]:
            marks[live] = place[marks[live]]
        blocks = (len(alive) + opening) // kernel.BLOCK + 1
        columns = [np.zeros(blocks * kernel.BLOCK, kind) for kind in _VIEW]
        columns[-1][:] = np.inf
        for new, old in zip(columns, self.views, strict=False):
            new[: len(alive)] = old[alive]
        self.views = (*columns, columns[-1].reshape(blocks, -1).min(axis=1))
        self.numbers[kernel.VIEWS] = len(alive)

    def _live(self) -> IntArray:
        """Return the nodes of the list, best first."""
        live: IntArray = kernel.listed(self.nodes, self.numbers)
        return live

    def marks(self) -> list[tuple[int, int, int]]:
        """Return the events, best first: slot, and where the first and the last view start that hold it."""
        live, start = self._live(), self.views[0]
        first, last = (start[self.nodes[mark][live]].tolist() for mark in (5, 6))
        return list(zip(self.nodes[0][live].tolist(), first, last, strict=True))

    def pointers(self) -> dict[int, int]:
        """Return, by the start of each open view, the slot of the worst event that it holds."""
        start, k, _count, low, *_ = (column[: self.numbers[kernel.VIEWS]] for column in self.views)
        return {int(s): int(self.nodes[0][w]) for s, w, depth in zip(start, low, k, strict=True) if depth and w}

    def kept(self) -> SlotArray:
        """Return the slots of all events of the list."""
        kept: SlotArray = np.sort(self.nodes[0][self._live()])
        return kept

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        live = self._live()
        self.nodes[0][live] = moved[self.nodes[0][live]]

    def bound(self) -> int:
        """Return the sum of what the views can hold."""
        return int(self.views[1][: self.numbers[kernel.VIEWS]].sum())

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold."""
        live = self._live()
        slot, merit, time, _key, position, first, last = (column[live] for column in self.nodes[:7])
        key = self.arena.key[slot]
        assert np.array_equal(np.lexsort((key, -time, -merit)), np.arange(len(live))), "the list is not in order"
        held = np.zeros((self.numbers[kernel.VIEWS], len(live)), bool)
        for view in range(len(held)):
            start, k, count, low = (int(column[view]) for column in self.views[:4])
            inside = np.flatnonzero(position >= start)[:k]
            held[view, inside] = True
            assert count == len(inside), "a view does not count what it holds"
            assert k == 0 or count == 0 or low == live[inside[-1]], "a pointer is wrong"
        assert np.all(held.any(axis=0)), "an event is in no view"
        if len(live) == 0:
            return
        assert np.array_equal(held.argmax(axis=0), first), "a starting mark is wrong"
        assert np.array_equal(len(held) - 1 - held[::-1].argmax(axis=0), last), "an ending mark is wrong"
        assert np.array_equal(self.arena.position[slot], position), "an event moved"
