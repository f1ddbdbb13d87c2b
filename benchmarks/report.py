"""The page of a benchmark, written from its figures: ``python -m benchmarks.report RESULTS.csv FOLDER``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import plots
from benchmarks.measure import Row, read_rows
from benchmarks.targets import Target

NOTE = "<!-- Written by benchmarks.report from the raw rows; to change it, run the benchmark. -->"
FIGURES = ("way", "events", "seconds", "M events/s", "ratio", "against")
COLUMNS: dict[str, Callable[[Row], str]] = {
    "way": lambda row: row.way,
    "phase": lambda row: row.way,
    "events": lambda row: f"{row.rows:,}",
    "seconds": lambda row: f"{row.seconds_min:.4f}",
    "median seconds": lambda row: f"{row.seconds_median:.3f}",
    "repeats": lambda row: str(row.repeats),
    "M events/s": lambda row: f"{row.events_per_s / 1e6:,.3g}",
    "ratio": lambda row: "" if row.ratio is None else f"{row.ratio:.2f}",
    "share": lambda row: "" if row.ratio is None else f"{row.ratio:.2%}",
    "against": lambda row: row.baseline,
    "kept": lambda row: f"{row.kept:,}" if row.kept else "",
    "number": lambda row: f"{row.amount:,.0f}" if row.amount is not None else "",
    "micro-batches/s": lambda row: f"{row.amount:,.2f}" if row.amount is not None else "",
    "MB": lambda row: f"{row.amount / 1e6:,.3f}" if row.amount is not None else "",
}

Plot = Callable[[Sequence[Any], Path], None]
Table = tuple[Sequence[str], Iterable[Sequence[str]]]
"""The head and the lines of a table."""


def listing(*columns: str) -> Callable[[Sequence[Row]], Table]:
    """Return what lists rows: the value of the parameter, then these columns; the usual ones where none are named."""
    columns = columns or FIGURES

    def table(rows: Sequence[Row]) -> Table:
        lines = ((row.value, *(COLUMNS[column](row) for column in columns)) for row in rows)
        return (rows[0].parameter, *columns), lines

    return table


@dataclass(frozen=True)
class Section:
    """One section of a page: what it shows, of which rows, as a picture (where there is one) and as a table.

    `curves` are the ways whose cost is followed along the parameter; the page says how steeply each grows.
    """

    title: str
    text: str
    plot: Plot | None
    shows: Callable[[Any], bool]
    table: Callable[[Sequence[Any]], Table] = field(default_factory=listing)
    curves: Sequence[str] = ()


@dataclass(frozen=True)
class Page:
    """What a benchmark's page says beside the figures; its sections are named as their pictures.

    `pictures` is the folder of these, beside the page; `rows` is what the rows are: `Row`, `Cell` or another dataclass.
    """

    file: str
    title: str
    method: str
    run_it: str
    sections: dict[str, Section]
    closing: str
    judge: Callable[[Sequence[Any]], list[Target]]
    pictures: str = "benchmarks"
    rows: type[Any] = Row


def only(*experiments: str) -> Callable[[Any], bool]:
    """Return what picks the rows of some experiments."""
    return lambda row: row.experiment in experiments


def everything(row: Any) -> bool:  # noqa: ARG001 - one signature for all that pick rows
    """Pick any row."""
    return True


def page_of(benchmark: str) -> Page:
    """Return the page of a benchmark."""
    page: Page = import_module(f"benchmarks.{benchmark}.page").PAGE
    return page


def write(csv: Path, docs: Path) -> Path:
    """Write the page of the benchmark that the file is named after, and its plots, into a folder; return the page."""
    page = page_of(csv.stem)
    rows, path = read_rows(csv, page.rows), docs / page.file
    about = json.loads(csv.with_suffix(".json").read_text())
    targets = (target.cells for target in page.judge(rows))
    parts = [
        f"# {page.title}\n\n{NOTE}",
        _warning(about),
        page.method.format(**about),
        _machine(about),
        page.run_it,
        "## Targets\n\n" + _table(("target", "measured", "promised", ""), targets),
        *(_section(name, section, rows, path.parent / page.pictures) for name, section in page.sections.items()),
        page.closing,
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(part.strip() for part in parts if part) + "\n")
    return path


def _warning(about: dict[str, Any]) -> str:
    if about["size"] != "smoke":
        return ""
    return "> **This was a smoke run over little data: it shows that the benchmark works, its figures mean nothing.**"


def _machine(about: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    commit = f" (commit {about['commit']})" if about["commit"] else ""
    return (
        f"## Machine\n\n{about['processor']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']}; "
        f"{about['date']}, seed {about['seed']}, size `{about['size']}`.\n\n{versions}{commit}."
    )


def _section(name: str, section: Section, rows: Sequence[Any], folder: Path) -> str:
    """Draw the section's picture and return its text; empty if nothing was measured for it."""
    shown = [row for row in rows if section.shows(row)]
    if not shown:
        return ""
    parts = [f"## {section.title}", section.text]
    if section.plot is not None:
        path = folder / f"{name}.svg"
        plots.draw(section.plot, shown, path)
        parts.append(f"![{section.title}]({folder.name}/{path.name})")
    if section.curves:
        parts.append(slopes(shown, section.curves))
    return "\n\n".join([*parts, _table(*section.table(shown))])


def slopes(rows: Sequence[Row], ways: Sequence[str]) -> str:
    """Say with which power of the parameter the time per event of some ways grows."""
    found = {way: [row for row in rows if row.way == way] for way in ways}
    powers = {
        way: plots.slope([float(row.value) for row in curve], plots.per_event(curve))
        for way, curve in found.items()
        if len(curve) > 1
    }
    told = ", ".join(f"{power:+.2f} (*{way}*)" for way, power in powers.items())
    return f"Slope of the time per event, both axes logarithmic (0 is flat, 1 proportional): {told}."


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---" for _ in head]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
