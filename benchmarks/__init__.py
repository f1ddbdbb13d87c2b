"""Benchmarks: `python -m benchmarks NAME` measures, writes the figures, and the page that shows them.

A benchmark is a package here of its name, with a `Scale` (how much of everything), a `setting` to run in, and
`EXPERIMENTS`, which yield rows; its module `page` has the texts, plots and targets of its page.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from skyband.errors import SkybandError

if TYPE_CHECKING:
    from benchmarks.targets import Target

BENCHMARKS = {
    "core": "the engine-free core: time, kept candidates, many queries, files, peers",
    "spark": "the Spark pipeline: speed against scanning and other ways, many queries, where time and memory go",
    "mtops": "the experiments of the thesis on MTopS: up to a thousand queries with arbitrary parameters",
    "stkqf": "the experiments of the paper on STKQF: windows, slides, answers, queries that come and go",
    "topkw": "the experiments of the paper on sliding-window k-skybands: hundreds of queries, each with its own score",
    "acquatop": "the experiments of the paper on AcquaTop: rankings joined with remote data, under a refresh budget",
    "filter": "the experiments of the FILTER paper: filters over remote data, under a refresh budget",
}
RESULTS, DOCS = Path("benchmarks/results"), Path("docs")
NEEDED = {
    "core": ("polars", "duckdb"),
    "spark": ("pyspark", "pandas"),
    "mtops": (),
    "stkqf": (),
    "topkw": (),
    "acquatop": (),
    "filter": (),
}
EXTRAS = {"spark": "[spark]"}  # beside the dependency group bench


class BenchmarkError(SkybandError):
    """A benchmark that cannot be run as asked."""


@dataclass(frozen=True)
class Outcome:
    """What a benchmark found, and where it wrote it; rows are of the kind that its page says."""

    rows: Sequence[Any]
    targets: Sequence[Target]
    csv: Path
    page: Path | None


def run(
    name: str,
    *,
    data: str | Path | None = None,
    output: str | Path | None = None,
    full: bool = False,
    smoke: bool = False,
    experiment: str | None = None,
    variants: Sequence[str] = (),
    console: Console | None = None,
) -> Outcome:
    """Run a benchmark and report it.

    Parameters
    ----------
    name
        A key of `BENCHMARKS`.
    data
        For `core` and `spark` where the Parquet files they make are kept for the next time; a temporary folder when
        left out. For the experiments of papers the folder of the recorded data sets; when left out, that of the
        environment variable ``SKYBAND_DATA``, or ``../shared/data`` if it is there.
    output
        Where the figures and the page go; when left out, to the places they have in the repository,
        ``benchmarks/results`` and ``docs``, under the current folder. A name that ends in ``.csv`` is the file of the
        figures, and then there is no page. A smoke run goes to a temporary folder instead.
    full, smoke
        Larger and longer; or, within seconds, only to see that everything works.
    experiment
        Run only this one; needs the name of a file as `output`.
    variants
        Names of other ways to run it, where the benchmark has any.
    console
        Where progress and the closing table are shown.

    Raises
    ------
    BenchmarkError
        For an unknown name, contradicting sizes, data that are not there, or a package that is not installed.
    """
    _check(name, full, smoke)
    csv, docs = _places(name, output, smoke)
    from benchmarks import machine, measure, report  # here: they need the group
    from benchmarks.workloads import SEED

    benchmark: Any = import_module(f"benchmarks.{name}")
    experiments = _chosen(name, benchmark, experiment, docs)
    options = {"variants": _known(name, benchmark, variants)} if variants else {}
    scale = benchmark.Scale.of(full=full, smoke=smoke, data=None if data is None else Path(data), **options)
    show = console or Console()
    with benchmark.setting(scale) as setting:
        rows = _measured(experiments, setting, show)
    measure.write_rows(rows, csv)
    size = "smoke" if smoke else "full" if full else "default"
    about = machine.describe(NEEDED[name]) | {"seed": SEED, "size": size} | setting.about
    csv.with_suffix(".json").write_text(json.dumps(about, indent=2) + "\n")
    page = None if docs is None else report.write(csv, docs)
    found = report.page_of(name).judge(rows)
    if found:
        show.print(_table(found, size))
    show.print(f"Figures: {csv}" + ("" if page is None else f"\nPage: {page}"))
    return Outcome(rows, found, csv, page)


def _places(name: str, output: str | Path | None, smoke: bool) -> tuple[Path, Path | None]:
    """Return the file of the figures, and the folder of the page if there is to be one; the folder is there then."""
    places: tuple[Path, Path | None] = RESULTS / f"{name}.csv", DOCS
    if output is not None or smoke:
        given = Path(output or mkdtemp(prefix="skyband-smoke-"))  # figures that mean nothing replace none that do
        places = (given, None) if given.suffix == ".csv" else (given / f"{name}.csv", given)
    folder = places[0].parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"cannot write to {str(folder)!r}: {error.strerror}; name another folder with --output"
        raise BenchmarkError(msg) from None
    return places


def _chosen(name: str, benchmark: Any, experiment: str | None, docs: Path | None) -> dict[str, Any]:
    if experiment is None:
        return dict(benchmark.EXPERIMENTS)
    if experiment not in benchmark.EXPERIMENTS:
        msg = f"{name} has no experiment {experiment!r}; choose one of {', '.join(benchmark.EXPERIMENTS)}"
        raise BenchmarkError(msg)
    if docs is not None:
        msg = "one experiment alone makes no page; name the file of its figures: --output FILE.csv"
        raise BenchmarkError(msg)
    return {experiment: benchmark.EXPERIMENTS[experiment]}


def _known(name: str, benchmark: Any, variants: Sequence[str]) -> Sequence[str]:
    there = getattr(benchmark, "VARIANTS", {})
    for variant in variants:
        if variant not in there:
            choice = f"choose one of {', '.join(there)}" if there else "it has none"
            msg = f"{name} has no variant {variant!r}; {choice}"
            raise BenchmarkError(msg)
    return variants


def _check(name: str, full: bool, smoke: bool) -> None:
    if name not in BENCHMARKS:
        msg = f"there is no benchmark {name!r}; choose one of {', '.join(BENCHMARKS)}"
        raise BenchmarkError(msg)
    if full and smoke:
        msg = "both full and smoke were asked for; choose one"
        raise BenchmarkError(msg)
    missing = [package for package in (*NEEDED[name], "matplotlib") if importlib.util.find_spec(package) is None]
    if missing:
        install = f"pip install -e '.{EXTRAS.get(name, '')}' --group bench"
        msg = f"benchmarks need {', '.join(missing)}, not installed here; run: {install} (pip 25.1 or newer)"
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
            for row in experiment(setting):
                rows.append(row)
                progress.update(task, description=f"[bold]{name}[/]: {what}, {len(rows):,} rows")
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
