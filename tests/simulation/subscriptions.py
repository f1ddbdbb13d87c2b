"""Histories of subscriptions: drawn from a seed, played by an algorithm, and compared notice by notice.

What is true is `tests.simulation.plain_subscriptions`. The order of notices is compared as far as it is defined: by
moment, time alone before rows, row by row; and within one step, for each subscription. Algorithms that are approximate
are only held to what they say: nothing is exact, and every notice is of an event that came, with the score it has.
"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb
from skyband.algorithms import ALGORITHMS
from skyband.algorithms.topkw.sliding import Sliding
from skyband.answers.notices import Notice
from skyband.queries.scoring import Scoring
from tests.simulation.engines import Tables
from tests.simulation.histories import FILTERS, draw_rows, table_of
from tests.simulation.plain_subscriptions import Heard, Plain
from tests.simulation.runs import FOUND

METHODS = sorted(name for name, one in ALGORITHMS.items() if issubclass(one, Sliding))
STORED = FOUND / "subscriptions"
SELECT = ("n", "m")
COUNTED = ("rows", "rejected", "notices", "waiting")


@dataclass(frozen=True)
class Wish:
    """A subscription in plain values."""

    name: str
    k: int
    size: int
    counts: bool
    family: str = "x"  # "distance", "sum", "attributes", or an SQL expression
    values: dict[str, float] = field(default_factory=dict)  # the point, or the weights of a sum
    weights: dict[str, float] = field(default_factory=dict)
    order: str | None = None
    within: dict[str, list[float]] = field(default_factory=dict)
    where: str | None = None
    emit: str = "entries"
    since: int | None = None
    until: int | None = None

    def subscription(self) -> sb.Subscription:
        score: Scoring | str = self.family
        if self.family == "distance":
            score = sb.Distance(self.values)
        elif self.family == "sum":
            score = sb.WeightedSum(self.values)
        elif self.family == "attributes":
            score = sb.AttributeDistance(self.values, self.weights)
        return sb.Subscription(
            self.name, k=self.k, score=score, last=f"{self.size} events" if self.counts else self.size,
            order=self.order, within={name: tuple(edges) for name, edges in self.within.items()},  # type: ignore[arg-type,misc]
            where=self.where, emit=self.emit, since=self.since, until=self.until,  # type: ignore[arg-type]
        )  # fmt: skip

    def simpler(self) -> Iterator[Wish]:
        """Yield the same with something left out."""
        plain = Wish(self.name, self.k, self.size, self.counts)
        for name in ("where", "within", "since", "until", "order", "emit"):
            if getattr(self, name) != getattr(plain, name):
                yield replace(self, **{name: getattr(plain, name)})
        if self.family != "x":
            yield replace(self, family="x", values={}, weights={})
        if self.k > 1:
            yield replace(self, k=1)


@dataclass(frozen=True)
class Step:
    """One thing that happens: "push" (with rows), "add" (with a wish), "remove", "advance" (to a moment), "restart"."""

    do: str
    rows: tuple[dict[str, Any], ...] = ()
    ask: Wish | None = None
    name: str = ""
    moment: int = 0


@dataclass(frozen=True)
class History:
    """What happens to a stream; `apart` conditions have a group of their own, `least` events make a block."""

    seed: int
    text: bool
    apart: int
    least: int
    steps: tuple[Step, ...] = field(repr=False)

    @classmethod
    def from_json(cls, text: str) -> History:
        given = json.loads(text)
        steps = [
            Step(**step | {"rows": tuple(step["rows"]), "ask": None if step["ask"] is None else Wish(**step["ask"])})
            for step in given.pop("steps")
        ]
        return cls(**given, steps=tuple(steps))

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)


# Drawing them.


def draw(seed: int, on_spark: bool = False) -> History:
    """Draw a history.

    `on_spark`: one that Spark can play, where time passes with rows alone, and in which no two rows have the same time
    and id: rows of a micro-batch come in order of these.
    """
    rng = np.random.default_rng(seed)
    text, counts = bool(rng.integers(2)), bool(rng.integers(3) == 0)
    rows = draw_rows(rng, int(rng.integers(0, 120)), text)
    if on_spark:
        rows = list({(row["t"], row["id"]): row for row in rows}.values())
    times = [row["t"] for row in rows if row["t"] is not None]
    first, last = min(times, default=0), max(times, default=0)
    cuts = sorted(rng.integers(0, len(rows) + 1, int(rng.integers(0, 9))).tolist())
    names = itertools.count()

    def add() -> Step:
        return Step("add", ask=draw_wish(rng, f"s{next(names)}", counts, first, last))

    alone = bool(rng.integers(4) == 0)  # then late rows can be counted as well
    steps = [add() for _ in range(1 if alone else int(rng.choice([0, 1, 3, 6])))]
    alive = [str(step.ask.name) for step in steps if step.ask is not None]
    for low, high in itertools.pairwise([0, *cuts, len(rows)]):
        steps.append(Step("push", tuple(rows[low:high])))
        if not on_spark and rng.integers(4) == 0:
            steps.append(Step("advance", moment=int(rng.integers(first - 20, last + 60))))
        if rng.integers(3) == 0:
            steps.append(Step("restart"))
        if alone:
            continue
        if alive and rng.integers(3) == 0:
            steps.append(Step("remove", name=alive.pop(int(rng.integers(len(alive))))))
        for _ in range(int(rng.choice([0, 0, 1, 2]))):
            steps.append(add())
            if steps[-1].ask is not None and steps[-1].ask.until is None:  # the others may be gone by themselves
                alive.append(steps[-1].ask.name)
    begun = {step.ask.name for step in steps if step.ask is not None and step.ask.until is not None}
    kept = tuple(step for step in steps if not (step.do == "remove" and step.name in begun))
    return History(seed, text, int(rng.integers(3)), int(rng.choice([1, 4, 64])), kept)


def draw_wish(rng: np.random.Generator, name: str, counts: bool, first: int, last: int) -> Wish:
    def value() -> float:
        return float(rng.choice([-1.0, 0.0, 0.5, 1.0, 2.0]))

    family = str(rng.choice(["distance", "sum", "attributes", "x", "x + y", "coalesce(x, 0.0)"]))
    columns = [("x",), ("y",), ("x", "y")][rng.integers(3)]
    shaped = family in ("distance", "sum", "attributes")
    low, high = sorted([value(), value()])
    since, until = sorted(rng.integers(first - 5, last + 30, 2).tolist())
    return Wish(
        name, int(rng.choice([1, 2, 3, 7])), int(rng.choice([1, 2, 5, 10, int(rng.integers(1, 80))])), counts,
        family=family, values={column: value() for column in columns} if shaped else {},
        weights={column: float(rng.choice([0.0, 0.5, 2.0])) for column in columns} if family == "attributes" else {},
        order=[None, "asc", "desc"][rng.integers(3)],
        within={str(rng.choice(["x", "y"])): [low, float(rng.choice([high, np.inf]))]} if rng.integers(4) == 0 else {},
        where=str(rng.choice(list(FILTERS))) if rng.integers(3) == 0 else None,
        emit="changes" if rng.integers(3) else "entries",
        since=since if rng.integers(5) == 0 else None, until=until + 1 if rng.integers(4) == 0 else None,
    )  # fmt: skip


# The truth of a whole history.


@dataclass
class Truth:
    """What everyone hears, step by step, and what is counted in the end."""

    steps: list[list[Heard]] = field(default_factory=list)
    tops: list[dict[str, list[tuple[Any, ...]]]] = field(default_factory=list)  # by push
    counts: dict[str, int] = field(default_factory=dict)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    late: int | None = None  # None: nobody says how late rows of several subscriptions are added up
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, history: History) -> Truth:
        truth, now, number = cls(), -(10**18), 0
        plain: dict[str, Plain] = {}
        everyone: list[Plain] = []
        for step in history.steps:
            before = {id(each): len(each.heard) for each in everyone}
            if step.ask is not None:
                plain[step.ask.name] = Plain(step.ask.subscription(), now)
                everyone.append(plain[step.ask.name])
                before[id(everyone[-1])] = 0
            elif step.do == "remove":
                del plain[step.name]
            elif step.do == "advance":
                now = max(now, step.moment)
                for each in plain.values():
                    each.pass_time(now)
            for row in step.rows:
                whole = row["t"] is not None and row["id"] is not None
                now = max(now, row["t"]) if whole else now
                lacking = not whole
                for each in plain.values():
                    each.come(row, number)
                    lacking |= each.lacks(row)
                truth.rejected += [row] if lacking else []
                truth.rows[number] = row
                number += 1
            truth.steps.append([h for each in everyone for h in each.heard[before[id(each)] :]])
            plain = {name: each for name, each in plain.items() if not each.ended}
            truth.tops.append({name: top_of(each) for name, each in plain.items()})
        waiting = sum(each.one.starts is not None and each.one.starts > now for each in plain.values())
        notices = sum(len(each.heard) for each in everyone)
        truth.counts = {"rows": number, "rejected": len(truth.rejected), "notices": notices, "waiting": waiting}
        if len(everyone) == len(plain) == 1:
            truth.late = everyone[0].late
        return truth


def top_of(each: Plain) -> list[tuple[Any, ...]]:
    return [
        (rank, event.row["id"], event.score, event.row["t"], values_of(event.row))
        for rank, event in enumerate(each.top, 1)
    ]


def values_of(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in SELECT}


# Playing and judging.


@dataclass
class Outcome:
    """What was seen after each step."""

    steps: list[list[Notice]] = field(default_factory=list)
    tops: list[dict[str, list[tuple[Any, ...]]]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    late: int = 0


def play(history: History, method: str) -> Outcome:
    """Play a history; a block is of so few events, and so few slots are spare, that all of it happens."""
    with ExitStack() as stack:
        for name, value in (
            ("skyband.algorithms.topkw.blocks.LEAST", history.least),
            ("skyband.engine.subscription_group.SPARE", 20),
            ("skyband.engine.subscriptions.APART", history.apart),
        ):
            stack.enter_context(patch(name, value))
        return _play(history, method)


def _play(history: History, method: str) -> Outcome:
    outcome = Outcome()

    def reject(batch: pa.RecordBatch) -> None:
        outcome.rejected += batch.to_pylist()

    following = sb.Subscriptions(algorithm=method, time="t", id="id", select=SELECT, on_rejected=reject)
    following.declare(table_of((), history.text).schema)
    for step in history.steps:
        told: Sequence[Notice] = ()
        if step.ask is not None:
            following.add(step.ask.subscription())
        elif step.do == "remove":
            following.remove(step.name)
        elif step.do == "restart":
            following = sb.Subscriptions.restore(following.snapshot(), on_rejected=reject)
        elif step.do == "advance":
            told = following.advance(step.moment)
        else:
            told = following.push(table_of(step.rows, history.text))
        outcome.steps.append(list(told))
        outcome.tops.append(
            {
                name: [(row.rank, row.id, row.score, row.time, row.values) for row in following.top(name)]
                for name in following.subscriptions
            }
        )
    stats = following.stats()
    outcome.counts, outcome.late = {name: getattr(stats, name) for name in COUNTED}, stats.late
    return outcome


def judge(history: History, method: str) -> None:
    """Raise AssertionError at the first difference between what an algorithm does and what is true."""
    outcome, truth = play(history, method), Truth.of(history)
    exact = ALGORITHMS[method].exact or method == "adaptive"  # which changes after more events than there are
    for place, (found, expected) in enumerate(zip(outcome.steps, truth.steps, strict=True)):
        when = f"{method}, step {place} ({history.steps[place].do})"
        moments = [notice.at for notice in found]
        assert moments == sorted(moments), f"{when}: not in the order of what happened: {moments}"
        if exact:
            compare(found, expected, when)
            tops = outcome.tops[place]
            assert tops == truth.tops[place], f"{when}: the best\nfound    {tops}\nexpected {truth.tops[place]}"
        else:
            hold_to_its_word(found, history, when)
    if not exact:
        return
    assert outcome.counts == truth.counts, f"counted {outcome.counts}\nexpected {truth.counts}"
    assert repr(outcome.rejected) == repr(truth.rejected), f"rejected {outcome.rejected}\nexpected {truth.rejected}"
    assert truth.late in (None, outcome.late), f"late {outcome.late}, expected {truth.late}"


def compare(found: Sequence[Notice], expected: Sequence[Heard], when: str) -> None:
    """Compare the notices of a step, everything in them; who is told first at one moment is not defined."""
    turn = sorted(expected, key=lambda heard: (heard.at, heard.row))  # stable: in order for each subscription
    place = 0
    for _, group in itertools.groupby(turn, key=lambda heard: (heard.at, heard.row)):
        wanted = [
            (h.at, h.subscription, h.change, h.event.row["id"], h.event.score, h.event.row["t"], values_of(h.event.row))
            for h in group
        ]
        seen = [seen_of(notice) for notice in found[place : place + len(wanted)]]
        assert by_name(seen) == by_name(wanted), f"{when}\nfound    {by_name(seen)}\nexpected {by_name(wanted)}"
        place += len(wanted)
    assert place == len(found), f"{when}: too much: {found[place:]}"
    assert all(notice.exact for notice in found), f"{when}: not exact"


def seen_of(notice: Notice) -> tuple[Any, ...]:
    return (notice.at, notice.subscription, notice.change, notice.id, notice.score, notice.time, notice.values)


def by_name(notices: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(notices, key=lambda notice: str(notice[1]))


def hold_to_its_word(found: Sequence[Notice], history: History, when: str) -> None:
    """Hold an approximate algorithm to what it says: nothing is exact, and everything is about events that came."""
    wishes = {step.ask.name: Plain(step.ask.subscription()) for step in history.steps if step.ask is not None}
    rows: dict[Any, list[dict[str, Any]]] = {}
    for row in (row for step in history.steps for row in step.rows):
        rows.setdefault((row["t"], row["id"]), []).append(row)
    for notice in found:
        assert not notice.exact, f"{when}: an approximate algorithm says that it is exact"
        same = [row for row in rows.get((notice.time, notice.id), []) if values_of(row) == notice.values]
        scores = [wishes[notice.subscription].worth(row) for row in same]
        assert notice.score in scores, f"{when}: {notice}, which is worth {scores}"


# Spark.


def on_spark(history: History, session: Any) -> None:
    """Play a history on Spark, and compare every notice with the local engine's for the rows in Spark's order."""
    with tempfile.TemporaryDirectory() as folder:
        _on_spark(history, session, Path(folder))


def _on_spark(history: History, session: Any, folder: Path) -> None:
    local = sb.Subscriptions(time="t", id="id", select=SELECT)
    local.declare(table_of((), history.text).schema)
    (folder / "in").mkdir()
    sink = Tables()
    expected: list[list[dict[str, Any]]] = []
    waiting, handle = 0, None
    schema = session.createDataFrame(table_of((), history.text)).schema
    begun = [step.ask.subscription() for step in itertools.takewhile(lambda step: step.do == "add", history.steps)
             if step.ask is not None]  # fmt: skip
    local.add(*begun)
    for step in (*history.steps[len(begun) :], Step("restart")):
        if step.do == "push":
            file = folder / "in" / f"{len(expected):04}.parquet"
            pq.write_table(table_of(step.rows, history.text), file)
            os.utime(file, (10**9 + len(expected),) * 2)
            rows = table_of(step.rows, history.text).sort_by([("t", "ascending"), ("id", "ascending")])
            expected.append(local.push(rows).table().to_pylist())
            waiting += 1
            continue
        if waiting or handle is None:
            df = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
            handle = sb.spark.subscribe(
                df, begun, time="t", id="id", select=SELECT, sink=sink, checkpoint=folder / "state",
                trigger={"availableNow": True},
            )  # fmt: skip
            handle.awaitTermination()
            waiting = 0
        if step.ask is not None:
            handle.add(step.ask.subscription())
            local.add(step.ask.subscription())
        elif step.do == "remove":
            handle.remove(step.name)
            local.remove(step.name)
    for batch, notices in enumerate(expected):
        told = sink.found[batch].to_pylist() if batch in sink.found else []
        found = [row | {"batch": None} for row in told]
        assert found == [row | {"batch": None} for row in notices], (
            f"batch {batch}\nfound    {found}\nexpected {notices}"
        )
