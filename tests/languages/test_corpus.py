"""What stream engineers write is accepted, and answered as DuckDB answers it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest

import skyband as sb
from tests.languages.corpus.cases import CASES, Case
from tests.languages.corpus.chance import drawn
from tests.languages.corpus.check import selected, shown, standing
from tests.languages.corpus.truth import database, rows_of, sales

SALES = sales()


@pytest.fixture(scope="module")
def truth() -> Iterator[duckdb.DuckDBPyConnection]:
    with database(SALES) as connection:
        yield connection


def test_there_are_many() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60
    assert {case.dialect for case in CASES} == {"flink", "postgres", "spark", "ksqldb"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_local(case: Case, truth: duckdb.DuckDBPyConnection) -> None:
    found = selected(case, SALES.schema)
    answers = sb.run(found.query, SALES, time=found.time or "ts", id="id").table()
    names, wanted = rows_of(truth, case.truth)
    assert wanted
    rows = standing(answers.to_pylist(), "window_end" not in names)
    assert shown(rows, names) == wanted


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_random_queries(first: int, truth: duckdb.DuckDBPyConnection) -> None:
    for seed in range(first, first + 20):
        case = drawn(seed)
        found = selected(case, SALES.schema)
        names, wanted = rows_of(truth, case.truth)
        answers = sb.run(found.query, SALES, time="ts", id="id").table()
        rows = standing(answers.to_pylist(), "window_end" not in names)
        assert shown(rows, names) == wanted, (seed, case.text)


def test_every_answer_is_exact() -> None:
    queries = [replace(selected(case, SALES.schema).query, name=case.name) for case in CASES]
    for answer in sb.run(queries, pa.table(SALES), time="ts", id="id"):
        assert answer.exact
