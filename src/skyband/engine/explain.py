"""In words: which queries share what, and what each group keeps, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from skyband.algorithms.stkqf.skyline import Case
from skyband.engine.joined_query import JoinedQuery
from skyband.engine.per_id import PerIdQuery
from skyband.engine.ranking import RankingGroup
from skyband.queries.query import Query
from skyband.windows import Schedule


def explain(groups: Sequence[RankingGroup], algorithm: str, joins: Sequence[PerIdQuery] = ()) -> str:
    """Describe the groups of a monitor, one paragraph each, then its joined and aggregated queries."""
    count = sum(len(group.queries) for group in groups) + len(joins)
    shared = f" in {len(groups)} {_plural('group', len(groups))}, algorithm {algorithm!r}" if groups else ""
    lines = [f"{count} {_plural('query', count)}{shared}"]
    for number, group in enumerate(groups, 1):
        lines += ["", f"group {number}: {group.ranking}"]
        moment = str if group.ranking.counts or group.plain else clock_time
        for query, schedule in zip(group.queries, group.schedules, strict=True):
            lines.append(f"  {_query_line(query)}{_past(schedule, moment)}")
        lines += [f"  {line}" for line in group.algorithm.explain(moment)]
        stats = group.stats()
        if stats.events:  # before the first event there is nothing to count
            limit = f"; at most {stats.bound:,}" if stats.kept else ""
            lines.append(f"  keeps {stats.kept:,} of {stats.events:,} events now{limit}")
    for one in joins:
        kind, more = ("joined", _join_lines(one)) if isinstance(one, JoinedQuery) else ("aggregated", _sum_lines(one))
        lines += ["", f"{kind}: {one}", *(f"  {line}" for line in more)]
    return "\n".join(lines)


def _join_lines(one: JoinedQuery) -> list[str]:
    """Say what a joined query asks of whom, and what it keeps."""
    join, sides, remote = one.query.join, one.sides, one.remote
    assert join is not None
    policy = join.policy_for(sides.condition is not None)
    most = "no bound" if join.only_candidates else "all of the window is refreshed"
    budget = most if join.budget is None else f"at most {join.budget:,} refreshes an answer"
    whole = remote.shared_budget.budget
    shared = "" if whole is None else f", {whole:,} at one moment with others that share it"
    counted = f"{', '.join(map(str, sides.aggregates))} of its events" if sides.aggregates else "its latest event"
    kept = (
        "the whole window" if one.join.objects.whole else f"a list of the best {one.query.k} + {join.n} of each window"
    )
    lines = [
        _query_line(one.query),
        f"service {join.service!r} by {join.on or 'the id'}: {policy.name}, {budget}{shared}",
        f"an id counts once, with {counted}; {kept} is kept{_now(one, ' objects')}",
    ]
    if remote.traffic.requests:
        lines.append(f"{len(remote.replica):,} remote values are known, {remote.traffic.requests:,} requests were made")
    return lines


def _sum_lines(one: PerIdQuery) -> list[str]:
    """Say what an aggregated query keeps."""
    key = one.query.group_by or "the id"
    return [
        _query_line(one.query),
        f"{key} counts once, with {', '.join(map(str, one.sides.aggregates))} of its events; one row for each pane and "
        f"{key} is kept{_now(one)}",
    ]


def _now(one: PerIdQuery, what: str = "") -> str:
    """Say how much is kept of the events so far; nothing before the first one."""
    stats = one.stats()
    return f": {stats.kept:,}{what} of {stats.events:,} events now" if stats.events else ""


def clock_time(position: int) -> str:
    """Put microseconds since the epoch into a date and a time of day.

    Examples
    --------
    >>> clock_time(90_000_000)
    '1970-01-01 00:01:30'
    """
    return str(np.datetime64(position, "us")).replace("T", " ").removesuffix(".000000")


def _query_line(query: Query) -> str:
    extras = [f"select {', '.join(query.select)}"] if query.select else []
    extras += [f"emit {query.emit}"] if query.emit != "final" else []
    return f"{query.name}: {'all that pass' if query.is_set else f'best {query.k}'} over {query.window!r}" + "".join(
        f", {extra}" for extra in extras
    )


def _past(schedule: Schedule, moment: Callable[[int], str]) -> str:
    """Say of a query that came later what it misses of the stream's past, and why."""
    if not schedule.past:
        return ""
    then = {"missing": "it warms up", "awaited": "they will be read", "filled": "they were read"}[schedule.past]
    low, high = moment(schedule.missing_from), moment(schedule.missing_to)
    case = Case(schedule.case)
    return f"; came later (case {case.value}: {case.meaning}), missed events from {low} to {high}: {then}"


def _plural(word: str, count: int) -> str:
    if count == 1:
        return word
    return word[:-1] + "ies" if word.endswith("y") else word + "s"
