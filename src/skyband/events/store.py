"""The kept events as columns: one *slot* per event, shared by an algorithm and what travels along with it."""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.compiled import PARALLEL_ROWS, gather
from skyband.events.batch import EventBatch
from skyband.events.keys import Keys, move
from skyband.order import (
    FloatArray,
    IntArray,
    Prefer,
    SlotArray,
    best_first,
    fingerprints,
    rank_in_runs,
    recency_of,
    value_ranks,
)

_COLUMNS = {"merit": np.float64, "time": np.int64, "key": np.int64, "part": np.int64, "position": np.int64}


@dataclass(frozen=True)
class TiedEvents:
    """Events that tie in merit, time and id, in one partition: set by set, in the order of what they carry.

    Set s has the slots ``slots[starts[s]:starts[s + 1]]``; `of` has the set of each slot of the store, -1 for none.
    """

    of: IntArray
    slots: SlotArray
    starts: IntArray


class EventStore:
    """Columns of events, addressed by slot.

    An algorithm holds slots, never events; the columns (and the payload, an Arrow table taken along) are
    here, once. Slots that no algorithm holds are reclaimed by `compact`.

    Parameters
    ----------
    counts
        Whether positions are arrival numbers.
    select
        The names of what events carry along.
    prefer
        Which of several events with equal scores ranks first. The column `time` has recencies: event times, turned
        where the earliest does.
    placed
        Whether positions are others than the event times, as arrival numbers are; else they take no extra column.
    """

    def __init__(
        self, counts: bool, select: Sequence[str] = (), prefer: Prefer = "latest", *, placed: bool = False
    ) -> None:
        self.counts, self.select, self.prefer = counts, tuple(select), prefer
        self.placed = placed or counts or prefer != "latest"
        self.text_ids = self.partitioned = False
        self.id_keys, self.partitions = Keys(), Keys()
        self.size = 0
        self._columns: dict[str, npt.NDArray[Any]] = {name: np.empty(0, kind) for name, kind in _COLUMNS.items()}
        self._payload: list[pa.Table] = []
        self._tied: TiedEvents | None = None
        self._tied_size = 0  # how many events were looked at for ties

    merit: FloatArray
    time: IntArray
    key: IntArray
    part: IntArray
    position: IntArray

    def __getattr__(self, name: str) -> npt.NDArray[Any]:
        if name == "position" and not self.placed:
            name = "time"
        if name not in _COLUMNS:
            raise AttributeError(name)
        return self._columns[name][: self.size]

    def best_first(self, slots: SlotArray, *major: npt.NDArray[Any]) -> IntArray:
        """Return the places of slots from the best event to the worst, within the groups of the major columns."""
        return best_first(self.merit[slots], self.time[slots], self.key[slots], *major)

    def add(
        self, rows: EventBatch, chosen: IntArray, merit: FloatArray, position: IntArray, part: IntArray | int = 0,
        payload: pa.Table | None = None,
    ) -> SlotArray:  # fmt: skip
        """Add chosen rows of a batch, with their ids and what they carry along; return their slots.

        Where events are not `placed`, nothing is taken of `position`.
        """
        if self.text_ids:
            key, moved = self.id_keys.encode(rows.ids.take(pa.array(chosen)))
            move(self.key, moved)
        elif rows.ids.null_count:
            key = rows.ids.take(pa.array(chosen)).cast(pa.int64()).to_numpy(zero_copy_only=False)
        else:
            key = taken(rows.ids.to_numpy(), chosen)
        return self.append(merit, recency_of(taken(rows.time, chosen), self.prefer), key, part, position, payload)

    def moments(self, slots: SlotArray | IntArray) -> IntArray:
        """Return the times of events."""
        return recency_of(self.time[slots], self.prefer)

    def parts(self, values: pa.Array) -> IntArray:
        """Return the keys of partition values."""
        part, moved = self.partitions.encode(values)
        move(self.part, moved)
        return part

    def ids(self, slots: SlotArray | IntArray) -> IntArray | pa.Array:
        """Return the ids of events."""
        keys = self.key[slots]
        return self.id_keys.decode(keys) if self.text_ids else keys

    def append(
        self,
        merit: FloatArray,
        time: IntArray,
        key: IntArray,
        part: IntArray | int,
        position: IntArray,
        payload: pa.Table | None,
    ) -> SlotArray:
        """Add events; return their slots."""
        start, end = self.size, self.size + len(merit)
        if end > len(self._columns["merit"]):
            self._grow(max(end, 2 * start, 1024))
        given = {"merit": merit, "time": time, "key": key, "part": part, "position": position}
        for name, values in given.items():
            if name != "position" or self.placed:
                self._columns[name][start:end] = values
        if payload is not None:
            self._payload.append(payload)
        self.size = end
        return np.arange(start, end, dtype=np.int32)

    def payload(self) -> pa.Table | None:
        """Return the carried columns, one row per slot."""
        if len(self._payload) > 1:
            self._payload = [pa.concat_tables(self._payload, promote_options="permissive").combine_chunks()]
        return self._payload[0] if self._payload else None

    def retype(self, kinds: Mapping[str, pa.DataType]) -> None:
        """Give carried columns that hold nothing but NULL, whose types were guessed, those that are known by now."""
        self._payload = [retyped(part, kinds) for part in self._payload]

    # Ties. What an algorithm keeps of tied events is any of them; what an answer shows of them is in order.

    def tied(self) -> TiedEvents | None:
        """Return the events that only differ in what they carry; None where there are none."""
        if self._tied_size != self.size:
            self._tied, self._tied_size = self._find_tied(), self.size
        return self._tied

    def _find_tied(self) -> TiedEvents | None:
        payload = self.payload()
        if payload is None:
            return None
        marks = fingerprints(self.merit, self.time, self.key, self.part)
        ascending = np.sort(marks)
        twice = ascending[1:][ascending[1:] == ascending[:-1]]
        if len(twice) == 0:
            return None
        slots = np.flatnonzero(np.isin(marks, twice)).astype(np.int32)
        part, carried = self.part[slots], payload.take(pa.array(slots))
        ties = [value_ranks(column) for column in carried.columns]
        slots = slots[best_first(self.merit[slots], self.time[slots], self.key[slots], part, ties=ties)]
        columns = (self.merit[slots], self.time[slots], self.key[slots], self.part[slots])
        begins = np.ones(len(slots), bool)
        begins[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
        of = np.full(self.size, -1, np.int64)
        of[slots] = np.cumsum(begins) - 1
        return TiedEvents(of, slots, np.append(np.flatnonzero(begins), len(slots)))

    def _needed(self, kept: SlotArray) -> SlotArray:
        """Return slots, and with them those that answers may show in the place of tied ones.

        Of tied events that share their windows, the first as many as are kept; of those that do not, as they count
        events, each that fewer than so many outlive and precede.
        """
        tied = self.tied()
        if tied is None:
            return kept
        sets = tied.of[kept]
        most = np.bincount(sets[sets >= 0], minlength=len(tied.starts) - 1)
        of = tied.of[tied.slots]
        needed = rank_in_runs(of) < most[of]
        if self.counts:
            for number in np.flatnonzero(most).tolist():
                low, high = tied.starts[number : number + 2].tolist()
                needed[low:high] = _outlived(self.position[tied.slots[low:high]]) < most[number]
        return np.union1d(kept, tied.slots[needed]).astype(np.int32)

    def compact(self, kept: SlotArray) -> SlotArray:
        """Keep only some slots, and those that tie with them and are shown first; return each one's new slot.

        Slots that are gone become -1.
        """
        alive = np.sort(self._needed(kept))
        moved = np.full(self.size, -1, np.int32)
        moved[alive] = np.arange(len(alive), dtype=np.int32)
        for name in _COLUMNS:
            if name != "position" or self.placed:
                self._columns[name] = self._columns[name][alive]
        payload = self.payload()
        if payload is not None:
            self._payload = [payload.take(pa.array(alive)).combine_chunks()]
        self.size, self._tied_size = len(alive), 0
        if self.text_ids:
            move(self.key, self.id_keys.retain(self.key))
        move(self.part, self.partitions.retain(self.part))
        return moved

    def _grow(self, capacity: int) -> None:
        for name, column in self._columns.items():
            if name != "position" or self.placed:
                wider = np.empty(capacity, column.dtype)
                wider[: self.size] = column[: self.size]
                self._columns[name] = wider

    def state(self) -> dict[str, pa.Table]:
        """Return everything as tables, detached from the live columns."""
        names = [name for name in _COLUMNS if name != "position" or self.placed]
        events = pa.table({name: pa.array(self._columns[name][: self.size].copy()) for name in names})
        payload = self.payload()
        keys = {"ids": self.id_keys, "partitions": self.partitions}
        tables = {name: pa.table({"": pa.array(one.values.tolist())}) for name, one in keys.items()}
        return {"events": events, **tables} | ({} if payload is None else {"payload": payload})

    def load(self, state: dict[str, pa.Table]) -> None:
        """Take over what `state` returned."""
        for name in state["events"].column_names:
            self._columns[name] = state["events"][name].to_numpy().copy()
        self.size = state["events"].num_rows
        self._payload = [state["payload"]] if "payload" in state else []
        self.id_keys, self.partitions = (Keys.of(state[name][""]) for name in ("ids", "partitions"))
        self._tied_size = 0


def taken(values: npt.NDArray[Any], rows: IntArray) -> npt.NDArray[Any]:
    """Return the values of some rows, by several threads where these are many."""
    return values[rows] if len(rows) < PARALLEL_ROWS else gather(values, rows)


def retyped(table: pa.Table, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    """Return a table whose columns that hold nothing but NULL have these types."""
    for name, kind in kinds.items():
        column = table[name] if name in table.column_names else None
        if column is not None and column.type != kind and column.null_count == len(column):
            table = table.set_column(table.column_names.index(name), name, pa.nulls(len(column), kind))
    return table


def _outlived(position: IntArray) -> IntArray:
    """Count, for each event of a list, those before it in the list that lie behind it on the axis.

    Examples
    --------
    >>> _outlived(np.array([5, 9, 2, 7])).tolist()
    [0, 0, 2, 1]
    """
    seen: list[int] = []
    counts = []
    for place in position.tolist():
        counts.append(len(seen) - bisect(seen, place))
        insort(seen, place)
    return np.array(counts, np.int64)
