"""The benchmark `topkw`: the experiments of section 8 of the paper on sliding-window k-skybands, and what is promised.

Nearest neighbours: each query is a point, and wants the k events of the last n that are nearest to it. One parameter at
a time is varied, the others are those of table IX. The default size has fewer queries, and fewer events, for costs are
per event; `--full` has all of them. See `benchmarks.topkw.data` for the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.baselines import DisagreementError
from benchmarks.topkw import data as topkw_data
from benchmarks.topkw.runs import ALL_OF_IT, Effort, Run, Scenario, Trial, error, on_one_core, reports_of, run

TABLE_IX = Scenario()
USUAL, TRIED = replace(TABLE_IX, queries=50, n=10_000, b=500), replace(TABLE_IX, n=4_000)
MANY = replace(TABLE_IX, queries=10_000, k=10)
SHORT, LONG = Effort(5_000, 50_000, 0.2, 4.0), Effort(20_000, 100_000, 1.0, 20.0)
PAPER = Effort(20_000, 1_000_000, 1e9, 300.0)
TINY, SMOKE = replace(TABLE_IX, n=400, b=20, queries=5), Effort(200, 400, 0.0, 1.0, batch=100)
EXACT = ("sa", "ra", "sasf", "sarf", "sapf", "rasf", "rarf", "rapf")
NINE = ("pa", *EXACT)
INDEXABLE = tuple(name for name in NINE if name not in ("sa", "ra"))  # the others define no threshold
OURS = "blocks"
FIGURE_9 = ("pa", "rapf", "rapf2", "sasf", "cpm", "snn", OURS)
ORDER = ("pa", "rapf", "ra", "sa", "cpm", "snn", OURS)
SOME = ("pa", "sa", "ra", "sasf", "rarf", "sapf", "rapf")  # of each group in figure 10 one or two


@dataclass(frozen=True)
class Scale:
    """How much of everything.

    `usual` has the parameters that are not varied, `effort` says how long a run is; then the values of what is varied.
    `tried` is the scenario in which errors are counted, `whole` the one that is promised, over `events`. `many` are the
    subscriptions that the product's own way is to serve. `data` is the folder of recorded data (None: the usual one).
    """

    usual: Scenario = USUAL
    effort: Effort = SHORT
    k: tuple[int, ...] = (1, 3, 9, 27, 81)
    index_k: tuple[int, ...] = (1, 9, 81)
    d: tuple[int, ...] = (2, 4, 6, 8, 10)
    rho: tuple[int, ...] = (2, 4, 6, 8, 10, 12)
    u: tuple[int, ...] = (25, 50, 100, 200)
    b: tuple[int, ...] = (125, 250, 500, 1000, 5000)
    gamma: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8)
    n: tuple[int, ...] = (2_500, 5_000, 10_000, 20_000)
    tried: Scenario = TRIED
    tried_events: int = 100_000
    sigma: tuple[float, ...] = (0.1, 0.01)
    whole: Scenario = TABLE_IX
    events: int = 1_000_000
    order_k: tuple[int, ...] = (27, 81)
    order_effort: Effort = LONG
    many: Scenario = MANY
    data: Path | None = None

    @classmethod
    def of(cls, *, full: bool, smoke: bool, data: Path | None) -> Scale:
        """Return the scale that was asked for."""
        if smoke:
            return cls(
                TINY, SMOKE, (1, 3), (1, 3), (2, 3), (2, 3), (2, 5), (10, 200), (0.1, 0.8), (200, 400), TINY, 1_000,
                (0.1,), TINY, 2_000, (3,), SMOKE, replace(TINY, queries=20), data,
            )  # fmt: skip
        if full:
            return cls(
                TABLE_IX, PAPER, index_k=cls.k, u=(100, 200, 400, 800, 1600), b=(500, 1000, 2000, 4000, 8000, 20_000),
                n=(10_000, 20_000, 40_000, 80_000, 160_000), tried=TABLE_IX, tried_events=1_000_000,
                order_effort=PAPER, data=data,
            )  # fmt: skip
        return cls(data=data)


@dataclass(frozen=True)
class Setting:
    """Where experiments run: how much of everything, the file of readings, and what the page says of both."""

    scale: Scale
    file: Path | None
    about: Mapping[str, Any]

    @property
    def random(self) -> tuple[str, ...]:
        """The data sets in random order."""
        return tuple(name for name in topkw_data.names(self.file) if name != "real")

    def points(self, scenario: Scenario, rows: int) -> Any:
        """Return so many events for a scenario."""
        return topkw_data.points(scenario.data, rows, scenario.d, self.file)

    def timed(self, algorithm: str, scenario: Scenario, effort: Effort | None = None) -> Run:
        """Run an algorithm in a scenario on one core, until it is known how long an event takes."""
        effort = effort or self.scale.effort
        with on_one_core():
            return run(algorithm, scenario, self.points(scenario, scenario.n + effort.most), effort)


def setting(scale: Scale) -> nullcontext[Setting]:
    """Give what experiments run in."""
    file = topkw_data.recorded_sensors(scale.data)
    effort = scale.effort
    about = {
        "sources": topkw_data.sources(file), "queries": scale.usual.queries, "n": scale.usual.n, "b": scale.usual.b,
        "least": effort.least, "most": effort.most, "limit": effort.limit, "batch": effort.batch,
        "tried_n": scale.tried.n, "tried_events": scale.tried_events, "tried_queries": scale.tried.queries,
        "events": scale.events,
    }  # fmt: skip
    return nullcontext(Setting(scale, file, about))


def agreement(setting: Setting) -> Iterator[Trial]:
    """Run everything on a few queries: it is compiled, and all exact ways report the same."""
    small = replace(TABLE_IX, n=300, b=20, queries=7, k=4)
    for data in topkw_data.names(setting.file):
        scenario = replace(small, data=data)
        points = setting.points(scenario, 2_000)
        expected = reports_of("sa", replace(scenario, indexed=False), points)[0]
        for algorithm in (*NINE, "rapf2", "cpm", "snn", OURS):
            for indexed in _indexed(algorithm):
                this = replace(scenario, indexed=indexed)
                found, done = reports_of(algorithm, this, points)
                if algorithm != "pa" and not np.array_equal(found, expected):
                    msg = f"{algorithm} and sa report different events on {data}, indexed: {indexed}"
                    raise DisagreementError(msg)
                yield done.trial("agreement", "k", this.k, algorithm, this)


def _indexed(algorithm: str) -> tuple[bool, ...]:
    """Return whether an algorithm runs with the grid, without it, or both."""
    return (True,) if algorithm in ("cpm", "snn", OURS) else (True, False)


def errors(setting: Setting) -> Iterator[Trial]:
    """Count what PA misses, and what it reports and should not (figure 8)."""
    scale = setting.scale
    names = topkw_data.names(setting.file)
    scenarios: list[tuple[str, float, Scenario]] = [
        ("k", k, replace(scale.tried, data=data, k=k)) for data in names for k in scale.k
    ]
    scenarios += [("sigma", sigma, replace(scale.tried, sigma=sigma, indexed=False)) for sigma in scale.sigma]
    for parameter, value, scenario in scenarios:
        points = setting.points(scenario, scale.tried_events)
        expected, _ = reports_of(OURS, scenario, points)
        found, done = reports_of("pa", scenario, points)
        yield error(done.trial("error", parameter, value, "pa", scenario), found, expected)


def default(setting: Setting) -> Iterator[Trial]:
    """Run the default scenario from its first event to its last."""
    scenario = setting.scale.whole
    points = setting.points(scenario, setting.scale.events)
    for algorithm in ("pa", "rapf", OURS):
        with on_one_core():
            done = run(algorithm, scenario, points, ALL_OF_IT)
        yield done.trial("default", "k", scenario.k, algorithm, scenario)


def order(setting: Setting) -> Iterator[Trial]:
    """Compare algorithms in the default scenario with larger k."""
    for k in setting.scale.order_k:
        scenario = replace(setting.scale.whole, k=k)
        for algorithm in ORDER:
            done = setting.timed(algorithm, scenario, setting.scale.order_effort)
            yield done.trial("order", "k", k, algorithm, scenario)


def subscriptions(setting: Setting) -> Iterator[Trial]:
    """Serve very many queries with the product's own way, on all cores."""
    scenario, effort = setting.scale.many, setting.scale.order_effort
    points = setting.points(scenario, scenario.n + effort.most)
    done = run(OURS, scenario, points, replace(effort, seconds=2 * effort.seconds))
    yield done.trial("subscriptions", "u", scenario.queries, OURS, scenario)


