"""Benchmarks: `skyband bench NAME` measures, writes the figures, and the page that shows them.

A benchmark is a module here of its name, with a `Scale` (how much of everything), a `setting` to run in, and
`EXPERIMENTS`, which yield rows; and a module of its page, with the texts, plots and targets.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from skyband.errors import SkybandError

if TYPE_CHECKING:
    from skyband.bench.targets import Target

BENCHMARKS = {
    "core": "the engine-free core: time, kept candidates, many queries, files, peers",
    "spark": "the Spark pipeline: speed against scanning and other ways, many queries, where time and memory go",
    "mtops": "the experiments of the thesis on MTopS: up to a thousand queries with arbitrary parameters",
    "stkqf": "the experiments of the paper on STKQF: windows, slides, answers, queries that come and go",
}
RESULTS, DOCS = Path("benchmarks/results"), Path("docs")
NEEDED = {"core": ("polars", "duckdb"), "spark": ("pyspark", "pandas"), "mtops": (), "stkqf": ()}
EXTRAS = {"core": "bench", "spark": "spark,bench", "mtops": "bench", "stkqf": "bench"}


class BenchmarkError(SkybandError):
    """A benchmark that cannot be run as asked."""


@dataclass(frozen=True)
class Outcome:
    """What a benchmark found, and where it wrote it; rows are of the kind that its page says."""

    rows: Sequence[Any]
    targets: Sequence[Target]
    csv: Path
    page: Path


def run(
    name: str,
    *,
    data: str | Path | None = None,
    output: str | Path | None = None,
    full: bool = False,
    smoke: bool = False,
    console: Console | None = None,
) -> Outcome:
    """Run a benchmark and report it.

    Parameters
    ----------
    name
        A key of `BENCHMARKS`.
    data
        For `core` and `spark` where the Parquet files they make are kept for the next time; a temporary folder when
        left out. For `mtops` and `stkqf` the folder of the recorded data sets; when left out, that of the environment
        variable ``SKYBAND_DATA``, or ``../shared/data`` if it is there.
    output
        Where the figures and the page go; when left out, to the places they have in the repository,
        ``benchmarks/results`` and ``docs``, under the current folder.
    full, smoke
        Larger and longer; or, within seconds, only to see that everything works.
    console
        Where progress and the closing table are shown.

    Raises
    ------
    BenchmarkError
        For an unknown name, contradicting sizes, or a package that is not installed.
    """
    _check(name, full, smoke)
    results, docs = (RESULTS, DOCS) if output is None else (Path(output), Path(output))
    from skyband.bench import machine, measure, report  # here: they need the extra
    from skyband.bench.workloads import SEED

    benchmark: Any = import_module(f"skyband.bench.{name}")
    scale = benchmark.Scale.of(full=full, smoke=smoke, data=None if data is None else Path(data))
    show = console or Console()
    with benchmark.setting(scale) as setting:
        rows = _measured(benchmark.EXPERIMENTS, setting, show)
    results.mkdir(parents=True, exist_ok=True)
    csv = results / f"{name}.csv"
    measure.write_rows(rows, csv)
    size = "smoke" if smoke else "full" if full else "default"
    about = machine.describe(NEEDED[name]) | {"seed": SEED, "size": size} | setting.about
    csv.with_suffix(".json").write_text(json.dumps(about, indent=2) + "\n")
    page = report.write(csv, docs)
    found = report.page_of(name).judge(rows)
    show.print(_table(found, size))
    show.print(f"Figures: {csv}\nPage: {page}")
    return Outcome(rows, found, csv, page)


def _check(name: str, full: bool, smoke: bool) -> None:
    if name not in BENCHMARKS:
        msg = f"there is no benchmark {name!r}; choose one of {', '.join(BENCHMARKS)}"
        raise BenchmarkError(msg)
    if full and smoke:
        msg = "both full and smoke were asked for; choose one"
        raise BenchmarkError(msg)
    missing = [package for package in (*NEEDED[name], "matplotlib") if importlib.util.find_spec(package) is None]
    if missing:
        msg = f"benchmarks need {', '.join(missing)}, not installed here; install the extra 'skyband[{EXTRAS[name]}]'"
        raise BenchmarkError(msg)


def _measured(experiments: dict[str, Callable[[Any], Iterable[Any]]], setting: Any, console: Console) -> list[Any]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    rows: list[Any] = []
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(experiments))
        for name, experiment in experiments.items():
            what = (experiment.__doc__ or "").split("\n")[0]
            progress.update(task, description=f"[bold]{name}[/]: {what}")
            if not console.is_terminal:  # there is no bar to look at
                console.print(f"{name}: {what}")
            rows += experiment(setting)
            progress.advance(task)
    return rows


def _table(targets: Sequence[Target], size: str) -> Table:
    title = "Targets" if size != "smoke" else "Targets (smoke run: the figures mean nothing)"
    table = Table("target", "measured", "promised", "", title=title)
    for target in targets:
        colour = "green" if target.met else "red"
        *cells, verdict = target.cells
        table.add_row(*cells, f"[{colour}]{verdict}[/]")
    return table
