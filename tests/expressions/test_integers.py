"""Integers stay 64-bit integers: exact, or NULL where they do not fit; as Python, Spark and DuckDB have it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from skyband.expressions import parse

LEAST, MOST = -(2**63), 2**63 - 1
EDGES = [
    None, 0, 1, -1, 2, -2, 3, 10, -10, 2**31, -(2**31), 2**32, 3_037_000_499, 3_037_000_500, 2**53, 2**53 + 1, 2**62,
    MOST, MOST - 1, LEAST, LEAST + 1,
]  # fmt: skip
Row = dict[str, int | None]
# A text, what Python makes of it, and the same for DuckDB, which raises where we give NULL.
Random = tuple[str, Callable[[Row], Any], str]


def rows(random_: random.Random, count: int = 400) -> pa.RecordBatch:
    def one() -> int | None:
        return random_.choice(EDGES) if random_.random() < 0.6 else random_.randrange(LEAST, MOST)

    return pa.record_batch({name: pa.array([one() for _ in range(count)], pa.int64()) for name in "ijk"})


def fits(value: int | None) -> int | None:
    return value if value is not None and LEAST <= value <= MOST else None


def remainder(a: int, b: int) -> int | None:
    return None if b == 0 else (abs(a) % abs(b)) * (1 if a >= 0 else -1)


BINARY: dict[str, tuple[Callable[[int, int], int | None], str]] = {
    "({} + {})": (lambda a, b: a + b, "TRY({} + {})"),
    "({} - {})": (lambda a, b: a - b, "TRY({} - {})"),
    "({} * {})": (lambda a, b: a * b, "TRY({} * {})"),
    "({} % {})": (remainder, "TRY(CASE WHEN {1} = -1 THEN {0} - {0} ELSE {0} % {1} END)"),
    "least({}, {})": (min, "least({}, {})"),
    "greatest({}, {})": (max, "greatest({}, {})"),
}
UNARY: dict[str, tuple[Callable[[int], int], str]] = {
    "(-{})": (lambda a: -a, "TRY(-{})"),
    "abs({})": (abs, "TRY(abs({}))"),
    "floor({})": (lambda a: a, "({})"),
}
COMPARED: dict[str, Callable[[int, int], bool]] = {
    "=": lambda a, b: a == b, "<>": lambda a, b: a != b, "<": lambda a, b: a < b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def strictly(function: Callable[..., int | None], *args: Callable[[Row], int | None]) -> Callable[[Row], int | None]:
    def value(row: Row) -> int | None:
        known = [arg(row) for arg in args]
        return None if None in known else fits(function(*known))

    return value


def skipping(function: Callable[..., int | None], *args: Callable[[Row], int | None]) -> Callable[[Row], int | None]:
    def value(row: Row) -> int | None:
        known = [one for one in (arg(row) for arg in args) if one is not None]
        return function(*known) if len(known) == 2 else next(iter(known), None)

    return value


def expression(random_: random.Random, depth: int) -> Random:
    """Return a random expression of integers."""
    if depth == 0 or random_.random() < 0.15:
        if random_.random() < 0.7:
            name = random_.choice("ijk")
            return name, lambda row: row[name], name
        constant = random_.choice([edge for edge in EDGES if edge is not None])
        return f"({constant})", lambda _: constant, f"CAST({constant} AS BIGINT)"
    if random_.random() < 0.25:
        form, (alone, duck) = random_.choice(list(UNARY.items()))
        inner = expression(random_, depth - 1)
        while inner[0] == f"({LEAST})":  # the parser refuses -(-2^63), a constant that does not fit
            inner = expression(random_, depth - 1)
        text, value, theirs = inner
        return form.format(text), strictly(alone, value), duck.format(theirs)
    form, (function, duck) = random_.choice(list(BINARY.items()))
    one, two = expression(random_, depth - 1), expression(random_, depth - 1)
    combine = skipping if form.startswith(("least", "greatest")) else strictly
    return form.format(one[0], two[0]), combine(function, one[1], two[1]), duck.format(one[2], two[2])


def comparison(random_: random.Random) -> Random:
    sign, function = random_.choice(list(COMPARED.items()))
    one, two = expression(random_, 2), expression(random_, 2)

    def value(row: Row) -> bool | None:
        a, b = one[1](row), two[1](row)
        return None if a is None or b is None else function(a, b)

    return f"{one[0]} {sign} {two[0]}", value, f"{one[2]} {sign} {two[2]}"


def drawn(seed: int, count: int) -> Iterator[Random]:
    random_ = random.Random(seed)
    for n in range(count):
        yield comparison(random_) if n % 3 == 0 else expression(random_, random_.choice([1, 1, 2, 3]))


def ours(text: str, batch: pa.RecordBatch) -> pa.Array:
    return parse(text).bind(batch.schema).values(batch)


def test_integers_are_exact_or_null() -> None:
    batch = rows(random.Random(1))
    table = batch.to_pylist()
    nulls = 0
    for text, value, _ in drawn(2, 400):
        found = ours(text, batch)
        assert found.type in (pa.int64(), pa.bool_()), text
        assert found.to_pylist() == [value(row) for row in table], text
        nulls += found.null_count
    assert nulls > 10_000


@pytest.mark.parametrize("rows_each", [1, 0])
def test_one_row_or_none_gives_integers_too(rows_each: int) -> None:
    batch = rows(random.Random(3)).slice(5, rows_each)
    for text, value, _ in drawn(4, 60):
        assert ours(text, batch).to_pylist() == [value(row) for row in batch.to_pylist()], text


def test_duckdb_agrees() -> None:
    duckdb = pytest.importorskip("duckdb")
    batch = rows(random.Random(5))
    table = pa.Table.from_batches([batch])
    connection = duckdb.connect()
    connection.register("t", table)
    for text, _, theirs in drawn(6, 150):
        found = [value for (value,) in connection.execute(f"SELECT {theirs} FROM t").fetchall()]
        assert ours(text, batch).to_pylist() == found, f"{text} is {theirs} in DuckDB"


@pytest.mark.spark
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_spark_agrees(spark: Any, ansi: str) -> None:
    from pyspark.sql import functions as f

    batch = rows(random.Random(7))
    frame = spark.createDataFrame(pa.Table.from_batches([batch])).coalesce(1)
    texts = [text for text, _, _ in drawn(8, 240)]
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        columns = [f.expr(parse(text).spark_sql(batch.schema)).alias(f"c{n}") for n, text in enumerate(texts)]
        found = frame.select(*columns).toArrow()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    for n, text in enumerate(texts):
        theirs = found.column(n)
        assert ours(text, batch).to_pylist() == theirs.to_pylist(), text
        assert theirs.type in (pa.int64(), pa.bool_()), text


def test_floats_take_over_where_there_is_one() -> None:
    batch = pa.record_batch({"i": [2**53 + 1], "x": [1.0]})
    for text in ("i * 1.0", "i + x", "i / 1", "x * i", "coalesce(i, x)", "least(i, 1e300)", "i % 9e18"):
        assert ours(text, batch).to_pylist() == [float(2**53)], text
    assert ours("i = 9007199254740993", batch).to_pylist() == [True]
    assert ours("i = 9007199254740992", batch).to_pylist() == [False]
    assert ours("i = 9007199254740992.0", batch).to_pylist() == [True]  # as doubles, as Spark compares them
