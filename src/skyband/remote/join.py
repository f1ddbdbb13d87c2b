"""A stream joined with remote data that keeps changing, window by window, under a refresh budget.

Paper → code (AcquaTop, figure 8 and algorithm 5):

- line 6 → `RemoteJoin.arrive`
- line 9, UpdateReplica → `RemoteJoin.prepare`, `Remote.refresh`
- lines 10-13 → `RemoteJoin.learn`, `RemoteJoin.conclude`

This is the framework of Figure 8 of AcquaTop, for rankings (made by `skyband.remote.acquatop`) and filters
(`skyband.remote.filter_join`). In one evaluation: the window's objects are there, scored with the replica's values; the
policy elects ids; they are fetched; replica and objects are updated; the answer goes out; the window is left behind. So
a refresh counts for the answer of the same window. A service that is slow, fails or lies makes answers stale, and they
say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.errors import InputError
from skyband.order import NEVER, BoolArray, FloatArray
from skyband.remote.election import Election, Evaluation
from skyband.remote.objects import Arrivals, Ids, JoinedObject, ObjectStore, is_number, score_of
from skyband.remote.remote import Refreshed, Remote
from skyband.remote.services import Traffic
from skyband.remote.services.base import Id

STALE = "remote values are stale or not known"
UNSEEN = "remote values of other objects may be stale"
CUT = "cut at {:,} rows"
Condition = Callable[[Any], Any]
"""Whether a remote value, or each of a column, passes a filter; NaN does not."""


@dataclass(frozen=True)
class JoinedRow:
    """One row of an answer: `stream` and `value` are its two sides. Rows of a set have no rank.

    `age` says how old the remote value is, in microseconds, -1 where it is a default; `bound`, that the score is only
    the least that it can be.
    """

    rank: int | None
    id: Id
    score: float
    time: int
    stream: float
    value: float
    age: int
    bound: bool = False


@dataclass(frozen=True)
class JoinedAnswer:
    """The answer of one window, and how far it can be trusted.

    Parameters
    ----------
    start, end
        Of the window.
    rows
        The best first; those of a set in order of their ids, without ranks.
    refreshes
        Ids whose remote value came for this answer, changed or not; never more than the budget.
    failures
        Ids that were asked for in vain.
    stale
        Rows whose remote value is older than this answer.
    unknown
        Objects of the window of whose remote value nothing is known yet.
    exact
        Whether nothing can be missing or wrong: all objects of the window were refreshed for this answer.
    traffic
        What was asked.
    cut
        How many more rows a set has than an answer may have; they are left out.
    """

    start: int
    end: int
    rows: list[JoinedRow]
    refreshes: int
    failures: int
    stale: int
    unknown: int
    exact: bool
    traffic: Traffic
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

    @property
    def oldest(self) -> int:
        """The age of the oldest remote value among the rows, in microseconds."""
        return max((row.age for row in self.rows), default=0)


class RemoteJoin:
    """A stream joined with a service: objects come in, windows are answered in order.

    Answers are rankings; those of a filter without a `k` are sets, of at most `max_rows` rows.

    Parameters
    ----------
    remote
        The service and its replica; other joins may share it.
    objects
        Where the objects of the coming windows are kept.
    election
        Spends the budget.
    evaluation
        What stays the same in every evaluation.
    k
        How many rows an answer has; None for a set.
    condition
        Which remote values pass; None where there is no filter.
    default
        The remote value of ids of which nothing is known; None leaves them out until it is.
    depth
        How many objects per window the list of the policy has, where it has one. Where nothing else is kept, ten times
        as many and 1,000 more objects without a remote value are remembered, the most promising of them.
    max_rows
        How many rows the answer of a set has at most; a larger one is cut. None for no bound.
    """

    def __init__(
        self, remote: Remote, objects: ObjectStore, election: Election, evaluation: Evaluation, *, k: int | None,
        condition: Condition | None = None, default: float | None = None, depth: int = 0, max_rows: int | None = None,
    ) -> None:  # fmt: skip
        self.remote, self.objects, self.election = remote, objects, election
        self.windows, self.k, self.condition, self.max_rows = evaluation.windows, k, condition, max_rows
        self._evaluation, self._depth = evaluation, depth
        self._default = np.nan if default is None else default
        self._waiting: dict[Id, JoinedObject] = {}  # objects without a remote value, which a list has no place for
        self._forgot_to = NEVER  # the last window of those for which there was no room either

    def arrive(
        self,
        ids: Ids,
        stream: npt.ArrayLike,
        times: npt.ArrayLike,
        remote: Ids | None = None,
    ) -> None:
        """Take in objects of the stream.

        Parameters
        ----------
        ids
            An id that comes again replaces what it was before, if it is not older: so a score that is an aggregate of
            the window (a count of events, say) is given anew for every window.
        stream
            The score of the stream's side; NaN is rejected, and takes away what the id was before.
        times
            Of the event, or of the latest one.
        remote
            The ids on the remote side; the same as `ids` where it is left out. Many objects may share one.
        """
        arrivals = Arrivals.of(ids, stream, times, (), remote)
        if not len(arrivals.id) == len(arrivals.stream) == len(arrivals.time) == len(arrivals.remote):
            msg = (
                f"the columns have {len(arrivals.id)} ids, {len(arrivals.stream)} scores, {len(arrivals.time)} times "
                f"and {len(arrivals.remote)} remote ids; give as many of each"
            )
            raise InputError(msg)
        self._take(arrivals)

    def _take(self, arrivals: Arrivals) -> None:
        value = self._values(arrivals.remote)
        arrivals = Arrivals(arrivals.id, arrivals.stream, arrivals.time, value, arrivals.remote)
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
        """Take in changes that the remote side pushes; they cost no budget.

        Parameters
        ----------
        values
            By remote id; None where there is none any more.
        at
            Since when they are true.
        """
        self.learn(self.remote.push_changes(values, at))

    def evaluate(self, end: int, now: int | None = None) -> JoinedAnswer:
        """Refresh within the budget, and answer the window that ends there.

        Parameters
        ----------
        end
            Of the window, in microseconds. Windows are answered in order; those that are skipped are left behind.
        now
            The time by which remote values age; `end` where it is left out.
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
        return self.election.elect(listed, unknown, held, replace(self._evaluation, now=now))

    def conclude(self, end: int, now: int, refreshed: Refreshed) -> JoinedAnswer:
        """End it with what was refreshed: return the answer, and leave the window behind."""
        window = self.windows.ending(end)
        self.learn(refreshed.changed)
        answer = self._answer(window, now, refreshed)
        self.objects.go_to(window + 1)
        return answer

    def skip(self, end: int) -> None:
        """Leave a window behind that nobody wants an answer of."""
        window = self.windows.ending(end)
        self._leave_behind(window)
        self.objects.go_to(window)
        self.objects.go_to(window + 1)

    def may_ask(self, value: FloatArray) -> BoolArray:
        """Tell of remote values whether an id that has one may be refreshed for an answer."""
        return self.election.may_elect(value, self._evaluation)

    def admits(self, value: FloatArray) -> BoolArray:
        """Tell of remote values whether an object that has one may be in an answer."""
        return ~np.isnan(value) if self.condition is None else np.asarray(self.condition(value), bool)

    def ids(self) -> list[Id]:
        """Return the ids of all objects that are kept."""
        return [one.id for one in (*self.objects.held(), *self._waiting.values())]

    def _catch_up(self) -> None:
        """Bring objects up to date with what the replica learnt from others who share it."""
        held = [*self.objects.held(), *self._waiting.values()]
        known, values = np.array([one.value for one in held]), self._values([one.remote for one in held])
        differ = np.flatnonzero((known != values) & ~(np.isnan(known) & np.isnan(values)))
        self.learn({held[row].remote: float(values[row]) for row in differ.tolist()})

    def learn(self, changed: dict[Id, float]) -> None:
        """Update the objects with what the replica has learnt; those that waited for a value arrive now.

        Parameters
        ----------
        changed
            New values by remote id, NaN where there is none any more. Objects that are not in the list count too.
        """
        found = [one for one in self._waiting.values() if not np.isnan(changed.get(one.remote, np.nan))]
        if found:  # first: their scores are known, those of other objects outside the list are only bounded
            columns = zip(*((one.id, one.stream, one.time, one.remote) for one in found), strict=True)
            names, stream, times, remotes = (list(column) for column in columns)
            self._take(Arrivals.of(names, stream, times, np.full(len(names), np.nan), remotes))
        if changed:
            self.objects.change(changed)

    def _unknown(self, held: Sequence[JoinedObject]) -> list[Id]:
        """Return the remote ids that objects wait for: never fetched ones first, then the best on the stream's side."""
        lacking = [*(one for one in held if np.isnan(one.value)), *self._waiting.values()]
        if not lacking:
            return []
        waiting = sorted(lacking, key=lambda one: (self._worth(one), -one.time, one.id))
        remotes = list(dict.fromkeys(one.remote for one in waiting))
        never = self.remote.replica.view(remotes).never
        return [remotes[place] for place in np.argsort(~never, kind="stable").tolist()]

    def _worth(self, one: JoinedObject) -> float:
        return -one.stream if self._evaluation.order == "desc" else one.stream

    def _leave_behind(self, window: int) -> None:
        kept = [one for one in self._waiting.values() if one.end >= window]
        most = 10 * self._depth + 1_000
        if len(kept) > most:
            kept = sorted(kept, key=lambda one: (self._worth(one), -one.time, one.id))
            self._forgot_to = max(self._forgot_to, *(one.end for one in kept[most:]))
            kept = kept[:most]
        self._waiting = {one.id: one for one in kept}

    def _answer(self, window: int, now: int, refreshed: Refreshed) -> JoinedAnswer:
        held = self.objects.held()
        whole = self._chosen(held)
        chosen = whole[: self.max_rows]
        ages = self.remote.replica.view([one.remote for one in chosen]).age(now).tolist()
        rows = [
            JoinedRow(
                rank if self.k is not None else None,
                one.id,
                score_of(one.merit, self._evaluation.order),
                one.time,
                one.stream,
                one.value,
                age,
                one.bound,
            )
            for rank, (one, age) in enumerate(zip(chosen, ages, strict=True), 1)
        ]
        seen = self.remote.replica.view([one.remote for one in held])
        waiting = self.remote.replica.view([one.remote for one in self._waiting.values()])
        fresh = bool((seen.age(now) == 0).all()) and bool((waiting.age(now) == 0).all())
        return JoinedAnswer(
            start=self.windows.start(window), end=self.windows.end(window), rows=rows,
            refreshes=len(refreshed.answered), failures=len(refreshed.failed),
            stale=sum(row.age != 0 for row in rows), unknown=int(waiting.never.sum() + seen.never.sum()),
            exact=fresh and self.objects.complete and window > self._forgot_to and len(chosen) == len(whole),
            traffic=refreshed.traffic, cut=len(whole) - len(chosen),
        )  # fmt: skip

    def _chosen(self, held: list[JoinedObject]) -> list[JoinedObject]:
        """Return the objects of the answer, in its order."""
        if self.condition is None:
            assert self.k is not None
            return self.objects.best(self.k)
        passed = [one for one in held if self.condition(one.value) and is_number(one.merit)]
        return sorted(passed, key=lambda one: one.id) if self.k is None else passed[: self.k]

    # Snapshots.

    def state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        """Return everything but the replica, which may be shared, as plain values and tables."""
        meta, tables = self.objects.state()
        waiting = list(self._waiting.values())
        columns = {name: [getattr(one, name) for one in waiting] for name in ("id", "stream", "time", "remote")}
        return (
            {"objects": meta, "election": self.election.state(), "forgot_to": self._forgot_to},
            {f"objects/{name}": table for name, table in tables.items()} | {"waiting": pa.table(columns)},
        )

    def load(self, state: tuple[dict[str, Any], dict[str, pa.Table]]) -> None:
        """Take over what `state` returned, with the same parameters, and the replica of that time, as before."""
        meta, tables = state
        inner = {name.removeprefix("objects/"): table for name, table in tables.items() if name.startswith("objects/")}
        self.objects.load((meta["objects"], inner))
        self.election.load(meta["election"])
        self._forgot_to = meta["forgot_to"]
        columns = tables["waiting"].to_pydict()
        nothing = np.full(len(columns["id"]), np.nan)
        part = Arrivals.of(columns["id"], columns["stream"], columns["time"], nothing, columns["remote"])
        self._waiting = {one.id: one for one in part.objects(nothing, self.windows)}
