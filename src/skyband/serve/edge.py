"""What the routes share: the stream, its standings, and the feed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from skyband.answers.place import Place
from skyband.languages import Mapping
from skyband.queries.query import Query
from skyband.serve.feed import Feed
from skyband.serve.metrics import Metrics
from skyband.serve.standings import Standings
from skyband.serve.streams import ServedStream
from skyband.serve.texts import Limits, Reading

logger = logging.getLogger(__name__)
POLL = 0.25  # seconds between two polls of the stream
TICK = 1.0  # seconds between two messages of numbers, where nothing happens
T = TypeVar("T")


class Edge:
    """Polls a stream, keeps its standings, and changes its queries; see `Server` for the parameters."""

    def __init__(
        self, stream: ServedStream, limits: Limits, feed: Feed, mapping: Mapping, clock: Callable[[], float]
    ) -> None:
        self.stream, self.limits, self.feed = stream, limits, feed
        self.reading = Reading(stream.source, stream.services, mapping)
        self.standings = Standings(feed, clock)
        self.metrics = Metrics(self)
        self._polling = asyncio.Lock()
        self._changing = asyncio.Lock()
        self._explaining = asyncio.Lock()
        self._updates = 0  # that found something new
        self._explained = (-1, "")

    async def poll(self) -> None:
        """See what is new."""
        async with self._polling:
            found = await run_in_threadpool(self.stream.poll)
            if found is not None:
                self._updates += 1
                for seconds in found.durations:
                    self.metrics.batches.observe(seconds)
                await self.standings.take(found)

    async def watch(self) -> None:
        """Poll again and again; what fails for long is in the log once."""
        well = True
        while True:
            try:
                await self.poll()
                well = True
            except Exception:
                if well:
                    logger.exception("cannot read the stream")
                well = False
            self.standings.vitals.saw(well)
            await asyncio.sleep(POLL)

    async def tick(self) -> None:
        """Publish the numbers again and again: the clock changes them though nothing happens."""
        vitals = self.standings.vitals
        while True:
            await asyncio.sleep(TICK)
            try:
                vitals.busy = vitals.is_quiet and await run_in_threadpool(lambda: self.stream.busy)
            except OSError:  # `watch` cannot read it either, and says so
                vitals.busy = False
            self.standings.publish_numbers()

    async def change(self, do: Callable[..., T], *given: Any) -> T:
        """Change something, one after the other, and poll at once."""
        if self.stream.fixed:
            raise HTTPException(409, "the queries of this stream are those that it was started with")
        async with self._changing:
            done = await run_in_threadpool(do, *given)
        await self.poll()
        return done

    async def explain(self) -> str:
        """Explain the queries: once for all requests between two batches, since the state may be large."""
        asked = self._updates
        async with self._explaining:
            if self._explained[0] < asked:
                begun = self._updates
                self._explained = begun, await run_in_threadpool(self.stream.explain)
            return self._explained[1]

    async def rank_of(self, name: str, id_: str, partition: str | None) -> Place:
        """Tell where an id stands: one request after the other, since what is kept may be large."""
        async with self._explaining:
            return await run_in_threadpool(self.stream.rank_of, self.known(name), id_, partition=partition)

    def known(self, name: str) -> str:
        """Return the name of a query that there is."""
        if name not in self.standings.boards:
            raise HTTPException(404, "there is no such query")
        return name

    def register(self, text: str, language: str) -> list[str]:
        """Serve the queries of a text, all or none; return their names."""
        queries = self._read(text, language)
        self.stream.register(*queries)
        return [query.name for query in queries]

    def plan(self, text: str, language: str) -> str:
        """Explain the queries of a text; refuse those that could not be registered."""
        return self.stream.plan(*self._read(text, language))

    def _read(self, text: str, language: str) -> list[Query]:
        return self.limits.admit(self.reading.read(text, language), len(self.standings.boards))
