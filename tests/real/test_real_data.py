"""Recorded streams: local runs equal a sort of every whole window. Skipped where the data sets are absent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.order import best_first

DATA = Path(os.environ.get("SKYBAND_DATA", Path(__file__).parents[3] / "shared" / "data"))
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"no data sets in {DATA.name}/: set SKYBAND_DATA to their folder"
)

MINUTE = 60_000_000


def load(name: str, columns: list[str]) -> pa.Table:
    return pq.read_table(DATA / name, columns=columns)


def windows(time: np.ndarray, size: int, slide: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield every window that contains an event, and those between, with the rows inside."""
    order = np.argsort(time, kind="stable")
    ordered = time[order]
    first = ordered[0] - size + slide - (ordered[0] - size) % slide
    for start in range(int(first), int(ordered[-1]) + 1, slide):
        low, high = np.searchsorted(ordered, [start, start + size])
        yield start, order[low:high]


def truth(
    merit: np.ndarray, time: np.ndarray, key: np.ndarray, query: sb.Query, distinct: str | None
) -> Iterator[tuple[int, list[int]]]:
    for start, rows in windows(time, query.window.size, query.window.slide):
        ranked = rows[best_first(merit[rows], time[rows], key[rows])]
        if distinct == "best":
            _, first = np.unique(key[ranked], return_index=True)
            ranked = ranked[np.sort(first)]
        yield start, ranked[: query.k].tolist()


def check(table: pa.Table, query: sb.Query, merit: np.ndarray, key: np.ndarray, **options: Any) -> None:
    """Compare scores, times and ids of every window."""
    column = options["time"]
    time = table[column].to_numpy() * 1000
    answers = list(sb.run(query, table, time_unit="ms", **options))
    good = ~np.isnan(merit)
    index = np.flatnonzero(good)
    expected = list(truth(merit[good], time[good], key[good], query, query.distinct))
    assert len(answers) == len(expected)
    sign = 1.0 if query.order == "desc" else -1.0
    names = np.array(table[options["id"]].to_pylist())
    for answer, (start, rows) in zip(answers, expected, strict=True):
        place = answer.index
        low, high = answer.block.offsets[place], answer.block.offsets[place + 1]
        assert answer.block.start[place] == start
        assert answer.block.score[low:high].tolist() == (sign * merit[index[rows]]).tolist()
        assert answer.block.time[low:high].tolist() == time[index[rows]].tolist()
        ids = answer.block.id[low:high]
        named = ids.to_pylist() if isinstance(ids, pa.Array) else ids.tolist()
        assert named == names[index[rows]].tolist()


@pytest.mark.parametrize("distinct", [None, "best"])
@pytest.mark.parametrize(("k", "size", "slide"), [(100, 60, 10), (10, 7, 3), (3, 480, 30)])
def test_stock_trades_by_turnover_which_is_heavily_tied(k: int, size: int, slide: int, distinct: Any) -> None:
    table = load("stock_trades/trades.parquet", ["ts_ms", "symbol", "price_e4", "volume"])
    merit = table["price_e4"].to_numpy().astype(float) * table["volume"].to_numpy()
    _, key = np.unique(np.array(table["symbol"].to_pylist()), return_inverse=True)
    query = sb.Query(
        "turnover",
        k=k,
        score="price_e4 * volume",
        window=sb.Window(size * MINUTE, slide=slide * MINUTE),
        distinct=distinct,
    )
    check(table, query, merit, key, time="ts_ms", id="symbol")


def test_taxi_trips_by_distance_and_by_distance_minus_duration() -> None:
    table = load("nyc_taxi/trips.parquet", ["pickup_ms", "duration_s", "distance_mi", "pu_zone"])
    zone = table["pu_zone"].to_numpy().astype(np.int64)
    distance = table["distance_mi"].to_numpy().astype(float)
    window = sb.Window(24 * 60 * MINUTE, slide=180 * MINUTE)
    check(
        table, sb.Query("far", k=50, score="distance_mi", window=window), distance, zone, time="pickup_ms", id="pu_zone"
    )
    fast = distance - table["duration_s"].to_numpy() / 3600
    query = sb.Query("slow", k=20, score="distance_mi - duration_s / 3600", window=window, order="asc", distinct="best")
    check(table, query, -fast, zone, time="pickup_ms", id="pu_zone")


def test_sensors_which_are_correlated_in_time_and_have_nulls() -> None:
    table = load("sensors/readings.parquet", ["ts_ms", "station", "humidity_pct", "air_temp_c"])
    station = table["station"].to_numpy().astype(np.int64)
    window = sb.Window(360 * MINUTE, slide=60 * MINUTE)
    for column in ("air_temp_c", "humidity_pct"):
        merit = table[column].to_numpy().astype(float)
        check(table, sb.Query("most", k=30, score=column, window=window), merit, station, time="ts_ms", id="station")
        coldest = sb.Query("least", k=5, score=column, window=window, order="asc", distinct="best")
        check(table, coldest, -merit, station, time="ts_ms", id="station")


def test_many_queries_with_a_watermark_equal_each_alone() -> None:
    table = load("stock_trades/trades.parquet", ["ts_ms", "symbol", "price_e4", "volume"]).slice(0, 400_000)
    queries = [
        sb.Query(f"q{k}", k=k, score="price_e4 * volume", window=sb.Window(k * MINUTE, slide=slide * MINUTE))
        for k, slide in ((5, 1), (17, 3), (60, 7), (100, 100))
    ]
    together: dict[str, list[Any]] = {}
    for answer in sb.run(queries, table, time="ts_ms", id="symbol", time_unit="ms", watermark="1 second"):
        together.setdefault(answer.query, []).append((answer.end, answer.rows))
    for query in queries:
        alone = sb.run(query, table, time="ts_ms", id="symbol", time_unit="ms")
        assert together[query.name] == [(answer.end, answer.rows) for answer in alone]
