"""The clauses that RSP-QL adds to SPARQL: found, understood and taken out, so that what is left is SPARQL.

``WINDOW :W {…}`` and ``SERVICE :BKG {…}`` become ``GRAPH`` with an IRI that says which one it was; everything else
stays where it was. `Statement.origin` leads from a place in the SPARQL back to the token it comes from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, cast

from skyband.languages.mapping import DEFAULT_NAMESPACE, last_name
from skyband.languages.rspql.extents import read_window
from skyband.languages.rspql.tokens import Text, Token
from skyband.queries.query import Distinct, Emit
from skyband.windows import Window

FUNCTION_NAMESPACE = "urn:skyband-function:"
PART_NAMESPACE = "urn:skyband-part:"
_EMITS: dict[str, Emit] = {
    "STREAM": "final", "RSTREAM": "final", "ISTREAM": "entered", "DSTREAM": "left", "IDSTREAM": "changes",
}  # fmt: skip
_REFUSED = {
    **dict.fromkeys(("MINUS", "EXISTS", "HAVING", "REDUCED"), ""),
    **dict.fromkeys(("ASK", "DESCRIBE"), "; write SELECT"),
    "GRAPH": "; patterns stand in a WINDOW or in a SERVICE",
    "VALUES": "; write FILTER (?x IN (…))",
    "SILENT": "; a service that fails never stops an answer",
    "OFFSET": "; an answer begins with the best",
}
KEYWORDS = frozenset((
    "SELECT", "DISTINCT", "CONSTRUCT", "WHERE", "FILTER", "BIND", "OPTIONAL", "UNION", "SERVICE", "WINDOW", "GROUP",
    "ORDER", "BY", "ASC", "DESC", "LIMIT", "AS", "IN", "NOT", "FROM", "NAMED", "PREFIX", "BASE", "A", "TRUE", "FALSE",
    "ON", "PARTITION", *_REFUSED,
    # SPARQL's own functions: those that are not supported are refused by name later.
    "ABS", "AVG", "BNODE", "BOUND", "CEIL", "COALESCE", "CONCAT", "CONTAINS", "COUNT", "DATATYPE", "DAY",
    "ENCODE_FOR_URI", "FLOOR", "GROUP_CONCAT", "HOURS", "IF", "IRI", "ISBLANK", "ISIRI", "ISLITERAL", "ISNUMERIC",
    "ISURI", "LANG", "LANGMATCHES", "LCASE", "MAX", "MD5", "MIN", "MINUTES", "MONTH", "NOW", "RAND", "REGEX", "REPLACE",
    "ROUND", "SAMETERM", "SAMPLE", "SECONDS", "SHA1", "SHA256", "SHA384", "SHA512", "STR", "STRAFTER", "STRBEFORE",
    "STRDT", "STRENDS", "STRLANG", "STRLEN", "STRSTARTS", "STRUUID", "SUBSTR", "SUM", "TIMEZONE", "TZ", "UCASE", "URI",
    "UUID", "YEAR",
))  # fmt: skip


@dataclass
class Part:
    """A ``WINDOW`` or ``SERVICE`` clause: its name as an IRI, and its first token."""

    kind: Literal["window", "service"]
    iri: str
    token: Token
    window: Window | None = None
    stream: str | None = None


@dataclass
class Statement:
    """One registered query: what its own clauses say, and the SPARQL that is left.

    `declared` are the windows of ``FROM NAMED WINDOW``. `parts` are the clauses of the pattern, by the number in the
    IRI that stands for each. `copied` are the tokens that the SPARQL holds, each with its place there.
    """

    text: Text
    name: str
    emit: Emit
    head: Token
    tokens: list[Token]
    prefixes: dict[str, str]
    distinct: Distinct | None = None
    partition: Token | None = None
    declared: dict[str, Part] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    sparql: str = ""
    copied: list[tuple[int, Token]] = field(default_factory=list)

    def origin(self, place: int) -> int:
        """Return the index of the token that a place in the SPARQL comes from."""
        index = bisect_right(self.copied, place, key=lambda copied: copied[0]) - 1
        return self.tokens.index(self.copied[max(index, 0)][1])

    def find(self, *words: str) -> Token | None:
        """Return the first token of the first of these words that the query holds, in any case of letters."""
        found = (token for word in words for token in self.tokens if token.text.upper() == word.upper())
        return next(found, None)

    def find_iri(self, iri: str) -> Token | None:
        """Return the first token of this query that is an IRI."""
        named = (token for token in self.tokens if token.kind in ("iri", "prefixed") and token.text[:2] != "_:")
        return next((token for token in named if self.iri(token) == iri), None)

    def iri(self, token: Token) -> str:
        """Return the IRI of a name: ``<…>``, prefixed, or a bare word, as some papers write it."""
        if token.kind == "iri":
            return token.text[1:-1]
        if token.kind == "word":
            return DEFAULT_NAMESPACE + token.text
        prefix, _, local = token.text.partition(":")
        if prefix not in self.prefixes:
            self.text.fail(f"the prefix {prefix + ':'!r} is not declared; write PREFIX {prefix}: <…> above", token)
        return self.prefixes[prefix] + local


def statements(source: str, prefixes: dict[str, str]) -> Iterator[Statement]:
    r"""Cut a text into its queries.

    Examples
    --------
    >>> window = "FROM NAMED WINDOW :W ON :S [RANGE 9m STEP 3m]"
    >>> (one,) = statements(f"REGISTER ISTREAM :top AS SELECT ?a {window} WHERE {{WINDOW :W {{?a :b ?c}}}}", {})
    >>> one.name, one.emit, one.declared["urn:skyband:W"].window
    ('top', 'entered', Window('9 minutes', slide='3 minutes', closed='right'))
    >>> one.sparql
    'PREFIX : <urn:skyband:>\nSELECT ?a WHERE {GRAPH <urn:skyband-part:0> {?a :b ?c}}'
    """
    text = Text(source)
    if not text.tokens:
        text.fail("there is no query; write REGISTER STREAM :name AS SELECT …")
    known = {"": DEFAULT_NAMESPACE, **prefixes}
    at = 0
    while at < len(text.tokens):
        at = _prologue(text, at, known)
        statement, at = _registered(text, at, known)
        _Clauses(statement).take()
        yield statement


def _prologue(text: Text, at: int, known: dict[str, str]) -> int:
    """Read PREFIX and BASE."""
    tokens = text.tokens
    while at < len(tokens) and tokens[at].says("PREFIX", "BASE"):
        if tokens[at].says("BASE"):
            text.fail("BASE is not supported; write IRIs in full, or with PREFIX", tokens[at])
        given = tokens[at + 1 : at + 3]
        if [token.kind for token in given] != ["prefixed", "iri"] or not given[0].text.endswith(":"):
            text.fail("PREFIX wants a name and an IRI: PREFIX ex: <http://example.org/>", tokens[at])
        known[given[0].text[:-1]] = given[1].text[1:-1]
        at += 3
    return at


def _registered(text: Text, at: int, known: dict[str, str]) -> tuple[Statement, int]:
    """Read ``REGISTER STREAM :name AS`` and find where the query ends."""
    tokens = text.tokens
    if at >= len(tokens) or not tokens[at].says("REGISTER"):
        text.fail("a query begins with REGISTER STREAM :name AS", tokens[min(at, len(tokens) - 1)])
    head = tokens[at : at + 4]
    if len(head) < 4 or head[1].text.upper() not in _EMITS:
        kinds = ", ".join(_EMITS)
        text.fail(f"REGISTER wants one of {kinds}, a name and AS: REGISTER STREAM :name AS SELECT …", head[-1])
    if head[2].kind not in ("iri", "prefixed", "word") or not head[3].says("AS"):
        text.fail("after the kind of stream come a name and AS: REGISTER STREAM :name AS SELECT …", head[2])
    at = _prologue(text, at + 4, known)
    end = next(
        (i for i in range(at, len(tokens)) if tokens[i].depth == 0 and tokens[i].says("PREFIX", "BASE", "REGISTER")),
        len(tokens),
    )
    statement = Statement(text, "", _EMITS[head[1].text.upper()], head[0], list(tokens[at:end]), dict(known))
    statement.name = last_name(statement.iri(head[2]))
    if not statement.name:
        text.fail("the query has no name; write REGISTER STREAM :name AS", head[2])
    return statement, end


class _Clauses:
    """Takes the clauses of one statement out, token by token."""

    def __init__(self, statement: Statement) -> None:
        self.statement, self.text, self.tokens = statement, statement.text, statement.tokens

    def take(self) -> None:
        """Fill in what the clauses say, and the SPARQL."""
        statement = self.statement
        if not self.tokens or not self.tokens[0].says("SELECT", "CONSTRUCT"):
            found = self.tokens[0] if self.tokens else statement.head
            if found.says("ASK", "DESCRIBE"):
                self.text.fail(f"{found.text.upper()} is not supported; write SELECT or CONSTRUCT", found)
            self.text.fail("after AS comes SELECT or CONSTRUCT", found)
        for prefix, iri in statement.prefixes.items():
            statement.sparql += f"PREFIX {prefix}: <{iri}>\n"
        at = 0
        while at < len(self.tokens):
            at = self._step(at)

    def _step(self, at: int) -> int:
        """Handle what begins at a token; return where to go on."""
        token = self.tokens[at]
        if token.says("FROM"):
            return self._from(at)
        if token.says("WINDOW", "SERVICE"):
            return self._part(at)
        if token.says("PARTITION"):
            return self._partition(at)
        if token.says("DISTINCT") and at and self.tokens[at - 1].says("SELECT"):
            return self._distinct(at)
        if token.says("SELECT", "CONSTRUCT") and at:
            self.text.fail("a query within a query is not supported", token)
        self._refuse(at)
        if token.says("FILTER") and self._next(at + 1).text == "(":
            self._check_filter(at + 1)
        if token.kind in ("word", "prefixed", "iri") and self._next(at + 1).text == "(":
            return self._call(at)
        self._copy(token)
        return at + 1

    def _refuse(self, at: int) -> None:
        token = self.tokens[at]
        if token.kind == "word" and token.text.upper() in _REFUSED:
            self.text.fail(f"{token.text.upper()} is not supported{_REFUSED[token.text.upper()]}", token)
        if token.kind == "prefixed" and not token.text.startswith("_:"):
            self.statement.iri(token)  # its prefix is known
            if "\\" in token.text:
                self.text.fail("escapes in names are not supported; write the IRI in full, in < >", token)
        if token.text == "@":
            self.text.fail("the language of a text is not supported; write the text alone", token)
        if token.kind == "string" and ("\\u" in token.text or "\\U" in token.text):
            self.text.fail(r"escapes such as \u00e9 are not supported; write the character itself", token)

    def _check_filter(self, at: int) -> None:
        """Refuse a constant, which rdflib would drop in silence if it is false."""
        inner = [token for token in self.tokens[at + 1 : self._closing(at, "(", "FILTER")] if token.text not in "()+-"]
        constant = all(token.kind in ("number", "string") or token.says("TRUE", "FALSE") for token in inner)
        if constant and len(inner) < 2:
            self.text.fail("a constant as a FILTER is not supported; leave it out", self.tokens[at])

    def _copy(self, token: Token, instead: str | None = None) -> None:
        """Add a token to the SPARQL, or what stands there instead of it."""
        statement = self.statement
        touches = statement.copied and statement.copied[-1][1].end == token.start  # and does so in the SPARQL as well
        if not touches and not statement.sparql.endswith("\n"):
            statement.sparql += " "
        statement.copied.append((len(statement.sparql), token))
        statement.sparql += token.text if instead is None else instead

    def _next(self, at: int) -> Token:
        """Return a token; at the end, one that is nothing, so that errors point there."""
        return self.tokens[at] if at < len(self.tokens) else Token("end", "", self.tokens[-1].end, 0)

    # Clauses.

    def _name(self, at: int, what: str) -> str:
        token = self._next(at)
        if token.kind == "variable":
            self.text.fail(f"a variable as the name of a {what} is not supported; write its IRI", token)
        if token.kind not in ("iri", "prefixed", "word"):
            self.text.fail(f"here comes the name of a {what}", token)
        return self.statement.iri(token)

    def _from(self, at: int) -> int:
        """Take out ``FROM NAMED WINDOW :W ON :S [RANGE 9m STEP 3m]``."""
        token = self.tokens[at]
        if not (self._next(at + 1).says("NAMED") and self._next(at + 2).says("WINDOW")):
            self.text.fail("FROM names windows here: FROM NAMED WINDOW :W ON :S [RANGE 9m STEP 3m]", token)
        name = self._name(at + 3, "window")
        stream = self._stream(at + 4, "after the window's name comes ON and the stream: ON :S [RANGE 9m STEP 3m]")
        end = self._closing(at + 6, "[", "the stream's name")
        window = read_window(self.text, self.tokens[at + 6 : end + 1])
        if name in self.statement.declared:
            self.text.fail("there are two windows of this name", self.tokens[at + 3])
        self.statement.declared[name] = Part("window", name, token, window, stream)
        return end + 1

    def _stream(self, at: int, expected: str) -> str:
        """Return the stream of ``ON :S``."""
        if not self._next(at).says("ON"):
            self.text.fail(expected, self._next(at))
        return self._name(at + 1, "stream")

    def _closing(self, at: int, bracket: str, after: str) -> int:
        """Return where the bracket that opens at a token is closed."""
        opening = self._next(at)
        if opening.text != bracket:
            self.text.fail(f"after {after} comes {bracket!r}", opening)
        return next(i for i in range(at + 1, len(self.tokens)) if self.tokens[i].depth == opening.depth)

    def _part(self, at: int) -> int:
        """Make ``WINDOW :W {`` and ``SERVICE :BKG {`` a ``GRAPH``; also ``WINDOW W(10m, 1m) ON S {``."""
        token = self.tokens[at]
        part = Part("window" if token.says("WINDOW") else "service", "", token)
        part.iri = self._name(at + 1, part.kind)
        behind = at + 2
        if part.kind == "window" and self._next(behind).text == "(":
            end = self._closing(behind, "(", "the window's name")
            part.window = read_window(self.text, self.tokens[behind : end + 1])
            expected = "after the window's length comes ON and the stream: WINDOW W(10m, 1m) ON S {…}"
            part.stream, behind = self._stream(end + 1, expected), end + 3
        if self._next(behind).text != "{":
            self.text.fail(f"after the name of the {part.kind} comes its pattern in {{ }}", self._next(behind))
        self._copy(token, f"GRAPH <{PART_NAMESPACE}{len(self.statement.parts)}>")
        self.statement.parts.append(part)
        return behind

    def _partition(self, at: int) -> int:
        if not self._next(at + 1).says("BY") or self._next(at + 2).kind != "variable":
            self.text.fail("PARTITION BY wants a variable: PARTITION BY ?x", self.tokens[at])
        if self.statement.partition is not None or self._next(at + 3).kind == "variable":
            expected = "PARTITION BY takes one variable; make one of several with BIND (CONCAT(?a, ?b) AS ?x)"
            self.text.fail(expected, self.tokens[at])
        self.statement.partition = self.tokens[at + 2]
        return at + 3

    def _distinct(self, at: int) -> int:
        if not self._next(at + 1).says("BEST", "LATEST"):
            allowed = (
                "DISTINCT BEST counts each id once, with its best event of the window, DISTINCT LATEST with its latest"
            )
            self.text.fail(f"DISTINCT of whole rows is not supported; {allowed}", self.tokens[at])
        self.statement.distinct = cast(Distinct, self.tokens[at + 1].text.lower())
        return at + 2

    def _call(self, at: int) -> int:
        """Make the bare name of a function an IRI; bracket ``F(?a) AS ?score`` among what is selected."""
        token = self.tokens[at]
        own = token.kind == "word" and token.text.upper() not in KEYWORDS
        name = f"<{FUNCTION_NAMESPACE}{token.text}>" if own else token.text
        if not self._starts_item(at):
            self._copy(token, name)
            return at + 1
        end = self._closing(at + 1, "(", "the function's name")
        self._copy(token, f"({name}")
        inner = at + 1
        while inner <= end + 2:
            inner = self._step(inner)
        self.statement.sparql += ")"
        return inner

    def _starts_item(self, at: int) -> bool:
        """Return whether ``F(…) AS ?x`` begins here without the brackets that SPARQL wants around it."""
        token, pattern = self.tokens[at], self.statement.find("{")
        if token.depth or not self.tokens[0].says("SELECT") or token.says("WHERE", "BY"):
            return False
        if pattern is None or token.start > pattern.start:
            return False
        end = self._closing(at + 1, "(", "the function's name")
        return self._next(end + 1).says("AS") and self._next(end + 2).kind == "variable"
