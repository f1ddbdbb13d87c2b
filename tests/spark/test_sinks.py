"""Sinks: each row once, whatever is replayed, and nothing half written."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.errors import InputError
from skyband.files import durable
from skyband.spark.sinks import Console, Files, Kafka, Memory, Sink, Sql, as_sink
from skyband.spark.sinks.base import deliver
from skyband.spark.sinks.kafka import records
from skyband.spark.sinks.memory import _BATCH, _merged
from skyband.spark.sinks.rows import UNPACKED, as_frame, keyed
from tests.spark import postgres

pytestmark = pytest.mark.spark

START = datetime(2024, 3, 10, 6, 59, 50, tzinfo=UTC)  # ten seconds before New York's clocks jump by an hour
END = START + timedelta(seconds=10)
ROWS = [
    {
        "t": START + timedelta(seconds=s, microseconds=s),
        "id": f"i{s % 7}",
        "x": float(s * 37 % 50),
        "venue": ("N", None, "B")[s % 3],
        "shard": s % 2,
    }
    for s in range(40)
]
TEN = sb.Window("10 seconds", slide="5 seconds")
BOARD = sb.Query("board", k=3, score="x", window=TEN)
GROUPS = sb.Query("groups", k=2, score="x", window=TEN, partition_by="venue", select=("venue",))
SHARDS = sb.Query("shards", k=2, score="x", window=TEN, partition_by="shard")
MOVES = sb.Query("moves", k=3, score="x", window=TEN, emit="changes", partition_by="shard")
SIDE = pa.table({"t": [START, None], "symbol": ["A", None], "price": [float("inf"), 2.5], "tags": [["a", "b"], None]})


def answered(*queries: sb.Query, rows: list[dict[str, Any]] = ROWS) -> pa.Table:
    monitor = sb.Monitor(queries, time="t", id="id")
    monitor.push(rows)
    return monitor.finish().table(quality=True)


def cut(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The answers of earlier and of later windows."""
    middle = START + timedelta(seconds=25)
    early = [end <= middle for end in table["window_end"].to_pylist()]
    return table.filter(pa.array(early)), table.filter(pa.array([not e for e in early]))


def facts(rows: list[dict[str, Any]]) -> Counter[tuple[str, ...]]:
    """What rows say, whatever a sink made of the types, and without what only some sinks add."""
    return Counter(
        tuple(
            f"{k}={_said(v)}" for k, v in sorted(row.items()) if v is not None and k not in ("batch_id", "row_number")
        )
        for row in rows
    )


def _said(value: Any) -> str:
    if isinstance(value, str):
        for read in (float, datetime.fromisoformat, json.loads):
            try:
                return _said(read(value))
            except ValueError:
                continue
    if isinstance(value, datetime):  # SQLite has no time zones
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    return str(float(value)) if isinstance(value, (int, float)) else str(value)


# What all sinks promise.


@dataclass
class Kept:
    sink: Sink
    rows: Callable[[], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if postgres.binaries() is None:
        pytest.skip("PostgreSQL's server is missing")
    pytest.importorskip("psycopg")
    with postgres.server() as url:
        yield url


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of the kind that the test is parametrised with."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'answers.db'}"
    import sqlalchemy as sa

    url: str = request.getfixturevalue("server")
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return url


databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


def selected(url: str, table: str = "answers") -> list[dict[str, Any]]:
    import sqlalchemy as sa

    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        known = sa.inspect(connection).get_columns(table)
        columns = [sa.Column(sa.quoted_name(column["name"], True), column["type"]) for column in known]
        found = sa.Table(sa.quoted_name(table, True), sa.MetaData(), *columns)
        return [dict(row) for row in connection.execute(sa.select(found)).mappings()]


def _csv(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="") as lines:
        return [{k: v if v != "" else None for k, v in row.items()} for row in csv.DictReader(lines)]


READ: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    "parquet": lambda path: pq.read_table(path).to_pylist(),
    "jsonl": lambda path: [json.loads(line) for line in path.read_text().splitlines()],
    "csv": _csv,
}


