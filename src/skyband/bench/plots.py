"""Plots of the figures, as SVG without a background: their greys are legible on light and on dark pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from skyband.bench.core import LONG_SPAN
from skyband.bench.measure import Row
from skyband.bench.targets import expected_kept, in_window

INK = "#7d8590"
OURS, OTHERS, LIMIT = "#2f81f7", "#9aa4af", "#d9822b"
STYLE = {
    "axes.edgecolor": INK, "axes.labelcolor": INK, "axes.titlecolor": INK, "text.color": INK, "xtick.color": INK,
    "ytick.color": INK, "grid.color": INK, "grid.alpha": 0.25, "axes.grid": True, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "font.size": 10, "legend.frameon": False,
    "svg.hashsalt": "skyband", "axes.titlelocation": "left", "axes.titlesize": 11,
}  # fmt: skip


def draw(rows: Sequence[Row], folder: Path, suffix: str = ".svg") -> list[Path]:
    """Draw every plot that the rows tell about; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, plot in PLOTS.items():
        if any(row.experiment == EXPERIMENT_OF.get(name, name) for row in rows):
            path = folder / f"{name}{suffix}"
            with mpl.rc_context(STYLE):
                plot(rows, path)
            paths.append(path)
    return paths


@contextmanager
def _figure(path: Path, width: float = 7.0, height: float = 3.4, panels: int = 1) -> Iterator[Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, panels)
    yield axes
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, transparent=True, metadata=metadata)


def _of(rows: Sequence[Row], experiment: str) -> list[Row]:
    return [row for row in rows if row.experiment == experiment]


def _per_event(rows: Sequence[Row]) -> list[float]:
    return [row.seconds_min * 1e9 / row.rows for row in rows]


def _bars(axes: Any, names: Sequence[str], values: Sequence[float], labels: Sequence[str], log: bool = False) -> None:
    colours = [OURS if name.startswith("skyband") else OTHERS for name in names]
    axes.barh(range(len(names)), values, color=colours, height=0.65)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    if log:
        axes.set_xscale("log")
    for at, (value, label) in enumerate(zip(values, labels, strict=True)):
        axes.annotate(label, (value, at), xytext=(4, 0), textcoords="offset points", va="center")
    axes.margins(x=0.2)


def plot_pass(rows: Sequence[Row], path: Path) -> None:
    """How many NumPy passes one query costs, by the kind of scores."""
    found = [row for row in _of(rows, "pass") if row.way == "skyband"]
    with _figure(path) as axes:
        ratios = [row.ratio or 0.0 for row in found]
        _bars(axes, [row.value for row in found], ratios, [f"{ratio:.1f}" for ratio in ratios])
        for bar in axes.patches:
            bar.set_color(OURS)
        axes.axvline(4.0, color=LIMIT, linestyle="--", linewidth=1.2)
        axes.annotate("target for uniform", (4.0, 1.0), (4, 4), ("data", "axes fraction"), "offset points", color=LIMIT)
        axes.set_xlabel("time of one query / time of one NumPy compare-and-compress pass")


def plot_window(rows: Sequence[Row], path: Path) -> None:
    """Time and kept candidates by the size of the window."""
    found = _of(rows, "window")
    sizes = [int(row.value) for row in found]
    with _figure(path, 9.0, 3.4, 2) as (left, right):
        left.plot(sizes, _per_event(found), "o-", color=OURS)
        left.set(title="Time per event", ylabel="ns", ylim=(0, None))
        right.plot(sizes, [row.kept or 0 for row in found], "o-", color=OURS, label="kept at most")
        theory = [expected_kept(in_window(row, LONG_SPAN)) for row in found]
        right.plot(sizes, theory, "--", color=OTHERS, label="k ln(n/k) + k")
        right.plot(sizes, [1.2 * value for value in theory], ":", color=LIMIT, label="target: 1.2 times that")
        right.set(title="Kept candidates", ylim=(0, None))
        right.legend()
        for axes in (left, right):
            _seconds(axes, sizes)


