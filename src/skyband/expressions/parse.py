"""From text to tree: sqlglot reads the grammar, and only what is listed here gets through.

sqlglot's own knowledge of functions is switched off, so that every function arrives under the name that was
written, and a name is either in our table or refused.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, NoReturn

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.tokens import Token, TokenType

from skyband.errors import ExpressionError, LanguageError, QueryError
from skyband.expressions.functions import ALIASES, CASTS, FUNCTIONS, OPERATORS
from skyband.expressions.like import MAX_PATTERN
from skyband.expressions.tree import FALSE, NULL, TRUE, Call, Column, Literal, Node, Type, negated
from skyband.expressions.vectors import int64_or_none

MAX_LENGTH = 10_000
# sqlglot needs about 23 Python frames per bracket, and Python allows 1,000 in all.
MAX_BRACKETS = 30
MAX_DEPTH = 100
PLAIN_AGGREGATES = ("count", "sum", "max", "min", "avg")
AGGREGATES = (*PLAIN_AGGREGATES, "count distinct", "approx_count_distinct")

ALLOWED = (
    "allowed are columns, literals, + - * / % || = <> < <= > >= <=>, AND, OR, NOT, IS [NOT] NULL, BETWEEN, "
    f"IN, LIKE, CASE, IF, CAST and the functions {', '.join(sorted({*FUNCTIONS, *ALIASES}))}"
)


class Dialect(Spark):  # type: ignore[misc]
    """Spark's SQL without its functions and statements."""

    class Tokenizer(Spark.Tokenizer):  # type: ignore[misc]
        """Words."""

        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'"]  # as Spark 4 reads 'it''s'
        COMMANDS: ClassVar[set[TokenType]] = set()

    class Parser(Spark.Parser):  # type: ignore[misc]
        """Grammar."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: Spark.Parser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")
        }
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        # Without -> and its kin, whose JSON paths sqlglot would complain about in the log.
        COLUMN_OPERATORS: ClassVar[dict[Any, Any]] = {
            sign: Spark.Parser.COLUMN_OPERATORS[sign] for sign in (TokenType.DOT, TokenType.DCOLON)
        }
        STATEMENT_PARSERS: ClassVar[dict[Any, Any]] = {}

        def _parse_as_command(self, start: Token) -> NoReturn:
            """Refuse what sqlglot would take as a command, and write into the log."""
            raise ParseError(str(start.text), [{"line": start.line, "col": start.col, "highlight": start.text}])


def parse_tree(text: str, aggregates: bool = False) -> Node:
    """Parse one expression, or raise an ExpressionError that says what and where.

    With `aggregates`, count, sum and the like become calls too; the caller must take them out before binding.

    Examples
    --------
    >>> parse_tree("a + 1")
    Call(name='+', args=(Column(name='a'), Literal(type=<Type.INTEGER: 'integer'>, text='1')))
    """
    check_text(text, "expression", MAX_LENGTH, ExpressionError)
    reader = Reader(text, aggregates)
    try:
        statements = reader.statements(Dialect())
        if len(statements) != 1 or statements[0] is None:
            reader.fail("the expression is empty; comments do not count")
        return reader.convert(statements[0])
    except RecursionError:
        message = f"the expression is nested too deeply; at most {MAX_DEPTH} levels are allowed"
        raise ExpressionError(message, text) from None


def check_text(text: str, what: str, most: int, error: type[ExpressionError | LanguageError]) -> None:
    """Refuse a text that is too long, or that is not Unicode."""
    if len(text) > most:
        message = f"the {what} has {len(text):,} characters; at most {most:,} are allowed"
        raise error(message, text if error is LanguageError else text[:60] + "…")
    try:
        text.encode()
    except UnicodeEncodeError as bad:
        message = f"the {what} holds half a character (a lone surrogate)"
        raise error(message, text.encode(errors="replace").decode(), bad.start) from None


class Reader:
    """Reads one text; knows it for the errors' sake."""

    what = "expression"

    def __init__(self, text: str, aggregates: bool) -> None:
        self.text, self.aggregates = text, aggregates

    def statements(self, dialect: Dialect) -> list[exp.Expression | None]:
        """Parse the text with sqlglot; fail at what it cannot read."""
        try:
            tokens = dialect.tokenize(self.text)
        except Exception:  # a TokenError, or a bug of sqlglot
            self.fail(f"the {self.what} cannot be read: is every quote closed?")
        return self.read_tokens(dialect, self.checked(tokens))

    def read_tokens(self, dialect: Dialect, tokens: list[Token]) -> list[exp.Expression | None]:
        """Parse some words of the text with sqlglot; fail at what it cannot read."""
        try:
            found: list[exp.Expression | None] = dialect.parser().parse(tokens, self.text)
        except (RecursionError, QueryError):
            raise
        except ParseError as error:
            self._unreadable(error, tokens)
        except Exception:  # a bug of sqlglot: on "1{:}" it raises an AttributeError
            self.fail(f"the {self.what} cannot be read: is every quote closed?")
        return found

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        """Raise the error; what would move the caret to another line is shown as a space."""
        raise ExpressionError(message, re.sub(r"\s", " ", self.text), position) from None

    def checked(self, tokens: list[Token]) -> list[Token]:
        """Return the tokens to read; refuse some."""
        for token in tokens:
            if token.comments:
                self.fail("comments are not allowed in an expression; remove -- and /* */", token.start)
            if token.token_type is TokenType.SEMICOLON:
                self.fail("';' is not allowed: an expression is one value, not statements", token.start)
        self.check_tokens(tokens)
        return tokens

    def check_tokens(self, tokens: list[Token]) -> None:
        """Refuse what is read wrongly, and what is nested too deeply."""
        depth = 0
        for token in tokens:
            if token.token_type in (TokenType.CHAR, TokenType.VARCHAR):
                # sqlglot reads VARCHAR(3) as STRING and drops the 3.
                self.fail("CHAR and VARCHAR are not allowed; write STRING (or back-quote a column)", token.start)
            depth += token.token_type in (TokenType.L_PAREN, TokenType.CASE)
            depth -= token.token_type in (TokenType.R_PAREN, TokenType.END)
            if depth > MAX_BRACKETS:
                message = f"brackets and CASE are nested too deeply; at most {MAX_BRACKETS} levels are allowed"
                self.fail(message, token.start)

    def _unreadable(self, error: ParseError, tokens: list[Token]) -> NoReturn:
        """Say in one short sentence what sqlglot found, and where."""
        first = error.errors[0] if error.errors else {}
        place = (first.get("line"), first.get("col"))
        start = next((token.start for token in tokens if (token.line, token.col) == place), None)
        found, problem = repr(first.get("highlight", "")), str(first.get("description", error))
        if problem.startswith("Required keyword"):
            self.fail(f"something is missing at {found}", start)
        if problem.startswith("Expecting"):
            self.fail(f"{problem.lower()} at {found}", start)
        self.fail(f"{found} is not expected here", start)

    # Conversion.

    def convert(self, node: exp.Expression, depth: int = 0) -> Node:
        """Rebuild one sqlglot node as ours."""
        if depth > MAX_DEPTH:
            message = f"the {self.what} is nested too deeply; at most {MAX_DEPTH} levels are allowed"
            self.fail(message, position(node))
        handler = _HANDLERS.get(type(node))
        used = {key for key, value in node.args.items() if value not in (None, False, [])}
        if handler is None or not used <= handler.keys:
            self.refuse(node)
        result = handler.build(self, node, depth + 1)
        return Call("not", (result,)) if node.args.get("negate") else result

    def all(self, nodes: list[exp.Expression], depth: int) -> tuple[Node, ...]:
        """Rebuild several."""
        return tuple(self.convert(node, depth) for node in nodes)

    def refuse(self, node: exp.Expression) -> NoReturn:
        """Refuse a construct by its name."""
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).lower()
        self.fail(f"{_NAMES.get(type(node), repr(words))} is not allowed; {ALLOWED}", position(node))


