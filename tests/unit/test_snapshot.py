"""Snapshots are refused with a clear message unless they are whole and of this version."""

from __future__ import annotations

import struct
from typing import Any

import pytest

import skyband as sb
from skyband.engine import snapshot
from tests.streams import random_workload, table_of

WORKLOAD = random_workload(5, n=50, delay=15)


def blob() -> bytes:
    monitor = sb.Monitor(WORKLOAD.queries(), time="t", id="id")
    monitor.push(table_of(WORKLOAD.batches()[0], WORKLOAD.text))
    return monitor.snapshot()


def test_something_else_is_no_snapshot() -> None:
    for other in (b"", b"PAR1", b"x" * 1000):
        with pytest.raises(sb.SnapshotError, match="no Skyband snapshot"):
            sb.Monitor.restore(other)


def test_another_version_is_refused() -> None:
    newer = bytearray(blob())
    newer[8:12] = struct.pack("<I", snapshot.VERSION + 1)
    with pytest.raises(sb.SnapshotError, match=f"format {snapshot.VERSION + 1}; this version of Skyband reads format"):
        sb.Monitor.restore(bytes(newer))


def test_any_flipped_byte_and_any_missing_end_is_noticed() -> None:
    whole = blob()
    for place in range(12, len(whole), max(1, len(whole) // 60)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        with pytest.raises(sb.SnapshotError, match="damaged"):
            sb.Monitor.restore(bytes(damaged))
    for length in (44, len(whole) // 2, len(whole) - 1):
        with pytest.raises(sb.SnapshotError, match="damaged"):
            sb.Monitor.restore(whole[:length])


def test_changes_paused_queries_and_provisional_answers_survive() -> None:
    queries = [
        sb.Query("c", k=2, score="x", window=sb.Window(10, slide=5), emit="changes", select=("note",)),
        sb.Query("e", k=2, score="x", window=sb.Window(10, slide=5), emit="early"),
        sb.Query("p", k=2, score="x", window=sb.Window(10, slide=5)),
    ]
    rows = [{"t": t, "id": f"i{t % 4}", "x": float(t * 7 % 11), "note": f"n{t}"} for t in range(60)]

    def play(restart: bool) -> list[tuple[Any, ...]]:
        monitor = sb.Monitor(queries, time="t", id="id")
        monitor.pause("p")
        seen: list[tuple[Any, ...]] = []
        for at in range(0, 60, 6):
            if restart:
                monitor = sb.Monitor.restore(monitor.snapshot())
            monitor.push(rows[at : at + 6])
            for answer in monitor.advance(at + 5):
                seen.append((answer.query, answer.end, answer.provisional, answer.rows, list(answer.changes)))
        return seen

    assert play(restart=True) == play(restart=False)
    assert {answer[0] for answer in play(restart=True)} == {"c", "e"}
