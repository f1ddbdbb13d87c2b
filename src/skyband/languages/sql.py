"""SQL: windowed rankings, as ``ORDER BY … LIMIT k`` or in Flink's Top-N form, to the queries that they are.

sqlglot reads the grammar; expressions go through the same table as scores and filters do. What is not known here is
refused by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp

from skyband.errors import LanguageError, QueryError
from skyband.expressions.parse import position
from skyband.expressions.tree import Column, Node, to_sql
from skyband.languages.sql_text import WINDOWS, SqlDialect, SqlText
from skyband.queries.decomposition import holds_aggregates
from skyband.queries.query import LARGEST_K, Query
from skyband.times import microseconds
from skyband.windows import Window

MAX_LENGTH = 20_000
_LEXED = re.compile(r"""--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`[^`]*`|.""", re.DOTALL)
_EVERY_ANSWER_HAS = ("window_start", "window_end", "window_time")
_ARGUMENTS = {
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
}
_CLAUSES = {
    "with_": "WITH", "distinct": "DISTINCT", "joins": "JOIN", "group": "GROUP BY", "having": "HAVING",
    "qualify": "QUALIFY", "offset": "OFFSET", "laterals": "LATERAL VIEW", "windows": "WINDOW", "hint": "a hint",
    "sort": "SORT BY", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY", "into": "INTO", "locks": "FOR UPDATE",
    "sample": "TABLESAMPLE", "pivots": "PIVOT", "alias": "an alias", "kind": "SELECT AS",
}  # fmt: skip


@dataclass(frozen=True)
class Selected:
    """A query, and what its text says of the stream.

    Parameters
    ----------
    query
        The query.
    table
        The name of the stream.
    time
        The column of event times.
    id
        The column of ids: that of GROUP BY, or the first that is selected.
    """

    query: Query
    table: str
    time: str
    id: str | None


def read(text: str, name: str) -> list[Selected]:
    """Read all queries of a text; `name` is that of a single one without a name of its own."""
    reader = SqlText(text)
    if len(text) > MAX_LENGTH:
        reader.fail(f"the text has {len(text):,} characters; at most {MAX_LENGTH:,} are allowed")
    if (half := next((place for place, sign in enumerate(text) if "\ud800" <= sign <= "\udfff"), None)) is not None:
        reader = SqlText(text.encode(errors="replace").decode())
        reader.fail("the text holds half a character (a lone surrogate)", half)
    try:
        if (quote := next((part for part in _LEXED.finditer(text) if part[0] in "'\"`"), None)) is not None:
            reader.fail("this quote is never closed", quote.start())
        found = [statement for statement in reader.statements(SqlDialect()) if statement is not None]
        if not found:
            reader.fail("there is no query; write SELECT … FROM HOP(…) … ORDER BY … LIMIT 10")
        return [_Statement(reader, statement, name if len(found) == 1 else None).read() for statement in found]
    except RecursionError:
        reader.fail("the query is nested too deeply")


