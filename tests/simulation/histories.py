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

    def query(self) -> sb.Query:
        if self.counts:
            window = sb.Window(f"{self.size} events", slide=f"{self.slide} events")
        else:
            window = sb.Window(self.size, slide=self.slide, offset=self.offset, closed=self.closed)  # type: ignore[arg-type]
        return sb.Query(
            self.name, k=self.k, score=self.score, window=window, where=self.where, partition_by=self.partition_by,
            distinct=self.distinct, order=self.order, emit=self.emit, select=self.select,  # type: ignore[arg-type]
        )  # fmt: skip

    def simpler(self) -> Iterator[Ask]:
        """Yield the same query with something left out, for histories that fail."""
        plain = Ask(self.name, self.k, self.size, self.slide, counts=self.counts)
        for name in ("where", "partition_by", "select", "distinct", "emit", "order", "offset", "closed", "score"):
            if getattr(self, name) != getattr(plain, name):
                yield replace(self, **{name: getattr(plain, name)})
        if self.k > 1:
            yield replace(self, k=1)
        if self.slide != self.size:
            yield replace(self, slide=self.size)


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
    counts: bool = True
    changes: tuple[str, ...] = ("register", "pause", "resume", "remove", "change")
    emits: tuple[str, ...] = ("final", "changes", "entered", "left", "early")
    watermark: bool = True
    partitioned: bool | None = None  # None: as it comes
    alike: bool = False  # all queries rank alike


def draw(seed: int, can: Can) -> History:
    """Draw a history that asks for nothing that cannot be done."""
    rng = np.random.default_rng(seed)
    text = bool(rng.integers(2))
    delay = int(rng.choice([0, 3, 15])) if can.watermark and rng.integers(4) else None
    rows = draw_rows(rng, int(rng.integers(0, 100)), text)
    cuts = sorted(rng.integers(0, len(rows) + 1, int(rng.integers(0, 9))).tolist())
    parts = [tuple(rows[a:b]) for a, b in itertools.pairwise([0, *cuts, len(rows)])]
    begun = [draw_ask(rng, f"q{i}", can) for i in range(int(rng.integers(1, 5)))]
    if can.alike:
        begun = [like(ask, begun[0]) for ask in begun]
    steps = [Step("register", ask=ask) for ask in begun]
    alive = [ask.name for ask in begun]
    for part in parts:
        if can.changes and rng.integers(2):
            steps += _changes(rng, alive, begun, can)
        steps.append(Step("push", part))
        if rng.integers(5) == 0:
            steps.append(Step("restart"))
    return History(seed, delay, text, tuple(steps))


def like(ask: Ask, other: Ask) -> Ask:
    """Return a query that ranks as another one does."""
    same = ("score", "where", "partition_by", "distinct", "order", "select", "counts")
    changed = replace(ask, **{name: getattr(other, name) for name in same})
    return replace(changed, offset=0, closed="left") if changed.counts else changed


def _changes(rng: np.random.Generator, alive: list[str], begun: list[Ask], can: Can) -> list[Step]:
    """Draw what happens to the queries between two batches; `alive` follows."""
    later = replace(can, counts=False, emits=("final",))  # numbering and first looks depend on when they came
    steps = []
    for _ in range(int(rng.integers(1, 3))):
        what = str(rng.choice([*can.changes, "register"]))
        if what == "register":
            ask = draw_ask(rng, f"n{rng.integers(10**6)}", later)
            if rng.integers(2):  # often one that ranks as another does, so that it finds what is kept
                other = begun[rng.integers(len(begun))]
                ask = ask if other.counts else like(ask, other)
            steps.append(Step("register", ask=ask))
            alive.append(ask.name)
        elif alive:
            name = alive[rng.integers(len(alive))]
            if what == "change":
                other = begun[rng.integers(len(begun))]
                ask = draw_ask(rng, name, later)
                steps.append(Step("change", ask=ask if other.counts or rng.integers(2) else like(ask, other)))
            else:
                steps.append(Step(what, name=name))
                if what == "remove":
                    alive.remove(name)
    return steps


def draw_ask(rng: np.random.Generator, name: str, can: Can) -> Ask:
    counts = bool(can.counts and rng.integers(4) == 0)
    size = int(rng.choice([1, 5, 10, int(rng.integers(1, 30))]))
    slide = int(rng.choice([size, max(1, size // 2), int(rng.integers(1, size + 1))]))
    select = [(), ("n",), ("m", "n"), ("n", "m")][rng.choice(4, p=[0.5, 0.2, 0.15, 0.15])]
    partitioned = rng.integers(3) == 0 if can.partitioned is None else can.partitioned
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
    if n and rng.integers(6) == 0:  # a batch of nothing but rejected rows, before all others
        broken = [rows[0] | {"x": float("nan"), "t": int(time.min()) - 40} for _ in range(3)]
        rows[int(rng.integers(n)) : 0] = broken
    return rows


def spoil(rng: np.random.Generator, row: dict[str, Any]) -> None:
    """Make some rows extreme or incomplete."""
    spoilt: list[dict[str, Any]] = [
        {"x": float("inf")}, {"x": float("-inf")}, {"x": float("nan")}, {"x": None}, {"t": None}, {"id": None},
        {"x": -0.0},
    ]  # fmt: skip
    draw_ = int(rng.integers(60))
    row |= spoilt[draw_] if draw_ < len(spoilt) else {}
