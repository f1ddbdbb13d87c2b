"""The routes: queries, answers, the feed, the numbers, the page."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.security import HTTPBearer
from prometheus_client.exposition import choose_encoder
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from skyband import __version__
from skyband.errors import QueryError
from skyband.serve.edge import Edge
from skyband.serve.feed import FeedFull, FeedResponse
from skyband.serve.guard import Guard
from skyband.serve.schemas import (
    FAILED,
    HEALTH,
    MISSING,
    REFUSED,
    REGISTER,
    STATE,
    Answers,
    Listed,
    Place,
    Refused,
    Stream,
)
from skyband.serve.standings import MOST_ANSWERS, shown_place
from skyband.serve.texts import as_problem
from skyband.serve.vitals import WELL

logger = logging.getLogger(__name__)
BODY = 10.0  # seconds that the body of a request may take to come
MEDIA = {
    "application/json": "json",
    "application/toml": "toml",
    "application/sparql-query": "rspql",
    "application/sql": "sql",
}
PAGE = {
    "": ("index.html", "text/html"),
    "page.css": ("page.css", "text/css"),
    "page.js": ("page.js", "text/javascript"),
}
bearer = Depends(HTTPBearer(auto_error=False, description="Printed when the server starts."))  # `Guard` checks it


def make_app(edge: Edge, *, token: str, hosts: Collection[str], by_address: bool, most_requests: int) -> FastAPI:
    """Return the application that serves a stream; see `Guard` for who may come in."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await edge.poll()
        tasks = [asyncio.create_task(edge.watch()), asyncio.create_task(edge.tick())]
        yield
        for task in tasks:
            task.cancel()

    app = FastAPI(
        title="Skyband",
        version=__version__,
        summary="Continuous top-k queries over a stream.",
        lifespan=lifespan,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
    )
    app.add_middleware(
        Guard, token=token, hosts=hosts, by_address=by_address, most_bytes=edge.limits.text, most_requests=most_requests
    )
    _errors(app)
    _looking(app, edge)
    _changing(app, edge)
    _pages(app)
    return app


def _errors(app: FastAPI) -> None:
    """Say what is wrong with a request, and nothing about this machine."""

    @app.exception_handler(HTTPException)
    async def known(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)

    @app.exception_handler(QueryError)
    async def refused(_: Request, error: QueryError) -> Response:
        return JSONResponse(as_problem(error), 422)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        said = [f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors()]
        return JSONResponse({"error": "; ".join(said), "problems": said}, 422)


def _looking(app: FastAPI, edge: Edge) -> None:
    """Add what anyone may read."""
    standings = edge.standings

    @app.get("/healthz", responses=HEALTH)
    @app.get("/healthz/ready", responses=HEALTH)
    async def ready(
        max_silence: Annotated[
            float | None, Query(ge=0, description="Say 503 too where no event has come for so many seconds.")
        ] = None,
    ) -> Response:
        """Tell whether the stream runs: 503 where it has ended, failed or gone."""
        silent = max_silence is not None and standings.vitals.silence > max_silence
        return _health(edge, standings.numbers.get("health") in WELL and not silent)

    @app.get("/healthz/live", responses=HEALTH)
    async def live() -> Response:
        """Tell whether this process does: 503 where its stream has failed, so that only a restart helps."""
        numbers = standings.numbers
        return _health(edge, numbers.get("state") != "failed" or numbers["sign_of_life"] is not None)

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics(request: Request) -> Response:
        """Return the numbers for Prometheus, as text or as OpenMetrics."""
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(edge.metrics.registry), media_type=media_type)

    @app.get("/api/stream", responses={200: {"model": Stream}})
    async def about() -> Response:
        """Return the stream's columns, its numbers and the limits."""
        return JSONResponse(describe(edge))

    @app.get("/api/queries", responses={200: {"model": Listed}})
    async def queries() -> Response:
        """List the queries, and how they stand."""
        return JSONResponse({"queries": [board.entry for board in standings.boards.values()]})

    @app.get("/api/answers", responses={200: {"model": Answers}})
    async def all_answers() -> Response:
        """Return the latest answer of every query."""
        return JSONResponse({"answers": [b.answers[-1] for b in standings.boards.values() if b.answers]})

    @app.get("/api/answers/{name:path}", responses={200: {"model": Answers}, **MISSING})
    async def answers(
        name: str, limit: Annotated[int, Query(ge=1, le=MOST_ANSWERS, description="How many of the last ones.")] = 1
    ) -> Response:
        """Return the last answers of a query, latest first."""
        found = list(standings.boards[edge.known(name)].answers)
        return JSONResponse({"answers": found[::-1][:limit]})

    @app.get("/api/rank/{name:path}", responses={200: {"model": Place}, 422: {"model": Refused}, **MISSING})
    async def rank_of(
        name: str,
        id: Annotated[str, Query(description="Which id; integers as they are written.")],  # noqa: A002 - the word for it
        partition: Annotated[str | None, Query(description="Where there are partitions: in which.")] = None,
    ) -> Response:
        """Tell where an id stands in a query now: its rank and score, who is just above and who just below."""
        return JSONResponse(shown_place(await edge.rank_of(name, id, partition)))

    @app.get("/api/explain", response_class=PlainTextResponse, responses=FAILED)
    async def explain() -> Response:
        """Say in words which queries share what, and what is kept."""
        return PlainTextResponse(await edge.explain())

    @app.get("/api/feed", responses={200: {"content": {"text/event-stream": {}}}, 503: {"model": Refused}})
    async def feed(
        request: Request, query: Annotated[list[str] | None, Query(description="Only these queries' answers.")] = None
    ) -> Response:
        """Send what happens: hello, queries, answer, numbers, missed; `Last-Event-ID` takes it up again."""

        def hello() -> dict[str, Any]:
            return {"stream": describe(edge), **standings.snapshot()}

        try:
            reader = edge.feed.join(request.headers.get("last-event-id"), query, hello)
        except FeedFull:
            raise HTTPException(503, "as many read the feed as may; try again later") from None
        return FeedResponse(edge.feed, reader)


