"""Spark substitutes `${…}` everywhere in SQL, in names too: what users write must never get there as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from tests.spark.streams import assert_same_answers, sorted_table
from tests.spark.test_loop import Stream

pytestmark = pytest.mark.spark
SECRET, UNKNOWN = "${env:HOME}", "${nope}"
WINDOW = sb.Window(100)
SCHEMA = pa.schema(
    {
        "t": pa.int64(),
        "id": pa.string(),
        "x": pa.float64(),
        "note": pa.string(),
        SECRET: pa.int64(),
        UNKNOWN: pa.int64(),
    }
)
QUERIES = {
    "where": sb.Query("q", k=3, score="x", where=f"note = '{SECRET}' OR x > 90", window=WINDOW),
    "score": sb.Query("q", k=3, score=f"if(note = '{SECRET}', x + 1000, x)", window=WINDOW),
    "partition": sb.Query("q", k=1, score="x", partition_by=f"if(note = '{SECRET}', 'mine', note)", window=WINDOW),
    "select": sb.Query("q", k=3, score="x", select=(SECRET, UNKNOWN), window=WINDOW),
}
AGGREGATES = {
    "sum": sb.Query("q", k=3, score=f"sum(if(note = '{SECRET}', x, -x))", window=WINDOW),
    "selected": sb.Query("q", k=3, score="sum(x)", where=f"note <> '{UNKNOWN}'", select=(SECRET,), window=WINDOW),
}


def some(first: int) -> pa.Table:
    times = list(range(first, first + 100, 5))
    notes = [(SECRET, "a", "b", UNKNOWN)[t // 5 % 4] for t in times]
    columns: list[list[Any]] = [times, [f"u{t // 5 % 7}" for t in times], [float(t * 37 % 101) for t in times], notes]
    return pa.table([*columns, times, times], schema=SCHEMA)


@pytest.mark.parametrize("query", [*QUERIES.values(), *AGGREGATES.values()], ids=[*QUERIES, *AGGREGATES])
def test_streams(spark: Any, tmp_path: Path, query: sb.Query) -> None:
    stream = Stream(spark, tmp_path, query, schema=SCHEMA)
    for first in (0, 100, 200):
        stream.take(some(first))
    assert stream.states == {"q": "active"}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_batches(spark: Any, query: sb.Query) -> None:
    table = pa.concat_tables([some(0), some(100)])
    found = sb.spark.topk(spark.createDataFrame(table), query, time="t", id="id").toArrow()
    truth = sb.run(query, table, time="t", id="id").table()
    names = [name for name in found.column_names if name not in ("window_start", "window_end", "time")]
    assert_same_answers(sorted_table([found.select(names)]), sorted_table([truth.select(names)]))
