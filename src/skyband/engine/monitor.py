"""The engine-free core: push events, advance time, get answers; queries come and go in between."""

from __future__ import annotations

import logging
import time as clock
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa

from skyband import algorithms
from skyband.answers.answer import AnswerBlock, Answers
from skyband.answers.place import Place, Stands
from skyband.engine import snapshot
from skyband.engine.aggregates import AggregateGroup
from skyband.engine.explain import counted
from skyband.engine.groups import QueryGroup, ReducedBatch, Stream
from skyband.engine.intake import MOST_ROWS, Intake, Sink, StreamConsumer
from skyband.engine.joins import JoinGroup
from skyband.engine.plans import PartialsPlan, PendingBackfill, QueryState, RankingPlan
from skyband.engine.ranking import RankingGroup
from skyband.engine.schema import check_names
from skyband.engine.stats import Stats, Work
from skyband.errors import InputError, QueryError, SnapshotError, TooManyWindows
from skyband.events.batch import EventBatch, StreamColumns, TimeUnit, as_batches
from skyband.order import IntArray
from skyband.queries.query import Query
from skyband.remote.remote import Remote, as_remotes
from skyband.times import microseconds_of
from skyband.windows import ALWAYS, NEVER, Backfill, Schedule

logger = logging.getLogger(__name__)
KINDS: tuple[type[QueryGroup], ...] = (RankingGroup, AggregateGroup, JoinGroup)
"""The kinds of queries; groups are listed, and numbered, in this order."""
T = TypeVar("T")
R = TypeVar("R")


