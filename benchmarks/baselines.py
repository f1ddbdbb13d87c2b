"""Ways to answer top-k queries: what is compared. Here ours and NumPy's; the peers have files of their own.

A *way* takes events (an Arrow table, or Parquet files) and queries, and returns a job that answers all of them.
What a way may prepare before it is timed is stated with it. A job returns our `Answers`, or for each query a table
of `window` (number w: the window starts at w slides), `id` and `score`; `tidy` brings both into one form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from benchmarks import machine
from benchmarks.measure import Job, Row, Timing, timed
from benchmarks.workloads import COLUMNS
from skyband.answers.answer import Answers
from skyband.engine.monitor import Monitor
from skyband.engine.run import run
from skyband.errors import SkybandError
from skyband.files import stream as files
from skyband.order import IntArray
from skyband.queries.query import Query

Source: TypeAlias = "pa.Table | Sequence[Path]"
Way = Callable[[Any, Sequence[Query]], Job]


def skyband(source: Source, queries: Sequence[Query], algorithm: str = "staircase") -> Job:
    """Answer with `skyband.run`, from registering the queries to the last answer, with all columns made."""
    refer = by_reference(source, queries, algorithm)
    return lambda: _with_columns(refer())


def by_reference(source: Source, queries: Sequence[Query], algorithm: str = "staircase") -> Job:
    """Answer with `skyband.run`, and leave the rows of answers as references to events that several answers share."""

    def job() -> list[Answers]:
        events = source if isinstance(source, pa.Table) else files.read(source, COLUMNS)
        return list(run(queries, events, time="time", id="id", algorithm=algorithm).parts())

    return job


def as_table(source: Source, queries: Sequence[Query]) -> Job:
    """Answer with `skyband.run`, and make one Arrow table of each part: with names, windows and ranks for every row."""
    refer = by_reference(source, queries)

    def job() -> list[Answers]:
        parts: list[Answers] = refer()
        assert all(part.table().num_rows == part.rows for part in parts)
        return parts

    return job


def _with_columns(parts: list[Answers]) -> list[Answers]:
    """Make the ids, scores and times of all rows, as every peer does: they are made when first asked for."""
    for answers in parts:
        for block in answers.blocks:
            assert len(block.id) == len(block.score) == len(block.time)
            assert block.partition is None or len(block.partition) == len(block.id)
    return parts


def naive(source: pa.Table, queries: Sequence[Query]) -> Job:
    """Answer with our own baseline, which keeps the whole window and sorts it for every answer."""
    return skyband(source, queries, "naive")


def closed_windows(source: pa.Table, queries: Sequence[Query]) -> Job:
    """Answer only the windows that end within the stream: their number does not depend on their size."""
    last = int(source["time"][-1].as_py())

    def job() -> list[Answers]:
        monitor = Monitor(queries, time="time", id="id")
        return _with_columns([monitor.push(source), monitor.advance(last)])

    return job


def in_batches(source: pa.Table, queries: Sequence[Query], rows: int) -> Job:
    """Push so many events at once, and answer after each batch the windows that have ended by then."""
    batches = source.to_batches(max_chunksize=rows)

    def job() -> list[Answers]:
        monitor = Monitor(queries, time="time", id="id", time_unit="us")
        parts = []
        for batch in batches:
            parts += [monitor.push(batch), monitor.advance(batch["time"][-1].as_py())]
        return _with_columns(parts)

    return job


def numpy_pass(source: pa.Table, queries: Sequence[Query]) -> Job:
    """Pass once over the scores: compare all with one threshold, compress what is above.

    The threshold lets through as many as the best `k` of all panes together: no exact way can do with less.
    """
    score = source["score"].to_numpy()
    panes = int(source["time"][-1].as_py()) // queries[0].window.slide + 1
    keep = min(len(score), panes * queries[0].most_rows)
    bar = np.partition(score, len(score) - keep)[len(score) - keep]
    return lambda: np.flatnonzero(score > bar)


ONLY_READING = "only reading"
"""The name of the physical limit: no way to answer can be faster than memory gives the columns."""


def only_reading(source: pa.Table, queries: Sequence[Query] = ()) -> Job:  # noqa: ARG001 - it only reads
    """Read all columns once from memory, on all cores, and do nothing with them."""
    pieces = [piece for column in source.columns for piece in np.array_split(column.to_numpy(), 8 * machine.cores())]

    def job() -> float:
        with ThreadPoolExecutor(machine.cores()) as pool:
            return sum(float(most) for most in pool.map(np.max, pieces))

    return job


def numpy_loop(source: pa.Table, queries: Sequence[Query]) -> Job:
    """Cut out each window by binary search, partition its scores, sort the best `k`."""
    time, ids, score = (source[name].to_numpy() for name in COLUMNS)

    def best(low: int, high: int, k: int) -> IntArray:
        part = score[low:high]
        rows = np.argpartition(part, len(part) - k)[len(part) - k :] if k < len(part) else np.arange(len(part))
        return low + rows[np.argsort(part[rows])[::-1]]

    def job() -> dict[str, pa.Table]:
        found = {}
        for query in queries:
            windows, low, high = window_rows(query, time)
            rows = [best(low[i], high[i], query.most_rows) for i in range(len(windows))]
            number = np.repeat(windows, [len(part) for part in rows])
            flat = np.concatenate(rows)
            found[query.name] = pa.table({"window": number, "id": ids[flat], "score": score[flat]})
        return found

    return job


def pyarrow_files(source: Sequence[Path], queries: Sequence[Query]) -> Job:  # noqa: ARG001 - it only reads
    """Read the three columns with PyArrow, file by file, and do nothing with them."""
    return lambda: sum(pq.read_table(path, columns=COLUMNS).num_rows for path in source)


def pyarrow_dataset(source: Sequence[Path], queries: Sequence[Query]) -> Job:  # noqa: ARG001 - it only reads
    """Read the three columns with PyArrow's data set scanner, batch by batch, and do nothing with them."""
    dataset = pyarrow.dataset.dataset([str(path) for path in source])
    return lambda: sum(batch.num_rows for batch in dataset.to_batches(columns=COLUMNS))


