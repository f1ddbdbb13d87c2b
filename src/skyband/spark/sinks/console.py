"""Rows printed, for a first look."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from rich import console
from rich.table import Table
from rich.text import Text

from skyband.errors import InputError
from skyband.spark.sinks.rows import holds_answers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_QUERIES = 10
_HIDDEN = ["query", "window_start", "window_end", "exact", "why", "provisional"]


class Console:
    """Prints the newest answer of each query in a batch; with Spark Connect, into the server's log.

    Parameters
    ----------
    rows
        How many rows of an answer to print at most.
    """

    def __init__(self, rows: int = 20) -> None:
        if rows < 1:
            msg = f"rows is {rows}; the console prints at least 1 row of an answer"
            raise InputError(msg)
        self.rows = rows

    def __repr__(self) -> str:
        return f"Console(rows={self.rows})"

    def write(self, answers: pa.Table, batch_id: int, session: SparkSession) -> None:  # noqa: ARG002 - as every sink
        """Print a table a query, and how much there was."""
        screen = console.Console()
        if not holds_answers(answers.column_names):
            self._print(screen, f"batch {batch_id}: {len(answers):,} rows", answers)
            return
        windows = len(answers.group_by(["query", "window_end"]).aggregate([]))
        newest = answers.group_by("query", use_threads=False).aggregate([("window_end", "max")]).to_pylist()
        _say(screen, f"batch {batch_id}: {windows:,} windows of {len(newest):,} queries, {len(answers):,} rows")
        for query in newest[:MOST_QUERIES]:
            same = pc.equal(answers["query"], query["query"])
            rows = answers.filter(pc.and_(same, pc.equal(answers["window_end"], query["window_end_max"])))
            shown = [name for name in rows.column_names if name not in _HIDDEN and rows[name].null_count < len(rows)]
            self._print(screen, _title(rows.slice(0, 1).to_pylist()[0]), rows.select(shown))
        if len(newest) > MOST_QUERIES:
            _say(screen, f"… and {len(newest) - MOST_QUERIES:,} more queries")

    def _print(self, screen: console.Console, title: str, rows: pa.Table) -> None:
        table = Table()
        for field in rows.schema:
            number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
            table.add_column(Text(field.name), justify="right" if number else "left")
        for row in rows.slice(0, self.rows).to_pylist():
            table.add_row(*(Text(_shown(value)) for value in row.values()))
        _say(screen, title)
        screen.print(table)
        if len(rows) > self.rows:
            _say(screen, f"… and {len(rows) - self.rows:,} more rows")


def _say(screen: console.Console, text: str) -> None:
    screen.print(text, markup=False, highlight=False, soft_wrap=True)


def _title(row: dict[str, object]) -> str:
    notes = ["still open"] * bool(row["provisional"]) + [str(row["why"])] * (not row["exact"])
    window = f"{row['query']}, {_shown(row['window_start'])} to {_shown(row['window_end'])}"
    return ", ".join([window, *notes])


def _shown(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat(" ").replace("+00:00", " UTC")
    if isinstance(value, float):
        return f"{value:,.6g}"
    return "" if value is None else str(value)
