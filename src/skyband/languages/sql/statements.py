"""What stands around queries: CREATE, INSERT INTO, EMIT, and tables that say what the stream is like.

These heads differ from engine to engine, and sqlglot knows few of them, so they are read word by word. What is left is
a query, which sqlglot reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal as OneOf

from sqlglot.tokens import Token, TokenType

from skyband.languages.sql.text import SqlText

Emission = OneOf["changes", "final"]
_OBJECTS = ("VIEW", "TABLE", "STREAM", "SOURCE", "SINK")
_QUERY = ("SELECT", "WITH", "(")
_EMITS: dict[tuple[str, ...], Emission] = {
    ("CHANGES",): "changes", ("FINAL",): "final", ("ON", "WINDOW", "CLOSE"): "final",
}  # fmt: skip
_CONSTRAINTS = ("PRIMARY", "CONSTRAINT", "UNIQUE", "FOREIGN", "CHECK", "PERIOD")


@dataclass
class Item:
    """One item of the list of a CREATE TABLE."""

    kind: OneOf["column", "computed", "watermark", "key"]
    names: list[str]
    expression: list[Token] = field(default_factory=list)
    is_moment: bool = False  # whether the type of a column is one of times


@dataclass
class Statement:
    """One statement: what it makes, and the words of its query."""

    kind: OneOf["table", "view", "query"]
    name: str | None
    place: int
    query: list[Token] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    items: list[Item] | None = None
    options: dict[str, str] = field(default_factory=dict)
    noted: str = ""
    emit: Emission | None = None
    of: str | None = None  # CREATE SINK … FROM this view


class Head:
    """Reads the words of one statement, one after the other."""

    def __init__(self, text: SqlText, tokens: Sequence[Token]) -> None:
        self.text, self.tokens, self.at = text, list(tokens), 0

    def upper(self, ahead: int = 0) -> str:
        """Return the next word, or one behind it, in capitals; of a quoted one, nothing."""
        at = self.at + ahead
        if at >= len(self.tokens) or self.tokens[at].token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return ""
        return str(self.tokens[at].text).upper()

    def accept(self, *words: str) -> bool:
        """Step over some words, if they come next."""
        flat = [part for number in range(len(words)) for part in self.upper(number).split()]
        if flat[: len(words)] != list(words):
            return False
        taken = 0
        while taken < len(words):
            taken += len(self.upper().split())
            self.at += 1
        return True

    def place(self) -> int:
        """Return where the next word stands."""
        return int(self.tokens[min(self.at, len(self.tokens) - 1)].start)

    def name(self, what: str) -> str:
        """Read a name, perhaps with dots; return it."""
        parts: list[str] = []
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token.token_type is TokenType.STRING or not (token.text[:1].isalnum() or token.text[:1] == "_"
                                                            or token.token_type is TokenType.IDENTIFIER):  # fmt: skip
                break
            parts.append(token.text)
            self.at += 1
            if self.upper() != ".":
                return ".".join(parts)
            self.at += 1
        self.text.fail(f"here comes the name of {what}", self.place())

    def brackets(self) -> list[Token]:
        """Step over brackets; return what is in them."""
        start, depth = self.at, 0
        while self.at < len(self.tokens):
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(self.tokens[self.at].token_type, 0)
            self.at += 1
            if depth == 0:
                return self.tokens[start + 1 : self.at - 1]
        self.text.fail("'(' is never closed", self.tokens[start].start)


def read_statement(text: SqlText, tokens: list[Token], windows: dict[int, list[Token]]) -> Statement:
    """Read one statement; clauses such as WINDOW TUMBLING (…) go into `windows`."""
    head = Head(text, tokens)
    place = head.place()
    if head.accept("CREATE"):
        found = _create(head, place)
    elif head.accept("INSERT"):
        if not (head.accept("INTO") or head.accept("OVERWRITE")):
            text.fail("INSERT INTO name SELECT … is supported", head.place())
        head.accept("TABLE")
        found = Statement("query", head.name("what is written to").split(".")[-1], place)
        if head.upper() == "(" and head.upper(1) not in ("SELECT", "WITH", "("):
            found.columns = _names(head.brackets())
    elif head.upper() in _QUERY:
        found = Statement("query", None, place)
    else:
        text.fail(f"{head.tokens[0].text!r} is not expected here; write SELECT … FROM HOP(…) … ORDER BY … LIMIT 10",
                  place)  # fmt: skip
    if found.of is None and (found.kind != "table" or head.at < len(tokens)):
        if head.upper() not in _QUERY:
            shown = repr(tokens[head.at].text) if head.at < len(tokens) else "the end"
            text.fail(f"here comes a query, SELECT …, and not {shown}", head.place())
        found.query = _body(text, tokens[head.at :], found, windows)
    return found


def _create(head: Head, place: int) -> Statement:
    if head.accept("OR") and not head.accept("REPLACE"):
        head.text.fail("CREATE OR REPLACE is what may stand here", head.place())
    while any(head.accept(word) for word in ("TEMPORARY", "TEMP", "MATERIALIZED")):
        pass
    what = head.upper()
    if what not in _OBJECTS:
        head.text.fail(
            f"CREATE {what} is not supported; CREATE makes a {', '.join(_OBJECTS[:-1])} or SINK", head.place()
        )
    head.at += 1
    if head.accept("IF") and not head.accept("NOT", "EXISTS"):
        head.text.fail("IF NOT EXISTS is what may stand here", head.place())
    name = head.name(f"the {what.lower()}").split(".")[-1]
    found = Statement("view" if what == "VIEW" else "query" if what == "SINK" else "table", name, place)
    if head.upper() == "(":
        listed = head.brackets()
        if what in ("VIEW", "SINK"):
            found.columns = _names(listed)
        else:
            found.items = _items(head.text, listed)
    start = head.at
    while head.at < len(head.tokens) and not (head.upper() == "AS" and head.upper(1) in _QUERY):
        if what == "SINK" and head.accept("FROM"):
            found.of = head.name("the view that the sink takes")
            continue
        if head.accept("WITH") and head.upper() == "(":
            found.options = _options(head.brackets())
        elif head.upper() == "(":
            head.brackets()
        else:
            word = head.tokens[head.at]
            if what == "VIEW" and head.upper() != "COMMENT" and word.token_type is not TokenType.STRING:
                message = f"{word.text!r} is not expected here; write CREATE VIEW name AS SELECT …"
                head.text.fail(message, head.place())
            head.at += 1
    if head.at > start and found.of is None:
        found.noted = head.text.text[head.tokens[start].start : head.tokens[head.at - 1].end + 1]
    if head.accept("AS"):
        found.kind = "view" if what == "VIEW" else "query"
    elif what in ("VIEW", "SINK") and found.of is None:
        head.text.fail(f"CREATE {what} name wants a query: AS SELECT …", place)
    return found


def _body(text: SqlText, tokens: list[Token], found: Statement, windows: dict[int, list[Token]]) -> list[Token]:
    """Return the words of the query: without EMIT, the options of a sink, and windows that are clauses."""
    kept: list[Token] = []
    depth, at = 0, 0
    while at < len(tokens):
        token, word = tokens[at], tokens[at].text.upper()
        ahead = [one.text.upper() for one in tokens[at + 1 : at + 5]]
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            kept.append(token)
        elif word == "EMIT" and ahead and ahead[0] in ("CHANGES", "FINAL", "ON", "AFTER", "STREAM", "WITH"):
            taken = next((n for n in range(1, 4) if tuple(ahead[:n]) in _EMITS), None)
            if taken is None or depth:
                where = "; it stands at the end of the whole query" if depth else ""
                text.fail(f"EMIT {ahead[0]} is not supported; EMIT CHANGES, EMIT FINAL and EMIT ON WINDOW CLOSE are"
                          f"{where}", token.start)  # fmt: skip
            found.emit = _EMITS[tuple(ahead[:taken])]
            at += taken
        elif word == "WITH" and ahead[:1] == ["("] and depth == 0 and kept:
            head = Head(text, tokens[at + 1 :])
            found.options |= _options(head.brackets())
            found.noted = (found.noted + " " + text.text[token.start : tokens[at + head.at].end + 1]).strip()
            at += head.at
        elif word == "WINDOW" and ahead and ahead[0] in ("TUMBLING", "HOPPING", "SESSION") and kept:
            head = Head(text, tokens[at + 2 :])
            if head.upper() != "(":
                text.fail("WINDOW TUMBLING (SIZE 10 MINUTES) is written with brackets", token.start)
            head.brackets()
            windows[kept[-1].start] = tokens[at + 1 : at + 2 + head.at]
            at += 1 + head.at
        else:
            kept.append(token)
        at += 1
    return kept


def _items(text: SqlText, tokens: list[Token]) -> list[Item]:
    found: list[Item] = []
    for part in _split(tokens):
        head = Head(text, part)
        if head.accept("WATERMARK"):
            if not head.accept("FOR"):
                text.fail(
                    "WATERMARK FOR time AS time - INTERVAL '5' SECOND is how a watermark is written", head.place()
                )
            name = head.name("the column of time")
            if not head.accept("AS"):
                text.fail(
                    "WATERMARK FOR time AS time - INTERVAL '5' SECOND is how a watermark is written", head.place()
                )
            found.append(Item("watermark", [name], part[head.at :]))
        elif head.upper().split()[:1] and head.upper().split()[0] in _CONSTRAINTS and _is_constraint(head):
            while head.at < len(part) and head.upper() != "(":
                head.at += 1
            if head.upper() == "(" and any(one.text.upper().startswith("PRIMARY") for one in part):
                found.append(Item("key", _names(head.brackets())))
        else:
            name = head.name("a column")
            if head.accept("AS"):
                found.append(Item("computed", [name], part[head.at :]))
                continue
            words = [token.text.upper() for token in part]
            found.append(
                Item("column", [name], is_moment=words[1:2] != [] and words[1].startswith(("TIMESTAMP", "DATE")))
            )
            if any(word.startswith("PRIMARY") for word in words[1:]):
                found.append(Item("key", [name]))
    return found


def _is_constraint(head: Head) -> bool:
    """Tell PRIMARY KEY (a), and CONSTRAINT name PRIMARY KEY (a), from a column that is called so."""
    return head.upper() == "CONSTRAINT" or " " in head.upper() or head.upper(1) in ("KEY", "(")


def _split(tokens: list[Token]) -> list[list[Token]]:
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1, TokenType.LT: 1, TokenType.GT: -1}.get(
            token.token_type, 0
        )
        if token.token_type is TokenType.COMMA and depth == 0:
            found.append([])
        else:
            found[-1].append(token)
    return [part for part in found if part]


def _names(tokens: list[Token]) -> list[str]:
    return [part[0].text for part in _split(tokens)]


def _options(tokens: list[Token]) -> dict[str, str]:
    """Return the options of ``WITH ('connector' = 'kafka', …)``."""
    found = {}
    for part in _split(tokens):
        words = [token.text for token in part]
        key, _, value = "".join(words).partition("=")
        found[key.lower()] = value
    return found
