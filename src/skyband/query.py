"""The question: what to rank, over which windows, how many; checked when it is made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

from skyband.durations import Duration, microseconds, spoken
from skyband.errors import QueryError
from skyband.expressions import Expression
from skyband.expressions import parse as parse_anew
from skyband.join import Join
from skyband.sides import Sides, holds_aggregates

Order = Literal["desc", "asc"]
Distinct = Literal["best", "latest"]
Emit = Literal["final", "changes", "entered", "left", "early"]
Closed = Literal["left", "right"]

LARGEST_K = 1_000_000
parse = lru_cache(4096)(parse_anew)  # a thousand queries mostly share a few scores
_COUNT = re.compile(r"\s*(\d+)\s*(?:events?|rows?)\s*")
ANSWER_COLUMNS = (
    "query", "window_start", "window_end", "rank", "id", "score", "time",
    "partition", "change", "previous_rank", "provisional", "exact", "why",
)  # fmt: skip
JOINED_COLUMNS = ("age", "refreshes", "failures", "stale")
"""Columns that only the answers of joined queries have, behind the remote value."""


@dataclass(frozen=True)
class Window:
    """The last `size`, answered every `slide`.

    Parameters
    ----------
    size
        How far a window reaches: ``"10 minutes"``, a `timedelta` or microseconds for event time; ``"100 events"``
        for the last 100 events in arrival order.
    slide
        How often it is answered, in the same kind; `size` (windows that touch and never overlap) when left out.
    offset
        Shifts the starts of time windows away from the epoch: ``"15 minutes"`` gives windows that start at a
        quarter past.
    closed
        ``"left"``: windows are ``[start, end)``; ``"right"``: ``(start, end]``, as in RSP-QL.

    Examples
    --------
    >>> Window("1 hour", slide="10 minutes")
    Window('1 hour', slide='10 minutes')
    >>> Window("100 events", slide="1 event").counts
    True
    """

    size: int
    slide: int
    offset: int
    closed: Closed
    counts: bool

    def __init__(
        self,
        size: Duration,
        slide: Duration | None = None,
        *,
        offset: Duration = 0,
        closed: Closed = "left",
    ) -> None:
        problems: list[str] = []
        length, counts = extent(size, "size", problems)
        step, counts_too = (length, counts) if slide is None else extent(slide, "slide", problems)
        shift = _checked(offset, "offset", problems)
        if not problems:
            problems += _window_problems(length, step, shift, closed, counts, counts_too)
        if problems:
            raise QueryError(problems)
        for name, value in (
            ("size", length),
            ("slide", step),
            ("offset", shift),
            ("closed", closed),
            ("counts", counts),
        ):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        parts = [repr(self._spoken(self.size)), f"slide={self._spoken(self.slide)!r}"]
        if self.offset:
            parts.append(f"offset={spoken(self.offset)!r}")
        if self.closed != "left":
            parts.append(f"closed={self.closed!r}")
        return f"Window({', '.join(parts)})"

    def _spoken(self, extent: int) -> str:
        return f"{extent} event{'' if extent == 1 else 's'}" if self.counts else spoken(extent)

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters that make this window again."""
        return {
            "size": self._spoken(self.size),
            "slide": self._spoken(self.slide),
            "offset": spoken(self.offset) if self.offset else 0,
            "closed": self.closed,
        }


def extent(value: Duration, what: str, problems: list[str]) -> tuple[int, bool]:
    """Return how long something is, and whether that counts events; add to the problems what is wrong with it."""
    if isinstance(value, str) and (match := _COUNT.fullmatch(value)):
        return int(match[1]), True
    return _checked(value, what, problems), False


def _checked(value: Duration, what: str, problems: list[str]) -> int:
    try:
        return microseconds(value, what)
    except QueryError as error:
        problems.extend(error.problems)
        return 0


