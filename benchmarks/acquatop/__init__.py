"""The benchmark `acquatop`: the experiments of section 6 of the paper on AcquaTop, over the recorded mentions.

Every policy that ranks answers the same 150 windows, joined with each draw of the remote data; its answers are compared
with those of an oracle that may ask for everything. Nothing is timed: the same data and seed give the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

import skyband.remote
from benchmarks import BenchmarkError
from benchmarks.remote.accuracy import cumulative, ndcg, ndcg_compat, precision
from benchmarks.remote.twitter import START, Remote, Twitter, Windowed, recorded_tweets
from benchmarks.workloads import SEED
from skyband.order import FloatArray
from skyband.remote.acquatop import acquatop
from skyband.remote.policies import GAINING, POLICIES
from skyband.remote.services.base import Id
from skyband.times import SECOND
from skyband.windows import WindowGrid

SIZE, SLIDE, WINDOWS = 100 * SECOND, 60 * SECOND, 150
RANKING = tuple(name for name, policy in POLICIES.items() if not policy.needs_filter)
METRICS = (ndcg, ndcg_compat, precision)
EVERY = 10  # windows from point to point of a curve
VARIANTS = {
    "authors-tsm": "AT-TSM refreshes one id less than the budget, as the authors' program does",
    "every-mention": "every mention counts, not one per user and slide",
}


@dataclass(frozen=True)
class Point:
    """A point of the grid, with the defaults of the paper's Table 4."""

    ch: int = 20
    k: int = 5
    n: int = 10
    budget: int = 7


@dataclass(frozen=True)
class Quality:
    """How good a policy's answers are: sums over all windows.

    The curves are those of the errors, 1 less the metric: their sums after every tenth window; of experiment 0 only.
    """

    experiment: str
    draw: int
    ch: int
    k: int
    n: int
    budget: int
    policy: str
    ndcg: float
    ndcg_compat: float
    precision: float
    ndcg_curve: str | None = None
    precision_curve: str | None = None


GRID: dict[str, tuple[Point, ...]] = {
    "0": (Point(n=20),),
    "1": tuple(Point(budget=budget) for budget in (1, 3, 5, 7, 10, 15, 20, 25, 30)),
    "2": tuple(Point(ch=ch) for ch in (5, 10, 20, 40, 80)),
    "3": tuple(Point(k=k, budget=budget) for budget in (7, 15) for k in (5, 7, 10, 15, 20, 30)),
    "4": tuple(Point(n=n, budget=budget) for budget in (7, 15) for n in (0, 10, 20, 30, 40)),
}


@dataclass(frozen=True)
class Scale:
    """How many windows, how many of the draws at most, every how many-th point; the data; variants."""

    windows: int = WINDOWS
    draws: int | None = None
    every: int = 1
    data: Path | None = None
    variants: frozenset[str] = frozenset()

    @classmethod
    def of(cls, *, full: bool, smoke: bool, data: Path | None, variants: Sequence[str] = ()) -> Scale:  # noqa: ARG003
        """Return the scale that was asked for; the usual one is the paper's already, there is nothing more to do."""
        scale = cls(windows=10, draws=1, every=5) if smoke else cls()
        return replace(scale, data=data, variants=frozenset(variants))


@dataclass(frozen=True)
class World:
    """One draw of the remote data: the same for all policies, with what the oracle answers."""

    windows: Sequence[Windowed]
    remote: Remote

    @cached_property
    def truth(self) -> FloatArray:
        """Everybody's value at the end of each window."""
        return self.remote.at([window.end for window in self.windows])

    def score(self, mentions: FloatArray, change: FloatArray) -> FloatArray:
        """Return the score of the paper: both sides in the range that they have in the whole data set."""
        low, high = self.remote.values.min(), self.remote.values.max()
        most = max(int(window.mentions.max()) for window in self.windows)
        joined: FloatArray = 0.3 * (change - low) / (high - low) + 0.7 * (mentions - 1) / (most - 1)
        return joined

    @cached_property
    def ideal(self) -> list[tuple[list[Id], list[float]]]:
        """The oracle's answer of each window, all of it: ids and scores, the best first."""
        found = []
        for window, truth in zip(self.windows, self.truth, strict=True):
            scores = self.score(window.mentions.astype(np.float64), truth[window.users])
            order = np.argsort(-scores, kind="stable")
            found.append((self.remote.users[window.users[order]].tolist(), scores[order].tolist()))
        return found

    def answers(self, policy: str, k: int, n: int, budget: int | None, carry: int) -> Iterator[list[Id]]:
        """Yield the ids of each window's answer."""
        row = {name: place for place, name in enumerate(self.remote.users.tolist())}
        current: list[FloatArray] = []

        def fetch(ids: Sequence[Id]) -> dict[Id, float]:
            return {name: float(current[-1][row[int(name)]]) for name in ids}

        join = acquatop(
            skyband.remote.Remote(fetch, known=self.remote.replica(rates=policy.endswith("WBM"))), k=k, n=n,
            windows=WindowGrid(SIZE, SLIDE, START % SLIDE), score=self.score, policy=policy, budget=budget,
            carry=carry, seed=SEED,
            only_candidates=True,  # as in the paper
        )  # fmt: skip
        for window, truth in zip(self.windows, self.truth, strict=True):
            current.append(truth)
            join.arrive(self.remote.users[window.users], window.mentions, window.last)
            yield join.evaluate(window.end).ids

    def measure(self, policy: str, k: int, n: int, budget: int | None, carry: int = 0) -> FloatArray:
        """Return the metrics of each window's answer: a row for each metric."""
        found = [
            [metric(answer, ids, k, scores) for metric in METRICS]
            for answer, (ids, scores) in zip(self.answers(policy, k, n, budget, carry), self.ideal, strict=True)
        ]
        return np.array(found).T


