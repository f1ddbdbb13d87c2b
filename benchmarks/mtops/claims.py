"""What the thesis on MTopS reports in numbers, ours beside it, and why they differ."""

from __future__ import annotations

from benchmarks.papers.page import Claim, Found
from benchmarks.papers.work import ALONE, PLACES, VIEWS_ENTERED, VIEWS_OPEN

SHARED = ("mtopband", "mtoplist")


def claims(found: Found) -> list[Claim]:
    """Return all of them."""
    return [*_mintopk(found), *_mtopband(found), *_growth(found), *_overhead(found), *_memory(found)]


def entry_cost(found: Found, experiment: str, value: str, algorithm: str) -> float:
    """Return the nanoseconds of an event for each view that it enters, without what the monitor takes."""
    spent = found.row(experiment, value, algorithm).per_event - found.work(experiment, value, ALONE, "idle")
    return 1000 * spent / found.work(experiment, value, VIEWS_ENTERED, algorithm)


def _mintopk(found: Found) -> list[Claim]:
    some, most = found.values("general")[-2:]
    return [
        Claim(
            f"general, {most} queries: mintopk / mtoplist",
            330,
            found.ratio("general", most, "mintopk", "mtoplist"),
            _little_is_shared(found, "general", most)
            + " In the thesis one query alone takes 1.3 ms per event, so there sharing saves nearly everything.",
        ),
        Claim(
            f"slide, {some} queries: mintopk / mtoplist",
            0.712 / 0.0066,
            found.ratio("slide", some, "mintopk", "mtoplist"),
            _little_is_shared(found, "slide", some),
        ),
        Claim(
            f"win, {most} queries: mintopk / mtoplist",
            3.112 / 0.016,
            found.ratio("win", most, "mintopk", "mtoplist"),
            "With one slide all windows start together, and sharing is complete: "
            f"{found.work('win', most, VIEWS_ENTERED, 'mintopk'):.3g} views entered by an event become "
            f"{found.work('win', most, VIEWS_ENTERED, 'mtoplist'):.2g}. (The text of the thesis says 1,500 times; its "
            "seconds, 3.112 and 0.016, give 194.)",
        ),
    ]


def _little_is_shared(found: Found, experiment: str, value: str) -> str:
    entered = [found.work(experiment, value, VIEWS_ENTERED, name) for name in ("mintopk", "mtoplist")]
    per_event = [found.row(experiment, value, name).per_event for name in ("mintopk", "mtoplist")]
    look = 1000 * (per_event[0] - per_event[1]) / int(value)
    return (
        f"Views of different queries seldom start together: an event enters {entered[0]:.3g} views of single queries, "
        f"and {entered[1]:.3g} shared ones, at {entry_cost(found, experiment, value, 'mtoplist'):.0f} ns each. Sharing "
        f"saves little more than a look at each query's list, here {look:.0f} ns."
    )


def _mtopband(found: Found) -> list[Claim]:
    most, real = found.values("general")[-1], found.values("real")[0]
    return [
        Claim(
            f"general, {most} queries: mtopband / mtoplist",
            35,
            found.ratio("general", most, "mtopband", "mtoplist"),
            "An entry moves half of a view's list in MTopBand; in MTopList it moves a pointer along a linked list. "
            f"{_entries(found, 'general', most)} With short lists (k is divided, see *Sizes*) moving numbers within an "
            "array costs no more than following links.",
            "30 to 40",
        ),
        Claim(
            f"real size, {real} queries: mtopband / mtoplist",
            35,
            found.ratio("real", real, "mtopband", "mtoplist"),
            f"{_entries(found, 'real', real)} With k up to 1,000 the lists are longer, and moving them shows.",
            "30 to 40",
        ),
        Claim(
            f"win, {most} queries: mtopband / mtoplist",
            0.038 / 0.016,
            found.ratio("win", most, "mtopband", "mtoplist"),
            f"There are {found.work('win', most, VIEWS_OPEN, 'mtoplist'):.0f} shared views, and an event enters "
            f"{found.work('win', most, VIEWS_ENTERED, 'mtoplist'):.2g} of them. What is left is the monitor, "
            f"{found.work('win', most, ALONE, 'idle'):.2f} µs of {found.row('win', most, 'mtoplist').per_event:.2f}, "
            "and writing the answers: the same for both.",
        ),
    ]


