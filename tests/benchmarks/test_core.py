from __future__ import annotations

import csv
import io
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

pytest.importorskip("polars")
pytest.importorskip("duckdb")
pytest.importorskip("matplotlib")

import benchmarks
from benchmarks import baselines, core, measure, workloads
from benchmarks.core import targets


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[benchmarks.Outcome, str]:
    console = Console(file=io.StringIO(), width=120)
    outcome = benchmarks.run("core", smoke=True, output=tmp_path_factory.mktemp("bench"), console=console)
    shown: Any = console.file
    return outcome, shown.getvalue()


def test_every_experiment_leaves_rows_with_all_columns(smoke: tuple[benchmarks.Outcome, str]) -> None:
    with smoke[0].csv.open() as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == [field.name for field in fields(measure.Row)]
    assert {line["experiment"] for line in lines} == {*core.EXPERIMENTS, "agreement"} - {"many"}
    assert all(float(line["seconds_min"]) > 0 and int(line["repeats"]) > 0 for line in lines)
    assert measure.read_rows(smoke[0].csv) == smoke[0].rows


def test_all_ways_agreed(smoke: tuple[benchmarks.Outcome, str]) -> None:
    checked = [row for row in smoke[0].rows if row.experiment == "agreement"]
    for task, named in (("one query", core.SMART | core.LOOPS), ("many queries", core.MANY)):
        found = {row.way: row.answer_rows for row in checked if row.value == task}
        assert set(named) <= set(found)
        assert len(set(found.values())) == 1


def test_the_machine_is_described(smoke: tuple[benchmarks.Outcome, str]) -> None:
    about = json.loads(smoke[0].csv.with_suffix(".json").read_text())
    assert {"python", "numpy", "polars", "duckdb"} <= set(about["versions"])
    assert about["seed"] == workloads.SEED
    assert about["size"] == "smoke"


def test_the_page_shows_every_target_and_plot(smoke: tuple[benchmarks.Outcome, str]) -> None:
    assert smoke[0].page
    page = smoke[0].page.read_text()
    assert "its figures mean nothing" in page
    assert all(target.text in page for target in smoke[0].targets)
    drawn = sorted(path.stem for path in smoke[0].page.parent.joinpath("benchmarks").glob("*.svg"))
    assert drawn == sorted(core.EXPERIMENTS)
    assert all(f"benchmarks/{name}.svg" in page for name in drawn)


def test_what_is_not_met_is_said(smoke: tuple[benchmarks.Outcome, str]) -> None:
    verdicts = {target.cells[-1] for target in smoke[0].targets}
    assert all(verdict in smoke[1] for verdict in verdicts)
    slow = [replace(row, ratio=4.5) for row in smoke[0].rows if row.experiment == "pass"]
    assert [target.cells[1:] for target in targets.judge(slow)] == [("4.50", "≤ 4.00", "not met")] * 3


def test_a_peer_that_answers_otherwise_stops_the_benchmark() -> None:
    def shallow(source: Any, queries: Any) -> measure.Job:
        return baselines.numpy_loop(source, [replace(query, k=query.k - 1) for query in queries])

    named: dict[str, baselines.Way] = {"skyband": baselines.skyband, "shallow": shallow}
    source = workloads.events(1000, 10)
    with pytest.raises(baselines.DisagreementError, match="task: shallow and skyband give different answers"):
        list(baselines.check("task", named, source, workloads.one_query(k=5), 1000))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": "cores"}, "there is no benchmark 'cores'; choose one of core, spark"),
        ({"name": "core", "full": True, "smoke": True}, "both full and smoke"),
    ],
)
def test_what_cannot_be_run_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(benchmarks.BenchmarkError, match=words):
        benchmarks.run(**given)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(benchmarks.NEEDED, "core", ("no_such_package",))
    with pytest.raises(benchmarks.BenchmarkError, match=r"need no_such_package.*pip install -e '\.' --group bench"):
        benchmarks.run("core")


def test_parquet_files_are_made_once(tmp_path: Path) -> None:
    table = workloads.events(100, 10)
    paths = workloads.write_parquet(table, tmp_path)
    before = [path.stat().st_mtime_ns for path in paths]
    assert workloads.write_parquet(table, tmp_path) == paths
    assert [path.stat().st_mtime_ns for path in paths] == before