def _changing(app: FastAPI, edge: Edge) -> None:
    """Add what needs the token."""

    @app.post("/api/queries", status_code=201, openapi_extra=REGISTER, responses=REFUSED, dependencies=[bearer])
    async def register(request: Request) -> Response:
        """Register the queries of a text: all of them, or none."""
        text, language = await _text_of(request, edge.limits.text)
        return JSONResponse({"registered": await edge.change(edge.register, text, language)}, 201)

    @app.post("/api/check", openapi_extra=REGISTER, responses=REFUSED, dependencies=[bearer])
    async def check(request: Request) -> Response:
        """Say whether a text could be registered, and explain its queries; changes nothing."""
        text, language = await _text_of(request, edge.limits.text)
        return JSONResponse({"explain": await run_in_threadpool(edge.plan, text, language)})

    @app.patch("/api/queries/{name:path}", openapi_extra=STATE, responses=REFUSED | MISSING, dependencies=[bearer])
    async def pause(name: str, request: Request) -> Response:
        """Pause a query, or resume it."""
        state = _state_of(await _body_of(request, edge.limits.text))
        do = edge.stream.pause if state == "paused" else edge.stream.resume
        await edge.change(do, edge.known(name))
        return JSONResponse({"name": name, "asked": state})

    @app.delete("/api/queries/{name:path}", responses=REFUSED | MISSING, dependencies=[bearer])
    async def remove(name: str) -> Response:
        """Stop serving a query."""
        await edge.change(edge.stream.unregister, edge.known(name))
        return JSONResponse({"removed": name})


def _pages(app: FastAPI) -> None:
    """Add the page, which is three files."""
    folder = files("skyband.serve") / "page"

    def route(content: bytes, media: str) -> Callable[[], Awaitable[Response]]:
        async def page() -> Response:
            return Response(content, media_type=f"{media}; charset=utf-8", headers={"cache-control": "no-cache"})

        return page

    for path, (name, media) in PAGE.items():
        content = (folder / name).read_bytes()
        app.add_api_route(f"/{path}", route(content, media), include_in_schema=False)


def _health(edge: Edge, well: bool) -> Response:
    numbers = edge.standings.numbers
    shown = {key: numbers.get(key) for key in ("state", "health", "says", "silence")}
    return JSONResponse(shown, 200 if well else 503)


def describe(edge: Edge) -> dict[str, Any]:
    """Return what the stream is."""
    stream = edge.stream
    return {
        "engine": stream.engine,
        "algorithm": stream.algorithm,
        "time": stream.source.time,
        "id": stream.source.id,
        "services": list(stream.services),
        "columns": {field.name: str(field.type) for field in stream.schema},
        "limits": vars(edge.limits),
        "numbers": edge.standings.numbers,
    }


# What comes in.


async def _body_of(request: Request, most: int) -> bytes:
    """Return the body of a request; refuse one that is too long, also where it did not say so, or takes too long."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise HTTPException(413, f"the request is too large; at most {most:,} bytes are taken")
    except TimeoutError:
        raise HTTPException(408, f"the request did not come within {BODY:g} seconds") from None
    return bytes(body)


async def _text_of(request: Request, most: int) -> tuple[str, str]:
    """Return the text of a request, and the language that it is said to be in."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media not in MEDIA:
        raise HTTPException(415, f"the content type is not known; use one of {', '.join(MEDIA)}")
    try:
        return (await _body_of(request, most)).decode(), MEDIA[media]
    except UnicodeDecodeError:
        raise HTTPException(422, "the text is not UTF-8") from None


def _state_of(body: bytes) -> str:
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        given = None
    state = given.get("state") if isinstance(given, dict) else None
    if state not in ("paused", "active"):
        raise HTTPException(422, 'give {"state": "paused"} or {"state": "active"}')
    return str(state)
