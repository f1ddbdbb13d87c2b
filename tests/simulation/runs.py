"""Which engines and algorithms play which histories, and what happens when one fails."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

from skyband.algorithms import ALGORITHMS
from skyband.algorithms.staircase import prefilter
from tests.simulation import engines
from tests.simulation.histories import Can, History, by_lists, draw
from tests.simulation.judge import judge
from tests.simulation.shrink import H, shrink
from tests.simulation.truth import Truth

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FOUND = Path(__file__).parent / "found"
Play = Callable[[History], None]


def monitor(algorithm: str, new_process: bool = False) -> tuple[Can, Play]:
    """Return what a monitor can do with an algorithm, and how its histories are played and judged."""
    chosen = ALGORITHMS[algorithm]

    def play(history: History) -> None:
        few = (0, 5, prefilter.FEW_ROWS)[history.seed % 3]  # so that batches take all ways through the prefilter
        with patch.object(prefilter, "FEW_ROWS", few):
            outcome = engines.play(history, algorithm, new_process=new_process)
        judge(outcome, Truth.of(history), exact=chosen.exact, covers=algorithm == "staircase")

    return Can(distincts=chosen.distincts, ties=ties_of(algorithm), grows="cumulative" in chosen.kinds), play


def ties_of(algorithm: str) -> tuple[str | None, ...]:
    """Return how an algorithm treats ties: those of papers have no shared ranks."""
    return Can().ties if algorithm == "staircase" else (None,)


def local(algorithm: str) -> tuple[Can, Play]:
    def play(history: History) -> None:
        judge(engines.run(history, algorithm), Truth.of(history), exact=ALGORITHMS[algorithm].exact)

    chosen = ALGORITHMS[algorithm]
    return Can(
        distincts=chosen.distincts, ties=ties_of(algorithm), changes=(), emits=("final", "changes", "entered", "left"),
        grows="cumulative" in chosen.kinds,
    ), play  # fmt: skip


def spark(session: Any) -> tuple[Can, Play]:
    def play(history: History) -> None:
        with tempfile.TemporaryDirectory() as folder:
            outcome = engines.stream(history, session, Path(folder))
            judge(outcome, Truth.of(history), ends=False, tables=True)

    return Can(changes=("register", "pause", "resume", "remove"), counts=False, grows=True), play


def executors(session: Any) -> tuple[Can, Play]:
    own = session.newSession()
    own.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    own.conf.set("spark.sql.shuffle.partitions", "2")
    own.sparkContext.pythonExec = sys.executable  # executors need the package that is tested

    def play(history: History) -> None:
        listed = by_lists(history)
        with tempfile.TemporaryDirectory() as folder:
            outcome = engines.spread(listed, own, Path(folder))
            judge(outcome, Truth.of(listed, on_executors=True), ends=False, tables=True, apart=True)

    return Can(
        changes=("register", "change", "remove"), counts=False, emits=("final", "changes", "entered", "left"),
        delays=(0, 3, 15), spread=True, units=(1_000, 700), cuts=3, grows=True,
    ), play  # fmt: skip


def batch(session: Any) -> tuple[Can, Play]:
    def play(history: History) -> None:
        judge(engines.topk(history, session), Truth.of(history), tables=True)

    return Can(changes=(), counts=False, emits=("final",), delays=(None,), grows=True), play


def check(seed: int, can: Can, play: Play, engine: str, rounds: int = 1_000) -> None:
    """Play the history of a seed; one that fails is cut down in so many rounds at most, stored, and shown."""
    examine(draw(seed, can), play, engine, seed, rounds)


def examine(
    history: H, play: Callable[[H], None], engine: str, seed: int, rounds: int = 1_000, folder: Path = FOUND
) -> None:
    """Play a history of any kind; one that fails is cut down in so many rounds at most, stored, and shown."""
    try:
        play(history)
    except Exception as error:
        kind = type(error)
        small = shrink(history, lambda other: fails(other, play, kind), rounds)
        folder.mkdir(exist_ok=True, parents=True)
        file = folder / f"{engine}-{seed}.json"
        file.write_text(json.dumps(asdict(small), ensure_ascii=False) + "\n")
        msg = f"{engine}, seed {seed}: {error}\ncut down to {len(small.steps)} steps: {file}"
        raise AssertionError(msg) from error


def fails(history: H, play: Callable[[H], None], kind: type[Exception]) -> bool:
    """Tell whether a history fails as another one did."""
    try:
        play(history)
    except kind:
        return True
    except Exception:  # it fails otherwise: not what we look for
        return False
    return False
