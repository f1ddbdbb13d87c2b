"""The published algorithms on Spark: every answer as the core has it, from about as few rows as the default one."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.algorithms import ALGORITHMS
from skyband.spark import start
from skyband.spark.reducers.base import BatchProgress
from skyband.spark.reducers.ranking import RankingReducer
from tests.groups import rankings
from tests.spark.streams import events, sorted_table, stream, write

pytestmark = pytest.mark.spark

DELAY = 60
BY_PANES = [name for name, algorithm in ALGORITHMS.items() if getattr(algorithm, "by_panes", False)]


def said(answers: list[sb.Answer]) -> dict[Any, Any]:
    """Return, by query and window, whether an answer is exact, and its rows."""
    return {
        (a.query, a.start, a.end): (
            a.exact,
            [(r.rank, r.id, r.score, r.time, r.partition, str(r.values)) for r in a.rows],
        )
        for a in answers
    }


class Both:
    """The same batches in two monitors of one algorithm: through Spark, and as they are."""

    def __init__(self, spark: Any, algorithm: str, queries: list[sb.Query], delay: int = DELAY) -> None:
        self.spark, self.delay = spark, delay
        self.read, self.plain = (sb.Monitor(queries, time="t", id="id", algorithm=algorithm) for _ in range(2))
        self.reader: RankingReducer | None = None
        self.readings: list[BatchProgress] = []
        self.answers: tuple[list[sb.Answer], list[sb.Answer]] = ([], [])

    def push(self, table: pa.Table) -> None:
        self.reader = self.reader or RankingReducer(self.read.source, table.schema, self.delay)
        found = self.reader.reduce(self.spark.createDataFrame(table), self.read, BatchProgress())
        self.readings.append(found)
        truth = list(self.plain.push(table))
        assert self.read.newest == self.plain.newest
        ours = [answer for part in found.answers for answer in part] + list(
            self.read.advance(self.read.newest - self.delay)
        )
        self.answers[0].extend(ours)
        self.answers[1].extend([*truth, *self.plain.advance(self.plain.newest - self.delay)])
        for name in ("late", "partly_late", "rejected"):
            assert getattr(self.read.stats(), name) == getattr(self.plain.stats(), name), name
        for group in rankings(self.read):
            group.algorithm.check()

    def finish(self) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Return what each said of every window."""
        self.answers[0].extend(self.read.finish())
        self.answers[1].extend(self.plain.finish())
        return said(self.answers[0]), said(self.answers[1])

    @property
    def rows(self) -> int:
        """How many rows came back."""
        return sum(reading.candidate_rows for reading in self.readings)


LONG, SHORT = (
    sb.Query("long", k=5, score="x", window=sb.Window(20_000, slide=4_000)),
    sb.Query("short", k=10, score="x", window=sb.Window(9_000, slide=2_000)),
)
KINDS = ("random", "ties", "falling", "rising")


def came_back(spark: Any, algorithm: str, kind: str) -> int:
    """Return how many rows came back of a short stream, whose answers are those of the core."""
    rng = np.random.default_rng(KINDS.index(kind))
    both = Both(spark, algorithm, [LONG, SHORT])
    for begin, n in ((0, 3_000), (30_000, 3_000), (56_000, 4_000)):
        both.push(events(rng, n, begin, kind))
    ours, truth = both.finish()
    assert ours == truth
    return both.rows


@pytest.fixture(scope="module")
def by_default() -> dict[str, int]:
    """How many rows come back for the default algorithm, by the kind of the stream."""
    return {}


@pytest.mark.usefixtures("bold")
@pytest.mark.parametrize(("algorithm", "kind"), list(zip(BY_PANES, itertools.cycle(KINDS), strict=False)))
def test_the_answers_of_the_core_from_few_rows(
    spark: Any, by_default: dict[str, int], algorithm: str, kind: str
) -> None:
    if kind not in by_default:
        by_default[kind] = came_back(spark, "staircase", kind)
    assert by_default[kind] < 10_000 * 2 / 3
    assert came_back(spark, algorithm, kind) <= 2 * by_default[kind]


@pytest.mark.usefixtures("bold")
@pytest.mark.parametrize("algorithm", ["mtoplist", "phtree"])
def test_groups_have_thresholds_of_their_own(spark: Any, algorithm: str) -> None:
    rng = np.random.default_rng(7)
    query = sb.Query("q", k=2, score="x", window=sb.Window(20_000, slide=2_000), partition_by="g")
    both = Both(spark, algorithm, [query])
    for batch in range(3):
        both.push(events(rng, 4_000, 40_000 * batch))
    ours, truth = both.finish()
    assert ours == truth
    assert both.readings[2].guessed_thresholds > 10
    assert both.readings[2].candidate_rows < 4_000 / 2


