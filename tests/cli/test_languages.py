"""Queries in RSP-QL and SQL, streams of RDF: the same answers as from a TOML file over columns."""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.errors import QueryError
from skyband.files.queries import load
from skyband.languages import Mapping
from skyband.languages.mapping import mapping_of
from tests.cli.conftest import Invoke, events, save

TOML = """
time = "ts"
id = "symbol"
[[query]]
name = "top"
k = 3
size = "1 minute"
slide = "20 seconds"
closed = "right"
score = "price * volume"
where = "volume > 2"
partition_by = "venue"
"""

RSPQL = """
PREFIX ex: <http://example.org/>
REGISTER STREAM :top AS
SELECT ?symbol (?price * ?volume AS ?score)
FROM NAMED WINDOW :W ON ex:trades [RANGE 60s STEP 20s]
WHERE { WINDOW :W { ?symbol ex:costs ?price ; ex:volume ?volume ; ex:traded_at/* so much for paths */ ?venue }
        FILTER (?volume > 2) }
PARTITION BY ?venue
ORDER BY DESC(?score) LIMIT 3
""".replace("/* so much for paths */", "")

MAPPING = """
time = "ts"
[columns]
"ex:costs" = "price"
"<http://example.org/traded_at>" = "venue"
"""

SQL = """
CREATE VIEW top AS
SELECT symbol FROM (
  SELECT symbol, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, venue ORDER BY price * volume DESC) AS n
  FROM TABLE(HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '20' SECOND, INTERVAL '1' MINUTE))
  WHERE volume > 2
) WHERE n <= 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("q.toml", TOML), ("q.rq", RSPQL), ("map.toml", MAPPING), ("q.sql", SQL)):
        (tmp_path / name).write_text(text)
    table = events(300)
    (tmp_path / "in").mkdir()
    save(table, tmp_path / "in" / "trades.parquet")
    write_quads(table, tmp_path / "trades.nq")
    write_jsonld(table, tmp_path / "trades.jsonld")
    return tmp_path


def write_quads(table: pa.Table, path: Path) -> None:
    kind = "http://www.w3.org/2001/XMLSchema#"
    with path.open("w") as file:
        for number, row in enumerate(table.to_pylist()):
            graph, subject = f"<urn:g:{number}>", f"<urn:{row['symbol']}>"
            time = row["ts"].isoformat()
            file.write(f'{graph} <http://www.w3.org/ns/prov#generatedAtTime> "{time}"^^<{kind}dateTime> .\n')
            for name, value in (
                ("costs", f'"{row["price"]}"^^<{kind}double>'),
                ("volume", f'"{row["volume"]}"^^<{kind}integer>'),
                ("traded_at", json.dumps(row["venue"], ensure_ascii=False)),
            ):
                file.write(f"{subject} <http://example.org/{name}> {value} {graph} .\n")


def write_jsonld(table: pa.Table, path: Path) -> None:
    context = {"@vocab": "http://example.org/", "at": {"@id": "http://www.w3.org/ns/prov#generatedAtTime"}}
    with path.open("w") as file:
        for row in table.to_pylist():
            said = {"costs": row["price"], "volume": row["volume"], "traded_at": row["venue"]}
            one = {"@context": context, "@id": f"urn:{row['symbol']}", "at": row["ts"].isoformat(), **said}
            file.write(json.dumps(one) + "\n")


def answers(invoke: Invoke, folder: Path, queries: str, data: str, *more: object) -> list[dict[str, Any]]:
    output = folder / "answers.parquet"
    done = invoke("run", folder / queries, "--input", folder / data, "--output", output, "--overwrite", *more)
    assert done.exit_code == 0, done.output
    rows = [{**row, "id": row["id"].removeprefix("urn:")} for row in pq.read_table(output).to_pylist()]
    assert rows
    return rows


def test_rspql_over_columns_and_over_rdf(folder: Path, invoke: Invoke) -> None:
    right = answers(invoke, folder, "q.toml", "in")
    mapping = ("--mapping", folder / "map.toml")
    assert answers(invoke, folder, "q.rq", "in", *mapping) == right
    assert answers(invoke, folder, "q.rq", "trades.nq", *mapping) == right
    assert answers(invoke, folder, "q.rq", "trades.jsonld", *mapping, "--time", "when") == right


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_rdf_on_spark(folder: Path, invoke: Invoke) -> None:
    mapping = ("--mapping", folder / "map.toml")
    right = answers(invoke, folder, "q.rq", "trades.nq", *mapping)
    assert answers(invoke, folder, "q.rq", "trades.nq", *mapping, "--engine", "spark") == right


def test_sql_over_columns(folder: Path, invoke: Invoke) -> None:
    (folder / "q.toml").write_text(TOML.replace('closed = "right"\n', 'select = ["symbol"]\n'))
    assert answers(invoke, folder, "q.sql", "in") == answers(invoke, folder, "q.toml", "in")


def test_explain_and_add_read_them_too(folder: Path, invoke: Invoke) -> None:
    assert "where volume > 2" in invoke("explain", folder / "q.sql").stdout
    shown = invoke("explain", folder / "q.rq", "--mapping", folder / "map.toml").stdout
    assert "score price * volume desc" in shown
    refused = invoke("queries", "add", folder / "q.rq", "--checkpoint", folder / "none")
    assert refused.exit_code == 2
    assert "none" in refused.stderr


def test_a_joined_query_and_its_service(folder: Path, invoke: Invoke) -> None:
    with sqlite3.connect(folder / "users.db") as database:
        database.execute("CREATE TABLE users (name TEXT, followers REAL)")
        database.executemany("INSERT INTO users VALUES (?, ?)", [("ann", 10.0), ("bob", 200.0), ("eve", 3000.0)])
    database.close()
    (folder / "join.rq").write_text(
        """REGISTER STREAM :users AS SELECT ?user (COUNT(?tweet) AS ?n) (F(?n, ?followers) AS ?score)
        FROM NAMED WINDOW :W ON :S [RANGE 10m STEP 5m]
        WHERE { WINDOW :W { ?tweet :mentions ?user } SERVICE :BKG { ?user :hasFollowers ?followers } }
        GROUP BY ?user ORDER BY DESC(?score) LIMIT 2"""
    )
    (folder / "join.toml").write_text(
        f"""time = "ts"
        [columns]
        ":mentions" = "user"
        [services]
        ":BKG" = {{ service = "followers", budget = 10 }}
        [functions]
        "F(mentions, followers)" = "1000 * mentions + followers"
        [service.followers]
        kind = "sql"
        url = "sqlite:///{folder / "users.db"}"
        query = "SELECT name, followers FROM users WHERE name IN :ids"
        """
    )
    times = ["2024-05-01T09:01:00Z", "2024-05-01T09:02:00Z", "2024-05-01T09:03:00Z", "2024-05-01T09:09:00Z"]
    with (folder / "mentions.csv").open("w") as file:
        csv.writer(file).writerows([["ts", "user"], *zip(times, ["ann", "bob", "ann", "eve"], strict=True)])
    found = answers(invoke, folder, "join.rq", "mentions.csv", "--mapping", folder / "join.toml")
    assert [(row["window_end"].minute, row["rank"], row["id"], row["score"]) for row in found] == [
        (5, 1, "ann", 2010.0), (5, 2, "bob", 1200.0),
        (10, 1, "eve", 4000.0), (10, 2, "ann", 2010.0), (15, 1, "eve", 4000.0),
    ]  # fmt: skip
    assert {row["followers"] for row in found} == {10.0, 200.0, 3000.0}


@pytest.mark.parametrize(
    ("queries", "data", "more", "said"),
    [
        ("q.toml", "trades.nq", (), "is RDF, which is read by the window pattern of queries in RSP-QL"),
        ("q.rq", "trades.nq", ("--engine", "spark", "--checkpoint", "x"), "RDF is read anew in every run"),
        ("q.toml", "in", ("--mapping", "map.toml"), "says all by itself; --mapping is for queries in RSP-QL and SQL"),
        ("q.sql", "in", ("--mapping", "map.toml"), "unknown key 'columns'; for SQL, allowed are time, id"),
        ("q.rq", "in", (), "the column of the time is not known"),
        ("q.rq", "in", ("--mapping", "no.toml"), "no.toml: no such file or directory"),
        ("two.rq", "in", ("--mapping", "map.toml"), "the queries have different columns as the id: symbol, other"),
        ("twice.rq", "in", ("--mapping", "map.toml"), "query 'top': there is more than one of this name"),
        ("bad.rq", "in", (), "bad.rq: 'LIMT' is not expected here; did you mean LIMIT? (line 9, column 23)"),
        ("q.sql", "in", ("--mapping", "number.toml"), "number.toml: watermark is 5; give a text"),
        ("bad.sql", "in", (), "bad.sql: the function rand() is not allowed"),
        ("joined.rq", "in", (), "it joins with the service 'BKG', and there is no table [service.BKG]"),
    ],
)  # fmt: skip
def test_mistakes(
    queries: str,
    data: str,
    more: tuple[str, ...],
    said: str,
    folder: Path,
    refused: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    (folder / "two.rq").write_text(RSPQL + RSPQL.replace("symbol", "other").replace(":top", ":two"))
    (folder / "twice.rq").write_text(RSPQL * 2)
    (folder / "bad.rq").write_text(RSPQL.replace("LIMIT", "LIMT"))
    (folder / "number.toml").write_text("watermark = 5\n")
    (folder / "bad.sql").write_text(SQL.replace("volume > 2", "rand() > 2"))
    (folder / "joined.rq").write_text(
        RSPQL.replace("FILTER", "SERVICE :BKG {?symbol :x ?x} FILTER")
        .replace("?volume AS", "?x AS")
        .replace("PARTITION BY ?venue", "")
    )
    assert said in refused(queries, "--input", folder / data, *more)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"colums": {}}, "map: unknown key 'colums'; allowed are time, id, time_unit, watermark, algorithm and [pref"),
        ({"columns": "price"}, "map: columns is 'price'; write it as a table, [columns]"),
        ({"time": 3}, "map: time is 3; give a text"),
        ({"columns": {":a": 3}}, "columns: ':a' is 3; give a text"),
        ({"functions": {"F": "a"}}, "function 'F': write the function with its parameters"),
        ({"functions": {"F(a)": "a + b"}}, "function 'F(a)': 'b' is no parameter; the parameters are a"),
        ({"functions": {"F(a)": "rand()"}}, "function 'F(a)': the function rand() is not allowed"),
    ],
)
def test_mappings_that_cannot_be_used(given: dict[str, Any], said: str) -> None:
    with pytest.raises(QueryError) as caught:
        mapping_of(given, "map")
    assert said in str(caught.value)


def test_names_in_mappings() -> None:
    mapping = Mapping(
        columns={
            "a:x": "one",
            "<urn:a:y>": "two",
            "urn:a:z": "three",
            "a:x/a:y": "four",
            "<urn:a:x>/<urn:a:z>": "five",
        },
        prefixes={"a": "urn:a:"},
    )
    known = {("urn:a:x",): "one", ("urn:a:y",): "two", ("urn:a:z",): "three", ("urn:a:x", "urn:a:y"): "four",
             ("urn:a:x", "urn:a:z"): "five", ("urn:b#w%20w",): "w w"}  # fmt: skip
    assert {path: mapping.column(path, {"a": "urn:other:"}) for path in known} == known


def test_settings_come_with_the_file(folder: Path) -> None:
    file = load(folder / "q.rq", folder / "map.toml")
    assert (file.time, file.id, file.subject) == ("ts", None, "symbol")
    assert load(folder / "q.sql").time == "ts"