def _window_problems(size: int, slide: int, offset: int, closed: str, counts: bool, counts_too: bool) -> list[str]:
    def say(extent: int, counted: bool) -> str:
        return f"{extent} events" if counted else spoken(extent)

    problems = []
    if counts != counts_too:
        problems.append(
            f"size is {say(size, counts)} but slide is {say(slide, counts_too)}; give both in time or both in events"
        )
    if size <= 0:
        problems.append(f"size is {say(size, counts)}; it must be more than 0")
    if slide <= 0:
        problems.append(f"slide is {say(slide, counts_too)}; it must be more than 0")
    if counts == counts_too and slide > size > 0:
        problems.append(
            f"slide ({say(slide, counts)}) is larger than size ({say(size, counts)}), so events between two windows "
            "would be in no answer; use a slide of at most the size"
        )
    if closed not in get_args(Closed):
        problems.append(f"closed is {closed!r}; use 'left' for [start, end) or 'right' for (start, end]")
    if counts and (offset or closed != "left"):
        problems.append("offset and closed are for time windows; leave them out of a window that counts events")
    return problems


@dataclass(frozen=True)
class Query:
    """One continuous question: the `k` best events of each window.

    Parameters
    ----------
    name
        What answers are labelled with; unique among the queries that run together.
    k
        How many events to rank, at least 1.
    score
        SQL expression over the stream's columns that ranks events, such as ``"price * volume"``; or, with aggregates,
        that ranks ids by all their events of the window: ``count(*)``, ``count(x)``, ``sum(x)``, ``max(x)``,
        ``min(x)``, ``avg(x)``, as in ``"sum(price * volume) / sum(volume)"``.
    window
        How far each window reaches and how often it is answered.
    where
        SQL condition; only events for which it is true take part.
    partition_by
        SQL expression; the best `k` of each of its values are ranked apart.
    distinct
        None ranks events; ``"best"`` counts an id once, with its best event of the window; ``"latest"`` once, with
        its latest.
    order
        ``"desc"``: larger scores are better; ``"asc"``: smaller ones.
    emit
        ``"final"``: each answer when its window closes; ``"changes"``: what entered, left or moved since the answer
        before; ``"entered"`` and ``"left"``: only that part of the changes, as RSP-QL's IStream and DStream;
        ``"early"``: also provisional answers of windows that are still open.
    select
        Columns of the stream to carry into the answer.
    join
        Remote data to join with; its service's name is then a column of `score` and `where`. Each id counts once, with
        its latest event of the window, or with the aggregates of the score.
    group_by
        With aggregates in the score: the column whose values are ranked, as the ids of the answer; the stream's ids
        where it is left out.

    Examples
    --------
    >>> q = Query("volatile", k=10, score="price * volume", window=Window("1 hour", slide="10 minutes"))
    >>> q.k, q.window.slide
    (10, 600000000)
    >>> Query("bad", k=0, score="price *", window=Window("1 hour"))
    Traceback (most recent call last):
    skyband.errors.QueryError: query 'bad': 2 problems:
    ...
    """

    name: str
    k: int = field(kw_only=True)
    score: str = field(kw_only=True)
    window: Window = field(kw_only=True)
    where: str | None = field(kw_only=True, default=None)
    partition_by: str | None = field(kw_only=True, default=None)
    distinct: Distinct | None = field(kw_only=True, default=None)
    order: Order = field(kw_only=True, default="desc")
    emit: Emit = field(kw_only=True, default="final")
    select: tuple[str, ...] = field(kw_only=True, default=())
    join: Join | None = field(kw_only=True, default=None)
    group_by: str | None = field(kw_only=True, default=None)

    def __post_init__(self) -> None:
        if isinstance(self.select, list):
            object.__setattr__(self, "select", tuple(self.select))
        problems = [*_value_problems(self), *_choice_problems(self), *_select_problems(self.select)]
        for what in ("score", "where", "partition_by"):
            text = getattr(self, what)
            if text is not None or what == "score":
                problems += _expression_problems(what, text, aggregates=what == "score")
        sound = not problems
        if self.join is not None:
            problems += _join_problems(self, sound)
        if sound:
            problems += _group_problems(self)
        if problems:
            raise QueryError(problems, self.name if isinstance(self.name, str) else None)

    @cached_property
    def score_expression(self) -> Expression:
        """The parsed score."""
        return parse(self.score, aggregates=True)

    @cached_property
    def where_expression(self) -> Expression | None:
        """The parsed condition, if there is one."""
        return None if self.where is None else parse(self.where)

    @cached_property
    def partition_expression(self) -> Expression | None:
        """The parsed partition, if there is one."""
        return None if self.partition_by is None else parse(self.partition_by)

    @property
    def emits_changes(self) -> bool:
        """Whether answers say what changed, or a part of it."""
        return self.emit in ("changes", "entered", "left")

    @property
    def ranks_ids(self) -> bool:
        """Whether ids are ranked, each once, and not events."""
        return self.distinct is not None or self.sides is not None

    @cached_property
    def sides(self) -> Sides | None:
        """The stream's side and the remote one, of a query that joins or aggregates; None where events are ranked."""
        if self.join is None and not holds_aggregates(self.score_expression.tree):
            return None
        service = None if self.join is None else self.join.service
        return Sides.of(service, self.score_expression, self.where_expression)

    def as_dict(self) -> dict[str, Any]:
        """Return the query as plain values, as a query file holds it; `from_dict` makes it again.

        Examples
        --------
        >>> q = Query("top", k=3, score="x", window=Window("1 minute"))
        >>> Query.from_dict(q.as_dict()) == q
        True
        """
        given = {
            "name": self.name,
            "k": self.k,
            **self.window.as_dict(),
            "score": self.score,
            "where": self.where,
            "partition_by": self.partition_by,
            "distinct": self.distinct,
            "order": self.order,
            "emit": self.emit,
            "select": list(self.select),
            "join": None if self.join is None else self.join.as_dict(),
            "group_by": self.group_by,
        }
        return {key: value for key, value in given.items() if value not in (None, 0, [])}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Query:
        """Make a query from plain values: `name`, `k`, `size`, `slide`, `score` and the optional ones.

        Examples
        --------
        >>> Query.from_dict({"name": "top", "k": 3, "size": "1 hour", "score": "price"}).window
        Window('1 hour', slide='1 hour')
        """
        name = given.get("name") if isinstance(given.get("name"), str) else None
        problems = []
        if unknown := sorted(set(given) - set(_KEYS)):
            problems.append(f"unknown key {', '.join(map(repr, unknown))}; allowed are {', '.join(_KEYS)}")
        if missing := [key for key in ("name", "k", "size", "score") if key not in given]:
            problems.append(f"missing key {', '.join(map(repr, missing))}")
        window = None
        if "size" in given:
            try:
                window = Window(**{key: given[key] for key in _WINDOW_KEYS if key in given})
            except QueryError as error:
                problems += error.problems
        rest = {key: given[key] for key in _KEYS if key in given and key not in _WINDOW_KEYS}
        if not isinstance(rest.get("join"), Join | None):
            try:
                rest["join"] = Join.from_dict(rest["join"])
            except QueryError as error:
                raise QueryError([*problems, *error.problems], name) from None
        try:
            query = cls(**{"name": "?", "k": 1, "score": "1", **rest}, window=window or Window(1))
        except QueryError as error:
            problems += error.problems
        if problems:
            raise QueryError(problems, name)
        return query


