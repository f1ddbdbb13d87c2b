"""The corpus of SQL on Spark: streams and batches answer as DuckDB does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from tests.languages.corpus.cases import CASES, DDL, Case
from tests.languages.corpus.check import selected, shown, standing
from tests.languages.corpus.truth import database, rows_of, sales
from tests.spark.streams import stream, write

pytestmark = pytest.mark.spark

SALES = sales()
NOW = {"availableNow": True}


class Kept:
    """A sink that keeps rows, by query."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}

    def write(self, answers: pa.Table, batch_id: int, session: Any) -> None:  # noqa: ARG002 - as all sinks
        for row in answers.to_pylist():
            self.rows.setdefault(row["query"], []).append(row)


def run(start: Callable[..., Any], checkpoint: Path, *args: Any, **options: Any) -> Kept:
    """Read all that is there, and end the windows that are open; return the rows."""
    kept = Kept()
    handle = start(*args, sink=kept, trigger=NOW, checkpoint=checkpoint, **options)
    handle.awaitTermination()
    kept.write(handle.finish().table(quality=True), -1, None)
    return kept


@pytest.fixture(scope="module")
def truth() -> Iterator[duckdb.DuckDBPyConnection]:
    with database(SALES) as connection:
        yield connection


@pytest.fixture(scope="module")
def answers(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """All queries of the corpus over one stream; their rows, by query."""
    folder = tmp_path_factory.mktemp("corpus")
    write(folder / "in", [SALES.slice(0, 20), SALES.slice(20, 25), SALES.slice(45)])
    queries = [replace(selected(case, SALES.schema).query, name=case.name) for case in CASES]
    frame = stream(spark, folder / "in")
    options = {"time": "ts", "id": "id", "watermark": "1 second"}
    return run(sb.spark.start, folder / "checkpoint", frame, queries, **options).rows


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_stream(case: Case, answers: dict[str, list[dict[str, Any]]], truth: duckdb.DuckDBPyConnection) -> None:
    names, wanted = rows_of(truth, case.truth)
    rows = standing(answers[case.name], "window_end" not in names)
    assert all(row["exact"] for row in rows)
    assert shown(rows, names) == wanted


DIFFERENT = list({replace(selected(case, SALES.schema).query, name="same"): case for case in CASES}.values())


@pytest.mark.parametrize("case", DIFFERENT, ids=lambda case: case.name)
def test_batch(case: Case, spark: Any, tmp_path: Path, truth: duckdb.DuckDBPyConnection) -> None:
    pq.write_table(SALES, tmp_path / "sales.parquet")
    query = replace(selected(case, SALES.schema).query, emit="final")
    given = spark.read.parquet(str(tmp_path / "sales.parquet"))
    frame = sb.spark.topk(given, query, time="ts", id="id")
    names, wanted = rows_of(truth, case.truth)
    rows = standing(frame.toArrow().to_pylist(), "window_end" not in names)
    assert shown(rows, names) == wanted


def test_text_starts_a_stream(spark: Any, tmp_path: Path, truth: duckdb.DuckDBPyConnection) -> None:
    write(tmp_path / "in", [SALES])
    text = (
        DDL
        + """
        CREATE VIEW dearest AS
        SELECT id, shop, price FROM TUMBLE(sales, ts, INTERVAL '10' MINUTES) ORDER BY price DESC LIMIT 3;
        CREATE VIEW cheapest AS
        SELECT id, shop, price FROM TUMBLE(sales, ts, INTERVAL '10' MINUTES) ORDER BY price LIMIT 3;"""
    )
    kept = run(sb.spark.sql, tmp_path / "checkpoint", text, {"sales": stream(spark, tmp_path / "in")})
    case = next(case for case in CASES if case.name == "events, short form")
    names, wanted = rows_of(truth, case.truth)
    assert shown(kept.rows["dearest"], names) == wanted
    assert set(kept.rows) == {"dearest", "cheapest"}


def test_texts_that_cannot_start(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", [SALES.drop_columns(["ts"]).append_column("day", pa.array(["monday"] * SALES.num_rows))])
    frame = stream(spark, tmp_path / "in")
    text = "SELECT shop, price FROM sales ORDER BY price DESC LIMIT 3"
    with pytest.raises(sb.InputError, match="'sales', which is not among the sources: 'other'"):
        sb.spark.sql(text, {"other": frame}, time="day")
    with pytest.raises(sb.InputError, match="the column of the time is not known; give time='…'"):
        sb.spark.sql(text, {"sales": frame})
    both = f"CREATE VIEW a AS {text}; CREATE VIEW b AS {text.replace('sales', 'more')};"
    with pytest.raises(sb.QueryError, match="the queries read different tables: sales, more"):
        sb.spark.sql(both, {"sales": frame, "more": frame}, time="day")
