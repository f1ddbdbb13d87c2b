"""Keys of several columns, further values, conditions over aggregates: Spark says what the core says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from tests.keyed import CITIES, CONDITIONS, GROUPS, LARGE, PARTITIONS, VENUES, answers
from tests.properties.test_keys import FURTHER
from tests.spark.streams import core, sorted_table, stream, write

pytestmark = pytest.mark.spark

NOW = {"availableNow": True}
WINDOWS = [sb.Window(120, slide=40), sb.Window(100, slide=40), sb.Window(70)]


def table(seed: int, start: int, n: int = 150) -> pa.Table:
    rng = np.random.default_rng(seed)
    whole = [0, 1, 2, 3, LARGE, LARGE + 1, -LARGE - 1, None]

    def some(values: list[Any]) -> list[Any]:
        return [values[i] for i in rng.integers(0, len(values), n)]

    return pa.table(
        {
            "t": pa.array(np.sort(rng.integers(start, start + 200, n)), mask=rng.random(n) < 0.05),
            "id": pa.array(rng.integers(0, 5, n), mask=rng.random(n) < 0.05),
            "venue": pa.array(some(VENUES), pa.string()),
            "city": pa.array(some(CITIES), pa.string()),
            "flag": pa.array(some([True, False, None]), pa.bool_()),
            "n": pa.array(some(whole), pa.int64()),
            "x": pa.array(some([-1.5, -0.0, 0.0, 2.0, 3.5, None, float("nan")]), pa.float64()),
        }
    )


def queries() -> list[sb.Query]:
    """Queries that have every key, value and condition at least once."""
    found = []
    for number, partition_by in enumerate(PARTITIONS):
        found.append(sb.Query(
            f"events {number}", k=2, score="x", window=WINDOWS[number % 3], partition_by=partition_by,
            select=("x * 2 AS twice", "n AS renamed", "lower(venue) AS low"),
        ))  # fmt: skip
    for number, group_by in enumerate(GROUPS):
        found.append(sb.Query(
            f"groups {number}", k=3, score=["sum(x)", "count(*)", "count(distinct n)"][number % 3],
            window=WINDOWS[number % 3], group_by=group_by, partition_by=PARTITIONS[number % len(PARTITIONS)],
            having=list(CONDITIONS)[number % len(CONDITIONS)], select=tuple(FURTHER[number % 2 :: 2]),
            emit="early" if number == 1 else "changes" if number == 2 else "final",
        ))  # fmt: skip
    return found


PLACE = ("query", "window_end", "provisional", "partition", "change", "rank", "id")


def plain(found: pa.Table, names: list[str]) -> list[dict[str, Any]]:
    """Return rows in one order; several answers to one open window as often as they came."""
    rows = [{name: row[name] for name in names} for row in found.to_pylist()]
    place = [name for name in PLACE if name in names]
    return sorted(rows, key=lambda row: repr([row[name] for name in place]))


class Tables:
    """A sink that keeps its tables."""

    def __init__(self) -> None:
        self.found: list[pa.Table] = []

    def write(self, answers: pa.Table, batch_id: int, session: Any) -> None:  # noqa: ARG002
        self.found.append(answers)


def test_a_stream_says_what_the_core_says(spark: Any, tmp_path: Path) -> None:
    tables, asked, sink = [table(seed, 200 * seed) for seed in range(3)], queries(), Tables()
    write(tmp_path / "in", tables)
    handle = sb.spark.start(
        stream(spark, tmp_path / "in"), asked, time="t", id="id", watermark=60, trigger=NOW, sink=sink,
        checkpoint=tmp_path / "checkpoint",
    )  # fmt: skip
    handle.awaitTermination()
    assert {str(part.schema.field("id").type) for part in sink.found} == {"string"}, "where some ids are text, all are"
    truth = core(asked, tables, 60, time="t", id="id")
    found = sorted_table(sink.found)
    assert sorted(found.column_names) == sorted(truth.column_names)
    assert plain(found, truth.column_names) == plain(truth, truth.column_names)


def test_a_batch_says_what_the_core_says(spark: Any) -> None:
    data = pa.concat_tables([table(seed, 200 * seed) for seed in range(2)])
    asked = [sb.Query.from_dict(query.as_dict() | {"emit": "final"}) for query in queries()]
    truth = sb.run(asked, data, time="t", id="id").table()
    found = sb.spark.topk(spark.createDataFrame(data), asked, time="t", id="id").toArrow()
    found = found.cast(pa.schema([(f.name, truth.schema.field(f.name).type) for f in found.schema]))
    assert sorted(found.column_names) == sorted(truth.column_names)
    assert plain(found, truth.column_names) == plain(truth, truth.column_names)
    rows = data.to_pylist()
    for query in asked[len(PARTITIONS) :]:
        wanted = [(start, end, rank, name) for start, end, ranked in answers(query, rows) for rank, name, *_ in ranked]
        mine = found.filter(pc.equal(found["query"], query.name))
        ends = [mine[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end")]
        ids = [None if one is None else str(one) for *_, one in wanted]
        assert sorted(zip(*ends, mine["rank"].to_pylist(), strict=True)) == sorted(one[:3] for one in wanted)
        assert sorted(map(str, mine["id"].to_pylist())) == sorted(map(str, ids))


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.date32()], ids=str)
def test_times_are_aggregated_as_in_the_core(spark: Any, tmp_path: Path, kind: pa.DataType) -> None:
    days = pa.array([3, 1, 2, None] * 5, pa.int32()).cast(pa.date32()).cast(kind)
    data = pa.table({"t": list(range(20)), "id": [0, 1, 2, 3, 3] * 4, "seen": days})
    query = sb.Query(
        "q", k=4, score="count(*)", window=sb.Window(8, slide=4), partition_by="seen",
        select=("min(seen) AS first", "max(seen) AS last", "count(DISTINCT seen) AS times"),
    )  # fmt: skip
    truth, sink = sb.run(query, data, time="t", id="id").table(), Tables()
    found = sb.spark.topk(spark.createDataFrame(data), query, time="t", id="id").toArrow()
    found = found.cast(pa.schema([(f.name, truth.schema.field(f.name).type) for f in found.schema]))
    assert plain(found, truth.column_names) == plain(truth, truth.column_names)
    write(tmp_path / "in", [data])
    sb.spark.start(
        stream(spark, tmp_path / "in"), query, time="t", id="id", watermark=0, trigger=NOW, sink=sink,
        checkpoint=tmp_path / "checkpoint",
    ).awaitTermination()  # fmt: skip
    truth = core([query], [data], 0, time="t", id="id")
    assert plain(sorted_table(sink.found), truth.column_names) == plain(truth, truth.column_names)


def test_ids_of_a_running_stream_do_not_become_text(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", [table(1, 0)])
    first = sb.Query("first", k=1, score="x", window=WINDOWS[0])
    handle = sb.spark.start(
        stream(spark, tmp_path / "in"), first, time="t", id="id", watermark=60, trigger=NOW,
        checkpoint=tmp_path / "checkpoint",
    )  # fmt: skip
    handle.awaitTermination()
    later = sb.Query("later", k=1, score="count(*)", group_by="venue", window=WINDOWS[0])
    with pytest.raises(sb.QueryError, match="its ids, group_by venue, are text, and those of the answers so far are"):
        handle.register(later)


def test_buckets_say_what_the_core_says(spark: Any, tmp_path: Path) -> None:
    tables, sink = [table(seed, 200_000 * (seed + 1)) for seed in range(3)], Tables()
    tables = [part.set_column(0, "t", pc.multiply(part["t"], 1_000)) for part in tables]
    write(tmp_path / "in", tables)
    query = sb.Query(
        "q", k=2, score="x", window=sb.Window("100 ms", slide="40 ms"), partition_by=("venue", "n % 2 AS odd"),
        select=("x * 2 AS twice", "city"),
    )  # fmt: skip
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    handle = sb.spark.start(
        stream(spark, tmp_path / "in"), query, time="t", id="id", watermark="1 ms", trigger=NOW, sink=sink,
        checkpoint=tmp_path / "checkpoint", placement="executors",
    )  # fmt: skip
    handle.awaitTermination()
    found, truth = sorted_table(sink.found), core([query], tables, 1_000, time="t", id="id")
    last = pc.max(found["window_end"])
    truth = truth.filter(pc.less_equal(truth["window_end"], last))
    assert found.num_rows > 100
    assert plain(found, truth.column_names) == plain(truth, truth.column_names)
