"""What every service does: return the values of some ids.

`fetch(ids)` returns a mapping: an id with its value, or with None where there is no such id. An id that is left out
was not answered; that is a failure of this id, never a value. How often, how fast and how patiently services are asked
is decided in one place, the gateway: a service makes one request and reports what came.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import InputError, SkybandError

Id = int | str
State = tuple[dict[str, Any], dict[str, pa.Table]]
"""What a snapshot holds: plain values, and tables by name."""


@runtime_checkable
class Service(Protocol):
    """Anything with a `fetch`.

    If `fetch` has a parameter `timeout`, it gets how many seconds it has. A `largest_batch` bounds how many ids it is
    given at once. With ``pushes = True`` it pushes its changes by itself, so that values are current without a fetch.
    """

    def fetch(self, ids: Sequence[Id]) -> Mapping[Any, Any]:
        """Return the values of ids; None for those that do not exist."""


class ServiceError(SkybandError):
    """A request that failed: whether to `retry`, and `after` how many seconds, if the service said so."""

    def __init__(self, message: str, *, retry: bool = True, after: float | None = None) -> None:
        super().__init__(message)
        self.retry = retry
        self.after = after


class ServiceTimeout(ServiceError, TimeoutError):  # noqa: N818 - says it all
    """A request that took too long."""


class Function:
    """Any function from ids to values.

    Nobody can interrupt a function: where it takes too long, the answer goes out without it, and its thread lasts
    until it returns. Its value is then used for the next answer.

    Parameters
    ----------
    function
        Takes a list of ids and returns a mapping: the value of each, None for those that do not exist.

    Examples
    --------
    >>> followers = {"ann": 120.0, "bob": 80.0}
    >>> Function(lambda ids: {name: followers.get(name) for name in ids}).fetch(["ann", "eve"])
    {'ann': 120.0, 'eve': None}
    """

    def __init__(self, function: Callable[[Sequence[Id]], Mapping[Any, Any]]) -> None:
        self.function = function

    def fetch(self, ids: Sequence[Id]) -> Mapping[Any, Any]:
        """Call the function."""
        return self.function(list(ids))


@dataclass(frozen=True)
class Limits:
    """How a service may be asked. Times are in seconds.

    Parameters
    ----------
    batch
        Ids per request.
    parallel
        Requests at the same time; one that never ends keeps its place.
    per_second
        Requests per second, evenly spaced; None for no bound.
    per_evaluation
        Requests per evaluation, with those that are repeated; None for no bound.
    timeout
        For one request.
    deadline
        For all requests of one evaluation together: then the answer goes out with what is there.
    retries
        How often a request is repeated after a failure that may pass.
    backoff, longest_backoff
        How long to wait before that: the first time, and at most; the time doubles, and is shortened by chance.
    trip_after
        After so many failures in a row, the circuit opens: the service gets no requests.
    cooldown
        For how long. Then one request tries it again.
    remember_missing
        How long it is remembered that an id does not exist.
    most_remembered
        How many such ids at most.

    Examples
    --------
    >>> Limits(batch=100, per_second=5, deadline=2).timeout
    10.0
    >>> Limits(batch=0)
    Traceback (most recent call last):
    skyband.errors.InputError: the limit batch is 0; it must be at least 1
    """

    batch: int = 100
    parallel: int = 4
    per_second: float | None = None
    per_evaluation: int | None = None
    timeout: float = 10.0
    deadline: float = 10.0
    retries: int = 2
    backoff: float = 0.1
    longest_backoff: float = 5.0
    trip_after: int = 5
    cooldown: float = 30.0
    remember_missing: float = 60.0
    most_remembered: int = 100_000

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            least = 1 if name in ("batch", "parallel", "trip_after") else 0
            if value is not None and not value >= least:
                msg = f"the limit {name} is {value}; it must be at least {least}"
                raise InputError(msg)
        if self.per_second == 0:
            msg = "the limit per_second is 0, so nothing could ever be asked; give more than 0, or None for no bound"
            raise InputError(msg)


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


def id_array(ids: Any, kind: pa.DataType | None = None) -> pa.Array:
    """Return ids as a column of text or int64; of a `kind`, those of the other one are NULL.

    Examples
    --------
    >>> id_array([7, "seven"], pa.int64()).to_pylist()
    [7, None]
    """
    if kind is None:
        found = ids if isinstance(ids, pa.Array) else pa.array(ids if isinstance(ids, np.ndarray) else list(ids))
        return found if found.type in (pa.int64(), pa.string(), pa.null()) else found.cast(_plain(found.type))
    try:
        return pa.array(ids, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        text = pa.types.is_string(kind)
        return pa.array([one if isinstance(one, str) == text else None for one in ids], kind)


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_integer(kind) else pa.string()


def joined_ids(parts: Sequence[pa.Array]) -> pa.Array:
    """Return columns of ids behind each other; one without ids may not know what they are like."""
    full = [part for part in parts if len(part)]
    return pa.concat_arrays(full) if full else parts[0]


def id_list(ids: pa.Array) -> list[Id]:
    """Return a column of ids as plain Python values, which every service and every index understands."""
    found: list[Id] = ids.to_numpy(zero_copy_only=False).tolist()
    return found


def find_ids(ids: pa.Array, among: pa.Array | Collection[Id]) -> npt.NDArray[np.int64]:
    """Return where each id stands among others; -1 where it is not among them.

    Examples
    --------
    >>> find_ids(pa.array(["ann", "eve"]), ["eve", "bob", 7]).tolist()
    [-1, 0]
    """
    if not len(ids) or not len(among):
        return np.full(len(ids), -1)
    names = among if isinstance(among, pa.Array) else id_array(list(among), ids.type)
    return np.asarray(pc.index_in(ids, value_set=names).fill_null(-1), np.int64)


def matched(ids: Sequence[Id], pairs: Iterable[tuple[Any, Any]], *, complete: bool = False) -> dict[Any, Any]:
    """Return pairs of id and value as a mapping with the ids that were asked for.

    Ids are compared as text, since JSON and databases may give a number as text or the other way round. An id
    that comes twice with different values is left out: its value is ambiguous. Where pairs are `complete`,
    ids without one do not exist.

    Examples
    --------
    >>> matched([7, 8, 9], [("7", 1.0), ("8", 2.0), ("8", 3.0), ("9", 4.0), ("9", 4.0)])
    {7: 1.0, 9: 4.0}
    """
    asked = {str(name): name for name in ids}
    found: dict[Any, Any] = {}
    seen, ambiguous = set(), set()
    for given, value in pairs:
        name = asked.get(str(given), given if isinstance(given, Hashable) else str(given))
        if name in found and found[name] != value:
            ambiguous.add(name)
        found[name] = value
        seen.add(str(given))
    missing = {name: None for name in ids if complete and str(name) not in seen}
    return {name: value for name, value in found.items() if name not in ambiguous} | missing
