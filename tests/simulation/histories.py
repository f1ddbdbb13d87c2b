"""Whole histories of a stream, drawn from a seed: what comes in, which queries come and go, when the process restarts.

A history is plain data: it can be written as JSON, cut down while it still fails, and stored.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb

COLUMNS = ("t", "id", "x", "y", "i", "g", "n", "m")
Value = Callable[[dict[str, Any]], Any]


def _float(name: str) -> Value:
    return lambda row: row[name]


def _sum(row: dict[str, Any]) -> Any:
    return None if row["x"] is None or row["y"] is None else row["x"] + row["y"]


def _remainder(by: int) -> Value:
    """Return the remainder with the sign of the dividend, as Spark has it."""
    return lambda row: None if row["i"] is None else abs(row["i"]) % by * (1 if row["i"] >= 0 else -1)


SCORES: dict[str, Value] = {
    "x": _float("x"),
    "x + y": _sum,
    "coalesce(x, 0.0)": lambda row: 0.0 if row["x"] is None else row["x"],
    "i % 4": _remainder(4),
}
FILTERS: dict[str, Value] = {
    "y > 0": lambda row: None if row["y"] is None else row["y"] > 0,
    "y is not null": lambda row: row["y"] is not None,
    "i % 2 = 0": lambda row: None if row["i"] is None else row["i"] % 2 == 0,
    "g = 'p'": lambda row: None if row["g"] is None else row["g"] == "p",
    "id is not null": lambda row: row["id"] is not None,
}
PARTITIONS: dict[str, Value] = {
    "g": lambda row: row["g"],
    "i % 3": _remainder(3),
    "y > 0": FILTERS["y > 0"],
}


@dataclass(frozen=True)
class Ask:
    """A query in plain values; sizes in microseconds, or in events where it `counts`."""

    name: str
    k: int
    size: int
    slide: int
    score: str = "x"
    where: str | None = None
    partition_by: str | None = None
    distinct: str | None = None
    order: str = "desc"
    emit: str = "final"
    select: tuple[str, ...] = ()
    offset: int = 0
    closed: str = "left"
    counts: bool = False
    kind: str = "sliding"  # or "cumulative" (then the slide divides the size), or "all_time"
    ties: str | None = None
    prefer: str = "latest"

    def query(self) -> sb.Query:
        if self.kind == "cumulative":
            window = sb.Window.cumulative(self.size, step=self.slide, offset=self.offset)
        elif self.kind == "all_time":
            window = sb.Window.all_time(every=self.slide, offset=self.offset)
        elif self.counts:
            window = sb.Window(f"{self.size} events", slide=f"{self.slide} events")
        else:
            window = sb.Window(self.size, slide=self.slide, offset=self.offset, closed=self.closed)  # type: ignore[arg-type]
        return sb.Query(
            self.name, k=self.k, score=self.score, window=window, where=self.where, partition_by=self.partition_by,
            distinct=self.distinct, order=self.order, emit=self.emit, select=self.select,  # type: ignore[arg-type]
            ties=self.ties, prefer=self.prefer,  # type: ignore[arg-type]
        )  # fmt: skip

    def simpler(self) -> Iterator[Ask]:
        """Yield the same query with something left out, for histories that fail."""
        plain = Ask(self.name, self.k, self.size, self.slide, counts=self.counts)
        names = (
            "where",
            "partition_by",
            "select",
            "distinct",
            "emit",
            "order",
            "offset",
            "closed",
            "score",
            "ties",
            "prefer",
        )
        for name in names:
            if getattr(self, name) != getattr(plain, name):
                yield replace(self, **{name: getattr(plain, name)})
        if self.k > 1:
            yield replace(self, k=1)
        if self.slide != self.size:
            yield replace(self, slide=self.size)
        if self.kind != "sliding":
            yield replace(self, kind="sliding")


@dataclass(frozen=True)
class Step:
    """One thing that happens.

    `do` is "push" (with rows), "register" or "change" (with a query), "pause", "resume" or "remove" (with the name of
    one), or "restart": everything in memory is lost but a snapshot.
    """

    do: str
    rows: tuple[dict[str, Any], ...] = ()
    ask: Ask | None = None
    name: str = ""


@dataclass(frozen=True)
class History:
    """What happens to a stream, from its first event to its end; `delay` None: nothing is answered before the end."""

    seed: int
    delay: int | None
    text: bool
    steps: tuple[Step, ...] = field(repr=False)

    @property
    def begun(self) -> tuple[Ask, ...]:
        """The queries that are there before the first event."""
        before = itertools.takewhile(lambda step: step.do == "register", self.steps)
        return tuple(step.ask for step in before if step.ask is not None)

    @property
    def is_static(self) -> bool:
        """Whether no query comes or goes once events do."""
        return all(step.do in ("push", "restart") for step in self.steps[len(self.begun) :])

    def pushes(self) -> list[tuple[dict[str, Any], ...]]:
        return [step.rows for step in self.steps if step.do == "push"]

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> History:
        given = json.loads(text)
        steps = []
        for step in given.pop("steps"):
            ask = step.pop("ask")
            asked = None if ask is None else Ask(**ask | {"select": tuple(ask["select"])})
            steps.append(Step(step["do"], tuple(step["rows"]), asked, step["name"]))
        return cls(**given, steps=tuple(steps))


def table_of(rows: tuple[dict[str, Any], ...], text: bool) -> pa.Table:
    kinds = {
        "t": pa.int64(), "id": pa.string() if text else pa.int64(), "x": pa.float64(), "y": pa.float64(),
        "i": pa.int64(), "g": pa.string(), "n": pa.int64(), "m": pa.string(),
    }  # fmt: skip
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


# Drawing them.


@dataclass(frozen=True)
class Can:
    """What an engine or algorithm can be asked for."""

    distincts: tuple[str | None, ...] = (None, "best", "latest")
    ties: tuple[str | None, ...] = (None, None, None, "with", "dense")
    counts: bool = True
    changes: tuple[str, ...] = ("register", "pause", "resume", "remove", "change")
    emits: tuple[str, ...] = ("final", "changes", "entered", "left", "early")
    delays: tuple[int | None, ...] = (0, 3, 15, None)
    spread: bool = False  # all queries have one `partition_by`, and there is always one
    units: tuple[int, ...] = (1,)  # of time, in microseconds
    cuts: int = 8  # into batches, at most
    grows: bool = False  # whether windows may grow


def draw(seed: int, can: Can) -> History:
    """Draw a history that asks for nothing that cannot be done."""
    rng = np.random.default_rng(seed)
    text = bool(rng.integers(2))
    delay = can.delays[rng.integers(len(can.delays))]
    small = bool(can.changes and rng.integers(2))  # a world in which what comes later often meets what was dropped
    rows = draw_rows(rng, int(rng.integers(0, 20 if small else 100)), text)
    begun = [draw_ask(rng, f"q{i}", can) for i in range(int(rng.integers(1, 3 if small else 5)))]
    if can.spread:
        begun = [replace(ask, partition_by=begun[0].partition_by) for ask in begun]
    if small:
        begun = [narrow(rng, ask, can) for ask in begun]
        for row in rows:
            row["x"] = float(rng.integers(0, 3)) if row["x"] is not None and np.isfinite(row["x"]) else row["x"]
    waits = bool(small and rng.integers(4) == 0)
    place, late = len(rows) // 2, int(rng.integers(1, 6))
    if waits:
        begun[0] = let_wait(rng, begun[0], rows[:place], rows[place : place + late])
    cuts = rng.integers(0, len(rows) + 1, int(rng.integers(0, can.cuts + 1))).tolist() + [place, place + late] * waits
    parts: list[tuple[dict[str, Any], ...]] = []
    old = set()  # after these parts a query is wanted that reaches back to what they brought
    for a, b in itertools.pairwise([0, *sorted(cuts), len(rows)]):
        parts.append(tuple(rows[a:b]))
        old |= {len(parts)} if waits and b == place + late else set()
        if parts[-1] and rng.integers(4 if small else 8) == 0:  # a rejected row of long ago, and nothing else
            row = rows[a]
            parts.append((row | {"x": float("nan"), "t": row["t"] and row["t"] - int(rng.integers(1, 80))},))
            old |= {len(parts)} if small else set()
    steps = [Step("register", ask=ask) for ask in begun]
    alive = [ask.name for ask in begun]
    for number, part in enumerate(parts):
        if number in old:
            steps.append(Step("register", ask=longer(rng, replace(begun[0], name=f"o{number}"), begun[0])))
            alive.append(f"o{number}")
        elif can.changes and rng.integers(4 if small else 2):
            steps += _changes(rng, alive, begun, can)
        steps.append(Step("push", part))
        if rng.integers(5) == 0:
            steps.append(Step("restart"))
    history = in_unit(History(seed, delay, text, tuple(steps)), can.units[rng.integers(len(can.units))])
    return let_grow(history) if can.grows and seed % 2 else history


def let_grow(history: History) -> History:
    """Return a history in which some windows grow."""
    rng, steps = np.random.default_rng(history.seed), []
    for step in history.steps:
        ask, kind = step.ask, str(rng.choice(["sliding", "cumulative", "all_time"]))
        if ask is not None and not ask.counts and kind != "sliding":
            kind = "cumulative" if ask.distinct == "latest" else kind
            size = ask.slide * int(rng.integers(1, 6)) if kind == "cumulative" else ask.size
            ask = replace(ask, kind=kind, size=size, closed="left")
        steps.append(replace(step, ask=ask))
    return replace(history, steps=tuple(steps))


def in_unit(history: History, unit: int) -> History:
    """Return a history with all its times in another unit."""
    steps = []
    for step in history.steps:
        rows = tuple(row | {"t": None if row["t"] is None else row["t"] * unit} for row in step.rows)
        ask = step.ask
        if ask is not None and not ask.counts:
            ask = replace(ask, size=ask.size * unit, slide=ask.slide * unit, offset=ask.offset * unit)
        steps.append(replace(step, rows=rows, ask=ask))
    return replace(history, delay=None if history.delay is None else history.delay * unit, steps=tuple(steps))


def by_lists(history: History) -> History:
    """Return a history in which queries come and go by lists that a stream is started with.

    What is gone from a list is removed first, also a query that is there again but ranks in another way.
    """
    steps: list[Step] = []
    asks: dict[str, Ask] = {}
    for do, found in itertools.groupby(history.steps, lambda step: step.do in ("push", "restart")):
        if do:
            steps += found
            continue
        before = dict(asks)
        for step in found:
            if step.ask is not None:
                asks[step.ask.name] = step.ask
            elif step.do == "remove":
                del asks[step.name]
        gone = [name for name, ask in before.items() if name not in asks or like(ask, asks[name]) != ask]
        steps += [Step("remove", name=name) for name in gone]
        for name, ask in asks.items():
            if name not in before or name in gone:
                steps.append(Step("register", ask=ask))
            elif ask != before[name]:
                steps.append(Step("change", ask=ask))
    return replace(history, steps=tuple(steps))


def like(ask: Ask, other: Ask) -> Ask:
    """Return a query that ranks as another one does."""
    same = ("score", "where", "partition_by", "distinct", "order", "select", "counts", "ties", "prefer")
    changed = replace(ask, **{name: getattr(other, name) for name in same})
    return replace(changed, offset=0, closed="left") if changed.counts else changed


def beside(rng: np.random.Generator, ask: Ask, other: Ask) -> Ask:
    """Return a query that ranks as another one does, and lies to it in one of several ways: what is kept may do."""
    ask = like(ask, other)
    k = int(rng.integers(1, min(other.k, 9) + 1))
    grid = replace(ask, k=k, size=other.size, slide=other.slide, offset=other.offset, closed=other.closed)
    match int(rng.integers(5)):
        case 0:  # no deeper, with some of its windows, or shorter ones
            whole = other.size // other.slide
            slide = int(rng.integers(1, whole + 1)) * other.slide
            return replace(grid, slide=slide, size=max(slide, int(rng.integers(1, whole + 1)) * other.slide))
        case 1:
            return longer(rng, grid, other)
        case 2:  # no deeper, with other cuts
            return replace(grid, offset=other.offset + int(rng.integers(1, 9)), closed=ask.closed)
        case 3:  # only deeper
            return replace(grid, k=other.k + int(rng.integers(1, 3)))
    return ask


def longer(rng: np.random.Generator, ask: Ask, other: Ask) -> Ask:
    """Return a query that is no deeper than another one, but reaches further back."""
    more = int(rng.integers(1, 12)) * other.slide
    return replace(ask, k=min(ask.k, other.k), size=other.size + more, emit="final")


def narrow(rng: np.random.Generator, ask: Ask, can: Can) -> Ask:
    """Return a query as others are: plain, of few rows, and over time."""
    size = int(rng.integers(2, 12))
    slide = int(rng.choice([size, max(1, size // 2)]))
    plain = Ask(ask.name, int(rng.integers(1, 3)), size, slide, emit=ask.emit, offset=ask.offset, closed=ask.closed)
    return replace(plain, partition_by=ask.partition_by) if can.spread else plain


def let_wait(rng: np.random.Generator, ask: Ask, before: list[dict[str, Any]], then: list[dict[str, Any]]) -> Ask:
    """Let a query see nothing for a while, then rows that are old already."""
    for row in before:
        row["g"] = "q"
    ago = int(rng.integers(1, 60))
    for row in then:
        row |= {"g": "p", "t": row["t"] and row["t"] - ago}
    return replace(ask, where="g = 'p'")


def _changes(rng: np.random.Generator, alive: list[str], begun: list[Ask], can: Can) -> list[Step]:
    """Draw what happens to the queries between two batches; `alive` follows."""
    later = replace(can, counts=False, emits=("final",))  # numbering and first looks depend on when they came
    steps = []

    def draw_later(name: str) -> Ask:
        ask, other = draw_ask(rng, name, later), begun[rng.integers(len(begun))]
        ask = replace(ask, partition_by=other.partition_by) if can.spread else ask
        # Often one that ranks as another does, so that it finds what is kept.
        return ask if other.counts or rng.integers(4) == 0 else beside(rng, ask, other)

    for _ in range(int(rng.integers(1, 3))):
        what = str(rng.choice([*can.changes, "register"]))
        if what == "register":
            ask = draw_later(f"n{rng.integers(10**6)}")
            steps.append(Step("register", ask=ask))
            alive.append(ask.name)
        elif alive:
            name = alive[rng.integers(len(alive))]
            if what == "change":
                steps.append(Step("change", ask=draw_later(name)))
            elif what != "remove" or not can.spread or len(alive) > 1:
                steps.append(Step(what, name=name))
                if what == "remove":
                    alive.remove(name)
    return steps


def draw_ask(rng: np.random.Generator, name: str, can: Can) -> Ask:
    counts = bool(can.counts and rng.integers(4) == 0)
    size = int(rng.choice([1, 5, 10, int(rng.integers(1, 30))]))
    slide = int(rng.choice([size, max(1, size // 2), int(rng.integers(1, size + 1))]))
    select = [(), ("n",), ("m", "n"), ("n", "m")][rng.choice(4, p=[0.5, 0.2, 0.15, 0.15])]
    partitioned = can.spread or rng.integers(3) == 0
    ask = Ask(
        name,
        k=int(rng.choice([1, 2, 3, 7, 200])),
        size=size,
        slide=slide,
        score=str(rng.choice(list(SCORES), p=[0.7, 0.1, 0.1, 0.1])),
        where=None if rng.integers(2) else str(rng.choice(list(FILTERS))),
        partition_by=str(rng.choice(list(PARTITIONS))) if partitioned else None,
        distinct=can.distincts[rng.integers(len(can.distincts))],
        order=str(rng.choice(["desc", "desc", "asc"])),
        emit=str(rng.choice(can.emits)) if rng.integers(2) else "final",
        select=select,
        counts=counts,
        ties=can.ties[rng.integers(len(can.ties))],
        prefer=str(rng.choice(["latest", "latest", "earliest"])),
    )
    if counts or rng.integers(2):
        return ask
    return replace(ask, offset=int(rng.integers(-9, 9)), closed=str(rng.choice(["left", "right"])))


def draw_rows(rng: np.random.Generator, n: int, text: bool) -> list[dict[str, Any]]:
    time = np.cumsum(rng.integers(0, int(rng.choice([0, 1, 3])) + 1, n)) + rng.integers(-50, 50)
    if n and rng.integers(3) == 0:
        time[n // 2 :] += 60  # a gap with empty windows
    if rng.integers(2):
        time = time - rng.integers(0, int(rng.choice([2, 10, 40])), n)
    scores = [rng.integers(0, 3, n) * 1.0, rng.normal(size=n), -1.0 * np.arange(n), 1.0 * np.arange(n), np.zeros(n)]
    x = scores[rng.integers(len(scores))]
    names = int(rng.choice([1, 3, 1000]))
    base = int(rng.choice([0, 2**62, -(2**63), 2**63 - 1000]))  # ids that no float64 tells apart
    rows: list[dict[str, Any]] = []
    for t, score, number in zip(time.tolist(), x.tolist(), rng.integers(0, names, n).tolist(), strict=True):
        i = int(rng.integers(-10, 10)) if rng.integers(4) else 1_811_111_111_111_111_111 + int(rng.integers(9))
        rows.append(
            {
                "t": t, "id": f"é{number}" if text else min(base + number, 2**63 - 1), "x": score,
                "y": [None, -1.0, 0.0, 2.0, float("inf")][rng.integers(5)], "i": i if rng.integers(8) else None,
                "g": [None, "p", "q", "ü"][rng.integers(4)], "n": [None, 1, 2, 2**60][rng.integers(4)],
                "m": [None, "", "a", "é"][rng.integers(4)],
            }
        )  # fmt: skip
        spoil(rng, rows[-1])
    return rows


def spoil(rng: np.random.Generator, row: dict[str, Any]) -> None:
    """Make some rows extreme or incomplete."""
    spoilt: list[dict[str, Any]] = [
        {"x": float("inf")}, {"x": float("-inf")}, {"x": float("nan")}, {"x": None}, {"t": None}, {"id": None},
        {"x": -0.0},
    ]  # fmt: skip
    draw_ = int(rng.integers(60))
    row |= spoilt[draw_] if draw_ < len(spoilt) else {}
