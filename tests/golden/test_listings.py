"""The queries that the papers print, as they stand: Listing 1 of AcquaTop, Listing 1.1 of the FILTER paper."""

from __future__ import annotations

import pytest
from rdflib import RDF, URIRef

import skyband as sb
from skyband.languages import read_rspql
from tests.languages.texts import LISTING_1, LISTING_1_1

MINUTE = 60_000_000

# Figure 1, in minutes. Its first window is (1, 10]; windows here begin with the epoch, so all is a minute earlier.
EVENTS = [("A", 1.0, 2), ("B", 5.0, 3), ("C", 6.0, 5), ("D", 0.5, 6), ("E", 7.0, 8), ("F", 3.0, 9)]
LATER = [("A", 2.0, 11), ("G", 8.0, 12)]


def batch(events: list[tuple[str, float, int]]) -> dict[str, list[object]]:
    users, mentions, minutes = zip(*events, strict=True)
    return {"ts": [(minute - 1) * MINUTE for minute in minutes], "user": list(users), "hasMentions": list(mentions)}


def listing_1(policy: str | None = None, budget: int | None = None) -> sb.Query:
    mapping = sb.Mapping(
        functions={"F(mentions, followers)": "mentions + followers"},
        services={":BKG": {"service": "followers", "policy": policy, "budget": budget}},
    )
    return sb.parse(LISTING_1, mapping)


def test_listing_1_says_what_the_paper_says() -> None:
    query = listing_1(budget=7)
    assert query == sb.Query(
        "TopkUsersToContact", k=1, score="hasMentions + followers",
        window=sb.Window("9 minutes", slide="3 minutes", closed="right"), join=sb.Join("followers", budget=7),
    )  # fmt: skip


@pytest.mark.parametrize(("gain", "second"), [(0.0, "G"), (3.0, "E")], ids=["figure 1(b)", "figure 1(c)"])
def test_listing_1_over_figure_1(gain: float, second: str) -> None:
    followers: dict[str, float] = {}
    monitor = sb.Monitor(
        [listing_1(policy="AT-ASM")], time="ts", id="user",
        services={"followers": lambda ids: {name: followers.get(name, 0.0) for name in ids}},
    )  # fmt: skip
    monitor.push(batch(EVENTS))
    answers = list(monitor.advance(9 * MINUTE + 1))
    followers["E"] = gain
    monitor.push(batch(LATER))
    answers += monitor.advance(12 * MINUTE + 1)
    best = {answer.end: [(row.id, row.score) for row in answer.rows] for answer in answers}
    assert best[9 * MINUTE] == [("E", 7.0)]
    assert best[12 * MINUTE] == [(second, {"G": 8.0, "E": 10.0}[second])]


def test_listing_1_1_constructs_what_the_paper_says() -> None:
    mapping = sb.Mapping(services={":BKG": {"service": "followers", "budget": 3}})
    (registered,) = read_rspql(LISTING_1_1, mapping)
    followers = {"Ann Lee": 200_000.0, "Bob": 5.0, "http://example.org/Cyd": 300_000.0}
    rows = {"ts": [MINUTE, 2 * MINUTE, 3 * MINUTE], "user": list(followers), "hasMentions": [1.0, 2.0, 3.0]}
    services = {"followers": lambda ids: {name: followers[name] for name in ids}}
    answers = list(sb.run(registered.query, rows, time="ts", id="user", services=services))
    assert registered.template is not None
    graphs = [set(registered.template.fill(answer.rows)) for answer in answers]
    influential = URIRef("urn:skyband:influentialUser")
    ann, cyd = URIRef("urn:skyband:Ann%20Lee"), URIRef("http://example.org/Cyd")
    assert graphs[0] == {(ann, RDF.type, influential)}
    assert graphs[2] == {(ann, RDF.type, influential), (cyd, RDF.type, influential)}


def test_listing_1_1_says_what_the_paper_says() -> None:
    query = sb.parse(LISTING_1_1, sb.Mapping(services={":BKG": {"service": "followers", "budget": 2}}))
    assert (query.name, query.window) == ("Influencers", sb.Window("10 minutes", slide="1 minute", closed="right"))
    assert query.join == sb.Join("followers", budget=2)
    assert query.k == "all"  # a set
    assert query.where == "(followers > 100000) AND (NOT (hasMentions IS NULL))"


def test_listing_1_1_finds_all_influential_users() -> None:
    query = sb.parse(LISTING_1_1, sb.Mapping(services={":BKG": "followers"}))
    known = {"ann": 100_001.0, "bob": 100_000.0, "eve": 2e6, "joe": 5.0}
    mentions = {
        "ts": [0, 30, 50, 59, 61],
        "user": ["ann", "bob", "eve", "joe", "ann"],
        "hasMentions": [1, 1, 2, 1, None],
    }
    run = sb.run(
        query, mentions, time="ts", id="user", time_unit="s",
        services={"followers": lambda ids: {name: known[name] for name in ids}},
    )  # fmt: skip
    answers = list(run)
    assert all(answer.exact and row.rank is None for answer in answers for row in answer.rows)
    found = {answer.end.timestamp() / 60: [row.id for row in answer.rows] for answer in answers}  # type: ignore[union-attr]
    assert found[0.0] == ["ann"]  # mentioned at the very moment at which this window closes
    assert found[1.0] == found[9.0] == ["ann", "eve"]
    assert found[10.0] == ["eve"]  # a window is open at its start, and an event without mentions is no match
    assert max(found) == 10.0
