"""The text of SQL queries, which sqlglot reads; and which parts of a parsed statement no rule has used."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, ClassVar, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import Token, TokenType

from skyband.errors import LanguageError
from skyband.expressions.parse import Dialect, Reader

WINDOWS = "HOP(trades, ts, INTERVAL 10 MINUTES, INTERVAL 1 HOUR) or TUMBLE(trades, ts, INTERVAL 1 HOUR)"
_BEFORE_TABLE = (TokenType.FROM, TokenType.L_PAREN, TokenType.FARROW)
_Node = TypeVar("_Node", bound=exp.Expression)


class SqlDialect(Dialect):
    """The SQL of expressions, and CREATE VIEW."""

    NULL_ORDERING = "nulls_are_last"  # so that NULLS FIRST is in the tree where it was written, and only there

    class Parser(Dialect.Parser):
        """Grammar."""

        STATEMENT_PARSERS: ClassVar[dict[Any, Any]] = {
            TokenType.CREATE: Spark.Parser.STATEMENT_PARSERS[TokenType.CREATE]
        }


class SqlText(Reader):
    """Reads the expressions of a text, and knows where they stand."""

    what = "text"

    def __init__(self, text: str) -> None:
        super().__init__(text, aggregates=False)
        self.tokens: list[Token] = []

    def after(self, place: int | None, word: str, number: int = 0) -> int | None:
        """Return where a word stands for the first time behind a place, or for a later time."""
        found = [token.start for token in self.tokens if token.start > (place or 0) and token.text.upper() == word]
        return found[number] if number < len(found) else place

    def word(self, word: str, inside: int | None) -> int | None:
        """Return where a word stands in the statement around a place."""
        ends = [token.start for token in self.tokens if token.token_type is TokenType.SEMICOLON]
        begin = max((end for end in ends if end < (inside or 0)), default=-1)
        found = (token.start for token in self.tokens if token.start > begin and token.text.upper().endswith(word))
        return next(found, inside)

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        """Raise the error that points to a place."""
        raise LanguageError(message, self.text, position) from None

    def checked(self, tokens: list[Token]) -> list[Token]:
        """Take out the word TABLE, and its brackets: ``TABLE(HOP(TABLE trades, …))`` is ``HOP(trades, …)``."""
        self.check_tokens(tokens)
        for token, after in pairwise(tokens):  # a keyword to sqlglot, and so no name of a function
            if token.text.upper() == "SESSION" and after.token_type is TokenType.L_PAREN:
                self.fail(f"the window SESSION() is not supported; use {WINDOWS}", token.start)
        dropped: set[int] = set()
        depth, closing = 0, set()
        for at, token in enumerate(tokens):
            opens = token.token_type is TokenType.L_PAREN
            depth += opens
            if token.token_type is TokenType.TABLE and at and tokens[at - 1].token_type in _BEFORE_TABLE:
                dropped.add(at)
                if at + 1 < len(tokens) and tokens[at + 1].token_type is TokenType.L_PAREN:
                    dropped.add(at + 1)
                    closing.add(depth + 1)
            if token.token_type is TokenType.R_PAREN:
                if depth in closing:
                    closing.remove(depth)
                    dropped.add(at)
                depth -= 1
        self.tokens = [token for at, token in enumerate(tokens) if at not in dropped]
        return self.tokens


class Used:
    """The parts of one statement that rules have used."""

    def __init__(self) -> None:
        self._taken: set[tuple[int, str]] = set()
        self._whole: set[int] = set()

    def take(self, node: exp.Expression, key: str) -> Any:
        """Return one argument of a node and mark it as used; the parts inside of it stay unused."""
        self._taken.add((id(node), key))
        return node.args.get(key)

    def whole(self, node: _Node) -> _Node:
        """Return a node and mark all of it as used."""
        self._whole.add(id(node))
        return node

    def unused(self, node: exp.Expression) -> Iterator[tuple[str, Any]]:
        """Yield the unused parts of a node, from the outside: the name in SQL, and (the first of) what it holds."""
        if id(node) in self._whole:
            return
        for key, value in node.args.items():
            if value is None or value is False or value in ([], ""):
                continue
            parts = value if isinstance(value, list) else [value]
            if (id(node), key) not in self._taken:
                other = _NAMES.get(key) or key.strip("_").replace("_", " ").upper()
                yield _NAMES_IN.get((type(node), key), other), parts[0]
                continue
            for part in parts:
                if isinstance(part, exp.Expression):
                    yield from self.unused(part)


_NAMES = {
    "with_": "WITH", "joins": "JOIN", "group": "GROUP BY", "laterals": "LATERAL VIEW", "windows": "WINDOW",
    "hint": "a hint", "hints": "a hint", "sort": "SORT BY", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY",
    "connect": "CONNECT BY", "locks": "FOR UPDATE", "sample": "TABLESAMPLE", "pivots": "PIVOT", "alias": "an alias",
    "kind": "SELECT AS", "match": "MATCH_RECOGNIZE", "order": "ORDER BY", "version": "a version of the table",
    "when": "a version of the table", "ordinality": "WITH ORDINALITY", "siblings": "ORDER SIBLINGS BY",
    "exists": "IF NOT EXISTS", "operation_modifiers": "a modifier of SELECT", "columns": "a list of new column names",
    "spec": "a frame of rows", "expressions": "a list", "except_": "EXCEPT",
    "db": "a name with a dot", "catalog": "a name with a dot",
}  # fmt: skip
_NAMES_IN = {(exp.Limit, "expressions"): "LIMIT … BY", (exp.Window, "alias"): "a named window"}
ADVICE = {
    "WITH TIES": "; equal scores are ranked by time, then by id, and k rows are k rows",
    "PERCENT": "; say how many rows: LIMIT 10",
    "LIMIT … BY": "; for the best of each group write ROW_NUMBER() OVER (PARTITION BY … ORDER BY …)",
    "NULLS FIRST": "; rows without a score are not ranked at all",
    "a list of new column names": "; answers carry columns under their own names",
    "OFFSET": "; an answer begins with the best",
}
