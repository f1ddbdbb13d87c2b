"""A stream that is killed, fails or is started again goes on as if nothing had happened, or says why it cannot."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.engine import snapshot
from skyband.errors import InputError, SnapshotError
from skyband.spark import Files, Handle, start
from skyband.spark.checkpoint import FIXED, FORMAT, KEPT_STATES, Checkpoint
from tests.spark.jobs import Job, compare_outputs, standing
from tests.unit.test_checkpoint import sealed

pytestmark = pytest.mark.spark

BATCHES = 9
SHOWN = ["query", "window_start", "window_end", "rank", "id", "score", "time", "exact", "why", "provisional"]
_numbers = count()


@pytest.fixture(scope="module")
def job(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A stream that has come to its end, in the run "whole"."""
    job = Job(tmp_path_factory.mktemp("recovery"), "times", seed=7, batches=BATCHES)
    job.make()
    job.start(spark, "whole").awaitTermination()
    return job


@pytest.fixture
def run(job: Job) -> str:
    """Return the name of a copy of the run, to be worked on."""
    name = f"copy-{next(_numbers)}"
    shutil.copytree(job.folder / "whole", job.folder / name)
    return name


@pytest.fixture
def fresh(tmp_path: Path) -> Job:
    """A stream that has not begun, and is fed by the test."""
    job = Job(tmp_path / "job", "guesses", seed=8, batches=BATCHES)
    job.make()
    return job


def feed(job: Job, until: int) -> None:
    for number in range(until):
        job.feed(number)


def check_failure(handle: Handle, *texts: str) -> None:
    """Wait until a stream fails, and look for what its user reads then."""
    with pytest.raises(Exception, match="STREAM_FAILED") as caught:
        handle.awaitTermination()
    for text in texts:
        assert text in str(caught.value)
        assert text in str(handle.exception())


# Replayed batches.


def rewind(checkpoint: Path, batches: int, offsets: bool = True) -> None:
    """Let Spark forget that it has done the last batches, and also that it has begun all but the first of them."""
    done = sorted(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())[-batches:]
    forgotten = [("commits", batch) for batch in done]
    forgotten += [(folder, batch) for folder in ("offsets", "sources/0") for batch in done[1:]] if offsets else []
    for folder, batch in forgotten:
        (checkpoint / folder / str(batch)).unlink()
        (checkpoint / folder / f".{batch}.crc").unlink()


def states(checkpoint: Checkpoint) -> dict[int, Any]:
    """Return what is in all states, but for the seconds that were spent."""
    found = {}
    for batch in checkpoint.states():
        state = checkpoint.load(batch)
        meta, tables, groups = snapshot.decode(state.monitor)
        meta["stats"] |= {"push_seconds": 0, "answer_seconds": 0}
        found[batch] = (state.applied, state.declared, state.suspended, meta, tables, groups)
    return found


@pytest.mark.parametrize(("batches", "offsets"), [(1, True), (2, False), (2, True), (KEPT_STATES - 1, True)])
def test_a_replay_changes_nothing(batches: int, offsets: bool, job: Job, run: str, spark: Any) -> None:
    before = states(job.control(run).checkpoint)
    rewind(job.folder / run / "checkpoint", batches, offsets)
    handle = job.start(spark, run)
    handle.awaitTermination()
    replayed = [progress["batchId"] for progress in handle.recentProgress if progress["numInputRows"]]
    assert replayed == list(range(BATCHES - (batches if offsets else 1), BATCHES))
    compare_outputs(job.folder / "whole", job.folder / run)
    assert standing(job, run) == standing(job, "whole")
    assert states(handle.checkpoint) == before


def test_the_last_batch_is_replayed_where_commits_are_gone(job: Job, run: str, spark: Any) -> None:
    before = states(job.control(run).checkpoint)
    shutil.rmtree(job.folder / run / "checkpoint" / "commits")
    handle = job.start(spark, run)
    handle.awaitTermination()
    compare_outputs(job.folder / "whole", job.folder / run)
    assert standing(job, run) == standing(job, "whole")
    assert states(handle.checkpoint) == before


