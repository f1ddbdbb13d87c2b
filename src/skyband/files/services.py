"""Services in query files: ``[service.NAME]`` tables, which say what to ask, and how."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from skyband.errors import InputError
from skyband.remote.remote import Remote
from skyband.remote.services import HttpJson, Limits, Service, Sparql, Sql

LIMITS = tuple(field.name for field in fields(Limits))
OWN = ("kind", "capacity", "budget", *LIMITS)
KINDS: dict[str, tuple[Callable[..., Service], tuple[str, ...], tuple[str, ...]]] = {
    "sql": (Sql, ("url", "query"), ()),
    "http": (HttpJson, ("url", "value"), ("id", "absent", "separator", "headers")),
    "sparql": (Sparql, ("url", "query", "id", "value"), ("term", "prologue", "headers")),
}
"""The class of each kind, the keys that it needs (the first two by position), and those that it may have."""


def remote_of(name: str, given: Any) -> Remote:
    """Make a service from its table in a query file.

    A text may be ``{env = "NAME"}`` instead: it is then taken from the environment, so that secrets stay out of files.

    Examples
    --------
    >>> remote_of("users", {"kind": "http", "url": "http://localhost/{id}", "value": "followers", "deadline": 2.0})
    <remote data, 0 ids known>
    >>> remote_of("users", {"kind": "http", "url": "http://localhost/{id}"})
    Traceback (most recent call last):
    skyband.errors.InputError: service 'users': value is missing; a service of kind 'http' needs url and value
    """
    try:
        return _remote(given)
    except (InputError, TypeError) as error:
        msg = f"service {name!r}: {error}"
        raise InputError(msg) from None


def _remote(given: Any) -> Remote:
    kind = given.get("kind") if isinstance(given, Mapping) else None
    if kind not in KINDS:
        msg = f"kind is {kind!r}; use {', '.join(map(repr, KINDS))} (functions can only be given from Python)"
        raise InputError(msg)
    make, needed, more = KINDS[kind]
    if unknown := [key for key in given if key not in (*OWN, *needed, *more)]:
        allowed = ", ".join((*needed, *more, *OWN[1:]))
        msg = f"unknown key {', '.join(map(repr, unknown))}; a service of kind {kind!r} may have {allowed}"
        raise InputError(msg)
    if missing := [key for key in needed if key not in given]:
        msg = f"{' and '.join(missing)} is missing; a service of kind {kind!r} needs {' and '.join(needed)}"
        raise InputError(msg)
    limits = {key: given[key] for key in LIMITS if key in given}
    for key, value in {**limits, **{key: given[key] for key in ("capacity", "budget") if key in given}}.items():
        if not isinstance(value, int | float) or isinstance(value, bool):
            msg = f"{key} is {value!r}; give a number"
            raise InputError(msg)
    texts = {key: _text(key, given[key]) for key in (*needed, *more) if key in given}
    service = make(texts.pop(needed[0]), texts.pop(needed[1]), **texts)
    return Remote(service, limits=Limits(**limits), capacity=given.get("capacity"), budget=given.get("budget"))


def _text(key: str, value: Any) -> Any:
    if key == "headers" and isinstance(value, Mapping):
        return {name: _text(f"the header {name}", one) for name, one in value.items()}
    if isinstance(value, Mapping) and set(value) == {"env"}:
        found = os.environ.get(str(value["env"]))
        if found is None:
            msg = f"{key} is to come from the environment variable {value['env']}, which is not set"
            raise InputError(msg)
        return found
    if not isinstance(value, str):
        msg = f"{key} is {value!r}; give a text, or {{env = 'NAME'}} to take it from the environment"
        raise InputError(msg)
    return value
