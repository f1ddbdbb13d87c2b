"""The busiest trades of the last hour, every ten minutes, from plain dicts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import skyband as sb


def trades(count: int = 5_000, seed: int = 7) -> Iterator[dict[str, Any]]:
    """Make up a morning of trades, one every two seconds, each up to five seconds late."""
    rng = random.Random(seed)
    start = datetime(2024, 5, 1, 9, tzinfo=UTC)
    for number in range(count):
        yield {
            "ts": start + timedelta(seconds=2 * number - rng.uniform(0, 5)),
            "trade": number,
            "symbol": rng.choice(["ACME", "BOLT", "CRUX", "DUNE", "EDGE"]),
            "price": round(rng.lognormvariate(3, 0.4), 2),
            "volume": rng.randint(1, 500),
        }


def main() -> None:
    """Print each answer as its window closes."""
    query = sb.Query(
        "busiest", k=3, score="price * volume", window=sb.Window("1 hour", slide="10 minutes"), select=("symbol",)
    )
    for answer in sb.run(query, trades(), time="ts", id="trade", watermark="5 seconds"):
        print(f"{answer.start:%H:%M} to {answer.end:%H:%M}")
        for row in answer.rows:
            print(f"  {row.rank}. {row.symbol}  {row.score:>10,.2f}  at {row.time:%H:%M:%S}")


if __name__ == "__main__":
    main()
