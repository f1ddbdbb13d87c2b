"""Answers from several places, each of which has all events of some ids, merged into the answers of all ids.

An id is in one place, so the best k of a window are among the best k of each place. Which of these they are, their
ranks, their ties and what has changed is found as where all ids are in one place: by `skyband.engine.aggregates`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.answers.answer import AnswerBlock, Answers
from skyband.engine import snapshot
from skyband.engine.aggregates import AggregateGroup, Member
from skyband.engine.groups import Stream
from skyband.engine.intake import too_many_ties
from skyband.engine.partial_tables import PartialTables
from skyband.engine.partials import Scored
from skyband.order import IntArray
from skyband.queries.query import LARGEST_K, Query
from skyband.windows import ALWAYS, NEVER


def asked_of_places(query: Query) -> Query:
    """Return what each place is asked so that its answers can be merged.

    Changes are those of the merged answers. Of rows that tie each place tells one more than the answer may have, so
    that it is seen whether the answer has to be cut.

    Examples
    --------
    >>> from skyband import Window
    >>> most = Query("most", k=1, score="count(*)", window=Window(9), ties="with", max_ties=5, emit="changes")
    >>> asked_of_places(most).emit, asked_of_places(most).max_ties
    ('final', 6)
    """
    if query.ties is None:
        return replace(query, emit="final")
    return replace(query, emit="final", max_ties=min(query.max_ties + 1, LARGEST_K))


def doubts_of(answers: Answers) -> list[dict[str, Any]]:
    """Return the answers that are not exact, which may show no rows that say so: as rows without rank, id and time."""
    found: list[dict[str, Any]] = []
    for block in answers.blocks:
        chosen = np.flatnonzero(~block.exact)
        ends, names = block.end[chosen].tolist(), [block.names[place] for place in block.query[chosen].tolist()]
        found += [
            {"query": name, "window_end": end, "exact": False, "why": str(why)}
            for name, end, why in zip(names, ends, block.reasons[chosen].tolist(), strict=True)
        ]
    return found


class _Places(PartialTables):
    """What the places told of the windows that are answered now: the best objects of each."""

    _rows: pa.Table
    _edges: IntArray
    _doubts: list[str]

    def take(self, rows: pa.Table, moments: IntArray) -> None:
        """Take what all places told of the windows that end at some moments."""
        ends = rows["window_end"].cast(pa.int64()).to_numpy()
        window = np.searchsorted(moments, ends)
        self._doubts = [""] * len(moments)
        asked = asked_of_places(self.query).max_ties
        cut = too_many_ties(asked) if asked > self.query.max_ties else ""  # whether the answer is cut is seen here
        inexact = pc.invert(rows["exact"])
        for place, why in zip(
            window[inexact.to_numpy()].tolist(), rows["why"].filter(inexact).to_pylist(), strict=True
        ):
            # Of several reasons "warming up" sorts last, and of several moments since when, the latest.
            self._doubts[place] = max(self._doubts[place], "" if why == cut else why)
        told = rows["rank"].is_valid().to_numpy()
        window = window[told]
        order = np.argsort(window, kind="stable")
        self._rows = rows.filter(pa.array(told)).take(pa.array(order)).combine_chunks()
        self._edges = np.searchsorted(window[order], np.arange(len(moments) + 1))

    @property
    def id_type(self) -> pa.DataType:
        """The type of ids: text or int64."""
        return self._rows["id"].type

    def scored(self, ends: Sequence[int]) -> Iterator[Scored]:
        """Yield the objects of the windows; all at once."""
        rows = self._rows

        def pick(some: IntArray) -> tuple[pa.Array, pa.Array | None, pa.Table | None]:
            taken = pa.array(some)
            shown = rows.select([one.name for one in self.query.columns]) if self.query.columns else None
            return rows["id"].take(taken).combine_chunks(), None, None if shown is None else shown.take(taken)

        if ends:
            time = rows["time"].cast(pa.int64()).to_numpy()
            yield Scored(self._edges, rows["score"].to_numpy(), time, None, self._doubts, pick)


class _MergedGroup(AggregateGroup):
    """One query, answered by merging."""

    kind = "merged"

    def _made(self, query: Query) -> Member:
        return _Places(query)

    def merged(self, rows: pa.Table, watermark: int) -> list[AnswerBlock]:
        """Answer the windows that a watermark closes, from what all places told of them."""
        (one,), (schedule,) = self.members, self.schedules
        assert isinstance(one, _Places)
        if schedule.first == ALWAYS and rows.num_rows:  # windows before it have no rows
            end = self.position(pc.min(rows["window_end"]).cast(pa.int64()).as_py()) + schedule.shift
            schedule.first = end - schedule.slide
        limits = [self.position(watermark)]
        due = self.due(limits)
        moments = due.end - schedule.shift
        one.take(rows, moments if self.periods is None else self.periods.moments(moments))
        return self.answer(due, limits)


class Merger:
    """Merges the answers of several queries that rank ids by aggregates; remembers what changes are compared with.

    Parameters
    ----------
    queries
        The queries, without partitions.
    stream
        The stream that they are asked of.
    plain
        Whether its times are bare whole numbers.
    """

    def __init__(self, queries: Sequence[Query], stream: Stream, plain: bool) -> None:
        self.queries, self.stream, self.plain, self.newest = queries, stream, plain, NEVER
        self.groups = {query.name: self._begun(query) for query in queries}

    def _begun(self, query: Query) -> _MergedGroup:
        """Return a group for a query that has not seen what came so far.

        A place that got nothing since does not answer it, though it may have missed something: so it is known here.
        """
        group = _MergedGroup.of(query, self.stream)
        group.add([query], NEVER, self.newest)
        group.answers.plain = self.plain
        return group

    def note(self, newest: int) -> None:
        """Note that events up to some time have come."""
        self.newest = max(self.newest, newest)

    def merge(self, rows: pa.Table, watermark: int) -> Answers:
        """Return the answers of the windows that a watermark closes, by query; `rows` are the answers of all places."""
        blocks: list[AnswerBlock] = []
        for name, group in self.groups.items():
            blocks += group.merged(rows.filter(pc.equal(rows["query"], name)), watermark)
        return Answers(blocks, None, self.plain, watermark)

    def snapshot(self) -> bytes:
        """Return what is remembered as bytes."""
        meta = {"merged": list(self.groups), "newest": self.newest}
        return snapshot.encode(meta, {}, [group.state() for group in self.groups.values()])

    def load(self, blob: bytes) -> None:
        """Take over what `snapshot` returned, of the queries that are still the same; others begin now."""
        meta, _, states = snapshot.decode(blob)
        self.newest = meta["newest"]
        before = dict(zip(meta["merged"], (_MergedGroup.load(state, self.stream) for state in states), strict=True))
        for query in self.queries:
            group = before.get(query.name)
            if group is None or group.queries != [query]:
                group = self._begun(query)
            group.answers.plain = self.plain
            self.groups[query.name] = group
