"""Rankings in SQL: OVER, the condition on its number, ORDER BY with LIMIT."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from skyband.expressions.parse import position
from skyband.expressions.tree import Call, Literal, Node, to_sql
from skyband.languages.sql.relations import (
    END,
    START,
    TIME,
    WINDOW,
    Function,
    Over,
    Relation,
    Sorted,
    is_mark,
    is_number,
    made_of,
    marks,
)
from skyband.languages.sql.scopes import Scope
from skyband.languages.sql.text import whole_number, words_of
from skyband.languages.sql.windows import Windows
from skyband.queries.decomposition import holds_aggregates
from skyband.queries.query import LARGEST_K

MAX_DIGITS = 30
_FUNCTIONS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
_MIRRORED = {">=": "<=", ">": "<", "=": "="}


class Rankings(Windows):
    """Reads rankings."""

    # OVER.

    def over(self, node: exp.Window, relation: Relation, scope: Scope, named: dict[str, exp.Window]) -> Over:
        """Read ``ROW_NUMBER() OVER (PARTITION BY … ORDER BY …)``; `named` has what WINDOW lists."""
        call = self.take(node, "this")
        name = str(call.this).upper() if isinstance(call, exp.Anonymous) else ""
        if name not in _FUNCTIONS or call.expressions:
            message = f"{words_of(call)} OVER (…) is not supported; write ROW_NUMBER(), RANK() or DENSE_RANK()"
            self.fail(message, node)
        self.whole(call)
        self.take(node, "over")
        if (alias := self.name(node, "alias")) is not None:
            if alias not in named:
                self.fail(f"there is no window {alias!r}; write WINDOW {alias} AS (PARTITION BY … ORDER BY …)", node)
            self.only(node, "this", "over", "alias")
            node = named[alias]
        self.only(node, "this", "over", "partition_by", "order")
        order = self.take(node, "order")
        if not order:
            self.fail("OVER has no ORDER BY, so nothing to rank by", node)
        parts = tuple(self.convert(key, scope) for key in self.take(node, "partition_by") or [])
        self._check_window(relation, parts, node)
        keys = tuple(dict.fromkeys(part for part in parts if not is_mark(part)))
        return Over(name, keys, self.sorted(order, scope))  # type: ignore[arg-type]

    def _check_window(self, relation: Relation, parts: tuple[Node, ...], node: exp.Expression) -> None:
        """Refuse a ranking across windows; what stands over the window itself is ranked window by window."""
        if not relation.windowed or relation.direct or {WINDOW, END, TIME} & set(parts):
            return
        if START in parts and not relation.grows:
            return
        self.fail(
            "this ranks rows of different windows with each other; write PARTITION BY window_start, window_end to rank "
            "each window",
            node,
        )

    def sorted(self, order: exp.Order, scope: Scope) -> tuple[Sorted, ...]:
        """Read the keys of an ORDER BY."""
        found = []
        for ordered in self.take(order, "expressions"):
            if not isinstance(ordered, exp.Ordered):
                self.fail(f"{words_of(ordered)} in ORDER BY is not supported", ordered)
            self.only(ordered, "this", "desc", "nulls_first")
            value = self.convert(self.take(ordered, "this"), scope)
            descending = bool(self.take(ordered, "desc"))
            if self.take(ordered, "nulls_first"):
                place = self.text.after(position(ordered), "FIRST")
                self.text.fail("NULLS FIRST is not supported; rows without a score are not ranked at all", place)
            found.append(Sorted(value, descending, position(ordered)))
        return tuple(found)

    # The condition on the number.

    def chosen(self, relation: Relation, conditions: list[Node], node: exp.Expression) -> Relation:
        """Apply the conditions of a WHERE or a QUALIFY behind rankings: how many, and what parts may be left out by."""
        bounds = [one for one in conditions if any(is_number(mark) for mark in marks(one))]
        others = [one for one in conditions if one not in bounds]
        if bounds:
            relation = self._bounded(relation, bounds, node)
        for condition in others:
            relation = self._after(relation, condition, node)
        return relation

    def _after(self, relation: Relation, condition: Node, node: exp.Expression) -> Relation:
        """Apply a condition behind a ranking: it may only choose among the parts that are ranked apart."""
        over = relation.top[0] if relation.top else relation.overs[-1]
        if _bounds_score(condition, over):
            return filtered(relation, condition)  # it cuts rows off at the end, before as well as behind the ranking
        if any(True for _ in marks(condition)) or not made_of(condition, over.parts):
            self.fail(
                f"{_shown(condition)} is a condition behind the ranking, so answers would have fewer rows than they "
                "are asked for; put it before, into the query that is ranked"
                + (", or compare what PARTITION BY names" if over.parts else ""),
                node,
            )
        return filtered(relation, condition)

    def _bounded(self, relation: Relation, bounds: list[Node], node: exp.Expression) -> Relation:
        """Read ``n <= 3``."""
        if relation.top is not None:
            self.fail("the rows are ranked and chosen already; rank in one place", node)
        if len(bounds) > 1:
            bounds = [one for one in bounds if not _says_nothing(one)]
        mark, k = _bound(bounds[0]) if len(bounds) == 1 else (None, None)
        if mark is None or k is None:
            shown = " AND ".join(map(_shown, bounds))
            self.fail(f"{shown} does not say how many rows to rank; write n <= 10 for the number n", node)
        over = relation.over_of(mark)
        self.check_k(k, node)
        return replace(relation, top=(over, k))

    def check_k(self, k: int, node: exp.Expression, *words: str) -> None:
        """Refuse too few and too many."""
        if not 1 <= k <= LARGEST_K:
            place = self.text.after(position(node), *words) if words else position(node)
            self.text.fail(f"k is {k}; it must be from 1 to {LARGEST_K:,}", place)

    # ORDER BY … LIMIT.

    def limit(self, select: exp.Select, order: exp.Expression | None) -> tuple[int, Function] | None:
        """Read LIMIT or FETCH: how many, and what becomes of ties."""
        limit = self.take(select, "limit")
        if limit is None:
            return None
        anchor = order or select
        count = self.take(limit, "count" if isinstance(limit, exp.Fetch) else "expression")
        self.take(limit, "direction")  # FETCH FIRST and FETCH NEXT are the same
        ties = False
        if options := self.take(limit, "limit_options"):
            self.take(options, "rows")
            ties = bool(self.take(options, "with_ties"))
        k = self.integer(count, "LIMIT", limit, anchor) if count is not None else 1
        self.check_k(k, anchor, "LIMIT", "FETCH")
        return k, "RANK" if ties else "ROW_NUMBER"

    def integer(self, node: exp.Expression, what: str, *places: exp.Expression) -> int:
        """Read a whole number."""
        if not isinstance(node, exp.Literal) or node.is_string or not (node.this.isdecimal() and node.this.isascii()):
            self.fail(f"{what} wants a whole number such as 10", node, *places)
        if len(node.this) > MAX_DIGITS:
            message = f"{what} wants a whole number such as 10; this one has {len(node.this):,} digits"
            self.fail(message, node, *places)
        return int(self.whole(node).this)

    def refuse_order(self, place: int | None, relation: Relation) -> NoReturn:
        """Refuse an ORDER BY without LIMIT, and one that a ranking contradicts."""
        if relation.top is None:
            self.text.fail("there is no LIMIT; say how many to rank: LIMIT 10", place)
        self.text.fail("the rows are ranked already, and answers come in the order of their ranks; leave it out", place)


def filtered(relation: Relation, condition: Node) -> Relation:
    """Apply a condition to rows, or to groups."""
    if relation.keys is None or not holds_aggregates(condition):
        return replace(relation, where=(*relation.where, condition))
    return replace(relation, having=(*relation.having, condition))


def _bounds_score(node: Node, over: Over) -> bool:
    """Tell whether a condition is true of the best rows, down to some score."""
    (value, descending), signs = (over.order[0].value, over.order[0].descending), {">": "<", ">=": "<="}
    if not isinstance(node, Call) or len(node.args) != 2:
        return False
    wanted = tuple(signs) if descending else tuple(signs.values())
    left, right = node.args
    return left == value and isinstance(right, Literal) and node.name in wanted


def _bound(node: Node) -> tuple[Node | None, int | None]:
    """Return the number that a condition bounds from above, and the bound."""
    if not isinstance(node, Call):
        return None, None
    if node.name == "between" and is_number(node.args[0]) and whole_number(node.args[1]) == 1:
        return node.args[0], whole_number(node.args[2])
    if node.name == "in" and is_number(node.args[0]):
        listed = sorted(whole_number(arg) or 0 for arg in node.args[1:])
        return node.args[0], len(listed) if listed == [*range(1, len(listed) + 1)] else None
    if node.name not in ("<=", "<", "=", ">=", ">"):
        return None, None
    left, right = node.args
    sign = node.name
    if is_number(right):
        left, right, sign = right, left, _MIRRORED.get(sign, "")
    if not is_number(left) or sign not in ("<=", "<", "="):
        return None, None
    bound = whole_number(right)
    if bound is None or (sign == "=" and bound != 1):
        return None, None
    return left, bound - 1 if sign == "<" else bound


def _says_nothing(node: Node) -> bool:
    """Tell whether a condition on a number is true of all: ``n >= 1``, ``n > 0``."""
    if not isinstance(node, Call) or len(node.args) != 2:
        return False
    left, right = node.args
    return is_number(left) and (node.name, whole_number(right)) in ((">=", 1), (">", 0))


def _shown(node: Node) -> str:
    """Write a condition, with short names for marks."""
    if is_number(node):
        return "n"
    if isinstance(node, Call) and any(True for _ in marks(node)):
        if is_mark(node):
            return node.name
        return f" {node.name} ".join(map(_shown, node.args)) if len(node.args) == 2 else f"{node.name} …"
    return to_sql(node)