@dataclass(frozen=True)
class Setting:
    """The data, and what was measured already: policies that do not look at a parameter need not be run again."""

    scale: Scale
    tweets: Twitter
    about: dict[str, Any]
    _worlds: dict[tuple[int, int], World] = field(default_factory=dict)
    _known: dict[tuple[Any, ...], FloatArray] = field(default_factory=dict)

    def world(self, ch: int, draw: int) -> World:
        """Return one draw of the remote data."""
        if (ch, draw) not in self._worlds:
            remote, every = self.tweets.changes(ch, draw), "every-mention" in self.scale.variants
            windows = self.tweets.windows(remote.users, SIZE, SLIDE, self.scale.windows, every_mention=every)
            self._worlds[ch, draw] = World(windows, remote)
        return self._worlds[ch, draw]

    def measure(self, policy: str, point: Point, draw: int, *, carry: bool = True) -> FloatArray:
        """Return the metrics of each window; ours may carry one budget over, unless that is forbidden."""
        budget = None if policy == "AT-ASM" else point.budget
        if policy == "AT-TSM" and "authors-tsm" in self.scale.variants:
            budget = point.budget - 1
        n = 0 if POLICIES[policy].whole_window else point.n  # it has no list
        kept = point.budget if policy in GAINING and carry else 0
        key = (policy, point.ch, draw, point.k, n, budget if policy != "WST" else 0, kept)
        if key not in self._known:
            self._known[key] = self.world(point.ch, draw).measure(policy, point.k, n, budget, kept)
        return self._known[key]


def setting(scale: Scale) -> nullcontext[Setting]:
    """Give what experiments run in."""
    tweets = recorded_tweets(scale.data, "ds_ch.parquet")
    draws = ", ".join(f"{len(found)} of CH = {ch}" for ch, found in tweets.draws().items())
    about = {"windows": scale.windows, "draws": draws, "variants": ", ".join(sorted(scale.variants)) or "none"}
    return nullcontext(Setting(scale, tweets, about))


def _cells(setting: Setting, experiment: str) -> Iterator[tuple[Point, int]]:
    """Yield the points of an experiment, with each draw of the remote data."""
    draws = setting.tweets.draws()
    for point in GRID[experiment][:: setting.scale.every]:
        if point.ch not in draws:
            msg = f"there is no column ch{point.ch}_1 in twitter/ds_ch.parquet; experiment {experiment} needs it"
            raise BenchmarkError(msg)
        for draw in draws[point.ch][: setting.scale.draws]:
            yield point, draw


def _row(experiment: str, point: Point, draw: int, policy: str, found: FloatArray) -> Quality:
    gain, compat, share = (round(float(total), 4) for total in found.sum(axis=1))
    curves = (_curve(found[0]), _curve(found[2])) if experiment == "0" else (None, None)
    return Quality(experiment, draw, point.ch, point.k, point.n, point.budget, policy, gain, compat, share, *curves)


def _rows(experiment: str, setting: Setting) -> Iterator[Quality]:
    for point, draw in _cells(setting, experiment):
        for policy in RANKING:
            yield _row(experiment, point, draw, policy, setting.measure(policy, point, draw))


def strict(setting: Setting) -> Iterator[Quality]:
    """Our policies without savings: the budget binds every evaluation."""
    for experiment in ("1", "2", "3", "4"):
        for point, draw in _cells(setting, experiment):
            for policy in GAINING:
                found = setting.measure(policy, point, draw, carry=False)
                yield _row(f"{experiment} strict", point, draw, policy, found)


def _curve(metric: FloatArray) -> str:
    return " ".join(f"{error:.3f}" for error in cumulative(1.0 - metric)[EVERY - 1 :: EVERY])


TITLES = {
    "0": "The preliminary experiment: errors from window to window",
    "1": "Refresh budgets",
    "2": "Changes per invocation",
    "3": "Sizes of the answer",
    "4": "Sizes of the N-list",
}


def _experiment(name: str) -> Callable[[Setting], Iterator[Quality]]:
    made = partial(_rows, name)
    made.__doc__ = TITLES[name]
    return made


EXPERIMENTS: dict[str, Callable[[Setting], Iterator[Quality]]] = {
    **{name: _experiment(name) for name in GRID},
    "strict": strict,
}
