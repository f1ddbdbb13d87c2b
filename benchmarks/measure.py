"""How it is measured: ways side by side, round by round, and one row of figures for each."""

from __future__ import annotations

import csv
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from math import inf
from pathlib import Path
from typing import Any, get_type_hints

Job = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """One measured figure.

    `ratio` is the seconds of this row over those of `baseline`, a way or a value of the same experiment. `kept` is
    the most candidates kept at any time; `answers` and `answer_rows` say what came out; `amount` is what is counted
    where it is not seconds that matter, such as bytes. None: not measured.
    """

    experiment: str
    parameter: str
    value: str
    way: str
    rows: int
    seconds_min: float
    seconds_median: float
    repeats: int
    events_per_s: float
    ratio: float | None = None
    baseline: str = ""
    kept: int | None = None
    answers: int | None = None
    answer_rows: int | None = None
    amount: float | None = None


@dataclass(frozen=True)
class Cell:
    """One cell of a paper's grid: an algorithm on a data set, with one value of a parameter.

    `seconds` are those of the fastest run, and `events_per_s` is over the events of that run, which may be a share of
    the stream where an algorithm is slow. `kept_candidates` is the most kept after any batch.
    """

    experiment: str
    data_set: str
    parameter: str
    value: str
    algorithm: str
    seconds: float
    events_per_s: float
    kept_candidates: int
    answers: int

    @property
    def per_event(self) -> float:
        """The microseconds of an event."""
        return 1e6 / self.events_per_s


@dataclass(frozen=True)
class Timing:
    """The seconds of all rounds of one way, and what it returned."""

    seconds: Sequence[float]
    result: Any = None

    @property
    def best(self) -> float:
        """The fastest round: what the machine can do when nothing disturbs it."""
        return min(self.seconds)

    def row(self, experiment: str, parameter: str, value: object, way: str, rows: int, **more: Any) -> Row:
        """Return the row of this timing."""
        return Row(
            experiment, parameter, str(value), way, rows, self.best, statistics.median(self.seconds),
            len(self.seconds), rows / self.best if self.best else inf, **more,
        )  # fmt: skip


@dataclass(frozen=True)
class Patience:
    """How often to repeat: until `seconds` are spent on a way, but from `least` to `most` times."""

    seconds: float = 1.5
    least: int = 1
    most: int = 15

    def rounds(self, once: float) -> int:
        """Return how many rounds a way gets that takes so long.

        Examples
        --------
        >>> [Patience().rounds(once) for once in (0.01, 0.3, 1.0, 20.0)]
        [15, 5, 3, 1]
        """
        if once > 2 * self.seconds:
            return self.least
        return max(self.least, 3, min(self.most, int(self.seconds / once)))

    def wants_more(self, seconds: Sequence[float]) -> bool:
        """Tell whether a way whose rounds took so long so far gets another one.

        Examples
        --------
        >>> [Patience(1.0, most=3).wants_more(rounds) for rounds in ([0.4], [0.4, 0.7], [0.1] * 3)]
        [True, False, False]
        """
        return sum(seconds) < self.seconds and len(seconds) < self.most


def side_by_side(jobs: Mapping[str, Job], patience: Patience) -> dict[str, Timing]:
    """Time jobs in turn (A B A B ...), so that what disturbs the machine hits all of them alike.

    Each runs once before, untimed but for choosing how often to repeat it: compiled code is loaded, memory is
    mapped, files are in the page cache. The result of that run is kept; it is timed only where no round follows.

    Examples
    --------
    >>> timings = side_by_side({"a": lambda: 1, "b": lambda: 2}, Patience(most=3))
    >>> [(name, t.result, len(t.seconds)) for name, t in timings.items()]
    [('a', 1, 3), ('b', 2, 3)]
    """
    results: dict[str, Any] = {}
    rounds: dict[str, int] = {}
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    with little_garbage():
        for name, job in jobs.items():
            once, results[name] = timed(job)
            if once < patience.seconds:  # else compiling was a small part of it, and once more would take too long
                once, results[name] = timed(job)
            rounds[name] = patience.rounds(once)
            if rounds[name] == 0:
                seconds[name].append(once)
        for turn in range(max(rounds.values())):
            for name, job in jobs.items():
                if turn < rounds[name]:
                    seconds[name].append(timed(job)[0])
    return {name: Timing(seconds[name], results[name]) for name in jobs}


@contextmanager
def little_garbage() -> Iterator[None]:
    """Keep what is there now out of garbage collections: modules alone take longer than many jobs."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def timed(job: Job) -> tuple[float, Any]:
    """Return the seconds of a job and its result."""
    gc.collect()
    began = time.perf_counter()
    result = job()
    return time.perf_counter() - began, result


def write_rows(rows: Sequence[Any], path: Path) -> None:
    """Write rows as CSV, without the columns that are empty in all of them."""
    lines = [asdict(row) for row in rows]
    names = [field.name for field in fields(rows[0]) if any(line[field.name] is not None for line in lines)]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def read_rows(path: Path, kind: type[Any] = Row) -> list[Any]:
    """Read rows of a kind, `Row`, `Cell` or another dataclass, back from CSV."""
    kinds = get_type_hints(kind)
    with path.open(newline="") as file:
        return [
            kind(**{name: _value(text, kinds[name]) for name, text in line.items()}) for line in csv.DictReader(file)
        ]


def _value(text: str, kind: Any) -> Any:
    if kind is str:
        return text
    if text == "":
        return None
    if kind == str | None:
        return text
    return int(text) if kind in (int, int | None) else float(text)
