"""Small changes to the code, each of which some test should notice."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True)
class Mutant:
    """A part of a file, and what stands there instead."""

    line: int
    was: str
    now: str
    begin: int
    end: int

    def applied(self, text: str) -> str:
        raw = text.encode()
        return (raw[: self.begin] + self.now.encode() + raw[self.end :]).decode()

    def __str__(self) -> str:
        return f"line {self.line}: {shown(self.was)}  ->  {shown(self.now)}"


def mutants(text: str) -> Iterator[Mutant]:
    """Yield every small change to a file: comparisons, sums, conditions, extremes, and calls that are left out."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in ast.walk(ast.parse(text)):
        for other in changes(node):
            begin = starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
            end = starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
            was = text.encode()[begin:end].decode()
            now = f"({ast.unparse(other)})" if isinstance(other, ast.expr) else ast.unparse(other)
            yield Mutant(node.lineno, was, now, begin, end)  # type: ignore[attr-defined]


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in the place of a node."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        changed = copy.deepcopy(node)
        changed.ops[0] = COMPARED[type(node.ops[0])]()
        yield changed
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        changed_sum = copy.deepcopy(node)
        changed_sum.op = COMPUTED[type(node.op)]()
        yield changed_sum
    elif isinstance(node, ast.BoolOp):
        changed_both = copy.deepcopy(node)
        changed_both.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield changed_both
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
        yield node.operand
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in CALLED:
        yield ast.Name(CALLED[node.id])
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)) or isinstance(node, ast.AugAssign):
        yield ast.Pass()


def shown(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else f"{flat[:57]}..."
