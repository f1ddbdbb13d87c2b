"""Objects of a join: what the stream said of an id, what the remote side said, and the score of both.

`FullWindow` keeps all objects of a window; `skyband.remote.topkn` keeps those that matter to the best k.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.errors import QueryError
from skyband.order import FloatArray, IntArray, best_first, merit_of
from skyband.remote.services.base import Id, State
from skyband.windows import WindowGrid

Ids = Iterable[Id] | npt.NDArray[Any]
Rank = tuple[float, int, Id]
"""Where an object stands in the one total order; smaller is better."""
Score = Callable[[FloatArray, FloatArray], FloatArray]
"""The joined score of the stream's score and the remote value, as columns; monotone in both."""


@dataclass(slots=True)
class JoinedObject:
    """One object: the latest event of an id, joined with the remote value that is known.

    `start` and `end` number the first and the last window in which it is expected in the answer; `bound` says that
    `stream` is only the least that it can be.
    """

    id: Id
    remote: Id
    stream: float
    time: int
    value: float
    merit: float
    end: int
    start: int = 0
    bound: bool = False

    @property
    def rank(self) -> Rank:
        """The place in the total order: better score, then the later event, then the smaller id."""
        return -self.merit, -self.time, self.id

    def replaces(self, other: JoinedObject, order: str | None) -> bool:
        """Tell whether this takes the place of another object of the same id, which came before.

        Of two objects at the same time the one that came last counts. Where an object is one event, the better one by
        the `order` of scores counts instead, so that it does not matter in which order they come.
        """
        if order is None:
            return self.time >= other.time
        sign = 1 if order == "desc" else -1
        mine, theirs = ((one.time, sign * one.stream, one.remote) for one in (self, other))
        return mine >= theirs


@dataclass(frozen=True)
class Arrivals:
    """Events of a stream: aligned columns, with the remote value of each as the replica knows it (NaN: none)."""

    id: Sequence[Id]
    stream: FloatArray
    time: IntArray
    value: FloatArray
    remote: Sequence[Id]

    @classmethod
    def of(
        cls,
        ids: Ids,
        stream: npt.ArrayLike,
        time: npt.ArrayLike,
        value: npt.ArrayLike | None = None,
        remote: Ids | None = None,
    ) -> Arrivals:
        """Make columns of whatever is given; an object is its own remote id where no other is named."""
        names = _plain(ids)
        return cls(
            names,
            np.asarray(stream, np.float64),
            np.asarray(time, np.int64),
            np.full(len(names), np.nan) if value is None else np.asarray(value, np.float64),
            names if remote is None else _plain(remote),
        )

    def __len__(self) -> int:
        return len(self.id)

    def __getitem__(self, rows: IntArray) -> Arrivals:
        places = rows.tolist()
        ids = [self.id[place] for place in places]
        remote = ids if self.remote is self.id else [self.remote[place] for place in places]
        return Arrivals(ids, self.stream[rows], self.time[rows], self.value[rows], remote)

    def latest(self) -> IntArray:
        """Return the rows that count: the latest of each id; of equal times, the one that came last."""
        last: dict[Id, int] = {}
        times = self.time.tolist()
        for row, name in enumerate(self.id):
            if name not in last or times[row] >= times[last[name]]:
                last[name] = row
        return np.fromiter(last.values(), np.int64, len(last))

    def changed(self, values: dict[Id, float]) -> Arrivals:
        """Return the same events with other remote values, by remote id."""
        value = [values.get(remote, old) for remote, old in zip(self.remote, self.value.tolist(), strict=True)]
        return replace(self, value=np.array(value, np.float64))

    def objects(self, merit: FloatArray, windows: WindowGrid, rows: IntArray | None = None) -> Iterator[JoinedObject]:
        """Yield rows as objects."""
        ends = windows.last_of(self.time)
        for row in range(len(self)) if rows is None else rows.tolist():
            stream, time, value = float(self.stream[row]), int(self.time[row]), float(self.value[row])
            yield JoinedObject(self.id[row], self.remote[row], stream, time, value, float(merit[row]), int(ends[row]))

    def as_table(self) -> pa.Table:
        """Return the columns as a table, for snapshots."""
        return pa.table({field.name: pa.array(getattr(self, field.name)) for field in fields(self)})

    @classmethod
    def from_table(cls, table: pa.Table) -> Arrivals:
        """Make them again."""
        columns = table.to_pydict()
        return cls.of(*(columns[field.name] for field in fields(cls)))


