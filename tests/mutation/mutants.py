"""Small changes to the code, each of which some test should notice."""

from __future__ import annotations

import ast
import copy
from collections import Counter
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
BY_HAND: dict[str, list[tuple[str, str]]] = {  # mistakes that no test noticed once, and which no rule below makes
    "algorithms/staircase/prefilter.py": [
        ("events = position[~np.isnan(merit) & (position >= self.limits[0])]", "events = position[~np.isnan(merit)]"),
    ],
    "engine/ranking.py": [
        ("self.early_digests = {key: seen for key, seen in digests if key[1] > closed.get(key[0], ALWAYS)}",
         "self.early_digests = {}"),
        ("self.arrived, self.unseen_to]", "self.arrived, NEVER]"),
    ],
    "files/durable.py": [('draft = file.with_name(f".{file.name}.draft")', "draft = file")],
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A part of a function, and what stands there instead; `name` tells it from all others of its file."""

    name: str
    function: str
    lines: range
    now: str
    begin: int
    end: int

    def applied(self, text: str) -> str:
        """Return the changed file; all else stays on its line."""
        raw = text.encode()
        lines = raw[self.begin : self.end].count(b"\n") - self.now.count("\n")
        bracket = b")" * self.now.endswith(")")
        now = self.now.encode().removesuffix(bracket) + b"\n" * lines + bracket
        return (raw[: self.begin] + now + raw[self.end :]).decode()


def mutants(text: str, by_hand: list[tuple[str, str]] | None = None) -> list[Mutant]:
    """List every small change to the functions of a file.

    Comparisons, sums, conditions and extremes become others; calls and what is assigned to parts of objects are left
    out.
    """
    raw, starts = text.encode(), [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[Mutant] = []
    seen: Counter[str] = Counter()

    def add(function: str, now: str, begin: int, end: int) -> None:
        lines = range(raw[:begin].count(b"\n") + 1, raw[:end].count(b"\n") + 2)
        name = f"{function}: {flat(raw[begin:end].decode())} -> {flat(now)}"
        seen[name] += 1
        found.append(Mutant(name + f" ({seen[name]})" * (seen[name] > 1), function, lines, now, begin, end))

    spans = []
    for function, body in functions(ast.parse(text), ""):
        spans.append((starts[body.lineno - 1], starts[body.end_lineno or 0], function))
        for node in (node for statement in body.body for node in inside(statement)):
            for other in changes(node, function):
                begin = starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
                end = starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
                now = f"({ast.unparse(other)})" if isinstance(other, ast.expr) else ast.unparse(other)
                add(function, now, begin, end)
    for was, now in by_hand or ():
        begin = raw.index(was.encode())
        function = next(name for low, high, name in spans if low <= begin < high)
        add(function, now, begin, begin + len(was.encode()))
    return found


def functions(node: ast.AST, within: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions and methods of a file by their names, without those inside others."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield within + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from functions(child, f"{within}{child.name}.")


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it, without annotations."""
    yield node
    for child in ast.iter_child_nodes(node):
        if child is not getattr(node, "annotation", None):
            yield from inside(child)


def changes(node: ast.AST, function: str) -> Iterator[ast.AST]:
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
    elif isinstance(node, ast.Expr | ast.Assign | ast.AugAssign) and may_go(node, function):
        yield ast.Pass()


def may_go(node: ast.Expr | ast.Assign | ast.AugAssign, function: str) -> bool:
    """Tell whether a statement may be left out: a call, or what gives a part of an object another value."""
    if isinstance(node, ast.Assign):
        parts = all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
        return parts and not function.endswith("__init__")
    return isinstance(node, ast.AugAssign) or isinstance(node.value, ast.Call)


def flat(text: str) -> str:
    return " ".join(text.split())
