"""Many queries over an Arrow table that come, go and survive a restart, all in one pass over the data."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import skyband as sb

MINUTE = 60_000_000


def readings(minutes: int = 120, per_minute: int = 5_000, seed: int = 3) -> pa.Table:
    """Make up two hours of sensor readings, in order of time."""
    rng = np.random.default_rng(seed)
    count = minutes * per_minute
    return pa.table(
        {
            "time": pa.array(np.sort(rng.integers(0, minutes * MINUTE, count)), pa.timestamp("us", "UTC")),
            "sensor": rng.integers(0, 2_000, count),
            "celsius": rng.normal(20, 6, count),
        }
    )


def queries(count: int = 100) -> list[sb.Query]:
    """Ask for the hottest sensors over windows of many lengths."""
    return [
        sb.Query(
            f"hottest {n} minutes", k=5 + n % 20, score="celsius", distinct="best",
            window=sb.Window(f"{n} minutes", slide="1 minute"),
        )
        for n in range(1, count + 1)
    ]  # fmt: skip


def feed(monitor: sb.Monitor, table: pa.Table) -> int:
    """Push a table batch by batch, advance event time, and count the answers."""
    answers = 0
    for batch in table.to_batches(max_chunksize=50_000):
        answers += len(monitor.push(batch))
        answers += len(monitor.advance(monitor.newest - MINUTE))
    return answers


def main() -> None:
    """Run, change the queries on the way, stop, restore, and go on."""
    table = readings()
    half = table.num_rows // 2
    monitor = sb.Monitor(queries(), time="time", id="sensor")
    print("first half:", feed(monitor, table[:half]), "answers,", f"{monitor.stats().kept:,} events kept")

    ten, thirty = sb.Window("10 minutes"), sb.Window("30 minutes", slide="5 minutes")
    monitor.register(sb.Query("top three", k=3, score="celsius", distinct="best", window=ten))
    monitor.register(sb.Query("coldest", k=3, score="celsius", order="asc", window=thirty))
    monitor.unregister("hottest 100 minutes")
    blob = monitor.snapshot()
    print(f"snapshot: {len(blob) // 1024} KiB")

    monitor = sb.Monitor.restore(blob)
    print("second half:", feed(monitor, table[half:]), "answers,", f"{monitor.stats().kept:,} events kept")
    for answer in monitor.finish():
        if answer.query in ("top three", "coldest"):
            ids = [row.id for row in answer.rows]
            print(f"{answer.query} from {answer.start:%H:%M}: {ids}", "exact" if answer.exact else answer.why)


if __name__ == "__main__":
    main()
