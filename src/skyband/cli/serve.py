"""The commands that serve; what they need is imported when they run."""

from __future__ import annotations

import importlib
from contextlib import ExitStack, closing
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from skyband.cli import options
from skyband.engine.limits import MAX_CUTS, MAX_WINDOW_ENDS, WindowLimits
from skyband.errors import InputError, optional
from skyband.files.queries import QueryFile, SqlOptions, load
from skyband.files.rdf import pattern_of, rdf_files
from skyband.languages import load_mapping
from skyband.languages.sql.dialects import DEFAULT
from skyband.queries.query import MAX_ROWS

if TYPE_CHECKING:
    from skyband.serve.streams import ServedStream

PORT = 8765
Port = Annotated[int, typer.Option(help="Where to listen; 0 takes a free port.", min=0, max=65535)]


def serve(
    queries: Annotated[
        Path | None,
        typer.Argument(
            metavar="[QUERIES]", help="A file of queries to begin with: .toml, .rq or .sql.", show_default=False
        ),
    ] = None,
    folder: Annotated[Path | None, typer.Option("--input", help="Folder in which data files appear.")] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="The stream's checkpoint folder; without --input: that of a stream that runs elsewhere."),
    ] = None,
    time: options.TimeColumn = None,
    id: options.IdColumn = None,  # noqa: A002 - the option's name
    time_unit: options.UnitOfTime = None,
    mapping: options.MappingFile = None,
    dialect: options.Dialect = DEFAULT,
    every: options.Every = None,
    watermark: Annotated[str | None, typer.Option(help="How late events may come; else 10 seconds.")] = None,
    max_ahead: Annotated[
        str | None, typer.Option(help="How far event times may be ahead of the clock; else 1 day.")
    ] = None,
    algorithm: options.AlgorithmName = None,
    engine: options.EngineName = options.ENGINES[0],
    master: options.Master = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 for all: others reach it then.")
    ] = "127.0.0.1",
    port: Port = PORT,
    allow_host: Annotated[list[str] | None, typer.Option(help="A name that browsers may use for this server.")] = None,
    max_queries: Annotated[int, typer.Option(help="How many queries the stream may have.", min=1)] = 100,
    max_k: Annotated[int, typer.Option(help="How many rows an answer may have.", min=1)] = 1_000,
    max_rows: Annotated[
        int,
        typer.Option(help="How many rows a set (k = all), or an answer with ties, shows; a larger one is cut.", min=1),
    ] = MAX_ROWS,
    max_window_ends: Annotated[
        int | None,
        typer.Option(help="How many windows of a query may end per second of event time; else 1,000.", min=1),
    ] = None,
    max_cuts: Annotated[
        int | None, typer.Option(help="How many pane edges a second of event time may have; else 10,000.", min=1)
    ] = None,
    trial_budget: Annotated[
        str | None, typer.Option(help="How long a batch on Spark may take while a query is new; else 30 seconds.")
    ] = None,
) -> None:
    """Serve a stream's leaderboards over HTTP: a live page, REST and a change feed.

    Changes need the token of the variable SKYBAND_TOKEN; without it a random one is made and printed.
    """
    options.check_engine(engine, checkpoint=checkpoint, master=master, trial_budget=trial_budget)
    http, console = _server(), Console(stderr=True)
    http.check(host, port, allow_host or ())
    from skyband.cli import serve_inputs
    from skyband.serve.spark_stream import SparkStream
    from skyband.serve.texts import Limits
    from skyband.spark.control import Control

    with ExitStack() as stack:
        if folder is not None:
            of_text = queries is not None and queries.suffix.lower() != ".toml"
            sql = SqlOptions(dialect, every, time)
            file = QueryFile(()) if queries is None else load(queries, mapping if of_text else None, sql)
            if files := rdf_files([folder]):
                pattern = pattern_of(files, file, time, checkpoint)
                folder, time = stack.enter_context(serve_inputs.from_rdf(folder, pattern)), pattern.time
            given = serve_inputs.Input(
                folder, file.queries, options.columns(file, time, id, time_unit),
                watermark or file.watermark or serve_inputs.WATERMARK, options.algorithm_of(file, algorithm),
                file.services,
                WindowLimits(max_window_ends or MAX_WINDOW_ENDS, max_cuts or MAX_CUTS),
                max_ahead or serve_inputs.MAX_AHEAD, trial_budget or serve_inputs.TRIAL_BUDGET,
            )  # fmt: skip
            if engine == "local":
                stream: ServedStream = stack.enter_context(closing(serve_inputs.locally(given, console)))
            else:
                stream = stack.enter_context(serve_inputs.on_spark(given, checkpoint, master, console))
        elif checkpoint is None or queries is not None:
            msg = "there is nothing to serve; give --input FOLDER, or only --checkpoint DIR of a stream that runs"
            raise InputError(msg)
        elif max_window_ends or max_cuts or max_ahead or trial_budget:
            msg = (
                "--max-ahead, --max-window-ends, --max-cuts and --trial-budget belong to --input; a stream that runs "
                "elsewhere has its own"
            )
            raise InputError(msg)
        else:
            stream = SparkStream(Control(checkpoint))
        server = http.Server(
            stream, host=host, port=port, allow_hosts=allow_host or (),
            limits=Limits(queries=max_queries, k=max_k, rows=max_rows),
            mapping=None if mapping is None else load_mapping(mapping),
        )  # fmt: skip
        http.run(server, console)


def serve_demo(engine: str, seed: int, port: int) -> None:
    """Show the demo in a browser, until someone stops it."""
    http, console = _server(), Console(stderr=True)
    http.check("127.0.0.1", port)
    from skyband.cli.serve_demo import market

    with market(engine, seed, console) as stream:
        http.run(http.Server(stream, port=port), console, show=True)


def _server() -> ModuleType:
    """Return the module of the server, if what it needs is installed."""
    with optional("the server", "serve"):
        server = importlib.import_module("skyband.serve.server")
    return server
