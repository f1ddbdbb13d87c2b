"""The engine-free core: push events, advance time, get answers; queries come and go in between."""

from __future__ import annotations

import logging
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa

from skyband.algorithms.stkqf.skyline import Backfill
from skyband.answers.answer import AnswerBlock, Answers
from skyband.engine import snapshot
from skyband.engine.explain import explain
from skyband.engine.intake import BatchOutcome, outcome
from skyband.engine.joins import Joins
from skyband.engine.per_id import PerIdQuery, ReducedBatch
from skyband.engine.ranking import RankingGroup
from skyband.engine.registry import QueryRegistry
from skyband.engine.stats import Stats
from skyband.errors import InputError, SnapshotError, TooManyWindows
from skyband.events.batch import EventBatch, StreamColumns, TimeUnit, as_batches, settle_nulls
from skyband.order import IntArray
from skyband.queries.query import Query
from skyband.times import microseconds_of
from skyband.windows import NEVER, Schedule

logger = logging.getLogger(__name__)
MOST_ROWS = 1 << 25
_SIDE_ROWS = ("late", "partly_late", "rejected", "ahead")

Sink = Callable[[pa.RecordBatch], None]
T = TypeVar("T")
R = TypeVar("R")


class Monitor:
    """Keeps what queries over one stream may still answer with, and answers them.

    Parameters
    ----------
    queries
        The queries to begin with; more can be registered later.
    algorithm
        Which algorithm keeps the candidates; `skyband.algorithms.ALGORITHMS` lists them.
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
        self.source: StreamColumns = StreamColumns(time, id, time_unit)
        self.on_late: Sink | None = on_late
        self.on_rejected: Sink | None = on_rejected
        self.roster: QueryRegistry = QueryRegistry(algorithm, self.source, services)
        self._types: dict[str, pa.DataType] = {}  # of the columns that have held anything
        self.watermark: int | None = None
        self.newest: int = NEVER
        self._stats = Stats()
        if queries:
            self.roster.add(queries, None, NEVER)

    # Events in, answers out.

    def push(self, batch: Any, *, joined: bool = True, not_after: int | datetime | None = None) -> Answers:
        """Take in events: an Arrow batch or table, a data frame, or a list of dicts.

        Parameters
        ----------
        batch
            The events.
        joined
            Whether joined and aggregated queries get them too; where not, they get theirs from elsewhere, reduced.
        not_after
            Rows with a later time are rejected, and counted as `ahead`; they do not count as seen.

        Returns
        -------
        The answers of count windows that are now full. Time windows wait for `advance`.
        """
        began = clock.perf_counter()
        blocks: list[AnswerBlock] = []
        limit = None if not_after is None else microseconds_of(not_after)
        for part in as_batches(batch, MOST_ROWS):
            settled = settle_nulls(part, self._types, self.source, self._carried(joined), self.joins.id_columns)
            self._bind(settled.schema, joined)
            self._types |= {f.name: f.type for f in part.schema if f.type != pa.null()}
            rows = EventBatch(settled, self.source, limit)
            seen = [_naming(group, group.push, rows) for group in self.groups]
            seen += self.joins.push(rows) if joined else []
            self._note(rows, seen)
            for group in self.groups:
                if group.ranking.counts:
                    blocks += group.advance(NEVER, group.due(NEVER))
        self._stats = replace(
            self._stats, batches=self._stats.batches + 1,
            push_seconds=self._stats.push_seconds + clock.perf_counter() - began,
        )  # fmt: skip
        return self._answers(blocks, 0.0)

    def push_reduced(self, reduced: Mapping[str, ReducedBatch]) -> None:
        """Take in, for joined and aggregated queries by name, a batch that is reduced to what they need of it.

        Where there are other queries too, it is they who count late and rejected rows for all.
        """
        for one in self.joins.queries:
            one.take(reduced[one.name])
        if not reduced:
            return
        self.newest = max(self.newest, *(part.newest for part in reduced.values()))
        if not self.groups:
            most = {name: max(getattr(part, name) for part in reduced.values()) for name in _SIDE_ROWS}
            self._stats = replace(
                self._stats, **{name: getattr(self._stats, name) + count for name, count in most.items()}
            )

    def advance(self, watermark: int | datetime | None = None) -> Answers:
        """Let event time pass: answer every window that ends by the watermark.

        Parameters
        ----------
        watermark
            Microseconds or a time; one below the last is ignored. None closes no window, but shows what
            ``emit="early"`` queries have so far.
        """
        began = clock.perf_counter()
        timed = [group for group in self.groups if not group.ranking.counts]
        blocks: list[AnswerBlock] = []
        if watermark is not None:
            mark = max(microseconds_of(watermark), NEVER if self.watermark is None else self.watermark)
            dues = [_naming(group, group.due, mark) for group in timed]  # raises before anything has changed
            joined = [_naming(one, one.due, mark) for one in self.joins.queries]
            self.watermark = mark
            blocks = [block for group, due in zip(timed, dues, strict=True) for block in group.advance(mark, due)]
            blocks += self.joins.advance(joined, mark)
        blocks += [block for group in self.groups for block in group.early()]
        return self._answers(blocks, began)

    def finish(self) -> Answers:
        """Answer every window that contains an event: the input has ended."""
        began = clock.perf_counter()
        blocks = [block for group in self.groups for block in group.finish()]
        return self._answers(blocks + self.joins.finish(), began)

    def tell(self, service: str, values: Mapping[Any, float | None], at: int | datetime | None = None) -> None:
        """Take in changes that the remote side tells by itself; they cost no budget.

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
        >>> monitor.tell("likes", {"a": 30.0, "b": 20.0}, at=9)
        >>> [(row.id, row.score, row.age) for row in monitor.advance(10)[0].rows]
        [('a', 31.0, 1)]
        """
        self.joins.tell(service, values, at, NEVER if self.watermark is None else self.watermark)

    def declare(self, schema: pa.Schema) -> None:
        """Say which columns the stream has before any event shows them; queries over others are refused."""
        self._bind(schema)

    def _bind(self, schema: pa.Schema, joined: bool = True) -> None:
        if self.schema is not None and schema.equals(self.schema):
            return
        self.source.check(schema)
        if self.schema is not None:
            self._check_types(self.schema, schema, self._carried(joined))
        self.roster.bind(schema, joined)

    def _check_types(self, before: pa.Schema, schema: pa.Schema, carried: set[str]) -> None:
        """Refuse a batch whose columns changed their type where kept events have the old one."""
        name = self.source.time
        if name in self._types and self.source.is_plain(before) != self.source.is_plain(schema):
            was, now = before.field(name).type, schema.field(name).type
            msg = f"the time column {name!r} was {was} so far and is {now} in this batch; give all batches one schema"
            raise InputError(msg)
        for name in {self.source.id, *self.joins.id_columns, *carried}:
            was, now = self._types.get(name), schema.field(name).type if name in schema.names else None
            if was is not None and was != now:
                found = now or "missing"
                msg = f"column {name!r} was {was} so far and is {found} in this batch; give all batches one schema"
                raise InputError(msg)

    def _carried(self, joined: bool) -> set[str]:
        grouped = {column for group in self.groups for column in group.intake.select}
        return grouped.union(*(one.query.select for one in self.joins.queries if joined))

    def _note(self, rows: EventBatch, seen: Sequence[BatchOutcome]) -> None:
        """Count the batch, and hand its late and rejected rows on."""
        late, partly, rejected = outcome(seen, rows.batch.num_rows)
        if len(rows.ahead):  # whether or not any query wants them
            rejected = np.union1d(rejected, rows.ahead)
        if self.on_late is not None and len(late):
            self.on_late(rows.batch.take(pa.array(late)))
        if self.on_rejected is not None and len(rejected):
            self.on_rejected(rows.batch.take(pa.array(rejected)))
        self._stats = replace(
            self._stats,
            rows=self._stats.rows + rows.batch.num_rows,
            late=self._stats.late + len(late),
            partly_late=self._stats.partly_late + partly,
            rejected=self._stats.rejected + len(rejected),
            ahead=self._stats.ahead + len(rows.ahead),
        )
        known = [s.newest for s in seen if s.newest is not None]
        newest = known[0] if known else rows.newest
        if self.newest == NEVER and self.source.is_plain(rows.batch.schema):
            self._doubt(newest)
        self.newest = max(self.newest, newest)

    def _doubt(self, newest: int) -> None:
        """Warn of whole numbers that are dates of our days in seconds or milliseconds, but of 1970 in microseconds."""
        for unit, low, high in (("s", 10**9, 10**10), ("ms", 10**12, 10**13)):
            if low <= newest < high:
                logger.warning(
                    "the time column %r holds numbers such as %d, which are taken as microseconds since 1970; "
                    "if they are not, say time_unit=%r",
                    self.source.time, newest, unit,
                )  # fmt: skip

    def _answers(self, blocks: list[AnswerBlock], began: float) -> Answers:
        order = self._order(blocks) if blocks else None
        plain = self.schema is not None and self.source.is_plain(self.schema)
        answers = Answers(blocks, order, plain, self.watermark, self._stats.batches)
        spent = clock.perf_counter() - began if began else 0.0
        self._stats = replace(
            self._stats,
            answers=self._stats.answers + len(answers),
            answer_rows=self._stats.answer_rows + answers.rows,
            rejected=self._stats.rejected + sum(one.take_unfit() for one in self.joins.queries),
            answer_seconds=self._stats.answer_seconds + spent,
        )
        return answers

    def _order(self, blocks: Sequence[AnswerBlock]) -> tuple[IntArray, IntArray] | None:
        """Order answers by the ends of their windows, then as their queries were registered; None: they are so."""
        number = np.repeat(np.arange(len(blocks)), [len(block.end) for block in blocks])
        place = np.concatenate([np.arange(len(block.end)) for block in blocks])
        ends = np.concatenate([block.end for block in blocks])
        rank = {name: i for i, name in enumerate(self.roster.order)}
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
        return self.roster.queries

    @property
    def groups(self) -> list[RankingGroup]:
        """What serves queries that rank events."""
        return self.roster.groups

    @property
    def joins(self) -> Joins:
        """What serves queries that join or aggregate."""
        return self.roster.joins

    @property
    def schema(self) -> pa.Schema | None:
        """The stream's columns, as far as they are known."""
        return self.roster.schema

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
        missed = self.roster.add(queries, self.watermark, self.newest)
        for query, missing in zip(queries, missed, strict=True):
            if missing is not None and history:
                self.roster.schedule(query.name).past = "awaited"
        return missed

    def look_back(self, query: Query) -> Backfill | None:
        """Return what a query, were it registered now, would miss of the past; None when it would not.

        Count windows cannot look back: events of the past have no arrival numbers.
        """
        return self.roster.look_back(query, self.watermark, self.newest)

    def fill(self, name: str, history: Any) -> None:
        """Give a query what it misses of the past: all events of that stretch, for its group; others are left out."""
        assert self.schema is not None
        group, schedule = self.roster.group(name), self.roster.schedule(name)
        batches = [_between(batch, self.source, schedule) for batch in as_batches(history, MOST_ROWS)]
        if any(batch.num_rows for batch in batches):
            batch = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
            group.intake.bind(batch.schema, self.source.id)
            group.fill(EventBatch(batch, self.source), schedule)
            group.intake.bind(self.schema, self.source.id)
        else:
            group.fill(None, schedule)

    def unregister(self, name: str) -> None:
        """Stop serving a query; what is known of the service that it joined with stays."""
        self.roster.remove(name)

    def change(self, query: Query) -> None:
        """Put a query in the place of the one with its name; what is kept serves it as far as it goes."""
        self.roster.change(query, self.watermark, self.newest)

    def pause(self, name: str) -> None:
        """Stop showing a query's answers; its windows pass, and what they need is kept."""
        self.roster.schedule(name).paused = True

    def resume(self, name: str) -> None:
        """Show a paused query's answers again, from its next window on."""
        self.roster.schedule(name).paused = False

    # Looking inside.

    def stats(self) -> Stats:
        """Return the numbers so far."""
        return replace(
            self._stats, groups=(*(g.stats() for g in self.groups), *(one.stats() for one in self.joins.queries))
        )

    def explain(self) -> str:
        """Say which queries share what, the panes and the staircase, and why."""
        return explain(self.groups, self.roster.algorithm.name, self.joins.queries)

    # Snapshots.

    def snapshot(self) -> bytes:
        """Return everything as bytes, detached from the live state; `restore` continues from them."""
        joins = self.joins.state()
        meta = {
            "algorithm": self.roster.algorithm.name,
            "source": [self.source.time, self.source.id, self.source.time_unit],
            "order": self.roster.order,
            "watermark": self.watermark,
            "newest": self.newest,
            "stats": asdict(self._stats),
            "joins": len(joins),
        }
        tables = {} if self.schema is None else {"schema": self.schema.empty_table()}
        tables["types"] = pa.schema(list(self._types.items())).empty_table()
        return snapshot.encode(meta, tables, [*(group.state() for group in self.groups), *joins])

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
        meta, tables, groups = snapshot.decode(blob)
        if "order" not in meta:
            msg = "this is a snapshot of subscriptions; restore it with Subscriptions.restore"
            raise SnapshotError(msg)
        time, id_, unit = meta["source"]
        monitor = cls(
            algorithm=meta["algorithm"],
            time=time,
            id=id_,
            time_unit=unit,
            on_late=on_late,
            on_rejected=on_rejected,
            services=services,
        )
        monitor.roster.order, monitor.watermark, monitor.newest = meta["order"], meta["watermark"], meta["newest"]
        monitor._stats = Stats(**{key: value for key, value in meta["stats"].items() if key != "groups"})
        split = len(groups) - meta["joins"]
        monitor.roster.groups = [RankingGroup.load(state, monitor.roster.algorithm) for state in groups[:split]]
        monitor.joins.load(groups[split:])
        if "schema" in tables:
            monitor._bind(tables["schema"].schema, joined=False)
        monitor._types = {field.name: field.type for field in tables["types"].schema}
        return monitor


def _between(batch: pa.RecordBatch, source: StreamColumns, schedule: Schedule) -> pa.RecordBatch:
    """Leave of events of the past those that a query misses and still needs."""
    time = EventBatch(batch, source).time
    low = max(schedule.next_start, schedule.missing_from)
    return batch.filter(pa.array((time >= low) & (time < schedule.missing_to)))


def _naming(group: RankingGroup | PerIdQuery, do: Callable[[T], R], what: T) -> R:
    """Do something with a group; where it has too many windows, name the query that asks for the most."""
    try:
        return do(what)
    except TooManyWindows as error:
        queries = [group.query] if isinstance(group, PerIdQuery) else group.queries
        error.query = min(queries, key=lambda query: query.window.slide).name
        raise
