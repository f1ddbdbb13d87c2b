"""RDF that comes into a folder, served as columns are."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console

from skyband.cli import serve_inputs
from skyband.events.batch import StreamColumns
from skyband.files.queries import load
from skyband.files.rdf import pattern_of, rdf_files
from tests.serve.conftest import answers, eventually, served

QUERY = """\
REGISTER STREAM :traded AS
SELECT ?symbol (SUM(?volume) AS ?total)
FROM NAMED WINDOW :W ON :S [RANGE 10s STEP 10s]
WHERE { WINDOW :W { ?trade :symbol ?symbol ; :volume ?volume } }
GROUP BY ?symbol ORDER BY DESC(?total) LIMIT 2
"""


def write(folder: Path, name: str, *trades: tuple[int, str, int]) -> None:
    """Let a file appear, as a whole."""
    lines = []
    for number, (second, symbol, volume) in enumerate(trades):
        event, time = f"<urn:{name}/{number}>", f'"2026-03-02T09:30:{second:02}Z"'
        lines.append(f'{event} <urn:skyband:symbol> "{symbol}" {time} .')
        lines.append(f'{event} <urn:skyband:volume> "{volume}"^^<http://www.w3.org/2001/XMLSchema#integer> {time} .')
    (folder / f".{name}").write_text("\n".join(lines) or "this is no quad")
    (folder / f".{name}").rename(folder / name)


def test_rdf_that_comes_into_a_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder := tmp_path / "in").mkdir()
    (tmp_path / "traded.rq").write_text(QUERY)
    write(folder, "1.nq", (1, "A", 5), (2, "B", 6), (3, "A", 2), (12, "B", 1))
    (folder / ".draft.nq").write_text("not yet")
    file = load(tmp_path / "traded.rq")
    pattern = pattern_of(rdf_files([folder]), file, None, None)
    with serve_inputs.from_rdf(folder, pattern) as columns:
        given = serve_inputs.Input(columns, file.queries, StreamColumns(pattern.time, str(file.subject)), "0 seconds")
        with closing(serve_inputs.locally(given, Console(quiet=True))) as stream, served(stream) as client:
            first = eventually(lambda: answers(client, "traded"))[0]
            assert [(row["id"], row["score"]) for row in first["rows"]] == [("A", 7.0), ("B", 6.0)]
            with caplog.at_level(logging.ERROR):
                write(folder, "2.nq")
                write(folder, "3.nq", (13, "C", 9), (22, "A", 1))
                second = eventually(lambda: (seen := answers(client, "traded"))[0]["end"] != first["end"] and seen)[0]
            assert [(row["id"], row["score"]) for row in second["rows"]] == [("C", 9.0), ("B", 1.0)]
            assert "2.nq: line 1 is no N-Quad" in caplog.text
    assert not columns.exists()
