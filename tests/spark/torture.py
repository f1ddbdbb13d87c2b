"""Kill a stream again and again, start it again, and compare what it leaves with a run that nobody disturbed.

``python -m tests.spark.torture --kills 200`` does so with one made-up stream after the other. A stream lives in a
child process, which runs this file too and is killed together with its JVM: at random moments, and at exact points
of a batch, where the child kills itself. In between, queries come and go; processes that ask for them are killed too.
In the end the answers, the late and the rejected rows must be the same, byte for byte.
"""

# ruff: noqa: T201 - a program that tells how it goes

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from unittest import mock

import numpy as np

from skyband.errors import InputError
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.loop import MicroBatchLoop
from skyband.spark.reducers import guesses, ranking
from tests.spark.faults import ASKING, POINTS, POINTS_OF, arm, die
from tests.spark.jobs import KINDS, Job, compare_outputs, send, session, standing

PATIENCE = 400  # seconds that a life may last at most


# The child: one life of a stream.


def _die_with_parent() -> None:
    sys.stdin.read()  # ends when the parent does
    die()


def live(given: argparse.Namespace) -> None:
    """Live until the stream's end, or until killed; tell each batch, and up to which command it takes in."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    job = Job(given.folder, given.kind, given.seed, given.batches)
    flag = "-XX:ArchiveClassesAtExit" if given.make_archive else "-XX:SharedArchiveFile"
    spark = session(job.folder / "spark", *([f"{flag}={given.archive}", "-Xlog:disable"] if given.archive else []))
    plan, call = Checkpoint.plan, MicroBatchLoop.__call__

    def told(self: Checkpoint, batch: int, **settled: Any) -> dict[str, Any]:
        found = plan(self, batch, **settled)
        print("batch", batch, found["commands"], flush=True)
        return found

    def called(self: MicroBatchLoop, df: Any, batch: int) -> None:
        if not self.job.durable:  # nothing is planned
            print("batch", batch, 0, flush=True)
        call(self, df, batch)

    with (
        mock.patch.object(Checkpoint, "plan", told),
        mock.patch.object(MicroBatchLoop, "__call__", called),
        mock.patch("skyband.spark.sinks.kafka._send", send),
    ):
        if given.point is not None:
            arm(POINTS[given.point], given.nth)
        if job.kind == "guesses":
            for module in (ranking, guesses):
                vars(module).update(EVERY=4, SMALL=64)
            vars(guesses).update(FEW=4)
        endless: dict[str, Any] = {} if given.now else {"trigger": None}
        job.start(spark, given.run, given.source, **endless).awaitTermination()
    spark.stop()


# The parent: kills, and a comparison.


@dataclass
class Ordeal:
    """The lives of one stream.

    The files of a batch appear only when the batch before has begun. Else batches would be cut differently after some
    kills: where Spark's file source has noted its next files, but Spark has not begun the batch, more are added to it.

    Parameters
    ----------
    job
        The stream.
    rng
        Decides when it is killed.
    archive
        Classes that make a JVM start sooner, if any.
    """

    job: Job
    rng: np.random.Generator
    archive: Path | None = None
    planned: dict[int, int] = field(default_factory=dict)
    asked: int = 0
    _pace: float = 0.5

    def suffer(self, points: Sequence[str | None]) -> Iterator[str]:
        """Live and die at each of the points, None for a random moment, as long as there is input; yield where."""
        self.job.feed(0)
        for point in points:
            if len(self.planned) >= self.job.batches:
                break
            yield self._life(point)
            self._ask()  # mostly while a batch waits for its replay, which must not take it in

    def _life(self, point: str | None) -> str:
        """Start the stream and kill it; return where."""
        batches, delay = int(self.rng.integers(1, 4)), float(self.rng.uniform(0, 1.5 * self._pace))
        alone, ask = bool(self.rng.integers(4) == 0), bool(self.rng.integers(4) == 0)
        more = [] if point is None else ["--point", point, "--nth", str(self.rng.integers(1, 4))]
        with _Child(self.job, "killed", self.archive, ["--source", "fed", *more]) as child:
            for seen, batch in enumerate(self._batches(child), 1):
                if (point is None and seen == batches) or batch >= self.job.batches - 1:
                    if ask:
                        self._ask()
                    time.sleep(delay)
                    child.kill(alone)
        assert child.code == -signal.SIGKILL, f"the stream ended with {child.code}:\n{child.log()}"
        return point if point is not None and not child.killed else "at random"

    def finish(self) -> None:
        """Let the stream come to its end."""
        for batch in range(self.job.batches):
            self.job.feed(batch)
        with _Child(self.job, "killed", self.archive, ["--source", "fed", "--now"]) as child:
            for _ in self._batches(child):
                pass
        assert child.code == 0, f"the stream ended with {child.code}:\n{child.log()}"

    def _batches(self, child: _Child) -> Iterator[int]:
        """Yield the batches as they begin, and feed the stream."""
        before = None
        for batch, upto in child.batches():
            assert self.planned.setdefault(batch, upto) == upto, f"batch {batch} takes in other commands than before"
            if batch + 1 < self.job.batches:
                self.job.feed(batch + 1)
            now = time.monotonic()
            if before is not None:
                self._pace = 0.8 * self._pace + 0.2 * (now - before)
            before = now
            yield batch

    def _ask(self) -> None:
        """Ask for the next change of the queries, perhaps in a process that is killed while it asks."""
        wishes, killed = self.job.wishes(), bool(self.rng.integers(2))
        with suppress(InputError):  # killed before there was a checkpoint
            asked = self.job.asked_of("killed")
            if self.asked < len(wishes):
                before = len(asked.checkpoint.commands(after=0))
                if killed:
                    self._ask_and_die(str(self.rng.permutation(list(ASKING))[0]))
                else:
                    wishes[self.asked](asked)
                self.asked += len(asked.checkpoint.commands(after=0)) - before

    def _ask_and_die(self, point: str) -> None:
        job = self.job
        what = [job.folder, job.kind, job.seed, job.batches, "killed", self.asked, point]
        command = [sys.executable, "-m", "tests.spark.torture", "ask", *map(str, what)]
        code = subprocess.run(command, cwd=Path(__file__).parents[2], start_new_session=True, check=False).returncode
        assert code == -signal.SIGKILL, f"who asked ended with {code}"

    def compare(self, spark: Any) -> None:
        """Run the stream once more, undisturbed and with the same commands in each batch, and compare."""
        commands = Checkpoint(self.job.folder / "killed" / "checkpoint").commands(after=0)
        plan, planned = Checkpoint.plan, self.planned

        def as_before(self: Checkpoint, batch: int, **settled: Any) -> dict[str, Any]:
            done = len(self.commands(after=0))
            for command in commands[done : planned[batch]]:
                self.submit(command)
            return plan(self, batch, **settled)

        with (
            mock.patch.object(Checkpoint, "plan", as_before),
            mock.patch("skyband.spark.sinks.kafka._send", send),
        ):
            self.job.start(spark, "whole").awaitTermination()
        killed, whole = self.job.folder / "killed", self.job.folder / "whole"
        compare_outputs(whole, killed, self.job.kind)
        assert standing(self.job, "killed") == standing(self.job, "whole")
        drafts = [draft for draft in (killed / "checkpoint" / "skyband").rglob(".*") if draft.parent.name != "commands"]
        assert not drafts, f"left behind: {drafts}"  # those of killed processes that asked are removed after an hour


class _Child:
    """A process that runs a stream, and everything in its process group."""

    def __init__(self, job: Job, run: str, archive: Path | None, more: Sequence[str] = ()) -> None:
        self.killed, self.stuck, self.code = False, False, 0
        self._log, self._scratch = job.folder / "log", job.folder / "scratch"
        what = [job.folder, job.kind, job.seed, job.batches, run]
        classes = [] if archive is None else ["--archive", archive]
        self.command = [sys.executable, "-m", "tests.spark.torture", "live", *map(str, [*what, *classes, *more])]

    def __enter__(self) -> Self:
        self._scratch.mkdir(exist_ok=True)
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                start_new_session=True,
                cwd=Path(__file__).parents[2], env=os.environ | {"TMPDIR": str(self._scratch)},
            )  # fmt: skip
        self._watch = threading.Timer(PATIENCE, self._give_up)
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.cancel()
        if self.process.poll() is None:
            self.kill()
        self.code = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        assert not self.stuck, f"still there after {PATIENCE} seconds:\n{self.log()}"

    def batches(self) -> Iterator[tuple[int, int]]:
        """Yield each batch and up to which command it takes in, until the process and its JVM are gone."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("batch "):
                _, batch, upto = line.split()
                yield int(batch), int(upto)
        self.process.wait()

    def kill(self, alone: bool = False) -> None:
        """Kill the process together with its JVM, or alone: then the JVM finds out by itself."""
        self.killed = True
        if alone:
            self.process.kill()
        else:
            os.killpg(self.process.pid, signal.SIGKILL)

    def _give_up(self) -> None:
        self.stuck = True
        self.kill()

    def log(self) -> str:
        return self._log.read_text()[-4000:]


