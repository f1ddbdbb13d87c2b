"""Streams of RDF as they are: read into columns by the pattern of a query."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from skyband.errors import InputError
from skyband.files.rdf import as_columns, rdf_files
from skyband.languages.rdf import MOST_CHOICES, Pattern, from_json, from_quads, rows

XSD = "http://www.w3.org/2001/XMLSchema#"
SAID = "<http://www.w3.org/ns/prov#generatedAtTime>"
NOON, LATER = f'"2024-05-01T12:00:00Z"^^<{XSD}dateTime>', f'"2024-05-01T12:01:00Z"^^<{XSD}dateTime>'
PATTERN = Pattern({("urn:price",): "price", ("urn:at", "urn:venue"): "venue"}, "trade", "ts")
CONTEXT = {"@vocab": "urn:", "prov": "http://www.w3.org/ns/prov#"}


def quads(*lines: str) -> list[dict[str, Any]]:
    return list(rows(from_quads(lines), PATTERN))


def jsonld(*given: dict[str, Any]) -> list[dict[str, Any]]:
    return list(rows(from_json(json.dumps({"@context": CONTEXT, **one}) for one in given), PATTERN))


def row(trade: str, ts: str | None, **values: Any) -> dict[str, Any]:
    return {"ts": ts, "trade": trade, **values}


def test_graphs_have_their_time_before_or_behind_them() -> None:
    found = quads(
        "# trades",
        f"<urn:g1> {SAID} {NOON} .",
        f'<urn:t1> <urn:price> "1.5"^^<{XSD}decimal> <urn:g1> .',
        "<urn:t1> <urn:at> _:place <urn:g1> .",
        '_:place <urn:venue> "XPAR" <urn:g1> .',
        "",
        f'<urn:t2> <urn:price> "2"^^<{XSD}integer> <urn:g2> .',
        f"<urn:g2> {SAID} {LATER} .",
        f'<urn:t3> <urn:price> "3e0"^^<{XSD}double> <urn:g3> .',
    )
    assert found == [
        row("urn:t1", "2024-05-01T12:00:00+00:00", price=1.5, venue="XPAR"),
        row("urn:t2", "2024-05-01T12:01:00+00:00", price=2),
        row("urn:t3", None, price=3.0),
    ]


def test_a_time_in_the_place_of_the_graph() -> None:
    found = quads(
        f'<urn:t1> <urn:price> "1"^^<{XSD}integer> {NOON} .',
        f'<urn:t2> <urn:price> "2"^^<{XSD}integer> {NOON} .',
        f'<urn:t1> <urn:price> "3"^^<{XSD}integer> "1714564860"^^<{XSD}long> .',
    )
    assert [(one["trade"], one["price"], one["ts"]) for one in found] == [
        ("urn:t1", 1, "2024-05-01T12:00:00+00:00"),
        ("urn:t2", 2, "2024-05-01T12:00:00+00:00"),
        ("urn:t1", 3, 1714564860),
    ]


def test_blank_nodes_are_those_of_their_event() -> None:
    lines = [
        line
        for n in range(3)
        for line in (
            f"_:g{n} {SAID} {NOON} .",
            f"_:t{n} <urn:at> _:place _:g{n} .",
            f'_:place <urn:venue> "{n}" _:g{n} .',
            f'_:t{n} <urn:price> "{n}"^^<{XSD}integer> _:g{n} .',
        )
    ]
    found = quads(*lines)
    assert [(one["price"], one["venue"], one["ts"]) for one in found] == [
        (n, str(n), "2024-05-01T12:00:00+00:00") for n in range(3)
    ]


def test_several_values_are_several_rows_and_strangers_are_none() -> None:
    found = quads(
        f'<urn:t1> <urn:price> "1"^^<{XSD}integer> <urn:g> .',
        f'<urn:t1> <urn:price> "2"^^<{XSD}integer> <urn:g> .',
        f'<urn:t1> <urn:price> "2"^^<{XSD}integer> <urn:g> .',
        "<urn:t1> <urn:at> <urn:a> <urn:g> .",
        "<urn:t1> <urn:at> <urn:b> <urn:g> .",
        '<urn:a> <urn:venue> "A" <urn:g> .',
        '<urn:b> <urn:venue> "B" <urn:g> .',
        '<urn:t2> <urn:else> "B" <urn:g> .',
    )
    assert sorted((one["price"], one["venue"]) for one in found) == [(1, "A"), (1, "B"), (2, "A"), (2, "B")]
    many = [f'<urn:t> <urn:price> "{n}"^^<{XSD}integer> <urn:g> .' for n in range(MOST_CHOICES + 1)]
    with pytest.raises(InputError, match="matches in 10,001 ways"):
        quads(*many)


def test_json_lines_with_the_time_of_a_graph_or_of_the_subject() -> None:
    found = jsonld(
        {"@id": "urn:g1", "prov:generatedAtTime": "2024-05-01T12:00:00Z",
         "@graph": [{"@id": "urn:t1", "price": 1.5, "at": {"venue": "XPAR"}}]},
        {"@id": "urn:t2", "prov:generatedAtTime": "2024-05-01T12:01:00Z", "price": 2, "at": {"venue": "X"}},
        {"@id": "urn:t3", "price": True},
    )  # fmt: skip
    assert found == [
        row("urn:t1", "2024-05-01T12:00:00Z", price=1.5, venue="XPAR"),
        row("urn:t2", "2024-05-01T12:01:00Z", price=2, venue="X"),
        row("urn:t3", None, price=True),
    ]


@pytest.mark.parametrize(
    "context",
    ["http://localhost:1/context", ["http://localhost:1/context"], {"@import": "http://localhost:1/context"},
     {"price": {"@id": "urn:price", "@context": "http://localhost:1/context"}}],
)  # fmt: skip
def test_nothing_is_fetched(context: Any) -> None:
    with pytest.raises(InputError, match="line 1 has its context elsewhere, at 'http://localhost:1/context'"):
        list(from_json([json.dumps({"@context": context, "price": 1})]))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("<urn:t> <urn:price> .", "line 1 is no N-Quad"),
        ("<urn:t> <urn:price> <urn:x> <urn:g>", "line 1 is no N-Quad"),
        ("<urn:t> <urn:price> <urn:x> <urn:g> <urn:h> .", "line 1 is no N-Quad"),
        ("hello", "line 1 is no N-Quad"),
        ('<urn:t> <urn:price> "x" .', "line 1 is in no graph; an event is a graph"),
    ],
)
def test_lines_that_are_no_quads(line: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        quads(line)


def test_lines_that_are_no_json() -> None:
    for line, said in (
        ("{", "line 1 is no JSON"),
        ('{"@context": 3}', "line 1 is no JSON-LD"),
        ("[" * 100_000, "line 1 is no JSON"),
    ):
        with pytest.raises(InputError, match=said):
            list(from_json([line]))


def test_files_become_columns(tmp_path: Path) -> None:
    lines = [f'<urn:t{n}> <urn:price> "{n}"^^<{XSD}integer> "{n}"^^<{XSD}long> .\n' for n in range(3)]
    (tmp_path / "b.nq").write_text("".join(lines))
    with gzip.open(tmp_path / "a.nq.gz", "wt") as file:
        file.write(lines[0])
    (tmp_path / "out").mkdir()
    files = as_columns(rdf_files([tmp_path]), PATTERN, tmp_path / "out")
    tables = [pq.read_table(file) for file in files]
    assert [table.num_rows for table in tables] == [1, 3]
    assert tables[1].to_pylist()[2] == {"ts": 2, "trade": "urn:t2", "price": 2.0, "venue": None}


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "a.nq").write_text(f'<urn:t> <urn:price> "1"^^<{XSD}integer> "1"^^<{XSD}long> .\n')
    (tmp_path / "b.nq").write_text(f'<urn:t> <urn:price> "dear" "1"^^<{XSD}long> .\n')
    (tmp_path / "c.csv").write_text("price\n1\n")
    with pytest.raises(
        InputError, match=r"b\.nq: column 'price' is double in the first events, and not in a later one"
    ):
        as_columns([tmp_path / "a.nq", tmp_path / "b.nq"], PATTERN, tmp_path)
    with pytest.raises(InputError, match=r"c\.csv is no RDF, and .*a\.nq is; give files of one kind"):
        as_columns(rdf_files([tmp_path / "a.nq", tmp_path / "c.csv"]), PATTERN, tmp_path)
    with pytest.raises(InputError, match=r"cannot read .*no\.nq: No such file"):
        as_columns([tmp_path / "no.nq"], PATTERN, tmp_path)
