"""The benchmark `filter`: the experiments of section 4 of the FILTER paper, over the recorded mentions and followers.

A share of the users is moved so that their followers cross the threshold of the filter; every policy for filters
answers 140 windows, and its sets are compared with the oracle's. Nothing is timed: the same data and seed give the same
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import skyband.remote
from benchmarks import BenchmarkError
from benchmarks.remote.accuracy import cumulative, jaccard_distance
from benchmarks.remote.twitter import START, Remote, Twitter, Windowed, recorded_tweets
from benchmarks.workloads import SEED
from skyband.order import FloatArray
from skyband.remote.filter_join import filter_join
from skyband.remote.policies import GAINING, POLICIES
from skyband.remote.services.base import Id
from skyband.times import MINUTE, SECOND
from skyband.windows import WindowGrid

SIZE, SLIDE, WINDOWS = 100 * SECOND, MINUTE, 140
LISTED = 10 * MINUTE  # the size in the query of the paper's Listing 1.1
VARIANTS = {"ten-minutes": "windows of ten minutes, as in the paper's listing, instead of 100 seconds"}
THRESHOLD = 100_000.0  # about: the nearest number that no recorded series crosses
PERCENTAGES, BUDGETS = (10, 20, 25, 30, 40, 50), (1, 2, 3, 4, 5)
EVERY = 5  # windows from point to point of a curve
FILTERING = tuple(name for name, policy in POLICIES.items() if policy.whole_window and name not in GAINING[1:])
"""AT-GAIN's aims are about ranks: to a filter they are all the same."""


@dataclass(frozen=True)
class Distance:
    """How far a policy's sets are from the right ones: the sum of the Jaccard distances of all windows.

    The curve has the sums after every fifth window, where the default share and budget are run.
    """

    experiment: str
    draw: int
    percentage: int
    budget: int
    policy: str
    distance: float
    curve: str | None = None


@dataclass(frozen=True)
class Scale:
    """How many windows, how many draws, which shares and budgets; the data."""

    windows: int = WINDOWS
    draws: int = 10
    percentages: tuple[int, ...] = PERCENTAGES
    budgets: tuple[int, ...] = BUDGETS
    data: Path | None = None
    size: int = SIZE

    @classmethod
    def of(cls, *, full: bool, smoke: bool, data: Path | None, variants: Sequence[str] = ()) -> Scale:  # noqa: ARG003
        """Return the scale that was asked for; the usual one is the paper's already, there is nothing more to do."""
        scale = cls(20, 2, (10, 25), (1, 3)) if smoke else cls()
        return replace(scale, data=data, size=LISTED if "ten-minutes" in variants else SIZE)


@dataclass(frozen=True)
class World:
    """One draw: the windows and their size, everybody's followers over time, and the threshold."""

    size: int
    windows: Sequence[Windowed]
    remote: Remote
    threshold: float

    @cached_property
    def truth(self) -> FloatArray:
        """Everybody's value at the end of each window."""
        return self.remote.at([window.end for window in self.windows])

    @cached_property
    def right(self) -> list[set[int]]:
        """The oracle's answers."""
        pairs = zip(self.windows, self.truth, strict=True)
        return [set(self.remote.users[w.users[truth[w.users] > self.threshold]].tolist()) for w, truth in pairs]

    def measure(self, policy: str, budget: int) -> FloatArray:
        """Return the Jaccard distance of each window."""
        row = {name: place for place, name in enumerate(self.remote.users.tolist())}
        current: list[FloatArray] = []

        def fetch(ids: Sequence[Id]) -> dict[Id, float]:
            return {name: float(current[-1][row[int(name)]]) for name in ids}

        join = filter_join(
            skyband.remote.Remote(fetch, known=self.remote.replica(rates="WBM" in policy)),
            windows=WindowGrid(self.size, SLIDE, START % SLIDE), condition=">", threshold=self.threshold,
            policy=policy, budget=budget, seed=SEED,
            only_candidates=True,  # as in the paper
        )  # fmt: skip
        found = []
        for window, truth, right in zip(self.windows, self.truth, self.right, strict=True):
            current.append(truth)
            join.arrive(self.remote.users[window.users], window.mentions, window.last)
            found.append(jaccard_distance(join.evaluate(window.end).ids, right))
        return np.array(found)


