"""LIKE: what it means, that Spark's own LIKE means the same, and that no pattern makes it slow."""

from __future__ import annotations

import random
import threading
from typing import Any

import pyarrow as pa
import pytest

from skyband.errors import ExpressionError
from skyband.expressions import parse
from skyband.expressions.like import MAX_PATTERN

SIGNS = "aab.é😀\n%_\\'$"
HOSTILE = "%a" * 14 + "%b"


def slowly(text: str, tokens: list[str]) -> bool:
    """Match as a person would: % takes nothing, or one more character."""
    if not tokens:
        return not text
    if tokens[0] == "%":
        return slowly(text, tokens[1:]) or bool(text and slowly(text[1:], tokens))
    return bool(text) and tokens[0] in ("_", "\\" + text[0], text[0]) and slowly(text[1:], tokens[1:])


def cases(seed: int) -> tuple[list[str], list[list[str]]]:
    """Return small texts, and the tokens of small patterns; many texts are made to match one of the patterns."""
    random_ = random.Random(seed)
    plain = [sign for sign in SIGNS if sign not in "%_\\"]
    tokens = [*plain, "%", "%", "%", "_", "_", r"\%", r"\_", "\\\\"]
    patterns = [[random_.choice(tokens) for _ in range(random_.randrange(8))] for _ in range(120)]
    texts = ["".join(random_.choice(SIGNS) for _ in range(random_.randrange(7))) for _ in range(120)]
    for pattern in patterns:
        filled = (
            "".join(random_.choice(SIGNS) for _ in range(random_.randrange(3)))
            if token == "%"
            else random_.choice(SIGNS)
            if token == "_"
            else token[-1]
            for token in pattern
        )
        texts.append("".join(filled))
    return texts, patterns


def written(pattern: str) -> str:
    """Write a pattern as a literal of ours."""
    return "'" + pattern.replace("\\", "\\\\").replace("'", "\\'") + "'"


def test_like_means_what_it_says() -> None:
    texts, patterns = cases(7)
    batch = pa.record_batch({"s": texts})
    matched = 0
    for tokens in patterns:
        pattern = "".join(tokens)
        expected = [slowly(text, tokens) for text in texts]
        found = parse(f"s LIKE {written(pattern)}").bind(batch.schema).values(batch).to_pylist()
        assert found == expected, (
            f"{pattern!r}: {[t for t, f, e in zip(texts, found, expected, strict=True) if f != e]}"
        )
        matched += sum(expected)
    assert matched > 1000


@pytest.mark.spark
def test_spark_agrees_with_its_own_like(spark: Any) -> None:
    from pyspark.sql import functions as f

    texts, patterns = cases(8)
    batch = pa.record_batch({"s": [*texts, None]})
    frame = spark.createDataFrame(pa.Table.from_batches([batch])).coalesce(1)
    texts_of_ours = [parse(f"s LIKE {written(''.join(tokens))}") for tokens in patterns]
    ours = frame.select(*(f.expr(one.spark_sql(batch.schema)).alias(f"c{n}") for n, one in enumerate(texts_of_ours)))
    own = frame.select(*(f.col("s").like("".join(tokens)).alias(f"c{n}") for n, tokens in enumerate(patterns)))
    ours, own = ours.toArrow().to_pydict(), own.toArrow().to_pydict()
    for n, tokens in enumerate(patterns):
        here = texts_of_ours[n].bind(batch.schema).values(batch).to_pylist()
        assert ours[f"c{n}"] == own[f"c{n}"] == here, "".join(tokens)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("a%", "startswith(`s`, 'a')"), ("%a", "endswith(`s`, 'a')"), ("%a%", "contains(`s`, 'a')"), ("a", "(`s` = 'a')")],
)
def test_what_spark_can_push_down_stays_so(pattern: str, text: str) -> None:
    assert parse(f"s LIKE '{pattern}'").spark_sql(pa.schema([("s", pa.string())])) == text


@pytest.mark.spark
def test_no_pattern_stalls_spark(spark: Any) -> None:
    from pyspark.sql import functions as f

    batch = pa.record_batch({"s": ["a" * 300, "a" * 300 + "b", "a" * 100_000]})
    longest = ("%_a" * MAX_PATTERN)[: MAX_PATTERN - 2] + "%b"
    expressions = [parse(f"s LIKE '{pattern}'") for pattern in (HOSTILE, "%a_" * 14 + "%b", longest)]
    frame = spark.createDataFrame(pa.Table.from_batches([batch])).coalesce(1)
    found: list[Any] = []

    def run() -> None:
        columns = [f.expr(one.spark_sql(batch.schema)).alias(f"c{n}") for n, one in enumerate(expressions)]
        found.append(frame.select(*columns).toArrow().to_pydict())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(120)  # with backtracking it would outlive us all
    assert found == [{f"c{n}": one.bind(batch.schema).values(batch).to_pylist() for n, one in enumerate(expressions)}]
    assert found[0]["c0"] == [False, True, False]


def test_a_pattern_has_a_limit() -> None:
    assert parse(f"s LIKE '{'_' * MAX_PATTERN}'").columns == ("s",)
    with pytest.raises(ExpressionError, match=r"the pattern of LIKE has 1,001 characters; at most 1,000 are allowed"):
        parse(f"s LIKE '{'_' * (MAX_PATTERN + 1)}'")
