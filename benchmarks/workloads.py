"""What the benchmarks run on: event streams and queries, made from a seed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skyband.order import FloatArray
from skyband.queries.query import Query
from skyband.windows import Window

SECOND = 1_000_000
SEED = 20_261_115
COLUMNS = ["time", "id", "score"]
FILES = 20

_Generator = np.random.Generator
SCORES: dict[str, Callable[[_Generator, int], FloatArray]] = {
    "uniform": lambda rng, n: rng.random(n),
    "normal": lambda rng, n: rng.standard_normal(n),
    "heavy-tailed": lambda rng, n: rng.pareto(1.5, n),
    "trending": lambda rng, n: rng.standard_normal(n) + np.linspace(0.0, 3.0, n),
    "rising": lambda rng, n: np.arange(n, dtype=np.float64),  # noqa: ARG005 - one signature for all
    "falling": lambda rng, n: -np.arange(n, dtype=np.float64),  # noqa: ARG005
    "constant": lambda rng, n: np.ones(n),  # noqa: ARG005
}


def events(rows: int, rate: float, scores: str = "uniform") -> pa.Table:
    """Return a stream in order of time: `rows` events, `rate` of them a second, with ids that never repeat.

    Parameters
    ----------
    rows, rate
        How many events, and how many of them in a second of event time.
    scores
        How the scores are drawn, a key of `SCORES`.

    Examples
    --------
    >>> events(3, rate=10_000, scores="rising").to_pydict()
    {'time': [0, 100, 200], 'id': [0, 1, 2], 'score': [0.0, 1.0, 2.0]}
    """
    step = round(SECOND / rate)
    row = np.arange(rows, dtype=np.int64)
    score = SCORES[scores](np.random.default_rng(SEED), rows)
    return pa.table({"time": row * step, "id": row, "score": score})


def one_query(size: int = 600, slide: int = 10, k: int = 100) -> list[Query]:
    """Return the one query of most experiments, in whole seconds.

    Examples
    --------
    >>> one_query()[0].window
    Window('10 minutes', slide='10 seconds')
    """
    window = Window(size * SECOND, slide=slide * SECOND)
    return [Query("one", k=k, score="score", window=window)]


def many_queries(count: int, k: tuple[int, int], grain: int = 1) -> list[Query]:
    """Return random queries: sizes of 100 to 1,000 s, slides of 10 to 100 s, all multiples of `grain` seconds.

    Examples
    --------
    >>> group = many_queries(50, (10, 20), grain=10)
    >>> all(10 <= q.k <= 20 and q.window.size % (10 * SECOND) == 0 for q in group)
    True
    """
    rng = np.random.default_rng(SEED)

    def draw(low: int, high: int) -> Any:
        return rng.integers(low // grain, high // grain, count, endpoint=True) * grain * SECOND

    sizes, slides = draw(100, 1000), draw(10, 100)
    ks = rng.integers(*k, count, endpoint=True)
    return [
        Query(f"q{i}", k=int(ks[i]), score="score", window=Window(int(sizes[i]), slide=int(slides[i])))
        for i in range(count)
    ]


def write_parquet(table: pa.Table, folder: Path, files: int = FILES) -> list[Path]:
    """Cut a table into Parquet files (Snappy, PyArrow's defaults) in a folder; files that fit are left as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = -(-table.num_rows // files)
    paths = [folder / f"events-{table.num_rows}-{i:02}.parquet" for i in range(files)]
    for i, path in enumerate(paths):
        if not path.exists():
            pq.write_table(table.slice(i * rows, rows), path)
    return paths
