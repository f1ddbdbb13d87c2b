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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from skyband.errors import InputError, QueryError
from skyband.expressions import Bound, Expression, tree
from skyband.expressions.parse import AGGREGATES
from skyband.expressions.tree import NULL, Call, Column, Literal, Node, Type
from skyband.order import FloatArray
from skyband.queries.outputs import Output

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
        return tree.to_sql(Call(self.function, () if self.argument is None else (self.argument.tree,)))

    def values(self, schema: pa.Schema) -> Expression:
        """Return what is aggregated, over a stream's columns; of what is counted and no number, a 1.

        What is counted roughly is known by its text, which is the same everywhere.
        """
        assert self.argument is not None
        if self.function == "approx_count_distinct":
            return _expression(Call("cast string", (self.argument.tree,)))
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
    having
        The condition over the columns of `aggregates`.
    outputs
        Further values over them.
    """

    service: str | None
    part: Expression
    aggregates: tuple[Aggregate, ...]
    where: Expression | None
    condition: Condition | None
    combine: Expression
    having: Expression | None = None
    outputs: tuple[Output, ...] = ()

    @classmethod
    def of(
        cls, service: str | None, score: Expression, where: Expression | None, having: Expression | None = None,
        outputs: Sequence[Output] = (),
    ) -> Decomposition:  # fmt: skip
        """Take a query apart; `outputs` are its further values that hold aggregates.

        Raises
        ------
        QueryError
            With all that cannot be joined.
        """
        problems: list[str] = []
        condition, kept = _take_condition(service, where, problems)
        aggregates: dict[str, Aggregate] = {}
        node = _take_aggregates("score", score.tree, service, aggregates, problems)
        part, combine = _split(node, service, problems)
        if aggregates:
            _check_bare("score", part, aggregates, problems)

        def over_aggregates(what: str, expression: Expression) -> Expression:
            own = _take_aggregates(what, expression.tree, service, aggregates, problems)
            _check_bare(what, own, aggregates, problems)
            return _expression(own)

        having = None if having is None else over_aggregates("having", having)
        outputs = [Output(one.name, over_aggregates(f"select: {one.name}", one.expression)) for one in outputs]
        if service is not None and condition is None and not _mentions(score.tree, service) and not problems:
            problems.append(
                f"neither the score nor the condition uses {service!r}; name the service where its value counts, such "
                f"as score='… + {service}', or leave the join out"
            )
        if problems:
            raise QueryError(problems)
        found = cls(
            service, _expression(part), tuple(aggregates.values()), kept, condition, _expression(combine),
            having, tuple(outputs),
        )  # fmt: skip
        found._check()
        return found

    def _check(self) -> None:
        """Refuse expressions over aggregates whose types do not go together."""
        what = "score"
        try:
            _ = self._bound
            if self.aggregates:
                schema = pa.schema([(str(one), pa.float64()) for one in self.aggregates])
                self.part.bind(schema, "score")
                what = "having"
                if self.having is not None:
                    self.having.bind(schema, "filter")
                for output in self.outputs:
                    what = f"select: {output.name}"
                    output.expression.bind(schema)
        except InputError as error:
            msg = f"{what}: {error}"
            raise QueryError(msg) from None

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


def _take_aggregates(
    what: str, node: Node, service: str | None, found: dict[str, Aggregate], problems: list[str]
) -> Node:
    """Put columns in the place of aggregates, which are noted by the names of these columns."""
    if not isinstance(node, Call):
        return node
    if node.name not in AGGREGATES:
        return Call(node.name, tuple(_take_aggregates(what, arg, service, found, problems) for arg in node.args))
    argument = _expression(node.args[0]) if node.args else None
    one = Aggregate(node.name, argument)
    if argument is not None and _mentions(argument.tree, service):
        problems.append(
            f"{what}: {one} aggregates the remote value; aggregates are of the stream: take {service!r} out"
        )
    if argument is not None and holds_aggregates(argument.tree):
        problems.append(f"{what}: {one} has an aggregate inside an aggregate; write one")
    found[str(one)] = one
    return Column(str(one))


def _check_bare(what: str, node: Node, aggregates: dict[str, Aggregate], problems: list[str]) -> None:
    if bare := sorted(set(tree.columns(node)) - set(aggregates)):
        kind = "a condition on single events goes into where" if what == "having" else "a score is made of aggregates"
        problems.append(
            f"{what}: {', '.join(map(repr, bare))} stands outside of an aggregate; with {next(iter(aggregates))} in "
            f"it, {kind}: write max(…), min(…), sum(…) or avg(…) around it"
        )


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
