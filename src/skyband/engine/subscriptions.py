"""Thousands of subscriptions to one stream, each with a score of its own: who hears of which event, and when."""

from __future__ import annotations

import time as clock
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Self

import numpy as np
import pyarrow as pa

from skyband import algorithms
from skyband.algorithms.topkw.sliding import Sliding
from skyband.answers.answer import Row
from skyband.answers.notices import COLUMNS, Notices
from skyband.engine import snapshot
from skyband.engine.intake import BatchOutcome, Intake, Sink, StreamConsumer
from skyband.engine.subscription_group import GroupKey, SubscriptionGroup
from skyband.errors import InputError, QueryError, SnapshotError
from skyband.events.batch import EventBatch, StreamColumns, TimeUnit
from skyband.queries.subscription import Subscription
from skyband.times import microseconds_of
from skyband.windows import NEVER

KIND = "subscriptions"  # what a snapshot is of
APART = 16  # conditions of which each has a group of its own, among subscriptions that are alike otherwise


@dataclass(frozen=True)
class SubscriptionGroupStats:
    """Subscriptions that share an engine: what they look at, how many, and how many events are kept for them.

    `method_in_use` is what an algorithm that chooses by what it sees uses now, and why.
    """

    looks_at: str
    subscriptions: int
    events: int
    kept: int
    late: int
    method_in_use: str = ""


@dataclass(frozen=True)
class SubscriptionStats:
    """The life of subscriptions so far.

    `rows` came in; `rejected` of them had no time, no id, or not what a subscription looks at, or were `ahead`: later
    than they may be; `late` had left every window when they came. `notices` went out. `waiting` subscriptions are not
    active yet. `seconds` were spent.
    """

    batches: int = 0
    rows: int = 0
    rejected: int = 0
    ahead: int = 0
    notices: int = 0
    seconds: float = 0.0
    waiting: int = 0
    groups: tuple[SubscriptionGroupStats, ...] = ()

    @property
    def late(self) -> int:
        """How many events had left every window of some group when they came."""
        return sum(group.late for group in self.groups)

    @property
    def kept(self) -> int:
        """How many events are kept."""
        return sum(group.kept for group in self.groups)


