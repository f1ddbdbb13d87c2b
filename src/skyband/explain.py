"""In words: which queries share what, and what each group keeps, and why."""

from __future__ import annotations

from collections.abc import Sequence

from skyband.group import Group
from skyband.panes import Panes
from skyband.query import Query
from skyband.windows import Schedule


def explain(groups: Sequence[Group], algorithm: str) -> str:
    """Describe the groups of a monitor, one paragraph each."""
    count = sum(len(group.queries) for group in groups)
    lines = [
        f"{count} {_plural('query', count)} in {len(groups)} {_plural('group', len(groups))}, algorithm {algorithm!r}"
    ]
    for number, group in enumerate(groups, 1):
        lines += ["", f"group {number}: {group.ranking}"]
        lines += [f"  {_query_line(query)}" for query in group.queries]
        lines.append(f"  {_pane_line(group.schedules, group.ranking.counts)}")
        lines += [f"  {line}" for line in group.algorithm.explain()]
        stats = group.stats()
        lines.append(f"  keeps {stats.kept:,} of {stats.events:,} events now; at most {stats.bound:,}")
    return "\n".join(lines)


def _query_line(query: Query) -> str:
    extras = [f"select {', '.join(query.select)}"] if query.select else []
    extras += [f"emit {query.emit}"] if query.emit != "final" else []
    return f"{query.name}: best {query.k} over {query.window!r}" + "".join(f", {extra}" for extra in extras)


def _pane_line(schedules: Sequence[Schedule], counts: bool) -> str:
    """Say where time is cut, by the cuts of the longest slide."""
    longest = max(schedule.slide for schedule in schedules)
    panes = Panes(schedules)
    panes.cover(0, 20 * longest)
    inside = panes.cuts[(panes.cuts >= 0) & (panes.cuts <= 20 * longest)]
    widths = inside[1:] - inside[:-1]
    unit = "events" if counts else "seconds"
    scale = 1 if counts else 1_000_000
    low, high = widths.min() / scale, widths.max() / scale
    width = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return f"all windows start and end on {_plural('cut', 2)} that make panes of {width} {unit}: one pass serves all"


def _plural(word: str, count: int) -> str:
    if count == 1:
        return word
    return word[:-1] + "ies" if word.endswith("y") else word + "s"
