"""What the terminal shows of a run: a notice while kernels compile, a bar while it goes on, a table at its end."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from numba.core.event import Listener, install_listener
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.status import Status
from rich.table import Table

from skyband.files.job import Report

REFRESH = 0.2
COMPILING = "compiling kernels, first run only …"
STARTING = "starting Spark, which takes some seconds …"


class _Notice(Listener):  # type: ignore[misc]  # numba carries no types
    """Says once that kernels are being compiled, when the first of them is."""

    def __init__(self, status: Status) -> None:
        self.status = status
        self.said = False

    def on_start(self, event: object) -> None:  # noqa: ARG002 - numba's signature
        if not self.said:
            self.said = True
            if not self.status.console.is_terminal:
                self.status.console.print(COMPILING)
            self.status.start()

    def on_end(self, event: object) -> None:
        pass


@contextmanager
def compiling(console: Console) -> Iterator[None]:
    """Show a notice if kernels are compiled in the block: some ten seconds on a fresh machine, never again."""
    status = console.status(COMPILING)
    with install_listener("numba:compile", _Notice(status)):
        try:
            yield
        finally:
            status.stop()


@contextmanager
def starting_spark(console: Console) -> Iterator[None]:
    """Say that Spark starts, as long as it does."""
    if not console.is_terminal:
        console.print(STARTING)
    with console.status(STARTING):
        yield


class Bar(AbstractContextManager["Bar"]):
    """Observes a run with a progress bar on a terminal; draws nothing where there is none, or if `quiet`."""

    def __init__(self, console: Console, quiet: bool) -> None:
        self.console = console
        self.quiet = quiet
        self.shown = console.is_terminal and not quiet
        self.progress = Progress(
            BarColumn(bar_width=20), TaskProgressColumn(), TextColumn("{task.fields[text]}"),
            console=console, transient=True, auto_refresh=False,
        )  # fmt: skip
        self.task = self.progress.add_task("", total=1.0, text="")
        self.began = clock.perf_counter()
        self.drawn = 0.0

    def __exit__(self, *_: object) -> None:
        if self.shown:
            self.progress.stop()

    def starting_spark(self) -> AbstractContextManager[None]:
        """Surround the start of Spark."""
        return starting_spark(self.console) if self.shown else nullcontext()

    @contextmanager
    def warming_up(self) -> Iterator[None]:
        """Surround the first use of the kernels."""
        with nullcontext() if self.quiet else compiling(self.console):
            yield
        if self.shown:  # not before: two live displays do not go together
            self.progress.start()
        self.began = clock.perf_counter()

    def seen(self, report: Report, share: float) -> None:
        """Draw the numbers, a few times a second and at the end."""
        now = clock.perf_counter()
        if not self.shown or (share < 1.0 and now - self.drawn < REFRESH):
            return
        self.drawn = now
        speed = report.rows / max(now - self.began, 1e-9)
        text = (
            f"{short(report.rows)} rows, {short(speed)}/s, {short(report.answers)} answers, "
            f"{short(report.kept)} kept, {short(report.late)} late, {short(report.rejected)} rejected"
        )
        self.progress.update(self.task, completed=share, text=text, refresh=True)


def short(number: float) -> str:
    """Write a number in few characters.

    Examples
    --------
    >>> short(950), short(12_345), short(20_000_000)
    ('950', '12.3k', '20.0M')
    """
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= limit:
            return f"{number / (1e3 if unit == 'k' else limit):.1f}{unit}"
    return f"{number:.0f}"


def summary(report: Report, output: Path | str) -> Table:
    """Return what came of a run as a table of two columns."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    speed = report.rows / max(report.seconds, 1e-9)
    ahead = f", {report.ahead:,} ahead of the clock" if report.ahead else ""
    table.add_row("rows", f"{report.rows:,} in {report.seconds:.2f} s, {speed:,.0f} a second")
    table.add_row("late", f"{report.late:,} missed all their windows, {report.partly_late:,} some")
    table.add_row("rejected", f"{report.rejected:,} without score, time or id{ahead}")
    table.add_row("answers", f"{report.answers:,} windows, {report.written:,} rows written")
    table.add_row("kept", f"{report.kept:,} candidates at most, bound {report.bound:,}")
    table.add_row("output", str(output))
    return table
