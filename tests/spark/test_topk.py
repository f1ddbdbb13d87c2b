"""`skyband.spark.topk` equals the oracle and the core, over every kind of query and column; its plan prunes first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everywhere

import skyband as sb
from skyband.errors import InputError, QueryError
from skyband.spark.batch import core, thresholds
from skyband.spark.batch.rankings import MOST_COPIED
from skyband.spark.batch.topk import topk
from tests.oracle import Ask, Event, Reply, shown
from tests.streams import Workload, assert_same, random_workload, table_of

pytestmark = pytest.mark.spark

COMMON = ["query", "window_start", "window_end", "rank", "id", "score", "time"]
TIMES = {"number": pa.int64(), "timestamp": pa.timestamp("us", "UTC"), "timestamp without zone": pa.timestamp("us")}


def query(name: str = "q", **given: Any) -> sb.Query:
    common: dict[str, Any] = {"k": 3, "score": "x", "window": sb.Window(10, slide=3)}
    return sb.Query(name, **(common | given))


def frame(spark: Any, table: pa.Table) -> Any:
    """Make a DataFrame; Spark reads times without a zone in the session's zone, if it is not told their type."""
    from pyspark.sql.types import StructField, StructType, TimestampNTZType

    bare = {field.name for field in table.schema if field.type == pa.timestamp("us")}
    fields = spark.createDataFrame(table).schema.fields
    kinds = [StructField(f.name, TimestampNTZType() if f.name in bare else f.dataType) for f in fields]
    return spark.createDataFrame(table, StructType(kinds))


def replies(answers: Any, select: Sequence[str] = ()) -> list[Reply]:
    """Return a DataFrame of answers as the oracle gives them, but for the empty ones."""
    table = answers.toArrow()
    whole = {name: table[name].cast(pa.int64()) for name in ("window_start", "window_end", "time")}
    columns = {name: whole.get(name, table[name]).to_pylist() for name in table.column_names}
    partition = columns.get("partition", [None] * table.num_rows)
    found: dict[tuple[str, int, int], list[Any]] = {}
    for i, place in enumerate(zip(columns["query"], columns["window_start"], columns["window_end"], strict=True)):
        row = (partition[i], *(shown(columns[name][i]) for name in ("rank", "id", "score", "time", *select)))
        found.setdefault(place, []).append(row)
    by_partition = {place: sorted(rows, key=lambda r: (r[0] or "", r[1])) for place, rows in found.items()}
    return [Reply(*place, by_partition[place]) for place in sorted(found)]


def check(spark: Any, workload: Workload, time: str = "number") -> None:
    """Compare the answers over a workload with the oracle."""
    table = table_of(workload.events, workload.text)
    df = frame(spark, table.set_column(0, "t", table["t"].cast(TIMES[time])))
    truth = [reply for reply in workload.truth().replies if reply.rows]
    assert truth
    answers = topk(df, workload.queries(), time="t", id="id")
    assert_same(replies(answers, workload.asks[0].select), truth, f"seed {workload.seed}, {time}")


def assert_equals_core(df: Any, table: pa.Table, queries: sb.Query | Sequence[sb.Query], **how: Any) -> pa.Table:
    """Compare the answers over a DataFrame with those of a local run over the same rows; return them."""
    flagged = any(one.ties is not None for one in ([queries] if isinstance(queries, sb.Query) else queries))
    parts = [part.table(quality=flagged) for part in sb.run(queries, table, **how).parts()]
    truth = pa.concat_tables(parts).drop_columns(["provisional"] if flagged else [])
    ours = topk(df, queries, **how).toArrow()
    assert sorted(ours.column_names) == sorted(truth.column_names)
    keys = [(name, "ascending") for name in ("query", "window_end", "partition", "rank") if name in truth.column_names]
    ours, truth = (part.select(truth.column_names).sort_by(keys) for part in (ours, truth))
    assert ours.num_rows == truth.num_rows > 0
    for name in truth.column_names:
        assert ours[name].cast(truth[name].type).to_pylist() == truth[name].to_pylist(), name
    return ours