def position(node: exp.Expression) -> int | None:
    """Return where in the text a node begins, as far as sqlglot kept it."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(starts, default=None)


_NAMES: dict[type, str] = {
    exp.Subquery: "a subquery",
    exp.Select: "a query",
    exp.Window: "a window function (OVER)",
    exp.Alias: "a second value or an alias after a value",
    exp.Aliases: "an alias after a value",
    exp.Star: "'*' as a value",
    exp.Bracket: "an element in [ ]",
    exp.Dot: "a field or function after '.'",
    exp.Lambda: "a function with ->",
    exp.Concat: "a text right after a text",
    exp.Tuple: "a list outside of IN",
    exp.Placeholder: "a placeholder",
    exp.Parameter: "a parameter",
    exp.Command: "a command",
}


class _Handler(NamedTuple):
    """What may stand in a sqlglot node (anything else in it is refused), and what it becomes."""

    build: Callable[[Reader, Any, int], Node]
    keys: frozenset[str]


def _call(name: str, *keys: str) -> _Handler:
    """Make a handler of an operator; `keys` are its operands, of which the last may be a list."""
    keys = keys or ("this", "expression")

    def build(reader: Reader, node: Any, depth: int) -> Node:
        given = [node.args[key] for key in keys if key in node.args]
        operands = [*given[:-1], *given[-1]] if isinstance(given[-1], list) else given
        return Call(name, reader.all(operands, depth))

    return _Handler(build, frozenset((*keys, "negate", "typed", "safe")))


def _chain(name: str, kind: type[exp.Expression]) -> _Handler:
    """Make a handler of AND and OR, whose long chains become one call instead of a deep tree."""

    def build(reader: Reader, node: Any, depth: int) -> Node:
        operands = [node.expression]
        while isinstance(node.this, kind):
            node = node.this
            operands.append(node.expression)
        return Call(name, reader.all([node.this, *reversed(operands)], depth))

    return _Handler(build, frozenset(("this", "expression")))


def _column(reader: Reader, node: Any, _: int) -> Node:
    name = node.this
    # The marks are those of another dialect's temporary tables.
    if not isinstance(name, exp.Identifier) or name.args.get("global_") or name.args.get("temporary"):
        reader.refuse(name)
    if len(node.parts) > 1:
        whole = ".".join(part.name for part in node.parts)
        message = f"fields inside a column are not allowed; if the column is called {whole!r}, write `{whole}`"
        reader.fail(message, position(node))
    return Column(node.name)


def _literal(reader: Reader, node: Any, _: int) -> Node:
    text = node.this
    if node.is_string:
        return Literal(Type.TEXT, text)
    if text.isdecimal() and text.isascii():
        return _integer(reader, node, text)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        shown = text if len(text) <= 30 else f"{text[:10]}… of {len(text):,} characters"
        reader.fail(f"{shown} is not a number that fits 64 bits", position(node))
    return Literal(Type.NUMBER, repr(value))


def _integer(reader: Reader, node: exp.Expression, text: str) -> Literal:
    value = int64_or_none(text)
    if value is None:
        digits = len(text.lstrip("-"))
        if digits > 30:
            reader.fail(f"an integer of {digits:,} digits does not fit 64 bits", position(node))
        reader.fail(f"the integer {text} does not fit 64 bits; write {text}.0 for a number", position(node))
    return Literal(Type.INTEGER, str(value))


def _negative(reader: Reader, node: Any, depth: int) -> Node:
    """Negate; -1 is a literal, so that it stays an integer and so that the smallest one can be written."""
    inner = node.this.unnest()
    if isinstance(inner, exp.Literal) and not inner.is_string and inner.this.isdecimal():
        return _integer(reader, node, f"-{inner.this}")
    value = reader.convert(inner, depth)
    if isinstance(value, Literal) and value.type is Type.INTEGER:
        return _integer(reader, node, str(-int(value.text)))  # which may not fit
    return negated(value)


def _function(reader: Reader, node: Any, depth: int) -> Node:
    written = node.name if isinstance(node.this, exp.Identifier) else str(node.this)
    name = ALIASES.get(written.lower(), written.lower())
    args = node.expressions
    if name in AGGREGATES:
        return _aggregate(reader, node, name, depth)
    name = "ln" if (name, len(args)) == ("log", 1) else name
    function = FUNCTIONS.get(name) or (OPERATORS[name] if name in ALIASES.values() else None)
    if function is None:
        near = difflib.get_close_matches(name, [*FUNCTIONS, *ALIASES], n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        reader.fail(f"the function {written}() is not allowed{hint}; {ALLOWED}", position(node))
    if not function.allows(len(args)):
        reader.fail(f"{written}() takes {function.counts} arguments and got {len(args)}", position(node))
    return Call(name, reader.all(args, depth))


def _aggregate(reader: Reader, node: Any, name: str, depth: int) -> Node:
    """Read ``count(*)``, ``count(x)``, ``count(DISTINCT x)``, ``sum(x)`` and the like."""
    if not reader.aggregates:
        message = (
            f"the function {name}() is not allowed here: aggregates are for the score of a query, for having, and for "
            "select"
        )
        reader.fail(message, position(node))
    args = node.expressions
    if name == "count" and len(args) == 1 and isinstance(args[0], exp.Star):
        return Call(name, ())
    if len(args) == 1 and isinstance(args[0], exp.Distinct):
        if name not in ("count", "max", "min"):
            reader.fail(f"{name}(DISTINCT …) is not allowed; there is count(DISTINCT …)", position(node))
        name, args = "count distinct" if name == "count" else name, args[0].expressions
    if len(args) != 1:
        reader.fail(f"{name}() takes one argument and got {len(args)}", position(node))
    return Call(name, reader.all(args, depth))


def _is(reader: Reader, node: Any, depth: int) -> Node:
    value = reader.convert(node.this, depth)
    if isinstance(node.expression, exp.Null):
        return Call("is null", (value,))
    if isinstance(node.expression, exp.Boolean):
        return Call("<=>", (value, reader.convert(node.expression, depth)))
    reader.fail("IS takes [NOT] NULL, TRUE or FALSE", position(node))


def _differs(reader: Reader, node: Any, depth: int) -> Node:
    return Call("not", (Call("<=>", reader.all([node.this, node.expression], depth)),))


def _like(reader: Reader, node: Any, depth: int) -> Node:
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        reader.fail("the pattern of LIKE must be a text such as 'A%'", position(node))
    if re.sub(r"\\[\\%_]", "", pattern.this).count("\\"):
        reader.fail(r"in a LIKE pattern a backslash stands before %, _ or \ only", position(pattern))
    if len(pattern.this) > MAX_PATTERN:
        message = f"the pattern of LIKE has {len(pattern.this):,} characters; at most {MAX_PATTERN:,} are allowed"
        reader.fail(message, position(pattern))
    return Call("like", (reader.convert(node.this, depth), reader.convert(pattern, depth)))


def _case(reader: Reader, node: Any, depth: int) -> Node:
    """Read ``CASE``; ``IF(a, b, c)`` is one with a single WHEN."""
    subject, whens, default = (node.args.get(key) for key in ("this", "ifs", "default"))
    if isinstance(node, exp.If):
        subject, whens, default = None, [node], node.args.get("false")
    parts = [part for when in whens for part in (when.this, when.args["true"])]
    args = (*reader.all(parts, depth), reader.convert(default, depth) if default else NULL)
    return Call("switch", (reader.convert(subject, depth), *args)) if subject else Call("case", args)


_CAST_NAMES = {
    exp.DataType.Type.DOUBLE: "double",
    exp.DataType.Type.BIGINT: "bigint",
    exp.DataType.Type.INT: "int",
    exp.DataType.Type.TEXT: "string",
}


def _cast(reader: Reader, node: Any, depth: int) -> Node:
    target = _CAST_NAMES.get(node.to.this)
    plain = not any(value for key, value in node.to.args.items() if key != "this")
    if target is None or not plain:
        allowed = ", ".join(name.upper() for name in CASTS)
        shown = getattr(node.to.this, "value", "that type")
        reader.fail(f"CAST to {shown} is not allowed; allowed are {allowed}", position(node))
    return Call(f"cast {target}", (reader.convert(node.this, depth),))


def _handler(build: Callable[[Reader, Any, int], Node], *keys: str) -> _Handler:
    return _Handler(build, frozenset(keys))


_CAST = _handler(_cast, "this", "to", "safe", "_type")
_HANDLERS: dict[type, _Handler] = {
    exp.Add: _call("+"), exp.Sub: _call("-"), exp.Mul: _call("*"), exp.Div: _call("/"), exp.Mod: _call("%"),
    exp.EQ: _call("="), exp.NEQ: _call("<>"), exp.NullSafeEQ: _call("<=>"),
    exp.LT: _call("<"), exp.LTE: _call("<="), exp.GT: _call(">"), exp.GTE: _call(">="),
    exp.DPipe: _call("concat"), exp.Not: _call("not"),
    exp.And: _chain("and", exp.And),
    exp.Or: _chain("or", exp.Or),
    exp.NullSafeNEQ: _handler(_differs, "this", "expression"),
    exp.Paren: _handler(lambda reader, node, depth: reader.convert(node.this, depth), "this"),
    exp.Neg: _handler(_negative, "this"),
    exp.Column: _handler(_column, "this", "table", "db", "catalog"),
    exp.Literal: _handler(_literal, "this", "is_string"),
    exp.Boolean: _handler(lambda _, node, __: TRUE if node.this else FALSE, "this"),
    exp.Null: _handler(lambda *_: NULL),
    exp.Anonymous: _handler(_function, "this", "expressions"),
    exp.Is: _handler(_is, "this", "expression", "negate"),
    exp.Between: _call("between", "this", "low", "high"), exp.In: _call("in", "this", "expressions"),
    exp.Like: _handler(_like, "this", "expression", "negate"),
    exp.Case: _handler(_case, "this", "ifs", "default"),
    exp.If: _handler(_case, "this", "true", "false"),
    exp.Cast: _CAST,
    exp.TryCast: _CAST,
}  # fmt: skip
