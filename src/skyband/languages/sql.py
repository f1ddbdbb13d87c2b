"""SQL: windowed rankings, as ``ORDER BY … LIMIT k`` or in Flink's Top-N form, to the queries that they are.

sqlglot reads the grammar; expressions go through the same table as scores and filters do. Each rule here notes which
parts of the parsed statement it used, and in the end whatever is left is refused by its name: nothing that was written
is ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp

from skyband.errors import LanguageError, QueryError
from skyband.expressions.parse import check_text, position
from skyband.expressions.tree import Column, Node, to_sql
from skyband.languages.sql_text import ADVICE, WINDOWS, SqlDialect, SqlText, Used
from skyband.queries.decomposition import holds_aggregates
from skyband.queries.query import LARGEST_K, Query
from skyband.times import parse_duration
from skyband.windows import Window

MAX_LENGTH = 20_000
MAX_DIGITS = 30
_LEXED = re.compile(r"""--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`[^`]*`|.""", re.DOTALL)
_EVERY_ANSWER_HAS = ("window_start", "window_end", "window_time")
_ARGUMENTS = {
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
}


@dataclass(frozen=True)
class Selected:
    """A query, and what its text says of the stream."""

    query: Query
    table: str  # the name of the stream
    time: str  # the column of event times
    id: str | None  # the column of ids: that of GROUP BY, or the first that is selected


def read_sql(text: str, *, name: str = "query") -> list[Selected]:
    """Read all queries of a text in SQL, with what it says of the stream; `name` is for a single one without a name."""
    check_text(text, "text", MAX_LENGTH, LanguageError)
    reader = SqlText(text)
    try:
        if (quote := next((part for part in _LEXED.finditer(text) if part[0] in "'\"`"), None)) is not None:
            reader.fail("this quote is never closed", quote.start())
        found = [statement for statement in reader.statements(SqlDialect()) if statement is not None]
        if not found:
            reader.fail("there is no query; write SELECT … FROM HOP(…) … ORDER BY … LIMIT 10")
        return [_Statement(reader, statement, name if len(found) == 1 else None).read() for statement in found]
    except RecursionError:
        reader.fail("the query is nested too deeply")