@pytest.fixture(params=["memory", "function", "parquet", "jsonl", "csv", "sqlite", "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path: Path, spark: Any) -> Kept:
    kind = request.param
    if kind == "memory":
        return Kept(Memory(), lambda: spark.sql("SELECT * FROM global_temp.answers").toArrow().to_pylist())
    if kind == "function":
        batches: dict[int, list[dict[str, Any]]] = {}

        def keep(df: Any, batch_id: int) -> None:
            batches[batch_id] = df.toArrow().to_pylist()

        sink = as_sink(keep)
        assert sink is not None
        return Kept(sink, lambda: [row for batch in batches.values() for row in batch])
    if kind in READ:
        folder = tmp_path / "answers"
        return Kept(
            Files(folder, format=kind), lambda: [r for path in sorted(folder.glob("*")) for r in READ[kind](path)]
        )
    url = f"sqlite:///{tmp_path / 'answers.db'}"
    if kind == "postgres":
        url = request.getfixturevalue("server")
        import sqlalchemy as sa

        with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
            connection.exec_driver_sql("DROP TABLE IF EXISTS answers")
    return Kept(Sql(url), lambda: selected(url))


def test_batches_add_up_and_replays_change_nothing(kept: Kept, spark: Any) -> None:
    first, second = cut(answered(BOARD, SHARDS))
    for batch, rows in ((0, first), (0, first), (1, second), (1, second)):
        kept.sink.write(rows, batch, spark)
    assert facts(kept.rows()) == facts([*first.to_pylist(), *second.to_pylist()])


def test_a_replay_with_other_rows_replaces(kept: Kept, spark: Any) -> None:
    first, second = cut(answered(BOARD, GROUPS))
    _, other = cut(answered(BOARD, GROUPS, rows=[row for row in ROWS if row["id"] != "i3"][::2]))
    windows = second.group_by(["query", "window_end"]).aggregate([])
    assert windows.equals(other.group_by(["query", "window_end"]).aggregate([]))
    assert len(other) < len(second)
    for batch, rows in ((3, first), (4, second), (4, other)):
        kept.sink.write(rows, batch, spark)
    assert facts(kept.rows()) == facts([*first.to_pylist(), *other.to_pylist()])


def test_ranks_that_repeat_are_replayed_and_replaced(kept: Kept, spark: Any) -> None:
    level = [{**row, "x": float(n * 37 % 50 % 3)} for n, row in enumerate(ROWS)]
    tied = [sb.Query(emit, k=2, score="x", window=TEN, ties="dense", emit=emit) for emit in ("final", "changes")]
    before, (early, late) = answered(SHARDS), cut(answered(*tied, BOARD, rows=level))  # the first without the column
    for batch, rows in ((0, before), (1, early), (1, early), (2, late), (2, late)):
        kept.sink.write(rows, batch, spark)
    assert facts(kept.rows()) == facts([*before.to_pylist(), *early.to_pylist(), *late.to_pylist()])


def test_columns_come_and_go(kept: Kept, spark: Any) -> None:
    plain, grouped, numbered, moves = answered(BOARD), answered(GROUPS), answered(SHARDS), answered(MOVES)
    again = answered(sb.Query("again", k=1, score="50 - x", window=TEN))
    tables = (plain, numbered, grouped, moves, again)
    for batch, rows in enumerate(tables):
        kept.sink.write(rows, batch, spark)
    kept.sink.write(moves, 3, spark)
    assert facts(kept.rows()) == facts([row for table in tables for row in table.to_pylist()])


def test_changes_of_a_window_are_replaced_together(kept: Kept, spark: Any) -> None:
    moves = answered(MOVES)
    assert {"left", "entered", "moved"} <= set(moves["change"].to_pylist())
    for _ in range(2):
        kept.sink.write(moves, 0, spark)
    assert facts(kept.rows()) == facts(moves.to_pylist())


def test_side_rows_have_the_columns_of_the_stream(kept: Kept, spark: Any) -> None:
    for batch, rows in ((2, SIDE), (3, SIDE), (3, SIDE.slice(1))):
        kept.sink.write(rows, batch, spark)
    assert facts(kept.rows()) == facts([*SIDE.to_pylist(), *SIDE.slice(1).to_pylist()])


def test_a_sink_can_be_sent_elsewhere_before_its_first_use(kept: Kept, spark: Any) -> None:
    from pyspark import cloudpickle

    if not hasattr(kept.sink, "function"):  # that one's batches are here
        kept.sink = cloudpickle.loads(cloudpickle.dumps(kept.sink))
    rows = answered(BOARD)
    kept.sink.write(rows, 0, spark)
    assert facts(kept.rows()) == facts(rows.to_pylist())


def test_a_batch_without_rows_leaves_the_others(kept: Kept, spark: Any) -> None:
    first, second = cut(answered(BOARD))
    for batch, rows in ((0, first), (1, second.slice(0, 0)), (2, pa.table({"query": pa.array([], pa.string())}))):
        kept.sink.write(rows, batch, spark)
    assert facts(kept.rows()) == facts(first.to_pylist())


def test_empty_chunks_hide_no_rows(kept: Kept, spark: Any) -> None:
    first, second = cut(answered(BOARD))
    none = first.slice(0, 0)
    kept.sink.write(pa.concat_tables([none, none, first, none, second]), 0, spark)
    assert facts(kept.rows()) == facts([*first.to_pylist(), *second.to_pylist()])


# What may be given for a sink.


def test_words_folders_and_functions_are_sinks(tmp_path: Path) -> None:
    assert as_sink(None) is None
    assert repr(as_sink("memory")) == "Memory('answers', batches=1000)"
    assert repr(as_sink("memory", "late")) == "Memory('late', batches=1000)"
    assert isinstance(as_sink("console"), Console)
    assert repr(as_sink(tmp_path)) == repr(as_sink(f"{tmp_path}/")) == f"Files('{tmp_path}', format='parquet')"
    files = Files("answers", format="csv")
    assert as_sink(files) is files
    assert as_sink(lambda df, batch_id: (df, batch_id)) is not None


@pytest.mark.parametrize(
    "given",
    [5, {"url": "secret"}, sys.stdout, lambda df: df, b"folder"],
    ids=lambda g: type(g).__name__,
)
def test_anything_else_is_refused(given: object) -> None:
    with pytest.raises(
        InputError, match=r"cannot write answers to this .*; give 'memory', 'console', a folder"
    ) as caught:
        as_sink(given)
    assert "secret" not in str(caught.value)


def test_a_class_is_no_sink() -> None:
    with pytest.raises(InputError, match=r"the class Memory; give an object of it, Memory\(...\)"):
        as_sink(Memory)


def test_a_data_frame_is_no_sink(spark: Any) -> None:
    with pytest.raises(InputError, match="cannot write answers to this DataFrame"):
        as_sink(spark.range(1))


@pytest.mark.parametrize(
    ("given", "shown"),
    [("s3a://bucket/x", "s3a://…"), ("postgresql://me:secret@localhost/shop", "postgresql://…"), ("", "''")],
)
def test_what_is_no_folder_is_refused(given: str, shown: str) -> None:
    with pytest.raises(InputError, match=rf"^{shown} is no folder of this machine; .* Sql\(url\)") as caught:
        as_sink(given)
    assert "secret" not in str(caught.value)


def test_only_rows_are_delivered_and_each_batch_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sink:
        def write(self, answers: pa.Table, batch_id: int, session: Any) -> None:
            written.append((answers, batch_id, session))

    def step(what: str, action: Callable[..., Any], *args: Any) -> Any:
        steps.append(what)
        return action(*args)

    written: list[Any] = []
    steps: list[str] = []
    monkeypatch.setattr(durable, "step", step)
    for sink, rows in ((None, SIDE), (None, None), (Sink(), None), (Sink(), SIDE.slice(0, 0)), (Sink(), SIDE)):
        deliver(sink, rows, 7, None)
    assert written == [(SIDE, 7, None)]
    assert steps == ["sink"]


# Files.


def test_spark_reads_the_folder(tmp_path: Path, spark: Any) -> None:
    sink, tables = Files(tmp_path), (answered(BOARD), answered(GROUPS))
    for batch, rows in enumerate(tables):
        sink.write(rows, batch, spark)
    (tmp_path / ".batch-00000002.parquet.1.part").write_bytes(b"half")
    found = spark.read.option("mergeSchema", "true").parquet(str(tmp_path)).toArrow().to_pylist()
    assert facts(found) == facts([row for table in tables for row in table.to_pylist()])
    assert [path.name for path in sorted(tmp_path.glob("b*"))] == ["batch-00000000.parquet", "batch-00000001.parquet"]


@pytest.mark.parametrize("format_", ["parquet", "jsonl", "csv"])
def test_the_same_rows_give_the_same_bytes(format_: Any, tmp_path: Path) -> None:
    texts = pa.array(np.random.default_rng(1).integers(0, 10**18, 200_000).astype(str))  # several pages of Parquet
    rows = pa.table({"x": texts, "y": ["a", None] * 100_000})
    pieces = pa.concat_tables([rows.slice(start, 777) for start in range(0, len(rows), 777)])
    for folder, table in (("a", rows), ("b", pieces)):
        Files(tmp_path / folder, format=format_).write(table, 7, None)
    one, other = (tmp_path / folder / f"batch-00000007.{format_}" for folder in "ab")
    assert one.read_bytes() == other.read_bytes()


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path, spark: Any) -> None:
    for name in (".batch-00000003.parquet.99.part", ".batch-00000004.parquet.100.part", ".other", "notes.txt"):
        (tmp_path / name).write_bytes(b"half")
    Files(tmp_path).write(answered(BOARD), 3, spark)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other", "batch-00000003.parquet", "notes.txt"]


def test_what_cannot_be_finished_leaves_the_old_file(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, rows = Files(tmp_path), answered(BOARD)
    sink.write(rows, 0, spark)
    before = (tmp_path / "batch-00000000.parquet").read_bytes()

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    with pytest.raises(OSError, match="full"):
        sink.write(rows.slice(1), 0, spark)
    assert (tmp_path / "batch-00000000.parquet").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_a_kill_before_the_last_step_leaves_the_old_file(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, rows = Files(tmp_path), answered(BOARD)
    sink.write(rows, 0, spark)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            sink.write(rows.slice(1), 0, spark)
    assert spark.read.parquet(str(tmp_path)).count() == len(rows)
    Files(tmp_path).write(rows.slice(1), 0, spark)
    assert spark.read.parquet(str(tmp_path)).count() == len(rows) - 1
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_is_removed_with_its_rows(tmp_path: Path, spark: Any) -> None:
    sink, rows = Files(tmp_path), answered(BOARD)
    sink.write(rows, 0, spark)
    sink.write(rows.slice(0, 0), 0, spark)
    assert not list(tmp_path.iterdir())


def test_formats_and_folders_are_checked(tmp_path: Path, spark: Any) -> None:
    with pytest.raises(InputError, match="format is 'xls'; files can be 'parquet', 'jsonl', 'csv'"):
        Files(tmp_path, format="xls")  # type: ignore[arg-type]
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match=r"cannot make the folder .*taken: File exists; name another"):
        Files(tmp_path / "taken").write(answered(BOARD), 0, spark)


# Memory.


def test_the_memory_keeps_the_last_batches(spark: Any) -> None:
    sink = Memory("few", batches=3)
    rows = answered(BOARD).slice(0, 2)
    for batch in (0, 2, 4, 6, 8, 8):
        tagged = rows.append_column("tag", pa.array([batch] * 2))
        sink.write(tagged, batch, spark)
        found = spark.sql("SELECT tag, count(*) AS n FROM global_temp.few GROUP BY tag").collect()
        kept = [b for b in (0, 2, 4, 6, 8) if b <= batch][-3:]
        assert {(row.tag, row.n) for row in found} == {(b, 2) for b in kept}
    sink.write(tagged, 1, spark)  # too old
    assert spark.table("global_temp.few").count() == 6
    assert "_batch" not in spark.table("global_temp.few").columns
    for part in range(10):  # what no longer is a part is dropped
        assert spark.catalog.tableExists(f"few_part_{part}") == (part < len(sink._parts))


def test_a_row_moves_few_times_in_memory() -> None:
    parts: list[pa.Table] = []
    moved = most = 0
    for batch in range(400):
        fresh = pa.table({"x": [0.5] * 5, _BATCH: [batch] * 5})
        before, parts = parts, _merged([*parts, fresh], max(0, batch - 199))
        moved += sum(len(part) for part in parts if not any(part is old for old in before))
        most = max(most, len(parts))
        assert sum(len(part) for part in parts) <= 5 * 400
        alive = [n for part in parts for n in part[_BATCH].to_pylist() if n >= batch - 199]
        assert Counter(alive) == dict.fromkeys(range(max(0, batch - 199), batch + 1), 5)
    assert most <= 9
    assert moved <= 5 * 400 * 9


def test_a_try_that_failed_leaves_no_gaps_in_memory(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, rows = Memory("tried", batches=2), answered(BOARD)

    def fail(*_: object) -> None:
        raise RuntimeError("lost")

    sink.write(rows.slice(0, 12), 0, spark)
    sink.write(rows.slice(0, 4), 1, spark)
    assert [len(part) for part in sink._parts] == [12, 4]
    with monkeypatch.context() as patched:
        patched.setattr("skyband.spark.sinks.memory.as_frame", fail)
        with pytest.raises(RuntimeError):
            sink.write(rows.slice(0, 1), 2, spark)  # the first part is too old now, the second takes its place
    sink.write(rows.slice(0, 1), 2, spark)
    assert facts(spark.table("global_temp.tried").toArrow().to_pylist()) == facts(
        [*rows.slice(0, 4).to_pylist(), *rows.slice(0, 1).to_pylist()]
    )


def test_a_new_session_gets_the_whole_view(spark: Any) -> None:
    sink = Memory("moved")
    first, second = cut(answered(BOARD))
    sink.write(first, 0, spark)
    other = spark.newSession()
    sink.write(second.slice(0, 1), 1, other)
    assert len(sink._parts) == 2  # the first of which is not new
    assert other.table("global_temp.moved").count() == len(first) + 1


def test_the_view_of_a_stream_is_seen_from_outside(tmp_path: Path, spark: Any) -> None:
    sink, folder = Memory("streamed"), tmp_path / "in"
    Files(folder).write(SIDE.drop_columns("tags"), 0, spark)
    stream = spark.readStream.schema("t timestamp, symbol string, price double").parquet(str(folder))
    writer = stream.writeStream.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.foreachBatch(lambda df, batch_id: sink.write(df.toArrow(), batch_id, df.sparkSession)).start()
    query.awaitTermination(120)
    assert facts(spark.table("global_temp.streamed").toArrow().to_pylist()) == facts(
        SIDE.drop_columns("tags").to_pylist()
    )


@pytest.mark.parametrize("name", ["", "a b", "1st", "x; DROP TABLE y", "naïve"])
def test_names_of_views_are_checked(name: str) -> None:
    with pytest.raises(InputError, match="a view's name has letters, digits and _"):
        Memory(name)


def test_the_memory_keeps_at_least_one_batch() -> None:
    with pytest.raises(InputError, match="batches is 0; the memory keeps at least 1 batch"):
        Memory(batches=0)
    assert Memory(batches=1).batches == 1


def test_times_become_data_frames_as_they_are(spark: Any) -> None:
    hours = [datetime(2024, 3, 10, hour, 30) for hour in range(12)]  # in New York there was no 02:30 on this day
    zoned = pa.array(hours, pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    rows = pa.table({"zoned": zoned, "unzoned": pa.array(hours, pa.timestamp("us"))})
    found = as_frame(rows, spark)
    assert found.dtypes == [("zoned", "timestamp"), ("unzoned", "timestamp_ntz")]
    assert found.toArrow().to_pylist() == rows.to_pylist()


def test_spark_does_not_unpack_rows_that_nobody_has_asked_for(spark: Any) -> None:
    other = spark.newSession()
    for _ in range(2):
        as_frame(SIDE, other)
        assert other.conf.get(UNPACKED) == "0"


# Console.


def test_the_console_shows_the_newest_answer_of_each_query(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, spark: Any
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    odd = sb.Query("[bold]odd[/bold]", k=3, score="x", window=TEN)
    rows = answered(BOARD, odd, GROUPS)
    Console(rows=2).write(rows, 12, spark)
    out = capsys.readouterr().out
    windows = len(set(zip(rows["query"].to_pylist(), rows["window_end"].to_pylist(), strict=True)))
    assert f"batch 12: {windows} windows of 3 queries, {len(rows)} rows" in out
    newest = max(rows["window_end"].to_pylist())
    span = f"{newest - timedelta(seconds=10):%Y-%m-%d %H:%M:%S} UTC to {newest:%Y-%m-%d %H:%M:%S} UTC"
    assert f"board, {span}" in out
    assert f"[bold]odd[/bold], {span}" in out
    best = [r for r in rows.to_pylist() if r["query"] == "board" and r["window_end"] == newest]
    assert f"│    1 │ {best[0]['id']} │    {best[0]['score']:g} │" in out
    assert ("… and 1 more rows" in out) == (len(best) == 3)
    assert "why" not in out


def test_the_console_is_short_with_many_queries(capsys: pytest.CaptureFixture[str], spark: Any) -> None:
    rows = answered(*(sb.Query(f"q{i}", k=1, score="x", window=TEN) for i in range(13)))
    Console().write(rows, 0, spark)
    out = capsys.readouterr().out
    assert "… and 3 more queries" in out
    assert "q9, " in out
    assert "q10, " not in out
    few = answered(*(sb.Query(f"q{i}", k=1, score="x", window=TEN) for i in range(10)))
    few = few.append_column("empty", pa.nulls(len(few), pa.string()))
    Console().write(few, 0, spark)
    out = capsys.readouterr().out
    assert "q9, " in out
    assert "more queries" not in out
    assert "empty" not in out
    assert "provisional" not in out


def test_the_console_says_what_is_not_final_or_not_exact(capsys: pytest.CaptureFixture[str], spark: Any) -> None:
    monitor = sb.Monitor([sb.Query("soon", k=2, score="x", window=TEN, emit="early")], time="t", id="id")
    monitor.push(ROWS[:3])
    rows = monitor.advance(None).table(quality=True)
    place = rows.column_names.index("exact")
    rows = rows.set_column(place, "exact", pa.array([False] * len(rows)))
    rows = rows.set_column(place + 1, "why", pa.array(["warming up"] * len(rows)))
    Console().write(rows, 0, spark)
    assert "UTC, still open, warming up" in " ".join(capsys.readouterr().out.split())


def test_the_console_shows_side_rows(capsys: pytest.CaptureFixture[str], spark: Any) -> None:
    Console(rows=1).write(SIDE, 5, spark)
    out = capsys.readouterr().out
    assert "batch 5: 2 rows" in out
    assert "inf" in out
    assert "… and 1 more rows" in out
    Console(rows=2).write(SIDE.select(["symbol", "price"]), 6, spark)
    out = capsys.readouterr().out
    assert "more rows" not in out
    assert "│ A      │   inf │" in out, "texts on the left, numbers on the right"
    assert "│        │   2.5 │" in out, "NULL is empty"
    with pytest.raises(InputError, match="rows is 0; the console prints at least 1 row"):
        Console(rows=0)


# Kafka.


def messages(spark: Any, rows: pa.Table) -> dict[str, dict[str, Any]]:
    found = records(as_frame(rows, spark)).collect()
    assert len({row.key for row in found}) == len(found) == len(rows)
    return {row.key: json.loads(row.value) for row in found}


def test_a_message_has_the_row_and_what_tells_it_apart(spark: Any) -> None:
    rows = answered(BOARD)
    found = messages(spark, rows)
    for row in rows.to_pylist():
        text = {name: f"{row[name]:%Y-%m-%dT%H:%M:%S.%fZ}" for name in ("window_start", "window_end", "time")}
        value = found[f"board|{text['window_end']}|{row['rank']}"]
        assert value == {**{k: v for k, v in row.items() if v is not None}, **text}


@pytest.mark.parametrize("emit", ["final", "changes"])
def test_keys_of_a_set_have_the_id(spark: Any, emit: Any) -> None:
    query = sb.Query("set", k="all", score="x", where="likes > 2", window=TEN, join=sb.Join("likes"), emit=emit)
    turns = iter(range(100))

    def likes(ids: Any) -> dict[Any, float]:
        turn = next(turns)
        return {name: float((int(name[1:]) + turn) % 5) for name in ids}

    monitor = sb.Monitor([query], time="t", id="id", services={"likes": likes})
    monitor.push(ROWS)
    rows = monitor.finish().table(quality=True)
    assert len(rows) > 20
    for key, value in messages(spark, rows).items():
        assert key == f"set|{value['window_end']}|id {value['id']}"


def test_keys_with_partitions(spark: Any) -> None:
    none = sb.Query("none", k=2, score="x", window=TEN)
    rows = answered(GROUPS, none)
    found = messages(spark, rows)
    end = "2024-03-10T07:00:00.000000Z"
    assert {f"none|{end}|1", f"groups|{end}|1", f"groups|{end}|1|B", f"groups|{end}|1|N"} <= set(found)
    blank = [{**row, "venue": row["venue"] or ""} for row in ROWS]
    assert f"groups|{end}|1|" in messages(spark, answered(GROUPS, rows=blank))
    times = sb.Query("times", k=2, score="x", window=TEN, partition_by="t")
    assert any(key.startswith(f"times|{end}|1|2024-03-10T06:59:51.000001") for key in messages(spark, answered(times)))


def test_no_names_make_two_keys_alike(spark: Any) -> None:
    end = "2024-03-10T07:00:00.000000Z"
    rows = answered(GROUPS).slice(0, 4)
    names = ["a", f"a|{end}|1|x", "b|", "b%7C"]
    parts = [f"x|{end}|1|y", "y", "p", "p"]
    same: dict[str, Any] = {"query": names, "partition": parts, "rank": [1] * 4, "window_end": [END] * 4}
    for name, values in same.items():
        place = rows.column_names.index(name)
        rows = rows.set_column(place, name, pa.array(values, rows.schema.field(name).type))
    assert set(messages(spark, rows)) == {
        f"a|{end}|1|x|{end}|1|y", f"a%7C{end}%7C1%7Cx|{end}|1|y", f"b%7C|{end}|1|p", f"b%257C|{end}|1|p",
    }  # fmt: skip


def test_keys_of_changes(spark: Any) -> None:
    rows = answered(MOVES)
    found = messages(spark, rows)
    assert any("|left " in key for key in found)
    for row in rows.to_pylist():
        rank = f"left {row['previous_rank']}" if row["rank"] is None else row["rank"]
        value = found[f"moves|{row['window_end']:%Y-%m-%dT%H:%M:%S.%fZ}|{rank}|{row['partition']}"]
        assert (value["change"], value["id"]) == (row["change"], row["id"])


@pytest.mark.parametrize("emit", ["final", "changes"])
def test_keys_of_ranks_that_repeat(spark: Any, emit: Any) -> None:
    level = [{**row, "x": float(n * 37 % 50 % 3)} for n, row in enumerate(ROWS)]
    tied = sb.Query("tied", k=1, score="x", window=TEN, ties="with", partition_by="shard", emit=emit)
    rows = answered(tied, BOARD, rows=level)
    found = messages(spark, rows)
    assert max(Counter((row["query"], row["window_end"], row["rank"]) for row in rows.to_pylist()).values()) > 2
    for row in (row for row in rows.to_pylist() if row["query"] == "tied"):
        place = f"row {row['unique_rank']}" if row["rank"] is not None else f"left row {row['unique_rank']}"
        value = found[f"tied|{row['window_end']:%Y-%m-%dT%H:%M:%S.%fZ}|{place}|{row['partition']}"]
        assert (value["id"], value.get("change")) == (row["id"], row.get("change"))
    assert any("|left row " in key for key in found) is (emit == "changes")
    assert any(key.startswith("board|") and "|row " not in key for key in found)


def test_keys_of_count_windows_and_of_side_rows(spark: Any) -> None:
    last = sb.Query("last", k=1, score="x", window=sb.Window("10 events"))
    counted = sb.Monitor([last], time="t", id="id").push(ROWS)
    assert set(messages(spark, counted.table(quality=True))) == {f"last|{end}|1" for end in (10, 20, 30, 40)}
    found = messages(spark, keyed(SIDE, 7)[0])
    assert found["7|1"]["price"] == "Infinity"
    assert found["7|2"] == {"batch_id": 7, "row_number": 2, "price": 2.5}


def test_answers_and_side_rows_are_sent_with_their_keys(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[dict[str, Any], dict[str, str]]] = []

    def send(found: Any, options: dict[str, str]) -> None:
        sent.append(({row.key: json.loads(row.value) for row in found.collect()}, options))

    monkeypatch.setattr("skyband.spark.sinks.kafka._send", send)
    rows, to = answered(BOARD), {"kafka.bootstrap.servers": "there:1", "topic": "answers"}
    Kafka("answers", "there:1").write(rows, 4, spark)
    Kafka("answers", "there:1", {"kafka.acks": "all"}).write(SIDE, 4, spark)
    assert sent[0] == (messages(spark, rows), to)
    assert sent[1] == (messages(spark, keyed(SIDE, 4)[0]), {"kafka.acks": "all", **to})
    assert set(sent[1][0]) == {"4|1", "4|2"}


def test_a_missing_connector_is_named(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import AnalysisException

    class Writer:
        def __getattr__(self, name: str) -> Any:
            return (lambda *_, **__: self) if name in ("format", "options") else self

        def save(self) -> None:
            raise AnalysisException(f"Failed to find data source: {source}. Please deploy the application")

    monkeypatch.setattr("skyband.spark.sinks.kafka.records", lambda _: Writer())
    sink = Kafka("answers", "127.0.0.1:9", {"kafka.sasl.jaas.config": "secret"})
    wanted = rf"no Kafka connector; .*'org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}'"
    source = "kafka"
    with pytest.raises(InputError, match=wanted):
        sink.write(answered(BOARD), 0, spark)
    source = "something else"
    with pytest.raises(AnalysisException):
        sink.write(answered(BOARD), 0, spark)
    assert repr(sink) == "Kafka('answers', '127.0.0.1:9')"


# Databases.


@databases
def test_final_answers_take_the_place_of_provisional_ones(database: str, spark: Any) -> None:
    query = sb.Query("soon", k=3, score="x", window=TEN, emit="early")
    monitor, sink = sb.Monitor([query], time="t", id="id"), Sql(database)
    for batch in range(4):
        monitor.push(ROWS[batch * 10 : batch * 10 + 10])
        answers = monitor.advance(START + timedelta(seconds=batch * 10)).table(quality=True)
        assert any(answers["provisional"].to_pylist())
        sink.write(answers, batch, spark)
    sink.write(monitor.finish().table(quality=True), 4, spark)
    plain = answered(sb.Query("soon", k=3, score="x", window=TEN))
    assert facts(selected(database)) == facts(plain.to_pylist())


@databases
def test_rows_may_come_in_any_order(database: str, spark: Any) -> None:
    rows = answered(BOARD, GROUPS)
    mixed = rows.take(pa.array(np.random.default_rng(3).permutation(len(rows))))
    for _ in range(2):
        Sql(database).write(mixed, 0, spark)
    found = selected(database)
    assert facts(found) == facts(rows.to_pylist())
    windows = Counter((row["query"], row["window_end"]) for row in found)
    numbers = Counter((row["query"], row["window_end"], row["row_number"]) for row in found)
    assert numbers == Counter((*window, n) for window, count in windows.items() for n in range(1, count + 1))


@databases
def test_streams_may_share_a_table(database: str, spark: Any) -> None:
    one, other = answered(BOARD), answered(SHARDS)
    Sql(database).write(one, 0, spark)
    Sql(database).write(other, 0, spark)
    assert facts(selected(database)) == facts([*one.to_pylist(), *other.to_pylist()])


@databases
def test_a_batch_that_fails_changes_nothing(database: str, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlalchemy as sa

    sink, rows = Sql(database), answered(BOARD)
    sink.write(rows, 0, spark)
    monkeypatch.setattr("skyband.spark.sinks.sql.ROWS_AT_ONCE", 4)
    with sa.create_engine(database, poolclass=sa.NullPool).begin() as connection:
        connection.exec_driver_sql('CREATE UNIQUE INDEX one ON answers ("query", window_end, "rank")')
    twice = pa.concat_tables([rows, rows.slice(0, 1)])  # which the index refuses, with the last row
    with pytest.raises(sa.exc.IntegrityError):
        sink.write(twice, 0, spark)
    assert facts(selected(database)) == facts(rows.to_pylist())
    sink.write(rows, 0, spark)
    assert facts(selected(database)) == facts(rows.to_pylist())


@databases
def test_names_are_quoted(database: str, spark: Any) -> None:
    names = ['a"b', "100%", "x:y", "select", "%(odd)s", "a b", "'; DROP TABLE answers; --", "Größe"]
    table = 'odd "table" 100% :x'
    rows, sink = answered(BOARD), Sql(database, table)
    sink.write(rows, 0, spark)
    for name in names:
        rows = rows.append_column(name, pa.array([f"{name}; ' \" % :x {i}" for i in range(len(rows))]))
    for _ in range(2):
        sink.write(rows, 0, spark)
    assert facts(selected(database, table)) == facts(rows.to_pylist())
    other = Sql(database, table + " whole")
    other.write(rows, 0, spark)
    assert facts(selected(database, table + " whole")) == facts(rows.to_pylist())


@databases
def test_types_survive(database: str, spark: Any) -> None:
    import sqlalchemy as sa

    rows = answered(BOARD).slice(0, 1)
    values: dict[str, pa.Array] = {
        "whole": pa.array([-(2**62)]),
        "far": pa.array([float("-inf")]),
        "flag": pa.array([True]),
        "day": pa.array([START.date()]),
        "plain": pa.array([START.replace(tzinfo=None)], pa.timestamp("us")),
        "raw": pa.array([b"\x00\xff"]),
        "list": pa.array([[1, 2]]),
        "nothing": pa.nulls(1),
    }
    for name, column in values.items():
        rows = rows.append_column(name, column)
    Sql(database).write(rows, 0, spark)
    (row,) = selected(database)
    told = {k: row[k] for k in ("whole", "far", "flag", "plain", "raw", "list", "nothing")}
    assert told == {
        "whole": -(2**62), "far": float("-inf"), "flag": True, "plain": START.replace(tzinfo=None),
        "raw": b"\x00\xff", "list": "[1, 2]", "nothing": None,
    }  # fmt: skip
    assert str(row["day"]) == "2024-03-10"
    end = row["window_end"]
    assert (end if end.tzinfo else end.replace(tzinfo=UTC)) == rows["window_end"][0].as_py()
    with sa.create_engine(database, poolclass=sa.NullPool).connect() as connection:
        key = sa.inspect(connection).get_pk_constraint("answers")["constrained_columns"]
    assert key == ["query", "window_end", "row_number"]  # in this order, it finds the rows of a window


@databases
def test_a_table_for_other_rows_is_refused(database: str, spark: Any) -> None:
    sink = Sql(database)
    sink.write(SIDE, 0, spark)
    with pytest.raises(InputError, match=r"the table 'answers' has no column 'query', .* name another table"):
        sink.write(answered(BOARD), 0, spark)
    assert facts(selected(database)) == facts(SIDE.to_pylist())


def test_columns_that_the_sink_needs_are_refused(tmp_path: Path, spark: Any) -> None:
    sink = Sql(f"sqlite:///{tmp_path / 'answers.db'}")
    with pytest.raises(InputError, match="the rows have a column 'row_number', which this sink needs for itself"):
        sink.write(answered(BOARD).append_column("row_number", answered(BOARD)["rank"]), 0, spark)
    with pytest.raises(InputError, match="the rows have a column 'batch_id'"):
        sink.write(SIDE.append_column("batch_id", SIDE["price"]), 0, spark)
    rows = answered(BOARD).append_column("batch_id", answered(BOARD)["rank"])  # answers need no such column
    sink.write(rows, 0, spark)
    assert len(selected(f"sqlite:///{tmp_path / 'answers.db'}")) == len(rows)


def test_a_database_that_cannot_be_opened(tmp_path: Path, spark: Any) -> None:
    with pytest.raises(InputError, match=r"cannot open the database sqlite:.*: unable to open database file; check"):
        Sql(f"sqlite:///{tmp_path}/none/answers.db").write(answered(BOARD), 0, spark)


def test_a_server_that_is_not_there_or_refuses(server: str, spark: Any) -> None:
    start, _, place = server.partition("@")
    port = place.split(":")[1].split("/")[0]
    closed = Sql("postgresql+psycopg://me:tops3cret@127.0.0.1:1/shop?application_name=x&passfile=tops3cret")
    wrong = Sql(f"postgresql+psycopg://tester:tops3cret@127.0.0.1:{port}/postgres")
    for sink, reason in ((closed, "refused"), (wrong, "password authentication failed")):
        with pytest.raises(
            InputError, match=rf"cannot open the database .*me|tester:\*\*\*@127.0.0.1.*{reason}"
        ) as caught:
            sink.write(answered(BOARD), 0, spark)
        assert reason in str(caught.value)
        assert caught.value.__cause__ is None
        assert "tops3cret" not in str(caught.value)
        assert "tops3cret" not in repr(sink)
    assert postgres.QUOTED not in repr(Sql(server))
    assert start.split(":")[0] in repr(Sql(server))


@pytest.mark.parametrize("url", ["nonsense:secret", "postgresql://me:secret@host:port/shop", ""])
def test_urls_are_checked_and_not_shown(url: str) -> None:
    with pytest.raises(InputError, match=r"cannot read the URL of the database .*; write dialect") as caught:
        Sql(url)
    assert "host" not in str(caught.value).split("write")[0]
    assert ":secret@host" not in str(caught.value)


@pytest.mark.parametrize("driver", ["postgresql+nosuch", "nosuch", "mysql+mysqldb"])
def test_a_missing_driver_is_named(driver: str, spark: Any) -> None:
    sink = Sql(f"{driver}://me:tops3cret@localhost/shop")
    with pytest.raises(InputError, match=r"cannot load the driver for .*me:\*\*\*@localhost/shop: .*; install it") as e:
        sink.write(answered(BOARD), 0, spark)
    assert "tops3cret" not in str(e.value)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(
        InputError, match=r"needs the package 'sqlalchemy', which is missing; install it: pip install 'skyband\[sql\]'"
    ):
        Sql("sqlite://")


def test_sqlite_is_written_as_text_that_others_read(tmp_path: Path, spark: Any) -> None:
    path, rows = tmp_path / "answers.db", answered(BOARD)
    Sql(f"sqlite:///{path}").write(rows, 0, spark)
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT window_end, id FROM answers ORDER BY window_end, row_number").fetchall()
    connection.close()
    assert found == [(f"{r['window_end']:%Y-%m-%d %H:%M:%S.%f}", r["id"]) for r in rows.to_pylist()]