# The same answers.


@pytest.mark.parametrize("distinct", [None, "best", "latest"])
def test_the_selected_columns_settle_ties(spark: Any, distinct: str | None) -> None:
    for seed in range(3):
        select = [("note", "size"), ("size", "note"), ("size",)][seed]
        many = {"many": 2, "n": 90, "counts": False, "tied": True, "distinct": distinct}
        check(spark, random_workload(seed, delay=None, select=select, **many))


def test_selected_columns_of_any_type_settle_ties(spark: Any) -> None:
    maps = pa.array([[("k", 2)], [("k", 1), ("a", 9)], [("a", 1)], None], pa.map_(pa.string(), pa.int64()))
    table = pa.table(
        {
            "t": [1] * 4, "id": [1] * 4, "x": [1.0] * 4, "map": maps,
            "list": [["b"], ["a", None], ["a"], None], "struct": [{"a": 1}, {"a": None}, {"a": -1}, None],
            "bytes": [b"b", b"", None, b"a"], "flag": [True, None, False, True],
        }
    )  # fmt: skip
    for name in table.column_names[3:]:
        one = query(select=(name, "t"), window=sb.Window(10))
        answers = topk(frame(spark, table), one, time="t", id="id").select("rank", name).toArrow().sort_by("rank")
        truth = sb.run(one, table, time="t", id="id").table()
        # Spark's maps come back as they are, in the order of their entries.
        assert [sorted(v) if name == "map" and v else v for v in answers[name].to_pylist()] == [
            sorted(v) if name == "map" and v else v for v in truth[name].to_pylist()
        ], name


@pytest.mark.parametrize("order", ["desc", "asc"])
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("distinct", [None, "best", "latest"])
def test_equals_the_oracle(spark: Any, distinct: str | None, partitioned: bool, order: str) -> None:
    seed = 100 * [None, "best", "latest"].index(distinct) + 10 * partitioned + (order == "asc")
    workload = random_workload(
        seed, n=100, many=2, delay=None, counts=False, distinct=distinct, partitioned=partitioned, order=order
    )
    check(spark, workload, list(TIMES)[seed % 3])


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("distinct", [None, "best"])
def test_many_queries_that_rank_alike(spark: Any, distinct: Any, partitioned: bool, monkeypatch: Any) -> None:
    """Tasks run the core over intervals of time, here as short as the longest window."""
    monkeypatch.setattr(core, "WINDOWS", 1)
    workload = random_workload(
        70 + partitioned, n=200, many=MOST_COPIED + 3, delay=None, counts=False, distinct=distinct,
        partitioned=partitioned, closed=["left", "right"][partitioned],
    )  # fmt: skip
    check(spark, workload, "timestamp")


def test_many_queries_with_ties_show_what_they_select(spark: Any) -> None:
    rng = np.random.default_rng(3)
    n = 300
    table = pa.table(
        {
            "t": rng.integers(-40, 40, n), "id": rng.integers(0, 50, n), "x": rng.integers(0, 6, n) * 1.0,
            "at": pa.array(rng.integers(0, 9, n), pa.timestamp("us", "UTC")), "g": [None, "a", "b"] * 100,
        }
    )  # fmt: skip
    alike = [
        query(f"q{i}", k=1 + i, ties="with", max_ties=5, partition_by="g", select=("at", "x * 2 AS y"),
              window=sb.Window(20 + i, slide=5))
        for i in range(MOST_COPIED + 1)
    ]  # fmt: skip
    found = assert_equals_core(frame(spark, table), table, alike, time="t", id="id")
    assert set(found["exact"].to_pylist()) == {True, False}


