"""One batch through Spark, thresholds and guesses and all, against the same batch pushed as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from skyband.spark.reducers import groups, guesses, ranking
from skyband.spark.reducers.base import BatchProgress
from skyband.spark.reducers.ranking import RankingReducer
from tests.groups import rankings
from tests.spark.streams import events

pytestmark = pytest.mark.spark

DELAY = 60


def shown(answers: list[sb.Answer]) -> list[Any]:
    return [
        (
            a.query,
            a.start,
            a.end,
            a.exact,
            [(r.rank, r.id, r.score, r.time, r.partition, str(r.values)) for r in a.rows],
        )
        for a in answers
    ]


def both(
    spark: Any, queries: list[sb.Query], tables: list[pa.Table], not_after: int | None = None
) -> list[BatchProgress]:
    """Push tables into one monitor as they are, into another one through Spark; compare all they say."""
    plain, read = (sb.Monitor(queries, time="t", id="id") for _ in range(2))
    reader = RankingReducer(read.source, tables[0].schema, DELAY)
    readings = []
    for table in tables:
        found = reader.reduce(spark.createDataFrame(table), read, BatchProgress(not_after))
        answers = [answer for part in found.answers for answer in part]
        truth = list(plain.push(table, not_after=not_after))
        assert read.newest == plain.newest
        answers += read.advance(read.newest - DELAY)
        truth += plain.advance(plain.newest - DELAY)
        assert shown(answers) == shown(truth)
        for name in ("late", "partly_late", "rejected"):
            assert getattr(read.stats(), name) == getattr(plain.stats(), name), name
        for group in rankings(read):
            group.algorithm.check()
        readings.append(found)
    assert shown(list(read.finish())) == shown(list(plain.finish()))
    return readings


def queries_of(rng: np.random.Generator) -> list[sb.Query]:
    alike: dict[str, Any] = {
        "score": ["x", "x * 2 + y", "-x"][rng.integers(3)],
        "order": ["desc", "asc"][rng.integers(2)],
        "distinct": [None, None, "best", "latest"][rng.integers(4)],
        "partition_by": [None, None, "g"][rng.integers(3)],
        "where": [None, "y > 2"][rng.integers(2)],
    }
    found = []
    for number in range(3):
        size = int(rng.integers(500, 9000))
        window = sb.Window(size, slide=int(rng.integers(100, size)))
        found.append(sb.Query(f"q{number}", k=int(rng.choice([1, 3, 10])), window=window, **alike))
    if rng.integers(2):
        found.append(sb.Query("other", k=3, score="y * y - x", window=sb.Window(1000), select=("y", "g")))
    return found


@pytest.mark.usefixtures("bold")
@pytest.mark.parametrize("seed", range(10))
def test_guesses_never_change_an_answer(spark: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(["random", "rising", "falling", "ties"]))
    tables, start = [], 0
    for _ in range(5):
        n = int(rng.choice([1500, 1500, 1500, 400, 4000]))
        tables.append(events(rng, n, start, kind))
        start += n * 10 - int(rng.choice([0, 0, 0, 5000]))
    both(spark, queries_of(rng), tables)


@pytest.mark.usefixtures("bold")
@pytest.mark.parametrize("seed", range(6))
def test_guesses_never_change_an_answer_with_ties(spark: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = ["ties", "random", "falling"][seed % 3]
    tables = [events(rng, int(rng.choice([1500, 400])), 15_000 * batch, kind) for batch in range(4)]
    for number, table in enumerate(tables):
        tables[number] = table.set_column(2, "x", pc.round(table["x"], 1))
    alike: dict[str, Any] = {
        "ties": ["with", "dense"][seed % 2], "max_ties": [10_000, 12][seed % 2], "score": "x",
        "distinct": [None, None, "best"][rng.integers(3)], "partition_by": [None, "g"][rng.integers(2)],
        "prefer": ["latest", "earliest"][rng.integers(2)], "select": ("y",),
    }  # fmt: skip
    windows = [(1, sb.Window(5_000, slide=1_000)), (10, sb.Window(2_000))]
    both(spark, [sb.Query(f"q{k}", k=k, window=window, **alike) for k, window in windows], tables)


@pytest.mark.usefixtures("bold")
def test_only_what_may_matter_comes_back(spark: Any) -> None:
    rng = np.random.default_rng(1)
    query = sb.Query("q", k=3, score="x", window=sb.Window(20_000, slide=2_000))
    readings = both(spark, [query], [events(rng, 8_000, 80_000 * b) for b in range(5)])
    assert readings[0].scans >= 2, "a first batch is looked at before it is read"
    later = readings[2:]
    assert all(r.guessed_thresholds > 10 for r in later)
    assert all(r.candidate_rows < 8_000 / 4 for r in later)


@pytest.mark.usefixtures("bold")
@pytest.mark.parametrize("few", [0, 64], ids=["joined", "constant"])
@pytest.mark.parametrize("by", ["g", "y", "y * 0.5 - 1", "y > 2"])
def test_thresholds_of_partitions(spark: Any, monkeypatch: pytest.MonkeyPatch, by: str, few: int) -> None:
    monkeypatch.setattr(groups, "FEW_PARTITIONS", few)
    rng = np.random.default_rng(7)
    query = sb.Query("q", k=2, score="x", window=sb.Window(20_000, slide=2_000), partition_by=by)
    readings = both(spark, [query], [events(rng, 8_000, 80_000 * b) for b in range(3)])
    assert readings[2].guessed_thresholds > 10
    assert readings[2].candidate_rows < 8_000 / 2


@pytest.mark.usefixtures("bold")
def test_a_guess_that_is_too_high_is_mended(spark: Any) -> None:
    rng = np.random.default_rng(2)
    tables = [events(rng, 8_000, 80_000 * b) for b in range(3)]
    x = np.asarray(tables[2]["x"].fill_null(0).to_numpy())
    tables[2] = tables[2].set_column(2, "x", pa.array(x - 100.0))  # suddenly all far below what was expected
    query = sb.Query("q", k=3, score="x", window=sb.Window(20_000, slide=2_000))
    readings = both(spark, [query], tables)
    assert readings[2].rereads > 10
    assert readings[2].scans >= 2


@pytest.mark.usefixtures("bold")
def test_a_batch_that_ends_early_or_late_has_its_true_newest_time(spark: Any) -> None:
    rng = np.random.default_rng(3)
    sizes = [4_000, 4_000, 4_000, 1_500, 12_000, 300]
    starts = np.cumsum([0, *sizes[:-1]]) * 10
    tables = [events(rng, n, int(start)) for n, start in zip(sizes, starts, strict=True)]
    query = sb.Query("q", k=2, score="x", window=sb.Window(50_000, slide=25_000))
    both(spark, [query], tables)  # compares the newest times


def test_small_batches_come_back_whole(spark: Any) -> None:
    rng = np.random.default_rng(4)
    query = sb.Query("q", k=3, score="x", window=sb.Window(2_000))
    readings = both(spark, [query], [events(rng, 500, 5_000 * b) for b in range(3)])
    assert [r.candidate_rows for r in readings] == [500] * 3
    assert [r.scans for r in readings] == [2, 1, 1]


def test_count_windows_follow_the_times_within_a_batch(spark: Any) -> None:
    rng = np.random.default_rng(5)
    tables = [events(rng, 400, 4_000 * b).sort_by([("t", "ascending"), ("id", "ascending")]) for b in range(3)]
    query = sb.Query("q", k=3, score="x", window=sb.Window("100 events", slide="30 events"))
    both(spark, [query], tables)


def test_an_empty_batch_is_read(spark: Any) -> None:
    rng = np.random.default_rng(6)
    query = sb.Query("q", k=3, score="x", window=sb.Window(2_000))
    both(spark, [query], [events(rng, 100, 0), events(rng, 100, 0).slice(0, 0), events(rng, 100, 1_000)])


@pytest.mark.usefixtures("bold")
def test_times_beyond_all_windows_are_rejected_and_move_nothing(spark: Any) -> None:
    rng = np.random.default_rng(8)
    query = sb.Query("q", k=3, score="x", window=sb.Window(2_000, slide=500))
    far = [2**61, -(2**61), 2**62, -(2**62), 2**63 - 1, -(2**63)]
    tables = []
    for batch in range(4):
        table = events(rng, 800, batch * 8_000)
        time = table["t"].to_pylist()
        time[::50] = [far[place % len(far)] for place in range(len(time[::50]))]
        tables.append(table.set_column(0, "t", pa.array(time, pa.int64())))
    readings = both(spark, [query], tables)
    assert len(readings) == 4


@pytest.mark.usefixtures("bold")
@pytest.mark.parametrize("distinct", [None, "best", "latest"])
def test_selected_columns_settle_ties_whatever_comes_back(spark: Any, distinct: Any) -> None:
    rng = np.random.default_rng(9)
    common: dict[str, Any] = {"k": 4, "score": "x", "distinct": distinct, "window": sb.Window(3_000, slide=1_000)}
    queries = [sb.Query("y", select=("y",), **common), sb.Query("g", select=("g", "y"), **common)]
    tables = []
    for batch in range(3):
        table = events(rng, 600, batch * 6_000, kind="ties")
        coarse = [None if t is None else t // 500 * 500 for t in table["t"].to_pylist()]
        few = [None if i is None else i % 2 for i in table["id"].to_pylist()]
        table = table.set_column(0, "t", pa.array(coarse, pa.int64())).set_column(1, "id", pa.array(few, pa.int64()))
        tables.append(table)
    both(spark, queries, tables)


# Scores that are too equal for thresholds.


@pytest.fixture
def wary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Spark choose the best of each pane in small batches too."""
    for module in (guesses, ranking):
        monkeypatch.setattr(module, "EVERY", 16)
        monkeypatch.setattr(module, "SMALL", 200)
    monkeypatch.setattr(ranking, "MANY", 400)


