"""The page of the benchmark `filter`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.filter import EVERY, Distance
from benchmarks.plots import INK, figure
from benchmarks.remote.page import GAIN, STYLES, each, legend, line, over
from benchmarks.report import Page, Plot, Section, Table, everything
from benchmarks.targets import Target

METHOD = """\
The experiments of section 4 of Zahmatkesh, Della Valle and Dell'Aglio, *When a FILTER Makes the Difference in
Continuously Answering SPARQL Queries on Streaming and Quasi-Static Linked Data*: who was mentioned and has more
followers than a threshold, under a refresh budget, against an oracle that may ask for everything. `AT-GAIN`, which
is made for rankings but takes filters too, is beside the paper's policies.

## Method

- **Data**: recorded mentions of 400 users and their followers, about once a minute, from the authors of the paper.
- **Translation**, as in the paper: a share of the users is drawn by chance, and each of their series is moved by a
  random number so that the threshold lies within its range. The threshold is {threshold:,.1f}, the nearest to
  100,000 that no recorded series crosses. Series that never change (14 of 400) cannot cross it. {draws} draws of
  each share.
- **Windows**: {windows}, of {seconds} s that slide by 60 s. The paper's listing has ten minutes; its findings only
  come out with the 100 s of the experiments that it extends (see below). `--variant ten-minutes` runs the listing.
- **Remote value** at a time: that of the last snapshot strictly before. The replica starts with everybody's first
  one.
- **FDT**, how near to the threshold a value must be for the `.F` policies, is 1,000, as in the paper.
- **Candidates**: nobody but a policy's candidates is refreshed (`only_candidates`), as in the paper. Otherwise the
  library gives what a policy leaves of its budget to the rest of the window.
- **WBM** is told beforehand how often each user's value changes; AT-GAIN learns it.
- **The figure** is the Jaccard distance between the answer and the oracle's, summed over all windows: less is
  better. Figures are medians over the draws; bars are quartiles.
"""

RUN_IT = """\
## Run it yourself

```
pip install -e . --group bench   # in a clone of the repository, with pip 25.1 or newer
python -m benchmarks filter --data FOLDER                                      # everything: some minutes
python -m benchmarks filter --experiment budget --data FOLDER --output rows.csv   # one experiment, its rows only
python -m benchmarks filter --smoke --data FOLDER --output out                 # some seconds, to see that it works
```

`FOLDER` has `twitter/mentions.csv.gz` and `twitter/followers.csv.gz`. Without it the environment variable
`SKYBAND_DATA` is asked, then `../shared/data`. Nothing is timed: the same data give the same rows. `--full` runs
the same; there is nothing larger.

Raw rows: `benchmarks/results/filter.csv`, versions and machine in `filter.json` beside it.
"""

PLAIN = ("WST", "WSJ-RND", "WSJ-LRU", "WSJ-WBM", "Filter Update")
COMBINED = ("Filter Update", "WSJ-RND.F", "WSJ-LRU.F", "WSJ-WBM.F")


def typical(rows: Sequence[Distance], experiment: str) -> dict[int, dict[str, float]]:
    """Return every policy's median over the draws, by the value of what an experiment varies."""
    found: dict[int, dict[str, list[float]]] = {}
    for row in rows:
        if row.experiment == experiment:
            found.setdefault(_place(row), {}).setdefault(row.policy, []).append(row.distance)
    return {value: {name: float(np.median(all_)) for name, all_ in by.items()} for value, by in found.items()}


def _place(row: Distance) -> int:
    return row.percentage if row.experiment == "percentage" else row.budget


def judge(rows: Sequence[Distance]) -> list[Target]:
    """Return what the paper leads one to expect: who has no more distance than the best of some others."""
    shares, budgets = typical(rows, "percentage"), typical(rows, "budget")
    few, many = ({share: cell for share, cell in shares.items() if (share <= 30) == low} for low in (True, False))
    expected = (
        ("up to 30 %", few, "Filter Update", PLAIN),
        ("above 30 %", many, "WSJ-WBM", PLAIN),
        ("by share", shares, "WSJ-LRU.F", COMBINED),
        ("by budget", budgets, "WSJ-LRU.F", COMBINED),
        ("by share", shares, GAIN, PLAIN),
        ("by share", shares, GAIN, COMBINED),
    )
    targets = []
    for where, cells, policy, others in expected:
        behind = {value: cell[policy] - min(cell[name] for name in others) for value, cell in cells.items()}
        if behind:
            worst = max(behind, key=lambda value: behind[value])
            text = f"{where}: distance of {policy} less the least of {', '.join(others)}; the most, at {worst}"
            targets.append(Target(text, behind[worst], 0.0))
    return targets