@pytest.mark.parametrize("ties", [None, "with", "dense"])
@pytest.mark.parametrize("distinct", [None, "best", "latest"])
def test_shared_ranks_and_the_earliest_first(spark: Any, distinct: str | None, ties: str | None) -> None:
    cut = 0
    for seed in range(3):
        workload = random_workload(
            100 + seed, n=100, delay=None, counts=False, many=2, select=("note",), tied=seed > 0, distinct=distinct,
            ties=ties, partitioned=seed == 1, max_ties=200 if seed == 0 else 7, prefer=["earliest", "latest"][seed % 2],
        )  # fmt: skip
        table = table_of(workload.events, workload.text)
        ours = topk(frame(spark, table), workload.queries(), time="t", id="id").toArrow()
        monitor = sb.Monitor(workload.queries(), time="t", id="id")
        monitor.push(table)
        truth = monitor.finish().table(quality=ties is not None)
        truth = truth if ties is None else truth.drop_columns(["provisional"])
        assert sorted(ours.column_names) == sorted(truth.column_names)
        place = "rank" if ties is None else "unique_rank"
        keys = ("query", "window_end", "partition", place)
        by = [(name, "ascending") for name in keys if name in truth.column_names]
        ours, truth = (part.select(truth.column_names).sort_by(by) for part in (ours, truth))
        assert truth.num_rows > 0
        for name in truth.column_names:
            assert ours[name].cast(truth[name].type).to_pylist() == truth[name].to_pylist(), f"{name}, seed {seed}"
        cut += ties is not None and not all(truth["exact"].to_pylist())
    assert cut > 0 or ties is None or distinct is not None


@pytest.mark.parametrize("distinct", [None, "best", "latest"])
def test_ties_also_between_the_two_zeros(spark: Any, distinct: str | None) -> None:
    rng = np.random.default_rng(7)
    draws = zip(rng.integers(-9, 9, 80), rng.integers(0, 6, 80), rng.choice([0.0, -0.0, 1.0], 80), strict=True)
    events = tuple(Event(int(t), f"é{i}", float(x)) for t, i, x in draws)
    asks = tuple(
        Ask(order, 4, 7, 3, offset=1, closed="right", distinct=distinct, order=order) for order in ("desc", "asc")
    )
    check(spark, Workload(7, asks[:1], events, (), None, text=True))
    check(spark, Workload(7, asks[1:], events, (), None, text=True))


def test_text_ids_compare_by_their_bytes(spark: Any) -> None:
    ids = ["b", "B", "a", "z", "é", "￿", "😀", "", "ab"]
    check(spark, Workload(0, (Ask("q", 5, 4, 2),), tuple(Event(1, i, 1.0) for i in ids), (), None, text=True))


def test_ids_with_a_collation_are_told_apart(spark: Any) -> None:
    df = spark.sql("SELECT 1L AS t, collate(name, 'UTF8_LCASE') AS id, 1D AS x FROM VALUES ('a'), ('A') AS v(name)")
    rows = topk(df, query(distinct="best", window=sb.Window(10)), time="t", id="id").collect()
    assert sorted((row.rank, row.id) for row in rows) == [(1, "A"), (2, "a")]


