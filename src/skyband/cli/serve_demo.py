"""The demo in a browser: a made-up market, now."""

from __future__ import annotations

import math
import threading
import time as clock
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from rich.console import Console

from skyband.cli.demo import COLUMNS, SOURCE, TIMED, warm_up
from skyband.cli.market import SCHEMA, Market, TradeFiles
from skyband.cli.progress import compiling, starting_spark
from skyband.queries.join import Join
from skyband.queries.query import Query
from skyband.serve.local_stream import LocalStream
from skyband.serve.spark_stream import Recorder, SparkStream
from skyband.serve.streams import ServedStream
from skyband.windows import Window

DELAY = 2  # seconds by which trades may be late
TICK = 0.5
RATE = 2_000.0
WINDOW = Window("1 minute", slide="2 seconds")
WATCHED = Query(
    "talk of the town", k=10, score="watchers * abs(price / open - 1)", window=WINDOW,
    join=Join("watchers", budget=8, default=0),
)  # fmt: skip
"""Joined with a service that knows how many people watch a symbol, and may be asked for eight symbols an answer."""
_STREAM_ONLY = [replace(query, window=WINDOW) for query in TIMED]
QUERIES = (*_STREAM_ONLY[:2], WATCHED, *_STREAM_ONLY[2:])


@contextmanager
def market(engine: str, seed: int, console: Console) -> Iterator[ServedStream]:
    """Run a stream of a market's trades, as long as the block lasts."""
    with compiling(console):
        warm_up(seed)
    with ExitStack() as stack:
        stopping = threading.Event()
        if engine == "local":
            served: ServedStream = LocalStream(
                QUERIES, _trades(seed, stopping), schema=SCHEMA, source=SOURCE,
                delay=DELAY * 1_000_000, services={"watchers": watchers}, max_ahead=None, stopping=stopping,
            )  # fmt: skip
        else:
            served = _on_spark(seed, stopping, stack, console)
        stack.callback(served.close)
        stack.callback(stopping.set)
        yield served


def _trades(seed: int, stopping: threading.Event) -> Iterator[pa.RecordBatch]:
    """Yield the trades of each tick when it has passed."""
    began = clock.time()
    open_market = Market(seed, rate=RATE, opening=int(began * 1_000_000))
    while not stopping.wait(max(0.0, began + open_market.now + TICK - clock.time())):
        yield open_market.next(TICK)


def watchers(symbols: Sequence[Any]) -> dict[Any, float]:
    """Tell how many people watch each symbol just now: some thousands, and another number every moment."""
    now = clock.time()
    return {symbol: round(2000 + 1500 * math.sin(now / 20 + zlib.crc32(str(symbol).encode()))) for symbol in symbols}


def _on_spark(seed: int, stopping: threading.Event, stack: ExitStack, console: Console) -> ServedStream:
    """Write the trades into files, and let a stream read them."""
    from skyband.spark.session import session
    from skyband.spark.start import start

    folder = Path(stack.enter_context(TemporaryDirectory(prefix="skyband-")))
    files = TradeFiles(folder)
    with starting_spark(console):
        spark = stack.enter_context(session())
    reader = spark.readStream.schema(COLUMNS).option("cleanSource", "delete")
    recorder = Recorder()
    handle = start(
        reader.parquet(str(files.trades)), QUERIES, time=SOURCE.time, id=SOURCE.id, watermark=f"{DELAY} seconds",
        sink=recorder, checkpoint=folder / "checkpoint", services={"watchers": watchers}, max_ahead=None,
    )  # fmt: skip
    writing = threading.Thread(target=_write, args=(_trades(seed, stopping), files), daemon=True)
    stack.callback(writing.join)
    writing.start()
    return SparkStream(handle, recorder)


def _write(batches: Iterator[pa.RecordBatch], files: TradeFiles) -> None:
    for batch in batches:
        files.write(batch)
