"""Keys, further values, conditions over aggregates: plain Python that says what answers must show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import skyband as sb

Row = dict[str, Any]
Value = Callable[[Row], Any]
Aggregate = Callable[[Sequence[Row]], Any]

LARGE = 2**53
VENUES = ["AB", "A", "a", "", "|", "\\", "A|B", "\\N", None]
CITIES = ["C", "BC", "B|C", "\\", "N", None]


def half(row: Row) -> Any:
    return None if row["n"] is None else abs(row["n"]) % 2 * (1 if row["n"] > 0 else -1)


VALUES: dict[str, Value] = {
    "venue": lambda row: row["venue"],
    "city": lambda row: row["city"],
    "flag": lambda row: row["flag"],
    "n": lambda row: row["n"],
    "lower(venue) AS low": lambda row: None if row["venue"] is None else row["venue"].lower(),
    "n % 2 AS odd": half,
    "n % 2": half,
    "x * 2 AS twice": lambda row: None if row["x"] is None else row["x"] * 2,
    "coalesce(city, venue) AS place": lambda row: row["venue"] if row["city"] is None else row["city"],
    "1 AS one": lambda _: 1,
}
"""What is computed of single rows."""


def known(rows: Sequence[Row], name: str) -> list[Any]:
    return [row[name] for row in rows if row[name] is not None and row[name] == row[name]]


def some(rows: Sequence[Row], name: str, of: Callable[[list[Any]], Any]) -> Any:
    return of(known(rows, name)) if known(rows, name) else None


AGGREGATES: dict[str, Aggregate] = {
    "count(*)": len,
    "sum(x)": lambda rows: some(rows, "x", sum),
    "sum(n)": lambda rows: some(rows, "n", sum),
    "max(n)": lambda rows: some(rows, "n", max),
    "avg(x)": lambda rows: some(rows, "x", lambda xs: sum(xs) / len(xs)),
    "count(distinct city)": lambda rows: len({*known(rows, "city")}),
    "count(distinct x)": lambda rows: len({*known(rows, "x")}),
    "count(distinct flag)": lambda rows: len({*known(rows, "flag")}),
    "count(distinct n)": lambda rows: len({*known(rows, "n")}),
    "approx_count_distinct(venue)": lambda rows: len({*known(rows, "venue")}),  # of so few, surely
    "max(x) - min(x)": lambda rows: some(rows, "x", lambda xs: max(xs) - min(xs)),
    "2 * count(*) + count(n)": lambda rows: 2 * len(rows) + len(known(rows, "n")),
    "count(*) / 2": lambda rows: len(rows) / 2,
}
CONDITIONS: dict[str | None, Aggregate] = {
    None: lambda _: True,
    "count(*) > 1": lambda rows: len(rows) > 1,
    "sum(x) >= 0": lambda rows: bool(known(rows, "x")) and sum(known(rows, "x")) >= 0,
    "count(distinct city) = 1 OR max(n) IS NULL": lambda rows: len({*known(rows, "city")}) == 1 or not known(rows, "n"),
}
PARTITIONS: list[Any] = [None, "venue", "n % 2", ("venue", "city"), ("n % 2 AS odd",), ("flag", "venue", "n")]
GROUPS: list[Any] = [None, "venue", "n", "lower(venue) AS low", ("venue", "city"), ("flag", "n"), ("city",)]


def listed(by: Any) -> list[str]:
    return [] if by is None else [by] if isinstance(by, str) else list(by)


def name_of(text: str) -> str:
    return text.split(" AS ")[1] if " AS " in text else text


def shown_keys(query: sb.Query) -> list[str]:
    both = (query.partition_by, query.group_by)
    given = [one for by in both for one in listed(by) if isinstance(by, tuple) or " AS " in one]
    return list(dict.fromkeys(given))


def text_of(value: Any) -> str:
    """Write one of several values so that none can be mistaken for another."""
    if value is None:
        return "\\N"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).replace("\\", "\\\\").replace("|", "\\|")


def key(by: Any, row: Row) -> Any:
    values = [VALUES[one](row) for one in listed(by)]
    return values[0] if len(values) == 1 else "|".join(map(text_of, values)) if values else None


def first(value: Any) -> tuple[bool, Any]:
    """Sort NULL before everything."""
    return value is not None, 0 if value is None else value


def answers(query: sb.Query, rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Answer a query over time windows that all begin at multiples of the slide, row by row."""
    valid = [row for row in rows if row["t"] is not None]
    if query.aggregates:
        valid = [row for row in valid if query.group_by is not None or row["id"] is not None]
    else:
        valid = [row for row in valid if row["id"] is not None and row["x"] is not None and row["x"] == row["x"]]
    if not valid:
        return []
    size, slide = query.window.size, query.window.slide
    begin, last = min(row["t"] for row in valid), max(row["t"] for row in valid)
    found = []
    for start in range(((begin - size) // slide + 1) * slide, last + 1, slide):
        inside = [row for row in valid if start <= row["t"] < start + size]
        ranked = aggregated(query, inside) if query.aggregates else _events(query, inside)
        found.append((start, start + size, ranked))
    return found


def _events(query: sb.Query, inside: Sequence[Row]) -> list[tuple[Any, ...]]:
    columns = [*shown_keys(query), *(one for one in query.select if one not in shown_keys(query))]
    parts: dict[Any, list[Any]] = {}
    for row in inside:
        values = [VALUES[one](row) for one in columns]
        place = (-row["x"], -row["t"], row["id"], [first(value) for value in values])
        parts.setdefault(key(query.partition_by, row), []).append((place, row, values))
    return [
        (number, row["id"], row["x"], row["t"], part, dict(zip(map(name_of, columns), values, strict=True)))
        for part in sorted(parts, key=first)
        for number, (_, row, values) in enumerate(sorted(parts[part], key=lambda one: one[0])[: query.most_rows], 1)
    ]


def aggregated(query: sb.Query, inside: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Return the rows of one window: rank, id, score, time, partition, and what is shown besides."""
    groups: dict[Any, list[Row]] = {}
    for row in inside:
        name = row["id"] if query.group_by is None else key(query.group_by, row)
        groups.setdefault((key(query.partition_by, row), name), []).append(row)
    parts: dict[Any, list[Any]] = {}
    for (part, name), mine in groups.items():
        score = AGGREGATES[query.score](mine)
        if score is None or not CONDITIONS[query.having](mine):
            continue
        latest = max(row["t"] for row in mine)
        shown = {name_of(one): VALUES[one](mine[0]) for one in shown_keys(query)}
        shown |= {name_of(one): AGGREGATES[one.split(" AS ")[0]](mine) for one in query.select}
        parts.setdefault(part, []).append(((-score, -latest, first(name)), name, float(score), latest, shown))
    return [
        (number, name, score, time, part, shown)
        for part in sorted(parts, key=first)
        for number, (_, name, score, time, shown) in enumerate(
            sorted(parts[part], key=lambda one: one[0])[: query.most_rows], 1
        )
    ]


def told(found: Any) -> list[tuple[Any, ...]]:
    """Return what the engine's answers show, in the form of `answers`."""
    return [
        (a.start, a.end, [(r.rank, r.id, r.score, r.time, r.partition, dict(r.values)) for r in a.rows]) for a in found
    ]