def hypotheses(rows: Sequence[Distance]) -> Table:
    """Say what the paper finds, and who is the best here."""
    shares, budgets = typical(rows, "percentage"), typical(rows, "budget")

    def best(cells: dict[int, dict[str, float]], among: Sequence[str], unit: str) -> str:
        winners: dict[str, list[str]] = {}
        for value, cell in cells.items():
            winners.setdefault(min(among, key=lambda name: cell[name]), []).append(f"{value}{unit}")
        return "; ".join(f"{name} at {', '.join(values)}" for name, values in winners.items())

    def order(cells: dict[int, dict[str, float]], better: str, worse: str, unit: str) -> str:
        where = [f"{value}{unit}" for value, cell in cells.items() if cell[better] < cell[worse]]
        return f"at {', '.join(where)} (of {len(cells)})" if where else "nowhere"

    acqua = PLAIN[1:]
    lines = (
        ("H.1", "Filter Update is the best of all without .F up to 30 %, WSJ-WBM above", best(shares, acqua, " %")),
        ("H.1", "the same, by budget (25 %): Filter Update", best(budgets, acqua, "")),
        ("", "WSJ-WBM is better than WSJ-RND", order(shares, "WSJ-WBM", "WSJ-RND", " %")),
        ("", "WSJ-WBM is better than WSJ-LRU", order(shares, "WSJ-WBM", "WSJ-LRU", " %")),
        ("H.2", "WSJ-LRU.F is the best of the combinations", best(shares, COMBINED, " %")),
        ("H.2", "the same, by budget (25 %)", best(budgets, COMBINED, "")),
        ("", "Filter Update is better than WSJ-WBM.F up to 30 %", order(shares, "Filter Update", "WSJ-WBM.F", " %")),
        ("", "WSJ-WBM.F is better than WSJ-RND.F", order(shares, "WSJ-WBM.F", "WSJ-RND.F", " %")),
    )
    return ("", "the paper", "here"), lines


def runs(policies: Sequence[str]) -> Plot:
    """Return what draws the best run, the worst, the average and how the draws are distributed."""

    def plot(rows: Sequence[Distance], path: Path) -> None:
        shown = [row for row in rows if row.experiment == "percentage" and row.curve and row.policy in policies]
        by_draw = {draw: sum(r.distance for r in shown if r.draw == draw) for draw in each(r.draw for r in shown)}
        ranked = sorted(by_draw, key=lambda draw: by_draw[draw])
        panels_of: dict[str, list[int]] = {"best draw": ranked[:1], "worst draw": ranked[-1:], "average": ranked}
        with figure(path, 10.0, 6.4, 2, 2) as panels:
            for axes, (title, draws) in zip(np.ravel(panels), panels_of.items(), strict=False):
                for policy in policies:
                    curves = [_curve(row) for row in shown if row.policy == policy and row.draw in draws]
                    middle = np.mean(curves, axis=0).tolist()
                    line(axes, policy, [EVERY * (at + 1) for at in range(len(middle))], middle)
                axes.set(title=title, xlabel="windows", ylabel="Jaccard distance, added up")
            _boxes(np.ravel(panels)[3], shown, policies)
            legend(panels[0][1])

    return plot


def _boxes(axes: Any, rows: Sequence[Distance], policies: Sequence[str]) -> None:
    found = [[row.distance for row in rows if row.policy == policy] for policy in policies]
    lines = {"color": INK}
    boxes = axes.boxplot(found, patch_artist=True, medianprops=lines, whiskerprops=lines, capprops=lines,
                         flierprops={"markeredgecolor": INK})  # fmt: skip
    for box, policy in zip(boxes["boxes"], policies, strict=True):
        box.set(facecolor=STYLES[policy][0], edgecolor=STYLES[policy][0])
    axes.set_xticks(range(1, len(policies) + 1), [policy.replace(" ", "\n").replace("-", "-\n") for policy in policies])
    axes.set(title="all draws, after the last window")


def _curve(row: Distance) -> list[float]:
    return [float(total) for total in (row.curve or "").split()]


