"""Runs on Spark that go on where others ended, and queries that come and go by the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from tests.cli.conftest import Invoke, events, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]
NAMES = ("out.csv", "late.csv", "rejected.csv")
MORE = """
time = "ts"

[[query]]
name = "dearest"
k = 1
size = "20 seconds"
score = "price"

[[query]]
name = "cheapest"
k = 1
size = "20 seconds"
score = "price"
order = "asc"
"""


def trades(rows: int = 1200) -> pa.Table:
    """Make trades of which some are late, and some have no price."""
    table = events(rows)
    prices = [None if i % 97 == 0 else price for i, price in enumerate(table["price"].to_pylist())]
    order = [i - 500 if i % 101 == 0 and i > 500 else i for i in range(rows)]
    return table.set_column(2, "price", pa.array(prices, pa.float64())).take(pa.array(order))


def outputs(folder: Path) -> list[object]:
    folder.mkdir(exist_ok=True)
    files = [folder / name for name in NAMES]
    return ["--output", files[0], "--late", files[1], "--rejected", files[2], "--overwrite"]


def contents(folder: Path) -> list[str]:
    return [(folder / name).read_text() for name in NAMES]


def test_a_later_run_reads_only_what_is_new(queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    folder, table = tmp_path / "in", trades()
    folder.mkdir()
    given = ["run", queries, "--input", folder, "--watermark", "5 seconds"]
    spark = ["--engine", "spark", "--checkpoint", tmp_path / "checkpoint", *outputs(tmp_path / "spark")]
    for upto in (2, 4):
        for number in range(upto):
            save(table.slice(number * 300, 300), folder / f"{number}.parquet")
        result = invoke(*given, *spark)
        assert result.exit_code == 0, result.output
        assert " 600 in " in result.stderr
        assert invoke(*given, *outputs(tmp_path / "local")).exit_code == 0
        assert contents(tmp_path / "spark") == contents(tmp_path / "local")
    for number in range(3):
        (folder / f"{number}.parquet").unlink()
    result = invoke(*given, *spark)
    assert result.exit_code == 0, result.output
    assert " 0 in " in result.stderr
    assert contents(tmp_path / "spark") == contents(tmp_path / "local")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_was_cut_short_goes_on(
    sent: signal.Signals, queries: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, table, checkpoint = tmp_path / "in", trades(1600), tmp_path / "checkpoint"
    folder.mkdir()
    for number in range(16):
        save(table.slice(number * 100, 100), folder / f"{number:02}.csv")
    given = ["run", queries, "--input", folder, "--watermark", "5 seconds"]
    spark = ["--engine", "spark", "--checkpoint", checkpoint, *outputs(tmp_path / "spark")]
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    command = [sys.executable, "-m", "skyband", *map(str, [*given, *spark])]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        waited = time.monotonic() + 180
        state = checkpoint / "skyband" / "state"
        while process.poll() is None and time.monotonic() < waited and not (state / f"{2:012}").exists():
            time.sleep(0.02)
        process.send_signal(sent)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert list((tmp_path / "spark").iterdir()) == []
    if sent == signal.SIGINT:
        assert process.returncode == 130
        assert said.removeprefix("compiling kernels, first run only …\n") == "interrupted; nothing was written\n"
        assert list((tmp_path / "tmp").iterdir()) == []
    result = invoke(*given, *spark)
    assert result.exit_code == 0, result.output
    assert invoke(*given, *outputs(tmp_path / "local")).exit_code == 0
    assert contents(tmp_path / "spark") == contents(tmp_path / "local")


def test_a_checkpoint_of_another_stream(queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    save(events(), tmp_path / "in.parquet")
    given = ["run", queries, "--input", tmp_path / "in.parquet", "--engine", "spark", "--checkpoint", tmp_path / "cp"]
    assert invoke(*given, "--output", tmp_path / "1.csv").exit_code == 0
    result = invoke(*given, "--output", tmp_path / "2.csv", "--id", "venue")
    assert result.exit_code == 2
    assert "belongs to a stream where the id column was 'symbol'" in result.stderr
    assert not (tmp_path / "2.csv").exists()


def test_queries_come_and_go(queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    folder, checkpoint, table = tmp_path / "in", tmp_path / "checkpoint", events()
    folder.mkdir()
    save(table.slice(0, 300), folder / "1.parquet")
    given = ["run", queries, "--input", folder, "--engine", "spark", "--checkpoint", checkpoint, "--watermark", "0 s"]
    output = ["--output", tmp_path / "out.jsonl", "--overwrite"]
    assert invoke(*given, *output).exit_code == 0
    (tmp_path / "more.toml").write_text(MORE)

    def change(*words: object) -> str:
        result = invoke("queries", *words, "--checkpoint", checkpoint)
        assert result.exit_code == 0, result.output
        return str(result.stdout)

    added = change("add", tmp_path / "more.toml")
    assert added == "'dearest', 'cheapest' will be added before the next batch\n"
    change("remove", "cheapest")
    change("pause", "top")
    listed = {one["name"]: one for one in json.loads(change("list", "--json"))}
    assert list(listed) == ["top", "by venue", "dearest"]
    assert listed["top"]["pending"] == "pause"
    assert listed["dearest"]["state"] == "pending"
    assert listed["by venue"]["latest"]["exact"] is True

    save(table.slice(300), folder / "2.parquet")
    assert invoke(*given, *output).exit_code == 0
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {row["query"] for row in answers} == {"top", "by venue", "dearest"}
    middle = table["ts"][300].as_py().isoformat()
    assert max(row["window_end"] for row in answers if row["query"] == "top") <= middle
    shown = change("list")
    assert "paused" in shown
    assert "dearest" in shown
    assert "yes" in shown

    queries.write_text(queries.read_text().partition('[[query]]\nname = "by venue"')[0])
    save(table.slice(0, 0), folder / "3.parquet")
    assert invoke(*given, *output).exit_code == 0
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {row["query"] for row in answers} == {"top", "dearest"}


def test_changes_that_do_not_go(queries: Path, tmp_path: Path, invoke: Invoke) -> None:
    save(events(), tmp_path / "in.parquet")
    checkpoint = tmp_path / "checkpoint"
    given = ["run", queries, "--input", tmp_path / "in.parquet", "--engine", "spark", "--checkpoint", checkpoint]
    assert invoke(*given, "--output", tmp_path / "out.csv").exit_code == 0
    files = {
        "twice.toml": MORE + QUERY.format(name="top", score="price"),
        "column.toml": MORE + QUERY.format(name="new", score="prise"),
        "time.toml": MORE.replace('"ts"', '"venue"'),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for words, said in (
        (["add", tmp_path / "twice.toml"], "there is already a query named 'top'"),
        (["add", tmp_path / "column.toml"], "there is no column 'prise'"),
        (["add", tmp_path / "time.toml"], "names 'venue' as the column of the time, and the stream has 'ts' for it"),
        (["add", tmp_path / "no.toml"], "no such file"),
        (["pause", "no"], "there is no query 'no'; there are 'top', 'by venue'"),
        (["resume", "no"], "there is no query 'no'"),
        (["remove", "no"], "there is no query 'no'"),
    ):
        result = invoke("queries", *words, "--checkpoint", checkpoint)
        assert result.exit_code == 2
        assert result.stderr.startswith("error: ")
        assert said in result.stderr
    listed = json.loads(invoke("queries", "list", "--json", "--checkpoint", checkpoint).stdout)
    assert [one["name"] for one in listed] == ["top", "by venue"]


QUERY = '\n[[query]]\nname = "{name}"\nk = 1\nsize = "20 seconds"\nscore = "{score}"\n'
