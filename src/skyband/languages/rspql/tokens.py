"""Tokens of SPARQL and of what RSP-QL adds to it, with their places; just enough to find the clauses of RSP-QL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from skyband.errors import LanguageError
from skyband.expressions.parse import check_text

MAX_LENGTH, MAX_TOKENS, MAX_NESTING = 20_000, 1_500, 15  # what rdflib's parser can take in a second
MAX_DIGITS = 400
_TOKEN = re.compile(
    r"""
    (?P<space>\s+|\#[^\n\r]*)
  | (?P<iri><[^<>"{}|^`\\\x00-\x20]*>)
  | (?P<string>\"{3}(?:[^"\\]|\\.|"(?!""))*\"{3}|'{3}(?:[^'\\]|\\.|'(?!''))*'{3}
              |"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*')
  | (?P<variable>[?$]\w+)
  | (?P<prefixed>(?:[^\W\d](?:[\w.-]*[\w-])?)?:(?:[\w:%\\](?:[\w.:%\\-]*[\w:%\\-])?)?)
  | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
  | (?P<word>[^\W\d]\w*)
  | (?P<sign>&&|\|\||!=|<=|>=|\^\^|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_PAIRS = {"(": ")", "[": "]", "{": "}"}


class Token(NamedTuple):
    """One token: what kind it is, its text, where it begins, and how many brackets are open there."""

    kind: str
    text: str
    start: int
    depth: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)

    def says(self, *words: str) -> bool:
        """Return whether it is one of some keywords, in any case of letters, or signs."""
        return self.kind in ("word", "sign") and self.text.upper() in words


class Text:
    """A text in RSP-QL, and its tokens.

    Examples
    --------
    >>> [token.text for token in Text("WINDOW :W {?a :b 'x y'} # why").tokens]
    ['WINDOW', ':W', '{', '?a', ':b', "'x y'", '}']
    """

    def __init__(self, text: str) -> None:
        check_text(text, "text", MAX_LENGTH, LanguageError)
        self.text = text
        self.tokens = tuple(self._tokens())
        if len(self.tokens) > MAX_TOKENS:
            message = f"the text has more than {MAX_TOKENS:,} words and signs; put queries into texts of their own"
            self.fail(message, self.tokens[MAX_TOKENS].start)

    def fail(self, message: str, where: int | Token | None = None) -> NoReturn:
        """Raise the error that points to a place, or to a token."""
        position = where.start if isinstance(where, Token) else where
        raise LanguageError(message, self.text, position) from None

    def _tokens(self) -> Iterator[Token]:
        open_: list[Token] = []
        for match in _TOKEN.finditer(self.text):
            kind = str(match.lastgroup)
            if kind == "space":
                continue
            token = Token(kind, match[0], match.start(), len(open_))
            if kind == "number" and len(token.text) > MAX_DIGITS:
                self.fail(f"a number has {len(token.text):,} digits; at most {MAX_DIGITS} are allowed", token)
            if kind == "sign":
                self._check_sign(token, open_)
                if token.text in _PAIRS:
                    open_.append(token)
                elif token.text in _PAIRS.values():
                    open_.pop()
                    token = token._replace(depth=len(open_))
            yield token
        if open_:
            self.fail(f"{open_[-1].text!r} is never closed", open_[-1])

    def _check_sign(self, token: Token, open_: list[Token]) -> None:
        if token.text in "\"'":
            self.fail("this quote is never closed", token)
        if token.text in _PAIRS and len(open_) >= MAX_NESTING:
            self.fail(f"brackets are nested too deeply; at most {MAX_NESTING} levels are allowed", token)
        if token.text in _PAIRS.values() and (not open_ or _PAIRS[open_[-1].text] != token.text):
            expected = f"; {_PAIRS[open_[-1].text]!r} is missing before it" if open_ else ""
            self.fail(f"{token.text!r} closes nothing{expected}", token)