def window_numbers(query: Query, first: int, last: int) -> IntArray:
    """Return the numbers of the windows that hold events from `first` to `last`.

    Examples
    --------
    >>> from skyband.queries.query import Query, Window
    >>> window_numbers(Query("q", k=1, score="x", window=Window(25, slide=10)), 0, 31)
    array([-2, -1,  0,  1,  2,  3])
    """
    size, slide = query.window.size, query.window.slide
    return np.arange((first - size) // slide + 1, last // slide + 1)


def window_rows(query: Query, time: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the numbers of all windows and where the events of each begin and end in a sorted time column."""
    windows = window_numbers(query, int(time[0]), int(time[-1]))
    start = windows * query.window.slide
    return windows, np.searchsorted(time, start), np.searchsorted(time, start + query.window.size)


def tidy(found: Sequence[Answers] | Mapping[str, Any], queries: Sequence[Query]) -> pa.Table:
    """Return what a job found as one table of query, window start and id, sorted: equal for all that agree."""
    if isinstance(found, Mapping):
        parts = [_peer_ids(query, pa.table(found[query.name])) for query in queries]
    else:
        parts = [_our_ids(block) for answers in found for block in answers.blocks]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    table = pa.table(dict(zip(("query", "start", "id"), columns, strict=True)))
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


def _peer_ids(query: Query, table: pa.Table) -> tuple[Any, Any, Any]:
    start = table["window"].to_numpy() * query.window.slide
    return np.full(len(start), query.name), start, table["id"].to_numpy()


def _our_ids(block: Any) -> tuple[Any, Any, Any]:
    sizes = np.diff(block.offsets)
    names = np.array(block.names)[block.query]
    return np.repeat(names, sizes), np.repeat(block.start, sizes), block.id


class DisagreementError(SkybandError):
    """Two ways of answering gave different answers: one of them is wrong, and timing it would be pointless."""


def check(task: str, named: Mapping[str, Way], source: Any, queries: Sequence[Query], rows: int) -> Iterator[Row]:
    """Let every way answer, refuse any that disagrees, and say how long each took."""
    for name, timing in agreed(task, named, source, queries):
        yield row(timing, "agreement", "task", task, name, rows)


def agreed(task: str, named: Mapping[str, Way], source: Any, queries: Sequence[Query]) -> Iterator[tuple[str, Timing]]:
    """Let every way answer, and refuse any that does not find the same ids for the same windows as the first."""
    wanted: tuple[str, pa.Table] | None = None
    for name, way in named.items():
        seconds, result = timed(way(source, queries))
        found = tidy(result, queries)
        wanted = wanted or (name, found)
        if not found.equals(wanted[1]):
            msg = (
                f"{task}: {name} and {wanted[0]} give different answers ({found.num_rows} and {wanted[1].num_rows} "
                "rows); no time is measured until they agree: correct the one that is wrong"
            )
            raise DisagreementError(msg)
        yield name, Timing([seconds], result)


def row(timing: Timing, experiment: str, parameter: str, value: object, way: str, rows: int) -> Row:
    """Return the row of a timing, with the size of what the way returned."""
    found = timing.result
    if isinstance(found, Mapping):
        size: dict[str, Any] = {"answer_rows": sum(len(table) for table in found.values())}
    elif isinstance(found, list):
        size = {"answers": sum(map(len, found)), "answer_rows": sum(part.rows for part in found)}
    else:
        size = {}
    return timing.row(experiment, parameter, value, way, rows, **size)
