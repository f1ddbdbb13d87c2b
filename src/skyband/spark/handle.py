"""The handle of a running stream: StreamingQuery's words, and those for queries that come and go."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from skyband.answers.answer import Answers
from skyband.engine.monitor import Monitor
from skyband.errors import InputError
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.control import Control
from skyband.spark.heartbeat import Heartbeat
from skyband.spark.loop import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery


class Running:
    """StreamingQuery's words for a stream that is known by its checkpoint folder."""

    def __init__(self, query: StreamingQuery, checkpoint: Checkpoint) -> None:
        self.query, self.checkpoint = query, checkpoint
        self._heartbeat = Heartbeat(checkpoint, query)

    @property
    def id(self) -> str:
        """The stream's id, the same after every restart with its checkpoint."""
        return str(self.query.id)

    @property
    def runId(self) -> str:  # noqa: N802 - Spark's word
        """The id of this run."""
        return str(self.query.runId)

    @property
    def name(self) -> str | None:
        """The name that Spark shows."""
        return self.query.name  # type: ignore[no-any-return]

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's word
        """Whether the stream runs."""
        return bool(self.query.isActive)

    @property
    def is_running(self) -> bool:
        """Whether the stream runs."""
        return self.isActive

    @property
    def status(self) -> dict[str, Any]:
        """What it is doing, and what the last batch showed.

        Where most of it was rejected, why it is ``"degraded"``; where the state is and why, as ``"placement"``; where
        it should not be there, what to do, as ``"advice"``. Each is None where there is nothing to say.
        """
        ours = self.checkpoint.status()
        last: dict[str, Any] = next(reversed(ours.get("progress", [])), {})
        said = {name: last.get(name) for name in ("placement", "advice")}
        return dict(self.query.status) | {"degraded": ours.get("degraded"), **said}

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802 - Spark's word
        """Spark's progress of the last batches, each with ours under ``"skyband"``."""
        ours = {entry["batchId"]: entry for entry in self.checkpoint.status().get("progress", [])}
        spark = [json.loads(entry.json) for entry in self.query.recentProgress]
        return [entry | {"skyband": ours.get(entry["batchId"], {})} for entry in spark]

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's word
        """The progress of the last batch."""
        recent = self.recentProgress
        return recent[-1] if recent else None

    def exception(self) -> Exception | None:
        """Return what ended the stream, if something did."""
        return self.query.exception()  # type: ignore[no-any-return]

    def processAllAvailable(self) -> None:  # noqa: N802 - Spark's word
        """Wait until everything that is there now has been read."""
        self.query.processAllAvailable()

    def stop(self) -> None:
        """End the stream; started again with its checkpoint it goes on."""
        self.query.stop()
        self._ended()

    def _ended(self) -> None:
        self._heartbeat.stop()

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802 - Spark's word
        """Wait until the stream ends; raises what ended it."""
        try:
            return self.query.awaitTermination(timeout)  # type: ignore[no-any-return]
        finally:
            if not self.query.isActive:
                self._ended()


class Handle(Running, Control):
    """A stream that answers queries.

    It knows the stream by its checkpoint folder, as another process would; so it also works where Spark runs the
    stream elsewhere, and shows how things stand when the stream has stopped. `query` is Spark's own handle.
    """

    def __init__(self, query: StreamingQuery, stream: StreamSpec) -> None:
        Control.__init__(self, stream.checkpoint)
        Running.__init__(self, query, stream.checkpoint)
        self.stream = stream

    def _ended(self) -> None:
        for feed in self.stream.feeds.values():
            feed.stop()
        super()._ended()

    def finish(self) -> Answers:
        """Return the answers of all windows that are still open, as if the input had ended; changes nothing.

        For bounded input, once the stream has ended: the last windows have no later event that would close them. For
        joined queries services are asked, within their budgets; what they say is not kept.
        """
        if self.fixed:
            msg = "with placement='executors' windows are answered when the watermark passes them; there is no finish()"
            raise InputError(msg)
        state = self.checkpoint.last()
        if state is None:
            return Answers()
        return Monitor.restore(state.monitor, services=self.stream.services).finish()
