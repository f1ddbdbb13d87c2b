"""One SELECT: from what it reads to what it yields."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from skyband.expressions.parse import AGGREGATES, position
from skyband.expressions.tree import Column, Node
from skyband.languages.sql.ranking import filtered
from skyband.languages.sql.relations import (
    END,
    MARKS,
    START,
    TIME,
    WINDOW,
    WINDOW_COLUMNS,
    Over,
    Relation,
    Sorted,
    conjuncts,
    is_mark,
    is_number,
    marks,
    ungrouped,
)
from skyband.languages.sql.scopes import Scope
from skyband.languages.sql.sources import Sources
from skyband.languages.sql.windows import GroupWindow
from skyband.queries.decomposition import holds_aggregates


@dataclass
class _Level:
    """What is known of one SELECT while it is read."""

    select: exp.Select
    source: Relation
    scope: Scope
    named: dict[str, exp.Window]
    outputs: dict[str, Node] = field(default_factory=dict)
    whole: bool = False
    unused: set[str] = field(default_factory=set)  # names of WINDOW


class Selects(Sources):
    """Reads the clauses of a SELECT."""

    # The clauses, in the order in which they mean something.

    def _level(self, select: exp.Select, source: Relation, scope: Scope, *, where: bool = True) -> Relation:
        named = {str(self.name(one, "this")): one for one in self.take(select, "windows") or []}
        if where and (given := self.take(select, "where")) is not None:
            source = self.condition(source, self.take(given, "this"), scope)
        level = _Level(select, source, replace(scope, sources=dict.fromkeys(scope.sources, source)), named)
        level.unused = set(named)
        if len(scope.sources) > 1:
            level.scope = scope
        if (best := self._top_aggregate(level)) is not None:
            return best
        self._group(level)
        self._outputs(level)
        self._having(level)
        result = replace(level.source, columns=level.outputs, whole=level.whole, direct=False)
        result = self._qualify(level, result)
        if self.grouped[-1] is not None and not level.source.windowed:
            self.fail(
                "windows that are made by functions stand in GROUP BY or PARTITION BY, and here they do not", select
            )
        for name in level.unused:
            self.fail(f"nothing uses the WINDOW {name!r}; leave it out", named[name])
        result = self._unique(level, result)
        return replace(self._ordered(level, result), direct=False)

    def _top_aggregate(self, level: _Level) -> Relation | None:
        """Read ksqlDB's ``SELECT k, TOPK(x, 3) … GROUP BY k``: the best rows of each k."""
        found = [one for one in level.select.expressions if _is_top(one)]
        if not found:
            return None
        self._group(level)
        given = found[0].this if isinstance(found[0], exp.Alias) else found[0]
        if len(found) > 1 or len(given.expressions) != 2 or level.select.args.get("having"):
            self.fail("TOPK is supported as SELECT a, TOPK(x, 3) … GROUP BY a, once and with two arguments", given)
        keys, rows = level.source.keys, replace(level.source, keys=None)
        level.source = replace(rows, overs=())
        for one in self.take(level.select, "expressions"):
            alias = self.name(one, "alias") if isinstance(one, exp.Alias) else None
            value = self.take(one, "this") if isinstance(one, exp.Alias) else one
            if one is found[0]:
                score, count = self.take(given, "expressions")
                self.take(given, "this")
                level.outputs[alias or "best"] = self.convert(score, level.scope)
                k = self.integer(count, "TOPK", given)
                continue
            node = self.convert(value, level.scope)
            if node not in (keys or ()) and node not in MARKS:
                self.fail("beside TOPK stands what GROUP BY names, and nothing else", value)
            level.outputs[alias or value.name] = node
        self.check_k(k, given)
        over = Over("ROW_NUMBER", keys or (), (Sorted(level.outputs[found[0].alias or "best"], True),))
        return replace(level.source, columns=level.outputs, whole=False, direct=False, overs=(over,), top=(over, k))

    def condition(self, relation: Relation, node: exp.Expression, scope: Scope) -> Relation:
        """Apply a WHERE to what FROM yields."""
        conditions = list(conjuncts(self.convert(node, scope, aggregates=False)))
        if relation.overs or relation.top:
            return self.chosen(relation, conditions, node)
        for condition in conditions:
            self.no_marks(condition, node, "a condition")
            relation = filtered(relation, condition)
        return relation

    def no_marks(self, value: Node, node: exp.Expression, what: str) -> None:
        """Refuse the window's edges, and the number of a ranking, inside of expressions."""
        for mark in marks(value):
            shown = "the number of a ranking" if is_number(mark) else f"the {getattr(mark, 'name', '')}"
            self.fail(
                f"{shown} in {what} is not supported; it can be selected, grouped and partitioned by, as it is", node
            )

    def _group(self, level: _Level) -> None:
        """Read GROUP BY."""
        group = self.take(level.select, "group")
        if group is None:
            return
        source = level.source
        if source.overs or source.top:
            self.fail("GROUP BY behind a ranking is not supported; group first, then rank", group, level.select)
        scope = replace(level.scope, aliases=self._select_aliases(level, group))
        keys = []
        for given in self.take(group, "expressions") or []:
            key = self._by_place(level, given) or self.convert(given, scope, aggregates=False)
            keys += [key] if key not in keys else []
        window = self.grouped[-1]
        if window is not None:
            source = self._windowed(source, window, group)
        plain = tuple(key for key in keys if not is_mark(key))
        if source.grows and START in keys and not {WINDOW, END, TIME} & set(keys):
            self.fail("several windows of CUMULATE start together; write GROUP BY window_start, window_end", group)
        for key in plain:
            self.no_marks(key, group, "an expression of GROUP BY")
        again = source.keys is not None
        source = self.regrouped(source, tuple(keys), group) if again else replace(source, keys=plain)
        direct = source.direct or len(plain) < len(keys)
        level.source = source = replace(source, direct=direct)
        level.scope = replace(level.scope, sources=dict.fromkeys(level.scope.sources, source))

    def _windowed(self, source: Relation, window: GroupWindow, node: exp.Expression) -> Relation:
        if source.windowed:
            self.fail("there are windows in FROM and in GROUP BY; write them in one place", node)
        time = window.time or source.scan.time
        return replace(source, scan=replace(source.scan, time=time, window=window.window), direct=True)

    def _select_aliases(self, level: _Level, group: exp.Group) -> dict[str, Node]:
        """Return what SELECT calls the values that GROUP BY names."""
        found = {}
        named = {column.name for column in group.find_all(exp.Column)}
        for one in level.select.expressions:
            if isinstance(one, exp.Alias) and one.alias in named and not one.find(exp.Window) and not _aggregates(one):
                found[one.alias] = self.convert(one.this, level.scope)
        return found

    def _by_place(self, level: _Level, node: exp.Expression) -> Node | None:
        """Return the value that a number in GROUP BY or ORDER BY counts."""
        if not isinstance(node, exp.Literal) or node.is_string:
            return None
        place = self.integer(node, "a place in SELECT", level.select)
        outputs = level.select.expressions
        if not 1 <= place <= len(outputs) or any(isinstance(one, exp.Star) for one in outputs[:place]):
            self.fail(f"there is no value number {place} in SELECT", level.select)
        one = outputs[place - 1]
        return self.convert(one.this if isinstance(one, exp.Alias) else one, level.scope)

    def _outputs(self, level: _Level) -> None:
        """Read the SELECT list."""
        for one in self.take(level.select, "expressions"):
            if isinstance(one, exp.Star) or (isinstance(one, exp.Column) and isinstance(one.this, exp.Star)):
                self._star(level, one)
                continue
            alias = self.name(one, "alias") if isinstance(one, exp.Alias) else None
            given = self.take(one, "this") if isinstance(one, exp.Alias) else one
            value = self._value(level, given)
            name = alias or (given.name if isinstance(given, exp.Column) else f"column {len(level.outputs) + 1}")
            if name in level.outputs and level.outputs[name] != value:
                self.fail(f"two values are called {name!r}; call one of them otherwise", one)
            level.outputs[name] = value

    def _value(self, level: _Level, node: exp.Expression) -> Node:
        """Read one value of SELECT."""
        if isinstance(node, exp.Window):
            over = self.over(node, level.source, level.scope, level.named)
            level.unused -= {one.name for one in node.find_all(exp.Identifier)}
            parts = [self.convert(key, level.scope) for key in node.args.get("partition_by") or []]
            if (window := self.grouped[-1]) is not None and not level.source.windowed and any(map(is_mark, parts)):
                level.source = self._windowed(level.source, window, node)  # PARTITION BY DATE_TRUNC('hour', ts)
            for value in (*over.parts, *(one.value for one in over.order)):
                self._check_grouped(level.source, value, node)
            level.source, mark = level.source.number(over)
            return mark
        value = self.flattened(self.convert(node, level.scope), level.source, node)
        if value not in MARKS and not is_number(value):
            self.no_marks(value, node, "an expression")
        self._check_grouped(level.source, value, node)
        return value

    def _check_grouped(self, source: Relation, value: Node, node: exp.Expression) -> None:
        if source.keys is None:
            if holds_aggregates(value):
                self.fail("this is an aggregate, and there is no GROUP BY; write GROUP BY symbol", node)
        elif (column := ungrouped(value, source.keys)) is not None:
            assert isinstance(column, Column)
            self.fail(f"{column.name!r} is neither in GROUP BY nor in an aggregate", node)

    def _star(self, level: _Level, node: exp.Expression) -> None:
        star = node if isinstance(node, exp.Star) else self.take(node, "this")
        sources = level.scope.sources
        if star is not node:
            wanted = self.name(node, "table")
            sources = {alias: one for alias, one in sources.items() if alias == wanted or one.scan.table == wanted}
            if not sources:
                self.fail(f"{wanted!r} is no table here", node)
        without = {column.name.lower() for column in self.take(star, "except_") or []}
        for column in star.args.get("except_") or []:
            self.whole(column)
        if level.select.args.get("group") is not None:
            self.fail("'*' does not go with GROUP BY; name the keys and the aggregates", node, level.select)
        for relation in sources.values():
            level.whole = level.whole or relation.whole
            found = dict(relation.columns)
            if relation.whole and relation.scan.columns is not None:
                found = {**{name: Column(name) for name in relation.scan.columns}, **found}
            if relation.whole and relation.windowed:
                found = {**found, **{name: mark for name, mark in WINDOW_COLUMNS.items() if name not in found}}
            if without and relation.whole:
                if relation.scan.columns is None:
                    self.fail("EXCEPT needs a CREATE TABLE that lists the columns of the table", node, level.select)
                level.whole = False
            for name, value in found.items():
                if name.lower() not in without:
                    level.outputs.setdefault(name, value)

    def _having(self, level: _Level) -> None:
        having = self.take(level.select, "having")
        if having is None:
            return
        given = self.take(having, "this")
        if level.source.keys is None:
            self.fail("HAVING is for groups, and there is no GROUP BY; write WHERE", given)
        scope = replace(level.scope, aliases={**level.outputs}, first=False)
        for condition in conjuncts(self.convert(given, scope)):
            self.no_marks(condition, given, "a condition")
            self._check_grouped(level.source, condition, given)
            level.source = filtered(level.source, condition)

    def _qualify(self, level: _Level, result: Relation) -> Relation:
        """Read QUALIFY: a condition on rankings, which may stand in it."""
        qualify = self.take(level.select, "qualify")
        if qualify is None:
            return result
        node = self.take(qualify, "this")
        scope = replace(level.scope, aliases=level.outputs)
        self.inline = level
        try:
            value = self.convert(node, scope)
        finally:
            self.inline = None
        result = replace(result, overs=level.source.overs)
        if not any(is_number(mark) for mark in marks(value)):
            self.fail("QUALIFY wants a ranking: QUALIFY ROW_NUMBER() OVER (…) <= 10", node)
        return self.chosen(result, list(conjuncts(value)), node)

    inline: _Level | None = None

    def special(self, node: exp.Expression, depth: int) -> Node | None:
        """Read a ranking inside of QUALIFY."""
        if isinstance(node, exp.Window) and self.inline is not None:
            return self._value(self.inline, node)
        return super().special(node, depth)

    def _unique(self, level: _Level, result: Relation) -> Relation:
        """Read DISTINCT; DISTINCT ON is the first of each part by ORDER BY."""
        distinct = self.take(level.select, "distinct")
        if distinct is None:
            return result
        on = self.take(distinct, "on")
        if on is None:
            if result.keys is not None and {*result.keys} <= {*result.columns.values()}:
                return result  # groups differ
            return replace(result, unique=True)
        given = self.take(on, "expressions") if isinstance(on, exp.Tuple) else [on]
        scope = replace(level.scope, aliases=level.outputs)
        parts = [self.convert(one, scope) for one in given]
        order = self.take(level.select, "order")
        if order is None:
            self.fail("DISTINCT ON has no ORDER BY, so nothing to rank by", level.select)
        keys = self.sorted(order, replace(scope, first=True))
        rest = tuple(key for key in keys if key.value not in parts)
        if not rest:
            self.fail(
                "ORDER BY names only what DISTINCT ON does; add what to rank by, as ORDER BY a, price DESC", order
            )
        over = Over("ROW_NUMBER", tuple(part for part in parts if not is_mark(part)), rest)
        return replace(result, top=(over, 1), overs=(*result.overs, over))

    def _ordered(self, level: _Level, result: Relation) -> Relation:
        """Read ORDER BY and LIMIT."""
        order, scope = self.take(level.select, "order"), replace(level.scope, aliases=level.outputs, first=True)
        limit = self.limit(level.select, order)
        if order is None:
            if limit is not None and result.top is None and not result.overs:
                self.fail(
                    "there is no ORDER BY, so nothing to rank by; write ORDER BY score DESC LIMIT 10", level.select
                )
            if limit is not None:
                message = (
                    "LIMIT is not supported here: OVER ranks the rows, and a condition on its number says how many"
                )
                self.text.fail(message, self.text.after(position(level.select), "LIMIT", "FETCH"))
            return result
        place = self.text.before(position(order), "ORDER BY")
        if level.select.args.get("distinct") is not None and result.top is not None:
            return result
        keys = self._order_keys(level, order, scope)
        if limit is None or result.top is not None:
            if limit is not None or not self._agrees(result, keys):
                self.refuse_order(place, result)
            return result
        k, function = limit
        for key in keys:
            self._check_grouped(result, key.value, order)
        edges = [key.value for key in keys if is_mark(key.value)]
        if edges:
            self.text.fail("ORDER BY names the window; each window is ranked by itself: leave it out", place)
        self._check_window(level.source, (), order)
        over = Over(function, (), keys)
        return replace(result, top=(over, k), overs=(*result.overs, over))

    def _order_keys(self, level: _Level, order: exp.Order, scope: Scope) -> tuple[Sorted, ...]:
        """Read the keys; a number is the place of a value in SELECT."""
        for ordered in order.expressions:
            given = ordered.this if isinstance(ordered, exp.Ordered) else None
            if isinstance(given, exp.Literal) and not given.is_string:
                place = self.integer(given, "a place in SELECT", level.select)
                values = list(level.outputs.values())
                if not 1 <= place <= len(values):
                    where = self.text.after(position(level.select), "ORDER BY")
                    self.text.fail(f"there is no value number {place} in SELECT", where)
                names = list(level.outputs)
                ordered.set("this", exp.column(exp.to_identifier(names[place - 1], quoted=True)))
            elif given is not None and not isinstance(given, exp.Column):
                self._unambiguous(given, scope)
        return self.sorted(order, scope)

    def _unambiguous(self, node: exp.Expression, scope: Scope) -> None:
        """Refuse a name in an expression that an alias and a column may share."""
        for column in node.find_all(exp.Column):
            name = column.name
            alias = None if column.table else scope.aliases.get(name)
            sources = scope.sources.values()
            if alias is not None and any(one.find(name) not in (None, alias) for one in sources):
                message = f"{name!r} is an alias, and there may be a column of that name; in a larger expression it may"
                self.fail(f"{message} mean either: write the expression itself", column)

    def _agrees(self, result: Relation, keys: tuple[Sorted, ...]) -> bool:
        """Tell whether answers come in an order anyway: by window, then by rank."""
        if result.top is None:
            return False
        over = result.top[0]
        rest = [key for key in keys if key.value not in (*MARKS, *over.parts)]
        if any(key.descending for key in keys if key not in rest):
            return False
        if not rest:
            return True
        return (is_number(rest[0].value) and not rest[0].descending) or tuple(rest) == over.order[: len(rest)]


def _is_top(node: exp.Expression) -> bool:
    value = node.this if isinstance(node, exp.Alias) else node
    return isinstance(value, exp.Anonymous) and str(value.this).upper() == "TOPK"


def _aggregates(node: exp.Expression) -> bool:
    names = {name.split()[0] for name in AGGREGATES}
    return any(str(call.this).lower() in names for call in node.find_all(exp.Anonymous))