def rehearse(folder: Path) -> Path | None:
    """Run a short stream and keep the classes that its JVM has loaded: with them the next ones start much faster."""
    job, archive = Job(folder, "guesses", seed=0, batches=4), folder / "classes.jsa"
    job.make()
    with _Child(job, "rehearsal", archive, ["--make-archive", "--now"]) as child:
        list(child.batches())
    assert child.code == 0, f"the stream ended with {child.code}:\n{child.log()}"
    return archive if archive.exists() else None


def torture(kills: int, seed: int) -> None:
    """Kill streams so many times, and say how it goes."""
    folder, began = Path(tempfile.mkdtemp(prefix="torture-")), time.monotonic()
    done: list[str] = []
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    print(f"seed {seed}, {folder}")
    spark = session(folder / "spark")
    archive = rehearse(folder / "rehearsal")
    turn = 0
    while len(done) < kills:
        rng = np.random.default_rng([seed, turn])
        job = Job(folder / str(turn), KINDS[turn % len(KINDS)], int(rng.integers(1 << 31)), batches=30)
        job.make()
        points = [choice for point in rng.permutation(POINTS_OF[job.kind]).tolist() for choice in (point, None)]
        ordeal = Ordeal(job, rng, archive)
        for where in ordeal.suffer(points[: kills - len(done)]):
            done.append(where)
            print(f"{time.monotonic() - began:6.0f} s, {len(done)} kills, {len(ordeal.planned)} batches: {where}")
        ordeal.finish()
        ordeal.compare(spark)
        print(f"stream {turn} ({job.kind}) is the same after {ordeal.asked} changes of its queries")
        shutil.rmtree(job.folder)
        turn += 1
    spark.stop()
    shutil.rmtree(folder)
    print("\n".join(f"{done.count(point):5} {point}" for point in [*POINTS, "at random"]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill streams, and compare what they leave.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    given = parser.parse_args()
    torture(given.kills, given.seed)


def ask() -> None:
    """Ask for one change of the queries, and die where it is said."""
    folder, kind, seed, batches, run, wish, point = sys.argv[2:]
    job = Job(Path(folder), kind, int(seed), int(batches))
    arm(ASKING[point], 1)
    job.wishes()[int(wish)](job.asked_of(run))


def child() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("seed", type=int)
    parser.add_argument("batches", type=int)
    parser.add_argument("run")
    parser.add_argument("--source", default="events")
    parser.add_argument("--now", action="store_true")
    parser.add_argument("--point", choices=POINTS)
    parser.add_argument("--nth", type=int, default=1)
    parser.add_argument("--archive")
    parser.add_argument("--make-archive", action="store_true")
    live(parser.parse_args(sys.argv[2:]))


if __name__ == "__main__":
    {"live": child, "ask": ask}.get("".join(sys.argv[1:2]), main)()
