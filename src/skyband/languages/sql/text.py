"""The text of SQL queries: its words, where they stand, and which parts of a parsed query no rule has used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from skyband.errors import LanguageError, QueryError
from skyband.expressions.parse import Reader, position
from skyband.expressions.tree import Literal, Node, Type
from skyband.languages.sql.dialects import Spelling

_BEFORE_TABLE = (TokenType.FROM, TokenType.L_PAREN, TokenType.FARROW, TokenType.COMMA, TokenType.JOIN)
_LEXED = re.compile(r"""--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|.""", re.DOTALL)
_LEXED_BACKSLASH = re.compile(r"""--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`[^`]*`|.""", re.DOTALL)
_Node = TypeVar("_Node", bound=exp.Expression)


class SqlText(Reader):
    """Reads the expressions of a text, and knows where they stand."""

    what = "text"

    def __init__(self, text: str, spelling: Spelling) -> None:
        super().__init__(text, aggregates=False)
        self.spelling = spelling
        self.tokens: list[Token] = []
        self.rule: Callable[[exp.Expression, int], Node | None] = lambda _node, _depth: None

    def convert(self, node: exp.Expression, depth: int = 0) -> Node:
        """Rebuild one sqlglot node as ours, by the rules of SQL, else as in expressions."""
        found = self.rule(node, depth)
        return super().convert(node, depth) if found is None else found

    def words(self) -> list[list[Token]]:
        """Return the words of each statement."""
        backslash = "\\" in self.spelling.grammar.Tokenizer.STRING_ESCAPES
        for part in (_LEXED_BACKSLASH if backslash else _LEXED).finditer(self.text):
            if part[0] in "'\"`":
                self.fail("this quote is never closed", part.start())
            if part[0].startswith("/*+"):
                self.fail("a hint is not supported; leave it out", part.start())
        try:
            self.tokens = _functions(self.spelling.grammar().tokenize(self.text))
        except Exception:  # a TokenError, or a bug of sqlglot
            self.fail("the text cannot be read: is every quote closed?")
        found: list[list[Token]] = [[]]
        for token in self.tokens:
            if token.token_type is TokenType.SEMICOLON:
                found.append([])
            else:
                found[-1].append(token)
        return [statement for statement in found if statement]

    def parsed(self, tokens: Sequence[Token]) -> exp.Expression:
        """Parse the words of one query or expression."""
        kept = without_table(tokens)
        self.check_tokens(kept)
        found = self.read_tokens(self.spelling.grammar(), kept)
        if len(found) != 1 or found[0] is None:
            self.fail("there is no query here", tokens[0].start if tokens else None)
        return found[0]

    def check_tokens(self, tokens: list[Token]) -> None:
        """Refuse what is read wrongly, and what is nested too deeply; VARCHAR alone is a text of any length."""
        lengths = {id(token) for token, after in pairwise(tokens) if after.token_type is TokenType.L_PAREN}
        plain = (TokenType.CHAR, TokenType.VARCHAR)
        super().check_tokens([one for one in tokens if one.token_type not in plain or id(one) in lengths])

    def after(self, place: int | None, *words: str) -> int | None:
        """Return where one of some words stands for the first time behind a place."""
        found = (token.start for token in self.tokens if token.start >= (place or 0) and token.text.upper() in words)
        return next(found, place)

    def before(self, place: int | None, *words: str) -> int | None:
        """Return where one of some words stands for the last time before a place."""
        found = [t.start for t in self.tokens if t.start < (place or 0) and t.text.upper() in words]
        return found[-1] if found else place

    def word(self, word: str, inside: int | None) -> int | None:
        """Return where a word stands in the statement around a place."""
        ends = [token.start for token in self.tokens if token.token_type is TokenType.SEMICOLON]
        begin = max((end for end in ends if end < (inside or 0)), default=-1)
        found = (token.start for token in self.tokens if token.start > begin and token.text.upper().endswith(word))
        return next(found, inside)

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        """Raise the error that points to a place."""
        raise LanguageError(message, self.text, position) from None


def _functions(tokens: list[Token]) -> list[Token]:
    """Make names of functions of words that are keywords to sqlglot: ``window(ts, '1 hour')``, ``SESSION(…)``."""
    for token, after in pairwise(tokens):
        if token.text.upper() in ("WINDOW", "SESSION") and after.token_type is TokenType.L_PAREN:
            token.token_type = TokenType.VAR
    return tokens


