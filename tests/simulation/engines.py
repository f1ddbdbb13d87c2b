"""Everything that can play a history: the monitor, local runs, and on Spark streams and batches."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb
from skyband.spark.control import Control
from skyband.windows import NEVER
from tests.groups import rankings
from tests.simulation.histories import Ask, History, Step, table_of
from tests.simulation.truth import Row

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Seen:
    """One answer as a user sees it."""

    query: str
    start: int | None
    end: int
    rows: tuple[Row, ...] | None  # None: only changes are shown
    exact: bool
    why: str | None
    provisional: bool = False
    counts: bool = False
    changes: tuple[tuple[str, Row, int | None, int | None], ...] = ()
    part: Any = None  # where each partition is answered apart


@dataclass
class Outcome:
    """What an engine showed: answers by push, then those of the end; and what it counted."""

    answers: list[list[Seen]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


def row_of(row: sb.Row) -> Row:
    return (row.partition, row.rank, row.id, row.score, row.time, tuple(row.values.values()))  # type: ignore[return-value]


def seen(answers: Sequence[sb.Answer]) -> list[Seen]:
    return [
        Seen(
            a.query, a.start, a.end, tuple(map(row_of, a.rows)), a.exact, a.why, a.provisional,  # type: ignore[arg-type]
            a.block.counts,
            tuple((c.kind, row_of(c.row), c.previous_rank, c.rank) for c in a.changes),
        )
        for a in answers
    ]  # fmt: skip


# The monitor.


def play(history: History, algorithm: str, check: bool = True, new_process: bool = False) -> Outcome:
    """Play a history with a monitor; `new_process`: what follows the first restart, another process plays."""
    monitor = sb.Monitor(algorithm=algorithm, time="t", id="id")
    return go_on(monitor, history, history.steps, check, new_process)


def go_on(monitor: sb.Monitor, history: History, steps: Sequence[Step], check: bool, new_process: bool) -> Outcome:
    outcome = Outcome()
    monitor.declare(table_of((), history.text).schema)
    for place, step in enumerate(steps):
        if step.do == "restart":
            blob = monitor.snapshot()
            if new_process:
                rest = elsewhere(blob, history, steps[place + 1 :])
                return Outcome(outcome.answers + rest.answers, rest.counts)
            monitor = sb.Monitor.restore(blob)
        elif step.do == "push":
            answers = [*monitor.push(table_of(step.rows, history.text))]
            late = history.delay is not None and monitor.newest > NEVER
            answers += monitor.advance(monitor.newest - (history.delay or 0) if late else None)
            outcome.answers.append(seen(answers))
            if check:
                for group in rankings(monitor):
                    group.algorithm.check()
        else:
            change(monitor, step)
    outcome.answers.append(seen(monitor.finish()))
    stats = monitor.stats()
    outcome.counts = {name: getattr(stats, name) for name in ("rows", "rejected", "late", "partly_late")}
    return outcome


def change(monitor: sb.Monitor, step: Step) -> None:
    if step.ask is not None and step.do == "register":
        monitor.register(step.ask.query())
    elif step.ask is not None:
        monitor.change(step.ask.query())
    else:
        {"pause": monitor.pause, "resume": monitor.resume, "remove": monitor.unregister}[step.do](step.name)


def elsewhere(blob: bytes, history: History, steps: Sequence[Step]) -> Outcome:
    """Play the rest of a history in a new process, from a snapshot."""
    given = pickle.dumps((blob, history, tuple(steps)))
    run = subprocess.run(
        [sys.executable, "-m", "tests.simulation.elsewhere"], input=given, capture_output=True, cwd=ROOT, check=True
    )
    return pickle.loads(run.stdout)  # type: ignore[no-any-return]


# Local runs.


def run(history: History, algorithm: str) -> Outcome:
    """Play a history without changes by `sb.run`; answers come in one piece."""
    source = [table_of(rows, history.text) for rows in history.pushes()] or [table_of((), history.text)]
    queries = [ask.query() for ask in history.begun]
    running = sb.run(queries, source, time="t", id="id", watermark=history.delay, algorithm=algorithm)
    answers = seen(list(running))
    stats = running.monitor.stats()
    counts = {name: getattr(stats, name) for name in ("rows", "rejected", "late", "partly_late")}
    return Outcome([answers], counts)


# Spark.


class Tables:
    """A sink that keeps what each batch wrote."""

    def __init__(self) -> None:
        self.found: dict[int, pa.Table] = {}
        self.taken: set[int] = set()

    def write(self, answers: pa.Table, batch_id: int, session: Any) -> None:  # noqa: ARG002 - a sink's
        self.found[batch_id] = answers


def stream(history: History, session: Any, folder: Path, **options: Any) -> Outcome:
    """Play a history on Spark: a file for each push, a new start wherever something else happens in between."""
    sink, waiting = Tables(), 0
    queries = [ask.query() for ask in history.begun]
    (folder / "in").mkdir()
    steps = [*history.steps[len(queries) :], Step("restart")]
    for step in steps:
        if step.do == "push":
            write(folder / "in", table_of(step.rows, history.text))
            waiting += 1
            continue
        if waiting or not sink.found:
            follow(session, folder, queries, sink, history, options)
            waiting = 0
        if step.do != "restart":
            command(Control(folder / "checkpoint"), step)
    asks = {step.ask.name: step.ask for step in history.steps if step.ask is not None}
    batches = range(len(history.pushes()))
    counts = counted(Control(folder / "checkpoint"))
    return Outcome([shown(sink.found[n], asks) if n in sink.found else [] for n in batches], counts)


def spread(history: History, session: Any, folder: Path) -> Outcome:
    """Play a history with its state on the executors; a start with other queries wherever some come or go.

    A micro-batch shows what the ones before it closed, so its answers are those of the push before.
    """
    sink, asks, waiting = Tables(), {ask.name: ask for ask in history.begun}, 0
    answers: list[list[Seen]] = []
    begun = len(asks)
    (folder / "in").mkdir()
    for step in [*history.steps[begun:], Step("restart")]:
        if step.do == "push":
            write(folder / "in", table_of(step.rows, history.text))
            waiting += 1
            continue
        if waiting:
            queries = [ask.query() for ask in asks.values()]
            handle = follow(session, folder, queries, sink, history, {"placement": "executors"})
            before, after = len(answers), [entry["batchId"] for entry in handle.progress]
            answers += [[] for _ in range(waiting)]
            for place, number in enumerate(n for n in after if n not in sink.taken):
                sink.taken.add(number)
                if number in sink.found:
                    answers[max(before + place - 1, 0)] += shown(sink.found[number], asks, apart=True)
            waiting = 0
        if step.ask is not None:
            asks[step.ask.name] = step.ask
        elif step.do == "remove":
            del asks[step.name]
    return Outcome(answers, counted(Control(folder / "checkpoint")) if answers else {})


def counted(control: Control) -> dict[str, int]:
    """Return what the progress of all batches says."""
    names = {"rejected": "rejected", "late": "late", "partly_late": "partlyLate"}
    return {ours: sum(entry[theirs] for entry in control.progress) for ours, theirs in names.items()}


def write(folder: Path, table: pa.Table) -> None:
    number = len(list(folder.iterdir()))
    file = folder / f"{number:04}.parquet"
    pq.write_table(table, file)
    os.utime(file, (10**9 + number,) * 2)  # the order in which Spark takes them


def follow(
    session: Any, folder: Path, queries: list[sb.Query], sink: Tables, history: History, options: dict[str, Any]
) -> sb.spark.Handle:
    """Start the stream, and wait until it has read all there is."""
    schema = session.createDataFrame(table_of((), history.text)).schema
    df = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    handle = sb.spark.start(
        df, queries, time="t", id="id", watermark=history.delay, sink=sink, checkpoint=folder / "checkpoint",
        trigger={"availableNow": True}, **options,
    )  # fmt: skip
    handle.awaitTermination()
    return handle


def command(control: Control, step: Step) -> None:
    if step.ask is not None:
        control.register(step.ask.query())
    else:
        {"pause": control.pause, "resume": control.resume, "remove": control.unregister}[step.do](step.name)


def topk(history: History, session: Any) -> Outcome:
    """Play a history without changes as one batch DataFrame."""
    rows = tuple(row for part in history.pushes() for row in part)
    df = session.createDataFrame(table_of(rows, history.text))
    answers = []
    for ask in history.begun:
        answers += shown(sb.spark.topk(df, ask.query(), time="t", id="id").toArrow(), {ask.name: ask})
    return Outcome([sorted(answers, key=lambda answer: answer.end)], {})


def shown(table: pa.Table, asks: dict[str, Ask], apart: bool = False) -> list[Seen]:
    """Return the answers of a table, or those of each partition; windows without rows do not show."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    whole = {name: table[name].cast(pa.int64()) for name in ("window_start", "window_end", "time")}
    for name, column in whole.items():
        table = table.set_column(table.column_names.index(name), name, column)
    for row in table.to_pylist():
        part = _partition(row["partition"], asks[row["query"]]) if apart else None
        found.setdefault((row["query"], row["window_end"], row.get("provisional", False), part), []).append(row)
    answers = []
    for (query, end, provisional, part), rows in found.items():
        ask, first = asks[query], rows[0]
        if ask.ties is not None and ask.emit in ("final", "early"):  # ranks repeat, and a batch has no order
            parts = [_partition(r.get("partition"), ask) for r in rows]
            keys = [(p is not None, p or 0, r["unique_rank"]) for p, r in zip(parts, rows, strict=True)]
            rows = [rows[n] for n in sorted(range(len(rows)), key=keys.__getitem__)]
        made = [
            (
                _partition(r.get("partition"), ask),
                r["rank"] or r["previous_rank"],
                r["id"],
                r["score"],
                r["time"],
                tuple(r[c] for c in ask.select),
            )
            for r in rows
        ]
        changes = tuple(
            (r["change"], row, r["previous_rank"], r["rank"])
            for r, row in zip(rows, made, strict=True)
            if r.get("change") is not None
        )
        answers.append(
            Seen(
                query, first["window_start"], end, None if changes else tuple(made), first.get("exact", True),
                first.get("why"), provisional, ask.counts, changes, part,
            )
        )  # fmt: skip
    return answers


def _partition(value: Any, ask: Ask) -> Any:
    """Return a partition as it was: where those of several queries have different types, they are shown as text."""
    if not isinstance(value, str) or ask.partition_by in (None, "g"):
        return value
    return {"true": True, "false": False}[value] if ask.partition_by == "y > 0" else int(value)
