# ruff: noqa: E501
from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skyband.errors import InputError
from skyband.expressions import parse

NAN, INF = math.nan, math.inf
BATCH = pa.record_batch(
    {
        "price": [2.0, 3.0, NAN], "volume": [10, 0, None], "symbol": ["a", None, "É"], "flag": [True, False, None],
        "day": pa.array([0, 1, None], pa.date32()), "ts": pa.array([0, 86_400_000_000, -1], pa.timestamp("us", "UTC")),
        "big": pa.array([1, 2, 3], pa.uint64()), "items": [[1], [2], [3]],
    }
)  # fmt: skip


def values(text: str, **columns: Any) -> list[Any]:
    batch = pa.record_batch(columns) if columns else BATCH
    result: list[Any] = parse(text).bind(batch.schema).values(batch).to_pylist()
    return result


def refused(text: str, schema: pa.Schema = BATCH.schema) -> str:
    with pytest.raises(InputError) as caught:
        parse(text).bind(schema)
    return str(caught.value)


def test_a_float_column_is_a_view() -> None:
    column = pa.array(np.arange(10.0))
    batch = pa.record_batch({"x": column}).slice(2, 5)
    values, valid = parse("x").bind(batch.schema).scores(batch)
    assert valid is None
    assert values.tolist() == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert values.ctypes.data == column.buffers()[1].address + 16


def test_a_sliced_column_with_nulls_keeps_its_rows() -> None:
    batch = pa.record_batch({"x": [1.0, None, 3.0, None, 5.0], "b": [True, None, False, True, None]}).slice(1, 3)
    values_, valid = parse("x").bind(batch.schema).scores(batch)
    assert valid is not None
    assert valid.tolist() == [False, True, False]
    assert values_[1] == 3.0
    assert parse("b").bind(batch.schema).values(batch).to_pylist() == [None, False, True]


def test_scores_are_float64() -> None:
    values_, valid = parse("volume").bind(BATCH.schema).scores(BATCH)
    assert values_.dtype == np.float64
    assert valid is not None
    assert valid.tolist() == [True, True, False]


def test_mask_counts_null_as_false() -> None:
    assert parse("flag").bind(BATCH.schema).mask(BATCH).tolist() == [True, False, False]
    assert parse("NOT flag").bind(BATCH.schema).mask(BATCH).tolist() == [False, True, False]


def test_constants_get_their_rows() -> None:
    assert values("1") == [1, 1, 1]
    assert values("'x' || 'y'") == ["xy"] * 3
    assert values("NULL") == [None] * 3
    assert values("1 / 0") == [None] * 3
    assert values("CAST(' 1' AS DOUBLE)") == [None] * 3
    assert values("CAST('1' AS DOUBLE) + length('é')") == [2.0] * 3
    assert values("CAST(5 AS STRING)") == ["5"] * 3


def test_an_empty_batch_gives_nothing() -> None:
    empty = BATCH.slice(0, 0)
    for text in ("price", "price * volume", "symbol = 'a'", "1", "upper(symbol)", "CAST(symbol AS DOUBLE)"):
        assert parse(text).bind(empty.schema).values(empty).to_pylist() == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("price / volume", [0.2, None, None]), ("volume % 3", [1, 0, None]), ("-7 % 3", [-1] * 3), ("volume % 3.0", [1.0, 0.0, None]), ("volume + 1", [11, 1, None]),
        ("price > 2.5", [False, True, True]), ("volume IS NULL", [False, False, True]),
        ("flag AND NULL", [None, False, None]), ("flag OR NULL", [True, None, None]), ("flag <=> NULL", [False, False, True]),
        ("volume IN (10, NULL)", [True, None, None]), ("symbol LIKE '_'", [True, None, True]),
        ("CASE WHEN flag THEN 'y' ELSE 'n' END", ["y", "n", "n"]), ("CASE volume WHEN 0 THEN 1 END", [None, 1, None]),
        ("coalesce(volume, -1)", [10, 0, -1]), ("nullif(volume, 0)", [10, None, None]), ("upper(symbol)", ["A", None, "É"]),
        ("least(price, 2.5)", [2.0, 2.5, 2.5]), ("greatest(volume, 5)", [10, 5, 5]), ("round(-2.5)", [-3.0] * 3),
        ("ln(0)", [None] * 3), ("CAST(price AS INT)", [2, 3, None]), ("day = '1970-01-02'", [False, True, None]),
        ("ts < day", [False, False, None]), ("ts BETWEEN '1970-01-01' AND '1970-01-01T23:59:59.999999Z'", [True, False, False]),
        ("ts IN ('1970-01-01T01:00+01:00')", [True, False, False]),
    ],
)  # fmt: skip
def test_values(text: str, expected: list[Any]) -> None:
    assert [(type(value), value) for value in values(text)] == [(type(value), value) for value in expected]


