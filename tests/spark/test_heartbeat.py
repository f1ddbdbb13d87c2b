"""Signs of life in a checkpoint folder, without Spark: who beats, who sees it, and by whose clock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from skyband.spark.checkpoint import Checkpoint
from skyband.spark.heartbeat import SILENCE, Heartbeat, Observer


class Stream:
    """What Spark says of a stream."""

    isActive = True  # noqa: N815 - Spark's word
    failed: Exception | None = None

    def exception(self) -> Exception | None:
        return self.failed


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path)


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 20.0
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def sign(checkpoint: Checkpoint) -> tuple[str, float]:
    found = checkpoint.sign_of_life()
    assert found is not None
    return found


def newer(checkpoint: Checkpoint, at: float) -> bool:
    return sign(checkpoint)[1] > at


def test_it_beats_without_batches_until_the_stream_ends(checkpoint: Checkpoint) -> None:
    stream = Stream()
    assert checkpoint.sign_of_life() is None
    Heartbeat(checkpoint, stream, every=0.01)
    for _ in range(3):
        state, at = sign(checkpoint)
        assert state == "running"
        until(partial(newer, checkpoint, at))
    stream.isActive = False
    until(lambda: sign(checkpoint)[0] == "ended")
    ended = sign(checkpoint)
    time.sleep(0.05)
    assert sign(checkpoint) == ended


def test_a_stream_that_fails_says_so(checkpoint: Checkpoint) -> None:
    stream = Stream()
    Heartbeat(checkpoint, stream, every=0.01)
    stream.failed, stream.isActive = ValueError(), False
    until(lambda: sign(checkpoint)[0] == "failed")


def test_one_that_is_stopped_says_so_at_once(checkpoint: Checkpoint) -> None:
    heart = Heartbeat(checkpoint, Stream())  # would beat after five seconds
    heart.stop()
    assert sign(checkpoint)[0] == "ended"
    heart.stop()
    again = Heartbeat(checkpoint, Stream())
    heart.stop()
    assert sign(checkpoint)[0] == "running", "the one that was started again is another"
    again.stop()


def test_a_process_that_only_handles_batches_beats_too(checkpoint: Checkpoint) -> None:
    """On Spark Connect it is not the process that started the stream, and outlives it."""
    checkpoint.mark("running")
    os.utime(checkpoint.root / "alive.json", (1.0, 1.0))
    Heartbeat.ensure(checkpoint)
    Heartbeat.ensure(checkpoint)
    assert len([folder for folder in Heartbeat._of if folder == checkpoint.folder]) == 1
    Heartbeat._of[checkpoint.folder].every = 0.01
    heart = Heartbeat(checkpoint, Stream(), every=0.01)  # takes over where both are one process
    until(lambda: sign(checkpoint)[1] > 1.0)
    heart.stop()
    assert sign(checkpoint)[0] == "ended"
    assert checkpoint.folder not in Heartbeat._of


def test_silence_is_measured_by_the_clock_of_who_looks(checkpoint: Checkpoint) -> None:
    now = [10_000.0]
    file = checkpoint.root / "alive.json"

    def beat(at: float) -> None:
        os.utime(file, (at, at))

    seen = Observer(checkpoint, lambda: now[0])
    assert seen.look() == "gone"
    checkpoint.mark("running")
    beat(now[0] - 10)
    assert seen.look() == "elsewhere"
    now[0] += SILENCE - 10
    assert seen.look() == "gone", "a beat that was there before is as old as its file says"
    for skew in (-3_600.0, 3_600.0):  # the other machine's clock is an hour behind, or ahead
        beat(now[0] + skew)
        assert seen.look() == "elsewhere"
        now[0] += SILENCE - 1
        assert seen.look() == "elsewhere"
        now[0] += 1
        assert seen.look() == "gone"
        assert seen.heard == now[0] - SILENCE
    late = Observer(checkpoint, lambda: now[0])
    assert late.look() == "elsewhere", "of a beat from the future nobody knows better"
    now[0] += SILENCE
    assert late.look() == "gone"


def test_what_is_damaged_is_no_sign_of_life(checkpoint: Checkpoint) -> None:
    checkpoint.mark("running")
    (checkpoint.root / "alive.json").write_bytes(b"")
    assert Observer(checkpoint).look() == "gone"
    (checkpoint.root / "alive.json").write_text("{}")
    assert Observer(checkpoint).look() == "gone"


@pytest.mark.parametrize(
    ("begun", "done", "under_way"), [([], [], False), ([0], [], True), ([8, 9], [8], True), ([9, 10], [9, 10], False)]
)
def test_a_batch_is_under_way_from_its_offsets_to_its_commit(
    checkpoint: Checkpoint, begun: list[int], done: list[int], under_way: bool
) -> None:
    for name, batches in (("offsets", begun), ("commits", done)):
        (checkpoint.folder / name).mkdir()
        for batch in batches:
            (checkpoint.folder / name / str(batch)).touch()
            (checkpoint.folder / name / f".{batch}.crc").touch()
    assert checkpoint.in_a_batch() is under_way
