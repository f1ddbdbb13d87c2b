"""The demo: leaderboards over a made-up market, live in the terminal."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from rich.console import Console
from rich.live import Live

from skyband import algorithms
from skyband.cli.board import Board
from skyband.cli.market import SCHEMA, Market, TradeFiles
from skyband.cli.progress import compiling, starting_spark
from skyband.engine.monitor import Monitor
from skyband.engine.schema import answer_schema, fit_table
from skyband.events.batch import StreamColumns
from skyband.files.job import Report
from skyband.files.writers import check, outputs
from skyband.queries.query import Query
from skyband.windows import Window

SPEED = 30.0  # event time passes so much faster than ours
DELAY = 5  # seconds by which trades may be late
SOURCE = StreamColumns("ts", "symbol")
_WINDOW = Window("3 minutes", slide="10 seconds")
TIMED = (
    Query("biggest trades", k=10, score="price * volume", window=_WINDOW, select=("venue",)),
    Query("sharpest moves, %", k=10, score="100 * abs(price / previous - 1)", window=_WINDOW, distinct="best"),
    Query("winners now, %", k=10, score="100 * (price / open - 1)", window=_WINDOW, distinct="latest"),
    Query("losers now, %", k=10, score="100 * (price / open - 1)", window=_WINDOW, distinct="latest", order="asc"),
    Query("biggest by venue", k=2, score="price * volume", window=_WINDOW, partition_by="venue"),
)
COUNTED = Query(
    "most shares of 100,000 trades", k=10, score="volume", window=Window("100000 events", slide="25000 events")
)
COLUMNS = "ts TIMESTAMP, symbol STRING, venue STRING, price DOUBLE, previous DOUBLE, open DOUBLE, volume BIGINT"
JOINING = Query("most shares, joined live", k=10, score="volume", window=Window("1 minute", slide="10 seconds"))


def run_demo(
    console: Console, *, seconds: float, output: Path | None, seed: int, fast: bool, overwrite: bool, engine: str
) -> None:
    """Show the leaderboards for some seconds, then the last of them; without a terminal, only the last.

    Event time passes 30 times faster. The output gets the answers of the time windows. `fast` does not wait for the
    clock.
    """
    if output is not None:
        check(output, overwrite)
    market, wait = Market(seed), console.is_terminal and not fast
    with ExitStack() as stack, outputs() as opened:
        with compiling(console):
            warm_up(seed)
        if engine == "local":
            show: _LocalShow | _SparkShow = _LocalShow(market)
        else:
            with starting_spark(console):
                show = _SparkShow(market, wait, stack)
        with _live(console, show.board) as draw:
            for done in _ticks(seconds, show.tick, wait):
                show.step(done)
                draw()
            show.end(draw)
        if output is not None:
            columns = answer_schema([*TIMED, JOINING], SOURCE, algorithms.find("staircase"), SCHEMA)
            kept = opened.open(output, columns)
            for table in show.answers():
                kept.write(fit_table(table, columns))
    console.print(show.board.render(console.width))
    if output is not None:
        console.print(f" {kept.rows:,} rows of answers in {output}", style="dim")


def warm_up(seed: int) -> None:
    """Answer a little of everything once, so that all kernels are there when the clock starts."""
    monitor, market = Monitor([*TIMED, COUNTED], time=SOURCE.time, id=SOURCE.id), Market(seed, rate=200.0)
    for _ in range(3):
        monitor.push(market.next(20.0))
        monitor.advance(monitor.newest - DELAY * 1_000_000)
    monitor.finish()


class _LocalShow:
    """A monitor takes the trades in."""

    tick = 0.1  # seconds between two updates of the board

    def __init__(self, market: Market) -> None:
        self.market, self.board = market, Board([*TIMED, COUNTED])
        self.monitor = Monitor([*TIMED, COUNTED], time=SOURCE.time, id=SOURCE.id)
        self.report = Report()
        self.tables: list[pa.Table] = []

    def step(self, _: float) -> None:
        """Let one tick pass in the market."""
        monitor, board = self.monitor, self.board
        board.update(monitor.push(self.market.next(self.tick * SPEED)))
        answers = monitor.advance(monitor.newest - DELAY * 1_000_000)
        board.update(answers)
        if len(answers):
            self.tables.append(answers.table(quality=True))
        stats = monitor.stats()
        self.report.note(stats)
        self.report.seconds = stats.push_seconds + stats.answer_seconds
        board.note(self.report, monitor.watermark)

    def end(self, draw: Callable[[], None]) -> None:
        """All trades have been read already."""

    def answers(self) -> Iterable[pa.Table]:
        """Return all answers of time windows."""
        return self.tables


class _SparkShow:
    """The trades go into files, a stream reads them, and halfway one more query joins it."""

    tick = 0.25

    def __init__(self, market: Market, wait: bool, stack: ExitStack) -> None:
        from skyband.serve.spark_stream import SparkStream
        from skyband.spark.job import BatchTotals
        from skyband.spark.session import session
        from skyband.spark.sinks import Files
        from skyband.spark.start import start

        self.market, self.board, self.wait, self.totals = market, Board(TIMED), wait, BatchTotals()
        self.folder = Path(stack.enter_context(TemporaryDirectory(prefix="skyband-")))
        self.files = TradeFiles(self.folder)
        frame = stack.enter_context(session()).readStream.schema(COLUMNS).parquet(str(self.files.trades))
        self.handle = start(
            frame, TIMED, time=SOURCE.time, id=SOURCE.id, watermark=f"{DELAY} seconds",
            sink=Files(self.folder / "answers"), checkpoint=self.folder / "checkpoint", max_ahead=None,
        )  # fmt: skip
        self.stream = SparkStream(self.handle)
        stack.callback(self.stream.close)
        self._trade()
        self.end(lambda: None)  # the first batch takes longest

    def step(self, done: float) -> None:
        """Let one tick pass in the market; `done` is the share of all ticks that have passed."""
        self._trade()
        if done >= 0.5 and JOINING.name not in self.board.standings:
            if not self.wait:
                self.end(lambda: None)  # or it might join when all is over
            self.handle.register(JOINING)
            self.board.add(JOINING)
        self._look()

    def _trade(self) -> None:
        """Write the trades of one tick."""
        self.files.write(self.market.next(self.tick * SPEED))

    def _look(self) -> None:
        """Show what is new since the last look."""
        if (found := self.stream.poll()) is not None:
            self.totals.note(self.handle)
            self.board.update(found.answers)
            self.board.note(self.totals.report, found.stats.watermark)

    def end(self, draw: Callable[[], None]) -> None:
        """Wait until all trades have been read, and draw meanwhile."""
        from skyband.spark.job import catch_up

        def look() -> None:
            self._look()
            draw()

        catch_up(self.handle, look)
        look()

    def answers(self) -> Iterable[pa.Table]:
        """Return all answers."""
        from skyband.spark.job import kept

        return kept(self.folder / "answers")


def _ticks(seconds: float, tick: float, wait: bool) -> Iterator[float]:
    """Yield the share of all ticks that have passed, when its time has come; a slow machine sees fewer of them."""
    began, count = clock.perf_counter(), max(1, round(seconds / tick))
    for number in range(count):
        yield number / count
        if wait:
            clock.sleep(max(0.0, began + (number + 1) * tick - clock.perf_counter()))
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
