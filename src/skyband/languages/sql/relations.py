"""The normal form of queries: what each SELECT yields, by name, over the one stream at the bottom.

A `Relation` is what a table, a subquery, a CTE or a view stands for. Its columns are expressions over the stream's
columns, so nested queries vanish level by level. What no expression can say is said by marks: the window's edges, and
the number that a ranking gives to a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

from skyband.expressions.parse import AGGREGATES
from skyband.expressions.tree import Call, Column, Node
from skyband.queries.decomposition import holds_aggregates
from skyband.windows import Window

WINDOW, START, END, TIME = (Call(name, ()) for name in ("the window", "window start", "window end", "window time"))
MARKS = (WINDOW, START, END, TIME)
WINDOW_COLUMNS = {"window_start": START, "window_end": END, "window_time": TIME}
NUMBER = "row number"

Function = OneOf["ROW_NUMBER", "RANK", "DENSE_RANK"]


@dataclass(frozen=True)
class Sorted:
    """One key of an ORDER BY."""

    value: Node
    descending: bool
    place: int | None = field(default=None, compare=False)  # in the text


@dataclass(frozen=True)
class Over:
    """A ranking: ``ROW_NUMBER() OVER (PARTITION BY … ORDER BY …)``; the window's edges are not among the parts."""

    function: Function
    parts: tuple[Node, ...]
    order: tuple[Sorted, ...]


@dataclass(frozen=True)
class Scan:
    """The stream at the bottom, and the windows over it; without one, all time."""

    table: str
    time: str | None = None
    window: Window | None = None
    columns: tuple[str, ...] | None = None  # all of them, where they are known
    moments: tuple[str, ...] = ()  # those that are known to hold times


@dataclass(frozen=True)
class Relation:
    """What a table or a query yields.

    Parameters
    ----------
    scan
        The stream below.
    columns
        What it yields under which name, besides all columns of the stream where it is `whole`.
    whole
        Whether all columns of the stream are there, too, under their own names.
    where
        What the rows of the stream must fulfil.
    keys
        What the rows are grouped by, besides the window; None where they are the stream's.
    having
        What groups must fulfil.
    overs
        The rankings that columns number, in order.
    top
        The ranking that chooses the rows, and how many of each part; None while all rows are there.
    base
        Of groups of groups, the groups inside.
    unique
        Whether equal rows were made one.
    direct
        Whether it is the table with its windows itself: then a ranking is of each window, whether it says so or not.
    """

    scan: Scan
    columns: Mapping[str, Node] = field(default_factory=dict)
    whole: bool = False
    where: tuple[Node, ...] = ()
    keys: tuple[Node, ...] | None = None
    having: tuple[Node, ...] = ()
    overs: tuple[Over, ...] = ()
    top: tuple[Over, int] | None = None
    base: Relation | None = None
    unique: bool = False
    direct: bool = False

    @property
    def windowed(self) -> bool:
        """Whether rows belong to windows."""
        return self.scan.window is not None

    @property
    def grows(self) -> bool:
        """Whether several windows start together."""
        return self.scan.window is not None and self.scan.window.kind == "cumulative"

    def find(self, name: str) -> Node | None:
        """Return the column of a name: that of the same letters, else the only one that differs in their case."""
        names: list[str] = [*self.columns]
        if self.whole:
            names += [one for one in (self.scan.columns or ()) if one not in self.columns]
            names += [one for one in WINDOW_COLUMNS if self.windowed and one not in names]
        exact = [one for one in names if one == name]
        alike = exact or [one for one in names if one.lower() == name.lower()]
        if len(alike) == 1:
            return self.columns.get(alike[0]) or WINDOW_COLUMNS.get(alike[0]) or Column(alike[0])
        return Column(name) if self.whole and self.scan.columns is None and not alike else None

    def knows(self, name: str) -> bool:
        """Tell whether there is surely a column of a name."""
        sure = {*self.columns, *(self.scan.columns or ())} if self.whole else {*self.columns}
        return name.lower() in {one.lower() for one in sure}

    def number(self, over: Over) -> tuple[Relation, Node]:
        """Return the relation with one more ranking, and the mark of the number that it gives."""
        made = replace(self, overs=(*self.overs, over))
        return made, Call(f"{NUMBER} {len(self.overs)}", ())

    def over_of(self, mark: Node) -> Over:
        """Return the ranking whose number a mark is."""
        assert isinstance(mark, Call)
        return self.overs[int(mark.name.rsplit(" ", 1)[1])]


def is_number(node: Node) -> bool:
    """Tell whether a node is the number that a ranking gives."""
    return isinstance(node, Call) and node.name.startswith(NUMBER)


def is_mark(node: Node) -> bool:
    """Tell whether a node is an edge of the window, or a number of a ranking."""
    return node in MARKS or is_number(node)


def marks(node: Node) -> Iterator[Node]:
    """Yield the marks in an expression."""
    if is_mark(node):
        yield node
    elif isinstance(node, Call):
        for arg in node.args:
            yield from marks(arg)


def conjuncts(node: Node) -> Iterator[Node]:
    """Yield what AND joins."""
    if isinstance(node, Call) and node.name == "and":
        for arg in node.args:
            yield from conjuncts(arg)
    else:
        yield node


def made_of(node: Node, parts: tuple[Node, ...]) -> bool:
    """Tell whether an expression uses nothing of the stream but some parts; constants are free."""
    if node in parts or is_mark(node):
        return True
    if isinstance(node, Call):
        return not holds_aggregates(node) and all(made_of(arg, parts) for arg in node.args)
    return not isinstance(node, Column)


def ungrouped(node: Node, keys: tuple[Node, ...]) -> Node | None:
    """Return a column that stands outside of aggregates and is no key of the groups."""
    if node in keys or is_mark(node):
        return None
    if isinstance(node, Column):
        return node
    if isinstance(node, Call) and node.name not in AGGREGATES:
        return next((found for arg in node.args if (found := ungrouped(arg, keys)) is not None), None)
    return None
