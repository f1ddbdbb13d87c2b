"""Windows in SQL: table functions, functions in GROUP BY, and clauses; and lengths of time."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal as OneOf
from typing import NamedTuple, NoReturn

from sqlglot import exp
from sqlglot.tokens import Token

from skyband.errors import QueryError
from skyband.expressions.parse import position
from skyband.expressions.tree import Column, Node
from skyband.languages.sql.relations import END, START, TIME, WINDOW, Relation, Scan
from skyband.languages.sql.scopes import Expressions, Scope
from skyband.languages.sql.text import SqlText
from skyband.times import parse_duration
from skyband.windows import Window

WINDOWS = "HOP(trades, ts, INTERVAL 10 MINUTES, INTERVAL 1 HOUR) or TUMBLE(trades, ts, INTERVAL 1 HOUR)"
_ARGUMENTS = {
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
}
_LENGTHS = {"HOP": "a slide, a size", "CUMULATE": "a step, a size", "TUMBLE": "a size"}
_EDGES = {"START": START, "END": END, "ROWTIME": TIME}
_UNITS = {"second": "1 second", "minute": "1 minute", "hour": "1 hour", "day": "1 day"}
_CALENDAR = ("week", "month")

Kind = OneOf["TUMBLE", "HOP", "CUMULATE"]


class GroupWindow(NamedTuple):
    """Windows that GROUP BY makes."""

    time: str | None
    window: Window


class Windows(Expressions):
    """Reads windows."""

    def __init__(self, text: SqlText) -> None:
        super().__init__(text)
        self.clauses: dict[int, list[Token]] = {}  # WINDOW TUMBLING (…), by the place of the word before it
        self.grouped: list[GroupWindow | None] = []  # of the SELECTs around, the innermost last

    # Table functions.

    def table_function(self, call: exp.Anonymous, source: Relation, args: list[exp.Expression]) -> Relation:
        """Read ``HOP(trades, ts, slide, size)`` and its kin, over what the first argument stands for."""
        name = str(call.this).upper()
        least = 2 + _LENGTHS[name].count(",") + 1
        if not least <= len(args) <= least + 1:
            wanted = f"a table, its column of time, {_LENGTHS[name]}, and perhaps an offset"
            self.fail(f"{name}() takes {wanted}; it got {len(args)} arguments", *args)
        if not source.whole or source.keys is not None or source.overs or source.top or source.windowed:
            self.fail(f"{name}() takes a table, or a query that only filters one", args[0], call)
        time = self._time(self._descriptor(args[1]), Scope({"": source}))
        window = self.window(name, self._intervals(args[2:], args[1]), call, *args)  # type: ignore[arg-type]
        return replace(source, scan=replace(source.scan, time=time, window=window), direct=True)

    def arguments(self, call: exp.Anonymous) -> list[exp.Expression]:
        """Return the arguments of a table function, those with names in their places."""
        name, args = str(self.take(call, "this")).upper(), self.take(call, "expressions")
        if name not in _ARGUMENTS:
            self.refuse_window(name, call, *args)
        if not any(isinstance(arg, exp.Kwarg) for arg in args):
            return list(args)
        named = [arg for arg in args if isinstance(arg, exp.Kwarg)]
        given = {self.whole(self.take(arg, "this")).name.upper(): self.take(arg, "expression") for arg in named}
        known = _ARGUMENTS[name]
        names = [one for one in known if one in given]
        if len(given) < len(args) or len(names) < len(given) or names != list(known[: len(names)]):
            self.fail(f"{name}() takes the names {', '.join(known)}, of which the last may be left out", *args)
        return [given[one] for one in names]

    def refuse_window(self, name: str, *nodes: exp.Expression) -> NoReturn:
        """Refuse windows of another kind."""
        self.text.fail(f"the window {name}() is not supported; use {WINDOWS}", self.text.word(name, _place(nodes)))

    def window(self, name: Kind, lengths: list[int], *nodes: exp.Expression) -> Window:
        """Make windows of their lengths, in the order of the table functions."""
        slide = lengths.pop(0) if name != "TUMBLE" else lengths[0]
        offset = lengths[1] if len(lengths) > 1 else 0
        try:
            if name == "CUMULATE":
                return Window.cumulative(lengths[0], step=slide, offset=offset)
            return Window(lengths[0], slide=slide, offset=offset)
        except QueryError as error:
            self.problems(error, *nodes)

    def _descriptor(self, node: exp.Expression) -> exp.Expression:
        """Return the column in ``DESCRIPTOR(ts)``."""
        if not isinstance(node, exp.Anonymous) or node.name.upper() != "DESCRIPTOR" or len(node.expressions) != 1:
            return node
        self.take(node, "this")
        inside: exp.Expression = self.take(node, "expressions")[0]
        return inside

    def _time(self, node: exp.Expression, scope: Scope) -> str:
        if not isinstance(node, exp.Column):
            self.fail("here comes the name of a column of time", node)
        found = self.convert(node, scope)
        if not isinstance(found, Column):
            self.fail("the column of time is computed; windows take a column of the stream", node)
        return found.name

    # Lengths of time.

    def _intervals(self, nodes: list[exp.Expression], behind: exp.Expression) -> list[int]:
        """Read several, which stand behind some node."""
        place, found = position(behind), []
        for node in nodes:
            place = self.text.after(place, "INTERVAL")
            found.append(self.interval(node, place))
            place = None if place is None else place + 1
        return found

    def interval(self, node: exp.Expression, place: int | None) -> int:
        """Read ``INTERVAL '10' MINUTES``; a text such as '10 minutes' is Spark's."""
        if isinstance(node, exp.Literal) and node.is_string:
            return self._duration(self.whole(node).this, place)
        number, unit = (self.take(node, key) for key in ("this", "unit"))
        if not (
            isinstance(node, exp.Interval) and isinstance(number, exp.Literal) and isinstance(unit, exp.Var | None)
        ):
            message = "a length of time is written as INTERVAL 10 MINUTES or INTERVAL '1' HOUR"
            self.text.fail(message, position(node) or place)
        self.only(node, "this", "unit")
        self.whole(number)
        return self._duration(f"{number.this} {self.whole(unit).name if unit else ''}", place)

    def _duration(self, text: str, place: int | None) -> int:
        try:
            return parse_duration(text, "this interval")
        except QueryError as error:
            self.text.fail("; ".join(error.problems), place)

    # GROUP BY TUMBLE(…), and the edges of such windows.

    def special(self, node: exp.Expression, depth: int) -> Node | None:
        """Read functions of windows."""
        if not isinstance(node, exp.Anonymous):
            return super().special(node, depth)
        name, _, edge = str(node.this).upper().partition("_")
        if name in ("TUMBLE", "HOP") and edge in ("", *_EDGES):
            return self._group_window(node, name, _EDGES.get(edge, WINDOW))  # type: ignore[arg-type]
        if name == "SESSION" and edge in ("", *_EDGES):
            self.refuse_window("SESSION", node)
        whole = str(node.this).upper()
        if whole == "WINDOW" and self._may_group():
            return self._spark_window(node)
        if whole == "WINDOW_TIME" and len(node.expressions) == 1:
            if self.text.convert(node.expressions[0], depth + 1) != WINDOW:
                self.fail("WINDOW_TIME() takes the column of windows", node)
            return TIME
        if whole == "DATE_TRUNC" and len(node.expressions) == 2:
            return self._truncated(node)
        return super().special(node, depth)

    def _may_group(self) -> bool:
        """Tell whether rows can be grouped by a window here: they have none yet, or it is the one of this GROUP BY."""
        named = bool(self.grouped) and self.grouped[-1] is not None
        return named or all(not one.windowed for one in self.scope.sources.values())

    def _group_window(self, node: exp.Anonymous, name: Kind, mark: Node) -> Node:
        args = list(node.expressions)
        time = None
        if args and isinstance(args[0], exp.Column):
            time = self._time(args.pop(0), self.scope)
        wanted = 2 if name == "HOP" else 1
        if not wanted <= len(args) <= wanted + 1:
            form = f"{name}(time, {'INTERVAL 10 MINUTES, ' * (wanted - 1)}INTERVAL 1 HOUR)"
            self.fail(f"{name}() in GROUP BY is written as {form}", node)
        window = self.window(name, self._intervals(args, node), node)
        return self._noted(GroupWindow(time, window), mark, node)

    def _spark_window(self, node: exp.Anonymous) -> Node:
        """Read Spark's ``window(ts, '1 hour', '10 minutes', '5 minutes')``."""
        column, *rest = node.expressions or [None]
        if column is None or not 1 <= len(rest) <= 3:
            self.fail("window() is written as window(ts, '1 hour') or window(ts, '1 hour', '10 minutes')", node)
        lengths = self._intervals(rest, node)
        ordered = [lengths[1], lengths[0], *lengths[2:]] if len(lengths) > 1 else [lengths[0], lengths[0]]
        found = GroupWindow(self._time(column, self.scope), self.window("HOP", ordered, node))
        return self._noted(found, WINDOW, node)

    def _truncated(self, node: exp.Anonymous) -> Node | None:
        """Read ``DATE_TRUNC('hour', ts)`` as the start of a window, where ts is a time that no window has yet."""
        unit, column = node.expressions
        word = unit.this.lower() if isinstance(unit, exp.Literal) and unit.is_string else ""
        if word not in (*_UNITS, *_CALENDAR) or not isinstance(column, exp.Column) or not self._may_group():
            return None
        window = Window(_UNITS[word]) if word in _UNITS else Window.calendar(word, zone="UTC")  # type: ignore[arg-type]
        return self._noted(GroupWindow(self._time(column, self.scope), window), START, node)

    def _noted(self, found: GroupWindow, mark: Node, node: exp.Expression) -> Node:
        known = self.grouped[-1] if self.grouped else None
        if known is not None and known != found:
            self.fail(f"there are two different windows, {known.window} and this one; use one", node)
        if self.grouped:
            self.grouped[-1] = found
        return mark

    # WINDOW TUMBLING (SIZE 10 MINUTES).

    def clause(self, table: exp.Expression, scan: Scan) -> Scan:
        """Return a scan with the windows of the clause behind its table, if there is one."""
        starts = [one.meta.get("start") for one in table.find_all(exp.Identifier)]
        tokens = next((self.clauses.pop(start) for start in starts if start in self.clauses), None)
        if tokens is None:
            return scan
        kind, given = tokens[0].text.upper(), _listed(tokens[2:-1])
        if kind == "SESSION":
            self.text.fail("SESSION windows are not supported; use TUMBLING or HOPPING", tokens[0].start)
        wanted = ["SIZE"] if kind == "TUMBLING" else ["SIZE", "ADVANCE BY"]
        lengths: dict[str, int] = {}
        for part in given:
            words = [token.text for token in part]
            head = "ADVANCE BY" if [w.upper() for w in words[:2]] == ["ADVANCE", "BY"] else words[0].upper()
            if head not in wanted or head in lengths:
                form = "SIZE 1 HOUR" + (", ADVANCE BY 10 MINUTES" if kind == "HOPPING" else "")
                self.text.fail(f"{head} of a window is not supported; write WINDOW {kind} ({form})", part[0].start)
            rest = words[len(head.split()) :]
            lengths[head] = self._duration(" ".join(rest), part[0].start)
        if len(lengths) < len(wanted):
            self.text.fail(f"WINDOW {kind} wants {' and '.join(wanted)}", tokens[0].start)
        size = lengths["SIZE"]
        return replace(scan, window=self.window("HOP", [lengths.get("ADVANCE BY", size), size], table))


def _listed(tokens: list[Token]) -> list[list[Token]]:
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.text == ",":
            found.append([])
        else:
            found[-1].append(token)
    return [part for part in found if part]


def _place(nodes: tuple[exp.Expression, ...]) -> int | None:
    return next((place for node in nodes if (place := position(node)) is not None), None)
