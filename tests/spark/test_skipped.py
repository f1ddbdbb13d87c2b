"""A poisoned query or command can be skipped: what cannot be read by itself, a query by whoever asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import skyband as sb
from skyband.cli.commands import app
from skyband.spark.control import Control
from skyband.spark.reducers.ranking import RankingReducer
from tests.spark.streams import assert_same_answers, core, write
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


def test_a_query_that_ends_the_stream_can_be_skipped_before_it_starts_again(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = RankingReducer.read

    def breaks(self: RankingReducer, df: Any, monitor: sb.Monitor, not_after: int | None = None) -> Any:
        if any(query.name == "poison" for query in monitor.queries):
            raise RuntimeError("poisoned")
        return read(self, df, monitor, not_after)

    tables, sink = batches(5, count=5), Tables()
    control = begun(spark, tmp_path, tables, sink)
    control.register(POISON)
    with monkeypatch.context() as patch:
        patch.setattr(RankingReducer, "read", breaks)
        for _ in range(2):
            with pytest.raises(Exception, match="poisoned"):
                go(spark, tmp_path / "in", TOP, sink, tmp_path / "checkpoint")
        control.set_aside("poison")
        go(spark, tmp_path / "in", TOP, sink, tmp_path / "checkpoint")
    assert states(control) == {"top": "active", "poison": "set aside"}
    assert_same_answers(sink.table(), core([TOP], tables, 60, time="t", id="id"))
    control.resume("poison")
    assert next(entry for entry in control.queries if entry["name"] == "poison")["pending"] == "resume"
    write(tmp_path / "in", batches(5, count=6)[5:], first=5)
    go(spark, tmp_path / "in", TOP, sink, tmp_path / "checkpoint")
    assert states(control) == {"top": "active", "poison": "active"}
    assert of(sink, "poison").num_rows > 0


def test_a_command_that_cannot_be_read_is_left_out(spark: Any, tmp_path: Path) -> None:
    tables, sink = batches(6, count=5), Tables()
    control = begun(spark, tmp_path, tables, sink)
    wrong: list[Any] = [
        {}, {"do": "dance", "name": "top"}, {"do": "add"}, {"do": "pause", "name": 3}, {"do": "add", "query": {}},
        {"do": "add", "query": {"name": "odd", "k": [], "size": {}, "score": 5, "select": 7, "join": 3}},
        {"do": "remove", "name": "nobody"}, {"do": "set aside", "name": "nobody"}, {"do": "resume", "name": "nobody"},
    ]  # fmt: skip
    for command in wrong:
        control.checkpoint.submit(command)
    damaged = control.checkpoint.submit({"do": "pause", "name": "top"})
    (tmp_path / "checkpoint" / "skyband" / "commands" / f"{damaged:012}").write_bytes(b'{"do": "pau')
    control.register(FINE)
    assert states(control)["fine"] == "pending"
    go(spark, tmp_path / "in", TOP, sink, tmp_path / "checkpoint")
    assert states(control) == {"top": "active", "fine": "active", "odd": "set aside"}
    assert "size is {}" in errors(control)["odd"]
    assert list(control.refused) == [1, 2, 3, 4, 5, damaged]
    assert "it is {}; a command has 'do' (add, change, remove," in control.refused[1]
    assert_same_answers(of(sink, "top"), core([TOP], tables, 60, time="t", id="id"))
    listed = CliRunner().invoke(app, ["queries", "list", "--checkpoint", str(tmp_path / "checkpoint")])
    assert "command 1 could not be read: it is {}" in listed.stderr
