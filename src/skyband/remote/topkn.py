"""Topk+N (MinTopk+): the best k of a stream joined with remote values that change, as the changes are pushed.

Paper → code (AcquaTop):

- section 4.3, the Super-MTK+N list, its marks and LBP → `TopkN`, `TopkN.pointers`
- algorithm 1, lines 5-6 and 9-13 → `TopkN.arrive`, `TopkN.change`, `TopkN.best`, `TopkN.go_to`
- algorithm 2, PurgeExpiredWindow → `TopkN._leave`, `TopkN._purge`
- algorithm 3, UpdateMTKN, lines 2-4, min.score_S → `TopkN._note`
- algorithm 3, lines 5-7, Replace and RefreshLBP → `TopkN._replace`, `TopkN._lay_out`
- algorithm 3, lines 10-11, a changed object outside of the list → `TopkN._change_outside`, `TopkN._least`
- algorithm 3, InsertInToMTKN, lines 18-26 → `TopkN._insert`, `TopkN._first_room`
- algorithm 3, UpdateChangedObjects, lines 29-31 → `TopkN._change`
- algorithm 4, UpdateLBP → `TopkN._enter`, `TopkN._above`

Choose it where the remote side pushes its changes; `skyband.remote.acquatop` uses it where refreshes find them. It is
driven window by window and is no algorithm of the `Monitor`: scores that change are beyond that interface.

Guarantees: keeps the k + n best of each coming window, about 2 (k + n) objects, whatever comes. While no score
changes, exact. After changes as Table 1 of the paper says: exact where the changed object was in the list of a window
and stays in it, or was outside and stays so; exact for up to n changes where it leaves the list; where it comes
from outside, its score is a lower bound, so that if it enters the best k, the set is right and only the order may not
be. `exact` says what is proven. An arrival costs a bisection over the windows and one over the list; a change costs
one walk over the list.

Invariant: the list of a window is the k + n best of the objects that live in it, of those that are kept. An object
has a starting and an ending window mark: it is in the lists of all windows from one to the other. Each full
window has a pointer to the last of its list.

Examples
--------
>>> import numpy as np
>>> from skyband.windows import WindowGrid
>>> top = TopkN(k=1, n=2, windows=WindowGrid(9, 3), score=np.add)
>>> top.go_to(0)                                                 # [0, 9)
>>> top.arrive(Arrivals.of(["C", "E", "F"], [6, 7, 5], [4, 7, 8], [0, 0, 0]))
>>> [one.id for one in top.best(1)]
['E']
>>> top.change({"F": 4.0})                                       # pushed by the remote side
>>> [(one.id, one.merit, one.start, one.end) for one in top.list]
[('F', 9.0, 0, 2), ('E', 7.0, 0, 2), ('C', 6.0, 0, 1)]

Notes
-----
Zahmatkesh and Della Valle, AcquaTop, sections 3.1 and 4, algorithms 1 to 4. Deviations: `min.score_S` is kept for each
group of objects that leave together, not reset with each window - an object may be older than the window before, and
then a minimum that was reset is no lower bound. Of an object that leaves a list, room is filled again with objects
that only later windows had. Events that belong only to later windows wait until these are next.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from skyband.errors import QueryError
from skyband.order import NEVER
from skyband.remote.objects import Arrivals, JoinedObject, Objects, ObjectStore, Rank, as_table, is_number, upsert
from skyband.remote.services.base import Id, State, find_ids, id_list

Outside = Literal["bound", "ignore"]
_NOTHING: Rank = (math.inf, 0, 0)


class TopkN(ObjectStore):
    """The Super-MTK+N list: `k` objects for an answer, and `n` more per window, for changes.

    Of changed objects that are not in the list: ``outside="bound"`` remembers which ids are in the window, and gives
    them the least score that they can have; ``"ignore"`` needs no memory for them. For the `options`, see
    `skyband.remote.objects.ObjectStore`.
    """

    whole = False

    def __init__(self, *, k: int, n: int, outside: Outside = "bound", **options: Any) -> None:
        if k < 1 or n < 0:
            msg = f"k is {k} and n is {n}; an answer has at least one row: give k >= 1 and n >= 0"
            raise QueryError(msg)
        super().__init__(**options)
        self.k, self.depth, self.outside = k, k + n, outside
        self.ignored = 0
        self.list: list[JoinedObject] = []
        self._ranks: list[Rank] = []  # of the list: what bisect looks at
        self._members: dict[int, int] = {}  # of each window
        self._last: dict[int, JoinedObject] = {}  # the lower-bound pointers of the full windows
        self._lost: dict[int, Rank] = {}  # the best that each window has not kept
        self._range: dict[int, tuple[float, float]] = {}  # of stream scores, by ending mark: min.score_S and its peer
        self._by_id: dict[Id, JoinedObject] = {}  # of the list
        self._seen = Objects.none()  # all of the window, without what is said of their scores
        self._doubtful_to = NEVER

    # Arrivals.

    def _drop_older(self, arrivals: Arrivals) -> None:
        kept = self._by_id
        pairs = zip(id_list(arrivals.id), arrivals.time.tolist(), strict=True)
        if gone := {name for name, time in pairs if name in kept and time >= kept[name].time}:
            self._lay_out([one for one in self.list if one.id not in gone])

    def _note(self, arrived: Objects) -> None:
        """Remember what is needed to bound the scores of objects that are not kept."""
        if self.outside == "ignore":
            return
        self._seen = upsert(self._seen, arrived, None)[0]
        for end in np.unique(arrived.end).tolist():
            stream = arrived.stream[arrived.end == end]
            low, high = self._range.get(end, (math.inf, -math.inf))
            self._range[end] = min(low, float(stream.min())), max(high, float(stream.max()))

    def _take(self, arrivals: Arrivals) -> None:
        """Replace the objects that are in the list already, then insert the others, the best first."""
        arrived = self._scored(arrivals)
        self._note(arrived)
        listed = self.kept
        place = find_ids(arrived.id, listed.id)
        old = np.flatnonzero(place >= 0)
        known = arrived[old]
        self._replace(known[known.replaces(listed[place[old]], self.event_order)].one_by_one())
        lacking = np.isnan(arrived.merit)
        self._miss(arrived.end[lacking & ~np.isnan(arrived.value)].tolist())
        rest = arrived[(place < 0) & ~lacking]
        for end in np.unique(rest.end).tolist():
            group = rest[rest.end == end]
            for one in group[group.best(self.depth + 1)].one_by_one():  # one more, to know what is lost
                if not self._insert(one):
                    break  # the windows that this one lives in have no room for worse ones either

    def _insert(self, one: JoinedObject) -> bool:
        """Put an object into the lists of the windows that have room or something worse; return whether any had."""
        assert self.current is not None
        one.start = self._first_room(one)
        for window in range(self.current, min(one.start, one.end + 1)):
            self._lost[window] = min(self._lost.get(window, _NOTHING), one.rank)
        if one.start > one.end:
            return False
        place = bisect_left(self._ranks, one.rank)
        self.list.insert(place, one)
        self._ranks.insert(place, one.rank)
        self._by_id[one.id] = one
        for window in range(one.start, one.end + 1):
            self._enter(window)
        return True

    def _first_room(self, one: JoinedObject) -> int:
        """Return the first window that would have an object: where one would, all later ones would too."""
        assert self.current is not None
        low, high = self.current, one.end + 1
        while low < high:
            middle = (low + high) // 2
            last = self._last.get(middle)
            if last is None or one.rank < last.rank:
                high = middle
            else:
                low = middle + 1
        return low

    def _enter(self, window: int) -> None:
        """Count an object that has entered a window's list, or push its last one out."""
        if window not in self._last:
            self._members[window] = self._members.get(window, 0) + 1
            if self._members[window] == self.depth:
                self._last[window] = self._above(window, len(self.list))
            return
        last = self._last[window]
        place = bisect_left(self._ranks, last.rank)
        self._last[window] = self._above(window, place)
        self._lost[window] = min(self._lost.get(window, _NOTHING), last.rank)
        last.start = window + 1
        if last.start > last.end:
            del self._by_id[last.id], self.list[place], self._ranks[place]

    def _above(self, window: int, place: int) -> JoinedObject:
        """Return the nearest object above a place that is in a window's list."""
        while True:
            place -= 1
            if self.list[place].start <= window <= self.list[place].end:
                return self.list[place]

    # Changes.

    def _change(self, values: dict[Id, float]) -> None:
        changed = [one for one in self.list if one.remote in values]
        value = np.array([values[one.remote] for one in changed], np.float64)
        merits = self._merits(np.array([one.stream for one in changed], np.float64), value).tolist()
        fresh = [
            replace(one, value=values[one.remote], merit=merit, start=0)
            for one, merit in zip(changed, merits, strict=True)
        ]
        self._miss([one.end for one in fresh if not is_number(one.merit)])
        self._replace(fresh)
        if self.outside == "bound":
            self._change_outside(values, {one.id for one in changed})
        elif unknown := values.keys() - {one.remote for one in changed}:
            self.ignored += len(unknown)
            if self.current is not None:
                self._doubtful_to = max(self._doubtful_to, *self._members, self.current)

    def _change_outside(self, values: dict[Id, float], done: set[Id]) -> None:
        """Insert changed objects from outside of the list, which are not `done`, with the least score they can have."""
        changed = self._seen.changed(values)
        for one in changed[np.flatnonzero(find_ids(changed.remote, values) >= 0)].one_by_one():
            if one.id in done or one.id in self._by_id or self.current is None or one.end < self.current:
                continue
            self._doubtful_to = max(self._doubtful_to, one.end)
            if is_number(one.value):
                one.stream, one.merit = self._least(one.end, one.value)
                one.bound = True
                self._insert(one)

    def _least(self, end: int, value: float) -> tuple[float, float]:
        """Return the worst stream score among objects that leave with a window, and the merit that it makes.

        A score may rise or fall with the stream's part; either way its worst is at one end of the range.
        """
        low_high = np.array(self._range[end])
        both = self._merits(low_high, np.full(2, value))
        worst = int(both.argmin())
        return float(low_high[worst]), float(both[worst])

    def _replace(self, fresh: Iterable[JoinedObject]) -> None:
        """Put objects in the place of their old versions, and lay out the lists of all windows anew."""
        new = {one.id: one for one in fresh}
        if not new:
            return
        kept = [one for one in self.list if one.id not in new]
        self._lay_out(kept + [one for one in new.values() if is_number(one.merit)])

    def _miss(self, ends: list[int]) -> None:
        """Note that objects of some windows are not kept because they have no score, which may change."""
        if ends and self.current is not None:
            for window in range(self.current, max(ends) + 1):
                self._lost.setdefault(window, _NOTHING)

    def _lay_out(self, objects: list[JoinedObject]) -> None:
        """Make the list, the marks and the pointers: each window takes the k + n best that live in it."""
        assert self.current is not None
        self.list, self._members, self._last = [], {}, {}
        start = self.current  # the windows before it are full; they fill in order, since objects leave in order
        for one in sorted(objects, key=lambda one: one.rank):
            for window in range(self.current, min(start, one.end + 1)):
                self._lost[window] = min(self._lost.get(window, _NOTHING), one.rank)
            if start > one.end:
                continue
            one.start = start
            self.list.append(one)
            for window in range(start, one.end + 1):
                self._members[window] = self._members.get(window, 0) + 1
                if self._members[window] == self.depth:
                    self._last[window], start = one, window + 1
        self._ranks = [one.rank for one in self.list]
        self._by_id = {one.id: one for one in self.list}

    # Answers.

    def best(self, k: int | None = None) -> list[JoinedObject]:
        """Return the best of the current window."""
        return [] if self.current is None else self.lists(self.current)[0][:k]

    def lists(self, window: int) -> tuple[list[JoinedObject], list[JoinedObject]]:
        """Return the K-list and the N-list of a window, as they are expected to be."""
        both = [one for one in self.list if one.start <= window <= one.end]
        return both[: self.k], both[self.k :]

    @property
    def kept(self) -> Objects:
        """All objects of the list, the best first."""
        return Objects.from_rows(self.list)

    def held(self) -> Objects:
        """Return all objects of the list, the best first."""
        return self.kept

    def listed(self, depth: int) -> Objects:  # noqa: ARG002 - the list is as deep as it is
        """Return all objects of the list, the best first."""
        return self.held()

    def pointers(self) -> dict[int, Id]:
        """Return the lower-bound pointers: the last object of each window whose list is full."""
        return {window: one.id for window, one in sorted(self._last.items())}

    @property
    def exact(self) -> bool:
        """Whether the answer of the current window is proven: nothing that it did not keep can be better."""
        if self.current is None:
            return True
        best, lost = self.best(), self._lost.get(self.current, _NOTHING)
        last = best[-1].rank if len(best) == self.k else _NOTHING
        return self.current > self._doubtful_to and last <= lost and not any(one.bound for one in best)

    @property
    def complete(self) -> bool:
        """Whether all objects of the current window that have a remote value are in the list."""
        return self.current not in self._lost

    # Time.

    def _leave(self, window: int) -> None:
        """Purge the windows before this one (PurgeExpiredWindow)."""
        if self.current is None or window == self.current:
            return
        for past in range(self.current, window):
            self._purge(past)
        self._seen = self._seen[self._seen.end >= window]
        self.list = [one for one in self.list if one.end >= window]
        for one in self.list:
            one.start = max(one.start, window)
        self._ranks = [one.rank for one in self.list]
        self._by_id = {one.id: one for one in self.list}

    def _purge(self, window: int) -> None:
        for of_windows in (self._members, self._last, self._lost, self._range):
            of_windows.pop(window, None)

    # Looking inside, and snapshots.

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold (for tests)."""
        assert self._ranks == sorted(self._ranks) == [one.rank for one in self.list]
        assert self._by_id == {one.id: one for one in self.list}
        if self.current is None:
            return
        for window in range(self.current, max([self.current, *(one.end for one in self.list)]) + 1):
            alive = [one for one in self.list if one.end >= window][: self.depth]
            assert [*self.lists(window)[0], *self.lists(window)[1]] == alive
            assert self._members.get(window, 0) == len(alive)
            assert (window in self._last) == (len(alive) == self.depth)
            assert window not in self._last or self._last[window] is alive[-1]

    def state(self) -> State:
        """Return everything as plain values and tables, detached from the live state."""
        meta, tables = super().state()
        meta |= {
            "counts": [self.late, self.rejected, self.ignored], "doubtful_to": self._doubtful_to,
            "lost": [[window, *rank] for window, rank in self._lost.items()],
            "range": [[end, *both] for end, both in self._range.items()],
        }  # fmt: skip
        marks = ([getattr(one, name) for one in self.list] for name in ("start", "bound"))
        tables["list"] = as_table(self.kept, *marks)
        tables["seen"] = self._seen.as_table().select(["remote", "id", "time"])
        return meta, tables

    def load(self, state: State) -> None:
        """Take over what `state` returned, with the same parameters as before."""
        meta, tables = state
        super().load(state)
        self._doubtful_to, self.ignored = meta["doubtful_to"], meta["counts"][-1]
        self._lost = {window: tuple(rank) for window, *rank in meta["lost"]}
        self._range = {end: tuple(both) for end, *both in meta["range"]}
        remote, name, time = (tables["seen"][name].combine_chunks() for name in ("remote", "id", "time"))
        lacking = np.full(len(time), np.nan)
        self._seen = Objects.of_arrivals(Arrivals.of(name, lacking, time, remote=remote), lacking, self.windows)
        if self.current is not None:
            self._lay_out([JoinedObject(**row) for row in tables["list"].to_pylist()])
