"""Histories of queries that aggregate or join: drawn from a seed, played by a monitor, and compared with the truth.

Windows, late rows and changes are those of rankings, `tests.simulation.truth`; what a window shows is the oracle of
`tests.joined`. Services say the truth, fail, leave ids out, or answer with garbage. An answer that is flagged exact is
compared with the truth, and must be flagged so where everything may be asked of a service that says it. One that is
not is compared with what the service has said so far, where that is known for the moment of the answer.
"""

from __future__ import annotations

import itertools
import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import skyband as sb
from skyband.remote.services import Limits
from skyband.windows import NEVER
from tests.joined import oracle
from tests.simulation import engines, histories
from tests.simulation.histories import FILTERS, Ask, Step, draw_rows, table_of
from tests.simulation.judge import judge as judge_ranking
from tests.simulation.runs import FOUND
from tests.simulation.truth import BEFORE_ALL, Event, Followed, Reply, difference
from tests.simulation.truth import Truth as RankingTruth

STORED = FOUND / "joins"
SERVICE = "value"
Rows = list[dict[str, Any]]


def fine(value: Any) -> bool:
    return value is not None and not math.isnan(value)


def numbers(mine: Rows, name: str) -> list[Any]:
    return [row[name] for row in mine if fine(row[name])]


def total(mine: Rows, name: str) -> Any:
    """Return the sum; None of nothing, or of integers where it does not fit 64 bits."""
    found = numbers(mine, name)
    if not found or (isinstance(found[0], int) and not -(2**63) <= sum(found) < 2**63):
        return None
    return sum(found)


def _over(name: str, of: Callable[[list[Any]], float]) -> Callable[[Rows], Any]:
    return lambda mine: of(numbers(mine, name)) if numbers(mine, name) else None


AGGREGATES: dict[str, Callable[[Rows], Any]] = {
    "count(*)": len,
    "count(y)": lambda mine: len(numbers(mine, "y")),
    "sum(x)": lambda mine: total(mine, "x"),
    "sum(i)": lambda mine: total(mine, "i"),
    "max(x)": _over("x", max),
    "min(i)": _over("i", min),
    "avg(i)": _over("i", lambda found: float(sum(found)) / len(found)),
    "avg(y)": _over("y", lambda found: sum(found) / len(found)),
}
LATEST: dict[str, Callable[[dict[str, Any]], Any]] = {
    "x": lambda row: row["x"],
    "coalesce(y, 0.0)": lambda row: 0.0 if row["y"] is None else row["y"],
}
CONDITIONS: dict[str, Callable[[float], bool]] = {
    f"{SERVICE} > 5": lambda value: value > 5, f"{SERVICE} <= 4": lambda value: value <= 4,
}  # fmt: skip
POLICIES = (None, None, "AT-LRU", "AT-TSM", "AT-WBM", "WSJ-RND", "WSJ-LRU", "WSJ-WBM", "AT-GAIN.set")
FILTER_POLICIES = (None, "Filter Update", "WSJ-RND.F", "WSJ-WBM", "AT-GAIN")


@dataclass(frozen=True)
class IdAsk(Ask):
    """A query that ranks ids, in plain values: `score` is the stream's part of it."""

    group_by: str | None = None
    joined: bool = False
    on: str | None = None
    condition: str | None = None
    whole: bool = False  # a set: all that pass
    budget: int | None = None
    policy: str | None = None
    n: int = 3
    only: bool = False
    default: float | None = None

    def query(self) -> sb.Query:
        join = sb.Join(
            SERVICE, on=self.on, budget=self.budget, policy=self.policy, n=self.n, only_candidates=self.only,
            default=self.default,
        )  # fmt: skip
        conditions = [text for text in (self.where, self.condition) if text is not None]
        return sb.Query(
            self.name, k="all" if self.whole else self.k, score=self.score + f" + {SERVICE}" * self.joined,
            window=sb.Window(self.size, slide=self.slide, offset=self.offset, closed=self.closed),  # type: ignore[arg-type]
            where=" AND ".join(conditions) or None, order=self.order, emit=self.emit, select=self.select,  # type: ignore[arg-type]
            group_by=self.group_by, join=join if self.joined else None,
        )  # fmt: skip

    @property
    def aggregates(self) -> bool:
        return self.score in AGGREGATES

    @property
    def key(self) -> str:
        return self.group_by or "id"

    @property
    def asks_all(self) -> bool:
        """Whether what the policy leaves unspent goes to the rest of the window."""
        return not self.only and self.policy != "WST"

    def simpler(self) -> Iterator[IdAsk]:
        plain = IdAsk(self.name, self.k, self.size, self.slide, self.score, joined=self.joined)
        for name in (
            "where",
            "select",
            "emit",
            "order",
            "offset",
            "closed",
            "budget",
            "policy",
            "only",
            "default",
            "on",
        ):
            if getattr(self, name) != getattr(plain, name):
                yield replace(self, **{name: getattr(plain, name)})
        if not self.whole and self.condition is not None:
            yield replace(self, condition=None, policy=None)
        if self.k > 1:
            yield replace(self, k=1)
        if self.slide != self.size:
            yield replace(self, slide=self.size)


