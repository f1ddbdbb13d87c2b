"""A stream's leaderboards where its handle is used: live in a notebook, once and as text elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from skyband.answers.answer import Row
from skyband.answers.standings import Standing
from skyband.queries.query import Query

if TYPE_CHECKING:
    from skyband.spark.control import Control

_STYLE = {
    "table": "border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 0 2em 1em 0",
    "cell": "padding: 1px 8px; text-align: left",
    "number": "padding: 1px 8px; text-align: right",
    "bar": "height: 0.6em; min-width: 1px; background: #e8590c; border-radius: 3px",
}


class Board:
    """The latest answers of some queries of a stream (of all where none is named), and what moved since last time."""

    def __init__(self, control: Control, names: Sequence[str] = (), rows: int = 10) -> None:
        self.control, self.names, self.most = control, names, rows
        self._standings: dict[str, Standing] = {}

    def look(self) -> list[tuple[dict[str, Any], list[Row], Standing]]:
        """Return each query's entry, its first rows, and how it stands."""
        table, found = self.control.answers(), []
        listed: dict[str, list[Row]] = {}
        for row in table.to_pylist():
            listed.setdefault(row["query"], []).append(Row.of(row))
        for entry in self.control.queries:
            name, end = entry["name"], entry.get("latest", {}).get("window_end", "")
            if self.names and name not in self.names:
                continue
            rows = listed.get(name, []) if entry.get("latest", {}).get("rows") else []
            if name not in self._standings:
                self._standings[name] = Standing(Query.from_dict(entry["query"]).ranks_ids)
            self._standings[name].update(rows, end)
            found.append((entry, rows[: self.most], self._standings[name]))
        return found

    def html(self) -> str:
        """Draw the tables for a notebook; nothing of a stream's text is taken as HTML."""
        parts = [_html(*one) for one in self.look()]
        return f'<div style="display: flex; flex-wrap: wrap">{"".join(parts)}</div>'

    def text(self) -> str:
        """Write the tables as text."""
        return "\n\n".join(_text(*one) for one in self.look()) or "no queries yet"


def _title(entry: dict[str, Any]) -> str:
    latest = entry.get("latest")
    if latest is None:
        return f"{entry['name']} ({entry.get('error') or entry['state']})"
    why = "" if latest["exact"] else f", {latest['why'] or 'not exact'}"
    return f"{entry['name']}, to {latest['window_end'].replace('+00:00', '')}{why}"


def _rank(row: Row) -> str:
    return "" if row.rank is None else str(row.rank)


def _html(entry: dict[str, Any], rows: Sequence[Row], standing: Standing) -> str:
    most = max((abs(row.score) for row in rows), default=0.0)
    lines = []
    for row in rows:
        share = abs(row.score) / most if 0 < most < float("inf") else 0.0
        group = "" if row.partition is None else f'<td style="{_STYLE["cell"]}">{escape(str(row.partition))}</td>'
        bar = f'<div style="{_STYLE["bar"]}; width: {5 * share:.2f}em"></div>'
        lines.append(
            f'<tr>{group}<td style="{_STYLE["number"]}">{_rank(row)}</td>'
            f'<td style="{_STYLE["cell"]}">{standing.movement(row)}</td>'
            f'<td style="{_STYLE["cell"]}"><b>{escape(str(row.id))}</b></td>'
            f'<td style="{_STYLE["number"]}">{row.score:,.6g}</td><td style="{_STYLE["cell"]}">{bar}</td></tr>'
        )
    caption = f'<caption style="text-align: left">{escape(_title(entry))}</caption>'
    return f'<table style="{_STYLE["table"]}">{caption}{"".join(lines)}</table>'


def _text(entry: dict[str, Any], rows: Sequence[Row], standing: Standing) -> str:
    lines = [_title(entry)]
    for row in rows:
        group = "" if row.partition is None else f"{row.partition!s:8} "
        lines.append(f"  {group}{_rank(row):>3} {standing.movement(row):4} {row.id!s:20} {row.score:>14,.6g}")
    return "\n".join(lines)


class Shown:
    """Leaderboards that follow a stream in a notebook, until it ends or `stop` is called."""

    def __init__(self, board: Board, every: float, display: Any, html: Any) -> None:
        self._board, self._every = board, every
        self._html, self._drawn = html, board.html()
        self._output = display(html(self._drawn), display_id=True)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="skyband-show", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._stopping.wait(self._every):
            last = not self._board.control.is_running
            if (drawn := self._board.html()) != self._drawn:
                self._drawn = drawn
                self._output.update(self._html(drawn))
            if last:
                return

    def stop(self) -> None:
        """Leave the tables as they are."""
        self._stopping.set()
        self._thread.join()

    def _ipython_display_(self) -> None:
        """Show nothing more when a cell ends with this."""


def show(board: Board, every: float) -> Shown | None:
    """Show leaderboards, live in a notebook; elsewhere print them once."""
    python = sys.modules.get("IPython")
    shell = python.get_ipython() if python is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        print(board.text())  # noqa: T201 - what it is for
        return None
    from IPython.display import HTML, display

    return Shown(board, every, display, HTML)
