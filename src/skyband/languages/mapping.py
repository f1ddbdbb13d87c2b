"""What the names of an RSP-QL query are: predicates as columns, IRIs as services, functions as expressions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from skyband.errors import QueryError
from skyband.expressions import parse
from skyband.expressions.tree import Call, Column, Node
from skyband.languages.toml import load_toml

DEFAULT_NAMESPACE = "urn:skyband:"
"""What the prefix ``:`` stands for unless it is declared."""
SETTINGS = ("time", "id", "time_unit", "watermark", "algorithm")
_SECTIONS = ("prefixes", "columns", "services", "functions")
_SIGNATURE = re.compile(r"\s*([^\W\d]\w*)\s*\(\s*([^\W\d]\w*(?:\s*,\s*[^\W\d]\w*)*)\s*\)\s*")
_PREFIXED = re.compile(r"([^\W\d][\w.-]*|):([^/]*)")
T = TypeVar("T")


@dataclass(frozen=True)
class Function:
    """A function of queries: its parameters, and the expression over them."""

    parameters: tuple[str, ...]
    tree: Node

    def call(self, args: Iterable[Node]) -> Node:
        """Return the expression with values in the place of its parameters."""
        return _replaced(self.tree, dict(zip(self.parameters, args, strict=True)))


def _replaced(node: Node, values: dict[str, Node]) -> Node:
    if isinstance(node, Column):
        return values[node.name]
    if isinstance(node, Call):
        return Call(node.name, tuple(_replaced(arg, values) for arg in node.args))
    return node


@dataclass(frozen=True)
class Mapping:
    """What names mean.

    Parameters
    ----------
    columns
        Column by predicate: an IRI, a prefixed name, or several of them with ``/`` between for a path. A predicate that
        is not here is the column of its last name: ``:price`` is ``price``.
    services
        Name of a service by IRI or prefixed name, or how it is joined: a dict with ``service``, and what else
        `skyband.Join` takes, such as ``policy`` and ``budget``. One that is not here is the service of its last name.
    functions
        Expression by call: ``{"F(mentions, followers)": "0.7 * mentions + 0.3 * followers"}``.
    prefixes
        What queries need not declare themselves.
    id
        The column of the subject of the window pattern; else it is called as its variable is.
    settings
        ``time``, ``time_unit``, ``watermark`` and ``algorithm`` of a run.

    Examples
    --------
    >>> mapping = Mapping(columns={":hasMentions": "mentions"}, functions={"twice(x)": "2 * x"})
    >>> mapping.column(("urn:skyband:hasMentions",), {}), mapping.column(("urn:skyband:price",), {})
    ('mentions', 'price')
    """

    columns: dict[str, str] = field(default_factory=dict)
    services: dict[str, str | dict[str, Any]] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    prefixes: dict[str, str] = field(default_factory=dict)
    id: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    defined: dict[str, Function] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        problems = [
            f"{section}: {name!r} is {value!r}; give a text"
            for section in _SECTIONS
            for name, value in getattr(self, section).items()
            if not (isinstance(value, str) and value) and not (section == "services" and isinstance(value, dict))
        ]
        defined: dict[str, Function] = {}
        for signature, body in self.functions.items() if not problems else ():
            try:
                name, function = _defined(signature, body)
                defined[name] = function
            except QueryError as error:
                problems += [f"function {signature!r}: {problem}" for problem in error.problems]
        if problems:
            raise QueryError(problems)
        object.__setattr__(self, "defined", defined)

    def column(self, path: tuple[str, ...], prefixes: dict[str, str]) -> str:
        """Return the column of a path of predicates."""
        given = self._given(self.columns, prefixes)
        return given.get("/".join(path)) or last_name(path[-1])

    def join(self, iri: str, prefixes: dict[str, str]) -> dict[str, Any]:
        """Return how a service is joined, with its name as ``service``."""
        given = self._given(self.services, prefixes).get(iri, {})
        return {"service": last_name(iri), **({"service": given} if isinstance(given, str) else given)}

    def _given(self, names: dict[str, T], prefixes: dict[str, str]) -> dict[str, T]:
        known = {"": DEFAULT_NAMESPACE, **prefixes, **self.prefixes}
        return {"/".join(_expanded(part, known) for part in _parts(name)): value for name, value in names.items()}


def last_name(iri: str) -> str:
    """Return what an IRI is called: what comes after its last ``#``, ``/`` or ``:``.

    Examples
    --------
    >>> last_name("http://example.org/ns#price"), last_name("urn:skyband:bid%20size")
    ('price', 'bid size')
    """
    return unquote(re.split(r"[#/:]", iri)[-1])


def _parts(name: str) -> list[str]:
    """Cut a path; the slashes of IRIs are no cuts."""
    if name.startswith("<"):
        return re.findall(r"<([^<>]*)>", name)
    return [name] if "://" in name else name.split("/")


def _expanded(name: str, prefixes: dict[str, str]) -> str:
    match = _PREFIXED.fullmatch(name)
    if match and match[1] in prefixes:
        return prefixes[match[1]] + match[2]
    return name


def _defined(signature: str, body: str) -> tuple[str, Function]:
    match = _SIGNATURE.fullmatch(signature)
    if match is None:
        msg = "write the function with its parameters, such as 'F(mentions, followers)'"
        raise QueryError(msg)
    parameters = tuple(part.strip() for part in match[2].split(","))
    expression = parse(body)
    if unknown := sorted(set(expression.columns) - set(parameters)):
        msg = f"{', '.join(map(repr, unknown))} is no parameter; the parameters are {', '.join(parameters)}"
        raise QueryError(msg)
    return match[1], Function(parameters, expression.tree)


def load_mapping(path: Path) -> Mapping:
    """Read a mapping from a ``.toml`` file.

    Raises
    ------
    InputError
        When it cannot be read.
    QueryError
        When something in it is wrong.
    """
    given = load_toml(path)
    given.pop("service", None)  # where the services are, for the process that runs the queries
    return mapping_of(given, path.name)


def mapping_of(given: dict[str, Any], file: str) -> Mapping:
    """Make a mapping of what a file holds."""
    problems = []
    if unknown := [key for key in given if key not in (*SETTINGS, *_SECTIONS)]:
        allowed = f"{', '.join(SETTINGS)} and [{'], ['.join(_SECTIONS)}]"
        problems.append(f"unknown key {', '.join(map(repr, unknown))}; allowed are {allowed}")
    problems += [f"{key} is {given[key]!r}; give a text" for key in SETTINGS if not isinstance(given.get(key, ""), str)]
    problems += [
        f"{key} is {given[key]!r}; write it as a table, [{key}]"
        for key in _SECTIONS
        if not isinstance(given.get(key, {}), dict)
    ]
    if problems:
        raise QueryError([f"{file}: {problem}" for problem in problems])
    settings = {key: given[key] for key in SETTINGS if key in given}
    sections = {key: given[key] for key in _SECTIONS if key in given}
    return Mapping(**sections, id=settings.pop("id", None), settings=settings)