def without_table(tokens: Sequence[Token]) -> list[Token]:
    """Take out the word TABLE, and its brackets: ``TABLE(HOP(TABLE trades, …))`` is ``HOP(trades, …)``."""
    dropped: set[int] = set()
    depth, closing = 0, set()
    for at, token in enumerate(tokens):
        depth += token.token_type is TokenType.L_PAREN
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
    return [token for at, token in enumerate(tokens) if at not in dropped]


class Used:
    """The parts of a text that rules have used."""

    def __init__(self, text: SqlText) -> None:
        self.text = text
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

    def name(self, node: exp.Expression, key: str) -> str | None:
        """Take the name of something; quotes around it change nothing."""
        name = self.take(node, key)
        return None if name is None else self._identifier(name)

    def names(self, node: exp.Expression, key: str) -> list[str]:
        """Take a list of names."""
        return [self._identifier(name) for name in self.take(node, key) or []]

    def _identifier(self, name: exp.Expression) -> str:
        if not isinstance(name, exp.Identifier):
            self.fail("here comes a name", name)
        self.only(name, "this", "quoted")
        return str(self.whole(name).this)

    def only(self, node: exp.Expression, *keys: str) -> None:
        """Refuse a node that has more than some parts."""
        more = {key: value for key, value in node.args.items() if value and key not in keys}
        for key, value in more.items():
            name = _NAMES.get(key) or key.strip("_").replace("_", " ").upper()
            place = position(value) if isinstance(value, exp.Expression) else None
            place = self.text.after(position(node), name.split()[-1]) if place is None else place
            self.text.fail(f"{name} is not supported{ADVICE.get(name, '')}", place)

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

    def refuse_unused(self, node: exp.Expression) -> None:
        """Refuse what no rule used."""
        for name, part in self.unused(node):
            place = position(part) if isinstance(part, exp.Expression) else None
            if place is None:
                place = self.text.word(name.split()[-1], position(node))
            self.text.fail(f"{name} is not supported{ADVICE.get(name, '')}", place)

    def fail(self, message: str, *nodes: exp.Expression | None) -> NoReturn:
        """Raise an error that points to the first of some nodes whose place is known."""
        places = (position(node) for node in nodes if node is not None)
        self.text.fail(message, next((place for place in places if place is not None), None))

    def problems(self, error: QueryError, *nodes: exp.Expression | None) -> NoReturn:
        """Raise what a query's checks found, with a place."""
        if isinstance(error, LanguageError):
            raise error
        self.fail("; ".join(problem.split("\n")[0] for problem in error.problems), *nodes)


def words_of(node: exp.Expression) -> str:
    """Return what to call a node in a message."""
    return repr(type(node).__name__.upper() if not isinstance(node, exp.Anonymous) else f"{node.name}()")


def whole_number(node: Node) -> int | None:
    """Return the value of a constant that is a whole number."""
    return int(node.text) if isinstance(node, Literal) and node.type is Type.INTEGER else None


_NAMES = {
    "with_": "WITH", "joins": "JOIN", "group": "GROUP BY", "laterals": "LATERAL VIEW", "windows": "WINDOW",
    "hint": "a hint", "hints": "a hint", "sort": "SORT BY", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY",
    "connect": "CONNECT BY", "locks": "FOR UPDATE", "sample": "TABLESAMPLE", "pivots": "PIVOT", "alias": "an alias",
    "kind": "SELECT AS", "match": "MATCH_RECOGNIZE", "order": "ORDER BY", "version": "a version of the table",
    "when": "a version of the table", "ordinality": "WITH ORDINALITY", "siblings": "ORDER SIBLINGS BY",
    "exists": "IF NOT EXISTS", "operation_modifiers": "a modifier of SELECT", "columns": "a list of new column names",
    "spec": "a frame of rows", "expressions": "a list", "except_": "EXCEPT",
    "db": "a name with a dot", "catalog": "a name with a dot", "recursive": "WITH RECURSIVE",
    "materialized": "MATERIALIZED of a WITH query",
}  # fmt: skip
_NAMES_IN = {(exp.Limit, "expressions"): "LIMIT … BY", (exp.Group, "all"): "GROUP BY ALL"}
ADVICE = {
    "PERCENT": "; say how many rows: LIMIT 10",
    "LIMIT … BY": "; for the best of each group write ROW_NUMBER() OVER (PARTITION BY … ORDER BY …)",
    "OFFSET": "; an answer begins with the best",
    "TABLESAMPLE": "; all rows are ranked",
    "a frame of rows": "; a ranking is of all rows",
    "LIMIT": " here; rank in one place",
    "WITH RECURSIVE": "; write each query out",
}