# Costs.


def by_k(setting: Setting) -> Iterator[Trial]:
    """Vary k, with the index, on all data sets (figure 9)."""
    for data in topkw_data.names(setting.file):
        yield from _sweep(setting, "k", "k", setting.scale.k, replace(setting.scale.usual, data=data), FIGURE_9)


def by_index(setting: Setting) -> Iterator[Trial]:
    """Vary k, with and without the index, for all kinds of bands and filters (figures 10 and 12)."""
    for data in setting.random:
        for indexed in (False, True):
            scenario = replace(setting.scale.usual, data=data, d=4, indexed=indexed)
            algorithms = INDEXABLE if indexed else NINE
            yield from _sweep(setting, "index", "k", setting.scale.index_k, scenario, algorithms)


def by_d(setting: Setting) -> Iterator[Trial]:
    """Vary the number of attributes, with a coarse grid (figure 11 a)."""
    yield from _sweep(setting, "d", "d", setting.scale.d, replace(setting.scale.usual, rho=2), (*SOME, OURS))


def by_rho(setting: Setting) -> Iterator[Trial]:
    """Vary the resolution of the grid (figure 11 b)."""
    algorithms = ("pa", "sasf", "rarf", "sapf", "rapf")
    yield from _sweep(setting, "rho", "rho", setting.scale.rho, replace(setting.scale.usual, d=4), algorithms)


