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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.errors import InputError
from skyband.order import NEVER, BoolArray, FloatArray
from skyband.remote.election import Election
from skyband.remote.objects import Arrivals, Ids, JoinedObject, ObjectStore, Rank, is_number, score_of
from skyband.remote.remote import Refreshed, Remote
from skyband.remote.services.base import Id, State

STALE = "remote values are stale or not known"
UNSEEN = "remote values of other objects may be stale"
CUT = "cut at {:,} rows"
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
        self._waiting: dict[Id, JoinedObject] = {}  # objects without a remote value, which a list has no place for
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
        merit, order = np.full(len(arrivals), np.nan), self.objects.event_order
        taken = []
        for row, one in enumerate(arrivals.objects(merit, self.windows)):
            before = self._waiting.get(one.id)
            if before is None or one.replaces(before, order):
                taken.append(row)
                self._waiting.pop(one.id, None)
                if np.isnan(one.value) and not np.isnan(one.stream):
                    self._waiting[one.id] = one
        return arrivals[np.array(taken, np.int64)]

    def _values(self, remotes: Sequence[Id]) -> FloatArray:
        seen = self.remote.replica.view(remotes)
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
        unknown: list[Id] = []
        if not self.election.policy.whole_window:
            listed, unknown = self.objects.listed(self._depth), self._unknown(held)
        missing = self.remote.gateway.known_missing([*(one.remote for one in held), *unknown])
        listed, held = ([one for one in objects if one.remote not in missing] for objects in (listed, held))
        unknown = [name for name in unknown if name not in missing]
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

    def ids(self) -> list[Id]:
        """Return the ids of all objects that are kept."""
        return [one.id for one in (*self.objects.held(), *self._waiting.values())]

    def _catch_up(self) -> None:
        """Bring objects up to date with what the replica learnt from other queries that share it."""
        held = [*self.objects.held(), *self._waiting.values()]
        known, values = np.array([one.value for one in held]), self._values([one.remote for one in held])
        differ = np.flatnonzero((known != values) & ~(np.isnan(known) & np.isnan(values)))
        self.learn({held[row].remote: float(values[row]) for row in differ.tolist()})

    def learn(self, changed: dict[Id, float]) -> None:
        """Update the objects with new values by remote id, NaN where there is none; those that waited arrive now."""
        found = [one for one in self._waiting.values() if not np.isnan(changed.get(one.remote, np.nan))]
        if found:  # first: their scores are known, those of other objects outside the list are only bounded
            self._take(_arrivals(_columns(found)))
        if changed:
            self.objects.change(changed)

    def _unknown(self, held: Sequence[JoinedObject]) -> list[Id]:
        """Return the remote ids that objects wait for: never fetched ones first, then the best on the stream's side."""
        lacking = [*(one for one in held if np.isnan(one.value)), *self._waiting.values()]
        if not lacking:
            return []
        remotes = list(dict.fromkeys(one.remote for one in sorted(lacking, key=self._promise)))
        never = self.remote.replica.view(remotes).never
        return [remotes[place] for place in np.argsort(~never, kind="stable").tolist()]

    def _promise(self, one: JoinedObject) -> Rank:
        """Return the place of an object by the stream's side alone; smaller is better."""
        return -one.stream if self.objects.order == "desc" else one.stream, -one.time, one.id

    def _leave_behind(self, window: int) -> None:
        kept = [one for one in self._waiting.values() if one.end >= window]
        most = 10 * self._depth + 1_000
        if len(kept) > most:
            kept.sort(key=self._promise)
            self._forgot_to = max(self._forgot_to, *(one.end for one in kept[most:]))
            kept = kept[:most]
        self._waiting = {one.id: one for one in kept}

    def _answer(self, window: int, now: int, refreshed: Refreshed) -> JoinedAnswer:
        held = self.objects.held()
        whole = self._chosen(held)
        chosen = whole[: self.max_rows]
        ages = self.remote.replica.view([one.remote for one in chosen]).age(now).tolist()
        ranks = [None] * len(chosen) if self.k is None else range(1, len(chosen) + 1)
        rows = [
            JoinedRow(rank, one.id, score_of(one.merit, self.objects.order), one.time, one.stream, one.value, age)
            for rank, one, age in zip(ranks, chosen, ages, strict=True)
        ]
        seen = self.remote.replica.view([one.remote for one in held])
        waiting = self.remote.replica.view([one.remote for one in self._waiting.values()])
        fresh = bool((seen.age(now) == 0).all()) and bool((waiting.age(now) == 0).all())
        return JoinedAnswer(
            start=self.windows.start(window), end=self.windows.end(window), rows=rows,
            refreshes=len(refreshed.answered), failures=len(refreshed.failed),
            stale=sum(row.age != 0 for row in rows), unknown=int(waiting.never.sum() + seen.never.sum()),
            exact=fresh and self.objects.complete and window > self._forgot_to and len(chosen) == len(whole),
            cut=len(whole) - len(chosen),
        )  # fmt: skip

    def _chosen(self, held: list[JoinedObject]) -> list[JoinedObject]:
        """Return the objects of the answer, in its order."""
        if self.condition is None:
            assert self.k is not None
            return self.objects.best(self.k)
        passed = [one for one in held if self.condition(one.value) and is_number(one.merit)]
        return sorted(passed, key=lambda one: one.id) if self.k is None else passed[: self.k]

    # Snapshots.

    def state(self) -> State:
        """Return everything but the replica, which may be shared, as plain values and tables."""
        meta, tables = self.objects.state()
        inner = {f"objects/{name}": table for name, table in tables.items()}
        return (
            {"objects": meta, "election": self.election.state(), "forgot_to": self._forgot_to},
            inner | {"waiting": pa.table(_columns(self._waiting.values()))},
        )

    def load(self, state: State) -> None:
        """Take over what `state` returned, with the same parameters, and the replica of that time, as before."""
        meta, tables = state
        inner = {name.removeprefix("objects/"): table for name, table in tables.items() if name.startswith("objects/")}
        self.objects.load((meta["objects"], inner))
        self.election.load(meta["election"])
        self._forgot_to = meta["forgot_to"]
        waiting = _arrivals(tables["waiting"].to_pydict())
        self._waiting = {one.id: one for one in waiting.objects(waiting.value, self.windows)}


def _columns(objects: Iterable[JoinedObject]) -> dict[str, list[Any]]:
    """Return what the stream said of objects without a remote value."""
    return {name: [getattr(one, name) for one in objects] for name in ("id", "stream", "time", "remote")}


def _arrivals(columns: dict[str, list[Any]]) -> Arrivals:
    return Arrivals.of(columns["id"], columns["stream"], columns["time"], remote=columns["remote"])
