"""Faults: where a process kills itself, by the steps of its writes and by the calls of its loop."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skyband.files import durable
from skyband.files.writers import Output
from skyband.spark import Files
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.loop import MicroBatchLoop
from skyband.spark.reducers import ranking
from tests.spark.jobs import KINDS


@dataclass(frozen=True)
class Point:
    """A moment in a batch: when some call of a method begins or ends."""

    owner: type
    method: str
    when: str
    among: Callable[..., bool] = lambda *_: True


@dataclass(frozen=True)
class Step:
    """A step of a durable write, by what it does and to which files: before it, after it, or when it is half done."""

    what: str
    place: str
    when: str

    def matches(self, what: str, args: Sequence[Any]) -> bool:
        return what == self.what and (not self.place or any(self.place in str(a) for a in args if isinstance(a, Path)))


SINK: dict[str, Point | Step] = {
    "in the middle of a sink's file": Point(Output, "_end", "begins"),
    "before a sink's file gets its name": Step("rename", "/answers/", "before"),
    "after a sink's file has its name": Step("rename", "/answers/", "after"),
}
LOOP: dict[str, Point | Step] = {
    "before anything": Point(MicroBatchLoop, "__call__", "begins"),
    "in the middle of the status": Step("write", "/.status.json", "torn"),
    "after the batch, before Spark's commit": Point(MicroBatchLoop, "__call__", "ends"),
}
CHECKPOINT: dict[str, Point | Step] = {
    "in the middle of the plan": Step("write", "/planned/", "torn"),
    "after the plan": Point(Checkpoint, "plan", "ends"),
    "after the sinks, before the state": Point(Checkpoint, "save", "begins"),
    "in the middle of the state": Step("write", "/state/", "torn"),
    "before the state gets its name": Step("rename", "/state/", "before"),
    "after the state, before old ones go": Step("rename", "/state/", "after"),
    "after the state, before the status": Point(Checkpoint, "save", "ends"),
}
DRIVER: dict[str, Point | Step] = {
    "after reading": Point(ranking.RankingReducer, "reduce", "ends"),
    "between two sinks": Point(Files, "write", "ends", lambda sink, *_: sink.folder.name == "answers"),
    "between latest answers and status": Step("rename", "/latest", "after"),
}
SQL: dict[str, Point | Step] = {
    "before a transaction": Step("execute", "", "before"),
    "in the middle of a transaction": Step("execute", "", "after"),
    "before a transaction is committed": Step("commit", "", "before"),
    "after a transaction": Step("commit", "", "after"),
}
KAFKA: dict[str, Point | Step] = {
    "in the middle of the messages": Step("send", "", "torn"),
    "after the messages": Step("send", "", "after"),
}
POINTS = LOOP | CHECKPOINT | SINK | DRIVER | SQL | KAFKA
POINTS_OF: dict[str, list[str]] = {
    **{kind: [*(LOOP | CHECKPOINT | SINK | DRIVER)] for kind in KINDS},
    "sql": [*(LOOP | CHECKPOINT | SQL)],
    "kafka": [*(LOOP | CHECKPOINT | KAFKA)],
    "executors": [*(LOOP | SINK)],
    "subscriptions": [*(LOOP | CHECKPOINT | SINK)],
}
ASKING: dict[str, Step] = {
    "in the middle of a command": Step("write", "/commands/", "torn"),
    "before a command gets its name": Step("link", "/commands/", "before"),
    "after a command has its name": Step("link", "/commands/", "after"),
}


def arm(point: Point | Step, nth: int) -> None:
    """Let this process kill itself and its JVM when it comes to a point for the n-th time."""
    if isinstance(point, Step):
        vars(durable)["step"] = _armed_step(point, nth)
        return
    setattr(point.owner, point.method, _armed_method(getattr(point.owner, point.method), point, nth))


def _armed_method(method: Callable[..., Any], point: Point, nth: int) -> Callable[..., Any]:
    count = 0

    @functools.wraps(method)
    def armed(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        mine = point.among(*args)
        count += mine
        if mine and count == nth and point.when != "ends":
            die()
        result = method(*args, **kwargs)
        if mine and count == nth:
            die()
        return result

    return armed


def _armed_step(point: Step, nth: int) -> Callable[..., Any]:
    count = 0

    def armed(what: str, action: Callable[..., Any], *args: Any) -> Any:
        nonlocal count
        mine = point.matches(what, args)
        count += mine
        if not mine or count != nth:
            return action(*args)
        if point.when == "torn":
            _tear(what, action, *args)
        elif point.when == "after":
            action(*args)
        return die()

    return armed


def _tear(what: str, action: Callable[..., Any], *args: Any) -> None:
    """Do half of a step."""
    if what == "write":
        path, content = args
        action(path, content[: len(content) // 2])
    else:
        messages, options = args
        action(messages.limit(messages.count() // 2), options)


def die() -> None:
    assert os.getpgid(0) == os.getpid(), "there may be others in this process group"
    os.killpg(0, signal.SIGKILL)
