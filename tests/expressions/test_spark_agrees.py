# ruff: noqa: E501
"""Every expression has the same value in NumPy and in Spark, to the bit, with ANSI mode on and off."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skyband.expressions import parse

from . import nasty

pytestmark = pytest.mark.spark

SEED = int(os.environ.get("SKYBAND_SEED", "20240131"))
KINDS = ["number", "integer", "text", "boolean"]
PICKED = [
    "1.5", "1e3", "'é'", "'${spark.app.name}'", "'a${x}b'", "NULL", "TRUE", "-9223372036854775808", "a", "i", "s", "p", "f",
    "k", "d", "ts", "local", "day", "`we``ird. näme`", "A", "a / 0", "a / -0.0", "a % 0", "a % -0.0", "-7.5 % 2", "i + j",
    "i - j", "i * j", "i % j", "-i", "abs(i)", "k + k", "k * k", "i + a", "i * 1.0", "i / j", "floor(i)", "round(i)", "i % 10 = 2", "9007199254740993 = 9007199254740992", "i = 9007199254740993", "i = 9007199254740993.0", "i > a", "a < b",
    "a = b", "a <> b", "s < u", "s = 'É'", "lower(s)", "upper(s)", "s LIKE 'it_s'", r"s LIKE '\\\\'", r"s LIKE '%\\%%'",
    "s LIKE '%'", "s LIKE ''", "s LIKE 'a%b'", "s LIKE '_'", "p AND q", "p OR q", "NOT p", "p <=> q", "p IS NOT TRUE",
    "a IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)", "a IN (b, NULL)", "CAST(a AS BIGINT)", "CAST(a AS INT)",
    "CAST(s AS DOUBLE)", "CAST(s AS BIGINT)", "CAST(s AS INT)", "CAST(i AS STRING)", "CAST(CAST(i AS STRING) AS DOUBLE)",
    "floor(a)", "ceil(a)", "round(a)", "sign(a)", "abs(a)", "sqrt(a)", "nanvl(a, b)", "isnan(a)", "least(a, b)",
    "greatest(a, b)", "least(s, u)", "nullif(a, b)", "nullif(s, u)", "coalesce(a, b, 0)", "trim(s)", "length(s)",
    "ts < '2024-01-01'", "local < '2024-03-10T02:30:00.000001'", "day = '1970-01-01'", "ts = local", "ts >= day",
    "local BETWEEN day AND ts", "local IN (ts, '2024-11-03 01:30:00.000001Z')", "CASE ts WHEN local THEN 1 ELSE 2 END",
]  # fmt: skip
INEXACT = [
    "exp({x})", "ln({x})", "log({x})", "log({x}, {y})", "log10({x})", "log2({x})", "log1p({x})", "power({x}, {y})",
    "pow({x}, 2)", "pow(1, {x})", "sin({x})", "cos({x})", "tan({x})",
]  # fmt: skip


@pytest.fixture(scope="module")
def batch() -> pa.RecordBatch:
    return nasty.table()


@pytest.fixture(scope="module")
def frame(spark: Any, batch: pa.RecordBatch) -> Any:
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")  # so that a time without a zone stays one
    frame = spark.createDataFrame(pa.Table.from_batches([batch])).coalesce(1).cache()
    spark.conf.unset("spark.sql.timestampType")
    assert dict(frame.dtypes)["local"] == "timestamp_ntz"
    assert dict(frame.dtypes)["ts"] == "timestamp"
    return frame


@pytest.fixture(params=["true", "false"], ids=["ansi", "not ansi"])
def ansi(spark: Any, request: pytest.FixtureRequest) -> Any:
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield request.param
    spark.conf.unset("spark.sql.ansi.enabled")


def same(ours: pa.Array, theirs: pa.Array, tolerance: float) -> list[int]:
    """Return the rows in which two columns differ."""
    if pa.types.is_floating(theirs.type):
        mine, other = (np.asarray(column.fill_null(0.0)) for column in (ours, theirs))
        nulls = np.asarray(ours.is_null()) != np.asarray(theirs.is_null())
        bits = mine.view(np.int64) != other.view(np.int64)
        with np.errstate(all="ignore"):
            near = np.abs(mine - other) <= tolerance * np.abs(other)
        differs = bits & ~(np.isnan(mine) & np.isnan(other)) & ~(near & (tolerance > 0))
        return list(np.flatnonzero(nulls | differs))
    pairs = zip(ours.to_pylist(), theirs.to_pylist(), strict=True)
    return [row for row, (mine, other) in enumerate(pairs) if mine != other or type(mine) is not type(other)]


def compare(frame: Any, batch: pa.RecordBatch, texts: list[str], ansi: str, tolerance: float = 0.0) -> None:
    from pyspark.sql import functions

    expressions = [parse(text) for text in texts]
    columns = [
        functions.expr(expression.spark_sql(batch.schema)).alias(f"c{n}") for n, expression in enumerate(expressions)
    ]
    result = frame.select(*columns).toArrow().combine_chunks()
    problems = []
    for n, expression in enumerate(expressions):
        ours = expression.bind(batch.schema).values(batch)
        theirs = result.column(n).combine_chunks()
        theirs = theirs.cast(ours.type) if pa.types.is_timestamp(ours.type) else theirs
        ours = ours.cast(theirs.type) if ours.type == pa.int32() else ours
        assert ours.type == theirs.type, f"{expression.text}: {ours.type} here, {theirs.type} in Spark"
        rows = same(ours, theirs, tolerance)
        if rows:
            row = rows[0]
            names = expression.columns
            inputs = {name: batch.column(name)[row].as_py() for name in names if name in batch.schema.names}
            problems.append(
                f"{expression.text}\n  = {expression.spark_sql(batch.schema)}\n  at {inputs}: "
                f"{ours[row].as_py()!r} here, {theirs[row].as_py()!r} in Spark ({len(rows)} rows)"
            )
    shown = "\n".join(problems[:5])
    assert not problems, f"{len(problems)} of {len(texts)} differ, seed {SEED}, ANSI {ansi}:\n{shown}"


def test_picked_expressions_agree(frame: Any, batch: pa.RecordBatch, ansi: str) -> None:
    compare(frame, batch, PICKED, ansi)


@pytest.mark.parametrize("part", range(4))
def test_generated_expressions_agree(frame: Any, batch: pa.RecordBatch, ansi: str, part: int) -> None:
    random_ = random.Random(SEED + part)
    texts = [nasty.expression(random_, random_.choice(KINDS), random_.choice([1, 1, 2, 2, 3])) for _ in range(90)]
    compare(frame, batch, texts, ansi)


def test_every_form_agrees(frame: Any, batch: pa.RecordBatch, ansi: str) -> None:
    random_ = random.Random(SEED)
    texts = [nasty.fill(form, random_, 1) for forms in nasty.FORMS.values() for form in forms]
    compare(frame, batch, texts, ansi)


def test_transcendental_functions_agree_to_the_last_digits(frame: Any, batch: pa.RecordBatch, ansi: str) -> None:
    arguments = [("a", "b"), ("b", "a"), ("i", "a"), ("a / b", "i"), ("f", "k"), ("1 + a", "2")]
    texts = [form.format(x=f"({x})", y=f"({y})") for form in INEXACT for x, y in arguments]
    compare(frame, batch, texts, ansi, tolerance=1e-12)
