"""Which queries a monitor serves, and who serves each.

Queries that rank alike share a group. Those that join or aggregate work alone, and may share services.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from skyband import algorithms
from skyband.algorithms.stkqf.skyline import Backfill
from skyband.engine.intake import Ranking
from skyband.engine.joins import Joins
from skyband.engine.ranking import RankingGroup
from skyband.errors import InputError, QueryError
from skyband.events.batch import StreamColumns
from skyband.queries.query import Query
from skyband.windows import NEVER, Schedule

logger = logging.getLogger(__name__)


class QueryRegistry:
    """Queries over one stream, which come and go.

    Parameters
    ----------
    algorithm
        The name of the algorithm that keeps the candidates.
    source
        The stream's columns of times and ids.
    services
        What joined queries join with, by name.
    """

    def __init__(self, algorithm: str, source: StreamColumns, services: Mapping[str, Any] | None) -> None:
        self.algorithm = algorithms.find(algorithm)
        self.source = source
        self.groups: list[RankingGroup] = []
        self.joins = Joins(services, source)
        self.order: list[str] = []
        self.schema: pa.Schema | None = None

    @property
    def queries(self) -> list[Query]:
        """The queries, in the order in which they were registered."""
        known = {query.name: query for group in self.groups for query in group.queries}
        known |= {one.name: one.query for one in self.joins.queries}
        return [known[name] for name in self.order]

    def group(self, name: str) -> RankingGroup:
        """Return the group that serves a query."""
        for group in self.groups:
            if any(query.name == name for query in group.queries):
                return group
        msg = f"there is no query {name!r}; there are {', '.join(map(repr, self.order)) or 'none'}"
        raise QueryError(msg)

    def schedule(self, name: str) -> Schedule:
        """Return the windows of a query."""
        joined = self.joins.schedule(name)
        return joined or next(s for s in self.group(name).schedules if s.name == name)

    def bind(self, schema: pa.Schema, joined: bool) -> None:
        """Look up the columns of all queries; those that join or aggregate may get their events elsewhere."""
        for group in self.groups:
            try:
                group.intake.bind(schema, self.source.id)
            except InputError as error:
                raise QueryError(str(error), group.queries[0].name) from None
            group.plain = self.source.is_plain(schema)
        if joined:
            self.joins.bind(schema)
        self.schema = schema

    # Coming and going.

    def add(self, queries: Sequence[Query], watermark: int | None, newest: int) -> list[Backfill | None]:
        """Serve more queries; return what each misses of the stream's past, None where it misses nothing.

        Parameters
        ----------
        queries
            The queries.
        watermark
            Windows that end by it are past.
        newest
            The time of the newest event; NEVER before the first.
        """
        self._check_names(queries)
        self._check_ranking(queries)
        self._check_columns(queries)
        missed = [self.look_back(query, watermark, newest) for query in queries]
        joined = self.joins.check(queries)
        alike: dict[Ranking, list[Query]] = {}
        for query in [query for query in queries if query.sides is None]:
            alike.setdefault(Ranking.of(query), []).append(query)
        mark = NEVER if watermark is None else watermark
        for members in alike.values():
            shared: dict[str, RankingGroup] = {}
            for query in sorted(members, key=lambda query: -len(query.select)):  # others may share what these select
                shared[query.name] = self._find_group(query) or self._new_group(query, newest)
            for group in dict.fromkeys(shared.values()):
                group.add([query for query in members if shared[query.name] is group], mark)
        self.joins.add(joined, mark, newest)
        self.order += [query.name for query in queries]
        for query, missing in zip(queries, missed, strict=True):
            if missing is not None:
                schedule = self.schedule(query.name)
                schedule.case, schedule.past = missing.case.value, "missing"
                schedule.missing_from, schedule.missing_to = missing.low, missing.high
        logger.info("serving %d queries in %d groups", len(self.order), len(self.groups))
        return missed

    def look_back(self, query: Query, watermark: int | None, newest: int) -> Backfill | None:
        """Return what a query, were it added now, would miss of the past; None when it would not."""
        if query.window.counts or query.sides is not None or newest == NEVER or watermark is None:
            return None
        schedule = Schedule.of(query)
        schedule.closed_to = watermark
        group = self._find_group(query) or RankingGroup(Ranking.of(query), self.algorithm, query.select, newest)
        return group.look_back(schedule, newest)

    def remove(self, name: str) -> None:
        """Stop serving a query; what is known of the service that it joined with stays."""
        if not self.joins.remove(name):
            group = self.group(name)
            group.remove(name)
            if not group.queries:
                self.groups.remove(group)
        self.order.remove(name)

    def change(self, query: Query, watermark: int | None, newest: int) -> None:
        """Put a query in the place of the one with its name; what is kept serves it as far as it goes."""
        paused = self.schedule(query.name).paused
        self._check_ranking([query])
        self._check_columns([query])
        self.look_back(query, watermark, newest)  # refuses too many windows while the present query is still there
        place = self.order.index(query.name)
        group = None if self.joins.find(query.name) else self.group(query.name)
        before = None
        if group is not None and query.sides is None and group.serves(query):
            before = group.previous.get(query.name)
        if group is not None and query.sides is None and self._find_group(query) is group:
            group.remove(query.name)
            group.add([query], NEVER if watermark is None else watermark)
        else:
            self.remove(query.name)
            self.add([query], watermark, newest)
            self.order.insert(place, self.order.pop())
        if before is not None and query.emits_changes:
            self.group(query.name).previous[query.name] = before
        self.schedule(query.name).paused = paused

    def _find_group(self, query: Query) -> RankingGroup | None:
        """Return the group that can serve a query, if there is one; of several the one that is exact first."""
        able = [group for group in self.groups if group.serves(query)]
        if len(able) < 2:
            return able[0] if able else None
        return min(able, key=lambda group: group.exact_from(Schedule.of(query)))

    def _new_group(self, query: Query, newest: int) -> RankingGroup:
        """Make a group for queries that rank and select as one does."""
        group = RankingGroup(Ranking.of(query), self.algorithm, query.select, newest)
        if self.schema is not None:
            group.intake.bind(self.schema, self.source.id)
            group.plain = self.source.is_plain(self.schema)
        self.groups.append(group)
        return group

    def _check_names(self, queries: Sequence[Query]) -> None:
        if odd := [query for query in queries if not isinstance(query, Query)]:
            msg = f"{odd[0]!r} is no Query; make one with Query(name, k=…, score=…, window=…)"
            raise QueryError(msg)
        names = [query.name for query in queries]
        known = set(self.order)
        if twice := sorted(name for name, count in Counter(names).items() if count > 1 or name in known):
            msg = f"there is already a query named {', '.join(map(repr, twice))}; names are unique: choose another"
            raise QueryError(msg)

    def _check_ranking(self, queries: Sequence[Query]) -> None:
        """Refuse queries that rank in a way the algorithm does not know."""
        for query in queries:
            if query.sides is None and query.distinct not in self.algorithm.distincts:
                able = [a.name for a in algorithms.ALGORITHMS.values() if query.distinct in a.distincts]
                msg = (
                    f"algorithm {self.algorithm.name!r} ranks events, as its paper does: it has no "
                    f"distinct={query.distinct!r}; leave that out, or take one of {', '.join(able)}"
                )
                raise QueryError(msg, query.name)

    def _check_columns(self, queries: Sequence[Query]) -> None:
        """Refuse queries over columns that the stream, once it is known, does not have."""
        if self.schema is not None:
            self.joins.check(queries)
            for query in [query for query in queries if query.sides is None]:
                if self._find_group(query) is not None:
                    continue
                try:
                    RankingGroup(Ranking.of(query), self.algorithm, query.select).intake.bind(
                        self.schema, self.source.id
                    )
                except InputError as error:
                    raise QueryError(str(error), query.name) from None
