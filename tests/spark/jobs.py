"""Made-up streams to be killed: what is asked of them, how they are started, and how what they leave is compared."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb
from skyband.spark import Control, Files, Kafka, Sql, SubscriptionHandle, start, subscribe
from skyband.spark.checkpoint import Checkpoint

KINDS = ("times", "guesses", "counts", "joined", "sql", "kafka", "executors", "subscriptions")
SCHEMA = "ts timestamp, id string, price double, v bigint, g string"
SPAN = 4_000_000  # microseconds that the files of a batch cover
TOPIC = "topic.jsonl"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True)
class Job:
    """A made-up stream and what is asked of it: always the same for the same kind, seed and number of batches.

    Parameters
    ----------
    folder
        Where its events are, and a folder for each run.
    kind
        ``"times"`` has time windows and a history, ``"counts"`` has count windows; ``"guesses"`` takes its batches
        for large ones, so that only rows that reach a threshold leave Spark, which a new process has to learn anew;
        ``"joined"`` joins with a service that always says the same; ``"sql"`` and ``"kafka"`` write there;
        ``"executors"`` keeps its state in Spark's store; ``"subscriptions"`` has those.
    seed
        Of the events.
    batches
        How many there are.
    files
        Of each batch.
    """

    folder: Path
    kind: str
    seed: int
    batches: int
    files: int = 2

    def make(self) -> None:
        """Write the events, and a folder in which those of a batch are to appear at once."""
        # Executors: Spark runs batches without rows when it wants, so it is not always the same rows that are late.
        rng, late = np.random.default_rng(self.seed), 0.0 if self.kind == "executors" else 0.02
        for name in ("events", "fed"):
            (self.folder / name).mkdir(parents=True)
        for batch in range(self.batches):
            folder = self._folder("events", batch)
            folder.mkdir()
            for number in range(self.files):
                rows = 0 if batch == 5 else int(rng.integers(300, 1500)) // self.files
                file = folder / f"{number}.parquet"
                pq.write_table(_events(rng, rows, batch * SPAN, late), file)
                os.utime(
                    file, (1_000_000_000 + batch * self.files + number,) * 2
                )  # the order in which Spark takes them

    def feed(self, batch: int) -> None:
        """Let the files of a batch appear, if they have not yet: all at once, or batches would be cut differently."""
        waiting, target = self.folder / "waiting", self._folder("fed", batch)
        if target.exists():
            return
        waiting.mkdir()
        for file in self._folder("events", batch).iterdir():
            (waiting / file.name).hardlink_to(file)
        waiting.rename(target)

    def _folder(self, name: str, batch: int) -> Path:
        return self.folder / name / f"{batch:04}"

    def queries(self) -> list[sb.Query]:
        if self.kind == "executors":
            return [
                sb.Query("groups", k=2, score="price", partition_by="g", window=self._window(3, 3), select=("v",)),
                sb.Query("people", k=3, score="v", partition_by="g", distinct="best", window=self._window(4, 1)),
            ]
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

    def wishes(self) -> list[Callable[[Any], None]]:
        """Return what is asked for while the stream runs, one after the other."""
        if self.kind == "executors":
            return []
        if self.kind == "subscriptions":
            late = sb.Subscription("late", k=3, score=sb.Distance({"price": 10.0}), last="6 seconds", emit="changes")
            again = sb.Subscription("most", k=1, score=sb.WeightedSum({"v": 1.0}), last="3 seconds", emit="changes")
            return [
                lambda handle: handle.add(late),
                lambda handle: handle.remove("most"),
                lambda handle: handle.add(again),
                lambda handle: handle.remove("late"),
            ]
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

    def start(self, spark: Any, run: str, source: str = "events", schema: str = SCHEMA, **changes: Any) -> Any:
        """Start the stream over the events, or over those that it is fed with; return its handle."""
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", self.files)
        stream = reader.parquet(str(self.folder / source / "*"))
        spark.sparkContext.pythonExec = sys.executable  # executors need the package that is tested
        if self.kind == "subscriptions":
            return subscribe(stream, **(self._following(run) | changes))
        return start(stream, **(self._options(spark, run) | changes))

    def _following(self, run: str) -> dict[str, Any]:
        near = sb.Subscription("near", k=3, score=sb.Distance({"price": 50.0, "v": 50.0}), last="8 seconds")
        most = sb.Subscription("most", k=2, score=sb.WeightedSum({"price": 1.0}), last="5 seconds", emit="changes")
        folder = self.folder / run
        return {
            "subscriptions": [near, most], "time": "ts", "id": "id", "select": ("g",),
            "sink": Files(folder / "answers"), "checkpoint": folder / "checkpoint", "trigger": {"availableNow": True},
        }  # fmt: skip

    def _options(self, spark: Any, run: str) -> dict[str, Any]:
        folder, events = self.folder / run, spark.read.schema(SCHEMA).parquet(str(self.folder / "events" / "*"))
        sides: dict[str, Any] = {name: Files(folder / name) for name in ("answers", "late", "rejected")}
        if self.kind == "sql":
            folder.mkdir(exist_ok=True)
            sides = {name: Sql(f"sqlite:///{folder / 'answers.db'}", name) for name in sides}
        if self.kind == "kafka":
            sides["answers"] = Kafka(str(folder / TOPIC), "127.0.0.1:9")  # see `send`
        options: dict[str, Any] = {
            "queries": self.queries(), "time": "ts", "id": "id", "watermark": "2 seconds", "sink": sides.pop("answers"),
            "checkpoint": folder / "checkpoint", "trigger": {"availableNow": True},
        }  # fmt: skip
        if self.kind == "executors":
            spark.conf.set("spark.sql.streaming.stateStore.providerClass", _ROCKSDB)
            return options | {"placement": "executors"}
        services = {"fans": sb.Remote(_fans, capacity=50)}
        return options | sides | {"history": events if self.kind == "times" else None, "services": services}

    def control(self, run: str) -> Control:
        return Control(self.folder / run / "checkpoint")

    def asked_of(self, run: str) -> Any:
        """Return what takes wishes, from another process than the stream's."""
        if self.kind != "subscriptions":
            return self.control(run)
        checkpoint = Checkpoint(self.folder / run / "checkpoint")
        _ = checkpoint.identity
        return SubscriptionHandle(None, checkpoint)  # Spark's own handle is elsewhere


