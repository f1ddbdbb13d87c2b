"""A poisoned query or command can be skipped: what cannot be read by itself, a query by whoever asks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import skyband as sb
from skyband.cli.commands import app
from skyband.spark.control import Control
from skyband.spark.reducers.ranking import RankingReducer
from skyband.spark.subscribe import _apply
from tests.spark.streams import assert_same_answers, core, stream, write
from tests.spark.test_start import TOP, Tables, batches, go

pytestmark = pytest.mark.spark
POISON = sb.Query("poison", k=1, score="x + 12345", window=sb.Window(1_000))
FINE = sb.Query("fine", k=2, score="y - x", window=sb.Window(1_000))


def states(control: Control) -> dict[str, str]:
    return {entry["name"]: entry["state"] for entry in control.queries}


def errors(control: Control) -> dict[str, str]:
    return {entry["name"]: entry["error"] for entry in control.queries if "error" in entry}


def of(sink: Tables, name: str) -> pa.Table:
    return sink.table().filter(pa.compute.equal(sink.table()["query"], name))


def begun(spark: Any, tmp_path: Path, tables: list[pa.Table], sink: Any, **options: Any) -> Control:
    """Let a stream get so far that its first query is no longer on trial; then more files wait for it."""
    write(tmp_path / "in", tables[:3])
    go(spark, tmp_path / "in", TOP, sink, tmp_path / "checkpoint", **options)
    write(tmp_path / "in", tables[3:], first=3)
    return Control(tmp_path / "checkpoint")


def poisoned(monkeypatch: pytest.MonkeyPatch, act: Callable[[Any], None], name: str = "poison") -> None:
    """Let a query poison every batch that is read with it."""
    read = RankingReducer.reduce

    def poisons(self: RankingReducer, df: Any, monitor: sb.Monitor, *progress: Any) -> Any:
        if any(query.name.startswith(name) for query in monitor.queries):
            act(df)
        return read(self, df, monitor, *progress)

    monkeypatch.setattr(RankingReducer, "reduce", poisons)


def breaks(_: Any) -> None:
    raise RuntimeError("poisoned")


def hangs(df: Any) -> None:
    """Start a job that would take for ever."""
    one = df.sparkSession.range(1_000_000_000)
    one.crossJoin(one.withColumnRenamed("id", "other")).where("id * other % 1000003 = 17").count()


def test_a_new_query_that_breaks_a_batch_is_suspended(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, sink = batches(5, count=5), Tables()
    control = begun(spark, tmp_path, tables, sink)
    control.register(FINE, POISON)
    with monkeypatch.context() as patch:
        poisoned(patch, breaks)
        go(spark, tmp_path / "in", TOP, sink, tmp_path / "checkpoint")
    assert states(control) == {"top": "active", "fine": "active", "poison": "suspended"}
    assert errors(control) == {"poison": "batch 3 failed while the query was new: poisoned"}
    assert_same_answers(of(sink, "top"), core([TOP], tables, 60, time="t", id="id"))
    assert of(sink, "fine").num_rows > 0
    control.resume("poison")
    assert next(entry for entry in control.queries if entry["name"] == "poison")["pending"] == "resume"
    write(tmp_path / "in", batches(5, count=6)[5:], first=5)
    go(spark, tmp_path / "in", TOP, sink, tmp_path / "checkpoint")
    assert states(control) == {"top": "active", "fine": "active", "poison": "active"}
    assert of(sink, "poison").num_rows > 0


def test_new_queries_that_were_suspended_with_a_poisoned_one_come_back(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four the newest half goes, the innocent third with it; alone it passes, and the poisoned one does not."""
    tables, sink = batches(5, count=7), Tables()
    control = begun(spark, tmp_path, tables, sink)
    control.register(*(sb.Query(f"fine {n}", k=n, score="y", window=sb.Window(1_000)) for n in (1, 2, 3)), POISON)
    poisoned(monkeypatch, breaks)
    go(spark, tmp_path / "in", TOP, sink, tmp_path / "checkpoint")
    assert states(control) == dict.fromkeys(("top", "fine 1", "fine 2", "fine 3"), "active") | {"poison": "suspended"}
    assert errors(control) == {"poison": "batch 5 failed while the query was new: poisoned"}
    assert_same_answers(of(sink, "top"), core([TOP], tables, 60, time="t", id="id"))


