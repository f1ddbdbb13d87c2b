"""What commands have in common: the engine, the columns, the mapping."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from skyband.errors import InputError
from skyband.events.batch import StreamColumns, TimeUnit
from skyband.files.queries import QueryFile
from skyband.languages.sql.dialects import DIALECTS

DEFAULT_ALGORITHM = "staircase"
ENGINES = ("spark", "local")
EngineName = Annotated[str, typer.Option(help="What runs it: spark or local.")]
TimeColumn = Annotated[str | None, typer.Option("--time", help="The column of event times.")]
IdColumn = Annotated[str | None, typer.Option("--id", help="The column of ids.")]
UnitOfTime = Annotated[str | None, typer.Option("--time-unit", help="Unit of times that are numbers: s, ms, us or ns.")]
AlgorithmName = Annotated[
    str | None,
    typer.Option(
        "--algorithm",
        help="What keeps the candidates, with options if need be: 'pa(error=1e-4)'; see 'skyband algorithms'. "
        f"Else that of the query file, or {DEFAULT_ALGORITHM}.",
    ),
]
Master = Annotated[str | None, typer.Option("--master", help="A Spark master's URL; else Spark runs in this process.")]
MappingFile = Annotated[
    Path | None,
    typer.Option("--mapping", help="A .toml file that says what the names in RSP-QL mean, and what else is missing."),
]
Dialect = Annotated[
    str, typer.Option("--dialect", help=f"Whose SQL a .sql file holds: {', '.join(DIALECTS)}.", show_default=True)
]
Every = Annotated[
    str | None,
    typer.Option("--every", help="How often rankings of all time in a .sql file are answered; else every second."),
]


def check_engine(engine: str, **spark_only: object) -> None:
    """Refuse an engine that there is none of, and options that do not go with it."""
    if engine not in ENGINES:
        msg = f"there is no engine {engine!r}; use spark or local"
        raise InputError(msg)
    given = [f"--{name.replace('_', '-')}" for name, value in spark_only.items() if value is not None]
    if engine == "local" and given:
        msg = f"{given[0]} belongs to the Spark engine, and the engine is local; leave one of the two out"
        raise InputError(msg)
    if {"--master", "--remote"} <= set(given):
        msg = "--master and --remote are both given; Spark runs in one place: choose one"
        raise InputError(msg)


def algorithm_of(file: QueryFile, algorithm: str | None) -> str:
    """Return the algorithm: that of the option, else that of the query file, else the default."""
    return algorithm or file.algorithm or DEFAULT_ALGORITHM


def columns(file: QueryFile, time: str | None, id: str | None, time_unit: str | None) -> StreamColumns:  # noqa: A002
    """Return the columns of a stream: those of the options, else those of the query file."""
    named = {"time": time or file.time, "id": id or file.id or file.subject}
    for what, column in named.items():
        if not column:
            msg = (
                f"the column of the {what} is not known; add --{what} COLUMN, "
                f'or {what} = "COLUMN" at the top of the query file'
            )
            raise InputError(msg)
    unit = time_unit or file.time_unit
    if unit is not None and unit not in get_args(TimeUnit):
        msg = f"the time unit is {unit!r}; use s, ms, us or ns"
        raise InputError(msg)
    return StreamColumns(str(named["time"]), str(named["id"]), cast(TimeUnit | None, unit))
