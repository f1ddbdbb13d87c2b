"""Windows of aggregates: those of one query, one after another, each from the panes that it shares with the last.

Counts and sums of integers are those of the last window, with the new pane added and the one that left subtracted.
Everything else is kept on *two stacks*. Panes lie in blocks as long as a window, so a window is the end of one block
and the beginning of the next: the one stack holds the objects of the block's last panes, taken together from its end
backwards, the other those of the next block, from its beginning on. A pane leaves the first stack by putting back what
there was before it came, object by object; so there is no array for every pane, only what its objects were before.

Blocks begin at the same panes for everybody, so what a window adds up to depends on its panes alone, to the last
digit: not on where the windows began to slide, nor on a snapshot in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skyband.engine.folds import Arrays, Fold
from skyband.engine.pane_kernels import keep_largest, take_off
from skyband.order import NEVER, IntArray, SlotArray


class Partial(NamedTuple):
    """What is kept of objects in a pane, object by object: rows, the latest time, and the arrays of each fold."""

    objects: SlotArray
    rows: IntArray
    latest: IntArray
    folds: list[Arrays]

    def part(self, low: int, high: int) -> Partial:
        """Return only some of the objects."""
        cut = slice(low, high)
        folds = [tuple(array[cut] for array in arrays) for arrays in self.folds]
        return Partial(self.objects[cut], self.rows[cut], self.latest[cut], folds)


class SlidingWindow:
    """The window that one query has come to.

    Parameters
    ----------
    folds
        What is kept of each object.
    length
        How many panes a window has; 0 where windows grow, so that many of them begin with the same pane.
    between
        Returns the numbers of the panes that there are from one to another, in order.
    pane
        Returns a pane, each of its objects once.
    """

    def __init__(
        self, folds: Sequence[Fold], length: int, between: Callable[[int, int], Sequence[int]],
        pane: Callable[[int], Partial],
    ) -> None:  # fmt: skip
        self._folds, self._length, self._between, self._pane = folds, length, between, pane
        self._at: tuple[int, int] | None = None
        self._clear(0)

    def _clear(self, objects: int) -> None:
        self.rows, self.latest = np.zeros(objects, np.int64), np.full(objects, NEVER, np.int64)
        self._back = [fold.nothing(objects) for fold in self._folds]
        self._front = [() if fold.is_subtracted else fold.nothing(objects) for fold in self._folds]
        self._before: dict[int, list[Arrays]] = {}  # of each pane on the front stack: what its objects were before

    def touch(self, pane: int) -> None:
        """Note that a pane has changed."""
        if self._at is not None and self._at[0] <= pane < self._at[1]:
            self.reset()

    def reset(self) -> None:
        """Note that everything may have changed."""
        self._at = None

    def move(self, first: int, behind: int, objects: int) -> None:
        """Go on to the window of some panes; `objects` is how many there may be in it."""
        known = self._at
        if known is None or not known[0] <= first < known[1] <= behind or self._edge(first) != self._block_end:
            self._begin(first, behind, objects)
        else:
            if len(self.rows) < objects:
                self._grow(objects + objects // 2)
            self.leave(first)
            for number in self._between(known[1], behind):
                self._enter(self._pane(number), self._back)
        self._at = first, behind

    def leave(self, first: int) -> None:
        """Let what lies before a pane leave, before it is forgotten."""
        if self._at is None or first >= min(self._block_end, self._at[1]):
            self.reset()
            return
        for number in self._between(self._at[0], first):
            self._leave(number)
        self._at = first, self._at[1]

    def _edge(self, first: int) -> int:
        """Return where the block ends in which a window begins; where windows grow, all is on the back stack."""
        return first if self._length == 0 else (first // self._length + 1) * self._length

    def _begin(self, first: int, behind: int, objects: int) -> None:
        self._clear(objects)
        self._block_end = self._edge(first)
        for number in reversed(self._between(first, min(self._block_end, behind))):
            pane = self._pane(number)
            self._before[number] = [tuple(array[pane.objects] for array in arrays) for arrays in self._front]
            totals = [b if fold.is_subtracted else f for fold, f, b in self._stacks]
            self._enter(pane, totals)
        for number in self._between(max(first, self._block_end), behind):
            self._enter(self._pane(number), self._back)

    @property
    def _stacks(self) -> Any:
        return zip(self._folds, self._front, self._back, strict=True)

    def _enter(self, pane: Partial, stack: Sequence[Arrays]) -> None:
        self.rows[pane.objects] += pane.rows
        keep_largest(pane.objects, pane.latest, self.latest)
        for fold, more, into in zip(self._folds, pane.folds, stack, strict=True):
            fold.merge(pane.objects, more, into)

    def _leave(self, number: int) -> None:
        pane, before = self._pane(number), self._before.pop(number)
        take_off(pane.objects, pane.rows, self.rows)
        for (fold, front, back), less, was in zip(self._stacks, pane.folds, before, strict=True):
            if fold.is_subtracted:
                fold.take_off(pane.objects, less, back)
            for array, values in zip(front, was, strict=True):
                array[pane.objects] = values

    def _grow(self, objects: int) -> None:
        more = objects - len(self.rows)

        def longer(array: npt.NDArray[Any], nothing: Any) -> npt.NDArray[Any]:
            return np.concatenate([array, np.full(more, nothing, array.dtype)])

        self.rows, self.latest = longer(self.rows, 0), longer(self.latest, NEVER)
        for stack in (self._front, self._back):
            for place, fold in enumerate(self._folds):
                pairs = zip(stack[place], fold.measures, strict=False)  # what is subtracted has one stack
                stack[place] = tuple(longer(array, one.nothing) for array, one in pairs)

    def kept(self, objects: IntArray) -> dict[str, npt.NDArray[Any]]:
        """Return what is kept of objects in the window, by the names of measures."""
        found: dict[str, npt.NDArray[Any]] = {}
        every = np.arange(len(objects))
        for fold, front, back in self._stacks:
            values = tuple(array[objects] for array in front or back)
            if front:
                fold.merge(every, tuple(array[objects] for array in back), values)
            found |= dict(zip(fold.names, values, strict=True))
        return found