@dataclass(frozen=True)
class History(histories.History):
    """A history whose steps also change the "world" of remote values, or "tell" of it: rows of an id and a value.

    `service` says how it behaves; `stepwise`, that time passes from one window's end to the next.
    """

    service: str = "truthful"
    stepwise: bool = True

    @classmethod
    def from_json(cls, text: str) -> History:
        given = json.loads(text)
        steps = []
        for step in given.pop("steps"):
            ask = step.pop("ask")
            asked = None if ask is None else IdAsk(**ask | {"select": tuple(ask["select"])})
            steps.append(Step(step["do"], tuple(step["rows"]), asked, step["name"]))
        return cls(**given, steps=tuple(steps))


# Drawing them.


def draw(seed: int, joins: bool = True, on_spark: bool = False) -> History:
    """Draw a history of aggregated queries and, perhaps, joined ones."""
    rng = np.random.default_rng(seed)
    joins = joins and bool(rng.integers(4))
    text, delay = bool(rng.integers(2)), int(rng.choice([0, 3, 15])) if rng.integers(5) else None
    rows = [tidy(row) for row in draw_rows(rng, int(rng.integers(0, 70)), text)]
    if rng.integers(3) == 0:
        send_again(rng, rows)
    cuts = sorted(rng.integers(0, len(rows) + 1, int(rng.integers(0, 8))).tolist())
    closed = str(rng.choice(["left", "right"]))
    begun = [draw_ask(rng, f"q{i}", joins, text, closed) for i in range(int(rng.choice([1, 1, 2, 3])))]
    steps, alive = [Step("register", ask=ask) for ask in begun], [ask.name for ask in begun]
    homes = sorted({row["id"] for row in rows if row["id"] is not None}) + ["p", "q", "ü"] * text
    for low, high in itertools.pairwise([0, *cuts, len(rows)]):
        if joins and rng.integers(3):
            do = "world" if rng.integers(3) else "tell"
            steps.append(Step(do, tuple(draw_values(rng, homes))))
        if rng.integers(3) == 0:
            steps += _changes(rng, alive, joins, text, closed, on_spark)
        steps.append(Step("push", tuple(rows[low:high])))
        if rng.integers(4) == 0:
            steps.append(Step("restart"))
    service = str(rng.choice(["truthful", "truthful", "truthful", "fails", "gaps", "garbage"]))
    return History(seed, delay, text, tuple(steps), service, bool(rng.integers(3)))


def send_again(rng: np.random.Generator, rows: list[dict[str, Any]]) -> None:
    """Let some ids have other events at the same times, which come later."""
    for place in range(len(rows) - 1, -1, -2):
        other = {"x": float(rng.integers(3)), "y": float(rng.integers(3)), "n": int(rng.integers(3)), "m": "b"}
        rows.insert(place + 1 + int(rng.integers(12)), rows[place] | other)


