"""One registered query: what its RSP-QL clauses say, the SPARQL that is left, and the way back to the text."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Literal

from skyband.languages.mapping import DEFAULT_NAMESPACE
from skyband.languages.rspql.tokens import Text, Token
from skyband.queries.query import Distinct, Emit
from skyband.windows import Window

Kind = Literal["window", "service"]


@dataclass
class Part:
    """A ``WINDOW`` or ``SERVICE`` clause: its name as an IRI, and where it stands."""

    kind: Kind
    iri: str
    token: Token
    window: Window | None = None
    stream: str | None = None


@dataclass
class Statement:
    """One registered query: what its own clauses say, and the SPARQL that is left.

    `declared` are the windows that ``FROM NAMED WINDOW`` names, `parts` the clauses of the pattern, by the number in
    the IRI that stands for each.
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
    origins: list[tuple[int, int]] = field(default_factory=list)
    """Places in the SPARQL, and in the text."""

    @property
    def span(self) -> tuple[int, int]:
        """Where in the text the query's own part begins and ends."""
        return self.head.start, self.tokens[-1].end if self.tokens else self.head.end

    def origin(self, place: int) -> int:
        """Return the place in the text that a place in the SPARQL comes from."""
        index = bisect_right(self.origins, (place, len(self.text.text) + 1)) - 1
        if index < 0:
            return self.span[0]
        at, origin = self.origins[index]
        after = self.origins[index + 1] if index + 1 < len(self.origins) else (len(self.sparql), self.span[1])
        return min(origin + place - at, max(origin, after[1] - 1), len(self.text.text))

    def find(self, *words: str) -> Token | None:
        """Return the first token of this query that is one of some words."""
        return self.text.find(*words, within=self.span)

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