def test_a_replay_further_back_than_states_are_kept_is_refused(job: Job, run: str, spark: Any) -> None:
    rewind(job.folder / run / "checkpoint", KEPT_STATES)
    kept = ", ".join(str(batch) for batch in range(BATCHES - KEPT_STATES, BATCHES))
    text = (
        f"has no state of batch {BATCHES - KEPT_STATES - 1} (it has those of: {kept}); without it the answers would be"
    )
    check_failure(job.start(spark, run), "SnapshotError", text)


def test_a_sink_that_fails_is_written_again(fresh: Job, spark: Any) -> None:
    class Failing(Files):
        def write(self, answers: pa.Table, batch_id: int, session: Any) -> None:
            super().write(answers, batch_id, session)
            if batch_id == 4:
                raise OSError("the disk is full")

    folder = fresh.folder / "failed"
    for name in ("sink", "late", "rejected"):
        broken: Any = {name: Failing(folder / ("answers" if name == "sink" else name))}
        check_failure(fresh.start(spark, "failed", **broken), "OSError: the disk is full")
    fresh.start(spark, "failed").awaitTermination()
    fresh.start(spark, "whole").awaitTermination()
    compare_outputs(fresh.folder / "whole", folder)
    assert standing(fresh, "failed") == standing(fresh, "whole")


# Started again in another way.


def simulate(job: Job, changes: dict[int, Callable[[sb.Monitor], None]], delays: Sequence[int] = (2,) * BATCHES) -> Any:
    """Return the answers of a monitor that is pushed one file after the other, and changed in between."""
    monitor = sb.Monitor(job.queries(), time="ts", id="id")
    tables = []
    for number, delay in enumerate(delays):
        if number in changes:
            changes[number](monitor)
        files = sorted((job.folder / "events" / f"{number:04}").iterdir())
        parts = [monitor.push(pa.concat_tables([pq.read_table(file) for file in files]))]
        parts.append(monitor.advance(monitor.newest - delay * 1_000_000))
        tables += [part.table(quality=True) for part in parts if len(part)]
    return rows_of(tables)


def rows_of(tables: Sequence[pa.Table]) -> list[dict[str, Any]]:
    return [row for table in tables for row in table.select(SHOWN).to_pylist()]


def written(*folders: Path) -> list[dict[str, Any]]:
    files = sorted((file for folder in folders for file in folder.iterdir()), key=lambda file: file.name)
    return rows_of([pq.read_table(file) for file in files])


def test_the_list_of_queries_may_change(fresh: Job, spark: Any) -> None:
    low, top = (next(query for query in fresh.queries() if query.name == name) for name in ("low", "top"))
    more = sb.Query("top", k=7, score="price * v", window=sb.Window("4 seconds", slide="1 second"), select=("v",))
    new = sb.Query("new", k=2, score="v", window=sb.Window("2 seconds"), where="price < 50")
    first = fresh.queries()
    second = [more if query == top else query for query in first if query != low] + [new]
    handle = None
    for until, queries in ((4, first), (7, second), (BATCHES, first)):
        feed(fresh, until)
        handle = fresh.start(spark, "changed", "fed", queries=queries)
        handle.awaitTermination()
        states = {entry["name"]: entry["state"] for entry in handle.queries}
        assert states == {query.name: "active" for query in queries}

    def change(monitor: sb.Monitor) -> None:
        monitor.unregister("low")
        monitor.unregister("top")
        monitor.register(more)
        monitor.register(new)

    def change_back(monitor: sb.Monitor) -> None:
        monitor.unregister("new")
        monitor.unregister("top")
        monitor.register(top)
        monitor.register(low)

    found = written(fresh.folder / "changed" / "answers")
    assert by_query(found) == by_query(simulate(fresh, {4: change, 7: change_back}))
    steady = {"groups", "people", "soon"}
    assert all(row["exact"] for row in found if row["query"] in steady)
    whole = by_query(simulate(fresh, {}))
    assert {name: by_query(found)[name] for name in steady} == {name: whole[name] for name in steady}


