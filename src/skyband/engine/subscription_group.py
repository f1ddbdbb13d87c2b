"""A group: subscriptions that look at the same columns of the same events, and share an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log2
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from skyband.algorithms.topkw.band_kernels import LEFT
from skyband.algorithms.topkw.bands import Bands, BandSpec, TopKReports, gate_of, with_gates
from skyband.algorithms.topkw.event_kernels import ATTRIBUTE, COLUMN, EUCLID, SUM
from skyband.algorithms.topkw.query_grid import QueryGrid
from skyband.algorithms.topkw.sliding import Sliding
from skyband.answers.answer import Row
from skyband.answers.notices import notices_table
from skyband.engine.intake import Evaluator
from skyband.engine.snapshot import State, under
from skyband.events.batch import EventBatch, StreamColumns
from skyband.events.keys import is_text
from skyband.events.store import EventStore
from skyband.expressions import Bound, Expression, parse
from skyband.expressions.tree import Column
from skyband.order import FloatArray, IntArray
from skyband.queries.outputs import carried, plain
from skyband.queries.subscription import Subscription
from skyband.times import moment_of
from skyband.windows import ALWAYS, NEVER

FIRST_POPULATION, SPARE = 64, 1 << 16
Ends = Mapping[str, int]  # who ends, and when
_FAMILIES = {"sum": SUM, "distance": EUCLID, "attributes": ATTRIBUTE}


class GroupKey(NamedTuple):
    """What subscriptions must have in common to share an engine; windows differ by less than four times in length.

    Those of a `pool` have conditions of their own, each of which an event is tested for once.
    """

    where: Expression | None
    columns: tuple[str, ...]
    score: Expression | None
    counts: bool
    changes: bool
    length: int
    pool: bool = False

    @classmethod
    def of(cls, one: Subscription) -> GroupKey:
        """Return which kind a subscription is of."""
        size, counts = one.extent
        text = one.score if isinstance(one.score, str) else None
        columns = set(one.within) | (set() if text is not None else set(one.score.columns))  # type: ignore[union-attr]
        return cls(
            None if one.where is None else parse(one.where), tuple(sorted(columns)),
            None if text is None else parse(text), counts, one.emit == "changes", int(log2(size)) // 2,
        )  # fmt: skip

    def pooled(self) -> GroupKey | None:
        """Return the kind for which the condition does not matter; None where events are counted by the condition."""
        return None if self.where is None or self.counts else self._replace(where=None, pool=True)

    def __str__(self) -> str:
        parts = [f"score {self.score}"] if self.score else []
        parts += [f"over {', '.join(self.columns)}"] if self.columns else []
        parts += [f"where {self.where}"] if self.where else ["where each says"] if self.pool else []
        return ", ".join([*parts, "count windows" if self.counts else "time windows"])


class SubscriptionGroup:
    """Subscriptions of one `kind`, and the events that they may still need, with the columns to `select` of them."""

    def __init__(self, kind: GroupKey, algorithm: type[Sliding], select: Sequence[str]) -> None:
        self.kind, self.algorithm = kind, algorithm
        bare = [Expression(name, Column(name)) for name in kind.columns]
        self.evaluator = Evaluator(kind.where, [*bare, *([kind.score] if kind.score else [])])
        self.store = EventStore(kind.counts, select)
        self.engine: Bands | None = None  # its grid needs to have seen events
        self.members: dict[str, Subscription] = {}
        self.rows: dict[str, int] = {}
        self.names: list[str] = []  # by row
        self.starting: dict[str, int] = {}  # who begins with the next events, and when
        self.conditions: list[Expression | None] = []  # of a pool, each at its place
        self.gates: list[Bound | None] = []
        self.schema: pa.Schema | None = None
        self.arrived = 0
        self.first: int | None = None
        self.population = FIRST_POPULATION
        self.late = 0
        self.ample = SPARE  # from so many slots on, those that nobody needs are reclaimed
        self._labels: pa.Array | None = None

    # Subscriptions come and go.

    def add(self, members: Sequence[Subscription]) -> None:
        """Let subscriptions see the events from now on, or from when they say."""
        self.members |= {one.name: one for one in members}
        self._open_gates(members)
        self.starting |= {one.name: one.starts for one in members if one.starts is not None}
        self._enter(members)

    def _enter(self, members: Sequence[Subscription]) -> None:
        if self.engine is not None:
            self._place(members, self.engine.add([self._spec(one) for one in members]))

    def _open_gates(self, members: Sequence[Subscription]) -> None:
        """Give each new condition a place: an old one's, which who comes later cannot have seen, or one more."""
        wanted = {parse(one.where) for one in members if self.kind.pool and one.where is not None}
        free = [place for place, condition in enumerate(self.conditions) if condition is None]
        for condition in sorted(wanted - set(self.conditions), key=str):
            if free:
                self.conditions[free.pop(0)] = condition
            else:
                self.conditions.append(condition)
        self._bind_gates()

    def _bind_gates(self) -> None:
        if self.schema is not None:
            self.gates = [None if one is None else one.bind(self.schema, "filter") for one in self.conditions]

    def _place(self, members: Sequence[Subscription], rows: Sequence[int]) -> None:
        self.names += [""] * (max(rows, default=-1) + 1 - len(self.names))
        for one, row in zip(members, rows, strict=True):
            self.rows[one.name], self.names[row] = row, one.name
        self._labels = None

    def remove(self, names: Sequence[str]) -> None:
        """Forget subscriptions."""
        for name in names:
            del self.members[name]
            self.starting.pop(name, None)
        if self.engine is not None:
            self.engine.remove([self.rows.pop(name) for name in names])
        if names and self.kind.pool:
            used = {parse(one.where) for one in self.members.values() if one.where is not None}
            self.conditions = [one if one in used else None for one in self.conditions]
            self._bind_gates()

    def _spec(self, one: Subscription) -> BandSpec:
        size = one.extent[0]
        edges = [one.within.get(name, (-np.inf, np.inf)) for name in self.kind.columns] if one.within else []
        floor, ceiling = (tuple(float(edge[i]) for edge in edges) for i in (0, 1))
        spec = BandSpec(
            one.k, size, size if self.kind.counts else self.population, floor=floor, ceiling=ceiling,
            sign=-1.0 if one.better == "desc" else 1.0, gate=self._gate(one),
        )  # fmt: skip
        if isinstance(one.score, str):
            return replace(spec, family=COLUMN, column=len(self.kind.columns))
        point, weight = one.score.row(self.kind.columns)
        return replace(spec, family=_FAMILIES[one.score.family], point=tuple(point), weight=tuple(weight))

    def _gate(self, one: Subscription) -> int:
        if not self.kind.pool or one.where is None:
            return -1
        first = len(self.kind.columns) + (self.kind.score is not None)
        return gate_of(self.conditions.index(parse(one.where)), first)

    def _start(self, x: FloatArray) -> Bands:
        """Make the engine, with an index over the range of the first events."""
        d = len(self.kind.columns)
        method = self.algorithm.method_with_options(indexed=d > 0)
        grid = QueryGrid.over(x[:, :d], method.cells) if d else None
        method = method if self.kind.counts else method.over_time(4**self.kind.length)
        return self.algorithm.engine(method, d, grid, self.kind.changes, not self.kind.counts)

    # Events.

    @property
    def name(self) -> str:
        """The name of the first subscription."""
        return next(iter(self.members))

    @property
    def carried(self) -> set[str]:
        """The columns that are carried into notices."""
        return set(self.store.select)

    @property
    def key_columns(self) -> set[str]:
        """There are no keys."""
        return set()

    def sources(self, schema: pa.Schema) -> set[str]:  # noqa: ARG002 - as all readers
        """Nothing of what is carried along is computed."""
        return set()

    @property
    def id_columns(self) -> set[str]:
        """More columns that ids are taken from: none."""
        return set()

    def bind(self, schema: pa.Schema, source: StreamColumns) -> None:
        """Look up columns; InputError where one is missing or no number."""
        self.evaluator.bind(schema)
        self.store.text_ids = is_text(schema.field(source.id).type)
        self.schema = schema
        self._bind_gates()

    def push(
        self, rows: EventBatch, moments: IntArray, offset: int, ending: Ends
    ) -> tuple[list[pa.Table], IntArray]:  # fmt: skip
        """Take in events; return the notices, and the rows that were rejected.

        Time passes with every row, also with those that do not count here. Who ends on the way hears of nothing that
        happens then or later, but that the best of them leave.
        """
        counts = self.kind.counts
        taken, x, rejected = self.columns(rows)
        longest = self._longest(moments, ending)
        if longest.min(initial=0) < 0:  # for a while there is nobody
            taken, x, rejected = taken[longest[taken] >= 0], x[longest[taken] >= 0], rejected[longest[rejected] >= 0]
        if self.engine is None:
            if not len(taken):
                return [], rejected
            self.engine = self._start(x)
            self._enter(list(self.members.values()))
        for name, starts in self.starting.items():
            before = int(np.searchsorted(moments[taken], starts))
            self.engine.since[self.rows[name]] = self.engine.numbers + before
        self.starting = {}
        position = np.arange(self.arrived, self.arrived + len(taken)) if counts else rows.time[taken]
        self.arrived += len(taken)
        if not counts:
            self.late += int(np.count_nonzero(position <= moments[taken] - longest[taken]))
        payload = carried([plain(name) for name in self.store.select], rows.batch, taken)
        slots = self.store.add(rows, taken, np.zeros(len(taken)), position, payload=payload)
        columns = (x, position, slots, self.store.time, self.store.key)
        known = self._known(ending)
        if counts:
            found = self.engine.process(*columns)
            found = found._replace(moment=moments[taken[found.at]])
        else:
            passed = self._last_moment(int(moments[-1]), ending)
            found = self.engine.process(*columns, passed=passed, moments=moments[taken])
        self._expect(int(moments[-1]))
        row = np.append(taken + offset, -1)[found.at]  # what time alone does comes before the rows of its moment
        tables = self._reported(found, row, ending, known)
        if self.store.size > self.ample:
            self._compact()
        return tables, rejected

    def _longest(self, moments: IntArray, ending: Ends) -> IntArray:
        """Return how long the longest window is at each row; -1 where nobody is active."""
        turning = {*self.starting, *ending}
        if not turning and self.engine is not None:
            return np.full(len(moments), self.engine.size[self.engine.used].max())
        sizes = {name: one.extent[0] for name, one in self.members.items()}
        longest = np.full(len(moments), max((size for name, size in sizes.items() if name not in turning), default=-1))
        for name in turning:
            begin, end = np.searchsorted(moments, [self.starting.get(name, NEVER), ending.get(name, ALWAYS)])
            longest[begin:end] = np.maximum(longest[begin:end], sizes[name])
        return longest

    def _last_moment(self, moment: int, ending: Ends) -> int:
        """Return up to where time need pass: where all end, nobody hears of what would follow, which may be much."""
        return moment if len(ending) < len(self.members) else min(moment, max(ending.values()))

    def pass_time(self, moment: int, ending: Ends) -> list[pa.Table]:
        """Let time pass without events; return the notices."""
        if self.engine is None:
            return []
        none, known = np.empty(0, np.int64), self._known(ending)
        x = with_gates(np.empty((0, len(self.evaluator.values))), [None] * len(self.gates))
        passed = self.engine.passed if self.kind.counts else self._last_moment(moment, ending)
        found = self.engine.process(x, none, none, self.store.time, self.store.key, passed)
        return self._reported(found, found.at, ending, known)

    def columns(self, rows: EventBatch) -> tuple[IntArray, FloatArray, IntArray]:
        """Return which rows count, their attributes and scores, and which rows lack something."""
        batch = rows.batch
        seen = self.evaluator.evaluate(batch, rows.valid)
        gates = [None if one is None else one.mask(batch) for one in self.gates]
        if self.kind.pool:
            met = np.logical_or.reduce([np.zeros(batch.num_rows, bool), *(g for g in gates if g is not None)])
            seen = replace(seen, passed=met)
        taken = np.arange(batch.num_rows) if seen.taken is None else seen.taken
        x = np.stack([column[taken] for column in seen.values], axis=1)
        x = with_gates(x, [None if gate is None else gate[taken] for gate in gates])
        return taken, x, seen.rejected

    def _expect(self, passed: int) -> None:
        """Follow the rate of the stream: how many candidates a probabilistic band needs depends on it."""
        if self.kind.counts or self.engine is None or passed == NEVER:
            return
        self.first = passed if self.first is None else self.first
        expected = self.arrived * min(4.0 ** (self.kind.length + 1) / max(passed - self.first, 1), 1.0)
        while self.population < expected:
            self.population *= 2
            for row in self.engine.used.tolist():
                self.engine.expect(row, self.population)

    def _known(self, ending: Ends) -> dict[str, dict[int, float]]:
        """Return the best of subscriptions that end, and their scores, where leaving events are reported."""
        if self.engine is None or not self.kind.changes:
            return {}
        engine, rows = self.engine, {name: self.rows[name] for name in ending}
        best = {name: zip(engine.top(row), engine.scores_of(row), strict=True) for name, row in rows.items()}
        return {name: {int(slot): float(score) for slot, score in pairs} for name, pairs in best.items()}

    def _reported(
        self, found: TopKReports, row: IntArray, ending: Ends, known: dict[str, dict[int, float]]
    ) -> list[pa.Table]:  # fmt: skip
        """Return the notices; with an end, nothing after it, and that those known to be among the best leave."""
        tables = []
        if ending:
            ends = np.full(len(self.names), ALWAYS)
            ends[[self.rows[name] for name in ending]] = list(ending.values())
            before = found.moment < ends[found.row]
            found, row = found.where(before), row[before]
        for name, best in known.items():
            mine = found.row == self.rows[name]
            columns = (column[mine].tolist() for column in (found.slot, found.kind, found.score))
            for slot, kind, score in zip(*columns, strict=True):
                if kind == LEFT:
                    del best[slot]
                else:
                    best[slot] = score
            tables.append(self._farewell(name, best, ending[name]))
        return [table for table in [self._notices(found, row), *tables] if table.num_rows]

    def _farewell(self, name: str, best: dict[int, float], end: int) -> pa.Table:
        """Return the notices that all leave, best first."""
        assert self.engine is not None
        row, n = self.rows[name], len(best)
        slot, score = np.array(list(best), np.int64), np.array(list(best.values()))
        time, key = self.store.time[slot], self.store.key[slot]
        order = np.lexsort((slot, key, -time, self.engine.sign[row] * score))
        who, at, moment = np.full(n, row), np.full(n, -1), np.full(n, end)
        exact = self.engine.exactness(who, moment)
        return self._notices(TopKReports(who, slot[order], np.full(n, LEFT), at, moment, score[order], exact), at)

    def _notices(self, found: TopKReports, row: IntArray) -> pa.Table:
        if self._labels is None:
            self._labels = pa.array(self.names, pa.string())
        payload = self.store.payload()
        columns = {
            "score": found.score, "time": self.store.time[found.slot], "at": found.moment, "exact": found.exact,
            "row": row,
        }  # fmt: skip
        if payload is not None:
            carried = payload.take(pa.array(found.slot))
            columns |= dict(zip(carried.column_names, carried.columns, strict=True))
        return notices_table(self._labels, found.row, found.kind, pa.array(self.store.ids(found.slot)), columns)

    def top(self, name: str, plain: bool) -> list[Row]:
        """Return the best events of a subscription, best first."""
        if self.engine is None:
            return []
        row = self.rows[name]
        slots = self.engine.top(row)
        payload = self.store.payload()
        carried = [{}] * len(slots) if payload is None else payload.take(pa.array(slots)).to_pylist()
        times = self.store.time[slots].tolist()
        given = zip(self.store.ids(slots).tolist(), self.engine.scores_of(row).tolist(), times, carried, strict=True)
        return [
            Row(rank, key, score, time if plain else moment_of(time), values=values)
            for rank, (key, score, time, values) in enumerate(given, start=1)
        ]

    def kept(self) -> int:
        """Return how many events are kept."""
        return 0 if self.engine is None else len(self.engine.kept())

    def _compact(self) -> None:
        """Reclaim the slots of events that nobody needs."""
        if self.engine is None:
            return
        self.engine.compact(self.store.compact(self.engine.kept()))
        self.ample = 2 * self.store.size + SPARE

    # State.

    def state(self) -> State:
        """Return everything as plain values and tables, detached from the live state."""
        self._compact()
        order = sorted(self.members, key=lambda name: self.rows.get(name, 0))
        meta = {
            "members": [self.members[name].as_dict() for name in order],
            "counts": [self.arrived, self.first, self.population, self.late],
            "started": self.engine is not None,
        }
        if self.kind.pool:
            meta["conditions"] = [None if one is None else one.text for one in self.conditions]
        tables = {f"store/{name}": table for name, table in self.store.state().items()}
        if self.engine is not None:
            tables |= {f"engine/{name}": pa.table({"": pa.array(v)}) for name, v in self.engine.state().items()}
            grid = self.engine.grid
            meta["range"] = None if grid is None else [grid.low.tolist(), grid.high.tolist()]
        return meta, tables

    @classmethod
    def load(
        cls, state: State, algorithm: type[Sliding], select: Sequence[str],
        text_ids: bool,
    ) -> SubscriptionGroup:  # fmt: skip
        """Make a group again from what `state` returned."""
        meta, tables = state
        members = [Subscription.from_dict(given) for given in meta["members"]]
        kind = GroupKey.of(members[0])
        conditions = meta.get("conditions")
        group = cls(kind if conditions is None else kind._replace(where=None, pool=True), algorithm, select)
        group.conditions = [None if text is None else parse(text) for text in conditions or []]
        group.members = {one.name: one for one in members}
        group.arrived, group.first, group.population, group.late = meta["counts"]
        group.store.load(under("store/", tables))
        group.store.text_ids = text_ids
        if meta["started"]:
            given = np.array(meta["range"]) if meta["range"] else np.zeros((2, len(group.kind.columns)))
            group.engine = group._start(given)
            group._enter(members)
            arrays = under("engine/", tables)
            group.engine.load({name: table[""].to_numpy().copy() for name, table in arrays.items()})
        return group
