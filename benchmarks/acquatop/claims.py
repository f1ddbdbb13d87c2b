"""What the paper on AcquaTop finds, Tables 6 and 7, and the same from our rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.acquatop import Quality
from benchmarks.remote.page import GAIN, each
from benchmarks.report import Table
from benchmarks.targets import Target
from skyband.remote.policies import GAINING

Key = tuple[str, int, int, int, int]
Metric = Callable[[Quality], float]
METRICS: dict[str, Metric] = {
    "nDCG": lambda row: row.ndcg,
    "nDCG of the figures": lambda row: row.ndcg_compat,
    "precision": lambda row: row.precision,
}
ASIDE = ("AT-ASM", *GAINING)
AIMED = {"nDCG": "AT-GAIN.order", "nDCG of the figures": "AT-GAIN.order", "precision": "AT-GAIN.set"}
LEVEL = 1e-4  # as exact as the rows are
SCARCE = 5
# Of each comparison and metric, for experiments 1 to 4: the largest and the smallest improvement, in percent.
TABLE_6 = {
    ("AT-TSM", "WSJ-WBM", "nDCG of the figures"): ((11.68, -3.58), (18.28, 2.75), (11.68, 0.2), (11.71, 10.05)),
    ("AT-TSM", "WSJ-WBM", "precision"): ((19.16, -3.76), (10.22, -2.35), (18.04, -10.26), (18.3, 9.06)),
    ("AT-TSM", "WSJ-LRU", "nDCG of the figures"): ((14.22, -1.76), (20.87, 2.57), (11.46, 0.07), (11.46, 3.65)),
    ("AT-TSM", "WSJ-LRU", "precision"): ((8.27, -2.69), (11.94, -1.04), (5.06, -23.72), (5.29, -1.87)),
    ("AT-BSM", "WSJ-WBM", "nDCG of the figures"): ((11.7, 2.76), (11.86, 0.75), (11.7, -0.29), (11.72, 4.39)),
    ("AT-BSM", "WSJ-WBM", "precision"): ((19.39, 1.44), (14.99, 1.47), (18.5, 2.8), (18.5, 5.47)),
    ("AT-BSM", "WSJ-LRU", "nDCG of the figures"): ((9.1, 0.68), (13.27, 0.65), (5.58, -0.34), (10.71, 3.65)),
    ("AT-BSM", "WSJ-LRU", "precision"): ((11.95, 0.55), (16.78, 2.83), (5.47, -8.59), (9.06, -1.87)),
}


def points(rows: Sequence[Quality], metric: Metric, experiments: str = "1234") -> dict[Key, dict[str, float]]:
    """Return for each point of the grid every policy's median over the draws."""
    found: dict[Key, dict[str, list[float]]] = {}
    for row in rows:
        if row.experiment in tuple(experiments):
            found.setdefault(_key(row), {}).setdefault(row.policy, []).append(metric(row))
    return {key: {policy: float(np.median(values)) for policy, values in by.items()} for key, by in found.items()}


def _key(row: Quality) -> Key:
    return (row.experiment[0], row.ch, row.k, row.n, row.budget)


def best_of(cell: dict[str, float]) -> tuple[str, float]:
    """Return the best policy of a point, AT-ASM and ours aside, and its figure."""
    name = max((policy for policy in cell if policy not in ASIDE), key=lambda policy: cell[policy])
    return name, cell[name]


def _named(key: Key) -> str:
    return "experiment {}, CH = {}, K = {}, N = {}, B = {}".format(*key)


def leads(rows: Sequence[Quality], title: str, policy: str) -> dict[Key, tuple[float, str]]:
    """Return for each point how far a policy of ours is ahead of the best other, and which that is."""
    return {
        key: (cell[policy] - best_of(cell)[1], best_of(cell)[0])
        for key, cell in points(rows, METRICS[title]).items()
        if policy in cell
    }


def judge(rows: Sequence[Quality]) -> list[Target]:
    """Return what is promised of AT-GAIN: nowhere behind the best of the others, ahead where budget is scarce.

    And no other policy is better in both order and set, which one policy that serves both can keep everywhere.
    """
    targets = []
    for title in METRICS:
        for policy in (GAIN, AIMED[title]):
            found = leads(rows, title, policy)
            scarce = {key: lead for key, lead in found.items() if key[-1] <= SCARCE}
            for what, some in (
                (f"in all {len(found)} points", found),
                (f"with a budget of {SCARCE} or less", scarce),
            ):
                if some:
                    worst = min(some, key=lambda key: some[key][0])
                    where = f"{_named(worst)}: {some[worst][1]}"
                    text = f"{what}: {title} of {policy} less that of the best other, the least ({where})"
                    targets.append(Target(text, some[worst][0], 0.0, at_least=True))
    text = f"points where another policy is better than {GAIN} in both nDCG and precision"
    return [*targets, Target(text, float(len(_beaten(rows))), 0.0)]


def _beaten(rows: Sequence[Quality]) -> list[Key]:
    order, share = (points(rows, METRICS[title]) for title in ("nDCG", "precision"))
    return [
        key
        for key, cell in order.items()
        if GAIN in cell
        and any(
            cell[other] > cell[GAIN] and share[key][other] > share[key][GAIN] for other in cell if other not in ASIDE
        )
    ]


