"""The question: what to rank, over which windows, how many; checked when it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

from skyband.errors import QueryError
from skyband.expressions import Expression
from skyband.expressions import parse as parse_anew
from skyband.order import Prefer, Ties
from skyband.queries.decomposition import Decomposition, holds_aggregates
from skyband.queries.join import Join
from skyband.queries.outputs import Output, key_of, named
from skyband.windows import WINDOW_KEYS, Window

Order = Literal["desc", "asc"]
Distinct = Literal["best", "latest"]
Emit = Literal["final", "changes", "entered", "left", "early"]

HowMany = int | Literal["all"]
LARGEST_K = 1_000_000
MAX_ROWS = 10_000
"""How many rows the answer of a set has at most, where nobody says otherwise."""
MAX_TIES = 10_000
"""How many rows an answer with ties has at most, where nobody says otherwise."""
UNIQUE_RANK = "unique_rank"
"""The column of answers with ties that numbers their rows, since ranks repeat."""
parse = lru_cache(4096)(parse_anew)  # a thousand queries mostly share a few scores

ANSWER_COLUMNS = (
    "query", "window_start", "window_end", "rank", "id", "score", "time",
    "partition", "change", "previous_rank", "provisional", "exact", "why", "unique_rank",
)  # fmt: skip
JOINED_COLUMNS = ("age", "refreshes", "failures", "stale")
"""Columns that only the answers of joined queries have, behind the remote value."""


@dataclass(frozen=True)
class Query:
    """One continuous question: the `k` best events of each window, or all ids that pass a condition on remote data.

    Parameters
    ----------
    name
        What answers are labelled with; unique among the queries that run together.
    k
        How many events to rank, at least 1. ``"all"`` asks for a set: all ids of the window whose remote value passes
        the condition, without ranks, in order of their ids; for joins with such a condition alone.
    score
        SQL expression over the stream's columns that ranks events, such as ``"price * volume"``; or, with aggregates,
        that ranks ids by all their events of the window: ``count(*)``, ``count(x)``, ``count(DISTINCT x)``,
        ``approx_count_distinct(x)``, ``sum(x)``, ``max(x)``, ``min(x)``, ``avg(x)``, as in
        ``"sum(price * volume) / sum(volume)"``.
    window
        How far each window reaches and how often it is answered.
    where
        SQL condition; only events for which it is true take part.
    partition_by
        SQL expression; the best `k` of each of its values are ranked apart. Several, as ``("country", "city")``, are
        columns of the answer, each under its own name or that of ``expression AS name``.
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
        Columns of the stream to carry into the answer, or values with a name: ``"price * volume AS turnover"``; with
        aggregates in the score also further aggregates, ``"count(*) AS trades"``.
    join
        Remote data to join with; its service's name is then a column of `score` and `where`. Each id counts once, with
        its latest event of the window, or with the aggregates of the score.
    group_by
        With aggregates in the score: the column, or ``expression AS name``, whose values are ranked, as the ids of the
        answer; the stream's ids where it is left out. Several, as ``("venue", "symbol")``, are columns of the answer,
        each under its own name; the id is then a text of them all. NULL is a value like others.
    having
        With aggregates in the score: SQL condition over aggregates; only ids for which it is true are ranked.
    ties
        None: exactly `k` rows, equal scores ranked by time and id. ``"with"``: also all rows that tie with the last of
        them; equal scores have equal ranks, and ranks are left out after them, as SQL's RANK does. ``"dense"``: all
        rows with one of the `k` best scores, numbered without gaps, as SQL's DENSE_RANK does.
    max_ties
        With `ties`: how many rows an answer, or a partition of it, has at most. A larger one is cut, and not flagged
        exact.
    prefer
        Which of several events with equal scores ranks first: the ``"latest"`` or the ``"earliest"``; with aggregates
        also ``"id"``, the smallest id whatever the times.
    max_rows
        Of a set (``k="all"``): how many rows an answer has at most. A larger one is cut, and not flagged exact.

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
    k: HowMany = field(kw_only=True)
    score: str = field(kw_only=True)
    window: Window = field(kw_only=True)
    where: str | None = field(kw_only=True, default=None)
    partition_by: str | tuple[str, ...] | None = field(kw_only=True, default=None)
    distinct: Distinct | None = field(kw_only=True, default=None)
    order: Order = field(kw_only=True, default="desc")
    emit: Emit = field(kw_only=True, default="final")
    select: tuple[str, ...] = field(kw_only=True, default=())
    join: Join | None = field(kw_only=True, default=None)
    group_by: str | tuple[str, ...] | None = field(kw_only=True, default=None)
    max_rows: int = field(kw_only=True, default=MAX_ROWS)
    having: str | None = field(kw_only=True, default=None)
    ties: Ties | None = field(kw_only=True, default=None)
    max_ties: int = field(kw_only=True, default=MAX_TIES)
    prefer: Prefer = field(kw_only=True, default="latest")

    def __post_init__(self) -> None:
        for what in ("select", "partition_by", "group_by"):
            if isinstance(given := getattr(self, what), list):
                object.__setattr__(self, what, tuple(given))
        problems = [*_value_problems(self), *_choice_problems(self), *_select_problems(self.select)]
        for what in ("score", "where", "having"):
            text = getattr(self, what)
            if text is not None or what == "score":
                problems += _expression_problems(what, text, aggregates=what != "where")
        problems += [*_key_problems("partition_by", self.partition_by), *_key_problems("group_by", self.group_by)]
        if not problems:
            problems += _column_problems(self)
        sound = not problems
        if self.join is not None:
            problems += _join_problems(self, sound)
        if sound:
            problems += _group_problems(self)
        if sound and not problems and self.is_set:
            problems += _set_problems(self)
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
    def having_expression(self) -> Expression | None:
        """The parsed condition over aggregates, if there is one."""
        return None if self.having is None else parse(self.having, aggregates=True)

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        """What `select` lists, parsed."""
        return tuple(named(one, aggregates=True) for one in self.select)

    @cached_property
    def partition_keys(self) -> tuple[Output, ...]:
        """What `partition_by` lists, parsed."""
        return tuple(named(one, expressions=True) for one in _listed(self.partition_by))

    @cached_property
    def group_keys(self) -> tuple[Output, ...]:
        """What `group_by` lists, parsed."""
        return tuple(map(named, _listed(self.group_by)))

    @cached_property
    def partition_expression(self) -> Expression | None:
        """What tells partitions apart, if there are any: the one key, or a text of them all."""
        return key_of(self.partition_keys)

    @cached_property
    def group_expression(self) -> Expression | None:
        """What ids are taken from instead of the stream's own: the one key, or a text of them all."""
        return key_of(self.group_keys)

    @cached_property
    def key_columns(self) -> tuple[Output, ...]:
        """The keys that are columns of the answer: all of a list, and one that is given a name."""
        keys: list[Output] = []
        for by, some in ((self.partition_by, self.partition_keys), (self.group_by, self.group_keys)):
            renamed = [key for key in some if key.column is None and key.name not in (by, str(key.expression))]
            keys += some if isinstance(by, tuple) else renamed
        return tuple(keys)

    @cached_property
    def columns(self) -> tuple[Output, ...]:
        """What answers show besides their own columns: keys, then what is selected."""
        return tuple(dict.fromkeys((*self.key_columns, *self.outputs)))

    @cached_property
    def carried(self) -> tuple[Output, ...]:
        """Those of `columns` that events have; the others are made of aggregates."""
        return tuple(one for one in self.columns if not holds_aggregates(one.expression.tree))

    @cached_property
    def is_set(self) -> bool:
        """Whether answers are sets: all ids that pass, none ranked."""
        return self.k == "all"

    @property
    def most_rows(self) -> int:
        """How many rows an answer, or a partition of it, has at most."""
        return self.k if isinstance(self.k, int) else self.max_rows

    @cached_property
    def emits_changes(self) -> bool:
        """Whether answers say what changed, or a part of it."""
        return self.emit in ("changes", "entered", "left")

    @property
    def ranks_ids(self) -> bool:
        """Whether ids are ranked, each once, and not events."""
        return self.distinct is not None or not self.ranks_events

    @property
    def ranks_events(self) -> bool:
        """Whether events are ranked by their own score: the query neither joins nor aggregates."""
        return self.decomposition is None

    @cached_property
    def decomposition(self) -> Decomposition | None:
        """The parts of a query that joins or aggregates; None where events are ranked."""
        if self.join is None and not self.aggregates:
            return None
        service = None if self.join is None else self.join.service
        if not self.aggregates:
            return Decomposition.of(service, self.score_expression, self.where_expression)
        further = [one for one in self.outputs if one not in self.carried]
        return Decomposition.of(service, self.score_expression, self.where_expression, self.having_expression, further)

    @cached_property
    def aggregates(self) -> bool:
        """Whether the score is made of aggregates."""
        return holds_aggregates(self.score_expression.tree)

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
            "partition_by": _plain_list(self.partition_by),
            "distinct": self.distinct,
            "order": self.order,
            "emit": self.emit,
            "select": list(self.select),
            "join": None if self.join is None else self.join.as_dict(),
            "group_by": _plain_list(self.group_by),
            "max_rows": None if self.max_rows == MAX_ROWS else self.max_rows,
            "having": self.having,
            "ties": self.ties,
            "max_ties": None if self.max_ties == MAX_TIES else self.max_ties,
            "prefer": None if self.prefer == "latest" else self.prefer,
        }
        return {key: value for key, value in given.items() if value not in (None, 0, [])}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Query:
        """Make a query from plain values: `name`, `k`, `size` or `window`, `score` and the optional ones.

        Examples
        --------
        >>> Query.from_dict({"name": "top", "k": 3, "size": "1 hour", "score": "price"}).window
        Window('1 hour', slide='1 hour')
        """
        name = given.get("name") if isinstance(given.get("name"), str) else None
        problems = []
        if unknown := sorted(set(given) - set(_KEYS)):
            problems.append(f"unknown key {', '.join(map(repr, unknown))}; allowed are {', '.join(_KEYS)}")
        lengths = {key: given[key] for key in (*_WINDOW_KEYS, "window") if key in given}
        needed = ("name", "k", "score") if "window" in given else ("name", "k", "size", "score")
        if missing := [key for key in needed if key not in given]:
            problems.append(f"missing key {', '.join(map(repr, missing))}")
        window = None
        if "window" in given and len(lengths) > 1:
            doubled = ", ".join(key for key in lengths if key != "window")
            problems.append(f"there is a window and {doubled} beside it; put all that it has into the table")
        elif "window" in given or "size" in given:
            try:
                window = Window.from_dict(lengths)
            except QueryError as error:
                problems += error.problems
        rest = {key: given[key] for key in _KEYS if key in given and key not in lengths}
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


