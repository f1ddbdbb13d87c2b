"""The kept events as columns: one *slot* per event, shared by an algorithm and what travels along with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.order import FloatArray, IntArray, SlotArray, best_first

_COLUMNS = {"merit": np.float64, "time": np.int64, "key": np.int64, "part": np.int64, "position": np.int64}


class EventStore:
    """Columns of events, addressed by slot.

    An algorithm holds slots, never events; the columns (and the payload, an Arrow table taken along) are
    here, once. Slots that no algorithm holds are reclaimed by `compact`.

    Parameters
    ----------
    counts
        Whether positions are arrival numbers; otherwise they are the event times and take no extra column.
    """

    def __init__(self, counts: bool) -> None:
        self.counts = counts
        self.size = 0
        self._columns: dict[str, npt.NDArray[Any]] = {name: np.empty(0, kind) for name, kind in _COLUMNS.items()}
        self._payload: list[pa.Table] = []

    merit: FloatArray
    time: IntArray
    key: IntArray
    part: IntArray
    position: IntArray

    def __getattr__(self, name: str) -> npt.NDArray[Any]:
        if name == "position" and not self.counts:
            name = "time"
        if name not in _COLUMNS:
            raise AttributeError(name)
        return self._columns[name][: self.size]

    def best_first(self, slots: SlotArray, *major: npt.NDArray[Any]) -> IntArray:
        """Return the places of slots from the best event to the worst, within the groups of the major columns."""
        return best_first(self.merit[slots], self.time[slots], self.key[slots], *major)

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
            if name != "position" or self.counts:
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

    def compact(self, alive: SlotArray) -> SlotArray:
        """Keep only some slots; return the new slot of each old one (-1: gone)."""
        alive = np.sort(alive)
        moved = np.full(self.size, -1, np.int32)
        moved[alive] = np.arange(len(alive), dtype=np.int32)
        for name in _COLUMNS:
            if name != "position" or self.counts:
                self._columns[name] = self._columns[name][alive]
        payload = self.payload()
        if payload is not None:
            self._payload = [payload.take(pa.array(alive)).combine_chunks()]
        self.size = len(alive)
        return moved

    def _grow(self, capacity: int) -> None:
        for name, column in self._columns.items():
            if name != "position" or self.counts:
                wider = np.empty(capacity, column.dtype)
                wider[: self.size] = column[: self.size]
                self._columns[name] = wider

    def state(self) -> dict[str, pa.Table]:
        """Return everything as tables, detached from the live columns."""
        names = [name for name in _COLUMNS if name != "position" or self.counts]
        events = pa.table({name: pa.array(self._columns[name][: self.size].copy()) for name in names})
        payload = self.payload()
        return {"events": events} | ({} if payload is None else {"payload": payload})

    def load(self, state: dict[str, pa.Table]) -> None:
        """Take over what `state` returned."""
        for name in state["events"].column_names:
            self._columns[name] = state["events"][name].to_numpy().copy()
        self.size = state["events"].num_rows
        self._payload = [state["payload"]] if "payload" in state else []
