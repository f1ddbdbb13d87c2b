"""What the paper on STKQF reports, ours beside it, and why they differ."""

from __future__ import annotations

from statistics import fmean

from benchmarks.papers.page import Claim, Found, per_answer
from benchmarks.papers.work import ALONE, VIEWS_ENTERED, VIEWS_OPEN

SLOWER = {"phbase": 2, "mtoplist": 6, "sap": 28, "mtopband": 50}  # than PH-Tree, on average, for n and for s
SECONDS = {  # on normal data with 2 and with 8 columns, from the paper's table
    "phtree": (1.783, 35.983),
    "phbase": (4.418, 74.082),
    "mtoplist": (10.792, 201.766),
    "sap": (50.337, 844.065),
    "mtopband": (88.352, 21103.442),
}
AGREES = "As in the paper."


def claims(found: Found) -> list[Claim]:
    """Return all of them."""
    return [*_speed(found), *_queries(found), *_space(found), *_query_time(found), *_dimensions(found)]


def _speed(found: Found) -> list[Claim]:
    reasons = _reasons(found)
    return [
        Claim(
            f"{experiment}: mean speed of phtree / {name}",
            paper,
            _mean_speed(found, experiment, "phtree") / _mean_speed(found, experiment, name),
            reasons[name] if experiment == "n" else "As for n.",
        )
        for experiment in ("n", "s")
        for name, paper in SLOWER.items()
    ]


def _mean_speed(found: Found, experiment: str, algorithm: str) -> float:
    return fmean(found.row(experiment, value, algorithm).events_per_s for value in found.values(experiment))


def _reasons(found: Found) -> dict[str, str]:
    """Say what makes each algorithm slower than PH-Tree, with figures of the window in the middle of the range."""
    values = found.values("n")
    usual, queries = values[len(values) // 2], found.values("query-time")[0]
    cost = {name: found.row("n", usual, name).per_event for name in (*SLOWER, "phtree")}
    alone = found.work("n", usual, ALONE, "idle")
    views, entered = (found.work("n", usual, what, "mtopband") for what in (VIEWS_OPEN, VIEWS_ENTERED))
    phbase, phtree = (per_answer(found.row("query-time", queries, name)) for name in ("phbase", "phtree"))
    per_query = 1000 * cost["sap"] / int(queries)
    per_view = 1000 * (cost["mtopband"] - alone) / views
    return {
        "phbase": "Both take in events with the same code. Only the search differs, "
        f"{phbase:.2f} and {phtree:.2f} µs per answer, and of PH-Tree's {cost['phtree']:.2f} µs per event the monitor "
        f"alone takes {alone:.2f}.",
        "mtoplist": f"An event enters {entered:.3g} of {views:,.0f} views, at "
        f"{1000 * (cost['mtoplist'] - alone) / entered:.0f} ns each.",
        "sap": f"It passes each event to the lists of {queries} queries: {per_query:.0f} ns per query.",
        "mtopband": f"It compares an event with all {views:,.0f} views, and enters {entered:.3g}: together "
        f"{per_view:.2g} ns per view, in a loop over one array. A query has {views / int(queries):.0f} views: "
        f"{per_view * views / int(queries):.0f} ns per query, against SAP's {per_query:.0f}. The cheaper of the two "
        "comes first here; in the paper it is SAP.",
    }


def _queries(found: Found) -> list[Claim]:
    first, last = found.values("queries")[0], found.values("queries")[-1]
    alone = [found.work("queries", value, ALONE, "idle") for value in (first, last)]
    answers = [found.row("queries", value, "phtree").answers for value in (first, last)]
    why = (
        f"The answers: {answers[0]:,}, then {answers[1]:,}. The monitor alone takes {alone[0]:.2f} µs per event, then "
        f"{alone[1]:.2f}."
    )
    return [
        Claim(
            f"{first} to {last} queries: growth of {name}",
            None,
            found.growth("queries", name, first, last),
            why,
            "stable",
        )
        for name in ("phtree", "phbase", "mtoplist")
    ]


def _space(found: Found) -> list[Claim]:
    value = found.values("n")[-1]
    phtree, phbase, mtoplist = (
        found.row("n", value, name).kept_candidates for name in ("phtree", "phbase", "mtoplist")
    )
    minimal = (
        "MTopList keeps the events that would be in an answer if no more came. No exact algorithm can keep fewer "
        "(Theorem 5.1.1 of MTopS, and our tests). The paper must count something else, such as one place per view: "
        "that would be MTopBand."
    )
    return [
        Claim("space: mtoplist / phtree", None, mtoplist / phtree, minimal, "more than 1"),
        Claim("space: phbase / phtree", None, phbase / phtree, AGREES if phbase > phtree else "", "more than 1"),
    ]


def _query_time(found: Found) -> list[Claim]:
    queries = found.values("query-time")[0]
    phtree = per_answer(found.row("query-time", queries, "phtree"))
    made = []
    for name in SLOWER:
        time = per_answer(found.row("query-time", queries, name))
        ready = "It finds the view's list ready" if name == "mtopband" else "It walks one short list from the best on"
        why = AGREES if time > phtree else f"{ready}: {time:.2f} against {phtree:.2f} µs per answer."
        made.append(Claim(f"query time: {name} / phtree", None, time / phtree, why, "more than 1"))
    return made


def _dimensions(found: Found) -> list[Claim]:
    first, last = found.values("dimensions")[0], found.values("dimensions")[-1]
    why = "An algorithm sees only the score: more columns make its sum longer, once per event and for all alike."
    return [
        Claim(
            f"normal data, {first} to {last} columns: growth of {name}",
            many / few,
            found.row("dimensions", last, name, "normal").per_event
            / found.row("dimensions", first, name, "normal").per_event,
            why,
        )
        for name, (few, many) in SECONDS.items()
    ]