def by_query(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["query"], []).append(row)
    return found


def test_a_query_that_came_by_itself_may_join_the_list(fresh: Job, spark: Any) -> None:
    extra = sb.Query("extra", k=2, score="v", window=sb.Window("2 seconds"))
    other = sb.Query("extra", k=3, score="v", window=sb.Window("2 seconds"))
    feed(fresh, 2)
    handle = fresh.start(spark, "joined", "fed")
    handle.awaitTermination()
    handle.register(extra)
    handle.unregister("low")
    feed(fresh, 3)
    fresh.start(spark, "joined", "fed").awaitTermination()
    for until, query in ((4, extra), (5, other)):
        feed(fresh, until)
        handle = fresh.start(spark, "joined", "fed", queries=[*fresh.queries(), query])
        handle.awaitTermination()
        listed = {entry["name"]: (entry["state"], entry["query"]) for entry in handle.queries}
        assert listed["extra"] == ("active", query.as_dict())
        assert "low" not in listed, "removed, and the list says nothing new about it"
        assert len(listed) == len(handle.queries)
    changed = sb.Query("low", k=1, score="v", window=sb.Window("2 seconds"))
    feed(fresh, 6)
    handle = fresh.start(spark, "joined", "fed", queries=[changed])
    handle.awaitTermination()
    assert [(entry["name"], entry["state"]) for entry in handle.queries] == [("low", "active")]


def test_sink_trigger_and_delay_may_change(fresh: Job, spark: Any) -> None:
    parts = [fresh.folder / "moved" / name for name in ("first", "second", "third")]
    feed(fresh, 4)
    fresh.start(spark, "moved", "fed", sink=parts[0]).awaitTermination()
    feed(fresh, 7)
    handle = fresh.start(
        spark, "moved", "fed", sink=Files(parts[1]), trigger={"processingTime": "0 seconds"}, watermark="5 seconds"
    )
    handle.processAllAvailable()
    handle.stop()
    feed(fresh, BATCHES)
    fresh.start(spark, "moved", "fed", sink=parts[2], watermark="0 seconds").awaitTermination()
    assert all(any(part.iterdir()) for part in parts)
    assert written(*parts) == simulate(fresh, {}, delays=[2] * 4 + [5] * 3 + [0] * 2)


def test_queries_with_absurdly_many_windows_are_suspended_and_the_rest_goes_on(tmp_path: Path, spark: Any) -> None:
    fine = sb.Query("fine", k=1, score="x", window=sb.Window("1000 days"))
    tiny = [sb.Query(f"tiny {i}", k=1, score=f"x + {i}", window=sb.Window(i + 1)) for i in range(2)]
    leaps = [0, 1, 40, 41, 80]  # years
    (tmp_path / "in").mkdir()

    def run() -> Handle:
        frame = spark.readStream.schema("t bigint, id bigint, x double").option("maxFilesPerTrigger", 1)
        handle = start(
            frame.parquet(str(tmp_path / "in")), [fine, *tiny], time="t", id="id", time_unit="s",
            watermark="0 seconds", sink=tmp_path / "out", checkpoint=tmp_path / "checkpoint",
            trigger={"availableNow": True}, max_window_ends=None, max_cuts=None, max_ahead=None,
        )  # fmt: skip
        handle.awaitTermination()
        return handle

    for number, years in enumerate(leaps):
        file = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(pa.table({"t": [years * 31_557_600], "id": [number], "x": [1.0]}), file)
        if number == 2:
            run()
    handle = run()
    assert {entry["name"]: entry["state"] for entry in handle.queries} == {
        "fine": "active", "tiny 0": "suspended", "tiny 1": "suspended",
    }  # fmt: skip
    assert [row["id"] for row in written(tmp_path / "out") if row["query"] == "fine"] == [1, 3]


