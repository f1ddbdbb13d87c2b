"""Queries that rank alike, over one stream: one arena, one algorithm, one schedule a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.algorithms.base import Algorithm, BatchCounts, Columns, Picks
from skyband.algorithms.stkqf.skyline import Backfill, Need, scan_for
from skyband.answers.answer import AnswerBlock, Answers, Events, Row
from skyband.answers.changes import as_rows, as_table, difference
from skyband.engine.intake import APPROXIMATE, WARMING_UP, BatchOutcome, Counts, Intake, Ranking
from skyband.engine.stats import GroupStats
from skyband.events.batch import EventBatch
from skyband.events.keys import Keys
from skyband.events.store import EventStore
from skyband.order import BoolArray, IntArray, SlotArray, merit_of, rank_in_runs
from skyband.queries.query import Query
from skyband.windows import ALWAYS, NEVER, DueWindows, Schedule, layout

_NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True)
class _Arriving:
    """Events of one batch; lists the rows that go into the arena, in their order."""

    intake: Intake
    columns: Columns
    rows: EventBatch
    index: IntArray | None
    stored: list[IntArray] | None

    def keep(self, rows: IntArray) -> SlotArray:
        """Store these rows and return their slots."""
        if self.stored is not None:
            self.stored.append(rows)
        return self.intake.store(self.columns, rows, self.rows, self.index)


class RankingGroup:
    """Events in, answers out, for queries that rank alike.

    Parameters
    ----------
    ranking
        What the queries have in common.
    algorithm
        What keeps the candidates.
    select
        Columns to carry along.
    blind_to
        The last position of an event that this group did not take in, because it was not there yet or because
        the event was late for all its queries: a new query whose window reaches back to it cannot be exact.
    """

    def __init__(
        self, ranking: Ranking, algorithm: type[Algorithm], select: Sequence[str], blind_to: int = NEVER
    ) -> None:
        self.ranking = ranking
        self.blind_to = blind_to
        self.arena = EventStore(ranking.counts)
        self.intake = Intake(ranking, self.arena, select)
        self._algorithm, self._planned = algorithm(self.arena, ranking.distinct), True
        self.queries: list[Query] = []
        self.schedules: list[Schedule] = []
        self.counts = Counts()
        self.first, self.last = ALWAYS, NEVER
        self.previous: dict[str, list[Row]] = {}
        self.shown: dict[tuple[str, int], str] = {}
        self.plain = False

    def serves(self, query: Query) -> bool:
        """Tell whether a query can be served: it ranks alike, and by the columns that settle ties here.

        Ties are settled by the selected columns, so these must be the first of those that are carried.
        """
        return self.ranking == Ranking.of(query) and self.intake.select[: len(query.select)] == query.select

    @property
    def k(self) -> int:
        """How many events the deepest query asks for."""
        return max(schedule.k for schedule in self.schedules)

    @property
    def shortest(self) -> int:
        """How long the shortest window is."""
        return min(schedule.size for schedule in self.schedules)

    @property
    def answered_to(self) -> int:
        """Where the last answered window ends: an event before it is late for some query at least."""
        return self._tally().partly_before

    # Queries that come and go.

    @property
    def algorithm(self) -> Algorithm:
        """What keeps the candidates, prepared for the queries that there are: for many that went, once."""
        if not self._planned:
            self._algorithm.plan(self.schedules)
            self._planned = True
        return self._algorithm

    def add(self, queries: Sequence[Query], watermark: int) -> None:
        """Serve more queries, which rank as this group does; windows that end by the watermark are past."""
        schedules = [Schedule.of(query) for query in queries]
        for schedule in schedules:
            schedule.closed_to = (self.intake.arrived or NEVER) if self.ranking.counts else watermark
            schedule.exact_from = self.exact_from(schedule)  # may refuse it: nothing has changed yet
            schedule.first = self.first if self.last >= schedule.next_start else ALWAYS
        self.queries += queries
        self.schedules += schedules
        self.algorithm.plan(self.schedules)

    def exact_from(self, schedule: Schedule) -> int:
        """Return the start of the first window from which on a new query would be exact."""
        exact_from = self.algorithm.exact_from(schedule, self.last)
        if self.blind_to == NEVER:
            return exact_from
        seen_from = 0 if self.ranking.counts else self.blind_to + 1
        return max(exact_from, schedule.first_start_from(seen_from))

    def look_back(self, schedule: Schedule, newest: int) -> Backfill | None:
        """Return what a new query would miss of the past, up to `newest`; None where it is exact at once.

        Of what it needs, only that can be missing which reaches further back than the exact queries as deep as it.
        """
        low, now, exact_from = schedule.next_start, newest + 1, self.exact_from(schedule)
        if low >= now or low == NEVER or exact_from <= low:
            return None
        starts = layout(self.schedules).start.tolist()
        served = [
            Need(now - start, s.k)
            for s, start in zip(self.schedules, starts, strict=True)
            if self.blind_to < start < now and s.is_exact(start)
        ]
        scan = scan_for(Need(now - low, schedule.k), served)
        high = now - scan.newer
        if not self.algorithm.proves and exact_from > high:  # windows that start behind it would not be known exact
            return Backfill(scan.case, low, now)
        return Backfill(scan.case, low, high) if low < high else None

    def remove(self, name: str) -> None:
        """Stop serving a query."""
        place = [query.name for query in self.queries].index(name)
        del self.queries[place], self.schedules[place]
        self.previous.pop(name, None)
        self.shown = {key: seen for key, seen in self.shown.items() if key[0] != name}
        self._planned = not self.schedules

    # Events in.

    def fill(self, rows: EventBatch | None, schedule: Schedule) -> None:
        """Take in, of the past that a query misses, all events from its next window on; None: there were none.

        They replace what is kept of that stretch, so that nothing is counted twice.
        """
        low, high = max(schedule.next_start, schedule.missing_from), schedule.missing_to
        self.algorithm.forget_between(low, high)
        self._compact(0.0, 0)  # what is given again must not tie with itself
        if rows is not None:
            self._take(rows, BatchCounts())
        if high > self.blind_to:
            self.blind_to = min(self.blind_to, low - 1)
        schedule.missing_from, schedule.past = low, "filled"

    def emptied(self) -> RankingGroup | None:
        """Return a group for `candidates` of a part of a batch; None where every row that passes the filter matters."""
        group = RankingGroup(self.ranking, type(self._algorithm), self.intake.select)
        algorithm = self.algorithm.emptied(group.arena)
        if algorithm is None:
            return None
        group.queries, group.schedules, group._algorithm = self.queries, self.schedules, algorithm
        return group

    def candidates(self, rows: EventBatch) -> IntArray:
        """Take in one more piece of a part of a batch; return the rows that may matter, or are counted one by one.

        A row that is left out is worse than K others of its pane and partition.
        """
        tally, before, stored = self._tally(), self.arena.size, [_NO_ROWS]
        columns, index, seen = self._take(rows, tally, stored)
        self._count(tally, seen, columns, index)
        moved = self._make_room()
        kept = np.concatenate(stored)[moved[before:] >= 0]
        return np.concatenate([kept if index is None else index[kept], seen.late, seen.partly, seen.rejected])

    def _take(
        self, rows: EventBatch, tally: BatchCounts, stored: list[IntArray] | None = None
    ) -> tuple[Columns, IntArray | None, BatchOutcome]:
        """Let the algorithm have the rows of a batch; list the rows that go into the arena, in their order."""
        columns, index, seen = self.intake.columns(rows)
        self.algorithm.push(_Arriving(self.intake, columns, rows, index, stored), tally)
        self.first, self.last = min(self.first, tally.first), max(self.last, tally.last)
        self._begin(columns, tally.first)
        return columns, index, seen

    def _begin(self, columns: Columns, first: int) -> None:
        """Note the first event of each query: one that missed all windows of a query is none of its."""
        waiting = [schedule for schedule in self.schedules if first < schedule.first > schedule.closed_to]
        if not waiting or first == ALWAYS:
            return
        events = None
        for schedule in waiting:
            if first >= schedule.next_start:
                schedule.first = first
                continue
            events = columns.position[~np.isnan(columns.merit)] if events is None else events
            schedule.first = min(schedule.first, int(events[events >= schedule.next_start].min(initial=ALWAYS)))

    def push(self, rows: EventBatch) -> BatchOutcome:
        """Take in one batch."""
        tally = self._tally()
        columns, index, seen = self._take(rows, tally)
        self._count(tally, seen, columns, index)
        if not self.ranking.counts:  # count windows that are full by now come first: some end amid the batch
            self._compact()
        return seen

    def _tally(self) -> BatchCounts:
        if self.ranking.counts or not self.schedules:
            return BatchCounts()
        size, slide, *_, start = layout(self.schedules)
        return BatchCounts(int(start.min()), int((start + size - slide).max()))

    def _count(self, tally: BatchCounts, seen: BatchOutcome, columns: Columns, index: IntArray | None) -> None:
        if index is None and not self.ranking.counts:
            seen.newest = tally.newest
        late = np.concatenate([*tally.late_rows, _NO_ROWS])
        if len(late):
            self.blind_to = max(self.blind_to, int(columns.position[late].max()))
        seen.late = late if index is None else index[late]
        if tally.rejected:  # NaN scores, which the algorithm met on its way
            nan = np.flatnonzero(np.isnan(columns.merit))
            seen.rejected = np.sort(np.concatenate([seen.rejected, nan if index is None else index[nan]]))
        if tally.partly_late:
            position = columns.position
            partly = np.flatnonzero(
                (position >= tally.late_before) & (position < tally.partly_before) & ~np.isnan(columns.merit)
            )
            seen.partly = partly if index is None else index[partly]
        self.counts.events += len(columns.merit) - tally.rejected - len(late)
        self.counts.rejected += len(seen.rejected)
        self.counts.late += len(late)
        self.counts.partly_late += tally.partly_late

    def _compact(self, share: float = 2.0, spare: int = 4096) -> None:
        """Make room in the arena once much of it is not kept any more."""
        if self.arena.size > share * len(self.algorithm.kept()) + spare:
            self._make_room()

    def _make_room(self) -> SlotArray:
        """Drop what is not kept any more; return the new slot of each event, -1 where it is gone."""
        moved = self.arena.compact(self.algorithm.kept())
        self.algorithm.compact(moved)
        self.intake.forget_unused()
        return moved

    # Answers out.

    def advance(self, watermark: int, due: DueWindows) -> list[AnswerBlock]:
        """Answer every window that ends by the watermark (or, counting events, by the last one), as `due` lists."""
        limits = self._limits(watermark)
        return self._answer(due, limits, limits[0])

    def due(self, watermark: int) -> DueWindows:
        """List the windows that a watermark closes; InputError when they are absurdly many."""
        return DueWindows.by(self.schedules, self._limits(watermark))

    def _limits(self, watermark: int) -> list[int]:
        """Return up to where the windows of each query are closed."""
        return [self.intake.arrived if self.ranking.counts else watermark] * len(self.schedules)

    def finish(self) -> list[AnswerBlock]:
        """Answer every window that contains an event: there is no more to come."""
        if self.last == NEVER:
            return []
        if self.ranking.counts:
            limits = [s.first_end_after(self.last) for s in self.schedules]
        else:
            limits = [s.last_end_of(self.last) for s in self.schedules]
        return self._answer(DueWindows.by(self.schedules, limits), limits, max(limits, default=NEVER))

    def _answer(self, due: DueWindows, limits: Sequence[int], sealed_to: int) -> list[AnswerBlock]:
        if self.first == ALWAYS or not self.schedules:
            self._close(limits)
            return []
        picks = self._in_order(due, self.algorithm.answer(due, sealed_to))
        self._close(limits)
        if self.shown:
            closed = {schedule.name: schedule.closed_to for schedule in self.schedules}
            self.shown = {key: seen for key, seen in self.shown.items() if key[1] > closed.get(key[0], ALWAYS)}
        blocks = self._blocks(due, picks)
        self._compact()
        return blocks

    def _close(self, limits: Sequence[int]) -> None:
        for schedule, limit in zip(self.schedules, limits, strict=True):
            if limit > schedule.closed_to:
                schedule.closed_to = limit

    def early(self) -> list[AnswerBlock]:
        """Answer the windows that are still open and look different from when they were last shown."""
        starts: list[tuple[int, int, int]] = []
        parts: list[SlotArray] = []
        for q in [q for q, query in enumerate(self.queries) if query.emit == "early"]:
            query, schedule = self.queries[q], self.schedules[q]
            if schedule.paused or self.last == NEVER:
                continue
            limit = schedule.first_end_after(self.last) if self.ranking.counts else schedule.last_end_of(self.last)
            for end in schedule.ends_by(limit).tolist():
                slots = self._peek(q, end)
                look = self._look(slots, query.select)
                if self.shown.get((query.name, end)) != look:
                    self.shown[query.name, end] = look
                    starts.append((q, end - schedule.size, end))
                    parts.append(slots)
        if not starts:
            return []
        query_, start, end_ = (np.array(column, np.int64) for column in zip(*starts, strict=True))
        offsets = np.cumsum([0, *(len(part) for part in parts)])
        picks = Picks(np.concatenate(parts), offsets)
        return [self._block(DueWindows(query_, start, end_), picks, provisional=True)]

    def _peek(self, query: int, end: int) -> SlotArray:
        """Answer a window that is still open with what there is."""
        schedule = self.schedules[query]
        slots = self.algorithm.peek(end - schedule.size, end, schedule.k)
        window = DueWindows(*(np.array([number], np.int64) for number in (query, end - schedule.size, end)))
        return self._in_order(window, Picks(slots, np.array([0, len(slots)]))).slots

    def _in_order(self, due: DueWindows, picks: Picks) -> Picks:
        """Let answers show, of events that tie, the first by what they carry: algorithms take any of them."""
        tied = self.arena.tied() if len(picks.slots) else None
        if tied is None or (self.ranking.counts and self.ranking.distinct == "latest"):  # which arrived last is known
            return picks
        of = tied.of[picks.slots]
        places = np.flatnonzero(of >= 0)
        if len(places) == 0:
            return picks
        window = np.repeat(np.arange(len(due)), np.diff(picks.offsets))[places]
        of, rank = of[places], rank_in_runs(window, of[places])
        slots = picks.slots.copy()
        slots[places] = tied.slots[tied.starts[of] + rank]
        if self.ranking.counts:  # tied events may lie in different windows
            begins = np.flatnonzero(rank == 0)
            for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(rank)], strict=True):
                members = tied.slots[tied.starts[of[begin]] : tied.starts[of[begin] + 1]]
                position = self.arena.position[members]
                inside = (position >= due.start[window[begin]]) & (position < due.end[window[begin]])
                slots[places[begin:end]] = members[inside][: end - begin]
        return replace(picks, slots=slots)

    def _look(self, slots: SlotArray, select: Sequence[str]) -> str:
        """Return a digest of what a provisional answer shows."""
        arena, payload = self.arena, self.arena.payload()
        ids = self.intake.ids(arena.key[slots])
        shown = repr((ids.tolist(), arena.merit[slots].tolist(), arena.time[slots].tolist()))
        if select and payload is not None:
            shown += repr(payload.select(list(select)).take(pa.array(slots)).to_pylist())
        return blake2b(shown.encode(), digest_size=12).hexdigest()

    def _blocks(self, due: DueWindows, picks: Picks) -> list[AnswerBlock]:
        """Make the answers' columns; queries that emit changes get a block of their own."""
        changing = np.array([query.emits_changes for query in self.queries])[due.query]
        paused = np.array([schedule.paused for schedule in self.schedules])[due.query]
        if not (changing.any() or paused.any()):
            return [self._block(due, picks)] if len(due) else []
        blocks = []
        for wanted in (False, True):
            chosen = (changing == wanted) & ~paused
            if chosen.any():
                part = DueWindows(due.query[chosen], due.start[chosen], due.end[chosen])
                block = self._block(part, _choose(picks, chosen))
                blocks.append(self._with_changes(block) if wanted else block)
        return blocks

    def _block(self, due: DueWindows, picks: Picks, provisional: bool = False) -> AnswerBlock:
        shift = np.array([s.shift for s in self.schedules], np.int64)[due.query]
        # Events are in many answers: with more rows than slots, the slots are stored once and rows refer to them.
        shared = len(picks.slots) > self.arena.size
        whole = self._exact(due, picks)
        return AnswerBlock(
            names=[query.name for query in self.queries],
            query=due.query,
            start=due.start - shift,
            end=due.end - shift,
            exact=whole & self.algorithm.exact,
            offsets=picks.offsets,
            events=self._events(np.arange(self.arena.size) if shared else picks.slots),
            place=picks.slots if shared else None,
            selects=[query.select for query in self.queries],
            counts=self.ranking.counts,
            provisional=provisional,
            why=WARMING_UP if self.algorithm.exact else np.where(whole, APPROXIMATE, WARMING_UP),
        )

    def _exact(self, due: DueWindows, picks: Picks) -> BoolArray:
        """Tell which answers miss nothing: by their start, or proven though their windows had begun before."""
        exact_from = np.array([s.exact_from for s in self.schedules], np.int64)[due.query]
        exact = due.start >= exact_from
        for window in np.flatnonzero(~exact).tolist():
            exact[window] = self.schedules[due.query[window]].is_exact(int(due.start[window]))
        if picks.proven is not None:
            exact |= picks.proven & (due.start > self.blind_to)
        return exact

    def _events(self, slots: SlotArray | IntArray) -> Events:
        """Return the events in slots, detached from the arena."""
        arena = self.arena
        payload = arena.payload()
        carried = None if payload is None else payload.take(pa.array(slots)).combine_chunks()
        part = arena.part[slots] if self.ranking.partition_by is not None else None
        return Events(
            id=self.intake.ids(arena.key[slots]),
            score=merit_of(arena.merit[slots], self.ranking.order),
            time=arena.time[slots],
            part=part,
            partition=None if part is None else self.intake.partitions.decode(part),
            payload=carried,
        )

    def _with_changes(self, block: AnswerBlock) -> AnswerBlock:
        """Compare each answer with the one before it."""
        changes, emits = [], {query.name: query.emit for query in self.queries}
        for answer in Answers([block], plain=self.plain):
            before, emit = self.previous.get(answer.query, []), emits[answer.query]
            # An id that comes with another event has moved or is updated; as a solution of RSP-QL it is a new one.
            by_id = self.ranking.distinct is not None and emit == "changes"
            found = difference(before, answer.rows, by_id=by_id)
            changes.append([change for change in found if emit in ("changes", change.kind)])
            self.previous[answer.query] = answer.rows
        return replace(block, changes=changes)

    # Looking inside, and snapshots.

    def stats(self) -> GroupStats:
        """Return the numbers so far."""
        return GroupStats(
            str(self.ranking), tuple(query.name for query in self.queries), **asdict(self.counts),
            kept=len(self.algorithm.kept()), bound=self.algorithm.bound(), uses=self.algorithm.uses(),
        )  # fmt: skip

    def state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        """Return everything as plain values and tables, detached from the live state."""
        self._compact(1.25, 256)  # what is not kept any more need not be written either
        algorithm = self.algorithm.snapshot()
        arrays = {name: value for name, value in algorithm.items() if isinstance(value, np.ndarray)}
        meta = {
            "queries": [query.as_dict() for query in self.queries],
            "schedules": [asdict(schedule) for schedule in self.schedules],
            "select": self.intake.select,
            "counts": asdict(self.counts),
            "extent": [self.first, self.last, self.intake.arrived, self.blind_to],
            "shown": [[name, end, look] for (name, end), look in self.shown.items()],
            "algorithm": {name: value for name, value in algorithm.items() if name not in arrays},
        }
        tables = {f"arena/{name}": table for name, table in self.arena.state().items()}
        tables |= {f"algorithm/{name}": pa.table({"": pa.array(value)}) for name, value in arrays.items()}
        tables |= {f"previous/{name}": as_table(rows) for name, rows in self.previous.items()}
        for name, keys in (("ids", self.intake.id_keys), ("partitions", self.intake.partitions)):
            tables[f"keys/{name}"] = pa.table({"": pa.array(keys.values.tolist())})
        return meta, tables

    @classmethod
    def load(cls, state: tuple[dict[str, Any], dict[str, pa.Table]], algorithm: type[Algorithm]) -> RankingGroup:
        """Make a group again from what `state` returned."""
        meta, tables = state
        queries = [Query.from_dict(given) for given in meta["queries"]]
        group = cls(Ranking.of(queries[0]), algorithm, meta["select"])
        group.queries = queries
        group.schedules = [Schedule(**given) for given in meta["schedules"]]
        group.counts = Counts(**meta["counts"])
        group.first, group.last, group.intake.arrived, group.blind_to = meta["extent"]
        group.shown = {(name, end): look for name, end, look in meta["shown"]}
        group.arena.load(dict(_under("arena/", tables)))
        group.algorithm.plan(group.schedules)
        arrays = {name: table[""].to_numpy().copy() for name, table in _under("algorithm/", tables)}
        group.algorithm.restore(meta["algorithm"] | arrays)
        group.previous = {name: as_rows(table) for name, table in _under("previous/", tables)}
        group.intake.id_keys = Keys.of(tables["keys/ids"][""])
        group.intake.partitions = Keys.of(tables["keys/partitions"][""])
        return group


def _under(folder: str, tables: dict[str, pa.Table]) -> list[tuple[str, pa.Table]]:
    return [(name.removeprefix(folder), table) for name, table in tables.items() if name.startswith(folder)]


def _choose(picks: Picks, chosen: BoolArray) -> Picks:
    """Leave only some of the answers."""
    sizes = np.diff(picks.offsets)
    proven = None if picks.proven is None else picks.proven[chosen]
    return Picks(picks.slots[np.repeat(chosen, sizes)], np.concatenate([[0], np.cumsum(sizes[chosen])]), proven)
