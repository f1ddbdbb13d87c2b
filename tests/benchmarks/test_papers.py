from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

pytest.importorskip("matplotlib")

import benchmarks
import skyband as sb
from benchmarks import baselines, measure, mtops, papers, report, stkqf
from benchmarks.papers import targets as papers_targets
from benchmarks.papers import views, work

BENCHMARKS: dict[str, Any] = {"mtops": mtops, "stkqf": stkqf}
COLUMNS = ["experiment", "data_set", "parameter", "value", "algorithm", "seconds", "events_per_s", "kept_candidates",
           "answers"]  # fmt: skip
DATA = Path(os.environ.get("SKYBAND_DATA", Path(__file__).parents[3] / "shared" / "data"))
with_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"no data sets in {DATA.name}/: set SKYBAND_DATA to their folder"
)


@pytest.fixture(scope="module", params=BENCHMARKS)
def smoke(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, benchmarks.Outcome]:
    """A smoke run where there are no recorded data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SKYBAND_DATA", raising=False)
        patch.chdir(tmp_path_factory.mktemp("elsewhere"))
        console = Console(file=io.StringIO(), width=120)
        outcome = benchmarks.run(request.param, smoke=True, output=tmp_path_factory.mktemp("bench"), console=console)
    return request.param, outcome


def test_every_experiment_leaves_rows_with_all_columns(smoke: tuple[str, benchmarks.Outcome]) -> None:
    name, outcome = smoke
    with outcome.csv.open() as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == COLUMNS == [field.name for field in fields(measure.Cell)]
    more = {"agreement", "work"} | ({"exact"} if name == "stkqf" else set())
    assert {line["experiment"] for line in lines} == {*BENCHMARKS[name].EXPERIMENTS, *more}
    assert {line["data_set"] for line in lines} == {"uniform", "normal"}
    assert all(float(line["seconds"]) > 0 and float(line["events_per_s"]) > 0 for line in lines)
    assert measure.read_rows(outcome.csv, measure.Cell) == outcome.rows


def test_every_cell_has_all_algorithms(smoke: tuple[str, benchmarks.Outcome]) -> None:
    name, outcome = smoke
    algorithms = BENCHMARKS[name].ALGORITHMS
    for _, cell in papers_targets.leads(outcome.rows):
        expected = set(algorithms) if cell[0].experiment != "real" else set(mtops.FAST)
        assert expected <= {row.algorithm for row in cell}
        whole = [row for row in cell if row.algorithm not in stkqf.SHARES]
        assert len({row.answers for row in whole}) == 1
        assert whole[0].answers > 0


def test_all_algorithms_agreed(smoke: tuple[str, benchmarks.Outcome]) -> None:
    name, outcome = smoke
    checked = [row for row in outcome.rows if row.experiment == "agreement"]
    assert {row.value for row in checked} == set(BENCHMARKS[name].EXPERIMENTS) - {"query-time"}
    for experiment in {row.value for row in checked}:
        found = {row.algorithm for row in checked if row.value == experiment}
        assert found >= (set(mtops.FAST) if experiment == "real" else set(BENCHMARKS[name].ALGORITHMS))


def test_the_page_shows_every_section_target_and_plot(smoke: tuple[str, benchmarks.Outcome]) -> None:
    name, outcome = smoke
    assert outcome.page is not None
    page, made = outcome.page.read_text(), report.page_of(name)
    assert outcome.page == outcome.csv.parent / "experiments" / f"{name}.md"
    assert "its figures mean nothing" in page
    assert "*stock* and *taxi* are left out" in page
    assert outcome.targets
    assert all(target.text in page for target in outcome.targets)
    drawn = {path.stem for path in (outcome.page.parent / name).glob("*.svg")}
    assert drawn == set(made.sections)
    assert all(f"({name}/{section}.svg)" in page for section in drawn)
    assert all(f"## {section.title}\n" in page for section in made.sections.values())
    about = json.loads(outcome.csv.with_suffix(".json").read_text())
    assert about["size"] == "smoke"


def test_what_a_paper_says_stands_beside_ours(smoke: tuple[str, benchmarks.Outcome]) -> None:
    assert smoke[1].page is not None
    page = smoke[1].page.read_text()
    said = {"mtops": ("| 330 |", "| 194 |", "| 30 to 40 |"), "stkqf": ("| 28 |", "| 50 |", "| stable |")}
    assert all(figure in page for figure in said[smoke[0]])


# Data.


def test_without_data_only_random_numbers_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SKYBAND_DATA", raising=False)
    assert papers.recorded_data(None) is None
    with mtops.setting(mtops.Scale()) as setting:
        assert setting.names == ("uniform", "normal")


def test_a_folder_without_the_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = r"there is no stock_trades/trades\.parquet in "
    with pytest.raises(benchmarks.BenchmarkError, match=wrong):
        benchmarks.run("mtops", data=tmp_path, smoke=True)
    monkeypatch.setenv("SKYBAND_DATA", str(tmp_path))
    with pytest.raises(benchmarks.BenchmarkError, match=wrong):
        benchmarks.run("stkqf", smoke=True)


@with_data
def test_recorded_streams_have_their_scores_and_begin_anew() -> None:
    setting = papers.setting_for(mtops.Scale(data=DATA))
    assert setting.names == ("stock", "taxi", "uniform", "normal")
    stock, taxi = (setting.stream(300_000, 10, name) for name in ("stock", "taxi"))
    assert stock.table.column_names == ["time", "id", "volume", "price"]
    assert stock.table["time"].to_pylist()[:3] == [0, 10, 20]
    volume, price = (stock.table[name].to_numpy() for name in ("volume", "price"))
    assert np.array_equal(stock.scores(), volume * price)
    assert np.array_equal(taxi.scores()[269_127:], taxi.scores()[: 300_000 - 269_127])


@with_data
@pytest.mark.parametrize("name", ["stock", "taxi"])
def test_algorithms_agree_on_recorded_streams(name: str) -> None:
    stream = papers.setting_for(mtops.Scale(data=DATA)).stream(6_000, 250, name)
    algorithms = list(dict.fromkeys([*mtops.ALGORITHMS, *stkqf.ALGORITHMS]))
    for queries in (mtops.WORKLOADS["general"].queries(10, stream), stkqf.Workload(10).queries(stream)):
        rows = list(papers.agreement("general", algorithms, stream, queries))
        assert [row.algorithm for row in rows] == algorithms
        assert all(row.answers > 10 for row in rows)


# How it is measured.


def stream(scores: list[float], step: int = 1) -> papers.Stream:
    row = np.arange(len(scores))
    return papers.Stream("given", "x1", pa.table({"time": row * step, "id": row, "x1": scores}), step)


def query(k: int = 2, size: int = 8, slide: int = 4) -> sb.Query:
    return sb.Query(f"{k} of {size}", k=k, score="x1", window=sb.Window(size, slide=slide))


def test_a_run_counts_answers_and_candidates() -> None:
    falling = stream([float(-i) for i in range(40)])
    run = papers.run("mtoplist", falling, [query()], batch=5)
    assert (run.events, run.answers, run.exact) == (40, 10, 10)
    assert (run.kept, run.places) == (4, 4)  # two views are open, with two events each
    assert papers.run("mtopband", falling, [query()], batch=5).places == 4
    assert papers.run("mintopk", falling, [query(), query(3)], batch=5).places == 6  # the same windows: one list
    assert run.seconds > 0


def test_stkqf_counts_its_candidates_only() -> None:
    run = papers.run("stkqf", stream([float(i) for i in range(40)]), [query(1)], batch=5)
    assert run.kept < 8 <= run.places  # the window is there too, to look things up in it


def test_short_runs_are_repeated_and_the_fastest_counts() -> None:
    spent = iter([0.3, 0.2, 0.1])
    jobs = {"short": lambda: papers.Run(next(spent), 10), "long": lambda: papers.Run(2.0, 10)}
    best = papers.fastest(jobs, measure.Patience(0.45))
    assert (best["short"].seconds, best["long"].seconds) == (0.2, 2.0)
    assert list(spent) == [0.1]


def test_a_share_is_of_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_name: str, part: papers.Stream, _queries: Any) -> papers.Run:
        return papers.Run(1.0, part.table.num_rows)

    monkeypatch.setattr(papers, "run", run)
    runs = papers.compare(["sap", "staircase"], stream([0.0] * 30), [query()], measure.Patience(0.0), {"sap": 3})
    assert {name: run.events for name, run in runs.items()} == {"sap": 10, "staircase": 30}


def test_an_algorithm_that_answers_otherwise_stops_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sb.ALGORITHMS, "idle", work.Idle)
    with pytest.raises(baselines.DisagreementError, match="k: idle and staircase give different answers"):
        list(papers.agreement("k", ["staircase", "idle"], stream([1.0] * 20), [query()]))


def test_the_monitor_alone_answers_with_nothing() -> None:
    run = work.alone(stream([1.0] * 20), [query()])
    assert (run.answers, run.kept) == (5, 0)
    assert "idle" not in sb.ALGORITHMS


def test_entries_are_those_of_a_sort_of_every_prefix() -> None:
    rng = np.random.default_rng(7)
    for k in (1, 3, 10):
        scores = rng.integers(0, 30, 200).astype(float)
        expected = sum(np.count_nonzero(scores[:i] > scores[i]) < k for i in range(len(scores)))
        assert views.entries(scores, k) == expected


def test_views_are_counted_as_the_lists_have_them() -> None:
    queries = [query(2, 8, 4), query(3, 8, 4), query(1, 12, 4), query(1, 9, 3)]
    apart, shared = (views.Views.of(queries, 40, shared=choice) for choice in (False, True))
    assert apart.mean_open(40) == pytest.approx(2 + 3 + 3)
    assert len(set(shared.start.tolist())) == len(shared.start)
    assert set(shared.start.tolist()) == set(apart.start.tolist())
    assert shared.k[shared.start == 4] == [3]
    ones = np.arange(40.0)
    assert apart.entered(ones, 1) == pytest.approx(8)  # rising scores enter every open view


def test_queries_are_drawn_from_their_ranges() -> None:
    given = stream([0.0] * 10, step=10)
    for query in mtops.WORKLOADS["general"].queries(50, given):
        assert 100_000 <= query.window.size <= 1_000_000
        assert 10_000 <= query.window.slide <= 100_000
        assert 1 <= query.most_rows <= 100
    drawn = stkqf.Workload(400, k=1000).queries(given)
    assert np.mean([query.window.size for query in drawn]) == pytest.approx(1_000_000, abs=30)
    assert np.std([query.window.slide for query in drawn]) == pytest.approx(100, rel=0.2)
    assert np.mean([query.k for query in drawn]) == pytest.approx(100, abs=3)


@pytest.mark.parametrize(("f", "expected"), [(0.5, [0, 1, 0, 1]), (2.0, [2, 2, 2, 2])])
def test_queries_are_replaced_at_the_rate(f: float, expected: list[int]) -> None:
    given = stream([0.0] * 10, step=100_000)
    workload = stkqf.Workload(3)
    queries = workload.queries(given)
    monitor = sb.Monitor(queries, time="time", id="id")
    between = stkqf.replacing(workload, given, [query.name for query in queries], f)
    served = [{query.name for query in queries}]
    for _ in expected:
        between(monitor)
        served.append({query.name for query in monitor.queries})
    assert [len(before - after) for before, after in pairwise(served)] == expected
    assert all(len(names) == 3 for names in served)


def test_answers_alone_are_timed_when_windows_are_full() -> None:
    scale = stkqf.Scale.of(full=False, smoke=True, data=None)
    setting = papers.Setting(scale, None, {})
    given = setting.stream(1_200, 1000)
    queries = [stkqf._ending_together(query, 10_000) for query in stkqf.Workload(4).queries(given)]
    assert {(query.window.offset + query.window.size) % 10_000 for query in queries} == {0}
    run = stkqf.answering("phtree", given, queries)
    assert run.answers == 4 * run.events // 10
    assert run.seconds > 0


# What is promised.


def cell(experiment: str, algorithm: str, speed: float, value: str = "1000") -> measure.Cell:
    return measure.Cell(experiment, "stock", "queries", value, algorithm, 1e6 / speed, speed, 10, 20)


def test_the_worst_cell_is_named() -> None:
    rows = [cell("k", "mtoplist", 10.0), cell("k", "staircase", 30.0), cell("f", "stkqf", 10.0),
            cell("f", "mtoplist", 2.0), cell("f", "staircase", 5.0), cell("work", "mtoplist", 99.0)]  # fmt: skip
    (target,) = papers_targets.worst_lead(rows)
    assert target.cells[1:] == ("0.50", "≥ 1.00", "not met")
    assert "in all 2 cells" in target.text
    assert "f, queries = 1000 on stock: stkqf" in target.text


def test_the_general_case_is_judged_against_the_best_published() -> None:
    rows = [cell("real", "mtoplist", 10.0), cell("real", "phtree", 100.0), cell("real", "staircase", 600.0)]
    few = [replace(row, value="100", seconds=seconds) for row, seconds in zip(rows, (30.0, 3.0, 1.0), strict=True)]
    targets = papers_targets.general_case([*few, *rows])
    assert [target.cells[1:] for target in targets] == [
        ("6.00", "≥ 5.00", "met"), ("30.00", "≤ 10.00", "not met"), ("3.00", "≤ 10.00", "met"),
    ]  # fmt: skip
    assert "(phtree)" in targets[0].text
    assert papers_targets.general_case([]) == []
