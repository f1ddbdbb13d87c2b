"""All objects of the window, each with its latest event: for policies that want to refresh any of them, and for sets.

It has the face of the Super-MTK+N list (`skyband.remote.topkn`) and keeps everything: exact as far as remote values
are known, at the price of the whole window.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.errors import QueryError
from skyband.remote.objects import (
    Arrivals,
    JoinedObject,
    Score,
    as_objects,
    as_table,
    best_first_of,
    is_number,
    merits,
)
from skyband.remote.services.base import Id
from skyband.windows import WindowGrid


class FullWindow:
    """The objects of the coming windows.

    Parameters
    ----------
    size, slide, offset
        Of the windows.
    score
        The joined score of the stream's score and the remote value, as columns.
    order
        ``"desc"``: larger scores are better; ``"asc"``: smaller ones.
    one_event
        Whether each object is one event of its id, so that of two events at the same time the better one counts, and
        not what an id has come to by now, where the last word counts.

    Examples
    --------
    >>> window = FullWindow(size=10, slide=5, score=np.add)
    >>> window.go_to(0)
    >>> window.arrive(Arrivals.of(["a", "b"], [1, 2], [3, 7], [5, 0]))
    >>> [(one.id, one.merit) for one in window.best(2)]
    [('a', 6.0), ('b', 2.0)]
    >>> window.go_to(1)                                          # [5, 15): "a" has left
    >>> [one.id for one in window.best(2)]
    ['b']
    """

    def __init__(
        self,
        *,
        size: int,
        slide: int,
        score: Score,
        offset: int = 0,
        order: str = "desc",
        one_event: bool = False,
    ) -> None:
        self.windows = WindowGrid(size, slide, offset)
        self.complete = self.whole = True
        self.score, self.order, self.event_order = score, order, order if one_event else None
        self.current: int | None = None
        self.late = self.rejected = 0
        self._objects: dict[Id, JoinedObject] = {}
        self._of: dict[Id, set[Id]] = {}  # by remote id
        self._leaving: dict[int, list[Id]] = {}
        self._ahead: list[Arrivals] = []
        self._ranked: list[JoinedObject] | None = None  # until something changes

    def arrive(self, arrivals: Arrivals) -> None:
        """Take in events; of each id the latest counts. One without a score takes away what its id was before."""
        good = ~np.isnan(arrivals.stream)
        self.rejected += int((~good).sum())
        for row in np.flatnonzero(~good).tolist():
            before = self._objects.get(arrivals.id[row])
            if before is not None and arrivals.time[row] >= before.time:
                self._drop(before.id)
                self._ranked = None
        if not good.any():
            return
        if self.current is None:
            self.current = self.windows.first_of(int(arrivals.time[good].min()))
        late = good & (self.windows.last_of(arrivals.time) < self.current)
        ahead = good & (self.windows.first_of(arrivals.time) > self.current)
        self.late += int(late.sum())
        if ahead.any():  # they would take the place of events that are in the current window
            self._ahead.append(arrivals[np.flatnonzero(ahead)])
        now = arrivals[np.flatnonzero(good & ~late & ~ahead)]
        now = now[now.latest()]
        merit = now.joined(self.score, self.order)
        self._ranked = None
        for one in now.objects(merit, self.windows):
            if one.id not in self._objects or one.replaces(self._objects[one.id], self.event_order):
                self._put(one)

    def _put(self, one: JoinedObject) -> None:
        self._drop(one.id)
        self._objects[one.id] = one
        self._of.setdefault(one.remote, set()).add(one.id)
        self._leaving.setdefault(one.end, []).append(one.id)

    def _drop(self, name: Id) -> None:
        one = self._objects.pop(name, None)
        if one is not None:
            self._of[one.remote].discard(name)
            if not self._of[one.remote]:
                del self._of[one.remote]

    def change(self, values: dict[Id, float]) -> None:
        """Take in changed remote values, by remote id; NaN where there is none."""
        self._ahead = [arrivals.changed(values) for arrivals in self._ahead]
        changed = [self._objects[name] for remote in values for name in self._of.get(remote, ())]
        stream = np.array([one.stream for one in changed], np.float64)
        value = np.array([values[one.remote] for one in changed], np.float64)
        fresh = merits(self.score, self.order, stream, value)
        self._ranked = None if changed else self._ranked
        for one, new, merit in zip(changed, value.tolist(), fresh.tolist(), strict=True):
            one.value, one.merit = new, merit

    def held(self) -> list[JoinedObject]:
        """Return the objects of the current window, the best first; those without a remote value come last."""
        if self._ranked is None:
            self._ranked = best_first_of(list(self._objects.values()))
        return self._ranked

    def listed(self, depth: int) -> list[JoinedObject]:
        """Return the objects that the Super-MTK+N list would hold, the best first.

        In the last window that has it, an object meets the fewest others: those that leave no earlier.
        """
        found: list[JoinedObject] = []
        ends: list[int] = []
        for one in self.held():
            if is_number(one.merit) and len(ends) - bisect_left(ends, one.end) < depth:
                found.append(one)
                insort(ends, one.end)
        return found

    def best(self, k: int) -> list[JoinedObject]:
        """Return the best of the current window."""
        return [one for one in self.held()[:k] if is_number(one.merit)]

    def go_to(self, window: int) -> None:
        """Leave the windows before this one behind, and take in what waited for it."""
        if self.current is not None and window < self.current:
            msg = f"window {window} has passed: window {self.current} is next; windows are answered in order"
            raise QueryError(msg)
        for end in [end for end in self._leaving if end < window]:
            for name in self._leaving.pop(end):
                if name in self._objects and self._objects[name].end < window:
                    self._drop(name)
        self.current, self._ranked = window, None
        waiting, self._ahead = self._ahead, []
        for arrivals in waiting:
            self.arrive(arrivals)

    def state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        """Return everything as plain values and tables, detached from the live state."""
        ahead = [part.as_table() for part in self._ahead]
        tables = {"objects": as_table(list(self._objects.values()))}
        if ahead:
            tables["ahead"] = pa.concat_tables(ahead)
        return {"current": self.current, "counts": [self.late, self.rejected]}, tables

    def load(self, state: tuple[dict[str, Any], dict[str, pa.Table]]) -> None:
        """Take over what `state` returned, with the same parameters as before."""
        meta, tables = state
        self.current, (self.late, self.rejected) = meta["current"], meta["counts"]
        for one in as_objects(tables["objects"]):
            self._put(one)
        if "ahead" in tables:
            self._ahead = [Arrivals.from_table(tables["ahead"])]
