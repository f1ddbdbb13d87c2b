"""Services against servers on loopback: right, slow, failing, lying, half. And ids that try to be more than ids."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa

from skyband.errors import InputError
from skyband.remote.services import Gateway, HttpJson, Limits, ServiceError, ServiceTimeout, Sparql, Sql
from skyband.remote.services import web as web_module
from skyband.remote.services.sparql import _literal
from tests.remote.servers import Loopback, Reply, Request

NASTY = [
    "plain",
    "a,b",
    "a&b=c",
    "50%",
    "ü/ö",
    "a b",
    "x'; DROP TABLE users; --",
    '"quoted"',
    "<iri>",
    "} #",
    "\\u0022",
    "{id}",
]
XSD = "http://www.w3.org/2001/XMLSchema#"


# HTTP and JSON.


def records(request: Request, _: int) -> Reply:
    names = request.query["ids"][0].split("|")
    return Reply({"users": [{"name": name, "stats": {"followers": len(name)}} for name in names]})


def users(server: Loopback, **options: Any) -> HttpJson:
    given = {"value": "users[].stats.followers", "id": "users[].name", "separator": "%7C"} | options
    return HttpJson(f"{server.url}/users?ids={{ids}}", **given)


def test_http_a_list_of_records() -> None:
    with Loopback(records) as server:
        assert users(server).fetch(NASTY) == {name: len(name) for name in NASTY}
        assert len(server.requests) == 1


def test_http_an_object_by_id() -> None:
    with Loopback(lambda *_: Reply({"data": {"7": {"n": 1.5}, "8": {"n": None}, "9": {}}})) as server:
        service = HttpJson(f"{server.url}/?ids={{ids}}", "data.{id}.n")
        assert service.fetch([7, 8, 9, 10]) == {7: 1.5, 8: None}


def test_http_one_id_at_a_time() -> None:
    def answer(request: Request, _: int) -> Reply:
        name = request.path.removeprefix("/user/")
        return Reply(status=404) if name == "eve" else Reply({"n": len(name)})

    with Loopback(answer) as server:
        service = HttpJson(f"{server.url}/user/{{id}}", "n")
        assert service.largest_batch == 1
        assert service.fetch(["../ann"]) == {"../ann": len("..%2Fann")}
        assert service.fetch(["eve"]) == {"eve": None}
        fetched = Gateway(service).fetch(["ann", "eve", "bob"])
        assert fetched.traffic.requests == 3
        assert (fetched.values["ann"], fetched.values["bob"], fetched.traffic.missing) == (3.0, 3.0, 1)


def test_http_what_is_left_out_is_a_failure_unless_said_otherwise() -> None:
    with Loopback(lambda *_: Reply({"users": [{"name": "ann", "stats": {"followers": 1}}]})) as server:
        assert users(server).fetch(["ann", "eve"]) == {"ann": 1}
        assert users(server, absent="missing").fetch(["ann", "eve"]) == {"ann": 1, "eve": None}


def test_http_duplicates_that_differ_are_left_out() -> None:
    body = {"users": [{"name": n, "stats": {"followers": v}} for n, v in [("a", 1), ("a", 2), ("b", 3), ("b", 3)]]}
    with Loopback(lambda *_: Reply(body)) as server:
        assert users(server, absent="unknown").fetch(["a", "b"]) == {"b": 3}


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"<html>no</html>"), Reply(b""), Reply([]), Reply({"users": {}}), Reply({"users": None}),
        Reply(b"[" * 100_000),
        Reply({"users": [1, None, [], {"name": None}, {"name": ["a"], "stats": {"followers": 1}}]}),
        Reply({"users": [{"name": "a", "stats": 5}]}),
        Reply({"users": [{"name": "a", "stats": {"followers": "many"}}]}),
        Reply(b'{"users": [{"name": "a", "stats": {"followers": NaN}}]}'), Reply(status=500), Reply(status=403),
        Reply(status=302, headers={"location": "/elsewhere"}), Reply(b'{"users": [', cut=3), Reply(b"\xff\xfe"),
        Reply(b"x", headers={"content-encoding": "gzip"}),
    ],
)  # fmt: skip
def test_http_garbage_is_a_failure(reply: Reply) -> None:
    with Loopback(lambda *_: reply) as server:
        fetched = Gateway(users(server), Limits(retries=0, deadline=5.0)).fetch(["a"])
        assert (fetched.values, fetched.failed) == ({}, ("a",))


def test_http_an_answer_that_ends_too_early_is_a_failure() -> None:
    whole = Reply({"users": [{"name": "a", "stats": {"followers": 1}}]})
    with Loopback(lambda *_: Reply(whole.bytes(), headers={"connection": "close"}, cut=10)) as server:
        start = time.monotonic()
        with pytest.raises((ServiceError, ServiceTimeout)):
            users(server).fetch(["a"], timeout=0.3)
        assert time.monotonic() - start < 5.0


def test_http_failures_that_pass_do() -> None:
    def flaky(request: Request, number: int) -> Reply:
        return Reply(status=503) if number < 3 else records(request, number)

    with Loopback(flaky) as server:
        fetched = Gateway(users(server), Limits(backoff=0.01)).fetch(["ann"])
        assert (fetched.values, fetched.traffic.retries) == ({"ann": 3.0}, 2)


@pytest.mark.parametrize(
    ("text", "after"), [("60", 60.0), (None, 1.0), ("soon", 1.0), ("1e99", 3_600.0), ("-5", 0.0), ("nan", 1.0)]
)
def test_http_too_many_requests(text: str | None, after: float) -> None:
    headers = {} if text is None else {"retry-after": text}
    with Loopback(lambda *_: Reply(status=429, headers=headers)) as server:
        with pytest.raises(ServiceError) as caught:
            users(server).fetch(["a"])
        assert (caught.value.after, caught.value.retry) == (after, True)


def test_http_retry_after_may_be_a_date() -> None:
    with Loopback(lambda *_: Reply(status=503, headers={"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"})) as server:
        with pytest.raises(ServiceError) as caught:
            users(server).fetch(["a"])
        assert caught.value.after == 0.0


def test_http_slow_is_a_timeout() -> None:
    with Loopback(lambda *_: Reply({}, delay=20.0)) as server:
        start = time.monotonic()
        with pytest.raises(ServiceTimeout, match=r"within 0\.2 seconds"):
            users(server).fetch(["a"], timeout=0.2)
        assert time.monotonic() - start < 10.0


def test_http_a_trickle_without_an_end_is_a_timeout() -> None:
    with Loopback(lambda *_: Reply(b"{", trickle=True)) as server:
        start = time.monotonic()
        with pytest.raises(ServiceTimeout):
            users(server).fetch(["a"], timeout=0.3)
        assert time.monotonic() - start < 10.0


def test_http_a_reply_without_measure_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_module, "LARGEST_REPLY", 1_000)
    with Loopback(lambda *_: Reply(b" " * 100_000)) as server, pytest.raises(ServiceError, match="longer than 1,000"):
        users(server).fetch(["a"])


def test_http_nobody_there() -> None:
    with Loopback(records) as server:
        service = users(server)
    fetched = Gateway(service, Limits(retries=1, backoff=0.01, deadline=3.0)).fetch(["a"])
    assert (fetched.failed, fetched.traffic.retries) == (("a",), 1)


def test_http_errors_do_not_show_the_url() -> None:
    with Loopback(lambda *_: Reply(status=500)) as server:
        service = HttpJson(f"{server.url}/?key=secret&ids={{ids}}", "{id}")
        with pytest.raises(ServiceError) as caught:
            service.fetch(["a"])
    with pytest.raises(ServiceError) as gone:
        service.fetch(["a"])
    assert "secret" not in str(caught.value) + str(gone.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("http://localhost/", "x"), "must hold either"),
        (("http://localhost/{id}/{ids}", "x"), "must hold either"),
        (("http://localhost/{ids}", "followers"), "the same for all ids"),
        (("http://localhost/{ids}", "users[].n"), "write both"),
    ],
)
def test_http_mistakes(arguments: tuple[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        HttpJson(*arguments)


def test_http_mistakes_in_words() -> None:
    with pytest.raises(InputError, match="absent is 'perhaps'"):
        HttpJson("http://localhost/{ids}", "{id}", absent="perhaps")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the same part before"):
        HttpJson("http://localhost/{ids}", "users[].n", id="people[].id")


# SQL.


@pytest.fixture
def database(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'users.db'}"
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE users (name TEXT, followers NUMERIC)"))
        rows = [{"name": name, "n": place} for place, name in enumerate(NASTY)]
        connection.execute(sa.text("INSERT INTO users VALUES (:name, :n)"), rows)
        connection.execute(sa.text("INSERT INTO users VALUES ('two', 1), ('two', 2), ('none', NULL), ('word', 'x')"))
    engine.dispose()
    return url


STATEMENT = "SELECT name, followers FROM users WHERE name IN :ids"


def test_sql_ids_are_bound(database: str) -> None:
    service = Sql(database, STATEMENT)
    assert service.fetch(NASTY) == {name: place for place, name in enumerate(NASTY)}
    assert service.fetch(["x' OR '1'='1"]) == {"x' OR '1'='1": None}


def test_sql_what_has_no_row_or_no_value_does_not_exist(database: str) -> None:
    assert Sql(database, STATEMENT).fetch(["plain", "nobody", "none"]) == {"plain": 0, "none": None, "nobody": None}


def test_sql_lies(database: str) -> None:
    fetched = Gateway(Sql(database, STATEMENT)).fetch(["plain", "two", "word"])
    assert (fetched.values, fetched.failed, fetched.traffic.bad) == ({"plain": 0.0}, ("two", "word"), 1)


def test_sql_whole_table_for_every_id_is_strays(database: str) -> None:
    fetched = Gateway(Sql(database, "SELECT name, followers FROM users WHERE :ids IS NOT NULL OR 1")).fetch(["plain"])
    assert fetched.values == {"plain": 0.0}
    assert fetched.traffic.unexpected > 5


def test_sql_numbers_in_parallel(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'n.db'}"
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE t (id INT, v DOUBLE)"))
        connection.execute(sa.text("INSERT INTO t VALUES (:i, :v)"), [{"i": i, "v": i / 2} for i in range(500)])
    fetched = Gateway(Sql(engine, "SELECT id, v FROM t WHERE id IN :ids"), Limits(batch=50)).fetch(list(range(510)))
    assert fetched.traffic.requests == 11
    assert {name: value for name, value in fetched.values.items() if value == value} == {i: i / 2 for i in range(500)}
    engine.dispose()


def test_sql_failures(database: str, tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="the database did not answer: OperationalError"):
        Sql(database, "SELECT name, followers FROM nowhere WHERE name IN :ids").fetch(["a"])
    with pytest.raises(ServiceError, match="1 columns; select two"):
        Sql(database, "SELECT name FROM users WHERE name IN :ids").fetch(["plain"])
    nowhere = f"sqlite:///{tmp_path / 'no' / 'where.db'}"
    assert Gateway(Sql(nowhere, STATEMENT), Limits(retries=0)).fetch(["a"]).failed == ("a",)


@pytest.mark.parametrize(
    ("url", "statement", "message"),
    [
        ("sqlite://", "SELECT 1, 2", "does not name :ids"),
        ("no url at all:hunter2", STATEMENT, "cannot read the URL"),
        ("postgresql+nodriver://me:hunter2@localhost/db", STATEMENT, "cannot"),
    ],
)
def test_sql_mistakes(url: str, statement: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Sql(url, statement)
    assert "hunter2" not in str(caught.value)


# SPARQL.

_TERM = re.compile(r"<([^<>]*)>|\"((?:[^\"\\]|\\.)*)\"|(\d+)")


def values_of(query: str) -> list[str]:
    """Return the terms of the VALUES block, read as the grammar says: code points first, then terms."""
    query = re.sub(r"\\u([0-9A-Fa-f]{4})", lambda match: chr(int(match[1], 16)), query)
    block = re.search(r"VALUES \?user \{ (.*) \}\n  \?user :n \?n\n\}$", query, re.DOTALL)
    assert block, query
    found, at = [], 0
    while at < len(block[1]):
        term = _TERM.match(block[1], at)
        assert term, f"no term at {block[1][at:]!r}"
        text = next(part for part in term.groups() if part is not None)
        found.append(re.sub(r"\\(.)", lambda match: {"n": "\n", "r": "\r", "t": "\t"}.get(match[1], match[1]), text))
        at = term.end() + 1
    return found


def endpoint(known: dict[str, Any], kind: str = "uri", datatype: str = f"{XSD}integer") -> Any:
    def answer(request: Request, _: int) -> Reply:
        found = [name for name in values_of(request.form["query"][0]) if name in known]
        rows = [
            {
                "user": {"type": kind, "value": name},
                "n": {"type": "literal", "value": str(known[name]), "datatype": datatype},
            }
            for name in found
        ]
        return Reply({"head": {"vars": ["user", "n"]}, "results": {"bindings": rows}})

    return answer


def sparql(url: str, **options: Any) -> Sparql:
    return Sparql(f"{url}/sparql", "?user :n ?n", id="?user", value="?n", prologue="PREFIX : <http://x/>", **options)


def test_sparql_ids_in_an_iri() -> None:
    with Loopback(endpoint({"http://x/ann": 5, "http://x/a%20b": 6})) as server:
        service = sparql(server.url, term="http://x/{id}")
        assert service.fetch(["ann", "a b", "eve", 7]) == {"ann": 5.0, "a b": 6.0, "eve": None, 7: None}
        assert server.requests[0].method == "POST"


def test_sparql_ids_that_are_iris() -> None:
    with Loopback(endpoint({"http://x/ann": 5})) as server:
        bad = ["http://x/a b", "http://x/<", "http://x/} DROP ALL #", "ann", "", "http://x/\\u003E", "http://x/\x00"]
        assert sparql(server.url).fetch(["http://x/ann", *bad]) == {"http://x/ann": 5.0}
        assert values_of(server.requests[0].form["query"][0]) == ["http://x/ann"]
        assert sparql(server.url).fetch(bad) == {}
        assert len(server.requests) == 1  # nothing to ask for is not asked


def test_sparql_literals_cannot_become_anything_else() -> None:
    nasty = [*NASTY, "\\", "\\\\", "\\U00000022", "\\\\u0022", "a\nb\r\tc", "\x01\x7f", '" } #', "\\", "ends\\", "é"]
    known = dict.fromkeys(nasty, 4)
    with Loopback(endpoint(known, "literal")) as server:
        asked = list(dict.fromkeys(nasty))
        assert sparql(server.url, term="literal").fetch(asked) == dict.fromkeys(asked, 4.0)
        assert sparql(server.url, term="literal").fetch([12]) == {12: None}
    assert _literal("\x00") is None
    assert _literal("\ud800") is None


def test_sparql_numbers_as_literals() -> None:
    with Loopback(endpoint({"12": 4}, "literal")) as server:
        assert sparql(server.url, term="literal").fetch([12, 13]) == {12: 4.0, 13: None}


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("1.5e3", f"{XSD}double", 1_500.0), ("INF", f"{XSD}double", float("inf")), ("7", "", 7.0),
        ("NaN", f"{XSD}double", None), ("7", f"{XSD}string", None), ("many", f"{XSD}integer", None),
    ],
)  # fmt: skip
def test_sparql_values(text: str, kind: str, value: float | None) -> None:
    with Loopback(endpoint({"http://x/a": text}, datatype=kind)) as server:
        fetched = Gateway(sparql(server.url)).fetch(["http://x/a"])
        assert fetched.values == ({} if value is None else {"http://x/a": value})


def test_sparql_part_of_the_solutions_says_nothing_of_the_others() -> None:
    def partial(request: Request, number: int) -> Reply:
        reply = endpoint({"http://x/a": 1})(request, number)
        reply.status = 206
        return reply  # type: ignore[no-any-return]

    with Loopback(partial) as server:
        assert sparql(server.url).fetch(["http://x/a", "http://x/b"]) == {"http://x/a": 1.0}


@pytest.mark.parametrize(
    "body",
    [[], {}, {"results": None}, {"results": {"bindings": 5}}, {"results": {"bindings": [5]}}, {"results": {"bindings": [
        {"user": 5, "n": 5}]}}, {"boolean": True}],
)  # fmt: skip
def test_sparql_wrong_shapes_are_failures(body: Any) -> None:
    with Loopback(lambda *_: Reply(body)) as server, pytest.raises(ServiceError, match="no SPARQL result"):
        sparql(server.url).fetch(["http://x/a"])


def test_sparql_two_values_for_one_id_are_none() -> None:
    rows = [{"user": {"type": "uri", "value": "http://x/a"}, "n": {"type": "literal", "value": n}} for n in ("1", "2")]
    with Loopback(lambda *_: Reply({"results": {"bindings": rows}})) as server:
        assert sparql(server.url).fetch(["http://x/a"]) == {}


def test_sparql_no_endpoint_there() -> None:
    with Loopback(lambda *_: Reply(status=404)) as server, pytest.raises(ServiceError, match="404"):
        sparql(server.url).fetch(["http://x/a"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": "user"}, "id is 'user'; name a variable"),
        ({"value": "?other"}, "value is '\\?other'"),
        ({"term": "http://x/"}, "term is 'http://x/'"),
        ({"term": "{id}"}, "term is"),
        ({"term": "http://x/{id}> . #"}, "term is"),
    ],
)
def test_sparql_mistakes(options: dict[str, str], message: str) -> None:
    given: dict[str, Any] = {"id": "?user", "value": "?n"} | options
    with pytest.raises(InputError, match=message):
        Sparql("http://localhost/", "?user :n ?n", **given)


# What is let go of.


def test_connections_are_closed_but_not_those_of_others(database: str) -> None:
    with Loopback(records) as server, httpx2.Client() as client:
        own, other = users(server), users(server, client=client)
        for service in (own, other):
            service.close()
        assert other.fetch(["ann"]) == {"ann": 3}
        with pytest.raises(RuntimeError, match="closed"):
            own.fetch(["ann"])
    Sql(database, STATEMENT).close()
    sparql("http://localhost").close()


# What is loaded.


def test_nothing_is_loaded_before_it_is_needed() -> None:
    code = (
        "import sys, skyband, skyband.remote.services, skyband.remote.acquatop, skyband.remote.filter_join; "
        "print(sorted({'httpx2', 'sqlalchemy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("module", "make"),
    [
        ("httpx2", lambda: HttpJson("http://localhost/{ids}", "{id}")),
        ("sqlalchemy", lambda: Sql("sqlite://", STATEMENT)),
    ],
)
def test_what_is_not_installed_is_named(module: str, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=r"which is missing; install it: pip install 'skyband\[remote\]'"):
        make()
