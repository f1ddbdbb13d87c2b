"""Play many histories: ``python -m tests.simulation --seeds 10000``.

Seeds are printed as they fail; each failing history is cut down and stored beside the tests, which play it again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from rich.progress import track

from skyband.algorithms import ALGORITHMS
from tests.simulation import runs
from tests.simulation.histories import Can


def engines(names: list[str]) -> Iterator[tuple[str, int, Can, runs.Play]]:
    """Yield each engine by name, with the share of the seeds that it plays."""
    for algorithm in ALGORITHMS:
        yield f"monitor-{algorithm}", 1 if algorithm == "staircase" else 8, *runs.monitor(algorithm)
    yield "local-staircase", 4, *runs.local("staircase")
    yield "process-staircase", 200, *runs.monitor("staircase", new_process=True)
    if any(name in names for name in ("spark", "batch")):
        session = _session()
        yield "spark", 100, *runs.spark(session)
        yield "batch", 50, *runs.batch(session)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many for the default engine; others a share")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--engine", action="append", default=[], help="only engines whose names begin so")
    given = parser.parse_args()
    names = [*given.engine] or ["monitor", "local", "process", "spark", "batch"]
    failed = 0
    for engine, share, can, play in engines(names):
        if not engine.startswith(tuple(names)):
            continue
        seeds = range(given.first, given.first + max(1, given.seeds // share))
        for seed in track(seeds, description=f"{engine:20}"):
            try:
                runs.check(seed, can, play, engine)
            except AssertionError as error:
                failed += 1
                print(error, file=sys.stderr)  # noqa: T201
    sys.exit(f"{failed} histories failed" if failed else 0)


def _session() -> Any:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


if __name__ == "__main__":
    main()
