"""What is promised of the experiments of the papers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.measure import Cell
from benchmarks.targets import Target

OURS = "staircase"
NOT_IN_A_GRID = ("agreement", "exact", "work")


def leads(rows: Iterable[Cell]) -> Iterator[tuple[float, list[Cell]]]:
    """Yield for each cell of the grids how many times as fast ours is as the fastest published algorithm.

    It comes with the rows of the cell, the fastest published first. Where one took a share of the events, the time per
    event counts.
    """
    cells: dict[tuple[str, str, str, str], list[Cell]] = {}
    for row in rows:
        if row.experiment not in NOT_IN_A_GRID:
            cells.setdefault((row.experiment, row.data_set, row.parameter, row.value), []).append(row)
    for cell in cells.values():
        ours = next(row for row in cell if row.algorithm == OURS)
        others = sorted((row for row in cell if row is not ours), key=lambda row: -row.events_per_s)
        yield ours.events_per_s / others[0].events_per_s, [*others, ours]


def worst_lead(rows: Sequence[Cell]) -> list[Target]:
    """Promise that ours is nowhere behind; the text names the cell where its lead is smallest."""
    found = list(leads(rows))
    if not found:
        return []
    lead, cell = min(found, key=lambda each: each[0])
    best = cell[0]
    place = f"{best.experiment}, {best.parameter} = {best.value} on {best.data_set}: {best.algorithm}"
    text = f"in all {len(found)} cells: speed of {OURS} over that of the best published, the least ({place})"
    return [Target(text, lead, 1.0, at_least=True)]


def general_case(rows: Sequence[Cell]) -> list[Target]:
    """Promise a lead in the general case at its real size, and how long a million events take with fewer queries."""
    real = [row for row in rows if row.experiment == "real"]
    if not real:
        return []
    counts = sorted({int(row.value) for row in real})
    few, many = ([row for row in real if int(row.value) == count] for count in (counts[0], counts[-1]))
    ((lead, (best, *_)),) = leads(many)
    name = f"the general case at its real size, {counts[-1]:,} queries"
    targets = [Target(f"{name}: speed over that of the best published ({best.algorithm})", lead, 5.0, at_least=True)]
    for row in few:
        if row.algorithm in ("phtree", "mtoplist"):
            events = round(row.seconds * row.events_per_s)
            text = f"{row.algorithm}, {events:,} events, {counts[0]:,} queries: seconds"
            targets.append(Target(text, row.seconds, 10.0))
    return targets