# What is refused.

OTHERS: dict[str, dict[str, Any]] = {
    "the time column was 'ts', and now it is 'other'": {"time": "other"},
    "the id column was 'id', and now it is 'g'": {"id": "g"},
    "the type of the id column was 'string', and now it is 'int64'": {
        "schema": "ts timestamp, id bigint, price double, v bigint, g string"
    },
    "the algorithm was 'staircase', and now it is 'naive'": {"algorithm": "naive"},
    r"the algorithm was 'staircase', and now it is 'stkqf\(cells=4\)'": {"algorithm": "stkqf(cells=4)"},
}


@pytest.mark.parametrize("text", OTHERS)
def test_another_stream_is_refused(text: str, job: Job, run: str, spark: Any) -> None:
    changes = {"schema": "ts timestamp, other timestamp, id string, price double, v bigint, g string"} | OTHERS[text]
    with pytest.raises(InputError, match=text) as caught:
        job.start(spark, run, **changes)
    assert "what may be changed is the queries, the sinks, the trigger" in str(caught.value)
    job.start(spark, run).awaitTermination()
    assert standing(job, run) == standing(job, "whole")


@pytest.mark.parametrize("key", FIXED)
def test_what_a_stream_is_stays(key: str, tmp_path: Path) -> None:
    identity = dict.fromkeys(FIXED, "as it was")
    Checkpoint(tmp_path).open(identity, pa.schema([]), [])
    with pytest.raises(InputError, match=f"{FIXED[key]} was 'as it was', and now it is None"):
        Checkpoint(tmp_path).open(identity | {key: None}, pa.schema([]), [])
    Checkpoint(tmp_path).open(identity, pa.schema([]), [])


