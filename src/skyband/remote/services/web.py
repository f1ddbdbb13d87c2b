"""One request over HTTP, by httpx2: bounded in time and in size, with statuses turned into failures of their kind."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from skyband.errors import optional
from skyband.remote.services.base import ServiceError, ServiceTimeout

if TYPE_CHECKING:
    from httpx2 import Client, Response

LARGEST_REPLY = 64 * 2**20  # how many bytes of a reply are read, unpacked; a longer one is a failure
_BUSY = (429, 503)
_LONGEST_REST = 3_600.0


class Web:
    """A client that is made when it is first needed, and shared by all threads.

    The `headers`, such as credentials, are sent with every request. For proxies or certificates, give an
    `httpx2.Client` of your own.
    """

    def __init__(self, headers: Mapping[str, str] | None, client: Client | None) -> None:
        self._headers = dict(headers or {})
        self._own = client is None
        self._client = _httpx2().Client() if client is None else client

    def __reduce__(self) -> Any:
        """Carry it elsewhere: connections are opened anew there."""
        return Web, (self._headers, None if self._own else self._client)

    def close(self) -> None:
        """Close the connections, unless the client was given."""
        if self._own:
            self._client.close()

    def ask(
        self, method: str, url: str, *, timeout: float, may_be_missing: bool = False, **request: Any
    ) -> tuple[int, Any]:
        """Make one request; return the status and the JSON that came, or 404 and None where that is no failure."""
        httpx2 = _httpx2()
        until = time.monotonic() + timeout
        headers = self._headers | request.pop("headers", {})
        try:
            with self._client.stream(method, url, headers=headers, timeout=max(timeout, 0.001), **request) as response:
                if response.status_code == 404 and may_be_missing:
                    return 404, None
                _check_status(response)
                return response.status_code, _json(_body(response, until))
        except httpx2.TimeoutException as error:
            msg = f"no answer within {timeout:g} seconds"
            raise ServiceTimeout(msg) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            msg = f"the request failed: {type(error).__name__}"  # its text may hold the URL, and that a secret
            raise ServiceError(msg) from error


def _httpx2() -> Any:
    with optional("a service over HTTP", "remote"):
        import httpx2
    return httpx2


def _check_status(response: Response) -> None:
    status = response.status_code
    if 200 <= status < 300:
        return
    after = _retry_after(response.headers.get("retry-after")) if status in _BUSY else None
    if status == 429 and after is None:
        after = 1.0
    msg = f"the service answered with status {status}"
    raise ServiceError(msg, retry=status >= 500 or status in (408, 425, 429), after=after)


def _retry_after(text: str | None) -> float | None:
    """Return the seconds that a server asks to wait, within reason; None where it does not say."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return None if math.isnan(seconds) else min(max(seconds, 0.0), _LONGEST_REST)


def _body(response: Response, until: float) -> bytes:
    """Read a reply piece by piece: one that trickles for ever, or has no end, is given up."""
    parts, length = [], 0
    for part in response.iter_bytes():
        parts.append(part)
        length += len(part)
        if length > LARGEST_REPLY:
            msg = f"the reply is longer than {LARGEST_REPLY:,} bytes"
            raise ServiceError(msg, retry=False)
        if time.monotonic() > until:
            msg = "the reply did not end in time"
            raise ServiceTimeout(msg)
    return b"".join(parts)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        msg = f"the reply of {len(body):,} bytes is no JSON"
        raise ServiceError(msg) from error
