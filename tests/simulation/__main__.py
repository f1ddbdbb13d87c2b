"""Play many histories: ``python -m tests.simulation --seeds 10000``.

Seeds are printed as they fail; each failing history is cut down and stored beside the tests, which play it again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import track

from skyband.algorithms import ALGORITHMS
from tests.simulation import joins, runs, subscriptions
from tests.simulation.histories import Can
from tests.simulation.shrink import H

Check = Callable[[int], None]
SPARK = ("spark", "batch", "executors")


def engines(names: list[str]) -> Iterator[tuple[str, int, Check]]:
    """Yield each engine by name, with the share of the seeds that it plays."""
    for algorithm in ALGORITHMS:
        share = 1 if algorithm == "staircase" else 8
        yield f"monitor-{algorithm}", share, ranking(f"monitor-{algorithm}", *runs.monitor(algorithm))
    yield "local-staircase", 4, ranking("local-staircase", *runs.local("staircase"))
    yield "process-staircase", 200, ranking("process-staircase", *runs.monitor("staircase", new_process=True))
    for method in subscriptions.METHODS:
        play = partial(subscriptions.judge, method=method)
        draw, folder = subscriptions.draw, subscriptions.STORED
        name = f"subscriptions-{method}"
        yield name, 2 if method == "blocks" else 8, other(name, draw, play, folder)
    yield "joins", 2, other("joins", joins.draw, joins.judge, joins.STORED)
    if any(name in names for name in SPARK):
        session = _session()
        yield "spark", 100, ranking("spark", *runs.spark(session))
        yield "batch", 50, ranking("batch", *runs.batch(session))
        yield "executors", 400, ranking("executors", *runs.executors(session))
        name = "spark-subscriptions"
        draw, on_spark = partial(subscriptions.draw, on_spark=True), partial(subscriptions.on_spark, session=session)
        yield name, 200, other(name, draw, on_spark, subscriptions.STORED)
        name = "spark-aggregates"
        draw_, play_ = partial(joins.draw, joins=False, on_spark=True), partial(joins.on_spark, session=session)
        yield name, 200, other(name, draw_, play_, joins.STORED)


def ranking(name: str, can: Can, play: runs.Play) -> Check:
    return lambda seed: runs.check(seed, can, play, name)


def other(name: str, draw: Callable[[int], H], play: Callable[[H], None], folder: Path) -> Check:
    return lambda seed: runs.examine(draw(seed), play, name, seed, folder=folder)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many for the default engine; others a share")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--engine", action="append", default=[], help="only engines whose names begin so")
    given = parser.parse_args()
    names = [*given.engine] or ["monitor", "local", "process", "subscriptions", "joins", *SPARK]
    failed = 0
    for engine, share, check in engines(names):
        if not engine.startswith(tuple(names)):
            continue
        seeds = range(given.first, given.first + max(1, given.seeds // share))
        for seed in track(seeds, description=f"{engine:20}"):
            try:
                check(seed)
            except AssertionError as error:
                failed += 1
                print(error, file=sys.stderr)  # noqa: T201
    sys.exit(f"{failed} histories failed" if failed else 0)


def _session() -> Any:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.sparkContext.pythonExec = sys.executable  # executors need the package that is tested
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


if __name__ == "__main__":
    main()
