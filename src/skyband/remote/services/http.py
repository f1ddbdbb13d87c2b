"""An HTTP service that answers in JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from skyband.errors import InputError
from skyband.remote.services.base import Id, ServiceError, matched
from skyband.remote.services.web import Web

if TYPE_CHECKING:
    from httpx2 import Client

Path = tuple[str, ...]
_ABSENT = object()


class HttpJson:
    """A URL for some ids, and where in the reply their values are.

    Parameters
    ----------
    url
        With ``{ids}`` where ids go, such as ``"http://localhost/users?ids={ids}"``, or with ``{id}`` for a service
        that answers for one id at a time. Ids are percent-encoded.
    value
        Where the value is, by names with dots between them. In an object that is keyed by id, ``{id}`` stands for the
        id: ``"data.{id}.followers"``. In a list of records, ``[]`` stands for any of them: ``"users[].followers"``. For
        one id at a time: ``"followers"``.
    id
        In a list of records, where the id is: ``"users[].name"``.
    absent
        What it means that a reply leaves an id out: ``"unknown"`` (a failure: the replica keeps what it has) or
        ``"missing"`` (there is no such id). For one id at a time a status of 404 says that it is missing.
    separator
        Between ids.
    headers, client
        See `skyband.remote.services.web.Web`.
    """

    def __init__(
        self,
        url: str,
        value: str,
        *,
        id: str | None = None,  # noqa: A002 - the same word as everywhere
        absent: Literal["unknown", "missing"] = "unknown",
        separator: str = ",",
        headers: Mapping[str, str] | None = None,
        client: Client | None = None,
    ) -> None:
        self._single = "{id}" in url
        if self._single == ("{ids}" in url):
            msg = f"the URL {url!r} must hold either {{ids}}, for many at once, or {{id}}, for one at a time"
            raise InputError(msg)
        if absent not in ("unknown", "missing"):
            msg = f"absent is {absent!r}; use 'unknown' or 'missing'"
            raise InputError(msg)
        self._url, self._absent, self._separator = url, absent, separator
        self._records, self._value, self._id = _paths(value, id, self._single)
        self._web = Web(headers, client)
        self.largest_batch = 1 if self._single else None

    def close(self) -> None:
        """Close the connections."""
        self._web.close()

    def fetch(self, ids: Sequence[Id], timeout: float = 10.0) -> Mapping[Any, Any]:
        """Make one request for ids."""
        listed = self._separator.join(quote(str(name), safe="") for name in ids)
        url = self._url.replace("{id}" if self._single else "{ids}", listed)
        status, reply = self._web.ask("GET", url, timeout=timeout, may_be_missing=self._single)
        if status == 404:
            return dict.fromkeys(ids)
        found = matched(ids, self._pairs(ids, reply))
        missing: dict[Any, Any] = dict.fromkeys(ids) if self._absent == "missing" else {}
        return missing | found

    def _pairs(self, ids: Sequence[Id], reply: Any) -> Iterator[tuple[Any, Any]]:
        if self._records is None:
            for name in ids:
                value = _walk(reply, tuple(str(name) if part == "{id}" else part for part in self._value))
                if value is not _ABSENT:
                    yield name, value
            return
        records = _walk(reply, self._records)
        if not isinstance(records, list):
            msg = f"the reply has no list of records at {'.'.join(self._records) or 'its top'}"
            raise ServiceError(msg, retry=False)
        for record in records:
            name, value = _walk(record, self._id), _walk(record, self._value)
            if isinstance(name, int | str) and value is not _ABSENT:
                yield name, value


def _paths(value: str, name: str | None, single: bool) -> tuple[Path | None, Path, Path]:
    """Return where the records are (None where there are none), and where in one of them the value and the id."""
    if "[]" in value or name is not None:
        before, sign, behind = value.partition("[]")
        if name is None or not sign or not name.startswith(f"{before}[]"):
            msg = (
                f"value is {value!r} and id is {name!r}; for a list of records write both, with the same part before []"
            )
            raise InputError(msg)
        return _split(before), _split(behind), _split(name.removeprefix(f"{before}[]"))
    if not single and "{id}" not in value:
        msg = f"value is {value!r}, the same for all ids; write {{id}} where the id stands, or [] and where the id is"
        raise InputError(msg)
    return None, _split(value), ()


def _split(path: str) -> Path:
    return tuple(part for part in path.split(".") if part)


def _walk(tree: Any, path: Path) -> Any:
    for part in path:
        if not isinstance(tree, dict) or part not in tree:
            return _ABSENT
        tree = tree[part]
    return tree
