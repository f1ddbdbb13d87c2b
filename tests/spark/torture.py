"""Kill a stream again and again, start it again, and compare what it leaves with a run that nobody disturbed.

``python -m tests.spark.torture --kills 200`` does so with one made-up stream after the other. A stream lives in a
child process, which runs this file too and is killed together with its JVM: at random moments, and at exact points
of a batch, where the child kills itself. In between, queries come and go. In the end the answers, the late and the
rejected rows must be the same, byte for byte.
"""

# ruff: noqa: T201 - a program that tells how it goes

from __future__ import annotations

import argparse
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb
from skyband.errors import InputError
from skyband.files.writers import Output, ParquetSheet
from skyband.spark import Control, Files, Handle, start
from skyband.spark.checkpoint import Checkpoint
from skyband.spark.loop import MicroBatchLoop
from skyband.spark.reducers import guesses, ranking

KINDS = ("times", "guesses", "counts", "joined")
SCHEMA = "ts timestamp, id string, price double, v bigint, g string"
SPAN = 4_000_000  # microseconds that a file covers
PATIENCE = 400  # seconds that a life may last at most


@dataclass(frozen=True)
class Job:
    """A made-up stream and what is asked of it: always the same for the same kind, seed and number of files.

    Parameters
    ----------
    folder
        Where its events are, and a folder for each run.
    kind
        ``"times"`` has time windows and a history, ``"counts"`` has count windows; ``"guesses"`` takes its batches
        for large ones, so that only rows that reach a threshold leave Spark, which a new process has to learn anew;
        ``"joined"`` joins with a service that always says the same.
    seed
        Of the events.
    files
        How many files there are; each is a batch.
    """

    folder: Path
    kind: str
    seed: int
    files: int

    def make(self) -> None:
        """Write the events, and a folder in which they are to appear one by one."""
        rng = np.random.default_rng(self.seed)
        for name in ("events", "fed"):
            (self.folder / name).mkdir(parents=True)
        for number in range(self.files):
            rows = 0 if number == 5 else int(rng.integers(300, 1500))
            pq.write_table(_events(rng, rows, number * SPAN), self._file("events", number))
            os.utime(self._file("events", number), (1_000_000_000 + number,) * 2)  # the order in which Spark takes them

    def feed(self, number: int) -> None:
        """Let a file appear, if it has not yet."""
        with suppress(FileExistsError):
            self._file("fed", number).hardlink_to(self._file("events", number))

    def _file(self, folder: str, number: int) -> Path:
        return self.folder / folder / f"{number:04}.parquet"

    def queries(self) -> list[sb.Query]:
        if self.kind == "joined":
            fans = sb.Join("fans", budget=5, n=5)
            drawn = sb.Join("fans", budget=4, policy="WSJ-RND")
            return [
                sb.Query("latest", k=5, score="price + fans", window=self._window(4, 1), select=("v",), join=fans),
                sb.Query(
                    "counts", k=4, score="10 * count(*) + fans", window=self._window(5, 2), join=drawn, emit="changes"
                ),
                sb.Query("people", k=4, score="max(v)", where="fans > 40", window=self._window(3, 3), join=drawn),
                sb.Query("groups", k=2, score="price", partition_by="g", window=self._window(3, 3)),
                sb.Query("sums", k=3, score="sum(v) - 2 * count(*)", group_by="g", window=self._window(4, 1)),
            ]
        return [
            sb.Query("top", k=5, score="price * v", window=self._window(4, 1), select=("v",)),
            sb.Query("groups", k=2, score="price", partition_by="g", window=self._window(3, 3)),
            sb.Query("people", k=4, score="price", distinct="best", emit="changes", window=self._window(5, 2)),
            sb.Query("low", k=3, score="v", order="asc", where="v > 50", distinct="latest", window=self._window(2, 2)),
            sb.Query("soon", k=1, score="price", where="g = 'p'", emit="early", window=self._window(6, 3)),
        ]

    def wishes(self) -> list[Callable[[Control], None]]:
        """Return what is asked for while the stream runs, one after the other."""
        deep = sb.Query("deep", k=9, score="price * v", window=self._window(8, 2), select=("v",))
        thirds = sb.Query("thirds", k=1, score="v", partition_by="v % 3", window=self._window(3, 1))
        people = sb.Query("people", k=2, score="price", distinct="latest", window=self._window(4, 2))
        return [
            lambda control: control.register(deep),
            lambda control: control.pause("groups"),
            lambda control: control.register(thirds),
            lambda control: control.resume("groups"),
            lambda control: control.unregister("people"),
            lambda control: control.register(people),
            lambda control: control.unregister("deep"),
        ]

    def _window(self, size: int, slide: int) -> sb.Window:
        if self.kind == "counts":
            return sb.Window(f"{size * 100} events", slide=f"{slide * 100} events")
        return sb.Window(f"{size} seconds", slide=f"{slide} seconds")

    def start(self, spark: Any, run: str, source: str = "events", schema: str = SCHEMA, **changes: Any) -> Handle:
        """Start the stream over the events, or over those that it is fed with; what is given changes how."""
        folder, events = self.folder / run, spark.read.schema(SCHEMA).parquet(str(self.folder / "events"))
        options: dict[str, Any] = {
            "queries": self.queries(),
            "time": "ts",
            "id": "id",
            "watermark": "2 seconds",
            "sink": Files(folder / "answers"),
            "late": Files(folder / "late"),
            "rejected": Files(folder / "rejected"),
            "checkpoint": folder / "checkpoint",
            "trigger": {"availableNow": True},
            "history": events if self.kind == "times" else None,
            "services": {"fans": sb.Remote(_fans, capacity=50)},
        }
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return start(reader.parquet(str(self.folder / source)), **(options | changes))

    def control(self, run: str) -> Control:
        return Control(self.folder / run / "checkpoint")


