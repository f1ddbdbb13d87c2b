# ruff: noqa: E501
"""A table of values that go wrong, and random expressions over it."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

INF, NAN = float("inf"), float("nan")
NUMBERS = [
    None, NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, 1e-300, -1e300, 5e-324, 1.7976931348623157e308,
    2.0**53 - 1, 2.0**53, 2.0**63, -(2.0**63), 3.7, -3.7, 0.49999999999999994, 4503599627370497.5, 2147483647.5,
]  # fmt: skip
INTEGERS = [None, 0, 1, -1, 2, -7, 2**31 - 1, 2**31, -(2**31) - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 10]
TEXTS = [
    None, "", " ", "a", "A", "b", "ab", "é", "É", "ß", "😀", "\uffff", "a\n", "%", "a_b", "\\", "'", "it's", "${x}",
    " 1 ", "1", "-0", "+1.5", "1e999", "1d", "0x1", "NaN", "9223372036854775808", "1\n", ".5", "5.", "٣", "a\x00b",
]  # fmt: skip
BOOLEANS = [None, True, False]
TIMES = [
    None, datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 3, 10, 2, 30),
    datetime(2024, 11, 3, 1, 30, 0, 1), datetime(2024, 1, 1), datetime(1900, 1, 1, 12),
]  # fmt: skip


def table() -> pa.RecordBatch:
    """Every pair of numbers, and beside them the pairs of the other types again and again."""
    rows = len(NUMBERS) ** 2

    def pairs(values: list[Any]) -> tuple[list[Any], list[Any]]:
        cycle = list(
            itertools.islice(itertools.cycle(itertools.product(values, repeat=2)), max(rows, len(values) ** 2))
        )
        picked = cycle[:rows] if len(values) ** 2 <= rows else cycle[:: len(cycle) // rows][:rows]
        return [one for one, _ in picked], [two for _, two in picked]

    a, b = pairs(NUMBERS)
    i, j = pairs(INTEGERS)
    s, u = pairs(TEXTS)
    p, q = pairs(BOOLEANS)
    t, z = pairs(TIMES)
    zoned = [value and value.replace(tzinfo=UTC) for value in z]
    decimals = [value and Decimal(value).scaleb(-7) for value in i]
    us = pa.timestamp("us")
    return pa.record_batch(
        {
            "a": pa.array(a, pa.float64()), "b": pa.array(b, pa.float64()), "i": pa.array(i, pa.int64()),
            "j": pa.array(j, pa.int64()), "s": pa.array(s, pa.string()), "u": pa.array(u, pa.string()),
            "p": pa.array(p, pa.bool_()), "q": pa.array(q, pa.bool_()), "local": pa.array(t, us),
            "ts": pa.array(zoned, pa.timestamp("us", "UTC")),
            "day": pa.array([value and date(value.year, value.month, value.day) for value in z], pa.date32()),
            "f": pa.array([value and max(min(value, 3e38), -3e38) for value in a], pa.float32()),
            "k": pa.array([value and max(min(value, 2**31 - 1), -(2**31)) for value in i], pa.int32()),
            "d": pa.array(decimals, pa.decimal128(38, 7)),
            "we`ird. näme": pa.array(a, pa.float64()),
        }
    )  # fmt: skip


COLUMNS = {
    "number": ["a", "b", "f", "d", "`we``ird. näme`"], "integer": ["i", "j", "k"], "text": ["s", "u"],
    "boolean": ["p", "q"], "time": ["ts", "local", "day"],
}  # fmt: skip
LITERALS = {
    "number": ["0.0", "-0.0", "1.5", "1e3", "-2.5", "CAST(NULL AS DOUBLE)", "9007199254740993", "0"],
    "integer": ["0", "1", "-1", "-9223372036854775808", "9223372036854775807", "CAST(NULL AS INT)", "9007199254740993"],
    "text": ["''", "'a'", "'é'", "'it''s'", r"'\\'", "'${x}'", "'1'", "CAST(NULL AS STRING)", r"'\n'"],
    "boolean": ["TRUE", "FALSE", "(NULL AND NULL)"],
    "time": ["'2024-01-01'", "'1970-01-01T00:00:00Z'", "'2024-03-10 02:30:00-05:00'", "NULL"],
}  # fmt: skip
# {n}, {i}, {t}, {b}, {m} stand for another expression of that type; all of these are exact.
FORMS = {
    "number": [
        "{n} + {n}", "{n} - {i}", "{n} * {n}", "{n} / {n}", "{i} / {i}", "{n} % {n}", "mod({n}, {i})", "div({n}, {i})", "-{n}", "+{n}",
        "abs({n})", "sign({n})", "sqrt({n})", "floor({n})", "ceil({n})", "round({n})", "radians({n})", "degrees({n})",
        "nanvl({n}, {n})", "least({n}, {i}, {n})", "greatest({n}, {n})", "coalesce({n}, {i}, {n})",
        "nullif({n}, {n})", "coalesce(NULL, {n})", "{n} + NULL", "if({b}, {n}, {n})", "CASE WHEN {b} THEN {n} WHEN {b} THEN {i} END",
        "CASE {t} WHEN {t} THEN {n} WHEN {t} THEN {n} ELSE {n} END", "CAST({t} AS DOUBLE)", "CAST({b} AS DOUBLE)",
    ],
    "integer": [
        "CAST({n} AS BIGINT)", "CAST({n} AS INT)", "CAST({i} AS INT)", "CAST({t} AS BIGINT)", "CAST({t} AS INT)",
        "length({t})", "least({i}, {i})", "greatest({i}, {i}, {i})", "coalesce({i}, {i})", "nullif({i}, {i})",
        "{i} + {i}", "{i} - {i}", "{i} * {i}", "{i} % {i}", "mod({i}, {i})", "div({i}, {i})", "-{i}", "abs({i})", "floor({i})", "ceil({i})",
        "unix_micros({m})", "unix_micros({i})",
        "round({i})", "{i} + NULL", "NULL * {i}", "{i} * {i} - {i}", "if({b}, {i}, {i})", "CASE {n} WHEN {n} THEN {i} ELSE {i} END", "CAST({b} AS BIGINT)",
    ],
    "text": [
        "lower({t})", "upper({t})", "trim({t})", "concat({t}, {t})", "key({t}, {t})", "{t} || {t}", "coalesce({t}, {t})",
        "nullif({t}, {t})", "least({t}, {t})", "greatest({t}, {t})", "if({b}, {t}, {t})", "CAST({i} AS STRING)",
        "CAST({b} AS STRING)", "if(NULL, NULL, {t})", "CASE {b} WHEN {b} THEN {t} END",
    ],
    "boolean": [
        "{b} AND {b}", "{b} OR {b}", "NOT {b}", "{b} AND {b} OR {b}", "{n} IS NULL", "{t} IS NOT NULL", "{m} IS NULL",
        "{b} IS TRUE", "{b} IS NOT FALSE", "{n} BETWEEN {n} AND {n}", "{i} NOT BETWEEN {i} AND {n}",
        "{t} BETWEEN {t} AND {t}", "{n} IN ({n}, {i}, {n})", "{t} NOT IN ({t}, {t})", "{i} IN ({i}, {i})",
        "{t} LIKE 'a%'", r"{t} LIKE '%\\_b'", "{t} LIKE '_'", "{t} NOT LIKE '%a%'", r"{t} LIKE '\\\\'",
        "isnan({n})", "{t} = NULL", "{b} OR NULL", "NULL <=> {n}", "{b} = {b}", "{b} <> {b}", "{b} <=> {b}", "{t} <=> {t}", "{n} <=> {n}", "{i} <=> {n}",
        "{n} IS DISTINCT FROM {n}", "{m} BETWEEN {M} AND {M}", "{m} <=> {M}", "{m} IN ({M}, {m})",
        *(f"{x} {sign} {y}" for sign in ("=", "<>", "<", "<=", ">", ">=")
          for x, y in (("{n}", "{n}"), ("{i}", "{i}"), ("{i}", "{n}"), ("{t}", "{t}"), ("{m}", "{M}"))),
    ],
}  # fmt: skip
TYPES = {"n": "number", "i": "integer", "t": "text", "b": "boolean"}


def expression(random_: random.Random, kind: str, depth: int) -> str:
    """Return the text of a random expression of a type; operands stand in brackets."""
    if depth == 0 or random_.random() < 0.1:
        return random_.choice(COLUMNS[kind] if random_.random() < 0.75 else LITERALS[kind])
    return fill(random_.choice(FORMS[kind]), random_, depth)


def fill(form: str, random_: random.Random, depth: int) -> str:
    """Put random expressions into the places of a form."""
    parts = []
    for piece in form.replace("{", "\0{").replace("}", "}\0").split("\0"):
        if piece == "{m}":
            parts.append(random_.choice(COLUMNS["time"]))
        elif piece == "{M}":
            parts.append(random_.choice(COLUMNS["time"] + LITERALS["time"]))
        elif piece.startswith("{"):
            parts.append(f"({expression(random_, TYPES[piece[1]], depth - 1)})")
        else:
            parts.append(piece)
    return "".join(parts)