def _entries(found: Found, experiment: str, value: str) -> str:
    band, both = (entry_cost(found, experiment, value, name) for name in SHARED)
    return f"Per view entered that is {band:.0f} and {both:.0f} ns."


def _growth(found: Found) -> list[Claim]:
    few, some, most = (found.values("k")[place] for place in (0, -2, -1))
    one = found.row("overhead", found.values("overhead")[0], "mintopk").per_event
    alone = (
        f"Here queries with the same windows share one list, in MinTopK too. {int(most):,} lists of their own would "
        f"take some {int(most) * one:,.0f} µs per event: so many times the time of one query."
    )
    figures: dict[str, dict[str, tuple[float, float]]] = {
        "k": {"mtoplist": (2, 1.5), "mtopband": (3, 2)},
        "win-slide": {"mtoplist": (4.1, 2.3), "mtopband": (7, 4.5)},
    }
    return [
        Claim(f"k, {few} to {most} queries: growth of mintopk", 100, found.growth("k", "mintopk", few, most), alone),
        *(
            Claim(
                f"{experiment}, {low} to {high} queries: growth of {name}",
                paper,
                found.growth(experiment, name, low, high),
                _more_to_do(found, experiment, name, low, high),
            )
            for experiment, named in figures.items()
            for name, papers in named.items()
            for paper, (low, high) in zip(papers, ((few, some), (some, most)), strict=True)
        ),
    ]


def _more_to_do(found: Found, experiment: str, name: str, low: str, high: str) -> str:
    entered, alone, answers = (
        [figure(value) for value in (low, high)]
        for figure in (
            lambda value: found.work(experiment, value, VIEWS_ENTERED, name),
            lambda value: found.work(experiment, value, ALONE, "idle"),
            lambda value: found.row(experiment, value, name).answers,
        )
    )
    return (
        f"Views entered by an event: {entered[0]:.2g}, then {entered[1]:.2g}; answers: {answers[0]:,}, then "
        f"{answers[1]:,}; the monitor alone: {alone[0]:.2f} µs, then {alone[1]:.2f}."
    )


def _overhead(found: Found) -> list[Claim]:
    papers = {"1": 2.8 / 1.3, "2": 3.1 / 3.8, "5": 3.7 / 8.5}
    why = {
        "1": "With one query MTopList is MinTopK here, the same code: analysing one query costs nothing per event.",
        "2": "Two lists against one.",
        "5": "Five lists against one.",
    }
    return [
        Claim(
            f"overhead, {value} {'query' if value == '1' else 'queries'}: mtoplist / mintopk",
            papers[value],
            found.ratio("overhead", value, "mtoplist", "mintopk"),
            why[value],
        )
        for value in found.values("overhead")
    ]


def _memory(found: Found) -> list[Claim]:
    last = found.values("overhead")[-1]
    lists, band, both = (found.work("overhead", last, PLACES, name) for name in ("mintopk", *SHARED))
    return [
        Claim(
            f"overhead, {last} queries: memory of mintopk / mtoplist",
            5,
            lists / both,
            f"Counted in places of lists: {lists:,.0f} and {both:,.0f}. Queries ask for different k, and a deep one "
            "holds most of what the others need.",
        ),
        Claim(
            f"overhead, {last} queries: memory of mintopk / mtopband",
            2.5,
            lists / band,
            f"MTopBand has {band:,.0f} places: a list per view, and a query has several views open at a time.",
        ),
    ]