def test_types() -> None:
    expected = {"price": "number", "volume": "integer", "volume + 1": "integer", "volume + 1.0": "number", "volume / 1": "number", "-volume": "integer", "volume + NULL": "integer", "symbol": "text", "flag": "boolean", "ts": "time",
                "volume = 1": "boolean", "coalesce(volume, 1)": "integer", "coalesce(volume, 1.5)": "number", "NULL": "number",
                "length(symbol)": "integer", "CAST(price AS BIGINT)": "integer"}  # fmt: skip
    assert {text: parse(text).bind(BATCH.schema).type for text in expected} == expected


def test_times_are_microseconds_whatever_their_unit() -> None:
    moment = datetime(2024, 1, 31, 12, tzinfo=UTC)
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "Europe/Berlin"):
            stored = pa.array([moment, None], pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit, zone))
            batch = pa.record_batch({"t": stored})
            micros, valid = parse("t").bind(batch.schema).evaluate(batch)
            assert micros[0] == int(moment.timestamp()) * 1_000_000
            assert valid is not None
            assert values("t = '2024-01-31T12:00:00Z'", t=stored) == [True, None]
    assert values("t = '2024-01-31'", t=pa.array([moment.date()], pa.date64())) == [True]


def test_every_width_of_integers_and_text() -> None:
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()):
        assert values("x + 1", x=pa.array([1, None], kind)) == [2, None]
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        assert values("x = 'é'", x=pa.array(["é", None], pa.string()).cast(kind)) == [True, None]
        assert values("x", x=pa.array(["é", None], pa.string()).cast(kind)) == ["é", None]
    assert values("x * 2", x=pa.array([Decimal("0.1"), None], pa.decimal128(5, 1))) == [0.2, None]
    assert values("x", x=pa.array([0.5, None], pa.float32())) == [0.5, None]


def test_names_match_exactly_or_else_without_case() -> None:
    schema = pa.schema([("a", pa.int64()), ("A", pa.int64()), ("Price", pa.float64())])
    assert parse("price").bind(schema).typed.node == parse("Price").tree
    assert parse("A").bind(schema).typed.node == parse("A").tree
    twice = pa.schema([("ab", pa.int64()), ("AB", pa.int64())])
    assert "'Ab' could be any of the columns 'ab', 'AB'" in refused("Ab", twice)
    with pytest.raises(InputError, match="Spark cannot tell the columns 'a', 'A' apart"):
        parse("a").spark_sql(schema)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pric", "there is no column 'pric' (did you mean 'price'?); there are 'price', 'volume'"),
        ("zzz", "there is no column 'zzz'; there are 'price'"),
        ("symbol * 2", "'*' needs a number, and 'symbol' is string; if it holds numbers, write CAST(symbol AS DOUBLE)"),
        ("flag + 1", "'+' needs a number, and 'flag' is bool; write IF(flag, 1, 0)"), ("-symbol", "'-' needs a number"),
        ("symbol = 1", "'=' needs values of one type: 'symbol' is string, 1 is integer"), ("flag < TRUE", "'<' takes number or integer"),
        ("flag = 1", "needs values of one type"), ("price AND flag", "'AND' needs a boolean, and 'price' is double"),
        ("upper(price)", "'upper' needs a text, and 'price' is double"), ("ts + 1", "'+' needs a number, and 'ts' is timestamp"),
        ("ts = 5", "'=' needs a time, and 5 is integer"), ("ts > symbol", "a time compares with times and with literals like"),
        ("ts > 'yesterday'", "'yesterday' is not a time; write it like '2024-01-31'"), ("ts > '2024-02-30'", "'2024-02-30' is not a time"),
        ("coalesce(ts, ts)", "'coalesce' takes number or integer or text or boolean: 'ts' is timestamp"),
        ("CAST(price AS STRING)", "CAST to STRING takes integer or boolean or text: 'price' is double"),
        ("CAST(ts AS BIGINT)", "CAST to BIGINT takes"), ("big", "column 'big' is uint64, which expressions cannot use"),
        ("items", "column 'items' is list"), ("CASE WHEN 1 THEN 2 END", "'CASE' needs a boolean, and 1 is integer"),
        ("IF(flag, 1, 'x')", "'CASE' needs values of one type"), ("least(flag, flag)", "'least' takes number or integer or text"),
    ],
)  # fmt: skip
def test_type_errors_say_what_is_what(text: str, message: str) -> None:
    assert message in refused(text)


