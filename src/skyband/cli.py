"""The command line: run queries over files, look at algorithms and plans, see it live."""

from __future__ import annotations

import functools
import importlib
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ParamSpec, TypeVar, cast, get_args

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

import skyband as sb
from skyband.errors import InputError, SkybandError
from skyband.files.job import Job, execute
from skyband.files.queries import load
from skyband.monitor import Monitor
from skyband.rows import Source, TimeUnit
from skyband.terminal.progress import Bar, summary

app = typer.Typer(
    name="skyband", help="Continuous top-k queries over streams.", no_args_is_help=True, pretty_exceptions_enable=False
)  # fmt: skip
P = ParamSpec("P")
R = TypeVar("R")
USER_ERROR, INTERRUPTED, TERMINATED = 2, 130, 143
DEFAULT_ALGORITHM = "staircase"


def main() -> None:
    """Enter here from the shell."""
    signal.signal(signal.SIGTERM, _terminated)
    app(prog_name="skyband")


class Terminated(BaseException):
    """Someone asked the process to end."""


def _terminated(*_: object) -> None:
    raise Terminated


def careful(command: Callable[P, R]) -> Callable[P, R]:
    """Turn a user's mistake into a sentence and exit code 2; Ctrl-C into exit code 130."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (SkybandError, OSError, pa.ArrowInvalid) as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(USER_ERROR) from None
        except (KeyboardInterrupt, Terminated) as ending:
            typer.echo("interrupted; nothing was written", err=True)
            raise typer.Exit(INTERRUPTED if isinstance(ending, KeyboardInterrupt) else TERMINATED) from None

    return wrapped


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"skyband {sb.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop."),
    ] = False,
) -> None: ...


Queries = Annotated[Path, typer.Argument(metavar="QUERIES", help="A .toml file of queries.", show_default=False)]


@app.command("run")
@careful
def run_(
    queries: Queries,
    inputs: Annotated[
        list[Path],
        typer.Option("--input", help="File or folder: Parquet, CSV, JSON lines. May be given again."),
    ],
    output: Annotated[
        Path,
        typer.Option(help="Where answers go: .parquet, .csv, .jsonl (or .gz of text); - is standard output."),
    ],
    time: Annotated[str | None, typer.Option(help="The column of event times.")] = None,
    id: Annotated[str | None, typer.Option(help="The column of ids.")] = None,  # noqa: A002 - the option's name
    time_unit: Annotated[str | None, typer.Option(help="Unit of times that are numbers: s, ms, us or ns.")] = None,
    watermark: Annotated[
        str | None,
        typer.Option(help="How late events may come, such as '10 seconds'; else all wait for the end."),
    ] = None,
    algorithm: Annotated[str, typer.Option(help="See 'skyband algorithms'.")] = DEFAULT_ALGORITHM,
    engine: Annotated[str, typer.Option(help="Where to run: local.")] = "local",
    checkpoint: Annotated[Path | None, typer.Option(help="Only for the Spark engine.")] = None,
    late: Annotated[Path | None, typer.Option(help="Where late rows go (the columns that queries use).")] = None,
    rejected: Annotated[Path | None, typer.Option(help="Where rows without score, time or id go.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show errors only.")] = False,
) -> None:
    """Answer queries over files.

    Reads the files as one bounded stream, in order of their names, and writes the answers part by part. The files
    it writes appear when all is done, or not at all. Times are in UTC.
    """
    _check_engine(engine, checkpoint)
    file = load(queries)
    job = Job(
        queries=file.queries,
        inputs=inputs,
        output=output,
        source=Source(
            _needed("time", time or file.time),
            _needed("id", id or file.id),
            _unit(time_unit or file.time_unit),
        ),
        algorithm=algorithm,
        watermark=watermark or file.watermark,
        late=late,
        rejected=rejected,
        overwrite=overwrite,
    )
    console = Console(stderr=True)
    with Bar(console, quiet) as bar:
        report = execute(job, bar)
    if not quiet:
        console.print(summary(report, output))


def _check_engine(engine: str, checkpoint: Path | None) -> None:
    if engine == "spark":
        msg = "the Spark engine is not part of this version yet; leave --engine out to run locally"
        raise InputError(msg)
    if engine != "local":
        msg = f"there is no engine {engine!r}; the only one is local"
        raise InputError(msg)
    if checkpoint is not None:
        msg = "--checkpoint belongs to the Spark engine; a local run starts anew each time: leave it out"
        raise InputError(msg)


def _needed(what: str, given: str | None) -> str:
    if not given:
        msg = (
            f"the column of the {what} is not known; add --{what} COLUMN, "
            f'or {what} = "COLUMN" at the top of the query file'
        )
        raise InputError(msg)
    return given


def _unit(given: str | None) -> TimeUnit | None:
    if given is not None and given not in get_args(TimeUnit):
        msg = f"the time unit is {given!r}; use s, ms, us or ns"
        raise InputError(msg)
    return cast(TimeUnit | None, given)


@app.command()
@careful
def algorithms(as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False) -> None:
    """List the algorithms."""
    found = [
        {"name": a.name, "exact": a.exact, "default": a.name == DEFAULT_ALGORITHM, "summary": a.summary}
        for a in sb.ALGORITHMS.values()
    ]
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    table = Table("name", "exact", "what is special")
    for one in found:
        name = f"{one['name']} (default)" if one["default"] else str(one["name"])
        table.add_row(name, "yes" if one["exact"] else "no", str(one["summary"]))
    Console().print(table)


@app.command()
@careful
def explain(
    queries: Queries,
    algorithm: Annotated[str, typer.Option(help="See 'skyband algorithms'.")] = DEFAULT_ALGORITHM,
) -> None:
    """Say which queries share what, and what is kept; needs no data."""
    typer.echo(Monitor(load(queries).queries, algorithm=algorithm).explain())


@app.command()
@careful
def demo(
    seconds: Annotated[float, typer.Option(help="How long it goes on, at most 60.", min=0.1, max=60.0)] = 20.0,
    output: Annotated[Path | None, typer.Option(help="Keep the answers in this file.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed gives another market.", min=0)] = 7,
    fast: Annotated[bool, typer.Option("--fast", help="Do not wait: as fast as the trades can be made.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")] = False,
) -> None:
    """Watch leaderboards over a made-up market."""
    from skyband.terminal.demo import run_demo

    run_demo(Console(), seconds=seconds, output=output, seed=seed, fast=fast, overwrite=overwrite)


@app.command()
@careful
def bench(
    name: Annotated[str, typer.Argument(help="Which benchmark, such as core.")],
    data: Annotated[Path | None, typer.Option(help="Folder for the generated input.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder for the results.")] = None,
    full: Annotated[bool, typer.Option("--full", help="All sizes; takes long.")] = False,
    smoke: Annotated[bool, typer.Option("--smoke", help="Seconds only, to see that it works.")] = False,
) -> None:
    """Run a benchmark."""
    if full and smoke:
        msg = "--full and --smoke are both given; choose one"
        raise InputError(msg)
    try:
        benchmarks = importlib.import_module("skyband.bench")
        benchmarks.run(name, data=data, output=output, full=full, smoke=smoke)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("skyband"):
            raise
        msg = f"benchmarks need the package {error.name!r}; install it with: pip install 'skyband[bench]'"
        raise InputError(msg) from None
