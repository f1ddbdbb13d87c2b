"""Sums of very many ids on Spark, kept on the driver or on the executors.

``python -m benchmarks.spark.spread executors --ids 1000000``: writes a stream of files in which every id comes about
once in each, answers which ids have the largest sums, and says what each micro-batch took and how much is kept.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import skyband as sb

BEGIN, SECOND = 1_700_000_000_000_000, 1_000_000
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def write(folder: Path, ids: int, rows: int, files: int) -> None:
    """Write files of a minute each, whose rows are of random ids, and one row that closes the last window."""
    rng = np.random.default_rng(1)
    for number in range(files + 1):
        begin, count = BEGIN + number * 60 * SECOND, rows if number < files else 1
        table = pa.table(
            {
                "ts": pa.array(np.sort(rng.integers(begin, begin + 60 * SECOND, count)), pa.timestamp("us", "UTC")),
                "id": rng.integers(0, ids, count),
                "price": rng.random(count),
                "volume": rng.integers(1, 100, count),
            }
        )
        path = folder / f"{number:03}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_000_000_000 + number,) * 2)


def main() -> None:
    """Run the stream, and print a line for each micro-batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("placement", choices=["driver", "executors"])
    parser.add_argument("--ids", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each micro-batch")
    parser.add_argument("--files", type=int, default=5)
    given = parser.parse_args()
    session = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), given.ids, given.rows, given.files)
        schema = session.read.parquet(folder).schema
        stream = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)
        window = sb.Window("2 minutes", slide="1 minute")
        most = sb.Query("most", k=10, score="sum(price * volume)", window=window)
        began = time.perf_counter()
        handle = sb.spark.start(
            stream, most, time="ts", id="id", watermark="1 second", trigger={"availableNow": True},
            placement=given.placement,
        )  # fmt: skip
        handle.awaitTermination()
        took = time.perf_counter() - began
    print("batch  answer rows       kept  state bytes  milliseconds")
    for entry in handle.progress:
        columns = (entry["answerRows"], entry["kept"], entry["stateBytes"], entry["durationMs"]["total"])
        print(
            f"{entry['batchId']:5}"
            + "".join(f"{each:>{w},}" for each, w in zip(columns, (13, 11, 13, 14), strict=True))
        )
    rows, most_held = given.files * given.rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{rows:,} rows of {given.ids:,} ids in {took:.1f} s; the Python driver held at most {most_held:,.0f} MB")
    print(handle.answers("most").select(["rank", "id", "score"]).to_pylist()[:3])


if __name__ == "__main__":
    main()
