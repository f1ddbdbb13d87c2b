"""The subcommands, and how they end: exit codes, signals."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

import skyband as sb
from skyband.algorithms.options import Option
from skyband.cli import options
from skyband.cli.progress import Bar, summary
from skyband.cli.serve import PORT, Port, serve, serve_demo
from skyband.engine.monitor import Monitor
from skyband.errors import InputError, SkybandError
from skyband.files.job import Job, execute
from skyband.files.queries import QueryFile, SqlOptions, load
from skyband.files.rdf import as_columns, pattern_of, rdf_files
from skyband.languages.sql.dialects import DEFAULT

if TYPE_CHECKING:
    from skyband.spark.control import Control

USER_ERROR, INTERRUPTED, TERMINATED = 2, 130, 143


def main() -> None:
    """Enter here from the shell."""
    listen()
    app(prog_name="skyband")


def listen() -> None:
    """End the process on SIGINT and SIGTERM."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    signal.signal(signal.SIGALRM, _end_again)


class Ended(BaseException):
    """The process got a signal to end."""


_asked: list[int] = []  # exit codes of the signals that came


def _end(number: int, _: object) -> None:
    _asked.append(INTERRUPTED if number == signal.SIGINT else TERMINATED)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    raise Ended


def _end_again(_: int, __: object) -> None:
    """Repeat it: an exception is lost where the signal came into a destructor or a callback of other languages' code.

    Not while one is on its way up: what it cleans up must not be cut short.
    """
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    if sys.exc_info()[1] is None:
        raise Ended


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn a user's mistake into a sentence and exit code 2; Ctrl-C into exit code 130."""
    try:
        yield
    except BaseException as error:
        if _asked or isinstance(error, KeyboardInterrupt):  # some modules turn it into other errors on their way
            typer.echo("interrupted; nothing was written", err=True)
            raise typer.Exit(_asked[0] if _asked else INTERRUPTED) from None
        if isinstance(error, SkybandError | OSError | pa.ArrowInvalid):
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(USER_ERROR) from None
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        with exit_codes():
            return super().invoke(ctx)


app = typer.Typer(
    name="skyband", cls=_Commands, help="Continuous top-k queries over streams.", no_args_is_help=True,
    pretty_exceptions_enable=False,
)  # fmt: skip


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


AsJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]
Queries = Annotated[
    Path, typer.Argument(metavar="QUERIES", help="A file of queries: .toml, .rq (RSP-QL) or .sql.", show_default=False)
]


@app.command("run")
def run_(
    queries: Queries,
    inputs: Annotated[
        list[Path],
        typer.Option("--input", help="File or folder: Parquet, CSV, JSON lines, N-Quads, JSON-LD. May be given again."),
    ],
    output: Annotated[
        Path,
        typer.Option(help="Where answers go: .parquet, .csv, .jsonl (or .gz of text); - is standard output."),
    ],
    time: options.TimeColumn = None,
    id: options.IdColumn = None,  # noqa: A002 - the option's name
    time_unit: options.UnitOfTime = None,
    mapping: options.MappingFile = None,
    dialect: options.Dialect = DEFAULT,
    every: options.Every = None,
    watermark: Annotated[
        str | None,
        typer.Option(help="How late events may come, such as '10 seconds'; else all wait for the end."),
    ] = None,
    max_ahead: Annotated[
        str | None, typer.Option(help="How far times may be ahead of the clock, such as '1 day'; else as far as any.")
    ] = None,
    algorithm: options.AlgorithmName = None,
    engine: options.EngineName = options.ENGINES[0],
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder with which a run that was cut short goes on, and later ones read only new files."),
    ] = None,
    master: options.Master = None,
    remote: Annotated[str | None, typer.Option(help="A Spark Connect server's URL, such as sc://localhost.")] = None,
    late: Annotated[Path | None, typer.Option(help="Where late rows go (the columns that queries use).")] = None,
    rejected: Annotated[
        Path | None, typer.Option(help="Where rows without score, time or id, or too far ahead, go.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show errors only.")] = False,
) -> None:
    """Answer queries over files.

    Reads the files as one bounded stream, in order of their names. The files it writes appear when all is done, or
    not at all. Times are in UTC.
    """
    options.check_engine(engine, checkpoint=checkpoint, master=master, remote=remote)
    given = {"dialect": dialect, "every": every, "time": time}
    of_sql = queries.suffix.lower() == ".sql" and not rdf_files(inputs)
    file = load(queries, mapping, SqlOptions.over(inputs, **given) if of_sql else None)
    with ExitStack() as stack:
        inputs, time = _from_rdf(inputs, file, time or file.time, checkpoint, stack)
        job = Job(
            queries=file.queries,
            inputs=inputs,
            output=output,
            source=options.columns(file, time, id, time_unit),
            algorithm=options.algorithm_of(file, algorithm),
            watermark=watermark or file.watermark,
            max_ahead=max_ahead,
            late=late,
            rejected=rejected,
            overwrite=overwrite,
            services=file.services,
        )
        console = Console(stderr=True)
        with Bar(console, quiet) as bar:
            if engine == "local":
                report = execute(job, bar)
            else:
                from skyband.spark import job as spark_job

                report = spark_job.execute(job, checkpoint=checkpoint, master=master, remote=remote, observer=bar)
    if not quiet:
        for note in file.noted:
            console.print(Text(f"not used: {note}"))
        console.print(summary(report, output))
        if report.rejected and of_sql and job.source.id == file.subject:
            console.print(Text(f"note: no SQL says which column is the id; {file.subject!r} is taken, and rows without "
                               "one are rejected: name another with --id"))  # fmt: skip


