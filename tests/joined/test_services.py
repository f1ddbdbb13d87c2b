"""Joined queries with real services: a SPARQL endpoint and a database whose data change while the query runs, over
HTTP and from query files."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.csv as pacsv
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

import skyband as sb
from skyband.cli.commands import app
from skyband.remote.services import HttpJson, Limits, ServiceTimeout, Sparql, Sql
from tests.remote.servers import Loopback, Reply, Request
from tests.spark import postgres

MINUTE = 60_000_000
USERS = [f"user {i}" for i in range(12)]
HAS = "http://example.org/hasFollowers"
PATIENT = Limits(timeout=30, deadline=30)


class Endpoint:
    """A SPARQL endpoint over HTTP, with a real engine behind it."""

    def __init__(self) -> None:
        self.ox = pytest.importorskip("pyoxigraph")
        self.store = self.ox.Store()

    def follow(self, user: str, number: int) -> None:
        node = f"http://example.org/user/{user.replace(' ', '%20')}"
        self.store.update(
            f"DELETE {{ <{node}> <{HAS}> ?n }} WHERE {{ <{node}> <{HAS}> ?n }};"
            f"INSERT DATA {{ <{node}> <{HAS}> {number} }}"
        )

    def answer(self, request: Request, _: int) -> Reply:
        results = self.store.query(request.form["query"][0])
        return Reply(results.serialize(format=self.ox.QueryResultsFormat.JSON))


def mentions(window: int) -> list[dict[str, Any]]:
    """Events of one minute: the first users are mentioned most."""
    return [
        {"t": window * MINUTE + place * 1_000, "user": user}
        for place, user in enumerate(user for i, user in enumerate(USERS) for _ in range(len(USERS) - i))
    ]


QUERY = sb.Query(
    "influencers", k=3, score="count(*) + 0.01 * followers", window=sb.Window("1 minute"),
    join=sb.Join("followers", policy="WSJ-LRU"),
)  # fmt: skip


def truth(followers: dict[str, int]) -> list[str]:
    scores = {user: len(USERS) - i + 0.01 * followers[user] for i, user in enumerate(USERS)}
    return sorted(scores, key=lambda user: -scores[user])[:3]


def follow_along(service: Any, follow: Any) -> None:
    """Answer window by window, while followers change between them; with no bound, answers are those of the moment."""
    followers = {user: 10 * i for i, user in enumerate(USERS)}
    for user, number in followers.items():
        follow(user, number)
    monitor = sb.Monitor([QUERY], time="t", id="user", services={"followers": sb.Remote(service, limits=PATIENT)})
    for window in range(4):
        monitor.push(mentions(window))
        user = USERS[-1 - window]
        followers[user] = 5_000 - 1_000 * window
        follow(user, followers[user])
        answer = monitor.advance((window + 1) * MINUTE)[0]
        assert [row.id for row in answer.rows] == truth(followers)
        assert [row.followers for row in answer.rows] == [followers[str(row.id)] for row in answer.rows]
        assert (answer.refreshes, answer.failures, answer.stale, answer.exact) == (12, 0, 0, True)
    bounded = sb.Query("bounded", k=3, score=QUERY.score, window=QUERY.window, join=sb.Join("followers", budget=2))
    asked = monitor.remotes["followers"].traffic.ids
    monitor.unregister("influencers")
    monitor.register(bounded)
    monitor.push(mentions(4))
    answer = monitor.advance(5 * MINUTE)[0]
    assert answer.refreshes == monitor.remotes["followers"].traffic.ids - asked == 2
    assert {row.age for row in answer.rows} == {0, MINUTE}


def test_a_sparql_endpoint_whose_data_change() -> None:
    endpoint = Endpoint()
    with Loopback(endpoint.answer) as server:
        service = Sparql(
            f"{server.url}/sparql", "?user :hasFollowers ?n", id="?user", value="?n",
            term="http://example.org/user/{id}", prologue="PREFIX : <http://example.org/>",
        )  # fmt: skip
        follow_along(service, endpoint.follow)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'users.db'}"
        return
    if postgres.binaries() is None:
        pytest.skip("PostgreSQL is missing")
    with postgres.server() as url:
        yield url


def test_a_database_whose_data_change_and_one_that_takes_too_long(database: str) -> None:
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE users (name TEXT PRIMARY KEY, followers INT)"))
    upsert = sa.text(
        "INSERT INTO users VALUES (:name, :n) ON CONFLICT (name) DO UPDATE SET followers = excluded.followers"
    )

    def follow(user: str, number: int) -> None:
        with engine.begin() as connection:
            connection.execute(upsert, {"name": user, "n": number})

    statement = "SELECT name, followers FROM users WHERE name IN :ids"
    service = Sql(database, statement)
    follow_along(service, follow)
    assert pickle.loads(pickle.dumps(service)).fetch([USERS[0]]) == service.fetch([USERS[0]])
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT name, (SELECT max(i) FROM n) FROM users WHERE name IN :ids"
    )
    slow = Sql(database, endless if database.startswith("sqlite") else statement + " AND pg_sleep(60) IS NOT NULL")
    began = time.monotonic()
    with pytest.raises(ServiceTimeout, match=r"did not answer within 0\.3 seconds"):
        slow.fetch([USERS[0]], timeout=0.3)
    assert time.monotonic() - began < 20
    slow.close()
    service.close()


def test_an_http_service_can_be_carried_elsewhere() -> None:
    with Loopback(lambda *_: Reply({"a": {"n": 3}})) as server:
        remote = sb.Remote(HttpJson(f"{server.url}/?ids={{ids}}", "{id}.n"), known={"a": 1.0}, budget=4)
        other = pickle.loads(pickle.dumps(remote))
        assert other.gateway.fetch(["a"]).values == {"a": 3.0}
        assert (other.shared_budget.budget, other.replica.view(["a"]).value.tolist()) == (4, [1.0])


# Query files.

EVENTS = "ts,user\n" + "".join(f"2024-05-01T09:0{m}:0{s}Z,u{s % 3}\n" for m in range(3) for s in range(6))
FILE = """
time = "ts"
id = "user"

