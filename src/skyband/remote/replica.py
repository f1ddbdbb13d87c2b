"""The replica: what is known here of the remote data, and how long ago it was learnt.

Per id it holds the value, when it was last refreshed, how often it was looked at and how often it had changed then.
From these follow the change rate, and the best-before time: the last refresh plus the mean time between changes.
Columns are NumPy arrays, so millions of ids are a few hundred megabytes; a copy that would be larger is bounded by
`capacity`, and then the ids that were used least recently make room.

Examples
--------
>>> replica = Replica()
>>> replica.put(["ann", "bob"], [120.0, 80.0], at=0).tolist()
[True, True]
>>> replica.put(["ann"], [125.0], at=60_000_000).tolist()
[True]
>>> seen = replica.view(["ann", "bob", "eve"])
>>> seen.value.tolist(), seen.age(now=90_000_000).tolist()
([125.0, 80.0, nan], [30000000, 90000000, -1])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.errors import InputError
from skyband.order import ALWAYS, NEVER, BoolArray, FloatArray, IntArray
from skyband.remote.services.base import Id, State, id_columns, id_list, ids_in
from skyband.times import SECOND

_COLUMNS: dict[str, npt.DTypeLike] = {
    "value": np.float64,  # NaN: nothing is known, or there is no such id
    "refreshed": np.int64,  # NEVER: nothing is known
    "checks": np.int64,  # refreshes of an id that was known before
    "changes": np.int64,  # those that brought another value
    "watched": np.int64,  # from the first refresh to the last
    "given": np.float64,  # changes per second, where given; NaN elsewhere
    "used": np.int64,  # a number that grows from use to use
}
_PRIOR = 4  # looks: what all ids together count for the rate of one
_HUGE = 1e100  # squares of larger values would be infinite
_FEW = 3  # changes seen: from fewer no line can be laid
_EMPTY = {"value": np.nan, "refreshed": NEVER, "given": np.nan}
_KEPT = tuple(name for name in _COLUMNS if name != "used")
_REMEMBERED = 4  # columns of ids
_EVICTED_AT_ONCE = 16  # a sixteenth of the ids, so that looking for the oldest costs little per id


@dataclass(frozen=True)
class Known:
    """What is known of some ids, aligned with them; a copy."""

    value: FloatArray
    refreshed: IntArray

    @property
    def known(self) -> BoolArray:
        """Whether there is a value: it was fetched, and the service had one."""
        return np.logical_not(np.isnan(self.value))

    @property
    def never(self) -> BoolArray:
        """Whether nothing was ever learnt."""
        return np.equal(self.refreshed, NEVER)

    def age(self, now: int) -> IntArray:
        """Return how long ago each value was learnt, in microseconds; -1 where nothing is known."""
        return np.where(self.never, -1, np.maximum(now - self.refreshed, 0))


@dataclass(frozen=True)
class View(Known):
    """What is known of some ids, and how long it is probably true.

    `interval` is the mean time between changes in microseconds, `best_before` the last refresh plus that.
    """

    best_before: IntArray
    interval: IntArray


class Replica:
    """A local copy of a remote data set, one number per id.

    Of more ids than the `capacity`, those that were used least recently are forgotten. None: it holds all that come.
    """

    def __init__(self, capacity: int | None = None) -> None:
        if capacity is not None and capacity < 1:
            msg = f"capacity is {capacity}; a replica holds at least one id: give 1 or more, or None for no bound"
            raise InputError(msg)
        self.capacity = capacity
        self.evicted = 0
        self._slots: dict[Id, int] = {}
        self._free: list[int] = []
        self._found: list[tuple[pa.Array, IntArray]] = []  # columns of ids that were looked up last, and their slots
        self._uses = 0
        self._looks = np.zeros(3, np.int64)  # of all ids there ever were: changes, time before looks with one, without
        self._steps = np.zeros(6)  # of all changes seen: their number, sums of old, step, old², old * step, step²
        self._columns = {name: np.empty(0, kind) for name, kind in _COLUMNS.items()}

    def __len__(self) -> int:
        return len(self._slots)

    def columns(self) -> tuple[list[Id], FloatArray, IntArray]:
        """Return all ids, their values and when each was refreshed; that does not count as their use."""
        slots = np.fromiter(self._slots.values(), np.int64, len(self._slots))
        return list(self._slots), self._gather("value", slots), self._gather("refreshed", slots)

    def put(self, ids: Sequence[Id], values: npt.ArrayLike, at: int) -> BoolArray:
        """Take in fresh values, each id once, which were true `at` some time; return which differ from what was known.

        NaN says that there is no such id on the remote side. An id that is known from later on keeps what it has.
        """
        fresh = np.asarray(values, np.float64)
        if len(fresh) != len(ids) or len(set(ids)) != len(ids):
            msg = (
                f"{len(ids)} ids ({len(set(ids))} different ones) came with {len(fresh)} values; "
                "give each id once, with one value"
            )
            raise InputError(msg)
        slots = self._admit(ids)
        held = slots >= 0  # those that a bounded replica has no room for are not held
        changed = np.ones(len(ids), bool)
        changed[held] = self._write(slots[held], fresh[held], at)
        return changed

    def _write(self, slots: IntArray, fresh: FloatArray, at: int) -> BoolArray:
        column = self._columns
        old, seen = column["value"][slots], column["refreshed"][slots]
        newer = at >= seen
        same = (old == fresh) | (np.isnan(old) & np.isnan(fresh) & (seen != NEVER))
        changed: BoolArray = ~same & newer
        again = newer & (seen > NEVER + 1) & (at > seen)  # a value without a time says nothing about a rate
        found, apart = again & changed, at - seen
        column["checks"][slots] += again
        column["changes"][slots] += found
        column["watched"][slots] += np.where(again, apart, 0)
        self._looks += [int(found.sum()), int(apart[found].sum()), int(apart[again & ~changed].sum())]
        self._learn(old[found], fresh[found])
        column["value"][slots] = np.where(newer, fresh, old)
        column["refreshed"][slots] = np.maximum(seen, at)
        return changed

    def _learn(self, old: FloatArray, new: FloatArray) -> None:
        """Note how far values went when they changed, and from where."""
        number = (np.abs(old) < _HUGE) & (np.abs(new) < _HUGE)  # not NaN either
        old, step = old[number], new[number] - old[number]
        self._steps += [len(old), old.sum(), step.sum(), (old * old).sum(), (old * step).sum(), (step * step).sum()]

    def set_rates(self, ids: Sequence[Id], per_second: npt.ArrayLike) -> None:
        """Say how often ids change, where that is known beforehand; it counts more than what is observed.

        Ids that the replica does not hold are left out.
        """
        slots, rates = self._find(ids), np.asarray(per_second, np.float64)
        if (rates < 0).any():
            msg = f"a change rate is {rates[rates < 0][0]}; rates are changes per second: give 0 or more"
            raise InputError(msg)
        self._columns["given"][slots[slots >= 0]] = rates[slots >= 0]

    def known(self, ids: Sequence[Id] | pa.Array) -> Known:
        """Return what is known of ids, and count that as their use."""
        return self._known(self._find(ids))

    def _known(self, slots: IntArray) -> Known:
        self._use(slots[slots >= 0])
        return Known(self._gather("value", slots), self._gather("refreshed", slots))

    def view(self, ids: Sequence[Id] | pa.Array) -> View:
        """Return what is known of ids and how long it is probably true, and count that as their use."""
        slots = self._find(ids)
        known, interval = self._known(slots), self._interval(slots)
        value, refreshed = known.value, known.refreshed
        never = refreshed == NEVER
        best_before = np.where(never, NEVER, np.minimum(refreshed, ALWAYS - interval) + interval)
        return View(value, refreshed, best_before, interval)

    def drift(self, ids: Sequence[Id] | pa.Array, now: int) -> tuple[FloatArray, FloatArray]:
        """Return what values should be by now if they have changed, and how far off that usually is.

        NaN while too few changes were seen. A step is a line over the value that it starts from, laid through all
        changes seen: level where values wander, falling where they return to what is usual. Values that wander go
        further with every change that there may have been.
        """
        slots = self._find(ids)
        value, seen = self._gather("value", slots), self._gather("refreshed", slots)
        count, old, step, old2, cross, step2 = self._steps
        if count < _FEW:
            return np.full(len(value), np.nan), np.full(len(value), np.nan)
        old, step = old / count, step / count
        variance, covariance = max(old2 / count - old**2, 0.0), cross / count - old * step
        slope = float(np.clip(covariance / variance, -1.0, 0.0)) if variance else 0.0
        rest = max(step2 / count - step**2 - slope * (2 * covariance - slope * variance), 0.0)
        changes, before, without = self._looks.tolist()
        each = _rate_of_all(changes, before, without) / SECOND
        usual = _changes_within(np.array(each * before / max(changes, 1)))
        many = _changes_within(np.maximum(now - seen, 0) / np.maximum(self._interval(slots), 1))
        kept = (1.0 + slope) ** (1.0 / float(usual))  # of what is unusual about a value, from change to change
        further, wider = _sum_of_powers(kept, many, usual), _sum_of_powers(kept**2, many, usual)
        with np.errstate(invalid="ignore"):  # of infinite values
            expected: FloatArray = value + (step + slope * (value - old)) * further
        return expected, np.sqrt(rest * wider)

    def rates(self, ids: Sequence[Id] | pa.Array) -> FloatArray:
        """Return how often ids change, in changes per second.

        What is known beforehand counts; else what was observed: of n looks, X found a change, I apart on average,
        which makes ``-log((n - X + 0.5) / (n + 0.5)) / I``. (X / n / I would be too low, since two changes
        between two looks are seen as one.) The rate of all ids together counts as four more looks: a single look
        that finds no change does not prove that there never is one. It is the likeliest rate, if looks that found a
        change were all as far apart as they are on average, and so those that found none.

        Notes
        -----
        The estimate is the bias-reduced one of Cho and Garcia-Molina for changes that arrive at random.
        """
        return self._rates(self._find(ids))

    def _rates(self, slots: IntArray) -> FloatArray:
        checks = self._gather("checks", slots)
        own = _rate(checks, self._gather("changes", slots), self._gather("watched", slots))
        whole = _rate_of_all(*self._looks.tolist())
        learnt = np.where(checks > 0, (np.nan_to_num(own) * checks + whole * _PRIOR) / (checks + _PRIOR), whole)
        given = self._gather("given", slots)
        rates: FloatArray = np.where(np.isnan(given), learnt, given)
        return rates

    def _interval(self, slots: IntArray) -> IntArray:
        """Return the mean time between changes; 0 where nothing at all is known, so that nothing is taken for fresh."""
        rates = self._rates(slots)
        with np.errstate(divide="ignore"):
            length = np.where(np.isnan(rates), 0.0, SECOND / rates)
        return np.minimum(length, float(ALWAYS // 2)).astype(np.int64)

    # Slots.

    def _find(self, ids: Sequence[Id] | pa.Array) -> IntArray:
        """Return the slots of ids; those of a column hold until other ids come or go, so they are looked up once."""
        for column, slots in self._found:
            if column is ids:
                return slots
        names = id_list(ids) if isinstance(ids, pa.Array) else ids
        slots = np.fromiter(map(self._slots.get, names, repeat(-1)), np.int64, len(names))
        if isinstance(ids, pa.Array):
            self._found = [(ids, slots), *self._found[: _REMEMBERED - 1]]
        return slots

    def _gather(self, name: str, slots: IntArray) -> Any:
        column = self._columns[name]
        if len(column) == 0:
            return np.full(len(slots), _EMPTY.get(name, 0), column.dtype)
        return np.where(slots >= 0, column[slots], column.dtype.type(_EMPTY.get(name, 0)))

    def _use(self, slots: IntArray) -> None:
        self._columns["used"][slots] = self._uses + np.arange(1, len(slots) + 1)
        self._uses += len(slots)

    def _admit(self, ids: Sequence[Id]) -> IntArray:
        """Return the slots of ids, making slots for new ones."""
        slots = self._find(ids)
        self._use(slots[slots >= 0])
        new = np.flatnonzero(slots < 0)
        if self.capacity is not None:
            new = new[: self.capacity]
            self._evict(len(self._slots) + len(new) - self.capacity, keep=slots)
            new = new[: self.capacity - len(self._slots)]
        self._found = self._found if len(new) == 0 else []
        self._grow(len(new))
        for place in new.tolist():
            slots[place] = self._slots[ids[place]] = self._free.pop()
        self._use(slots[new])
        return slots

    def _grow(self, wanted: int) -> None:
        if wanted <= len(self._free):
            return
        size = len(self._columns["value"])
        more = max(wanted - len(self._free), size // 2, 64)
        for name, column in self._columns.items():
            blank = np.full(more, _EMPTY.get(name, 0), column.dtype)
            self._columns[name] = np.concatenate([column, blank])
        self._free.extend(range(size + more - 1, size - 1, -1))

    def _evict(self, surplus: int, keep: IntArray) -> None:
        """Forget the ids that were used least recently, some more than must be, but none that is being written."""
        if surplus <= 0:
            return
        names = np.fromiter(self._slots, object, len(self._slots))
        slots = np.fromiter(self._slots.values(), np.int64, len(self._slots))
        spare = ~np.isin(slots, keep)
        names, slots = names[spare], slots[spare]
        count = min(max(surplus, len(self._slots) // _EVICTED_AT_ONCE), len(slots))
        oldest = np.argsort(self._columns["used"][slots], kind="stable")[:count]
        self._found = []
        for name in names[oldest]:
            del self._slots[name]
        for name, column in self._columns.items():
            column[slots[oldest]] = _EMPTY.get(name, 0)
        self._free.extend(slots[oldest].tolist())
        self.evicted += count

    # Snapshots.

    def state(self) -> State:
        """Return everything as plain values and a table, detached from the live state."""
        names = list(self._slots)
        slots = np.fromiter(self._slots.values(), np.int64, len(names))
        order = np.argsort(self._columns["used"][slots], kind="stable")  # the order of use is not lost
        columns = id_columns(names[place] for place in order.tolist())
        columns |= {name: pa.array(self._columns[name][slots[order]]) for name in _KEPT}
        counts = {"looks": self._looks.tolist(), "steps": self._steps.tolist()}
        return {"capacity": self.capacity, "evicted": self.evicted, **counts}, {"ids": pa.table(columns)}

    @classmethod
    def load(cls, state: State, capacity: int | None) -> Replica:
        """Make a replica from what `state` returned; of more ids than the capacity, those used last are kept."""
        meta, tables = state
        replica = cls(capacity)
        table = tables["ids"]
        table = table.slice(max(0, table.num_rows - (replica.capacity or table.num_rows)))
        replica.evicted = meta["evicted"]
        replica._looks, replica._steps = np.array(meta["looks"]), np.array(meta["steps"])
        slots = replica._admit(ids_in(table))
        for name in _KEPT:
            replica._columns[name][slots] = table[name].to_numpy()
        return replica


def _rate(checks: Any, changes: Any, watched: Any) -> Any:
    """Return changes per second; NaN where nothing was looked at twice."""
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.where(checks > 0, watched, np.nan) / np.maximum(checks, 1) / SECOND
        return -np.log((checks - changes + 0.5) / (checks + 0.5)) / apart + 0.0  # no -0.0, which divides to -inf


def _rate_of_all(changes: int, before: int, without: int) -> float:
    """Return changes per second, from looks that found a change and from looks that found none; NaN without looks."""
    if before + without == 0:
        return np.nan
    if changes == 0:
        return 0.0
    unchanged = max(without, before / changes / 2)  # at least half a look, or the rate would have no bound
    return float(np.log1p(before / unchanged) * changes / before * SECOND)


def _changes_within(expected: FloatArray) -> FloatArray:
    """Return how many changes there are on average where one expects so many, given that there is one."""
    few = np.maximum(expected, 1e-9)
    return few / -np.expm1(-few)


def _sum_of_powers(ratio: float, count: FloatArray, usual: FloatArray) -> FloatArray:
    """Return 1 + ratio + ratio² + ... of so many terms, over the same of the usual number of terms."""
    sums = (count, usual) if ratio > 1.0 - 1e-9 else (1.0 - ratio**count, 1.0 - ratio**usual)
    return sums[0] / sums[1]
