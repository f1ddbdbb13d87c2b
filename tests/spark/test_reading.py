"""One batch through Spark, thresholds and guesses and all, against the same batch pushed as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.spark.reducers import guesses, ranking, thresholds
from skyband.spark.reducers.ranking import RankingReducer
from tests.spark.streams import events

pytestmark = pytest.mark.spark

DELAY = 60


@pytest.fixture
def bold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guess in small batches too, from few rows and hardly above k: guesses fail often, and must be mended."""
    for module in (guesses, ranking):
        monkeypatch.setattr(module, "EVERY", 8)
        monkeypatch.setattr(module, "SMALL", 200)
    monkeypatch.setattr(guesses, "FEW", 2)
    monkeypatch.setattr(thresholds, "wanted", lambda k: k + 1)


def shown(answers: list[sb.Answer]) -> list[Any]:
    return [
        (a.query, a.start, a.end, a.exact, [(r.rank, r.id, r.score, r.time, r.partition, r.values) for r in a.rows])
        for a in answers
    ]


def both(spark: Any, queries: list[sb.Query], tables: list[pa.Table]) -> list[ranking.BatchProgress]:
    """Push tables into one monitor as they are, into another one through Spark; compare all they say."""
    plain, read = (sb.Monitor(queries, time="t", id="id") for _ in range(2))
    reader = RankingReducer(read.source, tables[0].schema, DELAY)
    readings = []
    for table in tables:
        found = reader.read(spark.createDataFrame(table), read)
        answers = [answer for part in found.answers for answer in part]
        truth = list(plain.push(table))
        assert read.newest == plain.newest
        answers += read.advance(read.newest - DELAY)
        truth += plain.advance(plain.newest - DELAY)
        assert shown(answers) == shown(truth)
        for name in ("late", "partly_late", "rejected"):
            assert getattr(read.stats(), name) == getattr(plain.stats(), name), name
        for group in read.groups:
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
def test_only_what_may_matter_comes_back(spark: Any) -> None:
    rng = np.random.default_rng(1)
    query = sb.Query("q", k=3, score="x", window=sb.Window(20_000, slide=2_000))
    readings = both(spark, [query], [events(rng, 8_000, 80_000 * b) for b in range(5)])
    assert readings[0].passes >= 2, "a first batch is looked at before it is read"
    later = readings[2:]
    assert all(r.guesses > 10 for r in later)
    assert all(r.shipped < 8_000 / 4 for r in later)


@pytest.mark.usefixtures("bold")
@pytest.mark.parametrize("few", [0, 64], ids=["joined", "constant"])
@pytest.mark.parametrize("by", ["g", "y", "y * 0.5 - 1", "y > 2"])
def test_thresholds_of_partitions(spark: Any, monkeypatch: pytest.MonkeyPatch, by: str, few: int) -> None:
    monkeypatch.setattr(thresholds, "FEW_PARTITIONS", few)
    rng = np.random.default_rng(7)
    query = sb.Query("q", k=2, score="x", window=sb.Window(20_000, slide=2_000), partition_by=by)
    readings = both(spark, [query], [events(rng, 8_000, 80_000 * b) for b in range(3)])
    assert readings[2].guesses > 10
    assert readings[2].shipped < 8_000 / 2


@pytest.mark.usefixtures("bold")
def test_a_guess_that_is_too_high_is_mended(spark: Any) -> None:
    rng = np.random.default_rng(2)
    tables = [events(rng, 8_000, 80_000 * b) for b in range(3)]
    x = np.asarray(tables[2]["x"].fill_null(0).to_numpy())
    tables[2] = tables[2].set_column(2, "x", pa.array(x - 100.0))  # suddenly all far below what was expected
    query = sb.Query("q", k=3, score="x", window=sb.Window(20_000, slide=2_000))
    readings = both(spark, [query], tables)
    assert readings[2].re_reads > 10
    assert readings[2].passes >= 2


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
    assert [r.shipped for r in readings] == [500] * 3
    assert [r.passes for r in readings] == [2, 1, 1]


def test_count_windows_follow_the_times_within_a_batch(spark: Any) -> None:
    rng = np.random.default_rng(5)
    tables = [events(rng, 400, 4_000 * b).sort_by([("t", "ascending"), ("id", "ascending")]) for b in range(3)]
    query = sb.Query("q", k=3, score="x", window=sb.Window("100 events", slide="30 events"))
    both(spark, [query], tables)


def test_an_empty_batch_is_read(spark: Any) -> None:
    rng = np.random.default_rng(6)
    query = sb.Query("q", k=3, score="x", window=sb.Window(2_000))
    both(spark, [query], [events(rng, 100, 0), events(rng, 100, 0).slice(0, 0), events(rng, 100, 1_000)])