def _fans(ids: Sequence[int | str]) -> dict[int | str, float]:
    """Tell how many fans somebody has: always the same, so that whoever asks again is told the same."""
    return {name: float(int(str(name)[1:]) * 37 % 101) for name in ids}


def _events(rng: np.random.Generator, rows: int, begin: int) -> pa.Table:
    """Draw events: some late, some incomplete, many with the same score."""
    moment = begin + rng.integers(0, SPAN, rows)
    moment -= np.where(rng.random(rows) < 0.02, rng.integers(0, 5 * SPAN, rows), 0)
    price = np.where(rng.random(rows) < 0.01, np.nan, rng.integers(0, 1000, rows) / 10)
    lost = rng.random((3, rows)) < 0.005
    return pa.table(
        {
            "ts": pa.array(moment, mask=lost[0]).cast(pa.timestamp("us", "UTC")),
            "id": pa.array(np.array([f"s{i}" for i in rng.integers(0, 60, rows)], object), pa.string(), mask=lost[1]),
            "price": pa.array(price, mask=lost[2]),
            "v": rng.integers(0, 100, rows),
            "g": pa.array([[None, "p", "q", "r"][i] for i in rng.integers(0, 4, rows)], pa.string()),
        }
    )


def session(folder: Path, *java_options: str) -> Any:
    """Return a small local session that starts fast, and leaves nothing outside the folder when it is killed."""
    from pyspark.sql import SparkSession

    folder.mkdir(parents=True, exist_ok=True)
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", f"-Djava.io.tmpdir={folder}"]
    settings = {
        "spark.driver.extraJavaOptions": " ".join([*options, *java_options]),
        "spark.driver.memory": "512m",
        "spark.local.dir": str(folder),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = SparkSession.builder.master("local[2]").appName("torture").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


# The child: one life of a stream.


@dataclass(frozen=True)
class Point:
    """A moment in a batch: when some call of a method begins, ends or is halfway."""

    owner: type
    method: str
    when: str
    among: Callable[..., bool] = lambda *_: True


def _of(name: str) -> Callable[..., bool]:
    """Choose the files of a checkpoint that have a name, or are in a folder with it."""
    return lambda _, file, *__: name in (file.name, file.parent.name)


POINTS = {
    "before anything": Point(MicroBatchLoop, "__call__", "begins"),
    "in the middle of the plan": Point(Checkpoint, "_write", "halfway", _of("planned")),
    "after the plan": Point(Checkpoint, "plan", "ends"),
    "after reading": Point(ranking.RankingReducer, "read", "ends"),
    "in the middle of a sink's file": Point(ParquetSheet, "close", "begins"),
    "before a sink's file gets its name": Point(Output, "keep", "begins"),
    "between two sinks": Point(Files, "write", "ends", lambda sink, *_: sink.folder.name == "answers"),
    "after the sinks, before the state": Point(Checkpoint, "save", "begins"),
    "in the middle of the state": Point(Checkpoint, "_write", "halfway", _of("state")),
    "after the state, before old ones go": Point(Checkpoint, "_write", "ends", _of("state")),
    "after the state, before the status": Point(Checkpoint, "save", "ends"),
    "between latest answers and status": Point(Checkpoint, "_write", "begins", _of("status.json")),
    "after the batch, before Spark's commit": Point(MicroBatchLoop, "__call__", "ends"),
}


def arm(point: Point, nth: int) -> None:
    """Let this process kill itself and its JVM when it comes to a point for the n-th time."""
    method, count = getattr(point.owner, point.method), 0

    @functools.wraps(method)
    def armed(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        mine = point.among(*args)
        count += mine
        if mine and count == nth and point.when != "ends":
            if point.when == "halfway":
                _, file, content = args
                file.parent.mkdir(parents=True, exist_ok=True)
                file.with_name(f".{file.name}.draft").write_bytes(content[: len(content) // 2])
            _die()
        result = method(*args, **kwargs)
        if mine and count == nth:
            _die()
        return result

    setattr(point.owner, point.method, armed)


def _die() -> None:
    assert os.getpgid(0) == os.getpid(), "there may be others in this process group"
    os.killpg(0, signal.SIGKILL)


def _die_with_parent() -> None:
    sys.stdin.read()  # ends when the parent does
    _die()


def live(given: argparse.Namespace) -> None:
    """Live until the stream's end, or until killed; tell each batch, and up to which command it takes in."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    job = Job(given.folder, given.kind, given.seed, given.files)
    flag = "-XX:ArchiveClassesAtExit" if given.make_archive else "-XX:SharedArchiveFile"
    spark = session(job.folder / "spark", *([f"{flag}={given.archive}", "-Xlog:disable"] if given.archive else []))
    plan = Checkpoint.plan

    def told(self: Checkpoint, batch: int) -> int:
        upto = plan(self, batch)
        print("batch", batch, upto, flush=True)
        return upto

    with mock.patch.object(Checkpoint, "plan", told):
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

    A file of input appears only when the batch of the one before has begun. Else batches would be cut differently
    after some kills: where Spark's file source has noted its next file, but Spark has not begun the batch, one more
    file is added to it.

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
            if len(self.planned) == self.job.files:
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
                if (point is None and seen == batches) or batch == self.job.files - 1:
                    if ask:
                        self._ask()
                    time.sleep(delay)
                    child.kill(alone)
        assert child.code == -signal.SIGKILL, f"the stream ended with {child.code}:\n{child.log()}"
        return point if point is not None and not child.killed else "at random"

    def finish(self) -> None:
        """Let the stream come to its end."""
        for number in range(self.job.files):
            self.job.feed(number)
        with _Child(self.job, "killed", self.archive, ["--source", "fed", "--now"]) as child:
            for _ in self._batches(child):
                pass
        assert child.code == 0, f"the stream ended with {child.code}:\n{child.log()}"

    def _batches(self, child: _Child) -> Iterator[int]:
        """Yield the batches as they begin, and feed the stream."""
        before = None
        for batch, upto in child.batches():
            assert self.planned.setdefault(batch, upto) == upto, f"batch {batch} takes in other commands than before"
            if batch + 1 < self.job.files:
                self.job.feed(batch + 1)
            now = time.monotonic()
            if before is not None:
                self._pace = 0.8 * self._pace + 0.2 * (now - before)
            before = now
            yield batch

    def _ask(self) -> None:
        """Ask for the next change of the queries."""
        wishes = self.job.wishes()
        with suppress(InputError):  # killed before there was a checkpoint
            control = self.job.control("killed")
            if self.asked < len(wishes):
                wishes[self.asked](control)
                self.asked += 1

    def compare(self, spark: Any) -> None:
        """Run the stream once more, undisturbed and with the same commands in each batch, and compare."""
        commands = self.job.control("killed").checkpoint.commands(after=0)
        plan, planned = Checkpoint.plan, self.planned

        def as_before(self: Checkpoint, batch: int) -> int:
            done = len(self.commands(after=0))
            for command in commands[done : planned[batch]]:
                self.submit(command)
            return plan(self, batch)

        with mock.patch.object(Checkpoint, "plan", as_before):
            self.job.start(spark, "whole").awaitTermination()
        killed, whole = self.job.folder / "killed", self.job.folder / "whole"
        compare_outputs(whole, killed)
        assert standing(self.job.control("killed")) == standing(self.job.control("whole"))
        drafts = list((killed / "checkpoint" / "skyband").rglob(".*"))
        assert not drafts, f"left behind: {drafts}"


class _Child:
    """A process that runs a stream, and everything in its process group."""

    def __init__(self, job: Job, run: str, archive: Path | None, more: Sequence[str] = ()) -> None:
        self.killed, self.stuck, self.code = False, False, 0
        self._log, self._scratch = job.folder / "log", job.folder / "scratch"
        what = [job.folder, job.kind, job.seed, job.files, run]
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
    job, archive = Job(folder, "guesses", seed=0, files=4), folder / "classes.jsa"
    job.make()
    with _Child(job, "rehearsal", archive, ["--make-archive", "--now"]) as child:
        list(child.batches())
    assert child.code == 0, f"the stream ended with {child.code}:\n{child.log()}"
    return archive if archive.exists() else None


def compare_outputs(expected: Path, found: Path) -> None:
    """Compare all files that two runs have written, byte for byte."""
    for kind in ("answers", "late", "rejected"):
        names = sorted(path.name for path in (expected / kind).glob("*"))  # count windows have no late rows
        assert sorted(path.name for path in (found / kind).glob("*")) == names, f"{found / kind} has other files"
        for name in names:
            if (expected / kind / name).read_bytes() != (found / kind / name).read_bytes():
                right, wrong = (pq.read_table(run / kind / name) for run in (expected, found))
                raise AssertionError(f"{found / kind / name} differs\nexpected {right}\nfound {wrong}")


def standing(control: Control) -> dict[str, Any]:
    """Return how things stand, but for what depends on the clock and on how often the process was new."""
    status, states = control.checkpoint.status(), control.checkpoint.states()
    left = sb.Monitor.restore(control.checkpoint.load(states[-1]).monitor, services={"fans": _fans}).finish()
    counted = ("batchId", "late", "partlyLate", "rejected", "answers", "answerRows", "watermark")
    return {
        "states": states,
        "status": {key: value for key, value in status.items() if key != "progress"},
        "progress": [{key: entry[key] for key in counted} for entry in control.progress],
        "queries": control.queries,
        "answers": {entry["name"]: control.answers(entry["name"]).to_pylist() for entry in control.queries},
        "open": left.table(quality=True).to_pylist(),
    }


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
        job = Job(folder / str(turn), KINDS[turn % len(KINDS)], int(rng.integers(1 << 31)), files=30)
        job.make()
        points = [choice for point in rng.permutation(list(POINTS)).tolist() for choice in (point, None)]
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


def child() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("seed", type=int)
    parser.add_argument("files", type=int)
    parser.add_argument("run")
    parser.add_argument("--source", default="events")
    parser.add_argument("--now", action="store_true")
    parser.add_argument("--point", choices=POINTS)
    parser.add_argument("--nth", type=int, default=1)
    parser.add_argument("--archive")
    parser.add_argument("--make-archive", action="store_true")
    live(parser.parse_args(sys.argv[2:]))


if __name__ == "__main__":
    child() if sys.argv[1:2] == ["live"] else main()