def test_the_checkpoint_of_a_stream_that_is_not_ours_is_refused(job: Job, spark: Any, tmp_path: Path) -> None:
    events = spark.readStream.schema("v bigint").parquet(str(job.folder / "events" / "*"))
    writer = events.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    writer.trigger(availableNow=True).start().awaitTermination()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="belongs to a stream that was not started by Skyband; choose an empty folder"):
        job.start(spark, "foreign", checkpoint=tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("text", ["s3a://bucket/checkpoint", "hdfs:///checkpoint", "dbfs:/checkpoint"])
def test_a_checkpoint_that_python_cannot_write_to_is_refused(text: str, job: Job, spark: Any) -> None:
    with pytest.raises(InputError, match=f"the checkpoint '{text}' is not on a file system that Python can write to"):
        job.start(spark, "elsewhere", checkpoint=text)


@pytest.mark.parametrize("form", ["file://{}", "file:{}"])
def test_a_checkpoint_may_be_a_url_of_a_folder(form: str, tmp_path: Path) -> None:
    assert Checkpoint(form.format(tmp_path)).folder == tmp_path


@pytest.mark.parametrize("place", ["", "checkpoint", "checkpoint/skyband"])
def test_a_file_in_the_place_of_the_folder_is_refused(place: str, job: Job, spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "job" / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("no folder")
    with pytest.raises(InputError, match=r"cannot use the checkpoint .* choose a folder you may write to"):
        job.start(spark, "nowhere", checkpoint=tmp_path / "job" / "checkpoint")


def flip(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


def of_format_99(content: bytes) -> bytes:
    return content[:8] + struct.pack("<I", 99) + content[12:]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "this snapshot is damaged": flip,
    "bytes do not match their checksum": lambda content: content[: len(content) // 2],
    "this is no Skyband snapshot": lambda _: b"",
    f"this snapshot has format 99; this version of Skyband reads format {snapshot.VERSION}": of_format_99,
}


@pytest.mark.parametrize("text", DAMAGE)
def test_a_damaged_state_is_refused(text: str, job: Job, run: str, spark: Any) -> None:
    folder = job.folder / run / "checkpoint"
    rewind(folder, 1)
    file = folder / "skyband" / "state" / f"{BATCHES - 2:012}"
    file.write_bytes(DAMAGE[text](file.read_bytes()))
    check_failure(job.start(spark, run), f"SnapshotError: state of batch {BATCHES - 2} in '{folder}': ", text)


def test_a_missing_state_is_refused(job: Job, run: str, spark: Any) -> None:
    folder = job.folder / run / "checkpoint"
    rewind(folder, 1)
    shutil.rmtree(folder / "skyband" / "state")
    check_failure(job.start(spark, run), f"has no state of batch {BATCHES - 2} (it has those of: none)")


def test_a_state_in_the_place_of_another_is_refused(job: Job, run: str, spark: Any) -> None:
    folder = job.folder / run / "checkpoint"
    rewind(folder, 1)
    states = folder / "skyband" / "state"
    shutil.copy(states / f"{BATCHES - 3:012}", states / f"{BATCHES - 2:012}")
    check_failure(
        job.start(spark, run), f"state of batch {BATCHES - 2} in", f"this is the state of batch {BATCHES - 3}"
    )


def test_a_stream_whose_offsets_are_gone_is_refused(job: Job, run: str, spark: Any) -> None:
    folder = job.folder / run / "checkpoint"
    for name in ("offsets", "commits"):
        shutil.rmtree(folder / name)
    before = sorted(folder.rglob("*"))
    with pytest.raises(InputError, match=r"Spark's part of it is gone .* would begin anew and repeat its answers"):
        job.start(spark, run)
    assert sorted(folder.rglob("*")) == before
    compare_outputs(job.folder / "whole", job.folder / run)


def test_a_stream_that_spark_begins_anew_is_refused(job: Job, run: str, spark: Any) -> None:
    folder = job.folder / run / "checkpoint"
    for name in ("offsets", "commits"):
        shutil.rmtree(folder / name)
    (folder / "offsets").mkdir()
    shutil.copy(job.folder / "whole" / "checkpoint" / "offsets" / "0", folder / "offsets")
    text = f"state of batch {BATCHES - 1}, and Spark begins again with batch 0, which would repeat the answers"
    check_failure(job.start(spark, run), text)
    compare_outputs(job.folder / "whole", job.folder / run)


@pytest.mark.parametrize("content", ["", "{", "\0\0\0", '"text"'])
def test_a_damaged_description_is_refused(content: str, job: Job, run: str, spark: Any) -> None:
    (job.folder / run / "checkpoint" / "skyband" / "stream.json").write_text(content)
    with pytest.raises(SnapshotError, match=r"stream.json' is damaged; restore the checkpoint from a backup"):
        job.start(spark, run)


def test_a_checkpoint_of_another_version_is_refused(job: Job, run: str, spark: Any) -> None:
    file = job.folder / run / "checkpoint" / "skyband" / "stream.json"
    file.write_bytes(sealed({"format": 99}))
    with pytest.raises(InputError, match=f"has format 99, and this version of Skyband writes format {FORMAT}"):
        job.start(spark, run)


@pytest.mark.parametrize("name", ["status.json", "latest"])
def test_what_is_only_shown_may_be_damaged(name: str, job: Job, run: str, spark: Any) -> None:
    rewind(job.folder / run / "checkpoint", 1)
    (job.folder / run / "checkpoint" / "skyband" / name).write_bytes(b"")
    handle = job.start(spark, run)
    handle.awaitTermination()
    compare_outputs(job.folder / "whole", job.folder / run)
    assert handle.answers("top").to_pylist() == job.control("whole").answers("top").to_pylist()
