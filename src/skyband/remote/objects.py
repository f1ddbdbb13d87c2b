"""Objects of a join: what the stream said of an id, what the remote side said, and the score of both.

Objects are columns, a row for each: a window may have a million of them. `FullWindow` keeps all objects of a window;
`skyband.remote.topkn` keeps those that matter to the best k, one by one, as they are few.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import QueryError
from skyband.order import BoolArray, FloatArray, IntArray, best_first, merit_of, value_ranks
from skyband.remote.services.base import Id, State, find_ids, id_array
from skyband.windows import WindowGrid

Ids = Iterable[Id] | npt.NDArray[Any]
"""Ids as they come: plain values, or a column of NumPy or Arrow."""
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


@dataclass(frozen=True)
class Arrivals:
    """Events of a stream: aligned columns, with the remote value of each as the replica knows it (NaN: none)."""

    id: pa.Array
    stream: FloatArray
    time: IntArray
    value: FloatArray
    remote: pa.Array

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
        names = id_array(ids)
        return Arrivals(
            names,
            np.asarray(stream, np.float64),
            np.asarray(time, np.int64),
            np.full(len(names), np.nan) if value is None else np.asarray(value, np.float64),
            names if remote is None else id_array(remote),
        )

    def __len__(self) -> int:
        return len(self.id)

    def __getitem__(self, rows: IntArray | BoolArray) -> Self:
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        return self._with(self, lambda column, _: column[rows], lambda ids, _: ids.take(pa.array(rows)))

    def __add__(self, more: Self) -> Self:
        if not len(self) or not len(more):  # one without rows may not know what ids are like
            return more if len(more) else self
        return self._with(more, lambda *both: np.concatenate(both), lambda *both: pa.concat_arrays(both))

    def _with(self, other: Self, numbers: Callable[..., Any], ids: Callable[..., pa.Array]) -> Self:
        """Make columns of these and those of another; an id that is its own remote id is made once."""
        own = self.remote is self.id and other.remote is other.id
        name = ids(self.id, other.id)
        made = {"id": name, "remote": name if own else ids(self.remote, other.remote)}
        both = ((key, column, getattr(other, key)) for key, column in self._columns().items())
        return type(self)(**{key: made[key] if key in made else numbers(mine, more) for key, mine, more in both})

    def _columns(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def latest(self) -> IntArray:
        """Return the rows that count: the latest of each id; of equal times, the one that came last."""
        names = self.id.dictionary_encode()
        if len(names.dictionary) == len(self):
            return np.arange(len(self))
        code = names.indices.to_numpy()
        rows = np.lexsort((self.time, code))
        last: IntArray = rows[np.append(code[rows][1:] != code[rows][:-1], True)]
        return last

    def changed(self, values: Mapping[Id, float]) -> Self:
        """Return the same rows with other remote values, by remote id."""
        found = find_ids(self.remote, values)
        fresh = np.fromiter(values.values(), np.float64, len(values)) if len(values) else np.empty(0)
        return replace(self, value=np.where(found >= 0, np.append(fresh, np.nan)[found], self.value))

    def replaces(self, others: Arrivals, order: str | None) -> BoolArray:
        """Return whether each row takes the place of another one of the same id, which came before.

        Of two objects at the same time the one that came last counts. Where an object is one event, the better one by
        the `order` of scores counts instead, then the larger remote id: so it does not matter in which order they come.
        """
        if order is None:
            return self.time >= others.time
        mine, theirs, same = merit_of(self.stream, order), merit_of(others.stream, order), self.time == others.time
        tied = np.flatnonzero(same & (mine == theirs))
        found: BoolArray = (self.time > others.time) | same & (mine > theirs)
        if len(tied):
            at = pa.array(tied)
            larger = pc.greater_equal(self.remote.take(at), others.remote.take(at))
            found[tied] = larger.to_numpy(zero_copy_only=False)
        return found

    def as_table(self) -> pa.Table:
        """Return the columns as a table, for snapshots."""
        return pa.table({name: pa.array(column) for name, column in self._columns().items()})

    @classmethod
    def from_table(cls, table: pa.Table) -> Self:
        """Make them again."""
        columns = {field.name: table[field.name].combine_chunks() for field in fields(cls)}
        if columns["remote"].equals(columns["id"]):
            columns["remote"] = columns["id"]
        return cls(**{name: column if name in _IDS else column.to_numpy() for name, column in columns.items()})


_IDS = ("id", "remote")


@dataclass(frozen=True)
class Objects(Arrivals):
    """Objects as columns: arrivals, the merit of each, and the last window that it is in."""

    merit: FloatArray
    end: IntArray

    @classmethod
    def none(cls) -> Objects:
        """Return no objects."""
        return cls.from_rows([])

    @classmethod
    def of_arrivals(cls, arrivals: Arrivals, merit: FloatArray, windows: WindowGrid) -> Objects:
        """Return arrivals as objects."""
        columns = {field.name: getattr(arrivals, field.name) for field in fields(Arrivals)}
        return cls(**columns, merit=merit, end=windows.last_of(arrivals.time))

    @classmethod
    def from_rows(cls, objects: Sequence[JoinedObject]) -> Objects:
        """Return objects as columns."""
        ids, remotes = ([getattr(one, name) for one in objects] for name in _IDS)
        stream, value, merit = (
            np.array([getattr(one, name) for one in objects], np.float64) for name in ("stream", "value", "merit")
        )
        time, end = (np.array([getattr(one, name) for one in objects], np.int64) for name in ("time", "end"))
        return cls(id_array(ids), stream, time, value, id_array(remotes), merit, end)

    def one_by_one(self) -> Iterator[JoinedObject]:
        """Yield the rows."""
        columns = (getattr(self, name) for name in ("stream", "time", "value", "merit", "end"))
        rows = zip(self.id.to_pylist(), self.remote.to_pylist(), *(column.tolist() for column in columns), strict=True)
        return (JoinedObject(*row) for row in rows)

    def best_first(self) -> IntArray:
        """Return the rows in the one total order; those without a merit come last, the latest first."""
        order = np.argsort(np.negative(self.merit))  # NaN comes last
        merit = self.merit[order]
        equal = (merit[1:] == merit[:-1]) | np.isnan(merit[:-1])
        if equal.any():  # only these are compared by more than their merit
            tied = np.append(False, equal) | np.append(equal, False)
            run, rows = np.cumsum(np.append(True, ~equal))[tied], order[tied]
            names = value_ranks(self.id.take(pa.array(rows)))
            order[tied] = rows[best_first(np.zeros(len(rows)), self.time[rows], names, run)]
        return order

    def best(self, k: int) -> IntArray:
        """Return the rows of the best k that have a merit, in order."""
        rows = np.flatnonzero(~np.isnan(self.merit))
        if len(rows) > 2 * k:
            merit = self.merit[rows]
            rows = rows[merit >= np.partition(merit, len(rows) - k)[len(rows) - k]]
        return rows[self[rows].best_first()][:k]


def upsert(kept: Objects, fresh: Objects, order: str | None) -> tuple[Objects, BoolArray]:
    """Put objects, one of each id, in the place of those of the same ids that they replace; return which do or are new.

    See `Arrivals.replaces`.
    """
    before = find_ids(fresh.id, kept.id)
    taken = before < 0
    known = np.flatnonzero(~taken)
    taken[known] = fresh[known].replaces(kept[before[known]], order)
    stays = np.ones(len(kept), bool)
    stays[before[known]] = ~taken[known]
    return (kept if stays.all() else kept[stays]) + (fresh if taken.all() else fresh[taken]), taken


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

    @abstractmethod
    def _drop_older(self, arrivals: Arrivals) -> None:
        """Drop the objects of the same ids that are not newer than these events."""

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

    def _scored(self, arrivals: Arrivals) -> Objects:
        return Objects.of_arrivals(arrivals, self._merits(arrivals.stream, arrivals.value), self.windows)

    def _merits(self, stream: FloatArray, value: FloatArray) -> FloatArray:
        """Return the joined scores, turned so that larger is better; NaN where there is no remote value."""
        return merit_of(np.asarray(self.score(stream, value), np.float64), self.order) if len(stream) else np.empty(0)

    @property
    @abstractmethod
    def kept(self) -> Objects:
        """All objects of the current window that are kept, in any order."""

    @abstractmethod
    def held(self) -> Objects:
        """Return the objects of the current window that may be refreshed, the best first."""

    @abstractmethod
    def listed(self, depth: int) -> Objects:
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
        self._kept = Objects.none()
        self._ranked = True  # until something changes

    @property
    def kept(self) -> Objects:
        """All objects of the current window, in any order."""
        return self._kept

    def _keep(self, objects: Objects) -> None:
        self._kept, self._ranked = objects, False

    def _take(self, arrivals: Arrivals) -> None:
        self._keep(upsert(self._kept, self._scored(arrivals), self.event_order)[0])

    def _drop_older(self, arrivals: Arrivals) -> None:
        before = find_ids(arrivals.id, self._kept.id)
        rows = np.flatnonzero(before >= 0)
        stays = np.ones(len(self._kept), bool)
        stays[before[rows[arrivals.time[rows] >= self._kept.time[before[rows]]]]] = False
        self._keep(self._kept[stays])

    def _change(self, values: dict[Id, float]) -> None:
        fresh = self._kept.changed(values)
        rows = np.flatnonzero(find_ids(fresh.remote, values) >= 0)
        if len(rows):
            merit = self._kept.merit.copy()
            merit[rows] = self._merits(fresh.stream[rows], fresh.value[rows])
            self._keep(replace(fresh, merit=merit))

    def held(self) -> Objects:
        """Return the objects of the current window, the best first; those without a remote value come last."""
        if not self._ranked:
            self._kept, self._ranked = self._kept[self._kept.best_first()], True
        return self._kept

    def listed(self, depth: int) -> Objects:
        """Return the objects that the Super-MTK+N list would hold, the best first.

        In the last window that has it, an object meets the fewest others: those that leave no earlier. So the list is
        what the best of each window make together.
        """
        held = self.held()
        known = int(np.count_nonzero(~np.isnan(held.merit)))
        ends, found = held.end[:known], np.zeros(known, bool)
        for end in np.unique(ends).tolist():
            length = 4 * depth
            rows = np.flatnonzero(ends[:length] >= end)[:depth]
            while len(rows) < depth and length < known:  # mostly the first of all objects have enough of them
                length *= 2
                rows = np.flatnonzero(ends[:length] >= end)[:depth]
            found[rows] = True
        return held[np.flatnonzero(found)]

    def best(self, k: int) -> list[JoinedObject]:
        """Return the best of the current window."""
        return list(self._kept[self._kept.best(k)].one_by_one())

    def _leave(self, window: int) -> None:
        stays = self._kept.end >= window
        if not stays.all():
            self._keep(self._kept[stays])

    def state(self) -> State:
        """Return everything as plain values and tables, detached from the live state."""
        meta, tables = super().state()
        return meta, {"objects": as_table(self._kept), **tables}

    def load(self, state: State) -> None:
        """Take over what `state` returned, with the same parameters as before."""
        super().load(state)
        self._keep(Objects.from_table(state[1]["objects"]))


def scores_of(merit: FloatArray, order: str) -> FloatArray:
    """Return the scores behind merits; 0.0, never -0.0."""
    return merit if order == "desc" else 0.0 - merit


def as_table(objects: Objects, start: Sequence[int] | None = None, bound: Sequence[bool] | None = None) -> pa.Table:
    """Return objects as a table, for snapshots, with their starting window marks, and which are lower bounds."""
    count, table = len(objects), objects.as_table()
    marks = {
        "start": pa.array(np.zeros(count, np.int64) if start is None else start, pa.int64()),
        "bound": pa.array(np.zeros(count, bool) if bound is None else bound, pa.bool_()),
    }
    return pa.table({name: table[name] for name in table.column_names} | marks)


def is_number(value: float) -> bool:
    """Tell whether a remote value can be joined."""
    return not math.isnan(value)
