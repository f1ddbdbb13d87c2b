"""Answers to the queries of the corpus, as rows that compare with DuckDB's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from skyband.languages import read_sql
from skyband.languages.sql import Selected
from tests.languages.corpus.cases import Case
from tests.languages.corpus.truth import plain


def selected(case: Case, schema: pa.Schema) -> Selected:
    """Read a case."""
    (found,) = read_sql(case.text, dialect=case.dialect, columns=schema, time="ts", every="1 hour")
    return found


def shown(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return some columns of rows, in an order of their own."""
    return sorted((tuple(plain(row[name]) for name in names) for row in rows), key=repr)


def standing(rows: Sequence[Mapping[str, Any]], all_time: bool) -> list[Mapping[str, Any]]:
    """Return the rows of answers; of all time, those of the last answer, which changes are folded into."""
    if not all_time:
        return list(rows)
    changes = any(row.get("change") is not None for row in rows)
    if not changes:
        last = max(row["window_end"] for row in rows)
        return [row for row in rows if row["window_end"] == last]
    found: dict[Any, Mapping[str, Any]] = {}
    for row in rows:
        place = (row.get("partition"), row["id"])
        if row["change"] == "left":
            found.pop(place, None)
        else:
            found[place] = row
    return list(found.values())
