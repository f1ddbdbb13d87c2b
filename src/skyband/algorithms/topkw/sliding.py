"""Algorithms whose windows slide with every event: what strict, relaxed and probabilistic k-skybands have in common.

Paper → code (Top-k/w):

- section 4, one query → `BandKeeper`
- section 5, b → `Method.buffer`; for time windows, `Method.recent`
- table IX, what can be chosen → `OPTIONS`

Each query has a band of its own, which is kept up event by event, whether somebody looks or not; a window is answered
by the top k of the band at its end. `skyband.algorithms.topkw.bands` has the bands; here they get one score that all
queries share.

Bands behind filters keep about k (1 + ln(n/b)) events per query of a stream in random order, a filter of about
k ln(b/k), and the b most recent events once for all queries. Only the best of the recent ones enter a band at once;
what they dominate k times while it is recent never does. So an event that is not in a query's band is dominated by k
that leave the window no earlier, or it is recent and cannot be among the k best before it leaves the buffer: that has
b = 2,000 events, or a twentieth of a time window, and never more than half of a window (theorem 5.1 of the paper).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from skyband.algorithms.base import Selection
from skyband.algorithms.in_order import CandidateKeeper, InOrder, PerQuery, meta_query
from skyband.algorithms.options import Option
from skyband.algorithms.topkw.bands import Bands, BandSpec, Method
from skyband.events.store import EventStore
from skyband.order import IntArray, SlotArray
from skyband.windows import DueWindows, Schedule

_DEFAULT = Method(kind=0)
OPTIONS = {
    option.name: option
    for option in (
        Option(
            "error", _DEFAULT.error, 0, 1, "how many events may be missed per window, in random order", "σ",
            whole=False, open=True,
        ),
        Option(
            "additional", _DEFAULT.additional, 0, 1_000_000,
            "candidates beyond those, where a grid of queries (of Subscriptions) would have to follow", "a",
        ),
        Option(
            "pruning", _DEFAULT.pruning, 0, 100, "by what share a relaxed band grows before it is pruned", "γ",
            whole=False,
        ),
        Option(
            "buffer", _DEFAULT.buffer, 1, 1_000_000_000,
            "recent events, of windows that count events: never more than half of one", "b",
        ),
        Option(
            "recent", _DEFAULT.recent, 0, 0.5, "the recent part of windows of time, as a share of the shortest", "b/n",
            whole=False, open=True,
        ),
        Option("cells", _DEFAULT.cells, 1, 20_000, "cells of a grid in each dimension", "ρ"),
    )
}  # fmt: skip
"""The paper's parameters; `Method` has them under the same names."""


class Sliding(InOrder):
    """A band for each query; a new query sees only what comes after it, as in the paper."""

    method: ClassVar[Method]
    engine: ClassVar[type[Bands]] = Bands

    @classmethod
    def method_with_options(cls, *, indexed: bool) -> Method:
        """Return the method as it was chosen; additional candidates pay only where queries are `indexed` (table IX)."""
        method = replace(cls.method, **cls.chosen)  # type: ignore[arg-type]  # they are of the kinds that `OPTIONS` say
        return method if indexed else replace(method, additional=0)

    def keeper(self, first: int) -> CandidateKeeper:
        """Make a band per query."""
        members, method = meta_query(self.schedules), self.method_with_options(indexed=False)
        return PerQuery([(one, BandKeeper(self.engine, self.store, one, method, first)) for one in members])

    def snapshot(self) -> dict[str, Any]:
        """Return the state as numbers and arrays, the bands as they are."""
        return super().snapshot() | {
            f"{part}/{place}/{name}": values
            for part, place, keeper in self._bands()
            for name, values in keeper.state().items()
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `snapshot` returned."""
        super().restore(state)
        for part, place, keeper in self._bands():
            start = f"{part}/{place}/"
            keeper.load({name.removeprefix(start): value for name, value in state.items() if name.startswith(start)})

    def _bands(self) -> Iterator[tuple[int, int, BandKeeper]]:
        self._renumber()
        for part, apart in sorted(self.keepers.items()):
            assert isinstance(apart, PerQuery)
            for place, (_, keeper) in enumerate(apart.keepers):
                assert isinstance(keeper, BandKeeper)
                yield part, place, keeper

    def exact_before(self, schedule: Schedule, start: int) -> bool:  # noqa: ARG002 - see the class
        """Tell that a window which began before its query misses something."""
        return False


class BandKeeper(CandidateKeeper):
    """The band of one query over one partition.

    How many events a time window has is estimated from those that came so far; the number of candidates of a
    probabilistic band follows from it, and grows as the logarithm.
    """

    def __init__(self, engine: type[Bands], store: EventStore, schedule: Schedule, method: Method, first: int) -> None:
        self.store, self.schedule, self.first, self.seen = store, schedule, first, 0
        if not store.counts:
            method = method.over_time(schedule.size)
        self.population = schedule.size if store.counts else 64
        self.bands = engine(method, dimensions=1)
        spec = BandSpec(schedule.k, schedule.size, self.population, sign=-1.0, point=(0.0,), weight=(1.0,))
        (self.row,) = self.bands.add([spec])

    def process(self, slots: SlotArray, due: DueWindows, ks: IntArray, passed: int) -> Selection:
        """Take in events, and read the top k of the band at the end of each window."""
        parts, begin = [], 0
        ends = np.searchsorted(self.store.position[slots], due.end)
        for end, behind, k in zip(due.end.tolist(), ends.tolist(), ks.tolist(), strict=True):
            self._take(slots[begin:behind], end - 1)
            parts.append(self.bands.top(self.row)[:k].astype(np.int32))
            begin = max(begin, behind)
        self._take(slots[begin:], passed - 1)
        return Selection.of(parts)

    def _take(self, slots: SlotArray, passed: int) -> None:
        store = self.store
        self.bands.process(store.merit[slots][:, None], store.position[slots], slots, store.time, store.key, passed)
        self.seen += len(slots)
        if not store.counts:
            elapsed = max(passed - self.first, 1)
            expected = self.seen * min(self.schedule.size / elapsed, 1.0)
            while self.population < expected:
                self.population *= 2
                self.bands.expect(self.row, self.population)

    def kept(self) -> SlotArray:
        """Return the slots of the band, its filter and the buffer."""
        return self.bands.kept()

    def compact(self, moved: SlotArray) -> None:
        """Follow events to their new slots."""
        self.bands.compact(moved)

    def bound(self) -> int:
        """Return how many places are in use: what a band may hold depends on the order of the stream."""
        return self.bands.references() + len(self.bands.held.slot)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as arrays."""
        return {**self.bands.state(), "seen": np.array([self.first, self.seen, self.population], np.int64)}

    def load(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Take over what `state` returned."""
        self.first, self.seen, self.population = state.pop("seen").tolist()
        self.bands.expect(self.row, self.population)
        self.bands.load(state)

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold."""
        self.bands.check()
