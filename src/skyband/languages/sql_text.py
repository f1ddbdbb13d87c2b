"""The text of SQL queries: read by sqlglot, its expressions by ours, its mistakes with their places."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar, NoReturn

from sqlglot.dialects.spark import Spark
from sqlglot.tokens import Token, TokenType

from skyband.errors import LanguageError
from skyband.expressions.parse import Dialect, Reader

WINDOWS = "HOP(trades, ts, INTERVAL 10 MINUTES, INTERVAL 1 HOUR) or TUMBLE(trades, ts, INTERVAL 1 HOUR)"
_BEFORE_TABLE = (TokenType.FROM, TokenType.L_PAREN, TokenType.FARROW)


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