def _from_rdf(
    inputs: list[Path], file: QueryFile, time: str | None, checkpoint: Path | None, stack: ExitStack
) -> tuple[list[Path], str | None]:
    """Make columns of RDF, in files that live as long as the run; return the inputs, and the column of times."""
    files = rdf_files(inputs)
    if not files:
        return inputs, time
    pattern = pattern_of(files, file, time, checkpoint)
    return as_columns(files, pattern, Path(stack.enter_context(TemporaryDirectory(prefix="skyband-")))), pattern.time


@app.command()
def algorithms(as_json: AsJson = False) -> None:
    """List the algorithms, and what can be chosen of them."""
    found: list[dict[str, Any]] = [
        {
            "name": a.name, "exact": a.exact, "default": a.name == options.DEFAULT_ALGORITHM, "summary": a.summary,
            "options": [option.as_dict() for option in a.options],
        }
        for a in sb.ALGORITHMS.values()
    ]  # fmt: skip
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    table = Table("name", "exact", "what is special")
    for one in found:
        name = f"{one['name']} (default)" if one["default"] else str(one["name"])
        table.add_row(name, "yes" if one["exact"] else "no", str(one["summary"]))
    console = Console()
    console.print(table)
    console.print(_options_table())
    console.print("An algorithm with options is written as in 'rapf(buffer=500, pruning=0.3)'.", highlight=False)


def _options_table() -> Table:
    """Return what can be chosen; algorithms that share an option share its row."""
    able: dict[Option, list[str]] = {}
    for algorithm in sb.ALGORITHMS.values():
        for option in algorithm.options:
            able.setdefault(option, []).append(algorithm.name)
    table = Table("option", "default", "range", "symbol", "of", "what it is")
    for option, names in able.items():
        default = "-" if option.default is None else f"{option.default:g}"
        table.add_row(option.name, default, option.range, option.symbol, ", ".join(names), option.meaning)
    return table


@app.command()
def explain(
    queries: Queries,
    mapping: options.MappingFile = None,
    dialect: options.Dialect = DEFAULT,
    every: options.Every = None,
    algorithm: options.AlgorithmName = None,
) -> None:
    """Say which queries share what, and what is kept; needs no data."""
    file = load(queries, mapping, SqlOptions(dialect, every))
    chosen = options.algorithm_of(file, algorithm)
    typer.echo(Monitor(file.queries, algorithm=chosen, services=file.services).explain())


# The queries of a stream.

