"""Which event of an id counts where several are equal in time: the same however the input is cut, here and on Spark."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.remote.services import Limits

WINDOW = sb.Window(20, slide=10)
VALUES: dict[Any, float] = {"h": 1.0, "hé": 2.0, "hé0": 3.0, 0: 1.0, 1: 2.0, 2: 3.0}
NOTES = [None, "", "a", "é"]
SIZES = [None, float("nan"), -1.0, 2.0]


def stream(seed: int, n: int = 60) -> list[dict[str, Any]]:
    """Return events of few times, ids, scores and remote ids: many differ in what is selected alone."""
    rng = random.Random(seed)
    return [
        {
            "t": 5 * rng.randrange(12), "id": rng.randrange(3), "x": float(rng.randrange(2)),
            "home": rng.choice(["h", "hé", "hé0"]), "note": rng.choice(NOTES), "size": rng.choice(SIZES),
            "tags": rng.choice([None, [], ["b", None], ["b"]]),
        }
        for _ in range(n)
    ]  # fmt: skip


def queries(select: tuple[str, ...]) -> list[sb.Query]:
    make, join = sb.Query, sb.Join
    return [
        make("sums", k=3, score="sum(x)", window=WINDOW, select=select),
        make("homes", k=3, score="count(*)", group_by="home", window=WINDOW, select=select),
        make("latest", k=3, score="x + value", window=WINDOW, select=select, join=join("value")),
        make("least", k=3, score="x + there", order="asc", window=WINDOW, select=select, join=join("there", on="home")),
        make("counted", k=3, score="count(*) + there", window=WINDOW, select=select, join=join("there", on="home")),
        make("all", k="all", score="x + value", where="value > 1", window=WINDOW, select=select, join=join("value")),
    ]  # fmt: skip


def services() -> dict[str, Any]:
    limits = Limits(remember_missing=0)
    names = ("value", "there")
    return {name: sb.Remote(lambda ids: {one: VALUES.get(one) for one in ids}, limits=limits) for name in names}


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    kinds = {"t": pa.int64(), "id": pa.int64(), "x": pa.float64(), "home": pa.string(), "note": pa.string(),
             "size": pa.float64(), "tags": pa.list_(pa.string())}  # fmt: skip
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


def answered(events: list[dict[str, Any]], select: tuple[str, ...], cuts: list[int]) -> list[str]:
    monitor = sb.Monitor(queries(select), time="t", id="id", services=services())
    for low, high in zip([0, *cuts], [*cuts, len(events)], strict=True):
        monitor.push(table_of(events[low:high]))
        monitor = sb.Monitor.restore(monitor.snapshot(), services=services())
    return [repr(row) for row in monitor.finish().table(quality=True).to_pylist()]


@pytest.mark.parametrize("select", [("note",), ("size", "note"), ("tags", "size")])
def test_the_cut_into_batches_does_not_matter(select: tuple[str, ...]) -> None:
    for seed in range(3):
        events, rng = stream(seed), random.Random(seed)
        whole = answered(events, select, [])
        assert len(whole) > 50
        assert answered(events, select, list(range(1, len(events)))) == whole
        assert answered(events, select, sorted(rng.sample(range(1, len(events)), 5))) == whole
        rng.shuffle(events)
        assert answered(events, select, sorted(rng.sample(range(1, len(events)), 5))) == whole


def test_the_first_by_the_selected_columns_counts() -> None:
    rows = [{"t": 1, "id": 1, "x": 1.0, "home": "h", "note": note, "size": size, "tags": None} for note in NOTES for
            size in SIZES]  # fmt: skip
    for select, first in ((("note", "size"), {"note": None, "size": None}), (("size",), {"size": None})):
        monitor = sb.Monitor(queries(select), time="t", id="id", services=services())
        monitor.push(table_of(rows[::-1]))
        found = [row.values for answer in monitor.finish() for row in answer.rows]
        assert [{name: held[name] for name in select} for held in found] == [first] * 12


def test_what_comes_late_at_the_same_time_counts_only_if_it_is_better() -> None:
    """For windows that are still open, the order of arrival does not matter either."""
    early = {"t": 15, "id": 1, "x": 1.0, "home": "hé", "note": "b", "size": 0.0, "tags": None}
    for late, shown in (
        (early | {"x": 0.0, "note": "a"}, (1.0, "b")), (early | {"note": "c"}, (1.0, "b")),
        (early | {"note": "a"}, (1.0, "a")), (early | {"x": 2.0, "note": "z"}, (2.0, "z")),
    ):  # fmt: skip
        for join in (sb.Join("value"), sb.Join("value", on="home", policy="AT-LRU", only_candidates=True)):
            query = sb.Query("q", k=1, score="x + value", window=WINDOW, select=("note",), join=join)
            known = sb.Remote(lambda _: {}, known={1: 0.0, "hé": 0.0})
            monitor = sb.Monitor([query], time="t", id="id", services={"value": known})
            monitor.push(table_of([early]))
            monitor.advance(20)
            monitor.push(table_of([late]))
            (answer,) = monitor.finish()
            assert [(row.score, row.note) for row in answer.rows] == [shown]


def test_an_aggregate_that_becomes_null_takes_its_id_out() -> None:
    """The event with a value leaves the window, a later one without stays."""
    for more in ({}, {"policy": "AT-LRU", "only_candidates": True}):
        query = sb.Query("q", k=2, score="sum(x) + value", window=WINDOW, join=sb.Join("value", **more))  # type: ignore[arg-type]
        monitor = sb.Monitor([query], time="t", id="id", services=services())
        monitor.push([{"t": 5, "id": 1, "x": 7.0}, {"t": 15, "id": 1, "x": None}, {"t": 15, "id": 2, "x": 1.0}])
        found = {answer.end: [row.id for row in answer.rows] for answer in monitor.finish()}
        assert found == {10: [1], 20: [1, 2], 30: [2]}


def test_what_is_told_of_an_object_outside_of_the_list_shows_its_columns() -> None:
    join = sb.Join("value", budget=0, n=0, policy="AT-TSM", only_candidates=True)
    query = sb.Query("q", k=1, score="x + value", window=WINDOW, select=("note",), join=join)
    known = {name: float(name) for name in range(9)}
    monitor = sb.Monitor([query], time="t", id="id", services={"value": sb.Remote(lambda _: {}, known=known)})
    monitor.push([{"t": 15, "id": name, "x": 0.0, "note": f"of {name}"} for name in range(9)])
    assert [row.note for row in monitor.advance(20)[0].rows] == ["of 8"]
    monitor.push_changes("value", {3: 100.0})
    assert [(row.id, row.note) for row in monitor.advance(30)[0].rows] == [(3, "of 3")]


def test_an_older_event_does_not_take_the_place_of_one_that_waits_for_its_value() -> None:
    join = sb.Join("value", budget=0, n=3, policy="AT-LRU", only_candidates=True)
    query = sb.Query("q", k=1, score="x + value", window=sb.Window(30, slide=10), join=join)
    monitor = sb.Monitor([query], time="t", id="id", services={"value": lambda _: {}})
    monitor.push([{"t": 15, "id": 1, "x": 1.0}])
    monitor.advance(20)
    monitor.push([{"t": 12, "id": 1, "x": 9.0}])
    assert not monitor.advance(30)[0].rows
    monitor.push_changes("value", {1: 10.0})
    assert [(row.score, row.time) for row in monitor.advance(40)[0].rows] == [(11.0, 15)]


@pytest.mark.spark
def test_on_spark_the_same_events_count(spark: Any, tmp_path: Path) -> None:
    events, select = stream(3, n=90), ("note", "size", "tags")
    (tmp_path / "in").mkdir()
    for number in range(2):
        file = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(table_of(events[number::2]), file, row_group_size=10)
        os.utime(file, (10**9 + number,) * 2)
    pq.write_table(table_of([events[0] | {"t": 500, "note": "end"}]), tmp_path / "in" / "9.parquet")
    schema = spark.createDataFrame(table_of([])).schema
    df = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    handle = sb.spark.start(
        df, asked(select), time="t", id="id", watermark=200, sink=str(tmp_path / "out"), checkpoint=tmp_path / "state",
        trigger={"availableNow": True}, services=services(),
    )  # fmt: skip
    handle.awaitTermination()
    found = pa.concat_tables(
        [pq.ParquetFile(file).read() for file in sorted((tmp_path / "out").rglob("*.parquet"))],
        promote_options="permissive",
    )
    monitor = sb.Monitor(asked(select), time="t", id="id", services=services())
    monitor.push(table_of(events))
    expected = monitor.advance(300).table(quality=True)
    shown = ["query", "window_end", "rank", "id", "score", "time", *select]

    def lines(rows: pa.Table) -> list[str]:
        return sorted(repr([str(row[name]) for name in shown]) for row in rows.to_pylist())

    assert lines(found) == lines(expected)
    assert expected.num_rows > 50


def asked(select: tuple[str, ...]) -> list[sb.Query]:
    return [query for query in queries(select) if query.name != "homes"]  # whose ids are of another kind


def test_queries_of_one_service_may_select_different_columns() -> None:
    window, join = sb.Window(10), sb.Join("f")
    queries = [
        sb.Query("plain", k=1, score="x + f", window=window, join=join),
        sb.Query("more", k=1, score="x + f", window=window, join=join, select=("x",)),
    ]
    monitor = sb.Monitor(queries, time="t", id="id", services={"f": lambda ids: dict.fromkeys(ids, 1.0)})
    monitor.push([{"t": 1, "id": "a", "x": 2.0}])
    assert monitor.advance(10).table().select(["query", "x"]).to_pylist() == [
        {"query": "plain", "x": None}, {"query": "more", "x": 2.0},
    ]  # fmt: skip


def test_further_aggregates_and_a_condition_over_them() -> None:
    rows = [
        {"t": t, "id": f"i{t % 4}", "venue": ["a", "b", None][t % 3], "n": t * t % 5, "x": float(t % 7)}
        for t in range(61)
    ]
    fans = {"a|0": 3.0, "a|1": 1.0, "b|4": 9.0, "\\N|4": 2.0}
    query = sb.Query(
        "q", k=9, score="sum(x) + fans", window=sb.Window(20), join=sb.Join("fans"), group_by=("venue", "n"),
        having="count(*) > 1", select=("count(*) AS c", "count(distinct id) AS people", "max(x) - min(x) AS span"),
    )  # fmt: skip
    found = [
        (answer.end, [(row.id, row.score, row.venue, row.n, row.c, row.people, row.span) for row in answer.rows])
        for answer in sb.run(query, rows, time="t", id="id", services={"fans": lambda _: fans})
    ]
    null, wanted = "\\N", []
    for end in (20, 40, 60, 80):
        groups: dict[Any, list[Any]] = {}
        for row in rows[end - 20 : end]:
            groups.setdefault((row["venue"], row["n"]), []).append(row)
        best = []
        for (venue, n), mine in groups.items():
            name, xs = f"{venue or null}|{n}", [row["x"] for row in mine]
            if len(mine) > 1 and name in fans:
                people = len({row["id"] for row in mine})
                shown = (name, sum(xs) + fans[name], venue, n, len(mine), people, max(xs) - min(xs))
                best.append((-shown[1], -max(row["t"] for row in mine), name, shown))
        wanted.append((end, [shown for *_, shown in sorted(best)]))
    assert found == wanted
    assert sum(len(rows) for _, rows in found) > 6


def test_a_group_without_a_name_has_no_remote_value() -> None:
    query = sb.Query("q", k=2, score="count(*) + fans", window=sb.Window(10), join=sb.Join("fans"), group_by="venue")
    rows = [{"t": 1, "id": 1, "venue": "a"}, {"t": 2, "id": 1, "venue": None}]
    answers = sb.run(query, rows, time="t", id="id", services={"fans": lambda ids: dict.fromkeys(ids, 1.0)})
    assert [[row.id for row in answer.rows] for answer in answers] == [["a"]]
    assert answers.monitor.stats().rejected == 1
