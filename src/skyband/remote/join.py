"""A stream joined with remote data that keeps changing, window by window, under a refresh budget.

Paper → code (AcquaTop, figure 8 and algorithm 5):

- line 6 → `RemoteJoin.arrive`
- line 9, UpdateReplica → `RemoteJoin.prepare`, `Remote.refresh`
- lines 10-13 → `RemoteJoin.learn`, `RemoteJoin.conclude`

This is the framework of Figure 8 of AcquaTop, for rankings (made by `skyband.remote.acquatop`) and filters
(`skyband.remote.filter_join`). In one evaluation: the window's objects are there, scored with the replica's values; the
policy elects ids; they are fetched; replica and objects are updated; the answer goes out; the window is left behind. So
a refresh counts for the answer of the same window. A service that is slow, fails or returns garbage makes
answers stale, and they say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import InputError
from skyband.order import NEVER, BoolArray, FloatArray, IntArray, merit_of
from skyband.remote.election import Election
from skyband.remote.objects import Arrivals, Ids, JoinedObject, Objects, ObjectStore, scores_of, upsert
from skyband.remote.remote import Refreshed, Remote
from skyband.remote.services.base import Id, State, find_ids, id_list

STALE = "remote values are stale or not known"
UNSEEN = "remote values of other objects may be stale"
CUT = "cut at {:,} rows"
_WAITING = ["id", "stream", "time", "remote"]
Condition = Callable[[Any], Any]
"""Whether a remote value, or each of a column, passes a filter; NaN does not."""


@dataclass(frozen=True)
class JoinedRow:
    """One row of an answer: `stream` and `value` are its two sides. Rows of a set have no rank.

    `age` says how old the remote value is, in microseconds, -1 where it is a default.
    """

    rank: int | None
    id: Id
    score: float
    time: int
    stream: float
    value: float
    age: int


@dataclass(frozen=True)
class JoinedAnswer:
    """The answer of one window, and how far it can be trusted.

    `rows` come best first; those of a set in order of their ids. `refreshes` counts the ids whose remote value came for
    this answer, changed or not, and `failures` those for which none came. `stale` counts the rows whose remote value is
    older than this answer, `unknown` the objects of the window whose remote value was never fetched. An answer is
    `exact` if nothing can be missing or wrong: all objects of the window were refreshed for it. `cut` is how many rows
    of a set are left out because an answer may not have more.
    """

    start: int
    end: int
    rows: list[JoinedRow]
    refreshes: int
    failures: int
    stale: int
    unknown: int
    exact: bool
    cut: int = 0

    @property
    def why(self) -> str:
        """Why it is not exact; empty where it is."""
        if self.exact:
            return ""
        if self.cut:
            return CUT.format(len(self.rows))
        return STALE if self.stale or self.unknown else UNSEEN

    @property
    def ids(self) -> list[Id]:
        """The ids of the rows."""
        return [row.id for row in self.rows]


class RemoteJoin:
    """A stream joined with a service: objects come in, windows are answered in order.

    Answers are rankings of `k` rows; those of a filter without a `k` are sets, cut at `max_rows` (None: not at all).
    `objects` keeps the objects of the coming windows, `election` elects the ids to refresh, and the `condition` says
    which remote values pass. Ids of which nothing is known have the `default`; without one, they are left out.

    `depth` is how many objects per window the list of the policy has, where it has one. Where nothing else is kept, ten
    times as many and 1,000 more objects without a remote value are remembered, the most promising of them.
    """

    def __init__(
        self, remote: Remote, objects: ObjectStore, election: Election, *, k: int | None,
        condition: Condition | None = None, default: float | None = None, depth: int = 0, max_rows: int | None = None,
    ) -> None:  # fmt: skip
        self.remote, self.objects, self.election = remote, objects, election
        self.windows, self.k, self.condition, self.max_rows = objects.windows, k, condition, max_rows
        self._depth, self._default = depth, np.nan if default is None else default
        self._waiting = Objects.none()  # objects without a remote value, which a list has no place for
        self._forgot_to = NEVER  # the last window of those for which there was no room either

    def arrive(self, ids: Ids, stream: npt.ArrayLike, times: npt.ArrayLike, remote: Ids | None = None) -> None:
        """Take in objects: their ids, the score of the stream's side, and the time of the event, or of the latest one.

        An id that comes again replaces what it was before, if it is not older: so a score that is an aggregate of the
        window (a count of events, say) is given anew for every window. A score that is NaN is rejected, and takes away
        what the id was before. Ids on the remote side are the same, unless `remote` has others; many may share one.
        """
        arrivals = Arrivals.of(ids, stream, times, remote=remote)
        if not len(arrivals.id) == len(arrivals.stream) == len(arrivals.time) == len(arrivals.remote):
            msg = (
                f"the columns have {len(arrivals.id)} ids, {len(arrivals.stream)} scores, {len(arrivals.time)} times "
                f"and {len(arrivals.remote)} remote ids; give as many of each"
            )
            raise InputError(msg)
        self._take(arrivals)

    def _take(self, arrivals: Arrivals) -> None:
        arrivals = replace(arrivals, value=self._values(arrivals.remote))
        if not self.objects.whole:
            arrivals = self._wait(arrivals)
        self.objects.arrive(arrivals)

    def _wait(self, arrivals: Arrivals) -> Arrivals:
        """Remember objects that lack a remote value; return all that are not older than one that is remembered."""
        arrivals = arrivals[arrivals.latest()]
        kept, taken = upsert(self._waiting, self._unscored(arrivals), self.objects.event_order)
        self._waiting = kept[np.isnan(kept.value) & ~np.isnan(kept.stream)]
        return arrivals[taken]

    def _unscored(self, arrivals: Arrivals) -> Objects:
        return Objects.of_arrivals(arrivals, np.full(len(arrivals), np.nan), self.windows)

    def _values(self, remotes: pa.Array) -> FloatArray:
        seen = self.remote.replica.known(remotes)
        return np.where(seen.never, self._default, seen.value)

    def push_changes(self, values: Mapping[Id, float | None], at: int) -> None:
        """Take in changes that the remote side pushes, as `Remote.push_changes`; they cost no budget."""
        self.learn(self.remote.push_changes(values, at))

    def evaluate(self, end: int, now: int | None = None) -> JoinedAnswer:
        """Refresh within the budget, and answer the window that ends at `end`, in microseconds.

        Windows are answered in order; those that are skipped are left behind. Remote values age by the time `now`,
        which is the end of the window where it is left out.
        """
        now = end if now is None else now
        return self.conclude(end, now, self.remote.refresh({"": self.prepare(end, now)}, now))

    def prepare(self, end: int, now: int) -> list[Id]:
        """Begin an evaluation: return the remote ids that are to be refreshed for it, the most urgent first."""
        window = self.windows.ending(end)
        self.objects.go_to(window)
        self._leave_behind(window)
        self._catch_up()
        held = listed = self.objects.held()
        unknown = held.remote[:0]
        if not self.election.policy.whole_window:
            listed, unknown = self.objects.listed(self._depth), self._unknown(held)
        if missing := self.remote.gateway.known_missing():
            listed, held = (objects[find_ids(objects.remote, missing) < 0] for objects in (listed, held))
            unknown = unknown.filter(pa.array(find_ids(unknown, missing) < 0))
        return self.election.elect(listed, unknown, held, now)

    def conclude(self, end: int, now: int, refreshed: Refreshed) -> JoinedAnswer:
        """End it with what was refreshed: return the answer, and leave the window behind."""
        window = self.windows.ending(end)
        self.learn(refreshed.changed)
        answer = self._answer(window, now, refreshed)
        self.objects.go_to(window + 1)
        return answer

    def skip(self, end: int) -> None:
        """Leave a window behind without an answer."""
        window = self.windows.ending(end)
        self._leave_behind(window)
        self.objects.go_to(window)
        self.objects.go_to(window + 1)

    def admits(self, value: FloatArray) -> BoolArray:
        """Return for each remote value whether an object that has it may be in an answer."""
        return ~np.isnan(value) if self.condition is None else np.asarray(self.condition(value), bool)

    def __len__(self) -> int:
        """Return how many objects are kept."""
        return len(self.objects.kept) + len(self._waiting)

    def _catch_up(self) -> None:
        """Bring objects up to date with what the replica learnt from other queries that share it."""
        changed: dict[Id, float] = {}
        for some in (self.objects.kept, self._waiting):
            known, values = some.value, self._values(some.remote)
            differ = np.flatnonzero((known != values) & ~(np.isnan(known) & np.isnan(values)))
            changed |= zip(id_list(some.remote.take(pa.array(differ))), values[differ].tolist(), strict=True)
        self.learn(changed)

    def learn(self, changed: dict[Id, float]) -> None:
        """Update the objects with new values by remote id, NaN where there is none; those that waited arrive now."""
        if not changed:
            return
        found = ~np.isnan(self._waiting.changed(changed).value)
        if found.any():  # first: their scores are known, those of other objects outside the list are only bounded
            self._take(self._waiting[found])
        self.objects.change(changed)

    def _unknown(self, held: Objects) -> pa.Array:
        """Return the remote ids that objects wait for: never fetched ones first, then the best on the stream's side."""
        lacking = held[np.isnan(held.value)] + self._waiting
        remotes = lacking.remote.take(pa.array(self._by_promise(lacking))).unique()
        never = self.remote.replica.known(remotes).never
        return remotes.take(pa.array(np.argsort(~never, kind="stable")))

    def _by_promise(self, objects: Objects) -> IntArray:
        """Return the places of objects by the stream's side alone."""
        return replace(objects, merit=merit_of(objects.stream, self.objects.order)).best_first()

    def _leave_behind(self, window: int) -> None:
        kept = self._waiting[self._waiting.end >= window]
        most = 10 * self._depth + 1_000
        if len(kept) > most:
            kept = kept[self._by_promise(kept)]
            self._forgot_to = max(self._forgot_to, int(kept.end[most:].max()))
            kept = kept[np.arange(most)]
        self._waiting = kept

    def _answer(self, window: int, now: int, refreshed: Refreshed) -> JoinedAnswer:
        chosen, cut = self._chosen()
        remote = self.remote.replica
        ages = remote.known([one.remote for one in chosen]).age(now).tolist()
        scores = scores_of(np.array([one.merit for one in chosen]), self.objects.order).tolist()
        ranks = [None] * len(chosen) if self.k is None else range(1, len(chosen) + 1)
        rows = [
            JoinedRow(rank, one.id, score, one.time, one.stream, one.value, age)
            for rank, score, one, age in zip(ranks, scores, chosen, ages, strict=True)
        ]
        seen = [remote.known(objects.remote) for objects in (self.objects.kept, self._waiting)]
        return JoinedAnswer(
            start=self.windows.start(window), end=self.windows.end(window), rows=rows,
            refreshes=len(refreshed.answered), failures=len(refreshed.failed),
            stale=sum(row.age != 0 for row in rows), unknown=sum(int(known.never.sum()) for known in seen),
            exact=all(bool((known.age(now) == 0).all()) for known in seen)
            and self.objects.complete and window > self._forgot_to and not cut,
            cut=cut,
        )  # fmt: skip

    def _chosen(self) -> tuple[list[JoinedObject], int]:
        """Return the objects of the answer, in its order, and how many are cut off."""
        if self.condition is None:
            assert self.k is not None
            return self.objects.best(self.k), 0
        kept = self.objects.kept
        passed = kept[self.admits(kept.value) & ~np.isnan(kept.merit)]
        if self.k is not None:
            return list(passed[passed.best(self.k)].one_by_one()), 0
        in_order = passed.id.take(pc.sort_indices(passed.id))
        chosen = passed[find_ids(in_order[: self.max_rows], passed.id)]
        return list(chosen.one_by_one()), len(passed) - len(chosen)

    # Snapshots.

    def state(self) -> State:
        """Return everything but the replica, which may be shared, as plain values and tables."""
        meta, tables = self.objects.state()
        inner = {f"objects/{name}": table for name, table in tables.items()}
        return (
            {"objects": meta, "election": self.election.state(), "forgot_to": self._forgot_to},
            inner | {"waiting": self._waiting.as_table().select(_WAITING) if len(self._waiting) else _none_waiting()},
        )

    def load(self, state: State) -> None:
        """Take over what `state` returned, with the same parameters, and the replica of that time, as before."""
        meta, tables = state
        inner = {name.removeprefix("objects/"): table for name, table in tables.items() if name.startswith("objects/")}
        self.objects.load((meta["objects"], inner))
        self.election.load(meta["election"])
        self._forgot_to = meta["forgot_to"]
        columns = (tables["waiting"][name].combine_chunks() for name in _WAITING)
        ids, stream, time, remote = columns
        self._waiting = self._unscored(Arrivals.of(ids, stream, time, remote=remote))


def _none_waiting() -> pa.Table:
    """Return the columns of what waits, without rows; not made when imported, since that would load pandas."""
    return pa.table({name: [] for name in _WAITING})