def test_equals_the_core_over_files(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    n = 100_000
    table = pa.table(
        {
            "ts": pa.array(1_700_000_000_000_000 + rng.integers(0, 3_600_000_000, n)).cast(pa.timestamp("us", "UTC")),
            "id": rng.integers(0, 5_000, n),
            "price": pa.array(rng.lognormal(size=n), mask=rng.random(n) < 0.01),
            "volume": rng.integers(1, 100, n).astype(np.int32),
            "venue": rng.choice(["x", "y", "z"], n),
        }
    )
    for i in range(4):
        pq.write_table(table.slice(i * n // 4, n // 4), tmp_path / f"{i}.parquet")
    window = sb.Window("10 minutes", slide="1 minute", offset="7 seconds")
    queries = [
        sb.Query("events", k=50, score="price * volume", window=window, select=("venue", "volume")),
        sb.Query(
            "best", k=20, score="price / volume", window=window, distinct="best", where="volume > 10 AND venue <> 'x'"
        ),
        sb.Query("latest", k=20, score="price", window=window, distinct="latest", order="asc"),
        sb.Query("parts", k=5, score="price", window=sb.Window("15 minutes"), partition_by="venue", select=("price",)),
    ]
    df = spark.read.parquet(str(tmp_path))
    assert_equals_core(df, table, queries, time="ts", id="id")


@pytest.mark.parametrize("order", ["desc", "asc"])
def test_thresholds_leave_out_most_rows_and_none_of_the_best(spark: Any, order: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(thresholds, "EVERY", 1)  # the highest thresholds there are
    rng = np.random.default_rng(11)
    n = 6_000
    score = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, *np.round(rng.normal(size=200), 2)], n)
    ids, parts = rng.integers(0, 25, n), [[None, "a", "b"][i] for i in rng.integers(0, 3, n)]
    own = np.where(ids == 7, 100.0 if order == "desc" else -100.0, 0.0) + rng.random(n)  # one id has all the best
    table = pa.table({"t": rng.integers(-60, 60, n), "id": ids, "x": score, "y": own, "g": parts})
    common: dict[str, Any] = {"order": order, "window": sb.Window(40, slide=20)}
    queries = [
        query("events", **common),
        query("best", distinct="best", **common),
        query("one", distinct="best", score="y", **common),
        query("parts", partition_by="g", **common),
        query("ties", ties="with", **common),
    ]
    df = frame(spark, table)
    assert_equals_core(df, table, queries, time="t", id="id")
    rows = df.selectExpr("t AS time", "id", "x AS score").dropna().withColumn("pane", F.expr("time - pmod(time, 20)"))
    for one in queries[:2]:
        assert 0 < thresholds.reaching(rows, one, 3, "pane").count() < n / 4


# Columns in.


def test_every_kind_of_time_column(spark: Any) -> None:
    rng = np.random.default_rng(5)
    n, day = 60, 86_400
    days = rng.integers(-20, 20, n)
    seconds = pa.array(days * day)
    table = pa.table(
        {
            "date": pa.array(days.astype(np.int32)).cast(pa.date32()),
            "timestamp": seconds.cast(pa.timestamp("s")).cast(pa.timestamp("us", "UTC")),
            "ntz": seconds.cast(pa.timestamp("s")).cast(pa.timestamp("us")),
            "s": pa.array((days * day).astype(np.int32)),
            "ms": days * day * 1_000,
            "us": days * day * 1_000_000,
            "ns": days * day * 1_000_000_000 + rng.integers(0, 1_000, n),
            "id": rng.integers(0, 20, n),
            "x": rng.normal(size=n),
        }
    )
    df = frame(spark, table)
    assert dict(df.dtypes)["ntz"] == "timestamp_ntz"
    units: dict[str, Any] = {"date": None, "timestamp": None, "ntz": None, "s": "s", "ms": "ms", "us": None, "ns": "ns"}
    q = query(window=sb.Window("3 days", slide="2 days", offset="5 hours", closed="right"))
    found = reduce(
        lambda some, more: some.union(more),
        (topk(df, query(c, window=q.window), time=c, id="id", time_unit=unit) for c, unit in units.items()),
    )
    by_column: dict[str, list[Any]] = {column: [] for column in units}
    for reply in replies(found):
        by_column[reply.query].append((reply.start, reply.end, reply.rows))
    truth = replies_of_core(sb.run(q, table, time="timestamp", id="id"))
    assert len(truth) > 10
    for column, answers in by_column.items():
        assert answers == truth, column


def replies_of_core(run: Any) -> list[Any]:
    table = run.table()
    found: dict[tuple[int, int], list[Any]] = {}
    whole = [table[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end", "time")]
    for start, end, time, row in zip(*whole, table.to_pylist(), strict=True):
        found.setdefault((start, end), []).append((None, row["rank"], row["id"], row["score"], time))
    return [(*window, rows) for window, rows in sorted(found.items())]


def test_no_name_of_a_column_is_in_the_way(spark: Any) -> None:
    rng = np.random.default_rng(6)
    odd = ["first", "last", "start", "carried_0", "carried_1", "a.b", "a `b`", "Window", "merit"]
    names = ["time", "id", "score", "rank", "partition", "query", "window_start", *odd]
    table = pa.table({name: rng.integers(0, 30, 50) for name in names})
    q = query(
        score="score + rank", where="query > 3", partition_by="partition % 2", distinct="best", select=("a.b", *odd[:5])
    )
    more = query("more", score="`a.b`", partition_by="`a ``b``` > 9", select=odd[6:])
    df = spark.createDataFrame(table)
    assert_equals_core(df, table, q, time="time", id="id")
    assert_equals_core(df, table, more, time="window_start", id="rank")


def test_small_integers_become_what_the_core_makes_of_them(spark: Any) -> None:
    table = pa.table(
        {
            "t": pa.array([1, 2, 30], pa.int32()),
            "id": pa.array([7, 8, 9], pa.int16()),
            "x": pa.array([1, 2, 3], pa.int8()),
            "g": pa.array([1, None, 2], pa.int32()),
        }
    )
    q = query(partition_by="g", window=sb.Window(10), select=("g",))
    ours = assert_equals_core(spark.createDataFrame(table), table, q, time="t", id="id")
    kinds = dict(zip(ours.schema.names, ours.schema.types, strict=True))
    assert [kinds[name] for name in ("rank", "id", "score", "partition", "g")] == [
        pa.int32(), pa.int64(), pa.float64(), pa.int64(), pa.int32(),
    ]  # fmt: skip


def test_large_integers_stay_integers(spark: Any) -> None:
    table = pa.table({"t": [1] * 5, "id": [1811111111111111111 + n for n in range(5)], "x": [1, 2**63 - 1, 3, 4, 5]})
    queries = [
        query("parts", partition_by="id % 10", score="x + 1", window=sb.Window(10)),
        query("rest", where="id % 10 = 2", window=sb.Window(10)),
    ]
    ours = assert_equals_core(spark.createDataFrame(table), table, queries, time="t", id="id")
    assert ours.schema.field("partition").type == pa.int64()
    assert ours["partition"].to_pylist() == [1, 3, 4, 5, None]


def test_rows_without_score_time_or_id_are_left_out(spark: Any) -> None:
    nan = float("nan")
    events = [(1, 1, 1.0), (2, 2, nan), (3, 3, None), (None, 4, 9.0), (5, None, 9.0), (6, 6, float("-inf"))]
    df = spark.createDataFrame(table_of([Event(*event) for event in events], text=False))
    rows = topk(df, query(k=9, window=sb.Window(10)), time="t", id="id").collect()
    assert [(row.rank, row.id) for row in sorted(rows, key=lambda row: row.rank)] == [(1, 1), (2, 6)]


def test_a_filter_that_is_null_does_not_pass(spark: Any) -> None:
    df = spark.createDataFrame(table_of([Event(1, 1, 1.0, "p"), Event(1, 2, 2.0, None)], text=False))
    rows = topk(df, query(where="g <> 'q'", window=sb.Window(10)), time="t", id="id").collect()
    assert [row.id for row in rows] == [1]


# Columns out.


def test_the_columns_of_several_queries(spark: Any) -> None:
    table = pa.table({"t": [1, 2], "id": ["a", "b"], "x": [1.0, 2.0], "v": [5, 6], "w": ["m", None]})
    df = spark.createDataFrame(table)
    queries = [query("plain", select=("w",)), query("parts", partition_by="w", select=("v", "w"))]
    found = topk(df, queries, time="t", id="id")
    assert found.columns == [*COMMON, "partition", "w", "v"]
    assert_equals_core(df, table, queries, time="t", id="id")
    plain = found.where("query = 'plain'")
    assert plain.count() > 0
    assert plain.where("partition IS NOT NULL OR v IS NOT NULL").count() == 0
    assert topk(df, queries[0], time="t", id="id").columns == [*COMMON, "w"]


def test_partitions_of_several_types_become_text(spark: Any) -> None:
    table = pa.table({"t": [1, 2, 3], "id": [1, 2, 3], "x": [1.0, 2.0, 3.0], "n": [10, None, 9], "w": ["m", "10", "m"]})
    queries = [
        query("n", partition_by="n"),
        query("w", partition_by="w"),
        query("none"),
        query("b", partition_by="x > 1"),
    ]
    ours = assert_equals_core(spark.createDataFrame(table), table, queries, time="t", id="id")
    assert set(ours["partition"].to_pylist()) == {"9", "10", "m", "true", "false", None}


def test_partitions_by_times(spark: Any) -> None:
    moment = datetime(2024, 5, 1, 9, tzinfo=UTC)
    table = pa.table(
        {"t": [1], "id": [1], "x": [1.0], "at": pa.array([moment], pa.timestamp("us", "UTC")), "day": [moment.date()]}
    )
    df = spark.createDataFrame(table)

    def partition(text: str) -> Any:
        return topk(df, query(partition_by=text, window=sb.Window(10)), time="t", id="id").toArrow()["partition"]

    assert partition("day").to_pylist() == [moment.date()]
    assert partition("at").to_pylist() == [moment]


def test_no_events_give_no_rows_but_all_columns(spark: Any) -> None:
    df = spark.createDataFrame(table_of([], text=True))
    found = topk(df, query(partition_by="g", select=("g",)), time="t", id="id").toArrow()
    assert found.num_rows == 0
    assert found.column_names == [*COMMON, "partition", "g"]


# The plan.


def steps(df: Any, capsys: Any) -> list[str]:
    """Return the steps of a plan that tell how rows are pruned and moved, from the last one back."""
    df.explain()
    known = (
        "Generate", "Expand", "Exchange", "WindowGroupLimit", "Range", "BroadcastHashJoin", "BroadcastExchange",
        "HashAggregate",
    )  # fmt: skip
    lines = [
        line.strip(" +-:*()0123456789").split(" ")[0].split("(")[0] for line in capsys.readouterr().out.splitlines()
    ]
    return [step for step in lines if step in known]


@pytest.mark.parametrize("distinct", [None, "best"])
def test_a_threshold_leaves_out_rows_before_they_are_copied_or_moved(spark: Any, capsys: Any, distinct: Any) -> None:
    df = spark.range(10).selectExpr("id AS t", "id % 7 AS id", "rand() AS x")
    plan = steps(topk(df, query(distinct=distinct), time="t", id="id"), capsys)
    join = plan.index("BroadcastHashJoin")
    assert plan[join + 1] == "Range"  # what is joined with thresholds is the scan itself
    assert plan[join + 2] == "BroadcastExchange"
    assert plan[-4:] == ["HashAggregate", "Exchange", "HashAggregate", "Range"]  # what the thresholds are made of
    rest = plan[:join]
    assert rest.count("Generate") == 1
    assert "Expand" not in plan
    # Each move is of rows that were pruned, and is followed by a prune.
    moves = [i for i, step in enumerate(rest) if step == "Exchange"]
    assert moves
    assert all(rest[i - 1] == rest[i + 1] == "WindowGroupLimit" for i in moves)


def test_the_latest_of_ids_are_pruned_before_they_are_copied_or_moved(spark: Any, capsys: Any) -> None:
    df = spark.range(10).selectExpr("id AS t", "id % 7 AS id", "rand() AS x")
    plan = steps(topk(df, query(distinct="latest"), time="t", id="id"), capsys)[::-1]
    assert plan[:4] == ["Range", "WindowGroupLimit", "Exchange", "WindowGroupLimit"]
    assert plan.count("Generate") == 1
    moves = [i for i, step in enumerate(plan) if step == "Exchange"]
    assert all(plan[i - 1] == plan[i + 1] == "WindowGroupLimit" for i in moves)


def test_windows_that_do_not_overlap_need_no_copies(spark: Any, capsys: Any) -> None:
    df = spark.range(10).selectExpr("id AS t", "id")
    plan = steps(topk(df, query(score="t", window=sb.Window(5)), time="t", id="id"), capsys)
    assert "Generate" not in plan
    rest = plan[: plan.index("BroadcastHashJoin")]
    assert rest == ["WindowGroupLimit", "Exchange", "WindowGroupLimit"]


def test_queries_that_rank_alike_read_the_events_together(spark: Any, capsys: Any) -> None:
    df = spark.range(10).selectExpr("id AS t", "id", "rand() AS x")
    for count in (1, 3, 20):
        alike = [query(f"q{i}", k=1 + i % 5, window=sb.Window(10 + i, slide=1 + i % 4)) for i in range(count)]
        assert steps(topk(df, alike, time="t", id="id"), capsys).count("Range") == 2
    others = [query("a"), query("b", order="asc"), query("c", where="x > 0.5")]
    assert steps(topk(df, others, time="t", id="id"), capsys).count("Range") == 6


def test_nothing_is_read_before_the_answers_are(spark: Any) -> None:
    df = spark.range(10).selectExpr("id AS t", "id", "CAST(raise_error('read') AS DOUBLE) AS x")
    found = topk(df, [query("a"), query("b", distinct="best")], time="t", id="id")
    with pytest.raises(Exception, match="read"):
        found.collect()


# What is refused.

MISTAKES: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "no query": ([], {}, QueryError, "no query was given"),
    "not a query": (["x"], {}, QueryError, "'x' is no Query"),
    "two of a name": ([query(), query()], {}, QueryError, "already a query named 'q'"),
    "count window": (
        query(window=sb.Window("9 events")), {}, QueryError,
        "query 'q': the window is 9 events, and the rows of a DataFrame have no order of arrival; use a window of "
        "time, or sb.run",
    ),
    "changes": (
        query(emit="changes"), {}, QueryError,
        "query 'q': emit is 'changes', and a batch has one final answer for each window; use 'final'",
    ),
    "early": (query(emit="early"), {}, QueryError, "emit is 'early'"),
    "both": (query(emit="early", window=sb.Window("9 events")), {}, QueryError, "query 'q': 2 problems"),
    "unit": (query(), {"time_unit": "h"}, InputError, "time_unit is 'h'; use 's', 'ms', 'us' or 'ns'"),
    "no time": (query(), {"time": "tt"}, InputError, "no column 'tt' for the time.*did you mean 't'"),
    "text as time": (query(), {"time": "g"}, InputError, "the time column 'g' is text; .*to_timestamp"),
    "number as id": (query(), {"id": "x"}, InputError, "the id column 'x' is double"),
    "no column": (query(score="price"), {}, QueryError, "query 'q': there is no column 'price'"),
    "text as score": (query(score="g"), {}, QueryError, "query 'q': a score must be number or integer, and g is text"),
    "partition": (query(partition_by="g + 1"), {}, QueryError, "query 'q': .* needs a number, and 'g' is string"),
    "select": (query(select=("price",)), {}, QueryError, "query 'q': select names 'price'"),
    "all at once": (
        [query("a", score="price"), query("b", where="x")], {}, QueryError,
        "(?s)2 problems:.*query 'a': there is no column 'price'.*query 'b': a filter must be boolean",
    ),
    "alike columns": (query(), {"id": "a"}, InputError, "Spark cannot tell the columns 'A', 'a' apart; rename one"),
    "alike in a score": (query(score="a"), {}, QueryError, "query 'q': Spark cannot tell the columns 'A', 'a' apart"),
    "alike in the answer": (query(select=("Rank",)), {}, InputError, "cannot tell the columns 'rank', 'Rank' apart"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told(spark: Any, mistake: str) -> None:
    queries, how, error, words = MISTAKES[mistake]
    df = spark.createDataFrame(table_of([Event(1, 1, 1.0, "p")], text=False)).selectExpr(
        "*", "t AS A", "t AS a", "t AS Rank"
    )
    with pytest.raises(error, match=words):
        topk(df, queries, **({"time": "t", "id": "id"} | how))


def test_a_stream_is_refused(spark: Any) -> None:
    with pytest.raises(InputError, match=r"the DataFrame is a stream.*use sb\.spark\.start"):
        topk(spark.readStream.format("rate").load(), query(score="value"), time="timestamp", id="value")


def test_what_is_no_data_frame_is_refused() -> None:
    with pytest.raises(InputError, match=r"cannot read events from a Table; give a Spark DataFrame, or use sb\.run"):
        topk(table_of([], text=False), query(), time="t", id="id")
