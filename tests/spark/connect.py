"""A stream over Spark Connect, in a process of its own: ``python -m tests.spark.connect FOLDER``.

A process has either a classic session or a connected one. This one starts a server on a free port of this machine,
runs a stream and a batch against it, and fails unless both answer as the core does.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import skyband as sb
from skyband.spark.sinks.rows import UNPACKED
from tests.spark.streams import assert_same_answers, core, events, sorted_table, stream, write

QUERIES = [
    sb.Query("top", k=3, score="x * 2 + y", window=sb.Window(2_000, slide=500), select=("y",)),
    sb.Query("by group", k=2, score="x", window=sb.Window(1_000), where="y > 3", partition_by="g"),
]


def main(folder: Path) -> None:
    rng = np.random.default_rng(1)
    tables = [events(rng, 300, 3_000 * batch) for batch in range(4)]
    write(folder / "in", tables)
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    setting = spark.conf.get(UNPACKED)

    def keep(frame: Any, batch_id: int) -> None:
        pq.write_table(frame.toArrow(), folder / f"rejected-{batch_id}.parquet")

    handle = sb.spark.start(
        stream(spark, folder / "in"), QUERIES[:1], time="t", id="id", watermark=60, sink=folder / "out", rejected=keep,
        checkpoint=folder / "checkpoint", trigger={"availableNow": True},
    )  # fmt: skip
    handle.register(QUERIES[1])
    handle.awaitTermination()
    names = [(entry["name"], entry["state"]) for entry in handle.queries]
    assert names[0] == ("top", "active"), names
    assert names[1][0] == "by group", names
    found = sorted_table([pq.read_table(folder / "out")])
    top = found.filter(np.asarray(found["query"].to_pylist()) == "top")
    assert_same_answers(top, core(QUERIES[:1], tables, 60, time="t", id="id"))
    progress = handle.lastProgress
    assert progress is not None
    assert progress["skyband"]["candidateRows"] > 0
    assert handle.exception() is None
    rejected = sum(pq.read_table(file).num_rows for file in folder.glob("rejected-*"))
    assert rejected == sum(entry["rejected"] for entry in handle.progress) > 0
    assert spark.conf.get(UNPACKED) == setting
    assert handle.answers("top").num_rows == 3
    batch = sb.spark.topk(spark.read.parquet(str(folder / "in")), QUERIES, time="t", id="id").toArrow()
    truth = sb.run(QUERIES, tables, time="t", id="id").table()
    columns = ["query", "window_end", "partition", "rank", "id", "score", "y"]
    assert sorted_table([batch]).select(columns).to_pylist() == sorted_table([truth]).select(columns).to_pylist()
    spark.stop()
    sys.stdout.write("the same\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
