"""`skyband.spark.topk` joins with a DataFrame as `skyband.run` does with a service that tells the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb

pytestmark = pytest.mark.spark

WINDOW = sb.Window(10, slide=3)
ROWS = 300
QUERIES: dict[str, dict[str, Any]] = {
    "the latest event": {"score": "x + f", "select": ("n",)},
    "worst first": {"score": "x * f", "where": "f >= 2", "order": "asc", "join": {"on": "other"}},
    "aggregates": {"score": "10 * count(*) + f", "select": ("n",)},
    "aggregates by another column": {"score": "sum(x) + f", "order": "asc", "join": {"on": "other"}},
    "closed on the right": {"score": "max(n) * f", "window": sb.Window(9, slide=2, closed="right", offset=1)},
    "windows that touch": {"score": "x + f", "window": sb.Window(7)},
    "a set": {"k": "all", "score": "f", "where": "f > 2 AND x > 1", "select": ("n",)},
    "a set that is cut": {"k": "all", "score": "f", "where": "f > 1", "max_rows": 3},
}


def queries() -> list[sb.Query]:
    common: dict[str, Any] = {"k": 3, "window": WINDOW}
    return [
        sb.Query(name, **common | given | {"join": sb.Join("f", **given.get("join", {}))})
        for name, given in QUERIES.items()
    ]


def events() -> pa.Table:
    rng = np.random.default_rng(5)
    users = [None, *(f"u{i}" for i in range(13))]
    return pa.table(
        {
            "t": rng.integers(-30, 30, ROWS),
            "id": [users[i] for i in rng.integers(0, 14, ROWS)],
            "x": [None, float("nan"), *np.round(5 * rng.random(ROWS - 2)).tolist()],
            "n": rng.integers(0, 3, ROWS),
            "other": [users[i] for i in rng.integers(0, 14, ROWS)],
        }
    )


def rows(table: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    keys = [(name, "ascending") for name in ("query", "window_end", "rank", "id")]
    ordered = table.sort_by(keys).select(names)
    return list(zip(*(column.to_pylist() for column in ordered.columns), strict=True))


def test_equals_a_service_that_tells_the_truth(spark: Any) -> None:
    known = {f"u{i}": float(i * 7 % 6) for i in range(10)}
    missing = {"u10": None, "u11": float("nan")}  # and u12 has no row
    users = spark.createDataFrame(list((known | missing).items()), "name STRING, `the value` DOUBLE")
    asked, table = queries(), events()
    df = spark.createDataFrame(table)
    service = {"f": sb.spark.Frame(users, id="name", value="the value")}
    found = sb.spark.topk(df, asked, time="t", id="id", services=service).toArrow()
    expected = ["query", "window_start", "window_end", "rank", "id", "score", "time", "n", "f", "exact", "why"]
    assert found.column_names == expected
    truth = sb.run(asked, table, time="t", id="id", services={"f": lambda ids: {i: known.get(i) for i in ids}}).table()
    shown = [name for name in expected if name not in ("exact", "why")]
    ours = found.set_column(1, "window_start", found["window_start"].cast(truth["window_start"].type))
    assert rows(ours, shown) == rows(truth, shown)
    assert {row[0] for row in rows(found, ["query"])} == set(QUERIES)
    cut = {row for row in rows(found, ["query", "exact", "why"]) if not row[1]}
    assert cut == {("a set that is cut", False, "cut at 3 rows")}


def test_several_values_of_an_id_are_an_error(spark: Any) -> None:
    users = spark.createDataFrame([("u1", 1.0), ("u1", 2.0), ("u2", 3.0), ("u2", 3.0)], "name STRING, f DOUBLE")
    df, asked = spark.createDataFrame(events()), queries()[0]
    service = {"f": sb.spark.Frame(users, id="name", value="f")}
    with pytest.raises(Exception, match="several values for the id u1; give it one row per id"):
        sb.spark.topk(df, asked, time="t", id="id", services=service).collect()
