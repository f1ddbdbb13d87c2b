"""Joined queries on Spark: the same answers as the core, from the same replies; restarts, commands, DataFrames."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from skyband.errors import InputError, QueryError
from skyband.remote.services import HttpJson, Limits
from skyband.spark.control import Control
from skyband.spark.reducers import partials as reducer
from skyband.windows import NEVER
from tests.remote.servers import Loopback, Reply, Request
from tests.spark.streams import assert_same_answers, sorted_table, stream, write
from tests.spark.test_start import NOW, Tables

pytestmark = pytest.mark.spark
DELAY = 60


class Changing:
    """A service whose values depend on how often it was asked: the same questions get the same answers."""

    def __init__(self, begun: int = 0, gaps: bool = False) -> None:
        self.asked: list[list[Any]] = [[] for _ in range(begun)]
        self.gaps = gaps

    def __call__(self, ids: Any) -> dict[Any, float | None]:
        self.asked.append(sorted(ids))
        turn = len(self.asked)
        known = {name: (len(name) * 31 + hash_of(name) + turn // 3 * 17) % 23 for name in ids}
        return {name: None if self.gaps and value == 5 else float(value) for name, value in known.items()}


def hash_of(name: str) -> int:
    return sum(ord(sign) * place for place, sign in enumerate(name, 1))


def batches(seed: int, count: int = 4, n: int = 250) -> list[pa.Table]:
    rng = np.random.default_rng(seed)
    tables = []
    for number in range(count):
        time = np.sort(rng.integers(n * 10 * number, n * 10 * (number + 1), n)) + rng.integers(-50, 51, n)
        tables.append(
            pa.table(
                {
                    "t": pa.array(time, mask=rng.random(n) < 0.01),
                    "id": pa.array([f"u{i}" for i in rng.integers(0, 20, n)], mask=rng.random(n) < 0.01),
                    "home": pa.array([f"h{i}" for i in rng.integers(0, 5, n)], mask=rng.random(n) < 0.01),
                    "x": pa.array(
                        np.where(rng.random(n) < 0.01, np.nan, rng.integers(0, 9, n) / 2), mask=rng.random(n) < 0.01
                    ),
                    "ok": pa.array(rng.random(n) > 0.2, mask=rng.random(n) < 0.05),
                }
            )
        )
    return tables


def join(**given: Any) -> sb.Join:
    return sb.Join("value", **({"budget": 3, "n": 4} | given))


SLIDING = sb.Window(1_500, slide=500)
QUERIES = [
    sb.Query("latest", k=3, score="2 * x + value", window=SLIDING, where="ok", join=join(), select=("home", "x")),
    sb.Query("counts", k=3, score="count(*) + value", window=sb.Window(1_100, slide=400, closed="right"), join=join()),
    sb.Query("homes", k=4, score="sum(x) + avg(x) - min(x) + count(x) + value", order="asc", window=SLIDING,
             join=join(on="home", policy="WSJ-LRU")),
    sb.Query("high", k=9, score="max(x)", where="value > 9 AND ok", window=SLIDING, join=join(), emit="changes"),
    sb.Query("plain", k=2, score="x", window=SLIDING),
    sb.Query("set", k="all", score="x", where="value > 9 AND ok", window=SLIDING, join=join(), select=("home",)),
    sb.Query("sums", k=3, score="sum(2 * x) / count(ok) - min(x)", where="ok OR x > 2",
             window=SLIDING, group_by="home"),
]  # fmt: skip


def core(queries: list[sb.Query], tables: list[pa.Table], service: Any, **more: Any) -> tuple[pa.Table, sb.Monitor]:
    monitor = sb.Monitor(queries, time="t", id="id", services={"value": service}, **more)
    parts = []
    for table in tables:
        monitor.push(table)
        parts.append(monitor.advance(None if monitor.newest == NEVER else monitor.newest - DELAY))
    return sorted_table([part.table(quality=True) for part in parts if len(part)]), monitor


PATIENT = Limits(timeout=60, deadline=60, remember_missing=3_600)


def patient(service: Any) -> sb.Remote:
    """A service that may take long, and of which it is long remembered what does not exist: the machine may be busy."""
    return sb.Remote(service, limits=PATIENT)


def go(spark: Any, folder: Path, queries: Any, sink: Any, checkpoint: Path, service: Any, **options: Any) -> Any:
    handle = sb.spark.start(
        stream(spark, folder), queries, time="t", id="id", watermark=DELAY, trigger=NOW, sink=sink,
        checkpoint=checkpoint, services={"value": service}, **options,
    )  # fmt: skip
    handle.awaitTermination()
    return handle


@pytest.mark.parametrize(
    ("grain", "often", "expected"), [(1, 1.0, []), (200, 1.0, [4, 4, 4]), (200, 0.0, [4, 2, 2])],
    ids=["apart", "again", "sorted"],
)  # fmt: skip
def test_the_latest_events_are_those_of_the_core_however_many_tie(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grain: int, often: float, expected: list[int]
) -> None:
    """Events of an id at one time are told apart by their scores alone, whatever brings them back."""
    monkeypatch.setattr(reducer, "_OFTEN", often)
    queries = [
        sb.Query("desc", k=5, score="x + value / 100", window=SLIDING, join=join()),
        sb.Query("asc", k=5, score="x + value / 50", order="asc", window=SLIDING, join=join()),
    ]
    made = batches(5, count=3, n=400)
    tables = [table.set_column(0, "t", pc.multiply(pc.divide(table["t"], grain), grain)) for table in made]
    write(tmp_path / "in", tables)
    here, there, sink = Changing(gaps=True), Changing(gaps=True), Tables()
    wanted, _ = core(queries, tables, patient(here))
    handle = go(spark, tmp_path / "in", queries, sink, tmp_path / "checkpoint", patient(there))
    assert_same_answers(sink.table(), wanted)
    assert there.asked == here.asked
    scans = [entry["skyband"]["scans"] for entry in handle.recentProgress]
    assert scans == expected or grain == 1


@pytest.mark.parametrize("queries", [QUERIES, QUERIES[:1]], ids=["mixed", "one"])
def test_the_same_answers_as_the_core(spark: Any, tmp_path: Path, queries: list[sb.Query]) -> None:
    tables = batches(1, count=3)
    write(tmp_path / "in", tables)
    here, there, sink = Changing(gaps=True), Changing(gaps=True), Tables()
    wanted, monitor = core(queries, tables, patient(here))
    handle = go(spark, tmp_path / "in", queries, sink, tmp_path / "checkpoint", patient(there))
    assert_same_answers(sink.table(), wanted)
    assert there.asked == here.asked
    last = [sorted_table([part.table(quality=True)]) for part in (handle.finish(), monitor.finish())]
    assert_same_answers(*last)
    found = {group["queries"]: group for group in map(vars_of, monitor.stats().groups)}
    progress = handle.recentProgress
    if len(queries) == 1:
        assert sum(p["skyband"]["rejected"] for p in progress) == found[("latest",)]["rejected"] > 0
    assert all(p["skyband"]["remote"]["refreshes"] >= 0 for p in progress)
    assert handle.queries[0]["latest"]["refreshes"] >= 0
    assert "service 'value'" in handle.explain()


def vars_of(group: Any) -> dict[str, Any]:
    return {name: getattr(group, name) for name in ("queries", "rejected", "late", "partly_late", "events")}


def test_only_partials_come_to_the_driver(spark: Any, tmp_path: Path) -> None:
    """A thousand events of a few ids in a few panes are a few rows."""
    n = 1_000
    table = pa.table({"t": np.arange(n), "id": [f"u{i % 3}" for i in range(n)], "x": np.ones(n)})
    write(tmp_path / "in", [table])
    sink = Tables()
    query = sb.Query("counts", k=3, score="count(*) + value", window=sb.Window(500, slide=250), join=join())
    handle = go(spark, tmp_path / "in", [query], sink, tmp_path / "checkpoint", Changing())
    assert handle.lastProgress["skyband"]["candidateRows"] == 3 * 4
    wanted, _ = core([query], [table], Changing())
    assert_same_answers(sink.table(), wanted)


STANDING = sb.Query(
    "standing", k=9, score="max(x)", where="value > 9 AND ok", window=sb.Window(1_100, slide=400, closed="right"),
    join=join(budget=0),
)  # fmt: skip
NEAR = sb.Query("near", k=5, score="count(*) + value", where="value > 9", window=SLIDING, select=("home",),
                join=join(policy="WSJ-LRU.F", distance=4, only_candidates=True))  # fmt: skip


@pytest.mark.parametrize("queries", [[STANDING], [STANDING, NEAR]], ids=["one", "two"])
def test_events_of_settled_ids_stay_on_the_executors(spark: Any, tmp_path: Path, queries: list[sb.Query]) -> None:
    """Where nobody asks for a value that keeps an id out, the id is left out there; answers are those of the core."""
    tables = batches(11, count=2)
    write(tmp_path / "in", tables)
    known = {f"u{i}": float(i * 7 % 23) for i in range(18)}
    services = [sb.Remote(Changing(gaps=True), limits=PATIENT, known=known) for _ in range(2)]
    wanted, monitor = core(queries, tables, services[0])
    sink = Tables()
    handle = go(spark, tmp_path / "in", queries, sink, tmp_path / "checkpoint", services[1])
    assert_same_answers(sink.table(), wanted)
    last = [sorted_table([part.table(quality=True)]) for part in (handle.finish(), monitor.finish())]
    assert_same_answers(*last)
    if queries == [STANDING]:
        shipped = sum(p["skyband"]["candidateRows"] for p in handle.recentProgress)
        panes_and_ids = sum(len(partials(monitor, table)) for table in tables)
        assert shipped < 0.8 * panes_and_ids
        late = [sum(getattr(group, name) for group in monitor.stats().groups) for name in ("late", "partly_late")]
        found = handle.recentProgress
        assert [sum(p["skyband"][name] for p in found) for name in ("late", "partlyLate")] == late


def partials(monitor: sb.Monitor, table: pa.Table) -> set[tuple[int, str]]:
    """The panes and ids of a batch."""
    plan = monitor.partials_plans()[0]
    rows = [row for row in table.to_pylist() if row["t"] is not None and row["id"] and row["ok"]]
    panes = plan.panes.of(np.array([row["t"] for row in rows], np.int64))
    return {(int(pane), row["id"]) for pane, row in zip(panes, rows, strict=True)}


def test_started_again_it_goes_on_with_what_it_knew(spark: Any, tmp_path: Path) -> None:
    tables, queries = batches(2, count=2), QUERIES[1:4]
    here = Changing()
    wanted, _ = core(queries, tables, here)
    write(tmp_path / "in", tables[:1])
    first, sink = Changing(), Tables()
    go(spark, tmp_path / "in", queries, sink, tmp_path / "checkpoint", first)
    write(tmp_path / "in", tables[1:], 1)
    second = Changing(begun=len(first.asked))
    go(spark, tmp_path / "in", queries, sink, tmp_path / "checkpoint", second)
    assert_same_answers(sink.table(), wanted)
    assert first.asked + second.asked[len(first.asked) :] == here.asked


def test_a_replayed_batch_asks_again_and_answers_the_same(spark: Any, tmp_path: Path) -> None:
    """Killed after its answers were written: the batch asks the same questions once more, and no others."""
    tables = batches(3, count=3)
    write(tmp_path / "in", tables)

    class Failing(Tables):
        broken = False

        def write(self, answers: pa.Table, batch_id: int, session: Any) -> None:
            super().write(answers, batch_id, session)
            if batch_id == 1 and not self.broken:
                self.broken = True
                raise RuntimeError("killed")

    sink, asked = Failing(), []

    def service(ids: Any) -> dict[Any, float]:
        asked.append(sorted(ids))
        return {name: float(hash_of(name) % 23) for name in ids}

    with pytest.raises(Exception, match="killed"):
        go(spark, tmp_path / "in", QUERIES[:2], sink, tmp_path / "checkpoint", service)
    before = len(asked)
    go(spark, tmp_path / "in", QUERIES[:2], sink, tmp_path / "checkpoint", service)
    told = list(asked)
    asked.clear()
    wanted, _ = core(QUERIES[:2], tables, service)
    assert_same_answers(sink.table(), wanted)
    again = len(told) - len(asked)
    assert 0 < again < before
    assert told[:before] + told[before + again :] == asked


def test_side_outputs_and_joined_queries(spark: Any, tmp_path: Path) -> None:
    tables, queries = batches(4, count=2), [QUERIES[0], QUERIES[4]]
    write(tmp_path / "in", tables)
    sink, rejected = Tables(), Tables()
    here: list[Any] = []
    wanted, _ = core(queries, tables, Changing(), on_rejected=here.append)
    go(spark, tmp_path / "in", queries, sink, tmp_path / "checkpoint", Changing(), rejected=rejected)
    assert_same_answers(sink.table(), wanted)
    assert sum(table.num_rows for table in rejected.found.values()) == sum(batch.num_rows for batch in here) > 0


def test_commands_know_the_services(spark: Any, tmp_path: Path) -> None:
    tables = batches(5, count=2)
    write(tmp_path / "in", tables[:1])
    handle = go(spark, tmp_path / "in", QUERIES[4:5], Tables(), tmp_path / "checkpoint", Changing())
    control = Control(tmp_path / "checkpoint")
    with pytest.raises(
        QueryError, match="joins with the service 'other', and the stream has 'value'; start the stream"
    ):
        control.register(sb.Query("q", k=1, score="x + other", window=SLIDING, join=sb.Join("other")))
    control.register(QUERIES[0])
    control.pause("plain")
    write(tmp_path / "in", tables[1:], 1)
    sink = Tables()
    handle = go(spark, tmp_path / "in", QUERIES[4:5], sink, tmp_path / "checkpoint", Changing())
    states = {entry["name"]: entry["state"] for entry in handle.queries}
    assert states == {"plain": "paused", "latest": "active"}
    found = sink.table()
    assert set(found["query"].to_pylist()) == {"latest"}
    assert "warming up" in found["why"].to_pylist()


def test_what_cannot_be_joined_on_spark_is_refused_at_once(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", batches(7, count=1))
    df, query = stream(spark, tmp_path / "in"), QUERIES[0]
    with pytest.raises(QueryError, match="query 'latest': the query joins with the service 'value', and none is given"):
        sb.spark.start(df, query, time="t", id="id")
    events = spark.read.parquet(str(tmp_path / "in"))
    with pytest.raises(QueryError, match="query 'latest': the query joins with the service 'value', and none is given"):
        sb.spark.topk(events, query, time="t", id="id")
    with pytest.raises(
        InputError, match=r"service 'value' is a type, .* give a batch DataFrame in skyband\.spark\.Frame"
    ):
        sb.spark.topk(events, query, time="t", id="id", services={"value": dict})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="services is a list; give them by name"):
        sb.spark.topk(events, query, time="t", id="id", services=[])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the DataFrame of the service is a stream; give a batch DataFrame"):
        sb.spark.Frame(df, id="id", value="x")
    with pytest.raises(InputError, match="the DataFrame of the service has no column 'y'; it has id, x"):
        sb.spark.Frame(spark.createDataFrame([("a", 1.0)], "id STRING, x DOUBLE"), id="id", value="y")


def test_a_dataframe_as_a_service(spark: Any, tmp_path: Path) -> None:
    tables = batches(8, count=2)
    write(tmp_path / "in", tables)
    values = {f"u{i}": float(i * 7 % 11) for i in range(18)}
    users = spark.createDataFrame(list(values.items()), "name STRING, `the value` DOUBLE")
    service = patient(sb.spark.Frame(users, id="name", value="the value"))
    query = sb.Query("latest", k=3, score="x + value", window=SLIDING, join=join(budget=None, policy="WSJ-LRU"))
    sink = Tables()
    go(spark, tmp_path / "in", query, sink, tmp_path / "checkpoint", service)
    wanted, _ = core([query], tables, lambda ids: {name: values.get(name) for name in ids})
    assert_same_answers(sink.table(), wanted)
    assert service.traffic.missing > 0


def test_a_stream_of_changes_as_a_service(spark: Any, tmp_path: Path) -> None:
    tables = batches(9, count=2)
    write(tmp_path / "in", tables)
    names = [f"u{i}" for i in range(18)]
    changes = pa.table({"name": names * 2, "n": [1.0] * 18 + [float(i) for i in range(18)], "at": [7] * 18 + [9] * 18})
    write(tmp_path / "changes", [changes, pa.table({"name": ["u3", "u4"], "n": [99.0, None], "at": [8, 12]})])
    feed = sb.spark.Changes(stream(spark, tmp_path / "changes"), id="name", value="n", time="at")
    query = sb.Query("latest", k=3, score="x + value", window=SLIDING, join=join(budget=0, policy="WSJ-LRU"))
    sink = Tables()
    go(spark, tmp_path / "in", query, sink, tmp_path / "checkpoint", feed)
    assert feed._query is None
    known = {name: float(i) for i, name in enumerate(names) if name != "u4"}
    remote = sb.Remote(lambda _: {}, known=known)
    wanted, _ = core([query], tables, remote)
    shown = ["query", "window_end", "rank", "id", "score", "value", "refreshes", "failures"]
    assert sink.table().select(shown).to_pylist() == wanted.select(shown).to_pylist()
    assert feed.fetch(["u3", "u4", "u5", "nobody"]) == {"u3": 3.0, "u4": None, "u5": 5.0}
    with pytest.raises(InputError, match="the changes are a batch DataFrame; give a streaming DataFrame"):
        sb.spark.Changes(spark.range(3), id="id", value="id")
    with pytest.raises(InputError, match="the stream of changes has no column 'x'; it has name, n, at"):
        sb.spark.Changes(stream(spark, tmp_path / "changes"), id="x", value="n")


@pytest.mark.parametrize("only_candidates", [False, True])
def test_a_change_of_an_object_outside_the_list_takes_effect(spark: Any, tmp_path: Path, only_candidates: bool) -> None:
    """What the stream of changes tells between two batches, of whoever it is, is in the next answer."""
    names = [f"u{i:03}" for i in range(30)]
    events = [pa.table({"t": [850] * 30 + [1_000], "id": [*names, "u000"], "x": [0.0] * 31}),
              pa.table({"t": [1_100], "id": ["u000"], "x": [0.0]})]  # fmt: skip
    write(tmp_path / "in", events)
    write(tmp_path / "changes", [pa.table({"name": names, "n": [float(i) for i in range(30)]})])
    feed = sb.spark.Changes(stream(spark, tmp_path / "changes"), id="name", value="n")

    class Telling(Tables):
        def write(self, answers: pa.Table, batch_id: int, session: Any) -> None:
            super().write(answers, batch_id, session)
            if batch_id == 0:
                write(tmp_path / "changes", [pa.table({"name": ["u003", "u029"], "n": [1e6, None]})], 1)
                assert feed._query is not None
                feed._query.processAllAvailable()

    sink, window = Telling(), sb.Window(1_000, slide=100)
    told = join(budget=0, n=0, policy="AT-BSM", only_candidates=only_candidates)
    query = sb.Query("q", k=2, score="x + value", window=window, join=told)
    go(spark, tmp_path / "in", query, sink, tmp_path / "checkpoint", feed)
    shown = sink.table().select(["rank", "id", "value"]).to_pylist()
    assert [tuple(row.values()) for row in shown] == [
        (1, "u029", 29.0), (2, "u028", 28.0), (1, "u003", 1e6), (2, "u028", 28.0),
    ]  # fmt: skip
    assert feed.drain(1) == {"u003": 1e6, "u029": None}, "a batch that is handled again is told the same"
    assert feed.drain(2) == {}


def test_a_service_that_hangs_does_not_hold_up_the_stream(spark: Any, tmp_path: Path) -> None:
    tables, over = batches(10, count=3), threading.Event()
    write(tmp_path / "in", tables)

    def hang(ids: Any) -> dict[Any, float]:
        over.wait(60)
        return dict.fromkeys(ids, 0.0)

    limits = Limits(timeout=0.05, deadline=0.05, retries=0, trip_after=2, cooldown=600)
    remote = sb.Remote(hang, limits=limits, known={f"u{i}": float(i) for i in range(20)})
    sink = Tables()
    handle = go(spark, tmp_path / "in", QUERIES[:1], sink, tmp_path / "checkpoint", remote)
    over.set()
    found = sink.table()
    assert set(found["refreshes"].to_pylist()) == {0}
    assert set(found["why"].to_pylist()) == {"remote values are stale or not known"}
    assert found["stale"].to_pylist().count(3) > 0
    assert sum(p["skyband"]["durationMs"]["answer"] for p in handle.recentProgress) < 30_000
    assert sum(p["skyband"]["remote"]["failures"] for p in handle.recentProgress) > 0


def test_a_service_that_fails_and_is_busy_is_used_again_when_it_is_well(spark: Any, tmp_path: Path) -> None:
    """Over real HTTP: 503 in the first batch, 429 in the second, replies in the third; every window is answered."""
    tables = batches(12, count=3)
    write(tmp_path / "in", tables)
    sink, moods = Tables(), ["down", "busy", "well"]
    told: list[tuple[str, float]] = []

    def answer(request: Request, _: int) -> Reply:
        told.append((moods[len(sink.found)], time.monotonic()))
        replies = {"down": Reply(status=503), "busy": Reply(status=429, headers={"retry-after": "1"})}
        asked = request.query["ids"][0].split(",")
        return replies.get(told[-1][0], Reply({name: {"n": 100.0 + int(name[1:])} for name in asked}))

    class Patient(Tables):
        """Gives the service the second that it has asked for."""

        def write(self, answers: pa.Table, batch_id: int, session: Any) -> None:
            sink.write(answers, batch_id, session)
            if batch_id == 1:
                time.sleep(max(told[-1][1] + 1.1 - time.monotonic(), 0.0))

    known = {f"u{i}": float(i) for i in range(20)}
    limits = Limits(deadline=0.5, retries=1, backoff=0.01, trip_after=100)
    with Loopback(answer) as server:
        remote = sb.Remote(HttpJson(f"{server.url}/?ids={{ids}}", "{id}.n"), limits=limits, known=known)
        handle = go(spark, tmp_path / "in", QUERIES[:2], Patient(), tmp_path / "checkpoint", remote)
    wanted, _ = core(QUERIES[:2], tables, sb.Remote(lambda _: {}, known=known))
    windows = [set(zip(table["query"].to_pylist(), table["window_end"].to_pylist(), strict=True))
               for table in (sink.table(), wanted)]  # fmt: skip
    assert windows[0] == windows[1]
    down, busy, well = (p["skyband"]["remote"] for p in handle.recentProgress)
    assert down["refreshes"] == busy["refreshes"] == 0 < well["refreshes"]
    assert down["failures"] > 0 < busy["failures"]
    asked = Counter(mood for mood, _ in told)
    assert asked["busy"] < busy["failures"] / 3 < asked["down"], "who is busy is left alone, who is down is tried again"
    last = sink.found[2]
    assert max(last["refreshes"].to_pylist()) == 3, "the budget of each answer"
    assert max(last["value"].to_pylist()) >= 100.0 > max(sink.found[1]["value"].to_pylist())
    assert 0 in last["age"].to_pylist()
    assert 0 not in sink.found[1]["age"].to_pylist()