def by_u(setting: Setting) -> Iterator[Trial]:
    """Vary the number of queries (figure 11 c)."""
    scenario = replace(setting.scale.usual, d=4)
    yield from _sweep(setting, "u", "queries", setting.scale.u, scenario, (*SOME, OURS))


def by_b(setting: Setting) -> Iterator[Trial]:
    """Vary the length of the recent buffer (figure 11 d)."""
    yield from _sweep(
        setting, "b", "b", setting.scale.b, replace(setting.scale.usual, d=4), ("sasf", "rarf", "sapf", "rapf")
    )


def by_gamma(setting: Setting) -> Iterator[Trial]:
    """Vary how often relaxed bands are pruned (figure 11 e)."""
    scenario = replace(setting.scale.usual, d=4)
    yield from _sweep(setting, "gamma", "gamma", setting.scale.gamma, scenario, ("ra", "rasf", "rarf", "rapf"))


def by_n(setting: Setting) -> Iterator[Trial]:
    """Vary the length of the window (figure 11 f)."""
    yield from _sweep(setting, "n", "n", setting.scale.n, replace(setting.scale.usual, d=4), (*SOME, OURS))


def _sweep(
    setting: Setting, experiment: str, parameter: str, values: Sequence[float], scenario: Scenario,
    algorithms: Sequence[str],
) -> Iterator[Trial]:  # fmt: skip
    """Run algorithms in a scenario with several values of a parameter."""
    for value in values:
        changed: dict[str, Any] = {parameter: value}
        this = replace(scenario, **changed)
        for algorithm in algorithms:
            yield setting.timed(algorithm, this).trial(experiment, parameter, value, algorithm, this)


EXPERIMENTS: dict[str, Callable[[Setting], Iterator[Trial]]] = {
    "agreement": agreement,
    "default": default,
    "order": order,
    "subscriptions": subscriptions,
    "error": errors,
    "k": by_k,
    "index": by_index,
    "d": by_d,
    "rho": by_rho,
    "u": by_u,
    "b": by_b,
    "gamma": by_gamma,
    "n": by_n,
}
