"""The demo: leaderboards over a made-up market, live in the terminal."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live

from skyband.files.job import answer_schema, fit
from skyband.files.writers import Output, check, outputs
from skyband.monitor import Monitor
from skyband.query import Query, Window
from skyband.rows import Source
from skyband.terminal.board import Board
from skyband.terminal.progress import compiling
from skyband.terminal.trades import SCHEMA, Market

TICK = 0.1
SPEED = 30.0  # event time passes so much faster than ours
DELAY = 5_000_000
SOURCE = Source("ts", "symbol")
_WINDOW = Window("3 minutes", slide="10 seconds")
QUERIES = (
    Query("biggest trades", k=10, score="price * volume", window=_WINDOW, select=("venue",)),
    Query("sharpest moves, %", k=10, score="100 * abs(price / previous - 1)", window=_WINDOW, distinct="best"),
    Query("winners now, %", k=10, score="100 * (price / open - 1)", window=_WINDOW, distinct="latest"),
    Query("losers now, %", k=10, score="100 * (price / open - 1)", window=_WINDOW, distinct="latest", order="asc"),
    Query("biggest by venue", k=2, score="price * volume", window=_WINDOW, partition_by="venue"),
    Query("most shares of 100,000 trades", k=10, score="volume", window=Window("100000 events", slide="25000 events")),
)
TIMED = tuple(query for query in QUERIES if not query.window.counts)


def run_demo(
    console: Console, *, seconds: float, output: Path | None, seed: int, fast: bool, overwrite: bool = False
) -> None:
    """Show the leaderboards for some seconds, then the last of them and what it took.

    Parameters
    ----------
    console
        Where to show them; if it is no terminal, only the end is shown.
    seconds
        How long the market is watched; event time passes 30 times faster.
    output
        Keeps the answers of the time windows.
    seed
        Of the market.
    fast
        Do not wait for the clock.
    overwrite
        Replace an output that exists.
    """
    if output is not None:
        check(output, overwrite)
    with compiling(console):
        _warm_up(seed)
    monitor = _monitor()
    board = Board(QUERIES)
    with outputs() as opened:
        kept = None
        if output is not None:
            kept = opened.open(output, answer_schema(TIMED, SOURCE, monitor.algorithm, SCHEMA))
        market = Market(seed)
        with _live(console, board) as draw:
            for _ in _ticks(seconds, console.is_terminal and not fast):
                _step(monitor, market, board, kept)
                draw()
    console.print(board.render(console.width))
    if kept is not None:
        console.print(f" {kept.rows:,} rows of answers in {output}", style="dim")


def _monitor() -> Monitor:
    return Monitor(QUERIES, time=SOURCE.time, id=SOURCE.id)


def _warm_up(seed: int) -> None:
    """Answer a little of everything once, so that all kernels are there when the clock starts."""
    monitor, market = _monitor(), Market(seed, rate=200.0)
    for _ in range(3):
        monitor.push(market.next(20.0))
        monitor.advance(monitor.newest - DELAY)
    monitor.finish()


def _step(monitor: Monitor, market: Market, board: Board, kept: Output | None) -> None:
    """Let one tick pass in the market."""
    board.update(monitor.push(market.next(TICK * SPEED)))
    answers = monitor.advance(monitor.newest - DELAY)
    board.update(answers)
    if kept is not None and len(answers):
        kept.write(fit(answers, kept.schema))
    board.note(monitor.stats(), monitor.watermark)


def _ticks(seconds: float, wait: bool) -> Iterator[int]:
    """Count ticks, each when its time has come; a machine that cannot keep up sees fewer of them."""
    began = clock.perf_counter()
    for tick in range(max(1, round(seconds / TICK))):
        yield tick
        if wait:
            clock.sleep(max(0.0, began + (tick + 1) * TICK - clock.perf_counter()))
            if clock.perf_counter() - began > seconds:
                return


@contextmanager
def _live(console: Console, board: Board) -> Iterator[Callable[[], None]]:
    """Give a function that draws the board; it does nothing where there is no terminal."""
    if not console.is_terminal:
        yield lambda: None
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield lambda: live.update(board.render(console.width, console.height), refresh=True)