def uncrossed(remote: Remote, near: float = THRESHOLD) -> float:
    """Return the threshold nearest to a number that nobody's recorded series touches or crosses, in steps of a half."""
    low, high = remote.values.min(axis=1), remote.values.max(axis=1)
    for step in np.arange(0.5, near, 1.0).tolist():
        for threshold in (near - step, near + step):
            if not ((low <= threshold) & (threshold <= high)).any():
                return float(threshold)
    msg = (
        f"every threshold up to {2 * near:,.0f} is crossed by some user's followers; are these the recorded followers?"
    )
    raise BenchmarkError(msg)


def crossing(remote: Remote, percentage: int, draw: int, threshold: float) -> Remote:
    """Move the series of a share of the users, drawn by chance, so that the threshold lies within their range."""
    chance = np.random.default_rng([SEED, percentage, draw])
    users = len(remote.users)
    chosen = chance.choice(users, round(users * percentage / 100), replace=False)
    low, high = remote.values[chosen].min(axis=1), remote.values[chosen].max(axis=1)
    values = remote.values.copy()
    values[chosen] += np.floor(chance.uniform(threshold - high, threshold - low))[:, None]
    return replace(remote, values=values)


@dataclass(frozen=True)
class Setting:
    """The data, and what was measured already."""

    scale: Scale
    tweets: Twitter
    about: dict[str, Any]
    _known: dict[tuple[Any, ...], FloatArray] = field(default_factory=dict)

    def worlds(self, percentage: int) -> Iterator[tuple[int, World]]:
        """Yield the draws of a share."""
        followers = self.tweets.followers()
        threshold = uncrossed(followers)
        windows = self.tweets.windows(followers.users, self.scale.size, SLIDE, self.scale.windows)
        for draw in range(1, self.scale.draws + 1):
            yield (
                draw,
                World(self.scale.size, windows, crossing(followers, percentage, draw, threshold), threshold),
            )

    def measure(self, policy: str, percentage: int, budget: int, draw: int, world: World) -> FloatArray:
        """Return the distances of each window."""
        key = policy, percentage, draw, 0 if policy == "WST" else budget
        if key not in self._known:
            self._known[key] = world.measure(policy, budget)
        return self._known[key]


def setting(scale: Scale) -> nullcontext[Setting]:
    """Give what experiments run in."""
    tweets = recorded_tweets(scale.data, "followers.csv.gz")
    threshold = uncrossed(tweets.followers())
    about = {"windows": scale.windows, "draws": scale.draws, "seconds": scale.size // SECOND, "threshold": threshold}
    return nullcontext(Setting(scale, tweets, about))


def _rows(experiment: str, setting: Setting, percentage: int, budgets: Sequence[int]) -> Iterator[Distance]:
    for draw, world in setting.worlds(percentage):
        for budget in budgets:
            for policy in FILTERING:
                found = setting.measure(policy, percentage, budget, draw, world)
                sums = cumulative(found)
                curve = " ".join(f"{total:.3f}" for total in sums[EVERY - 1 :: EVERY])
                shown = curve if (percentage, budget) == (25, 3) else None
                yield Distance(experiment, draw, percentage, budget, policy, round(float(sums[-1]), 4), shown)


def shares(setting: Setting) -> Iterator[Distance]:
    """Shares of users that cross the threshold."""
    for percentage in setting.scale.percentages:
        yield from _rows("percentage", setting, percentage, (3,))


def budgets(setting: Setting) -> Iterator[Distance]:
    """Refresh budgets."""
    yield from _rows("budget", setting, 25, setting.scale.budgets)


EXPERIMENTS: dict[str, Callable[[Setting], Iterator[Distance]]] = {"percentage": shares, "budget": budgets}