class _Statement(Used):
    """One query."""

    def __init__(self, text: SqlText, statement: exp.Expression, name: str | None) -> None:
        super().__init__()
        self.text, self.statement, self.name = text, statement, name

    def fail(self, message: str, *nodes: exp.Expression | None) -> NoReturn:
        """Raise an error that points to the first of some nodes whose place is known."""
        places = (position(node) for node in (*nodes, self.statement) if node is not None)
        self.text.fail(message, next((place for place in places if place is not None), None))

    def read(self) -> Selected:
        """Return the query; refuse what no rule used."""
        select = self._named(self.statement)
        source = self.take(select, "from_")
        inner = source and self.take(source, "this")
        found = self._top_n(select, inner) if isinstance(inner, exp.Subquery) else self._plain(select)
        for name, part in self.unused(self.statement):
            place = position(part) if isinstance(part, exp.Expression) else None
            if place is None:
                place = self.text.word(name.split()[-1], position(self.statement))
            self.text.fail(f"{name} is not supported{ADVICE.get(name, '')}", place)
        return found

    def _named(self, statement: exp.Expression) -> exp.Select:
        """Take ``CREATE [OR REPLACE] [TEMPORARY] VIEW name AS`` off."""
        if isinstance(statement, exp.Create):
            view = self.take(statement, "this")
            kind, query = self.take(statement, "kind"), self.take(statement, "expression")
            if kind != "VIEW" or not isinstance(view, exp.Table) or not isinstance(query, exp.Select):
                self.fail("CREATE is for views that are queries: CREATE VIEW name AS SELECT …")
            if len(view.parts) > 1:
                self.fail("a view has a name and a query, and nothing else: CREATE VIEW name AS SELECT …", view)
            self.take(statement, "replace")
            if isinstance(properties := statement.args.get("properties"), exp.Properties):
                for one in self.take(self.take(statement, "properties"), "expressions"):
                    if not isinstance(one, exp.TemporaryProperty):
                        self.fail(f"{_words(one)} of a view is not supported", properties)
            self._called(view, "this")
            self.name, statement = view.name, query
        if not isinstance(statement, exp.Select):
            self.fail(f"{_words(statement)} is not supported; write SELECT … FROM HOP(…) … ORDER BY … LIMIT 10")
        if self.name is None:
            self.fail("there are several queries, and this one has no name; write CREATE VIEW name AS SELECT …")
        return statement

    # ORDER BY … LIMIT.

    def _plain(self, select: exp.Select) -> Selected:
        """Read ``SELECT … FROM HOP(…) … ORDER BY … LIMIT k``."""
        order = self.take(select, "order")
        if not order:
            self.fail("there is no ORDER BY, so nothing to rank by; write ORDER BY score DESC LIMIT 10", select)
        ordered = self._single(order)
        k = self._limit(select, order)
        aliases = self._aliases(select)
        by = self.take(ordered, "this")
        if (name := _name(by)) in aliases:
            self.whole(by)
            by = aliases[name]
        else:
            self._unambiguous(by, aliases, "in a larger expression it may mean either")
        return self._selected(select, select, ordered, by, k, [], {})

    def _single(self, order: exp.Order) -> exp.Ordered:
        ordered = self.take(order, "expressions")
        if len(ordered) != 1 or not isinstance(ordered[0], exp.Ordered):
            message = "ORDER BY wants one expression to rank by; equal scores are ranked by time, then by id"
            self.fail(message, *ordered[1:])
        if isinstance(ordered[0].this, exp.Literal):
            message = "a number in ORDER BY, for the place of a column, is not supported; write the expression"
            self.text.fail(message, self.text.after(None, "ORDER BY"))
        return ordered[0]

    def _limit(self, select: exp.Select, order: exp.Expression) -> int:
        limit = self.take(select, "limit")
        if limit is None:
            self.fail("there is no LIMIT; say how many to rank: LIMIT 10", order)
        count = self.take(limit, "count" if isinstance(limit, exp.Fetch) else "expression")
        self.take(limit, "direction")  # FETCH FIRST and FETCH NEXT are the same
        if options := self.take(limit, "limit_options"):
            self.take(options, "rows")
        self._check_k(k := self._integer(count, "LIMIT"), order, "LIMIT")
        return k

    def _check_k(self, k: int, before: exp.Expression, word: str) -> None:
        if not 1 <= k <= LARGEST_K:
            self.text.fail(f"k is {k}; it must be from 1 to {LARGEST_K:,}", self.text.after(position(before), word))

    def _integer(self, node: exp.Expression | None, what: str) -> int:
        if not isinstance(node, exp.Literal) or node.is_string or not (node.this.isdecimal() and node.this.isascii()):
            self.fail(f"{what} wants a whole number such as 10", node)
        if len(node.this) > MAX_DIGITS:
            self.fail(f"{what} wants a whole number such as 10; this one has {len(node.this):,} digits", node)
        return int(self.whole(node).this)

    # Flink's Top-N.

    def _top_n(self, outer: exp.Select, subquery: exp.Subquery) -> Selected:
        """Read ``SELECT … FROM (SELECT …, ROW_NUMBER() OVER (…) AS n FROM …) WHERE n <= k``."""
        inner = self.take(subquery, "this")
        if not isinstance(inner, exp.Select):
            self.fail(f"{_words(inner)} in brackets is not supported", inner)
        self._alias(subquery)
        numbers = [one for one in inner.expressions if isinstance(one, exp.Alias) and isinstance(one.this, exp.Window)]
        if len(numbers) != 1:
            message = "a query within a query is supported with one ROW_NUMBER() OVER (…) AS n inside"
            self.fail(message, *numbers[1:], inner)
        number = numbers[0]
        over = self.take(number, "this")
        call = self.take(over, "this")
        if not isinstance(call, exp.Anonymous) or call.name.upper() != "ROW_NUMBER" or call.expressions:
            self.fail(f"{_words(call)} is not supported; write ROW_NUMBER() OVER (PARTITION BY … ORDER BY …)", over)
        self.whole(call)
        self._called(number, "alias")
        self.take(over, "over")
        order = self.take(over, "order")
        if not order:
            self.fail("OVER has no ORDER BY, so nothing to rank by", over)
        ordered = self._single(order)
        k = self._bound(outer, number.alias)
        aliases = {name: node for name, node in self._aliases(inner).items() if name != number.alias}
        by, keys = self.take(ordered, "this"), self.take(over, "partition_by") or []
        for node in (by, *keys):
            self._unambiguous(node, aliases, "inside OVER a name means the column")
        keys = [key for key in keys if _name(self._if_every_answer_has(key)) not in _EVERY_ANSWER_HAS]
        return self._selected(outer, inner, ordered, by, k, keys, aliases, hidden=number.alias)

    def _bound(self, outer: exp.Select, number: str) -> int:
        where = self.take(outer, "where")
        node = where and self.take(where, "this")
        form = f"WHERE {number} <= 10"
        if not isinstance(node, exp.LTE | exp.LT | exp.EQ) or _name(node.this) != number:
            message = f"outside stands {form} and nothing else; other conditions stand inside, before the ranking"
            self.fail(message, node)
        self.whole(self.take(node, "this"))
        bound = self._integer(self.take(node, "expression"), form)
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
        by: exp.Expression,
        k: int,
        keys: list[exp.Expression],
        aliases: dict[str, exp.Expression],
        hidden: str | None = None,
    ) -> Selected:
        table, time, window = self._window(inner)
        group = self._group(inner)
        score = self._convert(by, aggregates=True)
        if group is None and holds_aggregates(score):
            self.fail("the score is an aggregate, and there is no GROUP BY; write GROUP BY symbol", ordered)
        if len(keys) > 1:
            self.fail(
                "PARTITION BY takes one expression besides window_start and window_end; write one that tells all "
                "groups apart, such as concat(a, '|', b) if a never holds a '|'",
                keys[1],
            )
        where = self.take(inner, "where")
        select = self._columns(outer, inner, aliases, score, group, hidden)
        try:
            query = Query(
                str(self.name), k=k, score=to_sql(score), window=window,
                where=None if where is None else to_sql(self._convert(self.take(where, "this"))),
                partition_by=to_sql(self._convert(keys[0])) if keys else None,
                order="desc" if self.take(ordered, "desc") else "asc", select=select, group_by=group,
            )  # fmt: skip
        except QueryError as error:
            if isinstance(error, LanguageError):
                raise
            self.fail("; ".join(problem.split("\n")[0] for problem in error.problems), outer)
        return Selected(query, table, time, group or (select[0] if select else None))

    def _convert(self, node: exp.Expression, aggregates: bool = False) -> Node:
        """Return an expression; the table of expressions refuses what it does not use."""
        self.text.aggregates = aggregates
        return self.text.convert(self.whole(node))

    def _alias(self, node: exp.Expression) -> None:
        """Take the name that FROM gives to a table: no column is called by it, so it says nothing."""
        if alias := self.take(node, "alias"):
            self._called(alias, "this")

    def _called(self, node: exp.Expression, key: str) -> None:
        """Take the name of something; quotes around it change nothing."""
        name = self.take(node, key)
        for part in ("this", "quoted"):
            self.take(name, part)

    def _aliases(self, select: exp.Select) -> dict[str, exp.Expression]:
        """Return what the values of SELECT are called."""
        found: dict[str, exp.Expression] = {}
        for one in select.expressions:
            if isinstance(one, exp.Alias):
                if one.alias in found:
                    self.fail(f"two values are called {one.alias!r}; call one of them otherwise", one)
                found[one.alias] = one.this
        return found

    def _unambiguous(self, node: exp.Expression, aliases: dict[str, exp.Expression], why: str) -> None:
        """Refuse a name that an alias and a column may share."""
        for column in node.find_all(exp.Column):
            name = _name(column)
            if name in aliases and _name(aliases[name]) != name:
                message = f"{name!r} is an alias, and there may be a column of that name; {why}"
                self.fail(f"{message}: write the expression itself", column)

    def _if_every_answer_has(self, node: exp.Expression) -> exp.Expression:
        """Note that a column which every answer has is used."""
        return self.whole(node) if _name(node) in _EVERY_ANSWER_HAS else node

    def _group(self, select: exp.Select) -> str | None:
        """Return what GROUP BY names besides the window, if there is one."""
        group = self.take(select, "group")
        if group is None:
            return None
        if any(value for key, value in group.args.items() if key != "expressions"):
            self.fail("GROUP BY takes the name of a column, and nothing else", group, select)
        given = self.take(group, "expressions")
        keys = [key for key in given if _name(self._if_every_answer_has(key)) not in _EVERY_ANSWER_HAS]
        if len(keys) != 1:
            self.fail("GROUP BY takes one column besides window_start and window_end", *keys[1:], select)
        return self._identifier(keys[0], "the column that is ranked")

    def _columns(
        self,
        outer: exp.Select,
        inner: exp.Select,
        aliases: dict[str, exp.Expression],
        score: Node,
        group: str | None,
        hidden: str | None,
    ) -> tuple[str, ...]:
        """Return the columns to carry, without what every answer has: the window, the score, what is grouped by."""
        chosen: dict[str, None] = {}
        inside = {one.alias_or_name for one in inner.expressions}
        anything = outer is inner or any(isinstance(one, exp.Star) for one in inner.expressions)
        for node in self._outputs(outer, inner):
            given = self._unaliased(node)
            if isinstance(given, exp.Window):
                continue
            name, shown = _name(given), node.alias if isinstance(node, exp.Alias) else _name(node)
            if name is not None and (name in _EVERY_ANSWER_HAS or name == hidden):
                if shown != name:
                    own = "rank" if name == hidden else name
                    self.fail(f"every answer has this column, and calls it {own!r}; leave AS {shown} out", node)
                self.whole(given)
                continue
            if not (name is None or anything or name in inside):
                self.fail(f"{name!r} is not among the columns that are selected inside", node)
            value = self._convert(self.whole(given) if name not in aliases else aliases[name], aggregates=True)
            renamed = isinstance(value, Column) and shown != value.name
            if value == score and (renamed or not isinstance(value, Column)):
                continue
            if not isinstance(value, Column) or renamed:
                self.fail("answers carry the score, and columns under their own names; this is neither", node)
            if group is not None and _name(node) not in (None, group):
                self.fail(f"{value.name!r} is neither in GROUP BY nor in an aggregate", node)
            chosen[value.name] = None
        return tuple(chosen) if group is None else ()

    def _unaliased(self, node: exp.Expression) -> exp.Expression:
        """Take the name of a value; return the value."""
        if not isinstance(node, exp.Alias):
            return node
        self._called(node, "alias")
        value: exp.Expression = self.take(node, "this")
        return value

    def _outputs(self, outer: exp.Select, inner: exp.Select) -> list[exp.Expression]:
        """Return what is selected; ``*`` outside is all that is selected inside."""
        outside, inside = self.take(outer, "expressions"), self.take(inner, "expressions")
        if outer is not inner:
            for node in inside:  # what is not carried must be right nevertheless
                if not isinstance(node, exp.Star) and not isinstance(given := self._unaliased(node), exp.Window):
                    self._convert(given, aggregates=True)
        found: list[exp.Expression] = []
        for node in outside:
            if not isinstance(node, exp.Star):
                found.append(node)
            elif outer is not inner and not any(isinstance(one, exp.Star) for one in inside):
                found += inside
            else:
                self.fail("'*' is not supported: name the columns that answers shall carry")
        return found

    def _window(self, select: exp.Select) -> tuple[str, str, Window]:
        """Read ``HOP(trades, ts, slide, size)`` and ``TUMBLE(trades, ts, size)``."""
        source = self.take(select, "from_")
        table = source and self.take(source, "this")
        call = self.take(table, "this") if isinstance(table, exp.Table) else None
        if not isinstance(call, exp.Anonymous):
            self.fail(f"FROM wants windows: {WINDOWS}", table or select)
        self._alias(table)
        name, args = str(self.take(call, "this")).upper(), self.take(call, "expressions")
        if name not in _ARGUMENTS:
            self.fail(f"the window {name}() is not supported; use {WINDOWS}", call, *args)
        args = self._in_order(name, args)
        least = 4 if name == "HOP" else 3
        if not least <= len(args) <= least + 1:
            wanted = f"a table, its column of time, {'a slide, ' if name == 'HOP' else ''}a size, and perhaps an offset"
            self.fail(f"{name}() takes {wanted}; it got {len(args)} arguments", *args)
        stream = self._identifier(args[0], "a table")
        time = self._identifier(self._descriptor(args[1]), "a column of time")
        behind = position(args[1])
        lengths = [self._interval(arg, self.text.after(behind, "INTERVAL", n)) for n, arg in enumerate(args[2:])]
        slide = lengths.pop(0) if name == "HOP" else lengths[0]
        try:
            return stream, time, Window(lengths[0], slide=slide, offset=lengths[1] if len(lengths) > 1 else 0)
        except QueryError as error:
            self.fail("; ".join(error.problems), call, *args)

    def _in_order(self, name: str, args: list[exp.Expression]) -> list[exp.Expression]:
        """Put arguments that have names, as ``SIZE => INTERVAL 1 HOUR``, into their places."""
        if not any(isinstance(arg, exp.Kwarg) for arg in args):
            return args
        named = [arg for arg in args if isinstance(arg, exp.Kwarg)]
        given = {self.whole(self.take(arg, "this")).name.upper(): self.take(arg, "expression") for arg in named}
        known = _ARGUMENTS[name]
        names = [one for one in known if one in given]
        if len(given) < len(args) or len(names) < len(given) or names != list(known[: len(names)]):
            self.fail(f"{name}() takes the names {', '.join(known)}, of which the last may be left out", *args)
        return [given[one] for one in names]

    def _identifier(self, node: exp.Expression, what: str) -> str:
        name = _name(node)
        if name is None:
            self.fail(f"here comes the name of {what}", node)
        self.whole(node)
        return name

    def _descriptor(self, node: exp.Expression) -> exp.Expression:
        """Return the column in ``DESCRIPTOR(ts)``."""
        if not isinstance(node, exp.Anonymous) or node.name.upper() != "DESCRIPTOR" or len(node.expressions) != 1:
            return node
        self.take(node, "this")
        inside: exp.Expression = self.take(node, "expressions")[0]
        return inside

    def _interval(self, node: exp.Expression, place: int | None) -> int:
        number, unit = (self.take(node, key) for key in ("this", "unit"))
        if not (
            isinstance(node, exp.Interval) and isinstance(number, exp.Literal) and isinstance(unit, exp.Var | None)
        ):
            message = "a length of time is written as INTERVAL 10 MINUTES or INTERVAL '1' HOUR"
            self.text.fail(message, position(node) or place)
        self.whole(number)
        try:
            return parse_duration(f"{number.this} {self.whole(unit).name if unit else ''}", "this interval")
        except QueryError as error:
            self.text.fail("; ".join(error.problems), place)


def _name(node: exp.Expression | None) -> str | None:
    """Return the name of a plain column: an identifier, perhaps in quotes, and nothing else."""
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
        return None
    plain = _only(node, "this") and _only(node.this, "this", "quoted")
    return str(node.name) if plain else None


def _only(node: exp.Expression, *keys: str) -> bool:
    return not any(value for key, value in node.args.items() if key not in keys)


def _words(node: exp.Expression) -> str:
    return repr(type(node).__name__.upper() if not isinstance(node, exp.Anonymous) else f"{node.name}()")
