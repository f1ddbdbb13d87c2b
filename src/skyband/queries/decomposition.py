"""The decomposition of a joined query: which part of its score and condition is the stream's, which the service's.

An aggregated query without a join has only the stream's part.

A score such as ``100 * mentions + followers`` joined with the service `followers` has one part that only the stream
knows, ``100 * mentions``. That part is computed once, where events are. It and the remote value make the score,
again whenever the remote value changes. Aggregates belong to the stream's part, which is computed from them once per id
and window.

Examples
--------
>>> from skyband.expressions import parse
>>> score = parse("100 * count(*) + ln(followers)", aggregates=True)
>>> parts = Decomposition.of("followers", score, parse("followers > 9 AND ok"))
>>> str(parts.part), [str(one) for one in parts.aggregates], str(parts.combine)
('100 * `count(*)`', ['count(*)'], '`the stream` + ln(followers)')
>>> str(parts.where), parts.condition
('ok', Condition(sign='>', threshold=9.0))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from skyband.errors import InputError, QueryError
from skyband.expressions import Bound, Expression, tree
from skyband.expressions.parse import AGGREGATES
from skyband.expressions.tree import NULL, Call, Column, Literal, Node, Type
from skyband.order import FloatArray

STREAM = "the stream"
"""The column that stands for the stream's part in the joined score."""
_SIGNS = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}  # and what each is with its operands swapped


@dataclass(frozen=True)
class Condition:
    """What the remote value is compared with."""

    sign: str
    threshold: float

    def __str__(self) -> str:
        return f"{self.sign} {self.threshold:g}"


@dataclass(frozen=True)
class Aggregate:
    """A function of all events of an id within the window; `argument` None counts them."""

    function: str
    argument: Expression | None

    def __str__(self) -> str:
        return f"{self.function}({'*' if self.argument is None else self.argument})"

    def values(self, schema: pa.Schema) -> Expression:
        """Return the numbers that are aggregated, over a stream's columns; of what is counted and no number, a 1."""
        assert self.argument is not None
        if self.function == "count" and self.argument.bind(schema).type not in ("number", "integer"):
            absent = Call("is null", (self.argument.tree,))
            return _expression(Call("case", (absent, NULL, Literal(Type.INTEGER, "1"))))
        return self.argument


@dataclass(frozen=True)
class Decomposition:
    """A joined or aggregated query, taken apart.

    Parameters
    ----------
    service
        The name of the remote column; None where all is the stream's.
    part
        The stream's part of the score: over the stream's columns, or over those of `aggregates`.
    aggregates
        What the part is made of; empty where the latest event of each id counts.
    where
        The stream's part of the condition.
    condition
        The remote part of it.
    combine
        The score, over `STREAM` and the remote column.
    """

    service: str | None
    part: Expression
    aggregates: tuple[Aggregate, ...]
    where: Expression | None
    condition: Condition | None
    combine: Expression

    @classmethod
    def of(cls, service: str | None, score: Expression, where: Expression | None) -> Decomposition:
        """Take a query apart.

        Raises
        ------
        QueryError
            With all that cannot be joined.
        """
        problems: list[str] = []
        condition, kept = _take_condition(service, where, problems)
        aggregates: dict[str, Aggregate] = {}
        node = _take_aggregates(score.tree, service, aggregates, problems)
        part, combine = _split(node, service, problems)
        if aggregates and (bare := sorted(set(tree.columns(part)) - set(aggregates))):
            problems.append(
                f"score: {', '.join(map(repr, bare))} stands outside of an aggregate; with {next(iter(aggregates))} in "
                "it, a score is made of aggregates: write max(…), min(…), sum(…) or avg(…) around it"
            )
        if service is not None and condition is None and not _mentions(score.tree, service) and not problems:
            problems.append(
                f"neither the score nor the condition uses {service!r}; name the service where its value counts, such "
                f"as score='… + {service}', or leave the join out"
            )
        if problems:
            raise QueryError(problems)
        found = cls(service, _expression(part), tuple(aggregates.values()), kept, condition, _expression(combine))
        try:
            _ = found._bound
            if aggregates:
                found.part.bind(pa.schema([(name, pa.float64()) for name in aggregates]), "score")
        except InputError as error:
            msg = f"score: {error}"
            raise QueryError(msg) from None
        return found

    @property
    def expressions(self) -> list[Expression]:
        """What is evaluated over the stream's columns."""
        arguments = [one.argument for one in self.aggregates if one.argument is not None]
        part = [] if self.aggregates else [self.part]
        return [*part, *arguments, *([] if self.where is None else [self.where])]

    def joined(self, stream: FloatArray, value: FloatArray) -> FloatArray:
        """Return scores, of the stream's part and the remote value; NaN where there is none."""
        batch = pa.record_batch([pa.array(stream), pa.array(value)], self._schema)
        scores, valid = self._bound.scores(batch)
        lacking = np.isnan(value) if valid is None else np.isnan(value) | ~valid
        return np.where(lacking, np.nan, scores)

    @cached_property
    def _bound(self) -> Bound:
        return self.combine.bind(self._schema, "score")

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([(STREAM, pa.float64()), (self.service or "", pa.float64())])