class _Statement:
    """One query."""

    def __init__(self, text: SqlText, statement: exp.Expression, name: str | None) -> None:
        self.text, self.statement, self.name = text, statement, name

    def fail(self, message: str, *nodes: exp.Expression | None) -> NoReturn:
        """Raise an error that points to the first of some nodes whose place is known."""
        places = [
            place for node in (*nodes, self.statement) if node is not None and (place := position(node)) is not None
        ]
        self.text.fail(message, places[0] if places else None)

    def read(self) -> Selected:
        """Return the query."""
        select = self._named(self.statement)
        inner = select.args.get("from_") and select.args["from_"].this
        if isinstance(inner, exp.Subquery):
            return self._top_n(select, inner)
        self._only(select, "expressions", "from_", "where", "group", "order", "limit")
        aliases = _aliases(select)
        if "order" not in select.args or not select.args["order"]:
            self.fail("there is no ORDER BY, so nothing to rank by; write ORDER BY score DESC LIMIT 10", select)
        ordered = self._single(select.args["order"].expressions, "ORDER BY")
        k = self._limit(select)
        return self._selected(select, select, ordered, k, [], aliases)

    def _named(self, statement: exp.Expression) -> exp.Select:
        """Take ``CREATE VIEW name AS`` off."""
        if isinstance(statement, exp.Create):
            view = statement.this
            if (
                statement.kind != "VIEW"
                or not isinstance(view, exp.Table)
                or not isinstance(statement.expression, exp.Select)
            ):
                self.fail("CREATE is for views that are queries: CREATE VIEW name AS SELECT …")
            used = {key for key, value in statement.args.items() if value}
            if not used <= {"this", "kind", "expression", "replace", "properties"} or len(view.parts) > 1:
                self.fail("a view has a name and a query, and nothing else: CREATE VIEW name AS SELECT …", view)
            self.name, statement = view.name, statement.expression
        if not isinstance(statement, exp.Select):
            self.fail(f"{_words(statement)} is not supported; write SELECT … FROM HOP(…) … ORDER BY … LIMIT 10")
        if self.name is None:
            self.fail("there are several queries, and this one has no name; write CREATE VIEW name AS SELECT …")
        return statement

    def _only(self, select: exp.Select, *allowed: str) -> None:
        """Refuse the clauses that have no meaning here."""
        for key, value in select.args.items():
            if key not in allowed and value:
                node = value[0] if isinstance(value, list) else value
                name = _CLAUSES.get(key, key.strip("_").upper())
                self.fail(f"{name} is not supported", node if isinstance(node, exp.Expression) else None)

    def _single(self, ordered: list[exp.Expression], what: str) -> exp.Ordered:
        if len(ordered) != 1 or not isinstance(ordered[0], exp.Ordered):
            self.fail(
                f"{what} wants one expression to rank by; equal scores are ranked by time, then by id", *ordered[1:]
            )
        if isinstance(ordered[0].this, exp.Literal):
            msg = "a number in ORDER BY, for the place of a column, is not supported; write the expression"
            self.text.fail(msg, self.text.after(None, "ORDER BY"))
        return ordered[0]

    def _limit(self, select: exp.Select) -> int:
        limit = select.args.get("limit")
        if limit is None:
            self.fail("there is no LIMIT; say how many to rank: LIMIT 10", select.args["order"])
        count = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression
        self._check_k(k := self._whole(count, "LIMIT"), select.args["order"], "LIMIT")
        return k

    def _check_k(self, k: int, before: exp.Expression, word: str) -> None:
        if not 1 <= k <= LARGEST_K:
            self.text.fail(f"k is {k}; it must be from 1 to {LARGEST_K:,}", self.text.after(position(before), word))

    def _whole(self, node: exp.Expression | None, what: str) -> int:
        if not isinstance(node, exp.Literal) or node.is_string or not (node.this.isdecimal() and node.this.isascii()):
            self.fail(f"{what} wants a whole number such as 10", node)
        return int(node.this)

    # Flink's Top-N.

    def _top_n(self, outer: exp.Select, subquery: exp.Subquery) -> Selected:
        """Read ``SELECT … FROM (SELECT …, ROW_NUMBER() OVER (…) AS n FROM …) WHERE n <= k``."""
        inner = subquery.this
        if not isinstance(inner, exp.Select):
            self.fail(f"{_words(inner)} in brackets is not supported", inner)
        self._only(outer, "expressions", "from_", "where")
        self._only(inner, "expressions", "from_", "where", "group")
        numbers = [one for one in inner.expressions if isinstance(one, exp.Alias) and isinstance(one.this, exp.Window)]
        if len(numbers) != 1:
            self.fail(
                "a query within a query is supported with one ROW_NUMBER() OVER (…) AS n inside", *numbers[1:], inner
            )
        number = numbers[0]
        over = number.this
        if not isinstance(over.this, exp.Anonymous) or over.this.name.upper() != "ROW_NUMBER" or over.this.expressions:
            self.fail(
                f"{_words(over.this)} is not supported; write ROW_NUMBER() OVER (PARTITION BY … ORDER BY …)", over
            )
        if any(value for key, value in over.args.items() if key not in ("this", "partition_by", "order", "over")):
            self.fail("OVER takes PARTITION BY and ORDER BY here, and nothing else", over)
        if not over.args.get("order"):
            self.fail("OVER has no ORDER BY, so nothing to rank by", over)
        ordered = self._single(over.args["order"].expressions, "ORDER BY")
        k = self._bound(outer, number.alias)
        keys = [key for key in over.args.get("partition_by") or [] if _name(key) not in _EVERY_ANSWER_HAS]
        aliases = {name: node for name, node in _aliases(inner).items() if name != number.alias}
        return self._selected(outer, inner, ordered, k, keys, aliases, hidden=number.alias)

    def _bound(self, outer: exp.Select, number: str) -> int:
        where = outer.args.get("where")
        node = where and where.this
        form = f"WHERE {number} <= 10"
        if not isinstance(node, exp.LTE | exp.LT | exp.EQ) or _name(node.this) != number:
            self.fail(
                f"outside stands {form} and nothing else; other conditions stand inside, before the ranking", node
            )
        bound = self._whole(node.expression, form)
        if isinstance(node, exp.EQ) and bound != 1:
            self.fail(f"one rank alone is not supported; write {form}", node)
        k = bound - 1 if isinstance(node, exp.LT) else bound
        self._check_k(k, node, "")
        return k

    # Both forms.

    def _selected(
        self,
        outer: exp.Select,
        inner: exp.Select,
        ordered: exp.Ordered,
        k: int,
        keys: list[exp.Expression],
        aliases: dict[str, exp.Expression],
        hidden: str | None = None,
    ) -> Selected:
        table, time, window = self._window(inner)
        group = self._group(inner)
        score = self._value(aliases.get(_name(ordered.this) or "", ordered.this))
        if group is None and holds_aggregates(score):
            self.fail("the score is an aggregate, and there is no GROUP BY; write GROUP BY symbol", ordered.this)
        if len(keys) > 1:
            self.fail(
                "PARTITION BY takes one expression besides window_start and window_end; write concat(a, b)", keys[1]
            )
        where = inner.args.get("where")
        select = self._columns(outer, inner, aliases, score, hidden)
        if group is not None:
            for node in self._outputs(outer, inner):
                if _name(node) in select and _name(node) != group:
                    self.fail(f"{_name(node)!r} is neither in GROUP BY nor in an aggregate", node)
            select = ()  # what is grouped by is the id of the answer
        try:
            query = Query(
                str(self.name), k=k, score=to_sql(score), window=window,
                where=None if where is None else to_sql(self.text.convert(where.this)),
                partition_by=to_sql(self.text.convert(keys[0])) if keys else None,
                order="desc" if ordered.args.get("desc") else "asc", select=select, group_by=group,
            )  # fmt: skip
        except QueryError as error:
            if isinstance(error, LanguageError):
                raise
            self.fail("; ".join(problem.split("\n")[0] for problem in error.problems), outer)
        return Selected(query, table, time, group or (select[0] if select else None))

    def _value(self, node: exp.Expression) -> Node:
        """Return an expression that may hold aggregates."""
        self.text.aggregates = True
        try:
            return self.text.convert(node)
        finally:
            self.text.aggregates = False

    def _group(self, select: exp.Select) -> str | None:
        """Return what GROUP BY names besides the window, if there is one."""
        group = select.args.get("group")
        if group is None:
            return None
        if any(value for key, value in group.args.items() if key != "expressions"):
            self.fail("GROUP BY takes the name of a column, and nothing else", group, select)
        keys = [key for key in group.expressions if _name(key) not in _EVERY_ANSWER_HAS]
        if len(keys) != 1:
            self.fail("GROUP BY takes one column besides window_start and window_end", *keys[1:], select)
        return self._identifier(keys[0], "the column that is ranked")

    def _columns(
        self, outer: exp.Select, inner: exp.Select, aliases: dict[str, exp.Expression], score: Node, hidden: str | None
    ) -> tuple[str, ...]:
        """Return the columns to carry, without what every answer has."""
        chosen: dict[str, None] = {}
        for node in self._outputs(outer, inner):
            name = _name(node.this if isinstance(node, exp.Alias) else node)
            if name is not None and (name in _EVERY_ANSWER_HAS or name == hidden):
                continue
            if isinstance(node, exp.Alias) and isinstance(node.this, exp.Window):
                continue
            value = self._value(aliases.get(name or "", node.this if isinstance(node, exp.Alias) else node))
            renamed = isinstance(node, exp.Alias) and node.alias != name
            if value == score and (renamed or not isinstance(value, Column)):
                continue
            if not isinstance(value, Column) or renamed:
                self.fail("answers carry the score, and columns under their own names; this is neither", node)
            chosen[value.name] = None
        return tuple(chosen)

    def _outputs(self, outer: exp.Select, inner: exp.Select) -> Iterable[exp.Expression]:
        """Return what is selected; ``*`` outside is all that is selected inside."""
        for node in outer.expressions:
            if not isinstance(node, exp.Star):
                yield node
            elif outer is not inner and not any(isinstance(one, exp.Star) for one in inner.expressions):
                yield from inner.expressions
            else:
                self.fail("'*' is not supported: name the columns that answers shall carry")

    def _window(self, select: exp.Select) -> tuple[str, str, Window]:
        """Read ``HOP(trades, ts, slide, size)`` and ``TUMBLE(trades, ts, size)``."""
        source = select.args.get("from_")
        table = source and source.this
        call = table.this if isinstance(table, exp.Table) else None
        if not isinstance(call, exp.Anonymous):
            self.fail(f"FROM wants windows: {WINDOWS}", table or select)
        if any(value for key, value in table.args.items() if key not in ("this", "alias")):
            self.fail("the windows take nothing but an alias", table)
        name, args = call.name.upper(), call.expressions
        if name not in _ARGUMENTS:
            self.fail(f"the window {name}() is not supported; use {WINDOWS}", call, *args)
        args = self._in_order(name, args)
        least = 4 if name == "HOP" else 3
        if not least <= len(args) <= least + 1:
            wanted = f"a table, its column of time, {'a slide, ' if name == 'HOP' else ''}a size, and perhaps an offset"
            self.fail(f"{name}() takes {wanted}; it got {len(args)} arguments", *args)
        stream, time = self._identifier(args[0], "a table"), self._identifier(_descriptor(args[1]), "a column of time")
        lengths = [
            self._interval(arg, self.text.after(position(args[1]), "INTERVAL", n)) for n, arg in enumerate(args[2:])
        ]
        slide = lengths.pop(0) if name == "HOP" else lengths[0]
        try:
            return stream, time, Window(lengths[0], slide=slide, offset=lengths[1] if len(lengths) > 1 else 0)
        except QueryError as error:
            self.fail("; ".join(error.problems), call, *args)

    def _in_order(self, name: str, args: list[exp.Expression]) -> list[exp.Expression]:
        """Put arguments that have names, as ``SIZE => INTERVAL 1 HOUR``, into their places."""
        if not any(isinstance(arg, exp.Kwarg) for arg in args):
            return args
        given = {arg.this.name.upper(): arg.expression for arg in args if isinstance(arg, exp.Kwarg)}
        names = [one for one in _ARGUMENTS[name] if one in given]
        if len(given) < len(args) or len(names) < len(given) or names != list(_ARGUMENTS[name])[: len(names)]:
            self.fail(
                f"{name}() takes the names {', '.join(_ARGUMENTS[name])}, of which the last may be left out", *args
            )
        return [given[one] for one in names]

    def _identifier(self, node: exp.Expression, what: str) -> str:
        name = _name(node)
        if name is None:
            self.fail(f"here comes the name of {what}", node)
        return name

    def _interval(self, node: exp.Expression, place: int | None) -> int:
        unit = node.args.get("unit") if isinstance(node, exp.Interval) else None
        if (
            not isinstance(node, exp.Interval)
            or not isinstance(node.this, exp.Literal)
            or not isinstance(unit, exp.Var | None)
        ):
            self.text.fail(
                "a length of time is written as INTERVAL 10 MINUTES or INTERVAL '1' HOUR", position(node) or place
            )
        try:
            return microseconds(f"{node.this.this} {'' if unit is None else unit.name}", "this interval")
        except QueryError as error:
            self.text.fail("; ".join(error.problems), place)


def _aliases(select: exp.Select) -> dict[str, exp.Expression]:
    return {one.alias: one.this for one in select.expressions if isinstance(one, exp.Alias)}


def _name(node: exp.Expression | None) -> str | None:
    """Return the name of a plain column."""
    plain = isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and len(node.parts) == 1
    return str(node.name) if plain and node is not None else None


def _descriptor(node: exp.Expression) -> exp.Expression:
    """Return the column in ``DESCRIPTOR(ts)``."""
    named = isinstance(node, exp.Anonymous) and node.name.upper() == "DESCRIPTOR" and len(node.expressions) == 1
    return node.expressions[0] if named else node


def _words(node: exp.Expression) -> str:
    return repr(type(node).__name__.upper() if not isinstance(node, exp.Anonymous) else f"{node.name}()")