_WINDOW_KEYS = ("size", "slide", "offset", "closed")
_KEYS = (
    "name", "k", "size", "slide", "offset", "closed", "score", "where", "partition_by",
    "distinct", "order", "emit", "select", "join", "group_by",
)  # fmt: skip


def _value_problems(query: Query) -> list[str]:
    problems = []
    if not isinstance(query.name, str) or not query.name.strip():
        problems.append(f"name is {query.name!r}; give the query a name, a text that is not empty")
    if not isinstance(query.k, int) or isinstance(query.k, bool):
        problems.append(f"k is {query.k!r}; give a whole number from 1 to {LARGEST_K:,}")
    elif not 1 <= query.k <= LARGEST_K:
        problems.append(f"k is {query.k}; it must be from 1 to {LARGEST_K:,}")
    if not isinstance(query.window, Window):
        problems.append(f"window is {query.window!r}; give a Window, such as Window('1 hour', slide='10 minutes')")
    return problems


def _choice_problems(query: Query) -> list[str]:
    choices = (
        ("distinct", query.distinct, (None, *get_args(Distinct))),
        ("order", query.order, get_args(Order)),
        ("emit", query.emit, get_args(Emit)),
    )
    return [
        f"{what} is {value!r}; use {', '.join(map(repr, allowed[:-1]))} or {allowed[-1]!r}"
        for what, value, allowed in choices
        if value not in allowed
    ]