def send(messages: Any, options: dict[str, str]) -> None:
    """Append messages to a file, in place of a topic: in order, and again when they are sent again."""
    topic = Path(options["topic"])
    topic.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps([row["key"], row["value"]]) + "\n" for row in messages.toArrow().to_pylist()]
    with topic.open("ab", buffering=0) as out:
        out.write("".join(lines).encode())


def _fans(ids: Sequence[int | str]) -> dict[int | str, float]:
    """Tell how many fans somebody has: always the same, so that whoever asks again is told the same."""
    return {name: float(int(str(name)[1:]) * 37 % 101) for name in ids}


def _events(rng: np.random.Generator, rows: int, begin: int, late: float) -> pa.Table:
    """Draw events: some late, some incomplete, many with the same score."""
    moment = begin + rng.integers(0, SPAN, rows)
    moment -= np.where(rng.random(rows) < late, rng.integers(0, 5 * SPAN, rows), 0)
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


def compare_outputs(expected: Path, found: Path, kind: str = "times") -> None:
    """Compare everything that two runs have written: files byte for byte, tables and topics row by row."""
    if kind == "sql":
        for table in ("answers", "late", "rejected"):
            assert _rows(found, table) == _rows(expected, table), f"{table} of {found} differs"
        return
    if kind == "kafka":
        assert _told(found) == _told(expected), f"the topic of {found} differs"
    if kind == "executors":  # Spark runs batches without rows when it wants, so answers may be in other batches
        rows = [sorted(map(repr, _answers(run / "answers"))) for run in (expected, found)]
        assert rows[0] == rows[1], f"{found} has other answers"
        return
    for name in ("answers", "late", "rejected"):
        _compare_files(expected / name, found / name)


def _compare_files(expected: Path, found: Path) -> None:
    names = sorted(path.name for path in expected.glob("*"))  # count windows have no late rows
    assert sorted(path.name for path in found.glob("*")) == names, f"{found} has other files"
    for name in names:
        if (expected / name).read_bytes() != (found / name).read_bytes():
            right, wrong = (pq.read_table(run / name) for run in (expected, found))
            raise AssertionError(f"{found / name} differs\nexpected {right}\nfound {wrong}")


def _rows(run: Path, table: str) -> list[str]:
    connection = sqlite3.connect(run / "answers.db")
    with suppress(sqlite3.OperationalError):  # none has been written, so there is no table
        cursor = connection.execute(f'SELECT * FROM "{table}"')
        names = sorted(column[0] for column in cursor.description)
        found = [dict(zip((c[0] for c in cursor.description), row, strict=True)) for row in cursor]
        connection.close()
        return sorted(repr([(name, row[name]) for name in names]) for row in found)
    connection.close()
    return []


def _told(run: Path) -> dict[str, str]:
    """Return the last message of each key, as a compacted topic keeps it."""
    return dict(json.loads(line) for line in (run / TOPIC).read_text().splitlines())


def _answers(folder: Path) -> list[dict[str, Any]]:
    return [row for file in folder.glob("*") for row in pq.read_table(file).to_pylist()]


def standing(job: Job, run: str) -> dict[str, Any]:
    """Return how things stand, but for what depends on the clock and on how often the process was new."""
    if job.kind == "subscriptions":
        handle = job.asked_of(run)
        known = {name: one.as_dict() for name, one in handle.subscriptions.items()}
        return {"subscriptions": known, "top": {name: handle.top(name) for name in known}}
    control = job.control(run)
    answers = {entry["name"]: control.answers(entry["name"]).to_pylist() for entry in control.queries}
    if job.kind == "executors":
        return {
            "queries": control.queries,
            "answers": {name: sorted(map(repr, rows)) for name, rows in answers.items()},
        }
    status, states = control.checkpoint.status(), control.checkpoint.states()
    left = sb.Monitor.restore(control.checkpoint.load(states[-1]).monitor, services={"fans": _fans}).finish()
    counted = ("batchId", "late", "partlyLate", "rejected", "answers", "answerRows", "watermark")
    return {
        "states": states,
        "status": {key: value for key, value in status.items() if key != "progress"},
        "progress": [{key: entry[key] for key in counted} for entry in control.progress],
        "queries": control.queries,
        "answers": answers,
        "open": left.table(quality=True).to_pylist(),
    }