def test_an_error_that_no_query_is_to_blame_for_ends_the_stream_and_blames_nobody(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, sink = batches(5, count=5), Tables()
    control = begun(spark, tmp_path, tables, sink)
    control.register(FINE)
    with monkeypatch.context() as patch:
        poisoned(patch, breaks, name="top")
        with pytest.raises(Exception, match="poisoned"):
            go(spark, tmp_path / "in", TOP, sink, tmp_path / "checkpoint")
    go(spark, tmp_path / "in", TOP, sink, tmp_path / "checkpoint")
    assert states(control) == {"top": "active", "fine": "active"}


def test_a_new_query_that_hangs_is_suspended(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock by which only what hangs is slow, however busy the machine is."""
    tables, sink, hung = batches(5, count=6), Tables(), threading.Event()
    control = begun(spark, tmp_path, tables, sink)
    control.register(POISON, FINE)

    def hangs_until_stopped(df: Any) -> None:
        hung.set()
        try:
            hangs(df)
        finally:
            hung.clear()

    poisoned(monkeypatch, hangs_until_stopped)
    slow = property(lambda watch: watch.limit is not None and hung.is_set())
    monkeypatch.setattr("skyband.spark.trial.Watch.is_slow", slow)
    monkeypatch.setattr("skyband.spark.trial.COLD", 1)
    go(spark, tmp_path / "in", TOP, sink, tmp_path / "checkpoint", trial_budget="10 minutes")
    assert states(control) == {"top": "active", "fine": "active", "poison": "suspended"}
    assert errors(control) == {"poison": "batch 4 took longer than the 600 s that it may while the query is new"}
    assert_same_answers(of(sink, "top"), core([TOP], tables, 60, time="t", id="id"))


def test_a_query_of_a_batch_that_hangs_can_be_suspended_meanwhile(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This one is no longer new, so nothing stops it but whoever asks."""
    tables, sink = batches(5, count=5), Tables()
    queries = [TOP, POISON]
    write(tmp_path / "in", tables[:3])
    go(spark, tmp_path / "in", queries, sink, tmp_path / "checkpoint")
    write(tmp_path / "in", tables[3:], first=3)
    control, hung = Control(tmp_path / "checkpoint"), threading.Event()

    def hangs_and_tells(df: Any) -> None:
        hung.set()
        hangs(df)

    poisoned(monkeypatch, hangs_and_tells)

    def ask() -> None:
        if hung.wait(60):
            control.suspend("poison")

    asking = threading.Thread(target=ask)
    asking.start()
    go(spark, tmp_path / "in", queries, sink, tmp_path / "checkpoint")
    asking.join()
    assert states(control) == {"top": "active", "poison": "suspended"}
    assert errors(control) == {"poison": "someone asked to suspend it"}
    assert_same_answers(of(sink, "top"), core([TOP], tables, 60, time="t", id="id"))


def test_whoever_stops_a_stream_blames_no_query(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables, sink = batches(5, count=5), Tables()
    control, hung = begun(spark, tmp_path, tables, sink), threading.Event()
    control.register(POISON)

    def hangs_and_tells(df: Any) -> None:
        hung.set()
        hangs(df)

    with monkeypatch.context() as patch:
        poisoned(patch, hangs_and_tells)
        handle = sb.spark.start(
            stream(spark, tmp_path / "in"), TOP, time="t", id="id", watermark=60, sink=sink,
            checkpoint=tmp_path / "checkpoint",
        )  # fmt: skip
        assert hung.wait(60)
        handle.stop()
    go(spark, tmp_path / "in", TOP, sink, tmp_path / "checkpoint")
    assert states(control) == {"top": "active", "poison": "active"}


def test_a_command_that_cannot_be_read_is_left_out(spark: Any, tmp_path: Path) -> None:
    tables, sink = batches(6, count=5), Tables()
    control = begun(spark, tmp_path, tables, sink)
    wrong: list[Any] = [
        {}, {"do": "dance", "name": "top"}, {"do": "add"}, {"do": "pause", "name": 3}, {"do": "add", "query": {}},
        {"do": "add", "query": {"name": "odd", "k": [], "size": {}, "score": 5, "select": 7, "join": 3}},
        {"do": "remove", "name": "nobody"}, {"do": "suspend", "name": "nobody"}, {"do": "resume", "name": "nobody"},
    ]  # fmt: skip
    for command in wrong:
        control.checkpoint.submit(command)
    damaged = control.checkpoint.submit({"do": "pause", "name": "top"})
    (tmp_path / "checkpoint" / "skyband" / "commands" / f"{damaged:012}").write_bytes(b'{"do": "pau')
    control.register(FINE)
    assert states(control)["fine"] == "pending"
    go(spark, tmp_path / "in", TOP, sink, tmp_path / "checkpoint")
    assert states(control) == {"top": "active", "fine": "active", "odd": "suspended"}
    assert "size is {}" in errors(control)["odd"]
    assert list(control.refused) == [1, 2, 3, 4, 5, damaged]
    assert "it is {}; a command has 'do' (add, change, remove," in control.refused[1]
    assert_same_answers(of(sink, "top"), core([TOP], tables, 60, time="t", id="id"))
    listed = CliRunner().invoke(app, ["queries", "list", "--checkpoint", str(tmp_path / "checkpoint")])
    assert "command 1 could not be read: it is {}" in listed.stderr


def test_a_subscription_that_cannot_be_read_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    following = sb.Subscriptions(time="t", id="id")
    for body in ({"name": "odd"}, {"name": "odd", "k": [], "score": 5, "last": {}}):
        _apply(following, {"do": "add", "subscription": body})
    near = sb.Subscription("near", k=1, score=sb.Distance({"x": 3.0}), last=10)
    _apply(following, {"do": "add", "subscription": near.as_dict()})
    assert list(following.subscriptions) == ["near"]
    assert caplog.text.count("a command is left out, since it cannot be followed") == 2