[service.followers]
kind = "http"
url = {{ env = "FOLLOWERS_URL" }}
value = "{{id}}.n"
deadline = 5.0
batch = 50
budget = 10

[[query]]
name = "influencers"
k = 2
score = "count(*) + followers"
size = "1 minute"
join = {{ service = "followers", policy = "{policy}", budget = 2 }}
"""


def run(folder: Path, text: str, *more: str) -> Any:
    (folder / "queries.toml").write_text(text)
    (folder / "events.csv").write_text(EVENTS)
    return CliRunner().invoke(
        app,
        ["run", str(folder / "queries.toml"), "--input", str(folder / "events.csv"), "--output",
         str(folder / "answers.csv"), "--engine", "local", "--overwrite", *more],
    )  # fmt: skip


def followers(request: Request, _: int) -> Reply:
    return Reply({name: {"n": 10.0 * int(name[1:])} for name in request.query["ids"][0].split(",")})


def test_query_files_name_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Loopback(followers) as server:
        monkeypatch.setenv("FOLLOWERS_URL", f"{server.url}/?ids={{ids}}")
        done = run(tmp_path, FILE.format(policy="AT-BSM"))
        assert done.exit_code == 0, done.output
        table = pacsv.read_csv(tmp_path / "answers.csv")
        assert table.column_names == [
            "query", "window_start", "window_end", "rank", "id", "score", "time", "followers", "age", "refreshes",
            "failures", "stale", "exact", "why",
        ]  # fmt: skip
        assert table["id"].to_pylist()[-2:] == ["u2", "u1"]
        assert table["score"].to_pylist()[-2:] == [22.0, 12.0]
        assert all(len(r.query["ids"][0].split(",")) <= 2 for r in server.requests)
        asked = len(server.requests)
        told = CliRunner().invoke(app, ["explain", str(tmp_path / "queries.toml")])
        assert "service 'followers' by the id: AT-BSM, at most 2 refreshes an answer, 10 at one moment" in told.output
        assert len(server.requests) == asked


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "http"', 'kind = "soap"', "service 'followers': kind is 'soap'; use 'sql', 'http', 'sparql'"),
        ('kind = "http"\n', "", "service 'followers': kind is None; use 'sql'"),
        ('value = "{{id}}.n"\n', "", "value is missing; a service of kind 'http' needs url and value"),
        ("batch = 50", "batches = 50", "unknown key 'batches'; a service of kind 'http' may have url, value, id"),
        ("batch = 50", "batch = 0", "the limit batch is 0; it must be at least 1"),
        ("batch = 50", "batch = 'many'", "batch is 'many'; give a number"),
        ("FOLLOWERS_URL", "NO_SUCH_VARIABLE", "url is to come from the environment variable NO_SUCH_VARIABLE"),
        ("[service.followers]", "[service.others]", "it joins with the service 'followers', and there is no table"),
        ("{policy}", "AT-BEST", "query 'influencers': there is no refresh policy 'AT-BEST'"),
        ('value = "{{id}}.n"', "value = 3", "value is 3; give a text, or {env = 'NAME'}"),
    ],
)
def test_mistakes_in_query_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    monkeypatch.setenv("FOLLOWERS_URL", "http://127.0.0.1:9/?ids={ids}")
    assert old in FILE
    done = run(tmp_path, FILE.replace(old, new).format(policy="AT-BSM"))
    assert done.exit_code == 2
    assert message in done.output


def test_every_kind_of_service_can_stand_in_a_file(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'users.db'}")
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE users (name TEXT, followers INT)"))
        connection.execute(sa.text("INSERT INTO users VALUES ('u0', 7), ('u1', 90)"))
    head = FILE.format(policy="WSJ-LRU")
    start, end = head.index("[service"), head.index("[[query]]")
    sql = f"""[service.followers]
kind = "sql"
url = {json.dumps(f"sqlite:///{tmp_path / 'users.db'}")}
query = "SELECT name, followers FROM users WHERE name IN :ids"
"""
    done = run(tmp_path, head[:start] + sql + head[end:])
    assert done.exit_code == 0, done.output
    assert pacsv.read_csv(tmp_path / "answers.csv")["id"].to_pylist()[-2:] == ["u1", "u0"]
    endpoint = Endpoint()
    for number in range(3):
        endpoint.follow(f"u{number}", 100 - number)
    with Loopback(endpoint.answer) as server:
        sparql = f"""[service.followers]
kind = "sparql"
url = "{server.url}"
query = "?u <{HAS}> ?n"
id = "?u"
value = "?n"
term = "http://example.org/user/{{id}}"
"""
        done = run(tmp_path, head[:start] + sparql + head[end:])
    assert done.exit_code == 0, done.output
    assert pacsv.read_csv(tmp_path / "answers.csv")["followers"].to_pylist()[-2:] == [100.0, 99.0]
