"""A stream on Spark over HTTP, opened as `skyband serve` does: begun, gone on with, and by its checkpoint folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from rich.console import Console

import skyband as sb
from skyband.cli import serve_inputs
from skyband.events.batch import StreamColumns
from skyband.serve.spark_stream import SparkStream
from skyband.spark.control import Control
from tests.serve.conftest import answers, eventually, served
from tests.spark.streams import core, events, write

pytestmark = pytest.mark.spark
TOP = sb.Query("top", k=3, score="x", window=sb.Window(1_000), select=("g",))
MINE = {"name": "mine", "k": 2, "size": "1000 us", "score": "y"}
SUMS = """CREATE VIEW sums AS SELECT id, SUM(y) AS total FROM TUMBLE(s, t, INTERVAL 1 MILLISECOND)
          GROUP BY id ORDER BY total DESC LIMIT 2"""


AS_SQL = {"content-type": "application/sql"}


def ids(answer: dict[str, Any]) -> set[Any]:
    return {row["id"] for row in answer["rows"]}


@pytest.mark.usefixtures("spark")
def test_in_this_process_and_by_its_checkpoint(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    tables = [events(rng, 300, 3_000 * batch) for batch in range(4)]
    moves = replace(TOP, name="moves", emit="changes")
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write(folder, tables[:2])
    given = serve_inputs.Input(folder, [TOP, moves], StreamColumns("t", "id"), "60 microseconds")
    with serve_inputs.on_spark(given, checkpoint, None, Console(quiet=True)) as stream:
        handle: Any = cast(SparkStream, stream).control
        with served(stream) as client:
            handle.processAllAvailable()
            wanted = core([TOP], tables[:2], 60, time="t", id="id").to_pylist()
            found = eventually(lambda: len(seen := answers(client, limit=50)) >= 5 and seen)
            rows = [(a["end"], r["rank"], r["id"], r["score"], r["values"]) for a in found[::-1] for r in a["rows"]]
            assert rows == [
                (int(w["window_end"].timestamp() * 1_000_000), w["rank"], w["id"], w["score"], {"g": w["g"]})
                for w in wanted
            ], "all windows, though several closed in one batch"
            assert [r["id"] for r in answers(client, "moves")[0]["rows"]] == [r["id"] for r in found[0]["rows"]]
            numbers = eventually(lambda: (n := client.get("/api/stream").json()["numbers"])["rows"] == 600 and n)
            assert (numbers["state"], numbers["health"], numbers["says"]) == ("running", "live", "live")
            with served(SparkStream(Control(checkpoint))) as other:
                elsewhere = other.get("/healthz")
                assert (elsewhere.status_code, elsewhere.json()["state"]) == (200, "elsewhere")
            assert numbers["rejected"] == sum(
                t.num_rows - t.select(["t", "id", "x"]).drop_null().num_rows for t in tables[:2]
            )
            assert client.post("/api/queries", json=MINE).status_code == 201
            assert client.get("/api/queries").json()["queries"][-1]["state"] == "pending"
            write(folder, tables[2:3], first=2)
            handle.processAllAvailable()
            eventually(lambda: answers(client, "mine"))
            assert client.get("/api/queries").json()["queries"][-1]["state"] == "active"
            assert client.post("/api/queries", content=SUMS, headers=AS_SQL).status_code == 201
    assert not handle.isActive
    with serve_inputs.on_spark(given, checkpoint, None, Console(quiet=True)) as stream, served(stream) as client:
        write(folder, tables[3:], first=3)
        found = eventually(lambda: len(seen := answers(client, "sums", limit=50)) >= 2 and seen)
        assert all(row["was"] is not None for row in found[0]["rows"] if row["id"] in ids(found[1])), "groups move"
        assert {q["name"] for q in client.get("/api/queries").json()["queries"]} == {"top", "moves", "mine", "sums"}
        last = found[0]
    with served(SparkStream(Control(checkpoint))) as client:
        assert [(r["id"], r["score"]) for r in answers(client, "sums")[0]["rows"]] == [
            (r["id"], r["score"]) for r in last["rows"]
        ], "of the last window, though others closed in the same batch"
        about = client.get("/api/stream").json()
        assert (about["numbers"]["state"], about["numbers"]["rows"]) == ("ended", None)
        assert len(answers(client)[0]["rows"]) == 3
        assert client.get("/healthz").status_code == 503
        assert client.patch("/api/queries/top", json={"state": "paused"}).status_code == 200
        assert client.get("/api/queries").json()["queries"][0]["pending"] == "pause"
        assert client.delete("/api/queries/mine").status_code == 200
        assert "group 1" in client.get("/api/explain").text
        assert "mine" in client.post("/api/check", json=MINE).json()["explain"]
        (checkpoint / "skyband" / "status.json").unlink()
        (checkpoint / "skyband" / "stream.json").write_text("{")
        reply = client.post("/api/queries", json=MINE | {"score": "no_such_column"})
        assert reply.status_code == 422
        assert str(tmp_path) not in reply.text


def test_queries_on_executors_cannot_be_changed(tmp_path: Path) -> None:
    from skyband.spark.checkpoint import Checkpoint

    identity = {"time": "t", "id": "id", "time_unit": None, "id_type": "int64", "algorithm": "staircase"}
    schema = events(np.random.default_rng(1), 5, 0).schema
    Checkpoint(tmp_path).open({**identity, "placement": "executors"}, schema, [TOP.as_dict()])
    with served(SparkStream(Control(tmp_path))) as client:
        for reply in (client.post("/api/queries", json=MINE), client.delete("/api/queries/top")):
            assert (reply.status_code, "started with" in reply.json()["error"]) == (409, True)