def tidy(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with a score that adds up exactly, in whatever order."""
    return row if not fine(row["x"]) or math.isinf(row["x"]) else row | {"x": round(row["x"] * 8) / 8}


def draw_values(rng: np.random.Generator, names: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Half of the values change, by far; ids come and go."""
    for name in names:
        if rng.integers(2):
            value = float(rng.choice([int(rng.integers(-5, 15)), 4, 5, 1_000, -1_000]))
            yield {"id": name, "value": None if rng.integers(4) == 0 else value}


def _changes(
    rng: np.random.Generator, alive: list[str], joins: bool, text: bool, closed: str, on_spark: bool
) -> list[Step]:  # fmt: skip
    what = str(rng.choice(["register", "pause", "resume", "remove", *([] if on_spark else ["change"])]))
    if what != "register" and not alive:
        return []
    name = f"n{rng.integers(10**6)}" if what == "register" else alive[rng.integers(len(alive))]
    if what in ("register", "change"):
        ask = draw_ask(rng, name, joins, text, closed)
        alive += [name] if what == "register" else []
        # What overflows is counted window by window, also of events of before.
        return [Step(what, ask=replace(ask, score="count(*)") if ask.score == "sum(i)" else ask)]
    if what == "remove":
        alive.remove(name)
    return [Step(what, name=name)]


def draw_ask(rng: np.random.Generator, name: str, joins: bool, text: bool, closed: str) -> IdAsk:
    """Draw a query; joined ones are all `closed` on one side.

    Else a window may be answered after another one that ends at the same moment, from what was fetched for that: it is
    right as of this moment, and the world has gone on.
    """
    size = int(rng.choice([1, 5, 10, int(rng.integers(1, 30))]))
    slide = int(rng.choice([size, max(1, size // 2), int(rng.integers(1, size + 1))]))
    joined = joins and bool(rng.integers(4))
    scores = list(AGGREGATES) if not joined or rng.integers(2) else list(LATEST)
    score = str(rng.choice(scores))
    condition = str(rng.choice(list(CONDITIONS))) if joined and rng.integers(3) == 0 else None
    policies = POLICIES if condition is None else FILTER_POLICIES
    whole = condition is not None and bool(rng.integers(2))
    ask = IdAsk(
        name, k=int(rng.choice([1, 2, 3, 200])), size=size, slide=slide, score=score,
        where=None if rng.integers(2) else str(rng.choice(list(FILTERS))),
        order="desc" if whole else str(rng.choice(["desc", "desc", "asc"])),
        emit=str(rng.choice(["final", "final", "changes", "entered", "left"])),
        select=[(), ("n",), ("m", "n"), ("n", "m")][rng.choice(4, p=[0.4, 0.2, 0.2, 0.2])],
        group_by="g" if score in AGGREGATES and text and not joined and rng.integers(3) == 0 else None,
        joined=joined, on="g" if joined and text and rng.integers(3) == 0 else None, condition=condition, whole=whole,
    )  # fmt: skip
    if joined:
        ask = replace(
            ask, policy=policies[rng.integers(len(policies))], n=int(rng.integers(4)),
            budget=[None, None, 0, 1, 2, 5][rng.integers(6)], only=bool(rng.integers(5) == 0),
            default=3.0 if rng.integers(6) == 0 else None,
        )  # fmt: skip
    if rng.integers(2):
        ask = replace(ask, offset=int(rng.integers(-9, 9)), closed=str(rng.choice(["left", "right"])))
    return replace(ask, closed=closed) if joined else ask


# The truth.


class World:
    """The remote side: the values of now, what was said of each id, and how the service behaves."""

    def __init__(self, behaviour: str) -> None:
        self.behaviour = behaviour
        self.values: dict[Any, float] = {}
        self.known: dict[Any, float | None] = {}  # what was said last
        self.said: dict[Any, set[float | None]] = {}
        self.calls = 0
        self.asked: list[Any] = []

    def change(self, rows: Sequence[dict[str, Any]]) -> None:
        for row in rows:
            self.values[row["id"]] = row["value"]
        self.values = {name: value for name, value in self.values.items() if value is not None}

    def hear(self, name: Any, value: float | None) -> None:
        self.known[name] = value
        self.said.setdefault(name, set()).add(value)

    def __call__(self, ids: Sequence[Any]) -> Mapping[Any, Any]:
        self.calls += 1
        self.asked += ids
        if self.behaviour == "fails" and self.calls % 3 == 0:
            msg = "out of order"
            raise RuntimeError(msg)
        reply: dict[Any, Any] = {}
        for place, name in enumerate(ids):
            odd = (self.calls + place) % 3 == 0
            if odd and self.behaviour == "garbage":
                reply[name] = ["many", float("nan"), [1.0], True][place % 4]
            elif not (odd and self.behaviour == "gaps"):
                reply[name] = self.values.get(name)
                self.hear(name, reply[name])
        return reply | ({"nobody": 1e9} if self.behaviour == "garbage" else {})


@dataclass
class Window(Reply):
    """What one answer must show, and what it is made of."""

    ask: IdAsk | None = None
    inside: list[dict[str, Any]] = field(default_factory=list)

    def best(self, remote: Mapping[Any, float | None] | None) -> list[oracle.Found]:
        """Return the rows of the window, with these remote values."""
        ask = self.ask
        assert ask is not None
        return oracle.best_of(
            ask.query(), self.inside, lambda mine, value: score_of(ask, mine, value), remote, key=ask.key,
            on=ask.on or ask.key, passes=lambda value: ask.condition is None or CONDITIONS[ask.condition](value),
            part=None if ask.aggregates else LATEST[ask.score],
        )  # fmt: skip

    @property
    def remotes(self) -> set[Any]:
        """The remote ids of the objects of the window: of ids that have a score, whatever the remote value is."""
        ask = self.ask
        assert ask is not None
        everyone = replace(self, ask=replace(ask, k=10**6, whole=False, condition=None, joined=False))
        return {one.event[ask.on or ask.key] for one in everyone.best(None)}


def overflows(reply: Reply) -> int:
    """Return how many ids of a window have an integer sum that does not fit."""
    assert isinstance(reply, Window)
    assert reply.ask is not None
    if reply.ask.score != "sum(i)":
        return 0
    names = {row[reply.ask.key] for row in reply.inside}
    sums = (sum(numbers([row for row in reply.inside if row[reply.ask.key] == name], "i")) for name in names)
    return sum(not -(2**63) <= found < 2**63 for found in sums)


def score_of(ask: IdAsk, mine: Rows, value: float) -> float | None:
    part = AGGREGATES[ask.score](mine) if ask.aggregates else LATEST[ask.score](mine[-1])
    return None if part is None else float(part + value if ask.joined else part)


def shown_of(ask: IdAsk, found: Sequence[oracle.Found]) -> list[Any]:
    """Return rows as they are seen: rank, id, score, time, remote value, selected columns."""
    return [
        (
            None if ask.whole else rank, one.id, one.score, one.time, one.value,
            tuple(one.event[name] for name in ask.select),
        )
        for rank, one in enumerate(found, 1)
    ]  # fmt: skip


@dataclass
class PerId(Followed):
    """One query that ranks ids; its windows are those of a ranking."""

    unfit: int = 0  # ids whose integer sum does not fit, window by window, whether anybody sees its answer or not
    hidden: bool = False
    fates: Counter[str] = field(default_factory=Counter)

    @property
    def counts(self) -> dict[str, int]:
        """What the query has seen, as `stats().groups` says it."""
        fates = self.fates
        return {
            "events": fates["in"] + fates["partly"], "rejected": fates["rejected"] + self.unfit,
            "late": fates["late"], "partly_late": fates["partly"],
        }  # fmt: skip

    @property
    def positions(self) -> list[int]:
        return [event.position for event in self.events]

    def due(self, limit: int) -> list[Reply]:
        self.hidden, self.paused = self.paused, False
        replies = super().due(limit)
        self.paused = self.hidden
        self.unfit += sum(overflows(reply) for reply in replies)
        return [] if self.paused else replies

    def take(self, row: dict[str, Any], arrival: int) -> str:
        fate = self.fate(row, arrival)
        self.fates[fate] += 1
        return fate

    def fate(self, row: dict[str, Any], arrival: int) -> str:
        """Take in a row; say what became of it."""
        ask = self.ask
        assert isinstance(ask, IdAsk)
        if ask.where is not None and FILTERS[ask.where](row) is not True:
            return "out"
        nobody = row[ask.key] is None and (ask.group_by is None or ask.joined)  # else NULL is a group
        lacking = row["t"] is None or nobody or (ask.on is not None and row[ask.on] is None)
        if lacking or not (ask.aggregates or fine(LATEST[ask.score](row))):
            return "rejected"
        if self.last_end(row["t"]) <= self.closed_to:
            return "late"
        self.events.append(Event(row["t"], row[ask.key], 0.0, row, (), arrival, row["t"]))
        return "partly" if self.first_end(row["t"]) <= self.closed_to else "in"

    def reply(self, end: int, provisional: bool = False) -> Reply:
        ask, inside = self.ask, self.inside(end)
        assert isinstance(ask, IdAsk)
        start = end - ask.size
        since = self.from_the_start or any(e.arrival >= self.came for e in inside)
        unseen = start >= self.newest if ask.closed == "right" else start > self.newest
        exact = self.from_the_start or unseen
        found = Window(ask.name, start, end, [], since, exact, provisional, ask=ask, inside=[e.part for e in inside])
        if not ask.joined:
            found.rows = [(None, *row[:4], row[5]) for row in shown_of(ask, found.best(None))]
        if not ask.joined and ask.emit != "final" and not self.hidden:
            changes = difference(self.previous, found.rows, by_id=ask.emit == "changes")
            found.changes = [change for change in changes if ask.emit in ("changes", change[0])]
            self.previous = found.rows
        return found


def unfit_of(query: Followed) -> int:
    assert isinstance(query, PerId)
    return query.unfit


class Truth(RankingTruth):
    """What must be seen of a history of such queries."""

    @property
    def from_the_start(self) -> set[str]:
        """The queries that never were anything but there from the start."""
        later = {step.ask.name for step in self.history.steps[len(self.history.begun) :] if step.ask is not None}
        return {ask.name for ask in self.history.begun} - later

    def register(self, ask: Ask) -> None:
        paused = ask.name in self.queries and self.queries[ask.name].paused
        query = PerId(ask, len(self.seen), self.newest, self.limit(ask), paused=paused)
        for arrival, row in enumerate(self.seen):
            query.take(row, arrival)
        self.queries[ask.name] = query


# Playing and judging.


@dataclass
class Shown:
    """One answer as a user sees it."""

    answer: sb.Answer
    rows: list[Any]
    ages: list[int | None]

    @classmethod
    def of(cls, answer: sb.Answer, ask: IdAsk) -> Shown:
        rows = [
            (r.rank, r.id, r.score, r.time, r.values.get(SERVICE), tuple(r.values[name] for name in ask.select))
            for r in answer.rows
        ]
        return cls(answer, rows, [row.age for row in answer.rows])


def on_spark(history: History, session: Any) -> None:
    """Play a history of aggregated queries on Spark, and compare it with the truth."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = engines.stream(history, session, Path(folder))
        judge_ranking(outcome, Truth.of(history), ends=False, tables=True)


def judge(history: History) -> None:
    """Play a history with a monitor, and raise AssertionError at the first difference from the truth."""
    Play(history).run()


class Play:
    """A monitor and the truth, side by side."""

    def __init__(self, history: History) -> None:
        self.history, self.world, self.truth = history, World(history.service), Truth(history)
        self.monitor = sb.Monitor(time="t", id="id", services=self.services())
        self.monitor.declare(table_of((), history.text).schema)
        self.previous: dict[str, list[Any]] = {}
        self.unfit = 0  # of queries that are gone
        self.told: dict[Any, int | None] = {}  # as of which watermark

    def services(self) -> dict[str, Any]:
        limits = Limits(batch=4, parallel=1, retries=0, timeout=60, deadline=60, trip_after=10**6, remember_missing=0)
        return {SERVICE: sb.Remote(self.world, limits=limits)}

    def run(self) -> None:
        for place, step in enumerate(self.history.steps):
            when = f"step {place} ({step.do})"
            if step.do == "restart":
                self.monitor = sb.Monitor.restore(self.monitor.snapshot(), services=self.services())
            elif step.do == "world":
                mark = self.monitor.watermark  # what was told as of it is true as of it, and changes later
                self.world.change([row for row in step.rows if self.told.get(row["id"], BEFORE_ALL) != mark])
            elif step.do == "tell":
                self.tell(step.rows)
            elif step.do == "push":
                self.push(step.rows, when)
            else:
                engines.change(self.monitor, step)
                self.turn(step)
        last = [reply for q in self.truth.queries.values() if q.events for reply in q.due(q.end)]
        self.check(list(self.monitor.finish()), last, "at the end")
        stats = self.monitor.stats()
        counts = {name: getattr(stats, name) for name in ("rows", "rejected", "late", "partly_late")}
        expected = {name: getattr(self.truth, name) for name in counts}
        expected["rejected"] += self.unfit + sum(unfit_of(query) for query in self.truth.queries.values())
        assert counts == expected, f"counted {counts}\nexpected {expected}"
        for group in stats.groups:
            query = self.truth.queries[group.queries[0]]
            assert isinstance(query, PerId)
            found = {name: getattr(group, name) for name in query.counts}
            if query.from_the_start:
                assert found == query.counts, f"{group.queries}: counted {found}\nexpected {query.counts}"

    def tell(self, rows: Sequence[dict[str, Any]]) -> None:
        """Let the remote side tell what is new; it is the truth."""
        self.world.change(rows)
        for row in rows:
            self.world.hear(row["id"], row["value"])
            self.told[row["id"]] = self.monitor.watermark
        self.monitor.push_changes(SERVICE, {row["id"]: row["value"] for row in rows})

    def turn(self, step: Step) -> None:
        name = step.name if step.ask is None else step.ask.name
        if name in self.truth.queries and step.do in ("change", "remove"):
            self.unfit += unfit_of(self.truth.queries[name])
        if step.ask is not None:
            self.truth.register(step.ask)
            self.previous.pop(step.ask.name, None)
        elif step.do == "remove":
            del self.truth.queries[step.name]
            self.previous.pop(step.name, None)
        else:
            self.truth.queries[step.name].paused = step.do == "pause"

    def push(self, rows: Sequence[dict[str, Any]], when: str) -> None:
        replies = self.truth.push(rows)
        self.monitor.push(table_of(tuple(rows), self.history.text))
        if self.history.delay is None or self.monitor.newest == NEVER:
            assert not replies
            return
        mark = self.monitor.newest - self.history.delay
        moments = {end + shift for end in (reply.end for reply in replies) for shift in (0, 1)}
        for moment in [*sorted(m for m in moments if m < mark and self.history.stepwise), mark]:
            found = list(self.monitor.advance(moment))
            due = [reply for reply in replies if reply.end + self.shift(reply) <= moment]
            replies = [reply for reply in replies if reply not in due]
            self.check(found, due, f"{when}, to {moment}")

    def shift(self, reply: Reply) -> int:
        assert isinstance(reply, Window)
        assert reply.ask is not None
        return 1 if reply.ask.closed == "right" else 0

    def check(self, found: Sequence[sb.Answer], expected: Sequence[Reply], when: str) -> None:
        names = [(answer.query, answer.end) for answer in found]
        assert len(names) == len(set(names)), f"{when}: a window twice: {names}"
        ends: list[Any] = [answer.end for answer in found]
        assert ends == sorted(ends), f"{when}: not in the order of their ends: {ends}"
        due = {(reply.query, reply.end): reply for reply in expected}
        moments = {reply.end + self.shift(reply) for reply in expected if reply.ask.joined}  # type: ignore[attr-defined]
        for answer in found:
            reply = due.pop((answer.query, int(answer.end)), None)  # type: ignore[arg-type]
            what = f"{when}, {answer.query} [{answer.start}, {answer.end})"
            if reply is None:  # a query that came later may answer windows of before its first event
                assert answer.query not in self.truth.from_the_start, f"{what}: not to be answered: {answer.rows}"
                assert not answer.rows, f"{what}: not to be answered: {answer.rows}"
                continue
            assert isinstance(reply, Window)
            assert reply.ask is not None
            self.compare(Shown.of(answer, reply.ask), reply, reply.ask, what, alone=len(moments) == 1)
        left = [(reply.query, reply.start, reply.end) for reply in due.values() if reply.must_show]
        assert not left, f"{when}: not answered: {left}"

    def compare(self, shown: Shown, reply: Window, ask: IdAsk, what: str, alone: bool) -> None:
        answer, rows = shown.answer, shown.rows
        assert answer.start == reply.start, what
        true = shown_of(ask, reply.best(self.world.values if ask.joined else None))
        if answer.exact:
            assert rows == true, f"{what}, exact\nfound    {rows}\nexpected {true}"
            assert answer.why is None, what
        else:
            assert not (reply.must_be_exact and self.must_be_exact(reply, ask)), f"{what}: not exact, {answer.why}"
            warming = answer.why == "warming up"
            assert warming or ask.joined, f"{what}: {answer.why}"
            assert not (warming and reply.must_be_exact), f"{what}: it has seen all that there was"
            if ask.joined and not warming:
                self.hold_to_its_word(shown, reply, ask, what, alone)
        if ask.joined:
            self.count(shown, reply, ask, what)
        if ask.emit != "final":
            self.compare_changes(shown, ask, what)

    def must_be_exact(self, reply: Window, ask: IdAsk) -> bool:
        if not ask.joined:
            return True
        enough = ask.budget is None or ask.budget >= len(reply.remotes)
        return enough and ask.asks_all and self.history.service == "truthful"

    def hold_to_its_word(self, shown: Shown, reply: Window, ask: IdAsk, what: str, alone: bool) -> None:
        """Compare an answer that is not exact with what the service has said."""
        answer = shown.answer
        reasons = {"remote values are stale or not known": True, "remote values of other objects may be stale": False}
        assert answer.why in reasons, f"{what}: {answer.why}"
        assert reasons[answer.why] == bool(answer.stale or answer.unknown), f"{what}: {answer.why}"
        listed = ask.only and ask.condition is None
        if alone and not listed:
            known = {name: self.world.known.get(name, ask.default) for name in reply.remotes}
            expected = shown_of(ask, reply.best(known))
            assert shown.rows == expected, f"{what}, by what was said\nfound    {shown.rows}\nexpected {expected}"
            return
        for rank, name, score, time, value, values in shown.rows:
            mine = [row for row in reply.inside if row[ask.key] == name]
            assert mine, f"{what}: {name} is not in the window"
            (one,) = replace(reply, inside=mine).best({row[ask.on or ask.key]: value for row in mine})
            assert (one.time, tuple(one.event[n] for n in ask.select)) == (time, values), f"{what}: {name}"
            said = self.world.said.get(one.event[ask.on or ask.key], set()) | {ask.default}
            assert value in said, f"{what}: {name} has {value}, and {said} was said"
            sign = 1 if ask.order == "desc" else -1
            assert sign * score <= sign * one.score if listed else score == one.score, f"{what}: {rank}, {name}"

    def count(self, shown: Shown, reply: Window, ask: IdAsk, what: str) -> None:
        """Compare what an answer says of its refreshes."""
        answer = shown.answer
        assert answer.stale == sum(age != 0 for age in shown.ages), what
        refreshes, failures = answer.refreshes or 0, answer.failures or 0
        budget = 10**9 if ask.budget is None else ask.budget
        assert refreshes + failures <= budget, f"{what}: {refreshes} refreshes, {failures} failures"
        assert failures == 0 or self.history.service != "truthful", what
        alone = sum(isinstance(q.ask, IdAsk) and q.ask.joined for q in self.truth.queries.values()) == 1
        warming = not reply.must_be_exact
        if alone and ask.asks_all and not warming and self.history.service == "truthful":
            told = {name for name, mark in self.told.items() if mark is not None and mark >= reply.end}  # as of now
            wanted = min(budget, len(reply.remotes - told))
            assert refreshes == wanted, f"{what}: {refreshes} refreshes, expected {wanted}"
        for (_, name, _, _, value, _), age in zip(shown.rows, shown.ages, strict=True):
            if age == 0 and not warming:
                mine = [row for row in reply.inside if row[ask.key] == name]
                true = {self.world.values.get(row[ask.on or ask.key]) for row in mine}
                assert value in true, f"{what}: {name} has {value} as of now, and the truth is {true}"

    def compare_changes(self, shown: Shown, ask: IdAsk, what: str) -> None:
        """Compare changes with the difference of what was shown before and what is shown now."""

        now = [
            (None, rank, name, score, time, (value, *values)) for rank, name, score, time, value, values in shown.rows
        ]
        before = self.previous.get(ask.name, [])
        self.previous[ask.name] = now
        changes = difference(before, now, ask.emit == "changes")
        wanted = Counter((kind, row[2], was, is_) for kind, row, was, is_ in changes if ask.emit in ("changes", kind))
        found = [(c.kind, c.row.id, c.previous_rank, c.rank) for c in shown.answer.changes]
        assert Counter(found) == wanted, f"{what}\nfound    {found}\nexpected {wanted}"
        kinds = [kind != "left" for kind, *_ in found]
        assert kinds == sorted(kinds), f"{what}: rows that left come first: {found}"
