from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("matplotlib")

import benchmarks
import skyband as sb
from benchmarks import baselines, machine, measure, report, workloads
from benchmarks import spark as benchmark
from benchmarks.spark import spark_baselines
from benchmarks.spark import targets as spark_targets
from tests.spark.kafka import broker_jars, connector_jars

TINY = benchmark.Scale.of(full=False, smoke=True, data=None)
ANSWERING: dict[str, baselines.Way] = {
    "skyband": spark_baselines.skyband_kept,
    "panes by hand": spark_baselines.panes,
    "spark panes, then windows": spark_baselines.kept(spark_baselines.cascade),
    "spark window()": spark_baselines.kept(spark_baselines.window),
}
ROOT = Path(__file__).parents[2]
JARS = broker_jars() and connector_jars()


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a smoke run, in a process and a session of its own, wrote everything."""
    folder = tmp_path_factory.mktemp("bench")
    command = [sys.executable, "-m", "benchmarks", "spark", "--smoke", "--output", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not met" in done.stdout  # the state, at least, still grows
    return folder


@pytest.fixture
def sparse(spark: Any, tmp_path: Path) -> spark_baselines.Stream:
    return benchmark.Setting(TINY, spark, tmp_path, {}).sparse()


@pytest.mark.spark
def test_every_experiment_leaves_rows(smoke: Path) -> None:
    rows = measure.read_rows(smoke / "spark.csv")
    more = {"agreement", "hundredths"} | ({"latency"} if JARS else set())
    assert {row.experiment for row in rows} - more == {*benchmark.EXPERIMENTS} - {"latency"}
    assert more <= {row.experiment for row in rows}
    found = {name: [row for row in rows if row.experiment == name] for name in benchmark.EXPERIMENTS}
    assert {row.way for row in found["scan"]} == {"noop", *ANSWERING}
    assert {row.value for row in found["scores"]} == set(benchmark.SCORES)
    assert [int(row.value) for row in found["queries"]] == [1, *TINY.queries]
    assert [row.value for row in found["partitions"]] == ["none", *map(str, TINY.groups)]
    timed = {"agreement", "micro-batches", "latency"}  # where answers are compared, or only time is looked at
    assert all(row.answers and row.answer_rows for row in rows if row.way == "skyband" and row.experiment not in timed)
    assert len({row.value for row in found["micro-batches"]}) == len(spark_targets.SIZES)
    assert all(row.ratio and row.amount for row in found["micro-batches"])
    hundredths = {row.way for row in rows if row.experiment == "hundredths"}
    assert {"callback", "skyband: scan", "skyband: sink", "noop: addBatch", "first micro-batch"} <= hundredths
    assert {"skyband: scan", "skyband: own", "spark: addBatch"} <= {row.way for row in found["phases"]}
    guessed = [row.amount for row in found["re-reads"] if row.way == "guessed"]
    assert all(guessed)
    assert found["memory"][-1].value == str(TINY.batches)
    assert all(row.amount for row in found["memory"])


@pytest.mark.spark
def test_all_ways_agreed(smoke: Path) -> None:
    checked = [row for row in measure.read_rows(smoke / "spark.csv") if row.experiment == "agreement"]
    for task, named in (("stream", set(ANSWERING)), ("batch", {"skyband topk", "spark row_number"})):
        found = {row.way: row.answer_rows for row in checked if row.value == task}
        assert set(found) == named
        assert len(set(found.values())) == 1
        assert all(found.values())


@pytest.mark.spark
def test_the_page_shows_every_target_and_plot(smoke: Path) -> None:
    page, rows = (smoke / "benchmarks-spark.md").read_text(), measure.read_rows(smoke / "spark.csv")
    assert "its figures mean nothing" in page
    targets = spark_targets.judge(rows)
    assert len(targets) == 23
    assert all(target.text in page for target in targets)
    drawn = {path.stem for path in (smoke / "benchmarks").glob("*.svg")}
    assert drawn == set(report.page_of("spark").sections) - (set() if JARS else {"spark-latency"})
    assert all(f"(benchmarks/{name}.svg)" in page for name in drawn)


@pytest.mark.spark
def test_the_machine_is_described(smoke: Path) -> None:
    about = json.loads((smoke / "spark.json").read_text())
    assert {"python", "skyband", "pyspark", "pandas"} <= set(about["versions"])
    assert about["java"]
    assert (about["seed"], about["size"], about["events"]) == (workloads.SEED, "smoke", TINY.events)


@pytest.mark.spark
def test_the_ways_give_the_answers_of_the_core(sparse: spark_baselines.Stream) -> None:
    query = workloads.one_query(20, 10, k=100)  # small windows: most events of a pane are in an answer
    events = workloads.events(sparse.rows, sparse.rows / TINY.span)
    last = int(events["time"][-1].as_py()) - spark_baselines.DELAY

    def core(_stream: Any, queries: Any) -> measure.Job:
        def job() -> list[Any]:
            monitor = sb.Monitor(queries, time="time", id="id")
            return [monitor.push(events), monitor.advance(last)]

        return job

    rows = list(baselines.check("stream", {"core": core} | ANSWERING, sparse, query, sparse.rows))
    assert {row.answer_rows for row in rows} == {75 + 38 * 100}  # 39 windows, of which the first has few events


@pytest.mark.spark
def test_a_way_that_answers_otherwise_stops_the_benchmark(sparse: spark_baselines.Stream) -> None:
    def shallow(stream: Any, queries: Any) -> measure.Job:
        return spark_baselines.panes(stream, [replace(query, k=query.k - 1) for query in queries])

    named: dict[str, baselines.Way] = {"skyband": spark_baselines.skyband_kept, "shallow": shallow}
    with pytest.raises(baselines.DisagreementError, match="stream: shallow and skyband give different answers"):
        list(baselines.check("stream", named, sparse, workloads.one_query(), sparse.rows))


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_session_that_is_there_is_left_alone() -> None:
    with pytest.raises(benchmarks.BenchmarkError, match="a process of its own"):
        benchmarks.run("spark", smoke=True)


def test_files_are_read_in_order_of_time_and_made_once(tmp_path: Path) -> None:
    made = benchmark.Setting(replace(TINY, data=tmp_path), None, tmp_path, {}).stream(rows=1000, files=12)
    paths = sorted(made.folder.iterdir(), key=lambda path: path.stat().st_mtime)
    tables = [pq.read_table(path) for path in paths]
    first = [table["time"][0].as_py() for table in tables]
    assert first == sorted(first)
    assert str(tables[0].schema.field("time").type) == "timestamp[us, tz=UTC]"
    paths[0].write_bytes(b"")  # so that writing it again would be seen
    again = benchmark.Setting(replace(TINY, data=tmp_path), None, tmp_path, {}).stream(rows=1000, files=12)
    assert again == made
    assert paths[0].stat().st_size == 0


def row(experiment: str, value: str, way: str, **more: Any) -> measure.Row:
    return replace(measure.Timing([0.5]).row(experiment, "", value, way, 10), **more)


@pytest.mark.parametrize(
    ("rows", "cells"),
    [
        ([row("scan", "uniform", "noop", ratio=0.85)], ("0.85", "≥ 0.90", "not met")),
        ([row("scan", "uniform", "spark window()", ratio=60)], ("60.00", "≥ 50.00", "met")),
        ([row("scan", "uniform", "panes by hand", ratio=1.5)], ("1.50", "≥ 2.00", "not met")),
        ([row("micro-batches", "1000", "noop", ratio=0.65)], ("0.65", "≥ 0.70", "not met")),
        ([row("micro-batches", "1000", "panes by hand", ratio=2.5)], ("2.50", "≥ 2.00", "met")),
        ([row("scores", "falling", "noop", ratio=0.4)], ("0.40", "≥ 0.30", "met")),
        ([row("queries", "1", "s", ratio=1), row("queries", "100", "s", ratio=1.4)], ("1.40", "≤ 1.30", "not met")),
        ([row("phases", "1", "skyband: own")], ("0.50", "≤ 0.40", "not met")),
        ([row("re-reads", "uniform", "read again", ratio=0.005)], ("0.50", "≤ 1.00", "met")),
        ([row("memory", str(n), "driver", amount=100 + n) for n in range(5)], ("1.96", "≤ 5.00", "met")),
        ([row("memory", str(n), "state", amount=100 + 5 * n) for n in range(4)], ("4.55", "≤ 5.00", "met")),
    ],
)
def test_targets_are_judged_by_the_rows(rows: list[measure.Row], cells: tuple[str, str, str]) -> None:
    assert [target.cells[1:] for target in spark_targets.judge(rows)] == [cells]


def test_rows_are_written_as_they_are_read(tmp_path: Path) -> None:
    stored = Path(__file__).parents[2] / "benchmarks" / "results" / "core.csv"
    measure.write_rows(measure.read_rows(stored), tmp_path / "core.csv")
    assert (tmp_path / "core.csv").read_bytes() == stored.read_bytes()
    mixed = [row("memory", "1", "driver", amount=2.5), row("phases", "1", "x", seconds_min=0.0)]
    measure.write_rows(mixed, tmp_path / "spark.csv")
    assert measure.read_rows(tmp_path / "spark.csv") == mixed


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say")
def test_memory_in_use_is_known() -> None:
    before = machine.resident()
    block = b"x" * 50_000_000
    after = machine.resident()
    assert before is not None
    assert after is not None
    assert after - before > len(block) // 2