class ObjectStore(ABC):
    """Where the objects of the coming windows are kept: all of them, or those that matter.

    Larger scores are better with the order ``"desc"``, smaller ones with ``"asc"``. With `one_event` each object is one
    event of its id; see `JoinedObject.replaces`.
    """

    whole: ClassVar[bool]  # whether all objects of the windows are kept, also those without a remote value

    def __init__(self, *, windows: WindowGrid, score: Score, order: str = "desc", one_event: bool = False) -> None:
        self.windows = windows
        self.score, self.order, self.event_order = score, order, order if one_event else None
        self.current: int | None = None
        self.late = self.rejected = 0
        self._by_id: dict[Id, JoinedObject] = {}  # what is kept
        self._ahead: list[Arrivals] = []  # events of later windows only, which would replace those of the current one

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether no object of the current window that has a remote value was left out."""

    def arrive(self, arrivals: Arrivals) -> None:
        """Take in events; of each id the latest counts. One without a score takes away what its id was before."""
        good = ~np.isnan(arrivals.stream)
        if not good.all():
            self.rejected += int((~good).sum())
            self._drop_older(arrivals[np.flatnonzero(~good)])
            arrivals = arrivals[np.flatnonzero(good)]
        if not len(arrivals):
            return
        if self.current is None:
            self.current = self.windows.first_of(int(arrivals.time.min()))
        late = self.windows.last_of(arrivals.time) < self.current
        ahead = self.windows.first_of(arrivals.time) > self.current
        self.late += int(late.sum())
        if ahead.any():
            self._ahead.append(arrivals[np.flatnonzero(ahead)])
        now = arrivals[np.flatnonzero(~late & ~ahead)]
        self._take(now[now.latest()])

    def _drop_older(self, arrivals: Arrivals) -> None:
        """Drop the objects of the same ids that are not newer than these events."""
        kept = self._by_id
        pairs = zip(arrivals.id, arrivals.time.tolist(), strict=True)
        if gone := {name for name, time in pairs if name in kept and time >= kept[name].time}:
            self._drop(gone)

    @abstractmethod
    def _drop(self, names: Collection[Id]) -> None:
        """Drop objects that are kept."""

    @abstractmethod
    def _take(self, arrivals: Arrivals) -> None:
        """Take in events of the current window, one of each id."""

    def change(self, values: dict[Id, float]) -> None:
        """Take in changed remote values, by remote id, as new arrivals with new scores; NaN: there is none any more."""
        self._ahead = [arrivals.changed(values) for arrivals in self._ahead]
        self._change(values)

    @abstractmethod
    def _change(self, values: dict[Id, float]) -> None:
        """Take in changed remote values of the objects that are kept."""

    def _merits(self, stream: FloatArray, value: FloatArray) -> FloatArray:
        """Return the joined scores, turned so that larger is better; NaN where there is no remote value."""
        return merit_of(np.asarray(self.score(stream, value), np.float64), self.order) if len(stream) else np.empty(0)

    def _rescored(self, objects: Sequence[JoinedObject], values: dict[Id, float]) -> list[tuple[float, float]]:
        """Return the new remote value of each object, and its new merit."""
        stream = np.array([one.stream for one in objects], np.float64)
        value = np.array([values[one.remote] for one in objects], np.float64)
        return list(zip(value.tolist(), self._merits(stream, value).tolist(), strict=True))

    @abstractmethod
    def held(self) -> list[JoinedObject]:
        """Return the objects of the current window that may be refreshed, the best first."""

    @abstractmethod
    def listed(self, depth: int) -> list[JoinedObject]:
        """Return those in the Super-MTK+N list: the best of the current window and of each later one, so many."""

    @abstractmethod
    def best(self, k: int) -> list[JoinedObject]:
        """Return the best k of the current window."""

    def go_to(self, window: int) -> None:
        """Leave the windows before this one behind, and take in what waited for it."""
        if self.current is not None and window < self.current:
            msg = f"window {window} has passed: window {self.current} is next; windows are answered in order"
            raise QueryError(msg)
        self._leave(window)
        self.current = window
        waiting, self._ahead = self._ahead, []
        for arrivals in waiting:
            self.arrive(arrivals)

    @abstractmethod
    def _leave(self, window: int) -> None:
        """Drop what only windows before this one have."""

    def state(self) -> State:
        """Return everything as plain values and tables, detached from the live state."""
        tables = {"ahead": pa.concat_tables([part.as_table() for part in self._ahead])} if self._ahead else {}
        return {"current": self.current, "counts": [self.late, self.rejected]}, tables

    def load(self, state: State) -> None:
        """Take over what `state` returned, with the same parameters as before."""
        meta, tables = state
        self.current, (self.late, self.rejected, *_) = meta["current"], meta["counts"]
        self._ahead = [Arrivals.from_table(tables["ahead"])] if "ahead" in tables else []


class FullWindow(ObjectStore):
    """All objects of the coming windows, each with its latest event: for sets, and policies that refresh any of them.

    It has the interface of the Super-MTK+N list (`skyband.remote.topkn`) and keeps everything: exact as far as remote
    values are known, at the price of the whole window.

    Examples
    --------
    >>> window = FullWindow(windows=WindowGrid(10, 5), score=np.add)
    >>> window.go_to(0)
    >>> window.arrive(Arrivals.of(["a", "b"], [1, 2], [3, 7], [5, 0]))
    >>> [(one.id, one.merit) for one in window.best(2)]
    [('a', 6.0), ('b', 2.0)]
    >>> window.go_to(1)                                          # [5, 15): "a" has left
    >>> [one.id for one in window.best(2)]
    ['b']
    """

    whole = True
    complete = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._of: dict[Id, set[Id]] = {}  # by remote id
        self._leaving: dict[int, list[Id]] = {}
        self._ranked: list[JoinedObject] | None = None  # until something changes

    def _take(self, arrivals: Arrivals) -> None:
        merit = self._merits(arrivals.stream, arrivals.value)
        self._ranked = None
        for one in arrivals.objects(merit, self.windows):
            before = self._by_id.get(one.id)
            if before is None or one.replaces(before, self.event_order):
                self._put(one)

    def _put(self, one: JoinedObject) -> None:
        if one.id in self._by_id:
            self._drop((one.id,))
        self._by_id[one.id] = one
        self._of.setdefault(one.remote, set()).add(one.id)
        self._leaving.setdefault(one.end, []).append(one.id)

    def _drop(self, names: Collection[Id]) -> None:
        self._ranked = None
        for name in names:
            remote = self._by_id.pop(name).remote
            self._of[remote].discard(name)
            if not self._of[remote]:
                del self._of[remote]

    def _change(self, values: dict[Id, float]) -> None:
        changed = [self._by_id[name] for remote in values for name in self._of.get(remote, ())]
        self._ranked = None if changed else self._ranked
        for one, fresh in zip(changed, self._rescored(changed, values), strict=True):
            one.value, one.merit = fresh

    def held(self) -> list[JoinedObject]:
        """Return the objects of the current window, the best first; those without a remote value come last."""
        if self._ranked is None:
            self._ranked = _best_first(list(self._by_id.values()))
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

    def _leave(self, window: int) -> None:
        for end in [end for end in self._leaving if end < window]:
            self._drop(
                {name for name in self._leaving.pop(end) if name in self._by_id and self._by_id[name].end < window}
            )

    def state(self) -> State:
        """Return everything as plain values and tables, detached from the live state."""
        meta, tables = super().state()
        return meta, {"objects": as_table(list(self._by_id.values())), **tables}

    def load(self, state: State) -> None:
        """Take over what `state` returned, with the same parameters as before."""
        super().load(state)
        for one in as_objects(state[1]["objects"]):
            self._put(one)


def _plain(ids: Ids) -> list[Id]:
    """Return ids as plain Python values, which every service and every index understands."""
    return ids.tolist() if isinstance(ids, np.ndarray) else list(ids)


def score_of(merit: float, order: str) -> float:
    """Return the score behind a merit; 0.0, never -0.0."""
    return merit if order == "desc" else 0.0 - merit


def _best_first(objects: Sequence[JoinedObject]) -> list[JoinedObject]:
    """Return objects in the one total order; those without a merit come last, the latest first."""
    merit = np.array([one.merit for one in objects], np.float64)
    time = np.array([one.time for one in objects], np.int64)
    _, key = np.unique(np.array([one.id for one in objects]), return_inverse=True)
    lacking = np.isnan(merit)
    return [objects[row] for row in best_first(np.where(lacking, 0.0, merit), time, key, lacking).tolist()]


def as_table(objects: Sequence[JoinedObject]) -> pa.Table:
    """Return objects as a table, for snapshots."""
    names = [field.name for field in fields(JoinedObject)]
    return pa.table({name: pa.array([getattr(one, name) for one in objects], _KINDS.get(name)) for name in names})


_KINDS = {
    "stream": pa.float64(), "time": pa.int64(), "value": pa.float64(), "merit": pa.float64(),
    "end": pa.int64(), "start": pa.int64(), "bound": pa.bool_(),
}  # fmt: skip


def as_objects(table: pa.Table) -> list[JoinedObject]:
    """Return the objects of a table."""
    return [JoinedObject(**row) for row in table.to_pylist()]


def is_number(value: float) -> bool:
    """Tell whether a remote value can be joined."""
    return not math.isnan(value)