def sensitivity(policies: Sequence[str]) -> Plot:
    """Return what draws the distance over the share of users that cross, and over the budget."""

    def plot(rows: Sequence[Distance], path: Path) -> None:
        with figure(path, 10.0, 3.4, 2) as panels:
            for axes, (experiment, label) in zip(
                panels, (("percentage", "users that cross the threshold, %"), ("budget", "refresh budget")), strict=True
            ):
                shown = [row for row in rows if row.experiment == experiment and row.policy in policies]
                over(axes, shown, _place, lambda row: row.distance, (25.0, 75.0))
                axes.set(xlabel=label, ylabel="Jaccard distance, added up")
                axes.set_xticks(sorted({_place(row) for row in shown}))
            legend(panels[-1])

    return plot


def listed(policies: Sequence[str]) -> Any:
    """Return what lists the medians of some policies."""

    def table(rows: Sequence[Distance]) -> Table:
        lines = [
            ["25 %" if experiment == "budget" else f"{value} %", str(value if experiment == "budget" else 3),
             *(f"{cell[policy]:.2f}" for policy in policies)]
            for experiment in ("percentage", "budget") for value, cell in typical(rows, experiment).items()
        ]  # fmt: skip
        return ("users that cross", "budget", *policies), lines

    return table


CLOSING = """\
## Why

- **Filter Update and the share.** Who is nearest to the threshold is refreshed, window after window. As long as few
  users are near, that is all of them in turn. When many are, the same nearest ones take all of the budget, and
  others cross unseen: beyond 30 % even WSJ-WBM, which knows nothing of the threshold, is better.
- **WSJ-LRU.F** takes turns among those that are near. At 50 % more users are near than it can visit while they stay
  in a window, and WSJ-WBM.F, which knows who changes often, comes up with it.
- **WSJ-WBM and the formula.** ACQUA ranks expired ids by how many answers a refresh will serve, V = ceil((best
  before + I - now) / slide). Read with I as the plain mean time between changes, V falls with every window that an
  id stays stale, until it is negative: the ids that change most are put last, and are never refreshed again.
  WSJ-WBM then is worse than WSJ-RND, with windows of 100 s and of ten minutes. The paper calls I(t) what is left
  until the *next* expiration. So read, as here, V counts from now, and WSJ-WBM is where the paper has it.
- **Ten minutes.** With windows of ten minutes, as in the paper's listing, there are three times as many users in a
  window, and the paper's findings do not come out: WSJ-LRU is then the best of those without .F, and Filter Update
  is worse than chance. The paper says that it extends the setting of ACQUA, whose windows are the 100 s of this
  run; with these its findings hold.
- **AT-GAIN** is better than all policies without .F at every share and budget. WSJ-LRU.F is better still up to 40
  %: AT-GAIN learns how far values go from all users together, but followers of some move by hundreds, of most by
  one or two.
"""

SECTIONS = {
    "hypotheses": Section(
        "Hypotheses",
        "What the paper finds, and the same here, by medians over the draws. AT-GAIN is left aside.",
        None,
        everything,
        hypotheses,
    ),
    "plain": Section(
        "Experiment 1: the Filter Update Policy (Figure 3)",
        """\
25 % of the users cross the threshold, the budget is 3. The best and the worst draw are those where all these
policies together have the least and the most distance.""",
        runs((*PLAIN, GAIN)),
        everything,
        listed((*PLAIN, GAIN)),
    ),
    "plain-sensitivity": Section(
        "Experiment 1: shares and budgets (Figure 4)",
        "On the left the budget is 3, on the right 25 % of the users cross. The figures are in the table above.",
        sensitivity((*PLAIN, GAIN)),
        everything,
        lambda rows: (("policy", "distance: the least", "the most"), _extremes(rows, (*PLAIN, GAIN))),
    ),
    "combined": Section(
        "Experiment 2: combinations (Figure 5)",
        "As Figure 3, of the policies that look only at users near the threshold.",
        runs((*COMBINED, GAIN)),
        everything,
        listed((*COMBINED, GAIN)),
    ),
    "combined-sensitivity": Section(
        "Experiment 2: shares and budgets (Figure 6)",
        "As Figure 4. The figures are in the table above.",
        sensitivity((*COMBINED, GAIN)),
        everything,
        lambda rows: (("policy", "distance: the least", "the most"), _extremes(rows, (*COMBINED, GAIN))),
    ),
}


def _extremes(rows: Sequence[Distance], policies: Sequence[str]) -> list[tuple[str, str, str]]:
    found = {policy: [row.distance for row in rows if row.policy == policy] for policy in policies}
    return [(policy, f"{min(all_):.2f}", f"{max(all_):.2f}") for policy, all_ in found.items()]


PAGE = Page(
    "experiments/filter.md", "Experiments: FILTER", METHOD, RUN_IT, SECTIONS, CLOSING, judge, "filter", Distance
)
