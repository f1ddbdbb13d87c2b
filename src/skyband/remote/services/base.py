"""What every service does: tell the values of some ids.

`fetch(ids)` returns a mapping: an id with its value, or with None where there is no such id. An id that is left out
was not answered; that is a failure of this id, never a value. How often, how fast and how patiently services are asked
is decided in one place, the gateway: a service makes one request and reports what came.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from skyband.errors import SkybandError

Id = int | str


@runtime_checkable
class Service(Protocol):
    """Anything with a `fetch`.

    If `fetch` has a parameter `timeout`, it gets how many seconds it has. A `largest_batch` bounds how many ids it is
    given at once. With ``pushes = True`` it pushes its changes by itself, so that values are current without a fetch.
    """

    def fetch(self, ids: Sequence[Id]) -> Mapping[Any, Any]:
        """Return the values of ids; None for those that do not exist."""


class ServiceError(SkybandError):
    """A request that failed.

    Parameters
    ----------
    message
        What happened.
    retry
        Whether asking again may help.
    after
        How many seconds to leave the service alone, if it said so.
    """

    def __init__(self, message: str, *, retry: bool = True, after: float | None = None) -> None:
        super().__init__(message)
        self.retry = retry
        self.after = after


class ServiceTimeout(ServiceError, TimeoutError):  # noqa: N818 - says it all
    """A request that took too long."""


def id_columns(ids: Iterable[Id]) -> dict[str, pa.Array]:
    """Return ids as columns of a table: a service may be asked for numbers by one query, and for text by another.

    Examples
    --------
    >>> ids_in(pa.table(id_columns([7, "seven"])))
    [7, 'seven']
    """
    listed = list(ids)
    return {
        "id": pa.array([None if isinstance(one, str) else one for one in listed], pa.int64()),
        "text_id": pa.array([one if isinstance(one, str) else None for one in listed], pa.string()),
    }


def ids_in(table: pa.Table) -> list[Id]:
    """Return the ids that `id_columns` put into a table."""
    numbers, texts = (table[name].to_pylist() for name in ("id", "text_id"))
    return [number if text is None else text for number, text in zip(numbers, texts, strict=True)]


def matched(ids: Sequence[Id], pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return pairs of id and value as a mapping with the ids that were asked for.

    Ids are compared as text, since JSON and databases may give a number as text or the other way round. An id
    that comes twice with different values is left out: nobody can say which one is right.

    Examples
    --------
    >>> matched([7, 8, 9], [("7", 1.0), ("8", 2.0), ("8", 3.0), ("9", 4.0), ("9", 4.0)])
    {7: 1.0, 9: 4.0}
    """
    asked = {str(name): name for name in ids}
    found: dict[Any, Any] = {}
    torn = set()
    for given, value in pairs:
        name = asked.get(str(given), given if isinstance(given, Hashable) else str(given))
        if name in found and found[name] != value:
            torn.add(name)
        found[name] = value
    return {name: value for name, value in found.items() if name not in torn}
