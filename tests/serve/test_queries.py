"""Queries over REST: register, list, explain, pause, resume, remove; answers, history and numbers."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

import skyband as sb
from skyband.engine.limits import WindowLimits
from skyband.serve.standings import MOST_ROWS, Board, brief, plain
from skyband.serve.streams import AnswerView
from skyband.serve.texts import Limits
from tests.languages.texts import LISTING_1_1
from tests.serve.conftest import MINE, TOP, Fed, answers, eventually, served


def names(client: httpx2.Client) -> list[str]:
    return [entry["name"] for entry in client.get("/api/queries").json()["queries"]]


def test_answers_appear_and_say_what_moved(client: httpx2.Client, stream: Fed) -> None:
    stream.feed((1, "A", 5.0), (2, "B", 7.0), (3, "C", 6.0), (4, "D", 1.0), (11, "A", 9.0), (12, "C", 8.0))
    stream.feed((20, "Z", 0.0))
    found = eventually(lambda: len(seen := answers(client, limit=5)) == 2 and seen)
    latest, first = found
    assert [(row["rank"], row["id"], row["score"], row["was"]) for row in latest["rows"]] == [
        (1, "A", 9.0, 3),
        (2, "C", 8.0, 2),
    ]
    assert [row["was"] for row in first["rows"]] == [None, None, None]
    assert latest["rows"][0]["values"] == {"venue": "XPAR"}
    assert (first["start"], first["end"]) == ("2026-03-02T09:30:00Z", "2026-03-02T09:30:10Z")
    assert (first["threshold"], latest["threshold"]) == (5.0, None), "the second has fewer than k rows"
    assert latest["exact"] is True
    assert client.get("/api/answers").json()["answers"] == [latest]


@pytest.mark.parametrize(
    ("media", "text"),
    [
        ("application/json", json.dumps(MINE)),
        ("application/json; charset=utf-8", json.dumps([MINE])),
        ("application/toml", '[[query]]\nname = "mine"\nk = 2\nsize = "10 seconds"\nscore = "price * volume"\n'),
    ],
)
def test_a_query_is_registered_and_answers(client: httpx2.Client, stream: Fed, media: str, text: str) -> None:
    stream.feed((1, "A", 5.0))
    reply = client.post("/api/queries", content=text, headers={"content-type": media})
    assert (reply.status_code, reply.json()) == (201, {"registered": ["mine"]})
    assert names(client) == ["top", "mine"]
    stream.feed((12, "B", 3.0), (25, "C", 1.0))
    found = eventually(lambda: answers(client, "mine"))
    assert [row["id"] for row in found[0]["rows"]] == ["B"]


@pytest.mark.parametrize(
    ("media", "text"),
    [
        ("application/json", json.dumps(MINE | {"score": "price + " + "9" * 5_000})),
        ("application/json", json.dumps(MINE | {"size": "9" * 5_000 + " seconds"})),
        ("application/json", json.dumps(MINE).replace(f'"k": {MINE["k"]}', '"k": ' + "9" * 5_000)),
        ("application/sql", f"SELECT id FROM TUMBLE(s, ts, INTERVAL 1 HOUR) ORDER BY price LIMIT {'9' * 5_000}"),
        ("application/toml", ".".join("a" * 8_000) + " = 1"),
        ("application/toml", "k = " + "9" * 5_000),
    ],
)
def test_absurd_numbers_and_keys_are_told(client: httpx2.Client, media: str, text: str) -> None:
    reply = client.post("/api/queries", content=text, headers={"content-type": media})
    assert reply.status_code == 422
    assert "digits" in reply.json()["error"] or "parts" in reply.json()["error"]
    assert names(client) == ["top"]


def test_pause_resume_remove(client: httpx2.Client, stream: Fed) -> None:
    def states() -> dict[str, str]:
        return {entry["name"]: entry["state"] for entry in client.get("/api/queries").json()["queries"]}

    assert client.patch("/api/queries/top", json={"state": "paused"}).status_code == 200
    assert states() == {"top": "paused"}
    stream.feed((1, "A", 5.0), (11, "B", 5.0))
    assert answers(client) == []
    assert client.patch("/api/queries/top", json={"state": "active"}).json() == {"name": "top", "asked": "active"}
    stream.feed((21, "C", 5.0))
    assert eventually(lambda: answers(client))[0]["rows"][0]["id"] == "B"
    assert client.delete("/api/queries/top").json() == {"removed": "top"}
    assert states() == {}
    for reply in (client.get("/api/answers/top"), client.delete("/api/queries/top")):
        assert (reply.status_code, reply.json()) == (404, {"error": "there is no such query"})


def test_any_name_can_be_addressed(client: httpx2.Client) -> None:
    for name in ("a/b", "50 %", "x?y#z", "<b>ü</b>", 'say "hi"', "top/pause", "a/../b", "a;b"):
        assert client.post("/api/queries", json=MINE | {"name": name}).status_code == 201
        path = f"/api/queries/{quote(name, safe='')}"
        assert client.patch(path, json={"state": "paused"}).status_code == 200
        assert client.get(f"/api/answers/{quote(name, safe='')}").json() == {"answers": []}
        assert client.delete(path).json() == {"removed": name}


def test_explain(client: httpx2.Client) -> None:
    assert "top: best 3 over Window('10 seconds'" in client.get("/api/explain").text
    checked = client.post("/api/check", json=MINE)
    assert "mine: best 2" in checked.json()["explain"]
    assert names(client) == ["top"], "a check changes nothing"


def test_where_an_id_stands(client: httpx2.Client, stream: Fed) -> None:
    stream.register(sb.Query("most", k=1, score="sum(price)", window=sb.Window("10 seconds")))
    stream.feed((1, "A", 3.0), (2, "B", 2.0), (3, "C", 1.0), (4, "D", 0.5), (5, "B", 2.0))
    eventually(lambda: "most" in {q["name"] for q in client.get("/api/queries").json()["queries"]})
    found = client.get("/api/rank/top", params={"id": "B"}).raise_for_status().json()
    assert (found["stands"], found["row"]["rank"], found["row"]["score"]) == ("ranked", 2, 2.0)
    assert (found["above"]["id"], found["below"]["id"]) == ("A", "C")
    assert found["row"]["values"] == {"venue": "XPAR"}
    assert (found["start"], found["end"]) == ("2026-03-02T09:30:00Z", "2026-03-02T09:30:10Z")
    assert (found["exact"], found["provisional"]) == (True, True)
    assert client.get("/api/rank/top", params={"id": "D"}).json()["stands"] == "below k"
    whole = client.get("/api/rank/most", params={"id": "D"}).json()
    assert (whole["stands"], whole["row"]["rank"], whole["above"]["id"], whole["below"]) == ("ranked", 4, "C", None)
    assert client.get("/api/rank/most", params={"id": "E"}).json()["stands"] == "absent"
    assert client.get("/api/rank/none", params={"id": "E"}).status_code == 404
    assert client.get("/api/rank/top").status_code == 422


def test_ranks_that_repeat_are_shown_with_how_they_moved() -> None:
    tied = sb.Query("top", k=1, score="price", window=sb.Window("10 seconds"), ties="with")
    stream = Fed([tied])
    with served(stream) as client:
        stream.feed((1, "A", 3.0), (2, "B", 3.0), (3, "C", 1.0))
        stream.feed((11, "A", 4.0), (12, "D", 4.0), (13, "B", 4.0), (14, "C", 1.0))
        stream.feed((21, "A", 1.0))
        (shown,) = eventually(lambda: [one for one in answers(client) if one["end"].endswith("20Z")])
        assert [(row["rank"], row["id"]) for row in shown["rows"]] == [(1, "B"), (1, "D"), (1, "A")]
    stream.close()


def test_what_is_wrong_is_said_with_its_place(client: httpx2.Client) -> None:
    reply = client.post("/api/queries", json=MINE | {"score": "price * / 2"})
    assert reply.status_code == 422
    assert reply.json()["problems"][0].endswith("something is missing at '/'\n    price * / 2\n            ^")
    for wrong, said in (
        (MINE | {"score": "nothing"}, "nothing"),
        (MINE | {"name": "top"}, "there is already a query named 'top'"),
        (MINE | {"k": 0}, "k is 0; it must be from 1"),
        ({"name": "x"}, "missing key 'k', 'size', 'score'"),
        ([], "give a table with name, k, size and score"),
        (["x"], "give a table with name, k, size and score"),
    ):
        reply = client.post("/api/queries", json=wrong)
        assert (reply.status_code, said in reply.json()["error"]) == (422, True), reply.json()
    toml = {"content-type": "application/toml"}
    assert "no TOML" in client.post("/api/queries", content="[[", headers=toml).json()["error"]
    assert "names 'x' as the column of the id" in client.post(
        "/api/queries", content='id = "x"\n[[query]]\nname = "a"\nk = 1\nsize = "1 s"\nscore = "price"', headers=toml
    ).json()["error"]  # fmt: skip
    assert client.post("/api/queries", content="x", headers={"content-type": "text/plain"}).status_code == 415
    assert client.post("/api/queries", content=b"\xff", headers=toml).status_code == 422
    assert client.patch("/api/queries/top", json={"state": "gone"}).status_code == 422
    assert names(client) == ["top"]


def test_a_length_of_time_has_a_unit(client: httpx2.Client) -> None:
    for wrong, said in (
        ({"size": 5}, "query 'mine': size is 5, without a unit; write for example '5 seconds', or '5 events'"),
        ({"size": "5"}, "query 'mine': size is '5', which is no length of time; write for example '10 minutes'"),
        ({"slide": 2.5}, "query 'mine': slide is 2.5, without a unit"),
        ({"offset": 7}, "query 'mine': offset is 7, without a unit; write for example '7 seconds'"),
    ):
        reply = client.post("/api/queries", json=MINE | wrong)
        assert (reply.status_code, said in reply.json()["error"]) == (422, True), reply.json()
    toml = '[[query]]\nname = "mine"\nk = 2\nsize = 10\nscore = "price"\n'
    reply = client.post("/api/queries", content=toml, headers={"content-type": "application/toml"})
    assert (reply.status_code, "size is 10, without a unit" in reply.json()["error"]) == (422, True)
    assert client.post("/api/queries", json=MINE | {"offset": 0}).status_code == 201


def test_tiny_windows_are_refused_with_the_numbers() -> None:
    stream = Fed([TOP], limits=WindowLimits(ends=100, cuts=150))
    with served(stream) as client:
        reply = client.post("/api/queries", json=MINE | {"size": "1 us"})
        assert reply.status_code == 422
        assert "its windows end 1,000,000 times per second of event time" in reply.json()["error"]
        fast = MINE | {"size": "10 ms"}
        assert client.post("/api/queries", json=fast).status_code == 201
        assert client.post("/api/queries", json=fast | {"name": "alike", "size": "20 ms"}).status_code == 201
        for path in ("/api/check", "/api/queries"):
            reply = client.post(path, json=fast | {"name": "other", "score": "volume"})
            assert reply.status_code == 422
            said = "its windows add 100 cuts per second of event time to the 101 that the other queries make"
            assert said in reply.json()["error"]
        assert names(client) == ["top", "mine", "alike"]
    stream.close()


def test_a_row_from_the_future_moves_nothing(client: httpx2.Client, stream: Fed) -> None:
    years = 10 * 365 * 86_400.0

    def numbers() -> dict[str, Any]:
        return dict(client.get("/api/stream").json()["numbers"])

    stream.feed((1, "A", 5.0), (2, "B", 7.0))
    stream.feed((years, "X", 9.0), (3, "C", 6.0), (4, "D", 1.0))
    eventually(lambda: numbers()["rejected"] == 1)
    assert (numbers()["ahead"], numbers()["degraded"], numbers()["late"]) == (1, None, 0)
    stream.feed((years, "X", 9.0), (years, "Y", 9.0), (5, "E", 2.0))
    said = eventually(lambda: numbers()["degraded"])
    assert "2 of the 3 rows of the last batch were rejected" in said
    assert "such as 2036-02-28 09:30:00+00:00; check how they are made" in said
    assert "skyband_ahead_rows_total 3.0\n" in client.get("/metrics").text
    assert "skyband_degraded 1.0\n" in client.get("/metrics").text
    stream.feed((12, "F", 3.0))
    found = eventually(lambda: answers(client))
    assert [row["id"] for row in found[0]["rows"]] == ["B", "C", "A"]
    assert eventually(lambda: numbers()["degraded"] is None)
    assert numbers()["late"] == 0


def test_all_queries_of_a_text_or_none(client: httpx2.Client) -> None:
    reply = client.post("/api/queries", json=[MINE, MINE | {"name": "bad", "score": "no_such_column"}])
    assert reply.status_code == 422
    assert names(client) == ["top"]


def test_numbers(client: httpx2.Client, stream: Fed) -> None:
    stream.feed((1, "A", 5.0), (2, "B", float("nan")), (15, "C", 1.0))
    stream.feed((3, "late", 2.0))
    about = eventually(lambda: (found := client.get("/api/stream").json())["numbers"]["rows"] == 4 and found)
    assert about["engine"] == "local"
    assert about["columns"]["price"] == "double"
    assert about["limits"]["k"] == 1000
    numbers = about["numbers"]
    assert (numbers["late"], numbers["rejected"], numbers["batch"]) == (1, 1, 2)
    assert 1 <= numbers["kept"] <= numbers["bound"]
    assert numbers["watermark"] == "2026-03-02T09:30:15Z"
    health = client.get("/healthz").json()
    assert health == {"state": "running", "health": "live", "says": "live", "silence": health["silence"]}
    assert 0 <= health["silence"] < 10
    text = client.get("/metrics").text
    for line in (
        "skyband_stream_up 1.0", "skyband_rows_total 4.0", "skyband_late_rows_total 1.0",
        "skyband_rejected_rows_total 1.0", 'skyband_queries{state="active"} 1.0',
        'skyband_answer_exact{query="top"} 1.0', "skyband_answers_total 1.0",
        "skyband_batch_duration_seconds_count 2.0",
    ):  # fmt: skip
        assert line in text.splitlines()
    assert client.get("/metrics", headers={"accept": "application/openmetrics-text"}).text.endswith("# EOF\n")


def test_metrics_escape_names_of_queries(client: httpx2.Client, stream: Fed) -> None:
    assert client.post("/api/queries", json=MINE | {"name": 'a "b" \\'}).status_code == 201
    stream.feed((1, "A", 5.0), (15, "C", 1.0))
    line = 'skyband_answer_exact{query="a \\"b\\" \\\\"} 1.0'
    eventually(lambda: line in client.get("/metrics").text.splitlines())


def test_metrics_of_two_servers_are_apart(client: httpx2.Client, stream: Fed) -> None:
    stream.feed((1, "A", 5.0))
    eventually(lambda: "skyband_batch_duration_seconds_count 1.0" in client.get("/metrics").text)
    other = Fed()
    with served(other) as quiet:
        assert "skyband_batch_duration_seconds_count 0.0" in quiet.get("/metrics").text
    other.close()


def test_a_stream_that_fails_is_unwell(client: httpx2.Client, stream: Fed) -> None:
    stream.queue.put("no batch")
    eventually(lambda: client.get("/healthz").status_code == 503)
    assert client.get("/healthz").json() == {
        "state": "failed", "health": "failed", "says": "the stream has failed; the log says why", "silence": None,
    }  # fmt: skip
    assert "skyband_stream_up 0" in client.get("/metrics").text


def test_a_query_with_absurdly_many_windows_is_suspended() -> None:
    tiny = sb.Query("tiny", k=1, score="price * 2", window=sb.Window("1 microsecond"))
    stream = Fed([replace(TOP, distinct=None), tiny], limits=WindowLimits(ends=None, cuts=None))
    try:
        with served(stream) as client:
            stream.feed((1, "A", 5.0))
            stream.feed((3600, "B", 5.0))
            entry = eventually(
                lambda: next(
                    (e for e in client.get("/api/queries").json()["queries"] if e["state"] == "suspended"), None
                )
            )
            assert entry["name"] == "tiny"
            assert "3,599,000,001 window edges" in entry["error"]
            stream.feed((3611, "C", 5.0))
            found = eventually(lambda: (seen := answers(client)) and seen[0]["end"] == "2026-03-02T10:30:10Z" and seen)
            assert [row["id"] for row in found[0]["rows"]] == ["B"], "the batch that was taken in again counts once"
    finally:
        stream.close()


# What is remembered.


def standing(end: int, *scores: float, **more: Any) -> AnswerView:
    rows = [sb.Row(rank, f"i{score:g}", score, end) for rank, score in enumerate(scores, 1)]
    return AnswerView("q", end - 10, end, rows, **more)


def board(k: int = 2) -> Board:
    return Board({"name": "q", "query": {"name": "q", "k": k, "size": 1, "score": "x", "distinct": "best"}})


def test_an_answer_is_taken_once_but_a_provisional_one_is_replaced() -> None:
    one = board()
    assert one.take(standing(10, 5, 4, provisional=True)) is not None
    later = one.take(standing(10, 6, 5))
    assert later is not None
    assert [row["was"] for row in later["rows"]] == [None, None], "moves are measured against the window before"
    assert one.take(standing(10, 9, 8)) is None
    assert one.take(standing(5, 9, 8)) is None
    assert len(one.answers) == len(one.thresholds) == 1
    following = one.take(standing(20, 7, 6))
    assert following is not None
    assert [row["was"] for row in following["rows"]] == [None, 1]


def test_memory_is_bounded_and_long_answers_are_cut_for_the_feed() -> None:
    one = board(k=900)
    for end in range(10, 100, 10):
        one.take(standing(end, *range(900, 0, -1)))
    assert sum(len(answer["rows"]) for answer in one.answers) <= MOST_ROWS
    shown = brief(one.answers[-1])
    assert (len(shown["rows"]), shown["more"]) == (50, 850)


def test_values_survive_javascript() -> None:
    assert plain([float("-inf"), 2**53, 2**53 + 1, b"x", {1: None}]) == [
        "-Infinity", 9007199254740992, "9007199254740993", "b'x'", {"1": None},
    ]  # fmt: skip


# Languages, and remote data.

SQL = """
CREATE VIEW dearest AS
SELECT symbol, price AS score FROM TUMBLE(trades, ts, INTERVAL 10 SECONDS) ORDER BY score DESC LIMIT 2
"""
RSPQL = """
REGISTER STREAM :dearest AS
SELECT ?it (?price AS ?score)
FROM NAMED WINDOW :W ON :trades [RANGE 10s STEP 10s]
WHERE { WINDOW :W { ?it :price ?price } }
ORDER BY DESC(?score) LIMIT 2
"""


@pytest.mark.parametrize(("media", "text"), [("application/sql", SQL), ("application/sparql-query", RSPQL)])
def test_other_languages(client: httpx2.Client, stream: Fed, media: str, text: str) -> None:
    head = {"content-type": media}
    assert client.post("/api/queries", content=text, headers=head).json() == {"registered": ["dearest"]}
    stream.feed((1, "A", 5.0), (2, "B", 7.0), (3, "C", 6.0), (11, "D", 1.0), (21, "E", 1.0))
    found = eventually(lambda: answers(client, "dearest", limit=9))
    assert [row["id"] for row in found[-1]["rows"]] == ["B", "C"]
    wrong = text.replace("LIMIT 2", "LIMIT LIMIT")
    reply = client.post("/api/check", content=wrong, headers=head)
    assert reply.status_code == 422
    problem = reply.json()
    line = wrong.splitlines()[problem["line"] - 1]
    assert problem["error"].splitlines()[-1].index("^") - 4 == problem["column"] - 1
    assert problem["column"] <= len(line) + 1


def test_the_server_knows_what_names_mean(stream: Fed) -> None:
    text = """REGISTER STREAM :dear AS SELECT ?s FROM NAMED WINDOW :W ON :S [RANGE 10s STEP 10s]
              WHERE { WINDOW :W { ?s :cost ?p } } ORDER BY DESC(?p) LIMIT 1"""
    with served(stream, mapping=sb.Mapping(columns={":cost": "price"})) as client:
        assert (
            client.post("/api/queries", content=text, headers={"content-type": "application/sparql-query"}).status_code
            == 201
        )
        assert client.get("/api/queries").json()["queries"][-1]["query"]["score"] == "price"


LIKED = {
    "name": "liked",
    "k": 2,
    "size": "10 seconds",
    "score": "price + likes",
    "join": {"service": "likes", "budget": 2},
}


def test_a_joined_query_says_how_old_its_values_are() -> None:
    likes = {"A": 10.0, "B": 1.0, "C": 100.0}
    stream = Fed(services={"likes": lambda ids: {name: likes.get(name) for name in ids}})
    try:
        with served(stream) as client:
            assert client.get("/api/stream").json()["services"] == ["likes"]
            assert "likes" in client.post("/api/check", json=LIKED).json()["explain"]
            assert client.post("/api/queries", json=LIKED).status_code == 201
            for second in (1, 11, 21, 31):
                stream.feed((second, "A", 5.0), (second + 1, "B", 7.0), (second + 2, "C", 6.0))
            found = eventually(lambda: len(seen := answers(client, "liked", limit=9)) == 3 and seen)
            assert [row["id"] for row in found[0]["rows"]] == ["C", "A"]
            assert all({"likes"} <= set(row["values"]) for row in found[0]["rows"])
            assert all(row["age"] is None or row["age"] >= 0 for row in found[0]["rows"])
            assert found[0]["spent"]["refreshes"] <= 2
            numbers = client.get("/api/stream").json()["numbers"]
            assert numbers["refreshes"]["budget"] == 2
            assert "skyband_remote_refreshes_total" in client.get("/metrics").text
    finally:
        stream.close()


def test_a_set_has_no_ranks_and_is_held_to_what_the_server_allows() -> None:
    """The query that the FILTER paper prints, as it stands; its answers say who is new, and are cut."""
    likes = {"A": 200_000.0, "B": 300_000.0, "C": 400_000.0, "D": 5.0}
    stream = Fed(services={"likes": lambda ids: {name: likes.get(name) for name in ids}})
    mapping = sb.Mapping(services={":BKG": "likes"}, columns={":hasMentions": "volume"})
    text = LISTING_1_1.replace("W(10m,1m)", "W(20s,10s)")
    try:
        with served(stream, mapping=mapping, limits=Limits(rows=2, budget=7)) as client:
            for place in ("check", "queries"):
                reply = client.post(f"/api/{place}", content=text, headers={"content-type": "application/sparql-query"})
                assert reply.status_code in (200, 201), reply.json()
            (entry,) = (one for one in client.get("/api/queries").json()["queries"] if one["name"] == "Influencers")
            assert (entry["query"]["k"], entry["query"]["max_rows"]) == ("all", 2)
            assert entry["query"]["join"] == {"service": "likes", "budget": 7}
            stream.feed((1, "B", 5.0), (2, "D", 7.0), (11, "A", 6.0))
            stream.feed((21, "C", 5.0), (45, "D", 1.0))
            found = eventually(lambda: len(seen := answers(client, "Influencers", limit=9)) >= 3 and seen)[::-1]
            shown = [[(row["rank"], row["was"], row["new"], row["id"]) for row in one["rows"]] for one in found[:3]]
            assert shown == [
                [(None, None, True, "B")],
                [(None, None, True, "A"), (None, None, False, "B")],
                [(None, None, False, "A"), (None, None, True, "C")],
            ]
            assert all(one["threshold"] is None for one in found)
            assert [one["exact"] for one in found[:3]] == [True, True, True]
            likes["B"] = 500_000.0
            stream.feed((51, "B", 5.0), (52, "A", 5.0), (53, "C", 5.0), (75, "D", 1.0))
            last = eventually(lambda: (seen := answers(client, "Influencers", limit=9)) and len(seen) >= 6 and seen)[0]
            assert ([row["id"] for row in last["rows"]], last["exact"]) == (["A", "B"], False)
            assert last["why"] == "cut at 2 rows"
    finally:
        stream.close()


def test_only_services_that_the_server_has() -> None:
    stream = Fed(services={"likes": lambda ids: dict.fromkeys(ids, 1.0)})
    text = 'name = "x"\nk = 1\nsize = "10 seconds"\nscore = "price + evil"\njoin = {service = "evil", budget = 1}\n'
    table = '\n[service.evil]\nkind = "http"\nurl = {env = "HOME"}\nvalue = "x"\n'
    evil = "PREFIX : <urn:skyband:>" + RSPQL.replace(
        "} }", "} SERVICE <http://evil.example/sparql> { ?it :likes ?l } }"
    )
    try:
        with served(stream) as client:
            for media, body, said in (
                ("application/toml", f"[[query]]\n{text}", "the service 'evil'; this server has 'likes'"),
                ("application/toml", f"[[query]]\n{text}{table}", "over HTTP only [[query]] tables are taken"),
                (
                    "application/json",
                    json.dumps(LIKED | {"join": {"service": "likes", "budget": 9999}}),
                    "at most 1,000",
                ),
                ("application/sparql-query", evil.replace("(?price AS", "(?price + ?l AS"), "this server has 'likes'"),
            ):
                reply = client.post("/api/queries", content=body, headers={"content-type": media})
                assert (reply.status_code, said in reply.json()["error"]) == (422, True), reply.json()
            assert names(client) == ["top"]
    finally:
        stream.close()


class Explained(Fed):
    """A stream whose state takes long to decode: it counts how often that is done, and when at once."""

    calls = under_way = at_once = 0
    held = threading.Event()

    def explain(self) -> str:
        self.calls += 1
        self.under_way += 1
        self.at_once = max(self.at_once, self.under_way)
        self.held.wait(20)
        try:
            return super().explain()
        finally:
            self.under_way -= 1


def test_the_state_is_decoded_once_per_batch_however_many_ask() -> None:
    stream = Explained()
    with served(stream) as client, ThreadPoolExecutor(40) as readers:

        def ask() -> list[Future[str]]:
            stream.held.clear()
            return [readers.submit(lambda: client.get("/api/explain").raise_for_status().text) for _ in range(40)]

        def looked() -> None:
            eventually(lambda: client.get("/api/stream").json()["numbers"]["rows"] == stream.monitor.stats().rows)

        asked = ask()
        eventually(lambda: stream.calls)
        stream.feed((1, "A", 5.0), (2, "B", 7.0), (11, "C", 1.0))  # comes in while they wait
        looked()
        asked += ask()
        stream.held.set()
        texts = [one.result(60) for one in asked]
        assert stream.calls <= 3, "one for those who came before the batch, one after it"
        assert stream.at_once == 1
        assert texts[-1] == stream.monitor.explain()
        before = stream.calls
        assert client.get("/api/explain").text == texts[-1]
        assert stream.calls == before, "nothing has happened since"
        client.post("/api/queries", json=MINE).raise_for_status()
        assert "mine" in client.get("/api/explain").text
        stream.feed((12, "D", 3.0))
        looked()
        assert client.get("/api/explain").text == Fed.explain(stream)
        assert stream.calls == before + 2
    stream.close()