def test_a_score_is_a_number_and_a_filter_a_boolean() -> None:
    with pytest.raises(InputError, match="a score must be number or integer, and flag is boolean"):
        parse("flag").bind(BATCH.schema, needs="score")
    with pytest.raises(InputError, match="a filter must be boolean, and price is number"):
        parse("price").bind(BATCH.schema).mask(BATCH)
    with pytest.raises(InputError, match="a score must be"):
        parse("symbol").bind(BATCH.schema).scores(BATCH)


def test_a_batch_of_another_schema_is_refused() -> None:
    bound = parse("price").bind(BATCH.schema)
    with pytest.raises(InputError, match="column 'price' is int64 in this batch; the expression was bound to double"):
        bound.evaluate(pa.record_batch({"price": [1]}))
    with pytest.raises(InputError, match="column 'price' is missing"):
        bound.evaluate(pa.record_batch({"x": [1]}))


def test_spark_text_holds_nothing_that_was_pasted_through() -> None:
    schema = pa.schema([("s", pa.string()), ("a`; DROP", pa.float64()), ("${env:HOME}", pa.float64())])
    assert parse(r"s = '\') OR (1=1'").spark_sql(schema) == "(`s` = cast(X'2729204F522028313D31' AS STRING))"
    assert parse("s = '${env:HOME}'").spark_sql(schema) == "(`s` = cast(X'247B656E763A484F4D457D' AS STRING))"
    assert parse("`a``; DROP`").spark_sql(schema) == "`a``; DROP`"
    with pytest.raises(InputError, match="Spark would replace"):
        parse("`${env:HOME}`").spark_sql(schema)


@pytest.mark.parametrize("text", ["floor(" * 29 + "x" + ")" * 29, "nullif(" * 29 + "x" + ", 1)" * 29,
                                  "floor(" * 7 + "x" + ")" * 7 + " IN (" + ", ".join("1" * 3000) + ")"])  # fmt: skip
def test_texts_that_would_explode_in_spark_are_refused(text: str) -> None:
    batch = pa.record_batch({"x": [1.5]})
    assert len(parse(text).bind(batch.schema).values(batch)) == 1
    with pytest.raises(InputError, match="too large for Spark"):
        parse(text).spark_sql(batch.schema)


def test_evaluation_never_warns_or_raises_on_numbers() -> None:
    numbers = [NAN, INF, -INF, 0.0, -0.0, 1e308, -1e308, 5e-324, None]
    batch = pa.record_batch({"x": pa.array(numbers, pa.float64())})
    for text in (
        "x * x",
        "x / x",
        "x % x",
        "exp(x)",
        "ln(x)",
        "power(x, x)",
        "CAST(x AS BIGINT)",
        "sin(x)",
        "sqrt(x)",
    ):
        assert len(parse(text).bind(batch.schema).values(batch)) == len(numbers)
