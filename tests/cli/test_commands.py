"""The smaller commands."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

import skyband as sb
from skyband.cli.board import Board
from skyband.cli.demo import COUNTED, JOINING, TIMED, run_demo
from skyband.cli.market import Market
from skyband.files.job import Report
from tests.cli.conftest import Invoke


def test_version(invoke: Invoke) -> None:
    assert invoke("--version").stdout == f"skyband {sb.__version__}\n"


def test_python_dash_m() -> None:
    done = subprocess.run([sys.executable, "-m", "skyband", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"skyband {sb.__version__}\n"


def test_algorithms_lists_them_all(invoke: Invoke) -> None:
    shown = invoke("algorithms")
    assert shown.exit_code == 0
    listed = json.loads(invoke("algorithms", "--json").stdout)
    assert [one["name"] for one in listed] == list(sb.ALGORITHMS)
    assert [one["name"] for one in listed if one["default"]] == ["staircase"]
    assert all(one["name"] in shown.stdout for one in listed)
    (error, *_) = next(one["options"] for one in listed if one["name"] == "pa")
    assert (error["name"], error["default"], error["symbol"]) == ("error", 0.001, "σ")
    assert all(option["name"] in shown.stdout for one in listed for option in one["options"])


def test_options_of_an_algorithm_come_from_the_command_or_the_query_file(tmp_path: Path, invoke: Invoke) -> None:
    queries = tmp_path / "queries.toml"

    def shown(*given: str) -> str:
        return invoke("explain", queries, *given).stdout

    queries.write_text('[[query]]\nname = "top"\nk = 3\nscore = "x"\nsize = "1 hour"\n')
    assert "algorithm 'stkqf(cells=4)'" in shown("--algorithm", "stkqf( cells = 4 )")
    queries.write_text('algorithm = "stkqf(cells=16)"\n' + queries.read_text())
    assert "algorithm 'stkqf(cells=16)'" in shown()
    assert "algorithm 'naive'" in shown("--algorithm", "naive")


def test_explain_needs_no_data(queries: Path, invoke: Invoke) -> None:
    shown = invoke("explain", queries)
    assert shown.exit_code == 0
    assert "2 queries in 2 groups, algorithm 'staircase'" in shown.stdout
    assert "top: best 3 over Window('1 minute', slide='20 seconds')" in shown.stdout
    assert "naive" in invoke("explain", queries, "--algorithm", "naive").stdout


def test_explain_reports_mistakes(tmp_path: Path, invoke: Invoke) -> None:
    result = invoke("explain", tmp_path / "no.toml")
    assert result.exit_code == 2
    assert "no such file" in result.stderr


# The demo.

QUERIES = [*TIMED, COUNTED]


def test_the_demo_shows_its_end_where_there_is_no_terminal(tmp_path: Path, invoke: Invoke) -> None:
    output = tmp_path / "answers.parquet"
    result = invoke("demo", "--seconds", 1, "--output", output)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    for query in QUERIES:
        assert query.name in result.stdout
    assert "candidates kept" in result.stdout
    assert "rejected" in result.stdout
    answers = pq.read_table(output)
    assert answers.num_rows
    assert set(answers["query"].to_pylist()) == {query.name for query in QUERIES if not query.window.counts}
    assert invoke("demo", "--seconds", 1, "--output", output).exit_code == 2


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_demo_on_spark(tmp_path: Path, invoke: Invoke) -> None:
    output = tmp_path / "answers.csv"
    result = invoke("demo", "--seconds", 1, "--fast", "--output", output, "--engine", "spark")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("starting Spark")
    names = {query.name for query in (*TIMED, JOINING)}
    for name in names:
        assert name in result.stdout
    assert "warming up, to" in result.stdout
    assert {row["query"] for row in csv.DictReader(output.open())} == names


def test_the_demo_draws_in_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(force_terminal=True, width=80, height=24)
    run_demo(console, seconds=2, output=None, seed=1, fast=True, overwrite=False, engine="local")
    shown = capsys.readouterr().out
    assert "\x1b[?1049h" in shown  # a screen of its own, left at the end
    assert "\x1b[?1049l" in shown
    assert "more queries need a larger window" in shown


@pytest.mark.parametrize(("width", "height"), [(80, 24), (140, 40), (40, 10), (200, 60)])
def test_the_board_fits_its_terminal(width: int, height: int) -> None:
    board, monitor = Board(QUERIES), sb.Monitor(QUERIES, time="ts", id="symbol")
    market = Market(5)
    for _ in range(3):
        board.update(monitor.push(market.next(15.0)))
        board.update(monitor.advance(monitor.newest))
    report = Report()
    report.note(monitor.stats())
    board.note(report, monitor.watermark)
    console = Console(width=width, height=height, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(board.render(width, height))
    lines = console.export_text().splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert any("new" in line or "▲" in line for line in lines)


def test_the_market_has_late_and_broken_rows() -> None:
    monitor = sb.Monitor(QUERIES[:1], time="ts", id="symbol")
    market = Market(3, rate=500)
    for _ in range(40):
        monitor.push(market.next(10.0))
        monitor.advance(monitor.newest - 5_000_000)
    stats = monitor.stats()
    assert stats.late
    assert stats.partly_late
    assert stats.rejected
