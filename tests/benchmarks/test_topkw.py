from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

pytest.importorskip("matplotlib")

import benchmarks
from benchmarks import baselines, measure, report, topkw
from benchmarks.topkw import claims, data, runs, targets
from benchmarks.topkw.runs import Effort, Scenario, Trial

FILE = Path(os.environ.get("SKYBAND_DATA", Path(__file__).parents[3] / "shared" / "data")) / data.FILE
with_data = pytest.mark.skipif(
    not FILE.exists(), reason=f"no {data.FILE}: set SKYBAND_DATA to the folder of the data sets"
)
SMALL = Scenario(queries=3, k=2, n=50, b=10)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> benchmarks.Outcome:
    """A smoke run where there are no recorded data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SKYBAND_DATA", raising=False)
        patch.chdir(tmp_path_factory.mktemp("elsewhere"))
        console = Console(file=io.StringIO(), width=120)
        return benchmarks.run("topkw", smoke=True, output=tmp_path_factory.mktemp("bench"), console=console)


def test_every_experiment_leaves_rows_with_all_columns(smoke: benchmarks.Outcome) -> None:
    with smoke.csv.open() as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == [field.name for field in fields(Trial)]
    assert {line["experiment"] for line in lines} == set(topkw.EXPERIMENTS)
    assert {line["data_set"] for line in lines} == {"uniform", "clustered"}
    assert {line["algorithm"] for line in lines} == {*topkw.NINE, "rapf2", "cpm", "snn", "blocks"}
    assert all(float(line["seconds"]) > 0 and float(line["events_per_s"]) > 0 for line in lines)
    assert measure.read_rows(smoke.csv, Trial) == smoke.rows


def test_the_page_shows_every_section_target_and_plot(smoke: benchmarks.Outcome) -> None:
    assert smoke.page is not None
    page, made = smoke.page.read_text(), report.page_of("topkw")
    assert smoke.page == smoke.csv.parent / "experiments" / "topkw.md"
    assert "its figures mean nothing" in page
    assert "*randomised real* and *real* are left out" in page
    assert len(smoke.targets) == 9
    assert all(target.text in page for target in smoke.targets)
    drawn = {path.stem for path in (smoke.page.parent / "topkw").glob("*.svg")}
    assert drawn == {name for name, section in made.sections.items() if section.plot}
    assert all(f"(topkw/{section}.svg)" in page for section in drawn)
    assert all(f"## {section.title}\n" in page for section in made.sections.values())
    assert json.loads(smoke.csv.with_suffix(".json").read_text())["size"] == "smoke"


def test_what_the_paper_finds_is_judged(smoke: benchmarks.Outcome) -> None:
    found = claims.findings(smoke.rows)
    assert {finding.figure[:2].strip() for finding in found} == {"8", "9", "10", "11", "12"}
    assert all(finding.holds or finding.why_not for finding in found)
    assert smoke.page is not None
    page = smoke.page.read_text()
    assert all(f"| {finding.text} | {finding.here} |" in page for finding in found)


# Data.


def test_without_readings_only_random_numbers_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SKYBAND_DATA", raising=False)
    assert data.recorded_sensors(None) is None
    with pytest.raises(benchmarks.BenchmarkError, match=r"there is no sensors/readings\.parquet in "):
        benchmarks.run("topkw", data=tmp_path, smoke=True)


@pytest.mark.parametrize("name", data.DRAWN)
def test_drawn_points_fill_the_unit_cube_and_are_the_same_again(name: str) -> None:
    points = data.points(name, 3_000, 3)
    assert points.shape == (3_000, 3)
    assert 0 <= points.min() < points.max() <= 1
    assert np.array_equal(points, data.points(name, 3_000, 3))
    in_cells, _ = np.histogramdd(points, bins=4, range=[(0, 1)] * 3)
    assert (np.median(in_cells) > 30) == (name == "uniform")


@with_data
def test_readings_are_in_order_of_time_or_drawn_from_the_same() -> None:
    whole = data.readings(FILE)
    assert whole.shape[1] == 4
    assert (whole.min(), whole.max()) == (0, 1)
    real, drawn = (data.points(name, len(whole) + 5, 4, FILE) for name in ("real", "randomised real"))
    assert np.array_equal(real[len(whole) :], whole[:5])
    step, mixed = (np.abs(np.diff(points[:, 0])).mean() for points in (real, drawn))
    assert step < 0.7 * mixed  # stations take turns, but it is the same hour for all
    assert {tuple(row) for row in drawn[:200]} <= {tuple(row) for row in whole}


@with_data
def test_everything_agrees_on_readings() -> None:
    with topkw.setting(topkw.Scale.of(full=False, smoke=True, data=FILE.parents[1])) as setting:
        rows = list(topkw.agreement(setting))
        assert {row.data_set for row in rows} == {*data.DRAWN, *data.RECORDED}
        (worst,) = (row for row in topkw.errors(setting) if (row.data_set, row.value) == ("real", "3"))
    assert worst.missed is not None
    assert worst.missed > 1  # what PA is not made for


# How it is measured.


def test_windows_are_filled_before_the_clock_runs() -> None:
    points = data.points("uniform", 200, 2)
    done = runs.run("ra", SMALL, points, Effort(20, 100, 0.0, 9.0, batch=10))
    assert (done.windows, done.events) == ("full", 20)
    whole = runs.run("ra", SMALL, points, runs.ALL_OF_IT)
    assert (whole.windows, whole.events) == ("from the start", 200)
    stopped = runs.run("ra", SMALL, points, Effort(20, 100, 0.0, 0.0, batch=10))
    assert (stopped.windows, stopped.events) == ("filling", 10)


def test_references_and_objects_are_those_at_the_end() -> None:
    points = data.points("uniform", 200, 2)
    done = runs.run("cpm", SMALL, points, runs.ALL_OF_IT)
    assert (done.references, done.objects) == (3 * SMALL.k, SMALL.n)
    row = done.trial("k", "k", 2, "cpm", SMALL)
    assert (row.references, row.objects, row.indexed) == (2, SMALL.n / 3, "yes")


def test_the_longest_buffer_is_half_a_window() -> None:
    assert SMALL.engine("rapf2").method.buffer == SMALL.n // 2
    assert SMALL.engine("rapf").method.buffer == SMALL.b
    assert replace(SMALL, indexed=False).engine("pa").method.additional == 0


def test_an_algorithm_that_reports_otherwise_stops_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topkw, "NINE", ("sa", "ra"))
    true = runs.reports_of

    def one_less(algorithm: str, scenario: Scenario, points: np.ndarray) -> tuple[np.ndarray, runs.Run]:
        found, done = true(algorithm, scenario, points)
        return (found[1:] if algorithm == "ra" else found), done

    monkeypatch.setattr(topkw, "reports_of", one_less)
    setting = topkw.Setting(topkw.Scale.of(full=False, smoke=True, data=None), None, {})
    with pytest.raises(
        baselines.DisagreementError, match="ra and sa report different events on uniform, indexed: True"
    ):
        list(topkw.agreement(setting))


def test_own_threads_are_given_back() -> None:
    import skyband.algorithms.topkw.blocks as blocks

    before = blocks.THREADS
    with runs.on_one_core():
        assert blocks.THREADS == 1
    assert before == blocks.THREADS


# What is promised.


def row(experiment: str, algorithm: str, micros: float, value: str = "81") -> Trial:
    return Trial(experiment, "uniform", "k", value, algorithm, "yes", 400, 40_000, "full", 1_000_000, micros,
                 1e6 / micros, 1.0, 1.0, 1)  # fmt: skip


def test_promises_are_judged_from_the_rows() -> None:
    rows = [row("default", "pa", 3.0, "9"), row("default", "rapf", 12.0, "9"), row("default", "blocks", 5.0, "9")]
    rows += [row("order", *one) for one in (("pa", 2.0), ("rapf", 4.0), ("ra", 8.0), ("sa", 6.0), ("snn", 12.0),
                                            ("cpm", 8.0))]  # fmt: skip
    rows.append(row("subscriptions", "blocks", 8.0))
    assert [target.cells[1:] for target in targets.judge(rows)] == [
        ("3.00", "≤ 10.00", "met"), ("12.00", "≤ 10.00", "not met"), ("2.40", "≥ 2.00", "met"),
        ("0.50", "≤ 1.00", "met"), ("0.50", "≤ 1.00", "met"), ("1.33", "≤ 1.00", "not met"),
        ("6.00", "≥ 5.00", "met"), ("4.00", "≥ 5.00", "not met"), ("125.00", "≥ 100.00", "met"),
    ]  # fmt: skip
    assert targets.judge([]) == []


def test_errors_decide_the_first_finding() -> None:
    def counted(missed: float, wrong: float) -> Trial:
        return replace(row("error", "pa", 1.0, "9"), missed=missed, wrong=wrong)

    (kept, *_), (broken, *_) = (claims.findings([counted(*errors)]) for errors in ((0.02, 0.03), (0.03, 0.03)))
    assert (kept.holds, broken.holds) == (True, False)
    assert "σN/n = 0.025 " in kept.here