def _seconds(axes: Any, sizes: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes[::2], [f"{size:,}" for size in sizes[::2]])
    axes.set_xlabel("window in seconds")


def plot_order(rows: Sequence[Row], path: Path) -> None:
    """Time per event by the size of the window, in random and in falling order."""
    with _figure(path, 6.0) as axes:
        sizes: list[int] = []
        for way, colour in (("skyband, uniform", OURS), ("skyband, falling", LIMIT)):
            found = [row for row in _of(rows, "order") if row.way == way]
            sizes = [int(row.value) for row in found]
            name = way.removeprefix("skyband, ").replace("uniform", "random") + " order"
            axes.plot(sizes, _per_event(found), "o-", color=colour, label=name)
        axes.set(ylabel="ns per event", yscale="log")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.legend()
        _seconds(axes, sizes)


def plot_queries(rows: Sequence[Row], path: Path) -> None:
    """Time by the number of queries, against one query."""
    with _figure(path, 6.0) as axes:
        for way, colour in (("skyband, k up to 100", OURS), ("skyband, k up to 1,000", OTHERS)):
            found = [row for row in _of(rows, "queries") if row.way == way]
            counts, ratios = [int(row.value) for row in found], [row.ratio or 0.0 for row in found]
            axes.plot(counts, ratios, "o-", color=colour, label=way.removeprefix("skyband, "))
        axes.axhline(5.0, color=LIMIT, linestyle="--", linewidth=1.2, label="target for 1,000 queries, k up to 100")
        _log_log(axes, "queries", "time / time of one query")
        axes.legend()


def plot_k(rows: Sequence[Row], path: Path) -> None:
    """Time per event by k."""
    found = _of(rows, "k")
    with _figure(path, 6.0) as axes:
        axes.plot([int(row.value) for row in found], _per_event(found), "o-", color=OURS)
        _log_log(axes, "k", "ns per event")


def _log_log(axes: Any, x: str, y: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,.4g}")
    axes.yaxis.set_minor_formatter("")
    axes.grid(which="minor", alpha=0.1)


def plot_peers(rows: Sequence[Row], path: Path) -> None:
    """Speed of every way, one query."""
    found = [row for row in _of(rows, "peers") if row.value != "many queries"]
    kept = [row for row in found if row.way != "skyband" or row.value == "one query"]
    kept.sort(key=lambda row: -row.events_per_s)
    _speeds(kept, path)


def plot_many(rows: Sequence[Row], path: Path) -> None:
    """Seconds of every way, a hundred queries."""
    found = sorted((row for row in _of(rows, "peers") if row.value == "many queries"), key=lambda row: row.seconds_min)
    with _figure(path, 7.0, 0.9 + 0.36 * len(found)) as axes:
        seconds = [row.seconds_min for row in found]
        _bars(axes, [row.way for row in found], seconds, [f"{value:.2f} s" for value in seconds])
        axes.set_xlabel("seconds")


def plot_parquet(rows: Sequence[Row], path: Path) -> None:
    """Speed of every way over Parquet files."""
    _speeds(sorted(_of(rows, "parquet"), key=lambda row: -row.events_per_s), path, log=False)


def _speeds(rows: Sequence[Row], path: Path, log: bool = True) -> None:
    speeds = [row.events_per_s / 1e6 for row in rows]
    with _figure(path, 7.0, 0.9 + 0.36 * len(rows)) as axes:
        _bars(axes, [row.way for row in rows], speeds, [f"{speed:,.3g}" for speed in speeds], log)
        axes.set_xlabel("million events a second")
        if log:
            axes.xaxis.set_major_formatter("{x:,.4g}")


PLOTS: dict[str, Callable[[Sequence[Row], Path], None]] = {
    "pass": plot_pass,
    "window": plot_window,
    "order": plot_order,
    "queries": plot_queries,
    "k": plot_k,
    "parquet": plot_parquet,
    "peers": plot_peers,
    "many": plot_many,
}
EXPERIMENT_OF = {"many": "peers"}