class Monitor(StreamConsumer):
    """Keeps what queries over one stream may still answer with, and answers them.

    Parameters
    ----------
    queries
        The queries to begin with; more can be registered later.
    algorithm
        Which algorithm keeps the candidates, perhaps with options, as in ``"pa(error=1e-4)"``;
        `skyband.algorithms.ALGORITHMS` lists them.
    time, id
        The stream's columns of event times and ids.
    time_unit
        The unit of times that are whole numbers ("s", "ms", "us", "ns"); microseconds when left out.
    on_late, on_rejected
        Called with the rows that missed all their windows, and with those that lack a score, a time or an id.
    services
        What joined queries join with, by name: a `Remote`, a service, or a function from ids to values.

    Examples
    --------
    >>> from skyband import Query, Window
    >>> monitor = Monitor([Query("top", k=2, score="x", window=Window(10))], time="t", id="name")
    >>> monitor.push({"t": [1, 3, 12], "name": ["a", "b", "c"], "x": [5.0, 7.0, 1.0]})
    <0 answers, 0 rows>
    >>> [[row.id for row in answer.rows] for answer in monitor.advance(12)]
    [['b', 'a']]
    """

    def __init__(
        self,
        queries: Sequence[Query] = (),
        *,
        algorithm: str = "staircase",
        time: str = "time",
        id: str = "id",  # noqa: A002 - the word for it
        time_unit: TimeUnit | None = None,
        on_late: Sink | None = None,
        on_rejected: Sink | None = None,
        services: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(Intake(StreamColumns(time, id, time_unit), on_late=on_late, on_rejected=on_rejected))
        self.stream = Stream(self.source, algorithms.find(algorithm), as_remotes(services))
        self.groups: list[QueryGroup] = []
        self._served: dict[str, QueryGroup] = {}  # by the queries' names, in the order in which they were registered
        self.watermark: int | None = None
        self._work = Work()
        if queries:
            self.register(*queries)

    # Events in, answers out.

    def push(self, batch: Any, *, not_after: int | datetime | None = None) -> Answers:
        """Take in events: an Arrow batch or table, a data frame, or a list of dicts.

        Parameters
        ----------
        batch
            The events.
        not_after
            Rows with a later time are rejected, and counted as `ahead`; they do not count as seen.

        Returns
        -------
        The answers of count windows that are now full. Time windows wait for `advance`.
        """
        return self._push(batch, self.groups, not_after)

    def merge(
        self, rows: Any = None, partials: Mapping[str, ReducedBatch] | None = None, *,
        not_after: int | datetime | None = None,
    ) -> Answers:  # fmt: skip
        """Take in a batch that is reduced elsewhere to what its queries need of it.

        Parameters
        ----------
        rows
            Its rows that may matter to queries that rank events.
        partials
            For each query that ranks ids, by name, the batch as partials. Where queries rank events too, it is their
            rows that late and rejected ones are counted by, for all.
        not_after
            Rows with a later time are rejected.
        """
        ranking = [group for group in self.groups if group.takes == "rows"]
        answers = Answers() if rows is None else self._push(rows, ranking, not_after)
        if partials:
            for group in self.groups:
                group.merge(partials)
            self.intake.newest = max(self.newest, *(part.newest for part in partials.values()))
            for name in () if ranking else ("late", "partly_late", "rejected", "ahead"):
                most = max(getattr(part, name) for part in partials.values())
                setattr(self.intake.counts, name, getattr(self.intake.counts, name) + most)
        return answers

    def _push(self, batch: Any, groups: Sequence[QueryGroup], not_after: int | datetime | None) -> Answers:
        began = clock.perf_counter()
        blocks: list[AnswerBlock] = []
        for rows in self.intake.batches(batch, groups, not_after):
            self.intake.note(rows, [seen for group in groups for seen in _naming(group, group.push, rows)])
            blocks += self._answer(groups, None)
        self._work.batches += 1
        self._work.push_seconds += clock.perf_counter() - began
        return self._answers(blocks, 0.0)

    def advance(self, watermark: int | datetime | None = None) -> Answers:
        """Let event time pass: answer every window that ends by the watermark.

        Parameters
        ----------
        watermark
            Microseconds or a time; one below the last is ignored. None closes no window, but shows what
            ``emit="early"`` queries have so far.
        """
        began = clock.perf_counter()
        blocks: list[AnswerBlock] = []
        if watermark is not None:
            mark = max(microseconds_of(watermark), self._mark)
            blocks = self._answer(self.groups, mark)
            self.watermark = mark
        blocks += [block for group in self.groups for block in group.early()]
        return self._answers(blocks, began)

    def finish(self) -> Answers:
        """Answer every window that contains an event: the input has ended."""
        began = clock.perf_counter()
        return self._answers(self._answer(self.groups, ALWAYS), began)

    def _answer(self, groups: Sequence[QueryGroup], watermark: int | None) -> list[AnswerBlock]:
        """Answer the windows that a watermark closes; where these are too many, nothing has changed."""
        closing = [(group, limits) for group in groups if (limits := group.limits(watermark)) is not None]
        due = [_naming(group, group.due, limits) for group, limits in closing]
        pairs = zip(closing, due, strict=True)
        return [block for (group, limits), windows in pairs for block in group.answer(windows, limits)]

    @property
    def _mark(self) -> int:
        return NEVER if self.watermark is None else self.watermark

    def push_changes(self, service: str, values: Mapping[Any, float | None], at: int | datetime | None = None) -> None:
        """Take in changes that the remote side pushes by itself; they cost no budget.

        They count for every object of the coming windows, whether a policy keeps it in its list or not.

        Parameters
        ----------
        service
            The service's name.
        values
            By remote id; None where there is no such id any more.
        at
            Since when they are true: a value that is known from later on stays. Where it is left out, they are true
            since the watermark, and newer than all that is known.

        Examples
        --------
        >>> from skyband import Join, Query, Window
        >>> liked = Query("liked", k=1, score="x + likes", window=Window(10), join=Join("likes", budget=0))
        >>> monitor = Monitor([liked], time="t", id="name", services={"likes": lambda ids: {}})
        >>> _ = monitor.push([{"t": 1, "name": "a", "x": 1.0}, {"t": 2, "name": "b", "x": 2.0}])
        >>> monitor.push_changes("likes", {"a": 30.0, "b": 20.0}, at=9)
        >>> [(row.id, row.score, row.age) for row in monitor.advance(10)[0].rows]
        [('a', 31.0, 1)]
        """
        if service not in self.remotes:
            msg = f"there is no service {service!r}; there are {', '.join(map(repr, self.remotes)) or 'none'}"
            raise InputError(msg)
        remote = self.remotes[service]
        known = remote.replica.view(list(values)).refreshed
        # What is pushed now is newer than all that is known of it, even if that was known from after the watermark on.
        since = max(self._mark, NEVER + 1, int(known.max(initial=NEVER))) if at is None else microseconds_of(at)
        changed = remote.push_changes(values, since)
        for group in self.groups:
            group.learn(remote, changed)

    def declare(self, schema: pa.Schema) -> None:
        """Say which columns the stream has before any event shows them; queries over others are refused."""
        self.intake.declare(schema, self.groups)

    def _answers(self, blocks: list[AnswerBlock], began: float) -> Answers:
        order = self._order(blocks) if blocks else None
        answers = Answers(blocks, order, self.intake.plain, self.watermark, self._work.batches)
        self.intake.counts.rejected += sum(group.take_unfit() for group in self.groups)
        if blocks:
            self._work.answers += len(answers)
            self._work.answer_rows += answers.rows
        self._work.answer_seconds += clock.perf_counter() - began if began else 0.0
        return answers

    def _order(self, blocks: Sequence[AnswerBlock]) -> tuple[IntArray, IntArray] | None:
        """Order answers by the ends of their windows, then as their queries were registered; None: they are so."""
        number = np.repeat(np.arange(len(blocks)), [len(block.end) for block in blocks])
        place = np.concatenate([np.arange(len(block.end)) for block in blocks])
        ends = np.concatenate([block.end for block in blocks])
        rank = {name: i for i, name in enumerate(self._served)}
        turn = np.concatenate([np.array([rank[n] for n in block.names])[block.query] for block in blocks])
        # Windows that are closed on different sides end at one moment and are due at different ones.
        if len(blocks) == 1 and np.all((ends[1:] > ends[:-1]) | ((ends[1:] == ends[:-1]) & (turn[1:] >= turn[:-1]))):
            return None
        sort = np.lexsort((turn, ends, np.array([block.provisional for block in blocks])[number]))
        return number[sort], place[sort]

    # Queries that come and go.

    @property
    def queries(self) -> list[Query]:
        """The queries, in the order in which they were registered."""
        known = {query.name: query for group in self.groups for query in group.queries}
        return [known[name] for name in self._served]

    @property
    def remotes(self) -> dict[str, Remote]:
        """What joined queries join with, by name."""
        return self.stream.remotes

    def register(self, *queries: Query, history: bool = False) -> list[Backfill | None]:
        """Serve more queries from the next batch on.

        A query is exact at once where the kept candidates suffice. Otherwise its answers are flagged "warming up" until
        a whole window has passed, or `fill` has brought what it misses; an answer that can be proven to miss nothing is
        exact before. Joined and aggregated queries always warm up.

        Parameters
        ----------
        queries
            The queries.
        history
            Whether what they miss of the stream's past will be given by `fill`.

        Returns
        -------
        What each query misses of the stream's past; None: nothing.
        """
        check_names(queries, self._served)
        missed: list[tuple[QueryGroup, Backfill | None] | None] = []
        checked: set[Hashable] = set()  # of a thousand queries that rank alike, one
        alike: dict[Hashable, list[Query]] = {}
        for query in queries:
            kind, group = _kind(query), self._find_group(query)
            key = kind.key(query)
            like = (key, query.carried, query.window.kind)
            if kind.checks_each or (group is None and like not in checked):
                kind.check(query, self.stream, self.schema)
                checked.add(like)
            missed.append(self._missed(query, group))
            alike.setdefault(key, []).append(query)
        served: dict[str, QueryGroup] = {}
        for members in alike.values():
            for query in sorted(members, key=lambda query: -len(query.carried)):  # others may share what these select
                served[query.name] = self._find_group(query) or self._new_group(query)
            for group in dict.fromkeys(served[query.name] for query in members):
                self._add(group, [query for query in members if served[query.name] is group])
        self._served |= {query.name: served[query.name] for query in queries}
        for query, found in zip(queries, missed, strict=True):
            if found is not None and found[1] is not None:
                self._schedule(query.name).backfill = replace(found[1], state="pending" if history else "missing")
        logger.info("serving %d queries in %d groups", len(self._served), len(self.groups))
        return [found and _in_time(*found) for found in missed]

    def backfill_for(self, query: Query) -> Backfill | None:
        """Return what a query, were it registered now, would miss of the past; None when it would not.

        Count windows cannot look back: events of the past have no arrival numbers.
        """
        found = self._missed(query, self._find_group(query))
        return found and _in_time(*found)

    def _missed(self, query: Query, group: QueryGroup | None) -> tuple[QueryGroup, Backfill | None] | None:
        """Return the group that would serve a query and what it would miss, on the axis of its windows.

        None where no query could miss anything yet; `group` is the one that can serve it now, if there is one.
        """
        if query.window.counts or self.newest == NEVER or self.watermark is None:
            return None
        group = group or _kind(query).of(query, self.stream, self.newest)
        schedule = Schedule.of(query.name, query.most_rows, query.window)
        schedule.closed_to = group.position(self.watermark)
        return group, group.backfill_for(schedule, self.newest)

    def fill(self, name: str, history: Any) -> None:
        """Give a query what it misses of the past: all events of that interval, for its group; others are left out.

        Raises
        ------
        QueryError
            When the query misses nothing that can be given: `register` and `backfill_for` return what it does.
        """
        group, schedule = self._group(name), self._schedule(name)
        if schedule.backfill is None or self.schema is None:
            msg = "it misses nothing of the past that can be filled in; `backfill_for` says what a query would miss"
            raise QueryError(msg, name)
        low, high = map(group.moment, schedule.still_missing())
        batches = [_between(batch, self.source, low, high) for batch in as_batches(history, MOST_ROWS)]
        if any(batch.num_rows for batch in batches):
            batch = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
            try:
                group.bind(batch.schema, self.source)
                group.fill(EventBatch(batch, self.source), schedule)
            finally:
                group.bind(self.schema, self.source)
        else:
            group.fill(None, schedule)

    def unregister(self, name: str) -> None:
        """Stop serving a query; what is known of the service that it joined with stays."""
        group = self._group(name)
        group.remove(name)
        if not group.queries:
            self.groups.remove(group)
        del self._served[name]

    def change(self, query: Query) -> None:
        """Put a query in the place of the one with its name; what is kept serves it as far as it goes."""
        name, group = query.name, self._group(query.name)
        paused, previous, order = self._schedule(name).paused, group.comparable(query), list(self._served)
        _kind(query).check(query, self.stream, self.schema)
        self.backfill_for(query)  # refuses too many windows while the present query is still there
        if self._find_group(query) is group:
            group.remove(name)
            self._add(group, [query])
        else:
            self.unregister(name)
            self.register(query)
            self._served = {other: self._served[other] for other in order}
        if previous is not None and query.emits_changes:
            self._group(name).answers.previous[name] = previous
        self._schedule(name).paused = paused

    def pause(self, name: str) -> None:
        """Stop showing a query's answers; its windows pass, and what they need is kept."""
        self._schedule(name).paused = True

    def resume(self, name: str) -> None:
        """Show a paused query's answers again, from its next window on."""
        self._schedule(name).paused = False

    def _group(self, name: str) -> QueryGroup:
        """Return the group that serves a query."""
        if name not in self._served:
            msg = f"there is no query {name!r}; there are {', '.join(map(repr, self._served)) or 'none'}"
            raise QueryError(msg)
        return self._served[name]

    def _schedule(self, name: str) -> Schedule:
        """Return the windows of a query."""
        return self._group(name).schedule(name)

    def _find_group(self, query: Query) -> QueryGroup | None:
        """Return the group that can serve a query, if there is one; of several the one that is exact first."""
        able = [group for group in self.groups if group.serves(query)]
        if len(able) < 2:
            return able[0] if able else None
        return min(able, key=lambda group: group.exact_from(Schedule.of(query.name, query.most_rows, query.window)))

    def _new_group(self, query: Query) -> QueryGroup:
        """Make a group for queries like one."""
        group = _kind(query).of(query, self.stream, self.newest)
        self.groups = sorted([*self.groups, group], key=lambda group: KINDS.index(type(group)))
        return group

    def _add(self, group: QueryGroup, queries: Sequence[Query]) -> None:
        group.add(queries, self._mark, self.newest)
        if self.schema is not None:
            group.bind(self.schema, self.source)

    # For those who reduce batches elsewhere.

    def ranking_plans(self) -> list[RankingPlan]:
        """Return which events queries that rank them need, by group."""
        return [plan for group in self.groups for plan in group.ranking_plans()]

    def partials_plans(self) -> list[PartialsPlan]:
        """Return which partials queries that rank ids need; those that need the same share a plan."""
        found: dict[Hashable, PartialsPlan] = {}
        for key, plan in [each for group in self.groups for each in group.partials_plans()]:
            if found.setdefault(key, plan) is not plan:
                found[key].queries.extend(plan.queries)
        return list(found.values())

    def backfills(self) -> list[PendingBackfill]:
        """Return what queries wait for of the past, as far as the watermark says that all of it is there."""
        waiting = [
            PendingBackfill(s.name, group.queries, *map(group.moment, s.still_missing()))
            for group in self.groups
            for s in group.schedules
            if s.pending
        ]
        return [past for past in waiting if past.high <= self._mark]

    def next_end(self, after: int) -> int | None:
        """Return when the next window ends after a time."""
        ends = [
            group.moment(s.first_end_after(group.position(after))) for group in self.groups for s in group.schedules
        ]
        return min(ends, default=None)

    # Looking inside.

    def statuses(self) -> dict[str, QueryState]:
        """Tell how each query is served, in the order in which they were registered."""
        found = {name: self._schedule(name) for name in self._served}
        return {name: "paused" if s.paused else "waiting" if s.pending else "active" for name, s in found.items()}

    def rank_of(self, name: str, id: int | str, *, partition: Any = None) -> Place:  # noqa: A002 - the word for it
        """Tell where an id stands now, who is just above and who just below.

        The current window is looked at: of the windows that hold the newest event, the first to end. It is still open,
        so this is provisional. Queries that rank events know it of the ids in their answer, that is within k; queries
        with aggregates of all ids.

        Parameters
        ----------
        name
            The query; one that joins is refused, since it learns remote values only when a window closes.
        id
            The id. A text also names an integer that is written so.
        partition
            Of a query with partitions, which of them; where it is left out, that in which the id ranks best.

        Examples
        --------
        >>> from skyband import Query, Window
        >>> most = Query("most", k=2, score="sum(x)", window=Window(10))
        >>> monitor = Monitor([most], time="t", id="name")
        >>> _ = monitor.push({"t": [1, 2, 3, 4], "name": ["a", "b", "c", "a"], "x": [5.0, 7.0, 1.0, 4.0]})
        >>> found = monitor.rank_of("most", "c")
        >>> found.rank, found.score, found.above.id, found.below
        (3, 1.0, 'b', None)
        >>> monitor.rank_of("most", "z").stands
        'absent'
        """
        group = self._group(name)
        block = group.current(name)
        unranked: Stands = "below k" if group.takes == "rows" else "absent"
        if block is None:
            return Place(name, id, "absent")
        (answer,) = Answers([block], None, self.intake.plain, self.watermark, self._work.batches)
        return Place.among(
            answer.rows, name, id, partition=partition, unranked=unranked,
            start=answer.start, end=answer.end, exact=answer.exact, why=answer.why, provisional=True,
        )  # fmt: skip

    def stats(self) -> Stats:
        """Return the numbers so far."""
        groups = tuple(stats for group in self.groups for stats in group.stats())
        return Stats(**asdict(self._work), **asdict(self.intake.counts), groups=groups)

    def explain(self) -> str:
        """Say which queries share what, the panes and the staircase, and why."""
        rankings = sum(group.takes == "rows" for group in self.groups)
        shared = f" in {counted(rankings, 'group')}, algorithm {self.stream.algorithm.notation()!r}" if rankings else ""
        lines = [counted(len(self._served), "query") + shared]
        for number, group in enumerate(self.groups, 1):
            lines += ["", *group.explain(number)]
        return "\n".join(lines)

    # Snapshots.

    def snapshot(self) -> bytes:
        """Return everything as bytes, detached from the live state; `restore` continues from them."""
        intake, tables = self.intake.state()
        meta = {
            "algorithm": self.stream.algorithm.notation(),
            "order": list(self._served),
            "watermark": self.watermark,
            "stats": asdict(Stats(**asdict(self._work))),
            "intake": intake,
            "groups": [group.kind for group in self.groups],
            "services": list(self.remotes),
        }
        states = [*(group.state() for group in self.groups), *(remote.state() for remote in self.remotes.values())]
        return snapshot.encode(meta, tables, states)

    @classmethod
    def restore(
        cls,
        blob: bytes,
        *,
        on_late: Sink | None = None,
        on_rejected: Sink | None = None,
        services: Mapping[str, Any] | None = None,
    ) -> Self:
        """Make a monitor that goes on where `snapshot` was called.

        Parameters
        ----------
        blob
            What `snapshot` returned.
        on_late, on_rejected
            As for a new monitor.
        services
            What joined queries join with; what was known of them comes from the snapshot.

        Raises
        ------
        SnapshotError
            When the bytes are no snapshot, of another version, or damaged.
        QueryError
            When a query joins with a service that is not given.

        Examples
        --------
        >>> from skyband import Query, Window
        >>> monitor = Monitor([Query("top", k=1, score="x", window=Window(10))], time="t", id="t")
        >>> _ = monitor.push([{"t": 1, "x": 5.0}])
        >>> [row.score for row in Monitor.restore(monitor.snapshot()).advance(10)[0].rows]
        [5.0]
        """
        meta, tables, states = snapshot.decode(blob)
        if "order" not in meta:
            msg = "this is a snapshot of subscriptions; restore it with Subscriptions.restore"
            raise SnapshotError(msg)
        monitor = cls(
            algorithm=meta["algorithm"], on_late=on_late, on_rejected=on_rejected, services=services,
            **meta["intake"]["source"],
        )  # fmt: skip
        monitor.watermark = meta["watermark"]
        monitor._work = Work(**{name: meta["stats"][name] for name in asdict(monitor._work)})
        groups, known = states[: len(meta["groups"])], states[len(meta["groups"]) :]
        for name, state in zip(meta["services"], known, strict=True):
            if name in monitor.remotes:
                monitor.remotes[name] = monitor.remotes[name].restored(state)
        kinds = {kind.kind: kind for kind in KINDS}
        pairs = zip(meta["groups"], groups, strict=True)
        monitor.groups = [kinds[kind].load(state, monitor.stream) for kind, state in pairs]
        served = {query.name: group for group in monitor.groups for query in group.queries}
        monitor._served = {name: served[name] for name in meta["order"]}
        # Those that take partials know their columns: what comes as rows need not have them.
        monitor.intake.load((meta["intake"], tables), [group for group in monitor.groups if group.takes == "rows"])
        return monitor


def _between(batch: pa.RecordBatch, source: StreamColumns, low: int, high: int) -> pa.RecordBatch:
    """Leave of events of the past those that a query misses and still needs."""
    time = EventBatch(batch, source).time
    return batch.filter(pa.array((time >= low) & (time < high)))


def _in_time(group: QueryGroup, missing: Backfill | None) -> Backfill | None:
    """Return what a query misses, from one moment to another."""
    return missing and replace(missing, low=group.moment(missing.low), high=group.moment(missing.high))


def _kind(query: Query) -> type[QueryGroup]:
    return next(kind for kind in KINDS if kind.handles(query))


def _naming(group: QueryGroup, do: Callable[[T], R], what: T) -> R:
    """Do something with a group; where it has too many windows, name the query that asks for the most."""
    try:
        return do(what)
    except TooManyWindows as error:
        error.query = min(group.queries, key=lambda query: query.window.slide).name
        raise
