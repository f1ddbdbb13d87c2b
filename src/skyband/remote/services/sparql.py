r"""A SPARQL endpoint as a service; ids are RDF terms, written so that they cannot become anything else.

Notes
-----
SPARQL 1.1 replaces ``\\uXXXX`` anywhere in a query before it is parsed (section 19.2). So a backslash in an id must
never stand before a letter u, and is followed by that letter's own code instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from skyband.errors import InputError
from skyband.remote.services.base import Id, ServiceError, matched
from skyband.remote.services.web import Web

if TYPE_CHECKING:
    from httpx2 import Client

_VARIABLE = re.compile(r"\?[A-Za-z_][A-Za-z0-9_]*")
_NO_IRI = re.compile(r"[\x00-\x20<>\"{}|^`\\\ud800-\udfff]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_UNWRITABLE = re.compile(r"[\x00\ud800-\udfff]")
_SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_NUMERIC = (
    "integer", "decimal", "double", "float", "int", "long", "short", "byte", "nonNegativeInteger", "positiveInteger",
    "nonPositiveInteger", "negativeInteger", "unsignedInt", "unsignedLong", "unsignedShort", "unsignedByte",
)  # fmt: skip
_XSD = "http://www.w3.org/2001/XMLSchema#"


class Sparql:
    """A graph pattern at an endpoint that gives a value for an id.

    An id without a solution does not exist. Ids that cannot be written as a term are not asked for.

    Parameters
    ----------
    endpoint
        Its URL.
    pattern
        What stands between the braces of WHERE, such as ``"?user :hasFollowers ?followers"``.
    id, value
        The variables of the pattern that hold the id and the value.
    term
        How ids become terms: ``"iri"`` (an id is an IRI), an IRI with ``{id}`` in it, such as
        ``"http://example.org/user/{id}"`` (percent-encoded), or ``"literal"`` (numbers and text).
    prologue
        Prefixes, such as ``"PREFIX : <http://example.org/>"``.
    headers, client
        See `skyband.remote.services.web.Web`.

    Examples
    --------
    >>> service = Sparql(
    ...     "http://localhost/sparql", "?user :hasFollowers ?n", id="?user", value="?n",
    ...     term="http://example.org/user/{id}", prologue="PREFIX : <http://example.org/>",
    ... )
    >>> print(service.query(["ann", "} DROP ALL"]))
    PREFIX : <http://example.org/>
    SELECT ?user ?n WHERE {
      VALUES ?user { <http://example.org/user/ann> <http://example.org/user/%7D%20DROP%20ALL> }
      ?user :hasFollowers ?n
    }
    """

    def __init__(
        self,
        endpoint: str,
        pattern: str,
        *,
        id: str,  # noqa: A002 - the same word as everywhere
        value: str,
        term: str = "iri",
        prologue: str = "",
        headers: Mapping[str, str] | None = None,
        client: Client | None = None,
    ) -> None:
        for what, name in (("id", id), ("value", value)):
            if not _VARIABLE.fullmatch(name) or name not in _VARIABLE.findall(pattern):
                msg = f"{what} is {name!r}; name a variable of the pattern {pattern!r}, with its question mark"
                raise InputError(msg)
        if term not in ("iri", "literal") and (term.count("{id}") != 1 or _no_iri(term.replace("{id}", ""))):
            msg = f"term is {term!r}; use 'iri', 'literal', or an IRI with {{id}} in it"
            raise InputError(msg)
        self._endpoint, self._pattern, self._prologue = endpoint, pattern, prologue
        self._id, self._value, self._term = id, value, term
        self._web = Web(headers, client)

    def query(self, ids: Sequence[Id]) -> str:
        """Return the query that asks for ids."""
        terms = " ".join(written for name in ids if (written := self._written(name)) is not None)
        head = f"{self._prologue}\n" if self._prologue else ""
        return (
            f"{head}SELECT {self._id} {self._value} WHERE {{\n  VALUES {self._id} {{ {terms} }}\n  {self._pattern}\n}}"
        )

    def close(self) -> None:
        """Close the connections."""
        self._web.close()

    def fetch(self, ids: Sequence[Id], timeout: float = 10.0) -> Mapping[Any, Any]:
        """Make one request for ids."""
        named = {self._plain(name): name for name in ids if self._written(name) is not None}
        if not named:
            return {}
        asked = list(named.values())
        status, reply = self._web.ask(
            "POST", self._endpoint, timeout=timeout, data={"query": self.query(asked)},
            headers={"Accept": "application/sparql-results+json"},
        )  # fmt: skip
        rows = [(named.get(name, name), value) for name, value in self._rows(reply)]
        return matched(asked, rows, complete=status != 206)  # 206: part of the solutions

    def _plain(self, name: Id) -> str:
        """Return an id as the text that a result shows."""
        if self._term in ("iri", "literal"):
            return str(name)
        return self._term.replace("{id}", quote(str(name), safe=""))

    def _written(self, name: Id) -> str | None:
        """Return an id as a term of a query; None where it cannot be one."""
        if self._term == "literal":
            return str(name) if isinstance(name, int) else _literal(name)
        iri = self._plain(name) if not _UNWRITABLE.search(str(name)) else ""
        return None if _no_iri(iri) else f"<{iri}>"

    def _rows(self, reply: Any) -> Iterator[tuple[str, Any]]:
        try:
            bindings = reply["results"]["bindings"]
            for row in bindings:
                name, value = row.get(self._id[1:]), row.get(self._value[1:])
                if name is not None and value is not None:
                    yield str(name["value"]), _number(value)
        except (TypeError, KeyError, AttributeError) as error:
            msg = "the reply is no SPARQL result: there is no list of bindings at results.bindings"
            raise ServiceError(msg, retry=False) from error


def _no_iri(text: str) -> bool:
    """Tell whether text cannot stand between < and > as an absolute IRI."""
    return _NO_IRI.search(text) is not None or _SCHEME.match(text) is None


def _literal(text: str) -> str | None:
    r"""Return text as a string literal; None where it holds what no query can hold.

    Examples
    --------
    >>> print(_literal('say "hi"'))
    "say \"hi\""
    >>> print(_literal("\\u0022 } DROP ALL"))
    "\\\u00750022 } DROP ALL"
    """
    if _UNWRITABLE.search(text):
        return None
    out = []
    for before, sign in zip(f" {text}", text, strict=False):
        if before == "\\" and sign in "uU":
            out.append(f"\\u{ord(sign):04X}")
        elif sign in _SHORT:
            out.append(_SHORT[sign])
        else:
            out.append(sign if sign >= " " and sign != "\x7f" else f"\\u{ord(sign):04X}")
    return f'"{"".join(out)}"'


def _number(term: Any) -> Any:
    """Return the value of a literal; what is no number is returned as it is, for others to refuse."""
    text, kind = term["value"], term.get("datatype", "")
    if term.get("type") not in ("literal", "typed-literal") or (kind and kind.removeprefix(_XSD) not in _NUMERIC):
        return text
    try:
        return float(text)
    except (TypeError, ValueError):
        return text
