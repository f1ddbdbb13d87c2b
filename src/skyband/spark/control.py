"""A stream seen from its checkpoint folder: look at it, and change its queries, from any process."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.answers.answer import Row
from skyband.answers.place import Place
from skyband.engine.limits import WindowLimits
from skyband.engine.monitor import Monitor
from skyband.engine.schema import check_names, text_ids, used_columns
from skyband.errors import InputError, QueryError, SkybandError
from skyband.events.batch import StreamColumns
from skyband.queries.query import Query
from skyband.remote.remote import Remote
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.heartbeat import Observer
from skyband.spark.notebook import Board, Shown, show
from skyband.spark.reducers.candidates import MOST_FILTERED
from skyband.times import read_moment


def check(
    query: Query, others: Sequence[Query], source: StreamColumns, schema: pa.Schema, services: Collection[str] = ()
) -> None:
    """Refuse a query that a stream with these columns and services cannot answer beside others."""
    used_columns([query], source, schema)
    if query.join is not None and query.join.service not in services:
        known = f"has {', '.join(map(repr, services))}" if services else "has none"
        msg = (
            f"the query joins with the service {query.join.service!r}, and the stream {known}; start the stream with "
            f"services={{{query.join.service!r}: …}}"
        )
        raise QueryError(msg, query.name)
    if any(other.window.counts != query.window.counts for other in others):
        kind, rest = ("counts events", "measure time") if query.window.counts else ("measures time", "count events")
        msg = (
            f"its window {kind} and those of the other queries {rest}, so their starts and ends do not go into one "
            "column; start a stream of its own for it"
        )
        raise QueryError(msg, query.name)


def check_ids(query: Query, others: Sequence[Query], source: StreamColumns, schema: pa.Schema) -> None:
    """Refuse a query that comes to a running stream with ids that do not go into its column of answers."""
    if others and text_ids([query], source, schema) and not text_ids(others, source, schema):
        by = ", ".join(str(key.expression) for key in query.group_keys)
        msg = (
            f"its ids, group_by {by}, are text, and those of the answers so far are whole numbers, which sinks have a "
            "column for; cast them in group_by, or start the stream with this query, so that all ids are text"
        )
        raise QueryError(msg, query.name)


def query_of(given: dict[str, Any]) -> Query:
    """Return a query of a command; whatever the command holds, it must not stop the stream."""
    try:
        return Query.from_dict(given)
    except SkybandError:
        raise
    except Exception as error:
        msg = f"it cannot be read: {error!r}"
        raise QueryError(msg, given["name"]) from error


def _check_known(name: str, known: Iterable[str]) -> None:
    """Refuse the name of a query that there is not."""
    if name not in (listed := list(known)):
        msg = f"there is no query {name!r}; there are {', '.join(map(repr, listed)) or 'none'}"
        raise QueryError(msg)


def _readable(given: Iterable[dict[str, Any]]) -> list[Query]:
    """Return those of some queries that can be read; the others will be suspended when their turn comes."""
    found = []
    for one in given:
        with suppress(SkybandError):
            found.append(query_of(one))
    return found


class Control:
    """The queries of a stream, which may run in another process.

    Changes are written into the checkpoint folder and are applied before the next micro-batch.

    Parameters
    ----------
    checkpoint
        The stream's checkpoint folder.
    """

    def __init__(self, checkpoint: str | os.PathLike[str] | Checkpoint) -> None:
        self.checkpoint = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
        self.observer = Observer(self.checkpoint)
        identity = self.checkpoint.identity
        self.source = StreamColumns(identity["time"], identity["id"], identity["time_unit"])
        if identity["placement"] == "subscriptions":
            msg = f"{str(self.checkpoint.folder)!r} belongs to a stream of subscriptions, which has no queries"
            raise InputError(msg)
        self.fixed = identity["placement"] == "executors"
        self._seen: tuple[object, Monitor] | None = None

    # Queries that come and go.

    def check(self, *queries: Query) -> None:
        """Refuse queries that cannot be served beside those there are."""
        self._changes()
        listed, schema = self.queries, self.checkpoint.schema()
        check_names(queries, [entry["name"] for entry in listed])
        others = _readable(entry["query"] for entry in listed if entry["state"] != "suspended")
        before = list(others)
        for query in queries:
            check(query, others, self.source, schema, self.checkpoint.services())
            check_ids(query, before, self.source, schema)
            others.append(query)
        WindowLimits(**self.checkpoint.limits()).check(queries, before)

    def register(self, *queries: Query) -> None:
        """Serve more queries from the next batch on: all of these, or none where one of them cannot be served."""
        self.check(*queries)
        for query in queries:
            self.checkpoint.submit({"do": "add", "query": query.as_dict()})

    def unregister(self, name: str) -> None:
        """Stop serving a query."""
        self._submit("remove", name)

    def pause(self, name: str) -> None:
        """Stop showing a query's answers; what its windows need is kept."""
        self._submit("pause", name)

    def resume(self, name: str) -> None:
        """Show a paused query's answers again, from its next window on, or serve one that was suspended."""
        self._submit("resume", name)

    def suspend(self, name: str) -> None:
        """Stop serving a query, but keep it: `resume` serves it again.

        Other changes wait for the next batch. This one also counts for a batch that is under way or begins again: where
        a query hangs or ends the stream, the batch is tried again without it.
        """
        self._submit("suspend", name)

    def _submit(self, what: str, name: str) -> None:
        self._changes()
        _check_known(name, (entry["name"] for entry in self.queries))
        self.checkpoint.submit({"do": what, "name": name})

    def _changes(self) -> None:
        if self.fixed:
            msg = (
                "with placement='executors' the queries are those that the stream is started with; stop it, and "
                "start it again with another list and the same checkpoint"
            )
            raise InputError(msg)

    # Looking at it.

    @property
    def queries(self) -> list[dict[str, Any]]:
        """The queries: `name`, `state` ("active", "paused", "waiting" for history, "pending", "suspended"), `query`.

        Where something went wrong there is an `error`; where there was an answer, its `latest` window; where a
        pause or resume waits for the next batch, it is `pending`.
        """
        status = self.checkpoint.status()
        listed = {entry["name"]: dict(entry) for entry in status.get("queries", [])}
        if not status:
            listed = {query["name"]: _pending(query) for query in self.checkpoint.declared()}
        for command in self.checkpoint.commands(after=status.get("applied", 0)):
            match command["do"]:
                case "add":
                    listed[command["query"]["name"]] = _pending(command["query"])
                case "remove":
                    listed.pop(command["name"], None)
                case what if what != "nothing":
                    name = command["query"]["name"] if "query" in command else command["name"]
                    if name in listed:
                        listed[name]["pending"] = what
        for name, window in status.get("windows", {}).items():
            if name in listed:
                listed[name]["latest"] = window
        return list(listed.values())

    @property
    def refused(self) -> dict[int, str]:
        """The last commands that could not be read, by their number, and why not."""
        return {int(number): error for number, error in self.checkpoint.status().get("refused", {}).items()}

    def answers(self, name: str | None = None) -> pa.Table:
        """Return a query's latest answer, or those of all; no rows where its last window was empty or none has ended.

        Parameters
        ----------
        name
            The query; all of them where it is left out.
        """
        known = {entry["name"]: entry.get("latest") for entry in self.queries}
        if name is not None:
            _check_known(name, known)
        latest = self.checkpoint.latest()
        if latest is None:
            return pa.table({"query": pa.array([], pa.string())})
        wanted = known if name is None else {name: known[name]}
        filled = [name for name, window in wanted.items() if window and window["rows"]]
        return latest.filter(pc.is_in(latest["query"], pa.array(filled, pa.string())))

    def rank_of(self, name: str, id: int | str, *, partition: Any = None) -> Place:  # noqa: A002 - the word for it
        """Tell where an id stands, who is just above and who just below; as of the last batch.

        As `skyband.Monitor.rank_of`, from the state in the checkpoint: in the current window, which is provisional. Of
        a query that joins, and with ``placement="executors"``, in its latest answer.

        Parameters
        ----------
        name
            The query.
        id
            The id. A text also names an integer that is written so.
        partition
            Of a query with partitions, which of them; where it is left out, that in which the id ranks best.
        """
        listed = {each["name"]: each for each in self.queries}
        _check_known(name, listed)
        entry = listed[name]
        if not self.fixed and "join" not in entry["query"] and entry["state"] in ("active", "paused", "waiting"):
            monitor = self._last_monitor()
            if monitor is not None:
                return monitor.rank_of(name, id, partition=partition)
        window = entry.get("latest")
        if window is None:
            return Place(name, id, "absent")
        table = self.answers(name).to_pylist()
        return Place.among(
            [Row.of(row) for row in table], name, id, partition=partition,
            start=read_moment(window["window_start"]), end=read_moment(window["window_end"]),
            exact=window["exact"], why=window["why"], provisional=any(row["provisional"] for row in table),
        )  # fmt: skip

    def _last_monitor(self) -> Monitor | None:
        """Return the monitor as of the last batch, read once for each; None before the first."""
        version = self.checkpoint.version()
        if self._seen is None or self._seen[0] != version:
            state = self.checkpoint.last()
            if state is None:
                return None
            unused = dict.fromkeys(self.checkpoint.services(), Remote(lambda _: {}))  # to look, none is asked
            self._seen = version, Monitor.restore(state.monitor, services=unused)
        return self._seen[1]

    def to_pandas(self, name: str | None = None) -> Any:
        """Return the same as `answers`, as a pandas DataFrame."""
        return self.answers(name).to_pandas()

    def show(self, *names: str, rows: int = 10, every: float = 1.0) -> Shown | None:
        """Show the latest answers: in a notebook as tables that follow the stream, elsewhere once, as text.

        Parameters
        ----------
        names
            Which queries; all of them where none is named.
        rows
            How many rows of each answer.
        every
            Seconds between two looks.

        Returns
        -------
        In a notebook, an object whose `stop` ends the display.
        """
        known = [entry["name"] for entry in self.queries]
        for name in names:
            _check_known(name, known)
        return show(Board(self, names, rows), every)

    @property
    def is_running(self) -> bool:
        """Whether the stream runs, by its signs of life in the checkpoint folder."""
        return self.observer.look() == "elsewhere"

    @property
    def progress(self) -> list[dict[str, Any]]:
        """What the last batches took: candidate rows, rereads, milliseconds by phase, state; oldest first."""
        return list(self.checkpoint.status().get("progress", []))

    def explain(self) -> str:
        """Say where the state is and why, which queries share what, and what is kept; as of the last batch."""
        last = self.progress[-1] if self.progress else {}
        placed = [f"{name}: {last[name]}" for name in ("placement", "advice") if name in last]
        if self.fixed:
            queries = [Query.from_dict(given) for given in self.checkpoint.declared()]
            said = Monitor(queries, algorithm=self.checkpoint.identity["algorithm"]).explain()
            return "\n".join([*placed, said])
        monitor = self._last_monitor()
        if monitor is None:
            return "nothing has been read yet"
        return "\n\n".join(["\n".join([*placed, monitor.explain()]), *_reduction(len(monitor.ranking_plans()))])


def _pending(query: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of a query that no batch has taken up yet."""
    return {"name": query["name"], "state": "pending", "query": query}


def _reduction(rankings: int) -> list[str]:
    """Say how Spark leaves out the rows that no ranking needs."""
    if not rankings:
        return []
    if rankings > MOST_FILTERED:
        return [f"{rankings} rankings, more than {MOST_FILTERED}: each task runs the core, and sends its candidates"]
    said = "1 ranking" if rankings == 1 else f"{rankings} rankings"
    return [f"{said}: Spark's filter compares rows with thresholds, for at most {MOST_FILTERED} rankings"]