_WINDOW_KEYS = WINDOW_KEYS["sliding"]
_KEYS = (
    "name", "k", "size", "slide", "offset", "closed", "window", "score", "where", "partition_by",
    "distinct", "order", "emit", "select", "join", "group_by", "max_rows",
    "having", "ties", "max_ties", "prefer",
)  # fmt: skip


def _listed(given: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return () if given is None else (given,) if isinstance(given, str) else given


def _plain_list(given: str | tuple[str, ...] | None) -> str | list[str] | None:
    return list(given) if isinstance(given, tuple) else given


def _value_problems(query: Query) -> list[str]:
    problems = []
    if not isinstance(query.name, str) or not query.name.strip():
        problems.append(f"name is {query.name!r}; give the query a name, a text that is not empty")
    if query.k != "all" and (not isinstance(query.k, int) or isinstance(query.k, bool)):
        problems.append(f"k is {query.k!r}; give a whole number from 1 to {LARGEST_K:,}, or 'all' for a set")
    elif isinstance(query.k, int) and not 1 <= query.k <= LARGEST_K:
        problems.append(f"k is {query.k}; it must be from 1 to {LARGEST_K:,}")
    most = query.max_rows
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= LARGEST_K:
        problems.append(f"max_rows is {most!r}; give a whole number from 1 to {LARGEST_K:,}")
    elif most != MAX_ROWS and not query.is_set:
        problems.append(f"max_rows is {most}, which bounds sets, and k is {query.k!r}; give k='all', or leave it out")
    problems += _ties_problems(query)
    if not isinstance(query.window, Window):
        problems.append(f"window is {query.window!r}; give a Window, such as Window('1 hour', slide='10 minutes')")
    elif query.window.kind == "all_time" and query.distinct == "latest":
        problems.append(
            "the window is of all time, and the latest event of every id would be kept for good; use distinct='best', "
            "or a window that ends"
        )
    return problems


def _ties_problems(query: Query) -> list[str]:
    """List what is wrong with how many rows may tie."""
    most = query.max_ties
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= LARGEST_K:
        return [f"max_ties is {most!r}; give a whole number from 1 to {LARGEST_K:,}"]
    if query.ties is None:
        return [] if most == MAX_TIES else [
            f"max_ties is {most}, which bounds answers with ties, and there are none; give ties='with' or 'dense', or "
            "leave it out"
        ]  # fmt: skip
    problems = []
    if query.is_set:
        problems.append(f"k is 'all', and the rows of a set have no ranks to share; leave ties={query.ties!r} out")
    elif isinstance(query.k, int) and most < query.k:
        problems.append(f"max_ties is {most}, fewer rows than k, {query.k}; make it {query.k} at least")
    return problems


def _choice_problems(query: Query) -> list[str]:
    choices = (
        ("distinct", query.distinct, (None, *get_args(Distinct))),
        ("order", query.order, get_args(Order)),
        ("emit", query.emit, get_args(Emit)),
        ("ties", query.ties, (None, *get_args(Ties))),
        ("prefer", query.prefer, get_args(Prefer)),
    )
    return [
        f"{what} is {value!r}; use {', '.join(map(repr, allowed[:-1]))} or {allowed[-1]!r}"
        for what, value, allowed in choices
        if value not in allowed
    ]


def _select_problems(select: Sequence[str]) -> list[str]:
    if not isinstance(select, tuple) or not all(isinstance(column, str) and column for column in select):
        return [f"select is {select!r}; give the names of columns, such as ('price', 'venue')"]
    problems, names = [], []
    for one in select:
        try:
            names.append(named(one, aggregates=True).name)
        except QueryError as error:
            problems += [f"select: {problem}" for problem in error.problems]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        problems.append(f"select names {', '.join(map(repr, twice))} twice; name each column once")
    if taken := [name for name in names if name in ANSWER_COLUMNS]:
        problems.append(
            f"select names {', '.join(map(repr, taken))}, which every answer has a column of its own for; "
            "leave it out, or rename the stream's column"
        )
    return problems


def _column_problems(query: Query) -> list[str]:
    """List the keys whose columns would be in the way of others."""
    names = [one.name for one in query.columns]
    problems = []
    if taken := [key.name for key in query.key_columns if key.name in ANSWER_COLUMNS]:
        problems.append(
            f"the keys name {', '.join(map(repr, taken))}, which every answer has a column of its own for; give "
            "another name: 'expression AS name'"
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        problems.append(
            f"{', '.join(map(repr, twice))} is the name of different values in select, partition_by and group_by; "
            "give each a name of its own: 'expression AS name'"
        )
    return problems


def _key_problems(what: str, given: Any) -> list[str]:
    """List what is wrong with the keys of partitions or groups."""
    if given is None:
        return []
    if not isinstance(given, str | tuple) or not given or not all(isinstance(one, str) and one for one in given):
        return [f"{what} is {given!r}; give an SQL expression as text, such as 'venue', or several of them"]
    problems, names = [], []
    for one in _listed(given):
        try:
            names.append(named(one, expressions=what == "partition_by").name)
        except QueryError as error:
            problems += [f"{what}: {problem}" for problem in error.problems]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        problems.append(f"{what} names {', '.join(map(repr, twice))} twice; name each once")
    return problems


def _join_problems(query: Query, sound: bool) -> list[str]:
    """List what a joined query cannot have; `sound`: its expressions can be read."""
    join = query.join
    if not isinstance(join, Join):
        return [f"join is {join!r}; give a Join, such as Join('followers', budget=10)"]
    problems = []
    if isinstance(query.window, Window) and query.window.counts:
        problems.append("a joined query is answered in time, and its window counts events; give a window of time")
    if isinstance(query.window, Window) and query.window.kind != "sliding":
        problems.append(f"a joined query has windows that slide, and its window is {query.window!r}; give a size")
    if query.distinct == "best":
        problems.append("a joined query ranks ids, each with its latest event; leave distinct='best' out")
    if query.partition_by is not None:
        problems.append("a joined query has one ranking; leave partition_by out, or make a query for each part")
    if query.emit == "early":
        problems.append("each answer of a joined query costs refreshes; use emit='final' or 'changes'")
    if query.ties is not None and not query.is_set:
        problems.append(f"a joined query has k rows, equal scores ranked by time; leave ties={query.ties!r} out")
    if query.prefer != "latest":
        problems.append(f"of equal scores, a joined query ranks the latest first; leave prefer={query.prefer!r} out")
    names = [one.name for one in query.columns] if sound else []
    if join.service in (*ANSWER_COLUMNS, *JOINED_COLUMNS, *names):
        problems.append(f"the service is called {join.service!r}, which is a column of the answer; call it otherwise")
    if clash := [name for name in names if name in JOINED_COLUMNS]:
        problems.append(
            f"select names {', '.join(map(repr, clash))}, which joined answers have a column of their own for"
        )
    if not sound or problems:
        return problems
    try:
        parts = query.decomposition
    except QueryError as error:
        return list(error.problems)
    assert parts is not None
    filtered = parts.condition is not None
    policy = join.policy_for(filtered)
    if filtered and not policy.whole_window:
        problems.append(f"the policy {policy.name!r} is for rankings, and the condition compares {join.service!r}; "
                        "choose 'WSJ-LRU.F', or another one that begins with WSJ")  # fmt: skip
    if filtered and join.carry:
        problems.append("the join's carry is for rankings; leave it out where the condition compares the remote value")
    if policy.needs_filter and not filtered:
        problems.append(f"the policy {policy.name!r} is for conditions such as {join.service} > 500; choose another "
                        "one, such as 'AT-GAIN', or add the condition")  # fmt: skip
    return problems


def _set_problems(query: Query) -> list[str]:
    """List what a set cannot have."""
    problems = []
    if query.join is None or query.decomposition is None or query.decomposition.condition is None:
        problems.append(
            "k is 'all', and the condition compares no remote value; a set is for joins with such a condition, as "
            "where='followers > 500': add it, or give a whole number to rank by the score"
        )
    if query.order != "desc":
        problems.append(f"k is 'all', and a set has no order; leave order={query.order!r} out")
    return problems


def _group_problems(query: Query) -> list[str]:
    """List what a query with aggregates cannot have, and who else cannot group."""
    if query.prefer == "id" and (not query.aggregates or query.join is not None):
        return ["prefer is 'id', which is for rankings of aggregates; use 'latest' or 'earliest'"]
    if not query.aggregates:
        further = [str(one.expression) for one in query.outputs if one not in query.carried]
        given = {"group_by": query.group_by, "having": query.having, "select": ", ".join(further) or None}
        advice = {"having": "put a condition on single events into where"}
        return [
            f"{what} is {value!r}, and the score {query.score!r} has no aggregate; write count(*), sum(…), max(…), "
            f"min(…) or avg(…), or {advice.get(what, f'leave {what} out')}"
            for what, value in given.items()
            if value is not None
        ]
    if query.join is not None:
        return []
    problems = []
    if query.window.counts:
        problems.append("aggregates are of windows of time, and the window counts events; give a window of time")
    if query.distinct is not None:
        problems.append(f"aggregates rank ids, each once; leave distinct={query.distinct!r} out")
    try:
        assert query.decomposition
    except QueryError as error:
        problems += error.problems
    return problems


def _expression_problems(what: str, text: Any, aggregates: bool = False) -> list[str]:
    if not isinstance(text, str):
        example = {"score": "price * volume", "where": "price > 10", "having": "count(*) > 3"}[what]
        return [f"{what} is {text!r}; give an SQL expression as text, such as {example!r}"]
    try:
        parse(text, aggregates=aggregates)
    except QueryError as error:
        return [f"{what}: {problem}" for problem in error.problems]
    return []
