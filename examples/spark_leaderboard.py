"""A leaderboard over a Spark stream: trades arrive as files, a second query joins while the stream runs."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import skyband as sb

COLUMNS = "ts timestamp, symbol string, price double, volume bigint"


def write_trades(folder: Path, minutes: range, seed: int = 3) -> None:
    """Make up the trades of some minutes, one file each."""
    rng = random.Random(seed)
    for minute in minutes:
        at = [minute * 60_000_000 + n * 100_000 for n in range(600)]
        trades = {
            "ts": pa.array(at, pa.timestamp("us", "UTC")),
            "symbol": [rng.choice(["ACME", "BOLT", "CRUX", "DYNE"]) for _ in at],
            "price": [round(rng.lognormvariate(3, 0.5), 2) for _ in at],
            "volume": [rng.randint(1, 500) for _ in at],
        }
        pq.write_table(pa.table(trades), folder / f"{minute:04}.parquet")


def main() -> None:
    """Run the stream twice over a folder that grows, with the same checkpoint."""
    spark = SparkSession.builder.master("local[2]").appName("leaderboard").getOrCreate()
    work = Path(tempfile.mkdtemp())
    folder = work / "trades"
    folder.mkdir()
    largest = sb.Query(
        "largest", k=3, score="price * volume", window=sb.Window("5 minutes", slide="1 minute"), select=("price",)
    )
    for minutes in (range(6), range(6, 12)):
        write_trades(folder, minutes)
        trades = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 2).parquet(str(folder))
        handle = sb.spark.start(
            trades, largest, time="ts", id="symbol", watermark="1 second",
            sink=work / "answers", checkpoint=work / "checkpoint", trigger={"availableNow": True},
        )  # fmt: skip
        handle.awaitTermination()
        for query in handle.queries:
            rows = handle.answers(query["name"]).to_pylist()
            print(query["name"], "until", query["latest"]["window_end"] if rows else "-")
            for row in rows:
                print(f"  {row['rank']}. {row['id']} {row['score']:,.0f}")
        if minutes.start == 0:
            by_symbol = sb.Query("by symbol", k=1, score="price", window=sb.Window("1 minute"), partition_by="symbol")
            handle.register(by_symbol)
    last = handle.lastProgress
    assert last is not None
    print("last batch:", last["numInputRows"], "rows read,", last["skyband"]["kept"], "events kept")


if __name__ == "__main__":
    main()
