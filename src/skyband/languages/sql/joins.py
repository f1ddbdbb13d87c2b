"""Joins that are rankings: with the largest of each window, and LATERAL with the best of each key.

And groups of groups, of which the largest value is such a join's other side.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from skyband.expressions.parse import AGGREGATES, position
from skyband.expressions.tree import TRUE, Call, Node
from skyband.languages.sql.ranking import Rankings
from skyband.languages.sql.relations import END, MARKS, START, WINDOW, Over, Relation, Sorted, conjuncts, made_of
from skyband.languages.sql.scopes import Scope
from skyband.queries.decomposition import holds_aggregates

Environment = Mapping[str, Callable[[], Relation]]
_EXTREMES = {"largest of": True, "max": True, "smallest of": False, "min": False}
_SAME = {("sum", "sum"): "sum", ("sum", "count"): "count", ("max", "max"): "max", ("min", "min"): "min"}


class Joins(Rankings):
    """Reads joins."""

    @abstractmethod
    def query(self, node: exp.Expression, known: Environment, outer: Scope | None = None) -> Relation:
        """Return what a query yields."""

    @abstractmethod
    def source(self, node: exp.Expression, known: Environment, outer: Scope | None) -> tuple[str, Relation]:
        """Return what one item of FROM is called, and what it yields."""

    @abstractmethod
    def _level(self, select: exp.Select, source: Relation, scope: Scope, *, where: bool = True) -> Relation:
        """Read the clauses behind FROM."""

    def _joined(
        self, select: exp.Select, left: tuple[str, Relation], joins: list[exp.Join], known: Environment,
        outer: Scope | None,
    ) -> Relation:  # fmt: skip
        """Read FROM with a join."""
        if len(joins) > 1:
            self.fail("more than one JOIN is not supported", joins[1])
        (join,) = joins
        item = self.take(join, "this")
        if isinstance(item, exp.Lateral):
            return self._lateral(select, left, join, item, known, outer)
        if join.args.get("side") or join.args.get("kind") not in (None, "", "INNER", "CROSS"):
            self.refuse_join(join)
        self.take(join, "kind")
        alias, right = self.source(item, known, outer)
        scope = Scope({left[0]: left[1], alias: right}, outer=outer)
        given = [self.take(join, "on")]
        if (where := self.take(select, "where")) is not None:
            given.append(self.take(where, "this"))
        conditions = [one for node in given if node is not None for one in conjuncts(self.convert(node, scope))]
        for (a, one), (b, other) in (((left[0], left[1]), (alias, right)), ((alias, right), (left[0], left[1]))):
            found = _best_of(one, other, conditions)
            if found is not None:
                value, kept = found
                columns = {name: _replaced(node, value) for name, node in other.columns.items()}
                sides = {a: kept, b: replace(kept, columns=columns, whole=False)}
                ordered = {name: sides[name] for name in (left[0], alias)}
                return self._level(select, kept, Scope(ordered, outer=outer), where=False)
        self.refuse_join(join)

    def refuse_join(self, join: exp.Expression) -> NoReturn:
        """Refuse a join that is no ranking."""
        place = self.text.before(position(join), "JOIN", ",")
        self.text.fail(
            "this JOIN is not supported; supported are the join of rows or groups with the largest of their own values "
            "in the same window, and LATERAL (… ORDER BY … LIMIT k). Remote data is joined by Query(join=…)",
            place,
        )

    def _lateral(
        self, select: exp.Select, left: tuple[str, Relation], join: exp.Join, item: exp.Lateral, known: Environment,
        outer: Scope | None,
    ) -> Relation:  # fmt: skip
        """Read ``FROM (SELECT DISTINCT k FROM t) AS a, LATERAL (SELECT … WHERE t.k = a.k ORDER BY … LIMIT 3)``."""
        self.take(join, "kind")
        side = self.take(join, "side")
        if (node := self.take(join, "on")) is not None and self.convert(node, Scope({})) != TRUE:
            self.fail("LATERAL is joined ON TRUE; conditions stand inside of it", node)
        alias, keys = left
        inside = self.take(item, "this")
        if not isinstance(inside, exp.Subquery):
            self.fail("LATERAL takes a query in brackets", item)
        found = self.query(self.take(inside, "this"), known, Scope({alias: keys}, outer=outer))
        parts = tuple(dict.fromkeys(keys.columns.values()))
        distinct = keys.unique or (keys.keys is not None and set(keys.keys) <= set(parts) and not keys.having)
        matched = {one.args[0] for one in found.where if isinstance(one, Call) and one.name == "=" and _twice(one)}
        if (
            not distinct or keys.whole or keys.scan != found.scan or found.top is None or found.keys is not None
            or not set(parts) <= matched or not all(made_of(one, parts) for one in keys.where)
        ):  # fmt: skip
            self.fail(
                "LATERAL is supported as FROM (SELECT DISTINCT k FROM t) AS a, "
                "LATERAL (SELECT … FROM t WHERE t.k = a.k ORDER BY … LIMIT 3), with the same table in both",
                item,
            )
        if side not in (None, "", "LEFT") or (side and len(found.where) > len(parts)):
            self.refuse_join(join)  # keys without rows would be in the answer
        over, k = found.top
        over = replace(over, parts=(*parts, *(part for part in over.parts if part not in parts)))
        found = replace(found, where=(*keys.where, *found.where), top=(over, k), overs=(*found.overs, over))
        name = ""
        if (given := self.take(item, "alias")) is not None:
            name = self.name(given, "this") or ""
            names = self.names(given, "columns")
            if names and len(names) != len(found.columns):
                self.fail(f"there are {len(names)} new names for {len(found.columns)} columns", given)
            if names:
                found = replace(found, columns=dict(zip(names, found.columns.values(), strict=True)))
        for key in ("view", "outer", "ordinality", "cross_apply"):
            if item.args.get(key) is False:
                self.take(item, key)
        sides = {alias: replace(found, columns=dict(keys.columns), whole=False), name: found}
        return self._level(select, found, Scope(sides, outer=outer))

    # Groups of groups.

    def regrouped(self, source: Relation, keys: tuple[Node, ...], node: exp.Expression) -> Relation:
        """Group what is grouped already, by fewer keys."""
        plain = tuple(key for key in keys if key not in MARKS)
        assert source.keys is not None
        edges = [key for key in keys if key in MARKS]
        if source.base is not None or not all(key in source.keys for key in plain) or (source.windowed and not edges):
            self.fail(
                "groups are grouped again, which is supported by the same window and by some of the keys inside", node
            )
        return replace(source, keys=plain, base=source)

    def flattened(self, value: Node, source: Relation, node: exp.Expression) -> Node:
        """Return an aggregate of aggregates as one, or as the largest or smallest of all groups."""
        if not isinstance(value, Call) or source.base is None:
            return value
        if value.name not in AGGREGATES:
            return Call(value.name, tuple(self.flattened(arg, source, node) for arg in value.args))
        inner = value.args[0] if value.args else None
        if inner is not None and not holds_aggregates(inner):
            if value.name in ("max", "min"):
                return value
        elif isinstance(inner, Call) and (value.name, inner.name) in _SAME and not source.base.having:
            return inner
        elif inner is not None and value.name in ("max", "min"):
            return Call("largest of" if value.name == "max" else "smallest of", (inner,))
        self.fail(f"{value.name.upper()}() of groups is not supported here; group the rows themselves", node)


def _best_of(rows: Relation, best: Relation, conditions: list[Node]) -> tuple[Node, Relation] | None:
    """Return the value and the ranking that a join with the largest values means; None where it is another join."""
    if best.keys is None or best.top or best.overs or rows.top or rows.overs:
        return None
    base = best.base or replace(best, keys=None, having=())
    same = (base.scan, set(base.where), _as_set(base.keys), set(base.having))
    if same != (rows.scan, set(rows.where), _as_set(rows.keys), set(rows.having)) or (best.base and best.having):
        return None
    value, seen = None, set()
    for one in conditions:
        if not isinstance(one, Call) or len(one.args) != 2:
            return None
        left, right = one.args
        if one.name == "=" and left == right and (left in MARKS or left in best.keys):
            seen.add(left)
            continue
        sides = {"=": (left, right), ">=": (left, right), "<=": (right, left)}.get(one.name)
        found = None if sides is None else _extreme(*sides) or (_extreme(right, left) if one.name == "=" else None)
        if found is None or value is not None:
            return None
        value = found
    edges = {WINDOW, END} if rows.grows else {WINDOW, END, START}
    if value is None or not set(best.keys) <= seen or (rows.windowed and not seen & edges):
        return None
    what, largest = value
    over = Over("RANK", best.keys, (Sorted(what, largest),))
    return what, replace(rows, overs=(over,), top=(over, 1))


def _extreme(value: Node, extreme: Node) -> tuple[Node, bool] | None:
    """Return a value that is compared with the largest or the smallest of its kind."""
    if isinstance(extreme, Call) and extreme.name in _EXTREMES and extreme.args == (value,):
        return value, _EXTREMES[extreme.name]
    return None


def _replaced(node: Node, value: Node) -> Node:
    """Put the value in the place of the largest, which it is."""
    return value if _extreme(value, node) is not None else node


def _as_set(keys: tuple[Node, ...] | None) -> set[Node] | None:
    return None if keys is None else set(keys)


def _twice(node: Call) -> bool:
    return node.args[0] == node.args[1]