def _expression(node: Node) -> Expression:
    return Expression(tree.to_sql(node), node)


def holds_aggregates(node: Node) -> bool:
    """Tell whether there is an aggregate in an expression."""
    return isinstance(node, Call) and (node.name in AGGREGATES or any(map(holds_aggregates, node.args)))


def _is_remote(node: Node, service: str | None) -> bool:
    return isinstance(node, Column) and service is not None and node.name.lower() == service.lower()


def _mentions(node: Node, service: str | None) -> bool:
    return service is not None and any(name.lower() == service.lower() for name in tree.columns(node))


# The condition.


def _take_condition(
    service: str | None, where: Expression | None, problems: list[str]
) -> tuple[Condition | None, Expression | None]:
    """Return the comparison of the remote value, and what is left for the stream."""
    if where is None:
        return None, None
    terms = list(_conjuncts(where.tree))
    remote = [term for term in terms if _mentions(term, service)]
    kept = [term for term in terms if term not in remote]
    found = [_comparison(term, service) for term in remote]
    if len(remote) > 1 or None in found:
        shown = " AND ".join(tree.to_sql(term) for term in remote)
        problems.append(
            f"where: {shown} is no condition on {service!r} that can be kept up to date; compare it once with a "
            f"number, by <, <=, > or >=, such as {service} > 500, joined to other conditions by AND"
        )
    left = None if not kept else kept[0] if len(kept) == 1 else Call("and", tuple(kept))
    return found[0] if found else None, None if left is None else _expression(left)


def _conjuncts(node: Node) -> Iterator[Node]:
    if isinstance(node, Call) and node.name == "and":
        for arg in node.args:
            yield from _conjuncts(arg)
    else:
        yield node


def _comparison(node: Node, service: str | None) -> Condition | None:
    if not isinstance(node, Call) or node.name not in _SIGNS:
        return None
    left, right = node.args
    sign, other = (node.name, right) if _is_remote(left, service) else (_SIGNS[node.name], left)
    remote = left if other is right else right
    if not _is_remote(remote, service) or not isinstance(other, Literal):
        return None
    return Condition(sign, float(other.text)) if other.type in (Type.NUMBER, Type.INTEGER) else None


# The score.


def _take_aggregates(node: Node, service: str | None, found: dict[str, Aggregate], problems: list[str]) -> Node:
    """Put columns in the place of aggregates, which are noted by the names of these columns."""
    if not isinstance(node, Call):
        return node
    if node.name not in AGGREGATES:
        return Call(node.name, tuple(_take_aggregates(arg, service, found, problems) for arg in node.args))
    argument = _expression(node.args[0]) if node.args else None
    one = Aggregate(node.name, argument)
    if argument is not None and _mentions(argument.tree, service):
        problems.append(f"score: {one} aggregates the remote value; aggregates are of the stream: take {service!r} out")
    if argument is not None and holds_aggregates(argument.tree):
        problems.append(f"score: {one} has an aggregate inside an aggregate; write one")
    found[str(one)] = one
    return Column(str(one))


def _split(node: Node, service: str | None, problems: list[str]) -> tuple[Node, Node]:
    """Return the stream's part of a score, and the score over it and the remote value."""
    parts = list(dict.fromkeys(_parts(node, service)))
    if not parts:
        return Literal(Type.NUMBER, "0.0"), node
    if len(parts) == 1:
        return parts[0], _replaced(node, parts[0])
    # Several parts, but each a term of one sum: their sum is one part.
    terms = list(_terms(node, 1))
    own = [(sign, term) for sign, term in terms if not _mentions(term, service)]
    rest = [(sign, term) for sign, term in terms if _mentions(term, service)]
    if any(any(_parts(term, service)) for _, term in rest):
        shown = ", ".join(tree.to_sql(part) for part in parts)
        problems.append(
            f"score: {shown} are mixed with {service!r} in several places; the score must be made of {service!r} and "
            f"of one value of the stream, such as (a + b) * {service}, or of a sum of such terms as a + {service} + b"
        )
        return parts[0], node
    return _sum(own), Call("+", (_sum(rest), Column(STREAM)))


def _parts(node: Node, service: str | None) -> Iterator[Node]:
    """Yield the largest parts of a score without the remote value; constants are none."""
    if not _mentions(node, service):
        if any(True for _ in tree.columns(node)):
            yield node
    elif isinstance(node, Call):
        for arg in node.args:
            yield from _parts(arg, service)


def _terms(node: Node, sign: int) -> Iterator[tuple[int, Node]]:
    if isinstance(node, Call) and node.name in ("+", "-"):
        yield from _terms(node.args[0], sign)
        yield from _terms(node.args[1], sign if node.name == "+" else -sign)
    else:
        yield sign, node


def _sum(terms: list[tuple[int, Node]]) -> Node:
    (sign, total), *more = terms
    total = total if sign > 0 else Call("neg", (total,))
    for sign, term in more:
        total = Call("+" if sign > 0 else "-", (total, term))
    return total


def _replaced(node: Node, part: Node) -> Node:
    if node == part:
        return Column(STREAM)
    return Call(node.name, tuple(_replaced(arg, part) for arg in node.args)) if isinstance(node, Call) else node
