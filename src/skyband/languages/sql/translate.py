"""From the normal form to a `Query`: which part of a relation becomes which parameter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from skyband.errors import QueryError
from skyband.expressions.tree import Call, Column, Node, to_sql
from skyband.languages.sql.relations import MARKS, Over, Relation, Sorted, is_number, made_of
from skyband.languages.sql.statements import Emission
from skyband.languages.sql.text import Used
from skyband.order import Prefer, Ties
from skyband.queries.decomposition import holds_aggregates
from skyband.queries.query import ANSWER_COLUMNS, Emit, Query
from skyband.times import Duration
from skyband.windows import Window

_TIES: dict[str, Ties | None] = {"ROW_NUMBER": None, "RANK": "with", "DENSE_RANK": "dense"}
EVERY: Duration = "1 second"
"""How often a ranking of all time is answered, where nobody says otherwise."""


@dataclass(frozen=True)
class Translated:
    """A query, and the columns that may serve as ids, the likeliest first."""

    query: Query
    forced: tuple[str, ...]  # columns that must be the ids, for the order that was asked for
    ids: tuple[str, ...]


class Translator:
    """Makes a query of one relation."""

    def __init__(self, used: Used, relation: Relation, place: int) -> None:
        self.used, self.relation, self.place = used, relation, place
        if relation.top is None:
            self._nothing_ranked()
        self.over: Over = relation.top[0]
        self.k: int = relation.top[1]
        self.parts = tuple(dict.fromkeys(self.over.parts))
        self.ids: list[str] = []

    def translate(self, name: str, emit: Emission | None, every: Duration) -> Translated:
        """Return the query."""
        relation, grouped = self.relation, self.relation.keys is not None
        if relation.unique:
            message = "DISTINCT is not supported; group by what shall be there once, or rank with ROW_NUMBER()"
            self.used.text.fail(message, self.used.text.after(self.place, "DISTINCT"))
        if grouped and not relation.keys:
            self._fail("GROUP BY names the window and nothing else, so there is one row and nothing to rank")
        if not all(made_of(part, relation.keys or ()) for part in self.parts) and grouped:
            self._fail("PARTITION BY names something that is not in GROUP BY")
        score, prefer = self._score()
        window = relation.scan.window or Window.all_time(every=every)
        chosen: Emit = emit or ("final" if relation.windowed else "changes")
        if chosen == "changes" and relation.windowed:  # a window is shown as it fills; it does not continue another
            chosen = "early"
        select = self._select(score)
        given: dict[str, Any] = {
            "where": _all(relation.where), "having": _all(relation.having), "partition_by": self._partition(),
            "group_by": self._groups(), "select": select, "ties": _TIES[self.over.function], "prefer": prefer,
            "order": "desc" if self.over.order[0].descending else "asc", "emit": chosen,
        }  # fmt: skip
        try:
            query = Query(name, k=self.k, score=to_sql(score), window=window, **given)
        except QueryError as error:
            self._fail("; ".join(problem.split("\n")[0] for problem in error.problems))
        return Translated(query, tuple(self.ids), tuple(self._candidates()))

    def _fail(self, message: str) -> NoReturn:
        self.used.text.fail(message, self.place)

    def _nothing_ranked(self) -> NoReturn:
        if self.relation.overs:
            self._fail("the rows are numbered, but nothing says how many to take; write WHERE n <= 10 around it")
        self._fail("nothing is ranked; write ORDER BY score DESC LIMIT 10, or ROW_NUMBER() OVER (…) and WHERE n <= 10")

    # What to rank by.

    def _score(self) -> tuple[Node, Prefer]:
        """Return the score, and which of equal ones comes first."""
        keys = [key for key in self.over.order if key.value not in self.parts]
        if not keys:
            self._fail("ORDER BY names only what PARTITION BY does, so nothing is ranked")
        first, *rest = keys
        if first.value in MARKS or is_number(first.value):
            self._fail("the window, or the number of a ranking, is nothing to rank by")
        if _has(first.value, "largest of", "smallest of"):
            self._fail("the largest of groups is supported in a join with the groups themselves")
        if self.relation.keys is not None and not holds_aggregates(first.value):
            self._fail(f"groups are ranked by {to_sql(first.value)}, which is no aggregate; rank by SUM(…) or COUNT(*)")
        by_time = self._is_time(first.value)
        moment = by_time or (isinstance(first.value, Column) and first.value.name in self.relation.scan.moments)
        score = Call("unix_micros", (first.value,)) if moment else first.value
        if rest and _TIES[self.over.function] is not None:
            self._refuse_second(rest[0], "RANK() and DENSE_RANK() are by one value")
        return score, self._prefer(by_time, rest)

    def _prefer(self, by_time: bool, rest: list[Sorted]) -> Prefer:
        prefer: Prefer = "latest"
        if rest and (keys := self.relation.keys) is not None:
            if len(rest) == 1 and not rest[0].descending and keys == (rest[0].value,) and not self.parts:
                return "id"
            self._refuse_second(rest[0], "of groups with equal scores, GROUP BY's only key may decide, ascending")
        if rest and not by_time and self._is_time(rest[0].value):
            prefer = "latest" if rest[0].descending else "earliest"
            rest, by_time = rest[1:], True
        if rest and by_time and isinstance(rest[0].value, Column) and not rest[0].descending:
            self.ids.append(rest[0].value.name)
            rest = rest[1:]
        if rest:
            self._refuse_second(rest[0], "equal scores are ranked by time, then by id; these may follow, in this order")
        return prefer

    def _refuse_second(self, key: Sorted, why: str) -> NoReturn:
        message = f"{to_sql(key.value)} as a further key of ORDER BY is not supported: {why}"
        self.used.text.fail(message, key.place or self.place)

    def _is_time(self, node: Node) -> bool:
        time = self.relation.scan.time
        return isinstance(node, Column) and time is not None and node.name.lower() == time.lower()

    # What answers carry.

    def _select(self, score: Node) -> tuple[str, ...]:
        """Return what to carry, besides what every answer has: the window, the rank, the id and the score."""
        found: dict[str, str] = {}
        keys = (*(self.relation.keys or ()), *self.parts)
        for given, value in self._outputs():
            if _has(value, "largest of", "smallest of"):
                self._fail("the largest of groups is supported in a join with the groups themselves")
            if value in MARKS or value in keys or self._own(given, value, score):
                continue
            name = free_name(given)
            found[name] = self._named(value, name, name)
        return tuple(found.values())

    def _outputs(self) -> Iterable[tuple[str, Node]]:
        """Yield the name and value of each column."""
        relation = self.relation
        yield from relation.columns.items()
        if relation.whole:
            if relation.scan.columns is None:
                self._fail("'*' stands for all columns, which are not known here; name those that answers shall carry, "
                           "list them in a CREATE TABLE, or give columns=")  # fmt: skip
            yield from ((one, Column(one)) for one in relation.scan.columns or () if one not in relation.columns)

    def _own(self, name: str, value: Node, score: Node) -> bool:
        """Tell whether every answer has a value in a column of its own, under this name or without one."""
        if is_number(value):
            if self.relation.over_of(value) != self.over:
                self._fail(f"{name!r} is the number of another ranking; a query has one")
            return True
        ordered = self.over.order[0].value
        if name == "score" or name.startswith("column "):
            return value in (score, ordered)
        if name == "time":
            return self._is_time(value)
        if name == "id" and isinstance(value, Column):
            self.ids.insert(0, value.name)
            return True
        return False

    def _partition(self) -> str | tuple[str, ...] | None:
        if len(self.parts) == 1 and self.parts[0] not in self._shown():
            return to_sql(self.parts[0])
        names = [self._name(part) for part in self.parts]
        return (
            tuple(self._named(part, name, to_sql(part)) for part, name in zip(self.parts, names, strict=True)) or None
        )

    def _groups(self) -> str | tuple[str, ...] | None:
        keys = self.relation.keys or ()
        if len(keys) == 1 and isinstance(keys[0], Column) and keys[0] not in self._shown():
            return keys[0].name
        return (
            tuple(self._named(key, name, name) for key, name in zip(keys, map(self._name, keys), strict=True)) or None
        )

    def _shown(self) -> list[Node]:
        return [value for _, value in self._outputs()]

    def _name(self, key: Node) -> str:
        """Return what SELECT calls a key, or what it is called by itself."""
        own = key.name if isinstance(key, Column) else None
        names = [name for name, one in self._outputs() if one == key]
        return free_name(own if own is not None and (own in names or not names) else [*names, "key"][0])

    def _named(self, value: Node, name: str, own: str) -> str:
        """Write a value with a name; `own` is how it is written where that is the column's."""
        return own if isinstance(value, Column) and value.name == name else f"{to_sql(value)} AS `{name}`"

    def _candidates(self) -> list[str]:
        """Return columns that may be the stream's ids: what is selected or grouped by, then all others."""
        keys = self.relation.keys
        values = list(keys) if keys is not None else sorted(self._shown(), key=lambda one: one in self.parts)
        named = [value.name for value in values if isinstance(value, Column)]
        return [*named, *(self.relation.scan.columns or ())]


def free_name(name: str) -> str:
    """Return a name for a column that no answer has for something else.

    Examples
    --------
    >>> free_name("price"), free_name("score"), free_name("column 3")
    ('price', 'score_', 'column_3')
    """
    name = name.replace(" ", "_")
    return f"{name}_" if name in ANSWER_COLUMNS else name


def _all(conditions: tuple[Node, ...]) -> str | None:
    found = list(dict.fromkeys(conditions))
    if not found:
        return None
    return to_sql(found[0] if len(found) == 1 else Call("and", tuple(found)))


def _has(node: Node, *names: str) -> bool:
    return isinstance(node, Call) and (node.name in names or any(_has(arg, *names) for arg in node.args))
