"""Leaderboards for the terminal: one panel a query, with ranks, movements and bars, and the numbers below."""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from skyband.answers.answer import Answer
from skyband.answers.standings import Standing
from skyband.cli.progress import short
from skyband.files.job import Report
from skyband.queries.query import Query
from skyband.serve.streams import AnswerView
from skyband.times import Moment

NARROWEST = 40
FEWEST_ROWS = 6
FOOTER = 4
_BLOCKS = " ▏▎▍▌▋▊▉█"
_COLOURS = {"n": "yellow", "▲": "green", "▼": "red"}  # by the first sign of a movement
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class QueryStanding(Standing):
    """How one query stands; `why` says why its answer is not exact."""

    def __init__(self, query: Query) -> None:
        super().__init__(query.ranks_ids)
        self.query = query
        self.why: str | None = None

    @property
    def height(self) -> int:
        """How many rows the panel needs; a set has no fixed number, and of ties the first are enough."""
        if self.query.ties is not None:
            return self.query.most_rows
        return max(0 if self.query.is_set else self.query.most_rows, len(self.rows))


class Board:
    """Several queries' standings, side by side."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self.standings = {query.name: QueryStanding(query) for query in queries}
        self.report = Report()
        self.watermark: Moment | None = None
        self.began = clock.perf_counter()
        self.seconds = 0.0

    def add(self, query: Query) -> None:
        """Make room for one more query."""
        self.standings[query.name] = QueryStanding(query)

    def update(self, answers: Iterable[Answer | AnswerView]) -> None:
        """Take over answers."""
        for answer in answers:
            self.standings[answer.query].update(answer.rows, answer.end)
            self.standings[answer.query].why = answer.why

    def note(self, report: Report, watermark: Moment | None) -> None:
        """Take over the numbers; the report's seconds are those that the engine was busy."""
        self.report, self.watermark = report, watermark
        self.seconds = clock.perf_counter() - self.began

    def render(self, width: int, height: int | None = None) -> RenderableType:
        """Draw as many panels as fit; without a height, all of them with all their rows."""
        across = max(1, min(3, width // NARROWEST))
        standings = list(self.standings.values())
        rows = max(1, *(standing.height for standing in standings))
        if height is not None:
            down = max(1, min(-(-len(standings) // across), (height - FOOTER) // (FEWEST_ROWS + 2)))
            standings = standings[: across * down]
            rows = max(1, min(rows, (height - FOOTER) // down - 2))
        panels = [_panel(standing, width // across, rows) for standing in standings]
        lines = [
            Columns(panels[at : at + across], padding=0, width=width // across) for at in range(0, len(panels), across)
        ]
        return Group(*lines, self._footer(len(self.standings) - len(standings)))

    def _footer(self, hidden: int) -> Text:
        report, seconds = self.report, max(self.seconds, 1e-9)
        busy = min(1.0, report.seconds / seconds)
        lines = [
            f"{report.rows:,} trades, {short(report.rows / seconds)}/s, engine busy {busy:.0%} of the time",
            f"watermark {_clock(self.watermark)}, {report.answers:,} answers"
            + (f", {hidden} more queries need a larger window" if hidden else ""),
            f"{short(report.kept)} candidates kept, bound {short(report.bound)}; "
            f"{report.late:,} late, {report.partly_late:,} partly, {report.rejected:,} rejected",
        ]
        return Text("\n".join(f" {line}" for line in lines), style="dim", no_wrap=True, overflow="ellipsis")


def _panel(standing: QueryStanding, width: int, rows: int) -> Panel:
    shown = standing.rows[:rows]
    named = any(row.partition is not None for row in shown)
    bar = max(0, width - 4 - (35 if named else 31))
    table = Table.grid(padding=(0, 1, 0, 0))
    for justify in ("right", "left", "left", "right", "left", "left"):
        table.add_column(justify=justify, no_wrap=True)
    most = max((abs(row.score) for row in shown), default=0.0)
    for row in shown:
        move = standing.movement(row)
        table.add_row(
            "" if row.rank is None else f"{row.partition} {row.rank}" if named else f"{row.rank:2}",
            Text(f"{move:3}", style=_COLOURS.get(move[:1], "")),
            Text(f"{row.id!s:5.5}", style="bold"),
            f"{_score(row.score):>8}",
            Text(_bar(abs(row.score) / most if most else 0.0, bar), style="cyan"),
            Text(_clock(row.time), style="dim"),
        )
    return Panel(
        table, title=standing.query.name, title_align="left", subtitle=_until(standing), subtitle_align="right",
        width=width, height=rows + 2, border_style="dim",
    )  # fmt: skip


def _bar(share: float, width: int) -> str:
    """Draw a bar in eighths of a character.

    Examples
    --------
    >>> _bar(0.5, 5)
    '██▌  '
    """
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_BLOCKS[rest] if rest else "")).ljust(width)


def _score(score: float) -> str:
    """Write a score in at most eight characters.

    Examples
    --------
    >>> _score(1_234_567.0), _score(-4.211), _score(12_345.6)
    ('1.23M', '-4.21', '12.3k')
    """
    size = abs(score)
    if size >= 1e6:
        return f"{score / 1e6:.2f}M"
    return f"{score / 1e3:.1f}k" if size >= 1e4 else f"{score:.2f}"


def _until(standing: QueryStanding) -> str | None:
    if standing.end is None:
        return None
    end = f"to event {standing.end:,}" if isinstance(standing.end, int) else f"to {_clock(standing.end)}"
    return f"{standing.why}, {end}" if standing.why else end


def _clock(moment: Moment | None) -> str:
    if moment is None:
        return "–"
    return (_EPOCH + timedelta(microseconds=moment) if isinstance(moment, int) else moment).strftime("%H:%M:%S")
