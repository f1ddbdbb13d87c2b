"""Queries of all kinds, drawn by hypothesis."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st

import skyband as sb
from skyband.expressions.tree import FALSE, NULL, TRUE, Call, Column, Literal, Node, Type, to_sql

COLUMNS = ["price", "volume", "venue", "a b", "Größe", "select", "score", "x`y", "v1", "100%"]
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
CONSTANTS = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(lambda n: Literal(Type.INTEGER, str(n))),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: Literal(Type.NUMBER, repr(x))),
    TEXTS.map(lambda text: Literal(Type.TEXT, text)),
    st.sampled_from([TRUE, FALSE, NULL]),
)
LEAVES = st.one_of(st.sampled_from(COLUMNS).map(Column), CONSTANTS)
PATTERNS = st.sampled_from(["A%", "_b", "%", "\\%", "x"]).map(lambda text: Literal(Type.TEXT, text))
_BINARY = ["+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=", "<=>", "power", "nullif"]
_UNARY = ["not", "is null", "abs", "ln", "round", "upper", "trim", "length", "cast double", "cast bigint", "cast int",
          "cast string", "isnan", "ceil"]  # fmt: skip
_MANY = ["and", "or", "in", "concat", "coalesce", "least", "greatest"]


def _calls(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    def call(names: list[str], *sizes: int) -> st.SearchStrategy[Node]:
        args = st.sampled_from(sizes).flatmap(lambda size: st.tuples(*[inner] * size))
        return st.builds(Call, st.sampled_from(names), args)

    return st.one_of(
        call(_BINARY, 2), call(_UNARY, 1), call(_MANY, 2, 3), call(["between"], 3), call(["case"], 3, 5),
        call(["switch"], 4, 6), st.builds(lambda a, b: Call("like", (a, b)), inner, PATTERNS),
        inner.filter(lambda node: not isinstance(node, Literal)).map(lambda node: Call("neg", (node,))),
    )  # fmt: skip


TREES = st.recursive(LEAVES, _calls, max_leaves=8)
"""Trees as `parse` makes them: a minus before a number is part of the number."""


@st.composite
def windows(draw: st.DrawFn) -> sb.Window:
    if draw(st.booleans()):
        size = draw(st.integers(1, 1000))
        return sb.Window(f"{size} events", slide=f"{draw(st.integers(1, size))} events")
    size = draw(st.sampled_from([1, 1_000, 60_000_000, 90_000_000, 86_400_000_000, 1_234_567]))
    slide = draw(st.integers(1, size) | st.just(size))
    offset = draw(st.sampled_from([0, 1, -5, 60_000_000]))
    return sb.Window(size, slide=slide, offset=offset, closed=draw(st.sampled_from(["left", "right"])))


@st.composite
def queries(draw: st.DrawFn, /, **fixed: Any) -> sb.Query:
    optional = st.none() | TREES.map(to_sql)
    select = draw(st.lists(st.sampled_from([name for name in COLUMNS if name != "score"]), unique=True, max_size=2))
    given: dict[str, Any] = {
        "k": draw(st.integers(1, 1_000_000)),
        "score": to_sql(draw(TREES)),
        "window": draw(windows()),
        "where": draw(st.none() | TREES.filter(lambda node: not isinstance(node, Literal)).map(to_sql)),
        "partition_by": draw(optional),
        "distinct": draw(st.sampled_from([None, "best", "latest"])),
        "order": draw(st.sampled_from(["desc", "asc"])),
        "emit": draw(st.sampled_from(["final", "changes", "entered", "left"])),
        "select": tuple(select),
    }
    return sb.Query(draw(TEXTS.filter(str.strip)), **(given | fixed))