@pytest.mark.usefixtures("bold")
@pytest.mark.parametrize("algorithm", BY_PANES)
def test_what_was_filtered_limits_what_a_later_deeper_query_calls_exact(spark: Any, algorithm: str) -> None:
    """A larger k, and windows that cut through panes, registered in the middle: filtered rows are gone."""
    rng = np.random.default_rng(2)
    first = sb.Query("first", k=2, score="x", window=sb.Window(20_000, slide=4_000))
    both = Both(spark, algorithm, [first], delay=6_000)
    tables = [events(rng, 3_000, 30_000 * batch, "falling") for batch in range(4)]
    later = [
        sb.Query("deeper", k=12, score="x", window=sb.Window(20_000, slide=4_000)),
        sb.Query("across", k=1, score="x", window=sb.Window(7_000, slide=1_000)),
        sb.Query("alike", k=1, score="x", window=sb.Window(8_000, slide=4_000)),
    ]
    for number, table in enumerate(tables):
        if number == 2:
            both.read.register(*later)
            both.plain.register(*later)
        both.push(table)
    ours, _ = both.finish()
    whole, answers = sb.Monitor(later, time="t", id="id", algorithm="naive"), []
    for table in tables:
        answers += [*whole.push(table), *whole.advance(whole.newest - both.delay)]
    truth = said([*answers, *whole.finish()])
    for query in later:
        mine = {key: value for key, value in ours.items() if key[0] == query.name}
        sure = {key for key, (exact, _) in mine.items() if exact}
        wrong = {key for key, (_, rows) in mine.items() if rows != truth[key][1]}
        assert sure, f"{query.name} is never exact"
        assert not sure & wrong, f"{query.name} calls exact what is not"
        assert all(key[1] < min(start for _, start, _ in sure) for key in mine.keys() - sure)
        if query.name != "alike":
            assert wrong, f"of {query.name} nothing is missing: this shows nothing"


# Whole streams, of every algorithm.

DELAYED: dict[str, Any] = {"time": "t", "id": "id", "watermark": DELAY, "trigger": {"availableNow": True}}
STAYS = sb.Query("stays", k=3, score="x", window=sb.Window(2_000, slide=500), select=("g", "y"))
GOES = sb.Query("goes", k=5, score="x", window=sb.Window(1_500, slide=500), select=("g", "y"))
PARTS = sb.Query("parts", k=2, score="x", window=sb.Window(1_000), where="y > 2", partition_by="g", emit="changes")
COMES = sb.Query("comes", k=7, score="x", window=sb.Window(1_800, slide=300), select=("g", "y"))
BEFORE, AFTER = [STAYS, GOES, PARTS], [STAYS, PARTS, COMES]


@pytest.fixture(scope="module")
def history() -> list[pa.Table]:
    """Ties, late rows (some for all of their windows) and rows that lack something."""
    rng = np.random.default_rng(11)
    tables = [events(rng, 400, 4_000 * batch, kind) for batch, kind in enumerate(["random", "ties", "random"])]
    for number in (1, 2):
        late = np.asarray(tables[number]["t"].fill_null(0).to_numpy()).copy()
        late[::40] -= rng.integers(300, 3_000, len(late[::40]))
        tables[number] = tables[number].set_column(0, "t", pa.array(late))
    return tables


def locally(algorithm: str, history: list[pa.Table]) -> pa.Table:
    """Return what the core answers when a query goes and another one comes after the second batch."""
    monitor, parts = sb.Monitor(BEFORE, time="t", id="id", algorithm=algorithm), []
    for number, table in enumerate(history):
        if number == 2:
            monitor.unregister("goes")
            monitor.register(COMES)
        parts += [monitor.push(table), monitor.advance(monitor.newest - DELAY)]
    return sorted_table([part.table(quality=True) for part in parts if len(part)])


class Tables:
    """A sink that keeps its tables."""

    def __init__(self) -> None:
        self.found: dict[int, pa.Table] = {}

    def write(self, answers: pa.Table, batch_id: int, session: Any) -> None:  # noqa: ARG002
        self.found[batch_id] = answers


def by_query(table: pa.Table, columns: list[str]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in table.select(columns).to_pylist():
        found.setdefault(row["query"], []).append(row)
    return found


@pytest.mark.usefixtures("bold")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_stream_with_any_algorithm(spark: Any, tmp_path: Path, algorithm: str, history: list[pa.Table]) -> None:
    """Begin, stop, change the queries, go on: every column is that of the core, and what is called exact is."""
    sink = Tables()
    for queries, numbers in ((BEFORE, (0, 1)), (AFTER, (2,))):
        write(tmp_path / "in", [history[number] for number in numbers], numbers[0])
        handle = start(
            stream(spark, tmp_path / "in"), queries, algorithm=algorithm, checkpoint=tmp_path / "state", sink=sink,
            **DELAYED,
        )  # fmt: skip
        handle.awaitTermination()
    truth = locally(algorithm, history)
    ours = sorted_table([sink.found[batch] for batch in sorted(sink.found)])
    mine, theirs = by_query(ours, truth.column_names), by_query(truth, truth.column_names)
    assert mine.keys() == theirs.keys() == {"stays", "goes", "parts", "comes"}
    for name in ("stays", "goes", "parts"):
        assert mine[name] == theirs[name], name
    if ALGORITHMS[algorithm].exact:
        naive = by_query(locally("naive", history), truth.column_names)
        right = {(row["window_start"], row["rank"]): row for row in naive["comes"]}
        sure = [row for row in mine["comes"] if row["exact"]]
        assert sure, "the query that came is never exact"
        assert all(right[row["window_start"], row["rank"]] | {"exact": True, "why": row["why"]} == row for row in sure)
