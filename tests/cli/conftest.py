"""A small stream in every format, query files, and the command line without a shell."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from skyband.cli.commands import app

START = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
QUERIES = """
time = "ts"
id = "symbol"

[[query]]
name = "top"
k = 3
size = "1 minute"
slide = "20 seconds"
score = "price * Volume"
where = "volume > 2"
select = ["venue"]

[[query]]
name = "by venue"
k = 2
size = "1 minute"
score = "price"
partition_by = "venue"
distinct = "best"
"""
Invoke = Callable[..., Result]


def events(rows: int = 600, seed: int = 3) -> pa.Table:
    """Make trades with a column that no query uses."""
    rng = np.random.default_rng(seed)
    seconds = np.sort(rng.integers(0, 300, rows)).tolist()
    return pa.table(
        {
            "ts": pa.array([START + timedelta(seconds=s) for s in seconds], pa.timestamp("us", "UTC")),
            "symbol": pa.array([f"S{i}" for i in rng.integers(0, 20, rows)]),
            "price": pa.array((rng.random(rows) * 100).round(3)),
            "volume": pa.array(rng.integers(1, 50, rows)),
            "venue": pa.array([["N", "Q", 'Zürich, "x"'][i] for i in rng.integers(0, 3, rows)]),
            "note": pa.array(["unused"] * rows),
        }
    )


def save(table: pa.Table, path: Path) -> None:
    """Write a table in the format that a path asks for, without the help of the code under test."""
    suffixes = "".join(path.suffixes)
    if suffixes == ".parquet":
        pq.write_table(table, path, row_group_size=100)
    elif suffixes.startswith(".csv"):
        data = pa.BufferOutputStream()
        pacsv.write_csv(table, data)
        content = data.getvalue().to_pybytes()
        path.write_bytes(gzip.compress(content) if suffixes.endswith(".gz") else content)
    else:
        rows = [{**row, "ts": row["ts"].isoformat()} for row in table.to_pylist()]
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(content) if suffixes.endswith(".gz") else content)


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.toml"
    path.write_text(QUERIES)
    return path


@pytest.fixture
def invoke() -> Invoke:
    """Call the command line; what runs, runs locally unless an engine is named: Spark is slow to start."""

    def run(*arguments: object) -> Result:
        given = [str(argument) for argument in arguments]
        if given[0] in ("run", "demo") and "--engine" not in given:
            given += ["--engine", "local"]
        return CliRunner().invoke(app, given)

    return run


@pytest.fixture
def refused(invoke: Invoke, tmp_path: Path) -> Callable[..., str]:
    """Run something that must be refused: exit code 2, one message, nothing left in the folder for answers."""

    def run(*arguments: object) -> str:
        folder = tmp_path / "answers"
        folder.mkdir(exist_ok=True)
        before = sorted(folder.iterdir())
        result = invoke("run", *arguments, "--output", folder / "answers.parquet")
        assert result.exit_code == 2, result.output
        assert result.stderr.startswith("error: ")
        assert "Traceback" not in result.output
        assert sorted(folder.iterdir()) == before
        return str(result.stderr).removeprefix("error: ").strip()

    return run
