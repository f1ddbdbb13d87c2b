"""Streams that are killed at any point, slow, or do things twice leave the same as one that nobody disturbed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import skyband as sb
from skyband.files import durable
from tests.spark.faults import POINTS_OF
from tests.spark.jobs import Job, compare_outputs, send, standing
from tests.spark.torture import Ordeal, rehearse

pytestmark = pytest.mark.spark
MOST_KILLS = 8  # of one stream, at points drawn anew in each run: a kill takes 15 seconds, and `make torture` takes all


@pytest.fixture(scope="module")
def archive(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path | None:  # noqa: ARG001 - needs Java
    return rehearse(tmp_path_factory.mktemp("rehearsal"))


# Killed at any point.


@pytest.mark.parametrize(
    ("kind", "batches", "points"),
    [
        ("times", 24, POINTS_OF["times"]),
        ("guesses", 12, [None, None, "after the sinks, before the state", None]),
        ("counts", 12, [None, None, "after the batch, before Spark's commit"]),
        ("joined", 9, ["after the sinks, before the state", None]),
        ("sql", 9, ["in the middle of a transaction", "after a transaction"]),
        ("kafka", 9, ["in the middle of the messages", "after the sinks, before the state"]),
        ("executors", 14, ["after a sink's file has its name", "after the batch, before Spark's commit"]),
        ("subscriptions", 9, ["in the middle of the state", "after a sink's file has its name"]),
    ],
)
def test_a_killed_stream_ends_as_if_nothing_had_happened(
    kind: str, batches: int, points: list[str | None], spark: Any, archive: Path | None, tmp_path: Path
) -> None:
    seed = time.time_ns() % 1_000_000
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    rng = np.random.default_rng(seed)
    job = Job(tmp_path / "job", kind, seed, batches)
    job.make()
    ordeal = Ordeal(job, rng, archive)
    points = rng.permutation(np.array(points, object)).tolist()[:MOST_KILLS]
    kills = list(ordeal.suffer(points))
    assert sorted(kills) == sorted(point or "at random" for point in points)
    ordeal.finish()
    ordeal.compare(spark)


# Slow, and more than once.


@pytest.mark.parametrize("kind", ["times", "sql", "kafka", "subscriptions"])
def test_steps_that_are_slow_or_repeated_change_nothing(
    kind: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, repeated = Job(tmp_path / "job", kind, seed=9, batches=4), set()
    job.make()
    monkeypatch.setattr("skyband.spark.sinks.kafka._send", send)
    job.start(spark, "whole").awaitTermination()

    def again(what: str, action: Callable[..., Any], *args: Any) -> Any:
        time.sleep(0.003)
        if what in ("sink", "send", "write", "sync"):
            repeated.add(what)
            action(*args)
        return action(*args)

    monkeypatch.setattr(durable, "step", again)
    job.start(spark, "again").awaitTermination()
    assert repeated == {"sink", "write", "sync", *(("send",) if kind == "kafka" else ())}
    compare_outputs(job.folder / "whole", job.folder / "again", kind)
    assert standing(job, "again") == standing(job, "whole")


def test_a_command_that_comes_twice_counts_once(spark: Any, tmp_path: Path) -> None:
    fresh = Job(tmp_path / "job", "guesses", seed=8, batches=2)
    fresh.make()
    fresh.feed(0)
    fresh.start(spark, "twice", "fed").awaitTermination()
    extra = sb.Query("extra", k=2, score="v", window=sb.Window("2 seconds"))
    for command in ({"do": "add", "query": extra.as_dict()}, {"do": "remove", "name": "low"}):
        for _ in range(2):
            fresh.control("twice").checkpoint.submit(command)
    fresh.feed(1)
    fresh.start(spark, "twice", "fed").awaitTermination()
    expected = [*(query.name for query in fresh.queries() if query.name != "low"), "extra"]
    assert [(e["name"], e["state"]) for e in fresh.control("twice").queries] == [(n, "active") for n in expected]
