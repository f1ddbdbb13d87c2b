"""A stream that answers queries, with its monitor on the driver."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.answers.answer import Answers
from skyband.answers.table import column_as_text, joined
from skyband.engine.intake import Ranking
from skyband.engine.monitor import Monitor
from skyband.engine.plans import PendingBackfill
from skyband.engine.schema import text_ids
from skyband.engine.snapshot import under
from skyband.errors import SkybandError
from skyband.events.ahead import ahead_time
from skyband.queries.query import Query
from skyband.spark import columns
from skyband.spark.checkpoint import State
from skyband.spark.control import check, check_ids, query_of
from skyband.spark.loop import ANSWERS, ASKED, Blamed, StreamJob, StreamSpec, datetime_of
from skyband.spark.reducers.base import BatchProgress
from skyband.spark.reducers.partials import PartialsReducer
from skyband.spark.reducers.ranking import RankingReducer
from skyband.spark.sinks import Sink
from skyband.windows import NEVER, watermark_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)
REFUSED = 20


class MonitorJob(StreamJob):
    """Takes batches into a monitor; queries come and go, and may be suspended.

    The stream was started with the `declared` queries; those that differ from the last start are changed.
    """

    monitor: Monitor

    def __init__(self, spec: StreamSpec, declared: Sequence[Query]) -> None:
        super().__init__(spec)
        self.declared = declared

    # Begin and continue.

    def resume(self, state: State | None) -> None:
        """Take up the state after the batch before; begin anew where there is none."""
        spec = self.spec
        self.side: dict[str, list[pa.RecordBatch]] = {"late": [], "rejected": []}
        given: dict[str, Any] = {
            "services": spec.services,
            "on_late": self.side["late"].append if spec.late else None,
            "on_rejected": self.side["rejected"].append if spec.rejected else None,
        }
        if state is None:
            self.monitor = self._empty((), **given)
            self.state = State(b"")
            for remote in spec.services.values():
                remote.gateway.resume()  # the first batch may be a replay, too
        else:
            self.monitor, self.state = Monitor.restore(state.monitor, **given), state
        self.whole = spec.late is not None or spec.rejected is not None
        self.ranking = RankingReducer(spec.source, spec.schema, spec.delay, self.whole)
        self.partials = PartialsReducer(spec.source, spec.schema)
        self._declare()

    def _empty(self, queries: Sequence[Query], **more: Any) -> Monitor:
        source, algorithm = self.spec.source, self.spec.algorithm
        return Monitor(queries, algorithm=algorithm, time=source.time, id=source.id, time_unit=source.time_unit, **more)

    def _declare(self) -> None:
        """Follow the list of queries that the stream is started with: what is new, gone or different in it."""
        before = {given["name"]: given for given in self.state.declared}
        now = {query.name: query.as_dict() for query in self.declared}
        for name in before.keys() - now.keys():
            self.apply({"do": "remove", "name": name}, {})
        known = {query.name: query.as_dict() for query in self.monitor.queries}
        known |= {name: found["query"] for name, found in self.state.suspended.items()}
        if self.monitor.newest == NEVER and not (before or known):  # else those that are gone were removed
            self._announce(self.declared)
            self.monitor.register(*self.declared)
        else:
            for name, given in now.items():
                if given not in (before.get(name), known.get(name)):
                    self.apply({"do": "change" if name in known else "add", "query": given}, {})
        self.state.declared = list(now.values())

    # Queries that come and go.

    def coming(self, commands: Sequence[dict[str, Any]]) -> set[str]:
        """Return the queries that are served, and those that come with some commands."""
        found = [one["query"]["name"] for one in commands if "query" in one]
        found += [one["name"] for one in commands if one["do"] == "resume"]
        found += [name for name, why in self.state.suspended.items() if why.get("retry")]
        return {*(query.name for query in self.monitor.queries), *found}

    def on_trial(self, suspended: Mapping[str, Any]) -> list[str]:
        """Return the served queries that have not proved themselves yet, the newest last."""
        return [name for name in self.state.trial if name not in suspended]

    def suspend(self, suspended: Blamed) -> None:
        """Serve some queries no longer; where all is well, serve one again that others may have been to blame for."""
        for name, blame in suspended.items():
            self._suspend(name, blame["error"])
        self.retried = None
        if 0 in self.state.trial.values() or any(blame["trial"] for blame in suspended.values()):
            return
        for name, found in self.state.suspended.items():
            if found.get("retry") and name not in suspended:
                found["retry"], self.retried = False, name
                self.apply({"do": "resume", "name": name}, {})
                return

    def apply(self, command: dict[str, Any], suspended: Mapping[str, Any]) -> None:
        """Follow a command; a query that cannot be served, or is to be `suspended`, is kept with the reason."""
        if command["do"] == "nothing":
            logger.warning("command %s is left out: %s", command["number"], command["error"])
            refused = self.state.refused | {str(command["number"]): command["error"]}
            self.state.refused = dict(list(refused.items())[-REFUSED:])
            return
        name = command["query"]["name"] if "query" in command else command["name"]
        if name in suspended and "query" in command:
            self._forget(name)
            self.state.suspended[name] = {"query": command["query"], "error": suspended[name]["error"]}
            return
        try:
            match command["do"]:
                case "add":
                    self._register(query_of(command["query"]))
                case "change":
                    query = query_of(command["query"])
                    self._remove(name)
                    self._register(query)
                case "suspend":
                    self._suspend(name, ASKED)
                case "resume" if name in self.state.suspended:
                    self._register(query_of(self.state.suspended[name]["query"]))
                case "remove":
                    self._remove(name)
                case "pause":
                    self.monitor.pause(name)
                case "resume":
                    self.monitor.resume(name)
        except SkybandError as error:
            logger.warning("query %r: %s", name, error)
            if "query" in command and not self._serves(name):  # by an earlier command
                self.state.suspended[name] = {"query": command["query"], "error": str(error)}
            elif name in self.state.suspended:
                self.state.suspended[name]["error"] = str(error)

    def _register(self, query: Query) -> None:
        check(query, self.monitor.queries, self.spec.source, self.spec.schema, self.spec.services)
        check_ids(query, [*self.declared, *self.monitor.queries], self.spec.source, self.spec.schema)
        self.spec.limits.check([query], self.monitor.queries)
        self.state.suspended.pop(query.name, None)
        self._announce([query])
        self.monitor.register(query, history=self.spec.history is not None)
        self.state.trial[query.name] = 0

    def _remove(self, name: str) -> None:
        self.shown.windows.pop(name, None)
        if self.state.suspended.pop(name, None) is None:
            self.monitor.unregister(name)
        self.state.trial.pop(name, None)

    def _suspend(self, name: str, error: str) -> None:
        """Stop serving a query, but keep it with the reason; nothing happens where it is not known."""
        served = {query.name: query for query in self.monitor.queries}
        if name in served:
            self._forget(name)
            self.state.suspended[name] = {"query": served[name].as_dict()}
        if name in self.state.suspended:
            self.state.suspended[name] |= {"error": error, "retry": False}

    def _forget(self, name: str) -> None:
        """Stop serving a query, if it is served."""
        if self._serves(name):
            self.monitor.unregister(name)
        self.state.trial.pop(name, None)

    def _serves(self, name: str) -> bool:
        return any(query.name == name for query in self.monitor.queries)

    def _announce(self, more: Sequence[Query] = ()) -> None:
        """Let the monitor know which columns it will be given, also for some more queries."""
        plain = [query for query in more if query.ranks_events]
        plans = self.monitor.ranking_plans()
        rankings = [*(plan.ranking for plan in plans), *(Ranking.of(query) for query in plain)]
        carried = [*(plan.outputs for plan in plans), *(query.carried for query in plain)]
        self.monitor.declare(columns.declared(self.spec.schema, rankings, [one for some in carried for one in some]))

    # One batch.

    def reduce(self, df: DataFrame, progress: BatchProgress) -> None:
        """Take the batch in: what may matter of it, where queries join or aggregate as partials, for side rows all."""
        self._before = self.monitor.stats()
        if self.whole and self.monitor.partials_plans():
            self._take_all(df, progress)
        else:
            self.ranking.reduce(df, self.monitor, progress)
            self.partials.reduce(df, self.monitor, progress)
        progress.ahead = self.monitor.stats().ahead - self._before.ahead

    def _take_all(self, df: DataFrame, progress: BatchProgress) -> None:
        progress.scans, limit = 1, progress.not_after
        with progress.phase("scan"):
            table = columns.collected(df)
        with progress.phase("push"):
            progress.candidate_rows = progress.input_rows = table.num_rows
            progress.ahead_at = None if limit is None else ahead_time(table, self.spec.source, limit)
            progress.answers = [self.monitor.push(table, not_after=limit)]

    def advance(self, df: DataFrame, batch_id: int, progress: BatchProgress) -> pa.Table | None:
        """Answer the windows that the batch closes, with what is known of the past and of services by now."""
        monitor, spec = self.monitor, self.spec
        for wanted in monitor.backfills() if spec.history is not None else ():
            monitor.fill(wanted.name, self._past(wanted, df.sparkSession) if wanted.low < wanted.high else [])
        for name, feed in spec.feeds.items():
            monitor.push_changes(name, feed.drain(batch_id), at=None if monitor.newest == NEVER else monitor.newest)
        progress.answers.append(monitor.advance(watermark_of(monitor.newest, spec.delay)))
        found = [part for part in progress.answers if len(part)]
        for part in found:
            self._note_latest(part.latest())
        if not found:
            return None
        table = joined([part.table(quality=True) for part in found])
        # Once the ids of one query are text, all are: sinks have one column for them.
        texts = text_ids([*self.declared, *monitor.queries], spec.source, spec.schema)
        return column_as_text(table, "id") if texts else table

    def _past(self, wanted: PendingBackfill, session: SparkSession) -> pa.Table:
        """Return the candidates among the events of an interval of the past."""
        spec, low, high = self.spec, wanted.low, wanted.high
        assert spec.history is not None
        past = spec.history(session, datetime_of(low), datetime_of(high))
        time = columns.event_time_sql(spec.source, spec.schema)
        past = past.where(f"{time} >= {low}L AND {time} < {high}L")
        return RankingReducer(spec.source, spec.schema).reduce(past, self._empty(wanted.queries)).rows

    def _note_latest(self, answers: Answers) -> None:
        """Keep each query's latest answer in view."""
        windows: dict[str, dict[str, Any]] = {}
        for answer in answers:
            windows[answer.query] = {
                "window_start": None if answer.start is None else str(answer.start), "window_end": str(answer.end),
                "rows": len(answer),
                "exact": answer.exact, "why": answer.why,
            }  # fmt: skip
            if answer.refreshes is not None:
                spent = {name: getattr(answer, name) for name in ("refreshes", "failures", "stale", "unknown")}
                windows[answer.query] |= spent
        self.shown.note(windows, answers.table(quality=True))

    def unrepeatable(self) -> dict[str, pa.Table] | None:
        """Return what the next changes are compared with, where sums may depend on the order in which Spark adds up."""
        sums = [one for plan in self.monitor.partials_plans() for one in plan.measures.values() if one.half]
        if self.whole or all(one.whole for one in sums):
            return None
        groups = [group for group in self.monitor.groups if group.takes == "partials"]
        return {f"{group.name}/{name}": table for group in groups for name, table in group.answers.state().items()}

    def repeat(self, told: dict[str, pa.Table]) -> pa.Table:
        """Return the answers that an earlier attempt told, of the queries that are served, and go on from them."""
        for group in self.monitor.groups:
            if group.takes == "partials" and (before := under(f"{group.name}/", told)):
                group.answers.load(before)
        answers = told[ANSWERS]
        served = pa.array([query.name for query in self.monitor.queries], pa.string())
        return answers.filter(pc.is_in(answers["query"], served))

    def side_rows(self) -> list[tuple[Sink | None, pa.Table]]:
        """Return the late and the rejected rows."""
        names, found = self.spec.schema.names, []
        for what, sink in (("late", self.spec.late), ("rejected", self.spec.rejected)):
            if rows := self.side[what]:
                found.append((sink, pa.Table.from_batches(rows).select(names)))
                rows.clear()
        return found

    def snapshot(self) -> bytes:
        """Return the monitor after the batch."""
        return self.monitor.snapshot()

    # How things stand.

    def report(self, batch_id: int, progress: BatchProgress) -> dict[str, Any]:  # noqa: ARG002 - for others
        """Return the batch's progress, and add up the totals."""
        monitor, stats, before = self.monitor, self.monitor.stats(), self._before
        counted = {"late": "late", "partlyLate": "partly_late", "rejected": "rejected", "ahead": "ahead"}
        self.shown.totals = {name: getattr(stats, count) for name, count in counted.items()}
        entry = {
            "scans": progress.scans,
            "candidateRows": progress.candidate_rows,
            "guessedThresholds": progress.guessed_thresholds,
            "rereads": progress.rereads,
            "contests": progress.contests,
            "discarded": progress.discarded,
            "reducedBy": progress.reduced_by,
            **{name: getattr(stats, count) - getattr(before, count) for name, count in counted.items()},
            "answers": sum(map(len, progress.answers)),
            "answerRows": stats.answer_rows - before.answer_rows,
            "kept": stats.kept,
            "keptLimit": stats.bound,
            "watermark": None if monitor.watermark is None else datetime_of(monitor.watermark).isoformat(),
        }
        if any(query.join is not None for query in monitor.queries):
            spent = [block.spent for part in progress.answers for block in part.blocks if block.spent is not None]
            entry["remote"] = {
                name: sum(int(getattr(one, name).sum()) for one in spent) for name in ("refreshes", "failures", "stale")
            }
        return entry

    def queries(self) -> list[dict[str, Any]]:
        """List the queries, and how each stands."""
        states = self.monitor.statuses()
        served = [{"name": q.name, "state": states[q.name], "query": q.as_dict()} for q in self.monitor.queries]
        return served + [{"name": name, "state": "suspended", **found} for name, found in self.state.suspended.items()]