queries_app = typer.Typer(help="Look at the queries of a Spark stream, and change them while it runs.")
app.add_typer(queries_app, name="queries", no_args_is_help=True)
Stream = Annotated[Path, typer.Option("--checkpoint", help="The stream's checkpoint folder.", show_default=False)]
QueryName = Annotated[str, typer.Argument(metavar="NAME", help="The query's name.", show_default=False)]


@queries_app.command("add")
def add_queries(
    queries: Queries,
    checkpoint: Stream,
    mapping: options.MappingFile = None,
    dialect: options.Dialect = DEFAULT,
    every: options.Every = None,
) -> None:
    """Serve more queries from the next batch on; all those of the file, or none."""
    control = _control(checkpoint)
    schema = control.checkpoint.schema()
    file = load(queries, mapping, SqlOptions(dialect, every, control.source.time, schema))
    for what, given, served in (("time", file.time, control.source.time), ("id", file.id, control.source.id)):
        if given not in (None, served):
            msg = f"{queries} names {given!r} as the column of the {what}, and the stream has {served!r} for it"
            raise InputError(msg)
    control.register(*file.queries)
    _promise("added", *(query.name for query in file.queries))


@queries_app.command("pause")
def pause_query(name: QueryName, checkpoint: Stream) -> None:
    """Stop showing a query's answers; what its windows need is kept."""
    _control(checkpoint).pause(name)
    _promise("paused", name)


@queries_app.command("resume")
def resume_query(name: QueryName, checkpoint: Stream) -> None:
    """Show a paused query's answers again, from its next window on, or serve one that was suspended."""
    _control(checkpoint).resume(name)
    _promise("resumed", name)


@queries_app.command("suspend")
def suspend_query(name: QueryName, checkpoint: Stream) -> None:
    """Stop serving a query, but keep it; a batch that is under way, or begins again, leaves it out too."""
    _control(checkpoint).suspend(name)
    typer.echo(f"{name!r} will be suspended before the next batch; one that is under way begins again without it")


@queries_app.command("remove")
def remove_query(name: QueryName, checkpoint: Stream) -> None:
    """Stop serving a query."""
    _control(checkpoint).unregister(name)
    _promise("removed", name)


@queries_app.command("list")
def list_queries(checkpoint: Stream, as_json: AsJson = False) -> None:
    """List the queries, and how they stand."""
    control = _control(checkpoint)
    found = control.queries
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    table = Table("name", "state", "latest window", "rows", "exact", "error")
    for one in found:
        latest = one.get("latest", {})
        state = f"{one['state']}, {one['pending']} pending" if "pending" in one else one["state"]
        window = f"{latest['window_start'] or ''} to {latest['window_end']}".replace("+00:00", "") if latest else ""
        exact = ("yes" if latest["exact"] else latest["why"] or "no") if latest else ""
        cells = (one["name"], state, window, str(latest.get("rows", "")), exact, one.get("error", ""))
        table.add_row(*map(Text, cells))
    Console().print(table)
    for number, error in control.refused.items():
        typer.echo(f"command {number} could not be read: {error}", err=True)


def _control(checkpoint: Path) -> Control:
    from skyband.spark.control import Control

    return Control(checkpoint)


def _promise(what: str, *names: str) -> None:
    typer.echo(f"{', '.join(map(repr, names))} will be {what} before the next batch")


app.command()(serve)


@app.command()
def demo(
    seconds: Annotated[float, typer.Option(help="How long it goes on, at most 60.", min=0.1, max=60.0)] = 20.0,
    output: Annotated[Path | None, typer.Option(help="Keep the answers in this file.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed gives another market.", min=0)] = 7,
    fast: Annotated[bool, typer.Option("--fast", help="Do not wait: as fast as the trades can be made.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")] = False,
    engine: options.EngineName = options.ENGINES[0],
    in_browser: Annotated[bool, typer.Option("--serve", help="In a browser, until someone stops it.")] = False,
    port: Port = PORT,
) -> None:
    """Watch leaderboards over a made-up market."""
    options.check_engine(engine)
    if in_browser:
        serve_demo(engine, seed, port)
        return
    from skyband.cli.demo import run_demo

    run_demo(Console(), seconds=seconds, output=output, seed=seed, fast=fast, overwrite=overwrite, engine=engine)