def _select_problems(select: Sequence[str]) -> list[str]:
    if not isinstance(select, tuple) or not all(isinstance(column, str) and column for column in select):
        return [f"select is {select!r}; give the names of columns, such as ('price', 'venue')"]
    problems = []
    if twice := sorted({column for column in select if select.count(column) > 1}):
        problems.append(f"select names {', '.join(map(repr, twice))} twice; name each column once")
    if taken := [column for column in select if column in ANSWER_COLUMNS]:
        problems.append(
            f"select names {', '.join(map(repr, taken))}, which every answer has a column of its own for; "
            "leave it out, or rename the stream's column"
        )
    return problems


def _join_problems(query: Query, sound: bool) -> list[str]:
    """List what a joined query cannot have; `sound`: its expressions can be read."""
    join = query.join
    if not isinstance(join, Join):
        return [f"join is {join!r}; give a Join, such as Join('followers', budget=10)"]
    problems = []
    if isinstance(query.window, Window) and query.window.counts:
        problems.append("a joined query is answered in time, and its window counts events; give a window of time")
    if query.distinct == "best":
        problems.append("a joined query ranks ids, each with its latest event; leave distinct='best' out")
    if query.partition_by is not None:
        problems.append("a joined query has one ranking; leave partition_by out, or make a query for each part")
    if query.emit == "early":
        problems.append("each answer of a joined query costs refreshes; use emit='final' or 'changes'")
    taken = (*ANSWER_COLUMNS, *JOINED_COLUMNS, *query.select)
    if join.service in taken:
        problems.append(f"the service is called {join.service!r}, which is a column of the answer; call it otherwise")
    if clash := [column for column in query.select if column in JOINED_COLUMNS]:
        problems.append(
            f"select names {', '.join(map(repr, clash))}, which joined answers have a column of their own for"
        )
    if not sound or problems:
        return problems
    try:
        sides = query.sides
    except QueryError as error:
        return list(error.problems)
    assert sides is not None
    policy, filtered = join.policy_for(sides.condition is not None), sides.condition is not None
    if filtered and not policy.whole_window:
        problems.append(f"the policy {policy.name!r} is for rankings, and the condition compares {join.service!r}; "
                        "choose 'Filter Update', or one that begins with WSJ")  # fmt: skip
    if filtered and join.carry:
        problems.append("the join's carry is for rankings; leave it out where the condition compares the remote value")
    if policy.needs_filter and not filtered:
        problems.append(f"the policy {policy.name!r} is for conditions such as {join.service} > 500; choose another "
                        "one, such as 'AT-BSM', or add the condition")  # fmt: skip
    return problems


def _group_problems(query: Query) -> list[str]:
    """List what a query with aggregates cannot have, and who else cannot group."""
    key = query.group_by
    if key is not None and (not isinstance(key, str) or not key):
        return [f"group_by is {key!r}; give the name of a column, or leave it out for the stream's ids"]
    if not holds_aggregates(query.score_expression.tree):
        return [] if key is None else [
            f"group_by is {key!r}, and the score {query.score!r} has no aggregate; write count(*), sum(…), max(…), "
            "min(…) or avg(…), or leave group_by out"
        ]  # fmt: skip
    if query.join is not None:
        return []
    problems = []
    if query.window.counts:
        problems.append("aggregates are of windows of time, and the window counts events; give a window of time")
    if query.distinct is not None:
        problems.append(f"aggregates rank ids, each once; leave distinct={query.distinct!r} out")
    if query.partition_by is not None:
        problems.append("aggregates have one ranking; leave partition_by out, or make a query for each part")
    if query.emit == "early":
        problems.append("aggregates are shown when their window closes; use emit='final' or 'changes'")
    try:
        assert query.sides
    except QueryError as error:
        problems += error.problems
    return problems


def _expression_problems(what: str, text: Any, aggregates: bool = False) -> list[str]:
    if not isinstance(text, str):
        example = {"score": "price * volume", "where": "price > 10", "partition_by": "venue"}[what]
        return [f"{what} is {text!r}; give an SQL expression as text, such as {example!r}"]
    try:
        parse(text, aggregates=aggregates)
    except QueryError as error:
        return [f"{what}: {problem}" for problem in error.problems]
    return []