class Subscriptions(StreamConsumer):
    """Follows the best events of each subscription, event by event, and tells what changes.

    Parameters
    ----------
    subscriptions
        Those to begin with; more can be added later.
    algorithm
        What keeps the best: ``"blocks"``, or one of the published algorithms for windows that slide with every event,
        perhaps with options, as in ``"rapf(buffer=500)"``.
    time, id
        The stream's columns of event times and ids.
    time_unit
        The unit of times that are whole numbers; microseconds when left out.
    select
        Columns of the stream to carry into notices.
    on_rejected
        Called with the rows that lack a time, an id, or what a subscription looks at.

    Examples
    --------
    >>> import skyband as sb
    >>> near = sb.Subscription("ann", k=1, score=sb.Distance({"x": 0.0}), last="3 events", emit="changes")
    >>> subscriptions = sb.Subscriptions([near], time="t", id="name")
    >>> for notice in subscriptions.push({"t": [1, 2, 3, 4], "name": ["a", "b", "c", "d"], "x": [5.0, 1.0, 3.0, 2.0]}):
    ...     print(notice.at, notice.change, notice.id, notice.score)
    1 entered a 5.0
    2 left a 5.0
    2 entered b 1.0
    >>> [row.id for row in subscriptions.top("ann")]
    ['b']
    """

    def __init__(
        self,
        subscriptions: Sequence[Subscription] = (),
        *,
        algorithm: str = "blocks",
        time: str = "time",
        id: str = "id",  # noqa: A002 - the word for it
        time_unit: TimeUnit | None = None,
        select: Sequence[str] = (),
        on_rejected: Sink | None = None,
    ) -> None:
        self.algorithm = find(algorithm)
        self.select = tuple(select)
        if taken := [name for name in self.select if name in (*COLUMNS, "row")]:
            msg = (
                f"select names {', '.join(map(repr, taken))}, which notices have already; leave them out or rename them"
            )
            raise QueryError(msg)
        super().__init__(Intake(StreamColumns(time, id, time_unit), self.select, on_rejected=on_rejected))
        self.groups: dict[GroupKey, SubscriptionGroup] = {}
        self.waiting: dict[str, Subscription] = {}  # until they become active
        self.ends: dict[str, int] = {}  # of those that end by themselves
        self._stats = SubscriptionStats()
        self.add(*subscriptions)

    # Subscriptions come and go.

    @property
    def subscriptions(self) -> dict[str, Subscription]:
        """All subscriptions by name, those that wait to become active too."""
        return {name: one for group in self.groups.values() for name, one in group.members.items()} | self.waiting

    def add(self, *subscriptions: Subscription) -> None:
        """Let subscriptions see the events from now on, or from when they say.

        Raises
        ------
        QueryError
            When a name is taken, or what it looks at is not in the stream; then none of them was added.
        """
        known = self.subscriptions
        for one in subscriptions:
            if one.name in known:
                msg = f"there is a subscription {one.name!r} already; remove it first, or choose another name"
                raise QueryError(msg)
            known[one.name] = one
        for kind, alike in self._alike(subscriptions).items():
            self._check(kind, alike)
        later = [one for one in subscriptions if one.starts is not None and one.starts > self.newest]
        self.waiting |= {one.name: one for one in later}
        self.ends |= {one.name: one.ends for one in subscriptions if one.ends is not None}
        self._activate([one for one in subscriptions if one.name not in self.waiting])

    def _alike(self, subscriptions: Sequence[Subscription]) -> dict[GroupKey, list[Subscription]]:
        """Return which subscriptions go into which group, those that there are and new ones.

        A few conditions have groups of their own, which see only events that meet them. Further ones share a group: it
        is the number of groups that costs.
        """
        apart = Counter(kind.pooled() for kind in self.groups)
        alike: dict[GroupKey, list[Subscription]] = {}
        for one in subscriptions:
            kind = GroupKey.of(one)
            pool = kind.pooled()
            if pool is not None and kind not in self.groups and kind not in alike:
                kind = kind if apart[pool] < APART else pool
                apart[pool] += kind is not pool
            alike.setdefault(kind, []).append(one)
        return alike

    def _check(self, kind: GroupKey, subscriptions: Sequence[Subscription]) -> None:
        counted = {group.counts for group in self.groups} | {one.extent[1] for one in self.waiting.values()}
        if counted | {kind.counts} == {True, False}:
            msg = "some windows count events and some are in time; give each kind Subscriptions of its own"
            raise QueryError(msg, subscriptions[0].name)
        if self.schema is not None and (kind.pool or kind not in self.groups):
            for one in subscriptions if kind.pool else subscriptions[:1]:
                try:
                    group = SubscriptionGroup(kind, self.algorithm, self.select)
                    group.bind(self.schema, self.source)
                    group.add([one])
                except InputError as error:
                    raise QueryError(str(error), one.name) from None

    def _activate(self, members: Sequence[Subscription]) -> None:
        for kind, some in self._alike(members).items():
            if kind not in self.groups:
                self.groups[kind] = SubscriptionGroup(kind, self.algorithm, self.select)
                if self.schema is not None:
                    self.groups[kind].bind(self.schema, self.source)
            self.groups[kind].add(some)

    def remove(self, *names: str) -> None:
        """End subscriptions."""
        known = self.subscriptions if names else {}
        for name in names:
            if name not in known:
                msg = f"there is no subscription {name!r}; there are {len(known):,}"
                raise QueryError(msg)
        for name in names:
            self.waiting.pop(name, None)
            self.ends.pop(name, None)
        for kind, group in list(self.groups.items()):
            group.remove([name for name in names if name in group.members])
            if not group.members:
                del self.groups[kind]

    def _begin(self, moment: int) -> None:
        """Let subscriptions begin whose time comes by a moment."""
        begun = [one for one in self.waiting.values() if one.starts is None or one.starts <= moment]
        for one in begun:
            del self.waiting[one.name]
        self._activate(begun)

    def _ending(self, moment: int) -> dict[str, int]:
        """Return who ends by a moment, and when."""
        return {name: end for name, end in self.ends.items() if end <= moment}

    # Events in, notices out.

    def push(self, batch: Any, *, not_after: int | datetime | None = None) -> Notices:
        """Take in events, in order of arrival: an Arrow batch or table, a data frame, or a list of dicts.

        Parameters
        ----------
        batch
            The events.
        not_after
            Rows with a later time are rejected, and counted as `ahead`.

        Returns
        -------
        What became of the best of each subscription, event by event.
        """
        began = clock.perf_counter()
        tables: list[pa.Table] = []
        for rows in self.intake.batches(batch, self.groups.values(), not_after):
            tables += self._push(rows)
        return self._notices(tables, began)

    def _push(self, rows: EventBatch) -> list[pa.Table]:
        times = rows.time if rows.valid is None else np.where(rows.valid, rows.time, NEVER)
        moments = np.maximum.accumulate(np.concatenate([[self.newest], times]))[1:]
        if not len(moments):
            return []
        newest = int(moments[-1])
        tables, seen = [], [BatchOutcome(None, np.flatnonzero(times == NEVER), newest=newest)]
        self._begin(newest)
        ending = self._ending(newest)
        for group in self.groups.values():
            notices, without = group.push(rows, moments, self.intake.counts.rows, _of(group, ending))
            tables += notices
            seen.append(BatchOutcome(None, without))
        self.remove(*ending)
        self.intake.note(rows, seen)
        return tables

    def advance(self, moment: int | datetime) -> Notices:
        """Let event time pass without events: what leaves the windows leaves the best. It never goes back."""
        began = clock.perf_counter()
        self.intake.newest = max(self.newest, microseconds_of(moment))
        self._begin(self.newest)
        ending = self._ending(self.newest)
        tables = [t for group in self.groups.values() for t in group.pass_time(self.newest, _of(group, ending))]
        self.remove(*ending)
        return self._notices(tables, began)

    def _notices(self, tables: list[pa.Table], began: float) -> Notices:
        notices = Notices(tables, self.intake.plain)
        self._stats = replace(
            self._stats,
            batches=self._stats.batches + 1,
            notices=self._stats.notices + len(notices),
            seconds=self._stats.seconds + clock.perf_counter() - began,
        )
        return notices

    def declare(self, schema: pa.Schema) -> None:
        """Say which columns the stream has before any event shows them; subscriptions to others are refused."""
        self.intake.declare(schema, self.groups.values())

    # Looking inside.

    def top(self, name: str) -> list[Row]:
        """Return the best events of a subscription as they are now, best first."""
        for group in self.groups.values():
            if name in group.members:
                return group.top(name, self.intake.plain)
        if name in self.waiting:
            return []
        msg = f"there is no subscription {name!r}; there are {len(self.subscriptions):,}"
        raise QueryError(msg)

    def stats(self) -> SubscriptionStats:
        """Return the numbers so far."""
        groups = tuple(
            SubscriptionGroupStats(
                str(kind),
                len(group.members),
                group.arrived,
                group.kept(),
                group.late,
                "" if group.engine is None else group.engine.method_in_use(),
            )
            for kind, group in self.groups.items()
        )
        counts = self.intake.counts
        given = {"rows": counts.rows, "rejected": counts.rejected, "ahead": counts.ahead}
        return replace(self._stats, **given, waiting=len(self.waiting), groups=groups)

    # Snapshots.

    def snapshot(self) -> bytes:
        """Return everything as bytes, detached from the live state; `restore` continues from them."""
        intake, tables = self.intake.state()
        meta = {
            "kind": KIND,
            "algorithm": self.algorithm.notation(),
            "select": self.select,
            "waiting": [one.as_dict() for one in self.waiting.values()],
            "intake": intake,
            "stats": asdict(replace(self._stats, groups=())),
            "text_ids": any(group.store.text_ids for group in self.groups.values() if group.engine is not None),
        }
        return snapshot.encode(meta, tables, [group.state() for group in self.groups.values()])

    @classmethod
    def restore(cls, blob: bytes, *, on_rejected: Sink | None = None) -> Self:
        """Go on where `snapshot` was called.

        Raises
        ------
        SnapshotError
            When the bytes are no snapshot of subscriptions, of another version, or damaged.
        """
        meta, tables, states = snapshot.decode(blob)
        if meta.get("kind") != KIND:
            msg = "this is a snapshot of a Monitor; restore it with Monitor.restore"
            raise SnapshotError(msg)
        self = cls(
            algorithm=meta["algorithm"], select=meta["select"], on_rejected=on_rejected, **meta["intake"]["source"]
        )
        groups = [SubscriptionGroup.load(state, self.algorithm, self.select, meta["text_ids"]) for state in states]
        self.groups = {group.kind: group for group in groups}
        self.waiting = {given["name"]: Subscription.from_dict(given) for given in meta["waiting"]}
        self.ends = {name: one.ends for name, one in self.subscriptions.items() if one.ends is not None}
        self._stats = SubscriptionStats(**{**meta["stats"], "groups": ()})
        self.intake.load((meta["intake"], tables), groups)
        return self


def _of(group: SubscriptionGroup, ending: dict[str, int]) -> dict[str, int]:
    """Return those who end that are members of a group."""
    return {name: end for name, end in ending.items() if name in group.members}


def find(name: str) -> type[Sliding]:
    """Return an algorithm that can follow subscriptions, by its name."""
    algorithm = algorithms.find(name)
    if not issubclass(algorithm, Sliding):
        able = [one.name for one in algorithms.ALGORITHMS.values() if issubclass(one, Sliding)]
        msg = f"{name!r} cannot follow windows that slide with every event; choose one of {', '.join(sorted(able))}"
        raise QueryError(msg)
    return algorithm
