"""What the pages of the experiments with remote data have in common: colours of policies, lines over a parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.plots import OURS

GAIN = "AT-GAIN"
STYLES = {
    "WST": ("#9aa4af", "x"), "WSJ-RND": ("#b08d57", "P"), "WSJ-LRU": ("#57a773", "^"), "WSJ-WBM": ("#3fa7a0", "v"),
    "AT-TSM": ("#d1603d", ">"), "AT-BSM": ("#8a63d2", "s"), "AT-ASM": ("#7d8590", "*"), "AT-LRU": ("#a8c256", "<"),
    "AT-WBM": ("#5fb3ce", "D"), "Filter Update": ("#d1603d", ">"), "WSJ-RND.F": ("#e0a458", "P"),
    "WSJ-LRU.F": ("#8a63d2", "s"), "WSJ-WBM.F": ("#c2559d", "D"), GAIN: (OURS, "o"),
    "AT-GAIN.order": (OURS, "2"), "AT-GAIN.set": (OURS, "1"),
}  # fmt: skip
DASHES = {"WST": ":", "AT-ASM": ":", "AT-GAIN.order": "--", "AT-GAIN.set": "-."}


def each(values: Iterable[Any]) -> list[Any]:
    """Return every value once, in the order in which they come."""
    return list(dict.fromkeys(values))


def line(axes: Any, policy: str, x: Sequence[float], y: Sequence[float], low: Any = None, high: Any = None) -> None:
    """Draw one policy's line; with bars from `low` to `high` where they are given."""
    colour, marker = STYLES[policy]
    ours = policy == GAIN
    bars = None if low is None else np.array([np.subtract(y, low), np.subtract(high, y)])
    axes.errorbar(
        x, y, bars, color=colour, marker=marker, label=policy, linewidth=2.2 if ours else 1.2,
        markersize=6 if ours else 4, elinewidth=0.8, zorder=3 if ours else 2,
        linestyle=DASHES.get(policy, "-"),
    )  # fmt: skip


def over(
    axes: Any, rows: Sequence[Any], x: Callable[[Any], float], y: Callable[[Any], float], spread: tuple[float, float]
) -> None:
    """Draw for each policy the median over all draws, with a bar from one percentile to another."""
    for policy in each(row.policy for row in rows):
        mine = [row for row in rows if row.policy == policy]
        values = sorted({x(row) for row in mine})
        found = [[y(row) for row in mine if x(row) == value] for value in values]
        low, middle, high = (np.array([np.percentile(f, at) for f in found]) for at in (spread[0], 50.0, spread[1]))
        line(axes, policy, values, middle.tolist(), low, high)


def legend(axes: Any) -> None:
    """Name the policies, to the right of some axes."""
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