def alike(rng: np.random.Generator, n: int, batches: int, score: Any, text: bool) -> list[pa.Table]:
    """Events whose scores, times, ids and selected columns are often equal, some of them late or incomplete."""
    tables = []
    for batch in range(batches):
        table = events(rng, n, 10 * n * batch, disorder=100)
        late = rng.random(n) < 0.01
        time = pa.array(table["t"].fill_null(0).to_numpy() // 40 * 40 - 9_000 * late, mask=rng.random(n) < 0.002)
        ids = rng.integers(0, 6, n)
        x = np.where(rng.random(n) < 0.005, np.nan, score(rng, n))
        tables.append(
            table.set_column(0, "t", time)
            .set_column(1, "id", pa.array([f"é{i}" for i in ids] if text else ids, mask=rng.random(n) < 0.002))
            .set_column(2, "x", pa.array(x, mask=rng.random(n) < 0.002))
            .append_column("z", pa.array(rng.choice([0.5, -1.0, np.nan], n), mask=rng.random(n) < 0.1))
        )
    return tables


SCORES: dict[str, Callable[..., Any]] = {
    "one": lambda _, n: np.ones(n),
    "ratings": lambda rng, n: rng.integers(1, 6, n).astype(float),
    "zeros": lambda rng, n: rng.choice([0.0, -0.0], n),
    "infinite": lambda rng, n: rng.choice([np.inf, -np.inf], n),
}


@pytest.mark.usefixtures("wary")
@pytest.mark.parametrize("score", SCORES)
def test_equal_scores_send_only_the_best_of_each_pane(spark: Any, score: str) -> None:
    n, k, panes = 6_000, 3, 30
    window = sb.Window(8_000, slide=2_000)
    tables = [events(np.random.default_rng(8), n, 10 * n * batch) for batch in range(4)]
    tables = [t.set_column(2, "x", pa.array(SCORES[score](np.random.default_rng(9), n))) for t in tables]
    readings = both(spark, [sb.Query("q", k=k, score="x", window=window, select=("y",))], tables)
    for reading in readings:
        tasks, sample, broken = 2, n / (16 * guesses.THIN), 0.005 * n
        assert reading.contests == 1
        assert reading.candidate_rows <= tasks * panes * k + 2 * sample + 2 * broken
    assert [reading.scans for reading in readings] == [2, 1, 1, 1], "no batch is looked at twice but the first"


@pytest.mark.usefixtures("wary")
@pytest.mark.parametrize("text", [False, True], ids=["integers", "texts"])
@pytest.mark.parametrize(
    "queries",
    [
        [{}],
        [{"order": "asc", "window": sb.Window(7_000, slide=3_000)}],  # panes of unequal width
        [{"distinct": "best"}],
        [{"distinct": "best", "select": ()}],
        [{"partition_by": "g", "k": 2}],
        [{"partition_by": "y > 2", "distinct": "best", "where": "y <> 5"}],
        [{"where": "y > 2"}, {"score": "x * 2"}],  # two contests in one batch
        [{"distinct": "best"}, {"score": "y + 0.0 * t", "distinct": "best"}],
        [{"score": "x", "select": ("y", "z")}, {"score": "x", "k": 2, "select": ("z",)}],  # no one order for both
        [{}, {"distinct": "latest", "k": 1}],  # of which all rows come
        [{"prefer": "earliest"}, {"prefer": "earliest", "distinct": "best", "partition_by": "g"}],
        [{"ties": "with", "max_ties": 5}],
        [{"ties": "with", "max_ties": 5, "distinct": "best", "prefer": "earliest"}],
        [{"ties": "dense", "max_ties": 200, "partition_by": "g", "select": ("y",)}, {"ties": "with"}],
    ],
    ids=repr,
)
def test_equal_scores_change_no_answer(spark: Any, queries: list[dict[str, Any]], text: bool) -> None:
    rng = np.random.default_rng(10)
    usual: dict[str, Any] = {"k": 3, "score": "x", "window": sb.Window(6_000, slide=2_000), "select": ("z", "y")}
    asked = [sb.Query(f"q{number}", **(usual | query)) for number, query in enumerate(queries)]
    readings = both(spark, asked, alike(rng, 4_000, 3, SCORES["ratings"], text))
    assert all(reading.contests for reading in readings)


@pytest.mark.usefixtures("wary")
def test_rows_from_the_far_future_are_not_the_latest(spark: Any) -> None:
    tables = [events(np.random.default_rng(13), 4_000, 40_000 * batch, "ties") for batch in range(3)]
    time = tables[1]["t"].to_numpy(zero_copy_only=False).copy()
    time[::50] += 10**9
    tables[1] = tables[1].set_column(0, "t", pa.array(time, pa.int64(), from_pandas=True))
    query = sb.Query("q", k=3, score="x", window=sb.Window(6_000, slide=2_000))
    readings = both(spark, [query], tables, not_after=10**8)  # compares the newest times
    assert all(reading.contests for reading in readings)


@pytest.mark.usefixtures("wary")
def test_a_query_that_comes_later_knows_what_was_dropped(spark: Any) -> None:
    tables = [events(np.random.default_rng(12), 4_000, 40_000 * batch, "ties") for batch in range(3)]
    first = sb.Query("first", k=3, score="x", window=sb.Window(6_000, slide=2_000))
    later = [
        sb.Query("deeper", k=5, score="x", window=sb.Window(6_000, slide=2_000)),
        sb.Query("finer", k=2, score="x", window=sb.Window(5_000, slide=1_000)),
        sb.Query("longer", k=3, score="x", window=sb.Window(12_000, slide=2_000)),
    ]
    plain, read = (sb.Monitor([first], time="t", id="id") for _ in range(2))
    reader = RankingReducer(read.source, tables[0].schema, DELAY)
    seen: dict[bool, list[Any]] = {True: [], False: []}
    for number, table in enumerate(tables):
        if number == 2:
            plain.register(*later)
            read.register(*later)
        assert reader.reduce(spark.createDataFrame(table), read).contests
        plain.push(table)
        for monitor, found in ((read, seen[True]), (plain, seen[False])):
            found += shown(list(monitor.advance(monitor.newest - DELAY)))
    assert seen[True] == seen[False]
    assert {query: exact for query, _, _, exact, _ in reversed(seen[True])} == {
        "first": True, "deeper": False, "finer": False, "longer": False,
    }  # fmt: skip


@pytest.mark.usefixtures("wary", "bold")
def test_what_is_read_again_is_chosen_too(spark: Any) -> None:
    rng = np.random.default_rng(11)
    tables = [events(rng, 6_000, 60_000 * batch) for batch in range(3)]
    tables[2] = tables[2].set_column(2, "x", pa.array(np.full(6_000, -50.0)))  # equal, and below every guess
    readings = both(spark, [sb.Query("q", k=3, score="x", window=sb.Window(20_000, slide=2_000))], tables)
    assert readings[2].rereads > 10
    assert readings[2].contests == 1
    assert readings[2].candidate_rows < 6_000 / 3


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tasks send hardly anything before it counts as a flood."""
    monkeypatch.setattr(ranking, "MOST_COLLECTED", 32)
    monkeypatch.setattr(ranking, "MANY", 2_500)


def high(table: pa.Table, score: Callable[[np.random.Generator, int], Any]) -> pa.Table:
    """The same events with scores far above all that was expected."""
    return table.set_column(2, "x", pa.array(100.0 + score(np.random.default_rng(1), table.num_rows)))


@pytest.mark.usefixtures("wary")
@pytest.mark.parametrize("score", ["one", "ratings"])
def test_scores_that_become_equal_all_at_once_do_not_flood_the_driver(
    spark: Any, monkeypatch: pytest.MonkeyPatch, score: str
) -> None:
    monkeypatch.setattr(ranking, "MOST_COLLECTED", 1_024)
    monkeypatch.setattr(ranking, "MANY", 2_000)
    n, k, panes, tasks = 16_000, 3, 11, 2
    tables = [events(np.random.default_rng(13 + batch), n, 10 * n * batch) for batch in range(5)]
    tables[3:] = [high(table, SCORES[score]) for table in tables[3:]]
    readings = both(spark, [sb.Query("q", k=k, score="x", window=sb.Window(32_000, slide=16_000))], tables)
    assert [reading.discarded for reading in readings] == [0, 0, 0, readings[3].discarded, 0]
    assert 0 < readings[3].discarded < 0.6 * n
    assert readings[3].candidate_rows <= tasks * panes * k + 0.01 * n
    assert readings[3].scans == 3, "the first pass, a sample, and the best of each pane"
    assert readings[4].scans == 1, "the next batch is expected to be so too"


@pytest.mark.usefixtures("wary")
def test_a_large_batch_after_small_ones_is_not_taken_whole(spark: Any) -> None:
    sizes = [150, 150, 8_000]
    starts = [0, 1_500, 3_000]
    tables = [events(np.random.default_rng(14), n, start) for n, start in zip(sizes, starts, strict=True)]
    readings = both(spark, [sb.Query("q", k=3, score="x", window=sb.Window(8_000, slide=2_000))], tables)
    assert [reading.candidate_rows for reading in readings[:2]] == [150, 150]
    assert 0 < readings[2].discarded < 3 * 1024
    assert readings[2].candidate_rows < 8_000 / 4


@pytest.mark.usefixtures("wary")
def test_tasks_that_send_much_only_together_are_looked_at_too(spark: Any) -> None:
    sizes, most = [150, 150, 1_200], 4 * guesses.SMALL
    assert sizes[2] / 2 < most < sizes[2], "each of two tasks sends fewer; a single one stops"
    starts = [0, 1_500, 3_000]
    tables = [events(np.random.default_rng(15), n, start) for n, start in zip(sizes, starts, strict=True)]
    readings = both(spark, [sb.Query("q", k=3, score="x", window=sb.Window(8_000, slide=2_000))], tables)
    assert [reading.discarded for reading in readings[:2]] == [0, 0]
    assert most < readings[2].discarded <= sizes[2]
    assert readings[2].scans == 3


@pytest.mark.usefixtures("wary", "bold", "strict")
@pytest.mark.parametrize("seed", [0, 1, 3])  # in which there are floods
def test_floods_never_change_an_answer(spark: Any, seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    kinds = [str(kind) for kind in rng.choice(["random", "ties", "rising", "falling"], 4)]
    # Where panes hold hardly more than k events, nearly all rows are expected.
    queries = [
        replace(query, window=sb.Window(20 * query.window.size, slide=20 * query.window.slide))
        for query in queries_of(rng)
    ]
    readings = both(spark, queries, [events(rng, 6_000, 60_000 * b, kind) for b, kind in enumerate(kinds)])
    grouped = any(query.partition_by is not None for query in queries)  # of groups, many rows are expected
    assert grouped or sum(reading.discarded for reading in readings) > 0


@pytest.mark.usefixtures("wary")
def test_rows_alike_in_time_and_id_are_sampled_all_the_same(spark: Any) -> None:
    n, k = 8_000, 3
    table = events(np.random.default_rng(15), n, 0).set_column(0, "t", pa.array(np.arange(n) // 1_000 * 1_000))
    table = table.set_column(1, "id", pa.array(np.full(n, 7))).set_column(2, "x", pa.array(np.ones(n)))
    (reading,) = both(spark, [sb.Query("q", k=k, score="x", window=sb.Window(4_000, slide=1_000))], [table])
    assert reading.contests == 1
    assert reading.candidate_rows <= 8 * k + 1


# More rankings than one filter can hold.


@pytest.mark.usefixtures("bold")
def test_many_rankings_are_reduced_by_the_core(spark: Any) -> None:
    rng = np.random.default_rng(16)
    queries = []
    for i in range(30):
        asked: dict[str, Any] = {
            "k": 1 + i % 3,
            "score": ["x", "x * 2 + y"][i % 2],
            "where": f"y <> {i % 10}" if i % 4 else f"x > {i}",
            "distinct": [None, None, "best"][i % 3],
            "partition_by": [None, "g"][i % 2],
            "select": ("z",) if i % 5 else (),
        }
        queries.append(sb.Query(f"q{i}", window=sb.Window(6_000, slide=2_000), **asked))
    readings = both(spark, queries, alike(rng, 3_000, 3, SCORES["ratings"], text=True), not_after=10**8)
    for reading in readings:
        assert (reading.reduced_by, reading.scans, reading.guessed_thresholds) == ("core", 1, 0)
        assert reading.candidate_rows < 3_000 / 2


@pytest.mark.usefixtures("bold")
def test_the_core_and_the_filter_take_turns(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(17)
    query = sb.Query("q", k=3, score="x * 2 + y", where="y > 1", window=sb.Window(9_000, slide=3_000))
    turns, reduce = iter([20, 0, 0, 20, 20]), RankingReducer.reduce
    ways = []

    def read(self: RankingReducer, *given: Any) -> BatchProgress:
        monkeypatch.setattr(ranking, "MOST_FILTERED", next(turns))
        ways.append(reduce(self, *given))
        return ways[-1]

    monkeypatch.setattr(RankingReducer, "reduce", read)
    both(spark, [query], [events(rng, 2_000, 20_000 * b) for b in range(5)])
    assert [way.reduced_by for way in ways] == ["filter", "core", "core", "filter", "filter"]
    assert [way.scans for way in ways[:4]] == [2, 1, 1, 2], "after the core, a batch is looked at first"