def standing(rows: Sequence[Quality]) -> Table:
    """Count where our policies are ahead of the best other, level with it, and behind; with savings and without."""
    published = [row for row in rows if row.policy not in GAINING]
    strict = [replace(row, experiment=row.experiment[0]) for row in rows if row.experiment.endswith("strict")]
    lines = []
    for title in METRICS:
        for policy in GAINING:
            for savings, some in (("yes", rows), ("no", [*published, *strict])):
                found = leads(some, title, policy)
                ahead = [lead for lead, _ in found.values()]
                behind = [f"K = {key[2]}, B = {key[4]}, CH = {key[1]}: {lead:.3f}"
                          for key, (lead, _) in found.items() if lead < -LEVEL]  # fmt: skip
                counts = (sum(lead > LEVEL for lead in ahead), sum(abs(lead) <= LEVEL for lead in ahead), len(behind))
                if found:
                    lines.append((title, policy, savings, *map(str, counts), "; ".join(each(behind))))
    return ("metric", "policy", "savings", "ahead", "level", "behind", "where behind, and by how much"), lines


def table_6(rows: Sequence[Quality]) -> Table:
    """Put the improvements of Table 6 beside ours."""
    head = ("comparison", "metric", "experiment", "paper: max %", "here: max %", "paper: min %", "here: min %")
    lines = []
    for (ours, theirs, title), papers in TABLE_6.items():
        for number, (most, least) in enumerate(papers, 1):
            cells = points(rows, METRICS[title], str(number)).values()
            better = [100 * (cell[ours] / cell[theirs] - 1) for cell in cells]
            if better:
                figures = (f"{most:.2f}", f"{max(better):.2f}", f"{least:.2f}", f"{min(better):.2f}")
                lines.append((f"{ours} / {theirs}", title, str(number), *figures))
    return head, lines


# Table 7.

_SPOKEN = {"1": "B", "2": "CH", "3": "K", "4": "N"}
_PLACE = {"1": 4, "2": 1, "3": 2, "4": 3}
_HYPOTHESES: tuple[tuple[str, str, str, str, str, Callable[[int], bool]], ...] = (
    ("Hp.1", "1", "nDCG of the figures", "AT-TSM", "for B > 3", lambda budget: budget > 3),
    ("Hp.1", "1", "precision", "AT-BSM", "for all B", lambda _: True),
    ("Hp.2", "2", "nDCG of the figures", "AT-TSM", "for all CH", lambda _: True),
    ("Hp.2", "2", "precision", "AT-BSM", "for all CH", lambda _: True),
    ("Hp.3", "3", "nDCG of the figures", "AT-TSM", "for all K", lambda _: True),
    ("Hp.3", "3", "precision", "AT-BSM", "for K < 7", lambda k: k < 7),
    ("Hp.3", "3", "precision", "WSJ-LRU", "for K ≥ 10", lambda k: k >= 10),
    ("Hp.4", "4", "nDCG of the figures", "AT-TSM", "for all N", lambda _: True),
    ("Hp.4", "4", "precision", "AT-BSM", "for all N", lambda _: True),
)


def table_7(rows: Sequence[Quality]) -> Table:
    """Say where the paper's policy is the best of the published ones here too, and who is where it isn't."""
    lines = []
    for hypothesis, number, title, policy, where, within in _HYPOTHESES:
        cells = points(rows, METRICS[title], number)
        cells = {key: cell for key, cell in cells.items() if within(int(key[_PLACE[number]]))}
        if not cells:
            continue
        winners: dict[str, list[str]] = {}
        for key, cell in cells.items():
            value = f"{key[_PLACE[number]]}" + (f" (B = {key[-1]})" if number in "34" else "")
            winners.setdefault(best_of(cell)[0], []).append(value)
        mine = winners.pop(policy, [])
        here = f"best at {_SPOKEN[number]} = {', '.join(mine)}" if mine else "nowhere the best"
        others = "; ".join(f"{name} at {', '.join(values)}" for name, values in winners.items())
        behind = min(100 * (cell[policy] / best_of(cell)[1] - 1) for cell in cells.values())
        lines.append((hypothesis, title, f"{policy} {where}", here, others, f"{abs(behind):.1f} %"))
    return ("", "metric", "the paper's best", "here", "best elsewhere", "furthest behind the best"), lines


def gain_table(rows: Sequence[Quality]) -> Table:
    """List AT-GAIN at each point beside the best other policy, and where it aims at the metric; without savings too."""
    strict = [row for row in rows if row.experiment.endswith("strict")]
    names = each(METRICS)
    head = ["experiment", "CH", "K", "N", "B"]
    for title in names:
        head += [f"{title}: best other", GAIN, AIMED[title]]
    cells = {title: points(rows, METRICS[title]) for title in names}
    lines = []
    for key in cells[names[0]]:
        figures: list[str] = []
        for title in names:
            best, value = best_of(cells[title][key])
            figures.append(f"{best} {value:.2f}")
            for policy in (GAIN, AIMED[title]):
                ours = cells[title][key].get(policy, np.nan)
                alike = [METRICS[title](r) for r in strict if r.policy == policy and _key(r) == key]
                mark = f"**{ours:.2f}**" if ours >= value - LEVEL else f"{ours:.2f}"
                figures.append(f"{mark} ({np.median(alike):.2f})" if alike else mark)
        lines.append([*(str(part) for part in key), *figures])
    return head, lines
