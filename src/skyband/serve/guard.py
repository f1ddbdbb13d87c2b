"""Who may come in: before any route sees a request, and for every route there will ever be.

- The name that was asked for (`Host`) must be one of ours. A page elsewhere that lets its own name point to this
  machine (DNS rebinding) is refused by that. An IP address is no name: no DNS says where it points to, so a server
  that others may reach answers to any.
- A page of another site (`Origin`) is refused.
- All that is not plain reading needs the token.
- What is too large is refused before it is read.
- Replies carry headers that forbid browsers everything that the page does not need.
- What fails inside is logged; the reply only has a mark by which to find it in the log.
"""

from __future__ import annotations

import ipaddress
import logging
import secrets
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger(__name__)
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
READING = frozenset({"GET", "HEAD"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """Checks each request before an application gets it.

    A request that changes something must have the `token`. The server may be asked for by the names of `hosts`, and
    with `by_address` by any IP address too.
    """

    def __init__(
        self, app: ASGIApp, *, token: str, hosts: Collection[str], by_address: bool, most_bytes: int, most_requests: int
    ) -> None:
        self.app, self.by_address, self.most_bytes, self.most_requests = app, by_address, most_bytes, most_requests
        self._under_way = 0
        self.hosts = frozenset(host.lower() for host in hosts)
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        started = False

        async def with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self.refusal(scope["method"], Headers(scope=scope))
        self._under_way += 1
        try:
            await (refusal or self.app)(scope, receive, with_headers)
        except Exception:
            mark = secrets.token_hex(4)
            logger.exception("request failed, mark %s", mark)
            if not started:
                failure = _refused(500, f"this did not work; the server's log says why, under the mark {mark}")
                await failure(scope, receive, with_headers)
        finally:
            self._under_way -= 1

    def refusal(self, method: str, headers: Headers) -> JSONResponse | None:
        """Return the reply to a request that may not come in, else None; its body is not read."""
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not self._answers_to(name_in(host)):
            return _refused(421, "this server does not answer to that name; name it with --allow-host")
        embedded = headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate"
        if embedded or not all(_same(origin, host) for origin in headers.getlist("origin")):
            return _refused(403, "requests from pages of other sites are refused")
        if method not in READING and not self._has_token(headers):
            challenge = {"www-authenticate": 'Bearer realm="skyband"'}
            return _refused(401, "this changes something and needs the token: Authorization: Bearer TOKEN", challenge)
        if self._under_way >= self.most_requests:
            return _refused(503, "as many requests are under way as may; try again later", {"retry-after": "5"})
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or len(length) > 18 or int(length) > self.most_bytes:
            return _refused(413, f"the request is too large; at most {self.most_bytes:,} bytes are taken")
        return None

    def _answers_to(self, name: str | None) -> bool:
        return name in self.hosts or (self.by_address and name is not None and is_address(name))

    def _has_token(self, headers: Headers) -> bool:
        given = headers.getlist("authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        same = secrets.compare_digest(token.strip().encode(), self._token)  # takes as long whatever is wrong
        return same and scheme.lower() == "bearer"


def _refused(status: int, error: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": error}, status, headers)


def name_in(host: str) -> str | None:
    """Return the name in a `Host` header, without its port.

    Examples
    --------
    >>> name_in("LocalHost:8765"), name_in("[::1]:80"), name_in("evil@localhost"), name_in("a b")
    ('localhost', '::1', None, None)
    """
    if any(sign in host for sign in "@/?#\\ \t,%"):
        return None
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises where it is none
    except ValueError:
        return None
    return parts.hostname


def is_address(name: str) -> bool:
    """Tell whether a name is an IP address.

    Examples
    --------
    >>> is_address("10.0.0.7"), is_address("::1"), is_address("10.0.0.7.evil.example"), is_address("2130706433")
    (True, True, False, False)
    """
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same(origin: str, host: str) -> bool:
    """Tell whether a page comes from here; behind a proxy the scheme may differ, but not the name."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()
