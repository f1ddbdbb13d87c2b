"""Plots of the figures, as SVG without a background: their greys are legible on light and on dark pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.measure import Row

INK = "#7d8590"
OURS, OTHERS, LIMIT = "#2f81f7", "#9aa4af", "#d9822b"
STYLE = {
    "axes.edgecolor": INK, "axes.labelcolor": INK, "axes.titlecolor": INK, "text.color": INK, "xtick.color": INK,
    "ytick.color": INK, "grid.color": INK, "grid.alpha": 0.25, "axes.grid": True, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "font.size": 10, "legend.frameon": False,
    "svg.hashsalt": "skyband", "axes.titlelocation": "left", "axes.titlesize": 11,
}  # fmt: skip


def draw(plot: Callable[[Sequence[Any], Path], None], rows: Sequence[Any], path: Path) -> None:
    """Draw one plot into a file, in the style that all have."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        plot(rows, path)


@contextmanager
def figure(path: Path, width: float = 7.0, height: float = 3.4, panels: int = 1, rows: int = 1) -> Iterator[Any]:
    """Give axes to draw on, `panels` beside each other in each of some rows, and write what was drawn."""
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    axes = made.subplots(rows, panels)
    yield axes
    metadata = {"Date": None} if path.suffix == ".svg" else None
    made.savefig(path, transparent=True, metadata=metadata)


def per_event(rows: Sequence[Row]) -> list[float]:
    """Return the nanoseconds of an event in each row."""
    return [row.seconds_min * 1e9 / row.rows for row in rows]


def bars(
    axes: Any, names: Sequence[str], values: Sequence[float], labels: Sequence[str], *, log: bool = False,
    ours: bool = False,
) -> None:  # fmt: skip
    """Draw a bar for each name, the first on top, with a label at its end; `ours`: all in our colour."""
    colours = [OURS if name.startswith("skyband") else OTHERS for name in names]
    axes.barh(range(len(names)), values, color=colours, height=0.65)
    if ours:
        for bar in axes.patches:
            bar.set_color(OURS)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    if log:
        axes.set_xscale("log")
    for at, (value, label) in enumerate(zip(values, labels, strict=True)):
        axes.annotate(label, (value, at), xytext=(4, 0), textcoords="offset points", va="center")
    axes.margins(x=0.2)


def limit(axes: Any, value: float, text: str) -> None:
    """Draw a target across horizontal bars."""
    axes.axvline(value, color=LIMIT, linestyle="--", linewidth=1.2)
    axes.annotate(text, (value, 1.0), (4, 4), ("data", "axes fraction"), "offset points", color=LIMIT)


def speeds(rows: Sequence[Row], path: Path, log: bool = True) -> None:
    """Draw how many events a second each way takes in, the fastest on top."""
    ordered = sorted(rows, key=lambda row: -row.events_per_s)
    values = [row.events_per_s / 1e6 for row in ordered]
    with figure(path, 7.0, 0.9 + 0.36 * len(ordered)) as axes:
        bars(axes, [row.way for row in ordered], values, [f"{speed:,.3g}" for speed in values], log=log)
        axes.set_xlabel("million events a second")
        if log:
            axes.xaxis.set_major_formatter("{x:,.4g}")


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the exponent of the power of `x` that `y` follows best: the slope of a line through the logarithms.

    Examples
    --------
    >>> [round(slope([10, 100, 1_000], y), 2) for y in ([2, 4, 8], [1, 10, 100], [8, 4, 2])]
    [0.3, 1.0, -0.3]
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def log_log(axes: Any, x: str, y: str) -> None:
    """Make both axes logarithmic, with plain numbers."""
    axes.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,.4g}")
    axes.yaxis.set_minor_formatter("")
    axes.grid(which="minor", alpha=0.1)
