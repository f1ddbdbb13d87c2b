"""Tables *paper → code* in docstrings name what is there, and the page on papers names files that are there."""

from __future__ import annotations

import ast
import importlib
import re
from functools import reduce
from pathlib import Path
from pkgutil import resolve_name

import pytest

from tests.docs.pages import ROOT

SOURCE = ROOT / "src"
ARROW = "→"
PUBLISHED = [
    path
    for folder in ("algorithms/mtops", "algorithms/stkqf", "algorithms/topkw", "remote", "remote/policies")
    for path in sorted((SOURCE / "skyband" / folder).glob("*.py"))
]
OURS = {  # no line of a paper is in them, or they have a table of another form
    "algorithms/topkw/methods.py", "algorithms/topkw/blocks.py", "algorithms/topkw/block_kernels.py",
    "algorithms/topkw/tree_kernels.py",
    "algorithms/mtops/__init__.py", "algorithms/stkqf/__init__.py", "algorithms/topkw/__init__.py",
    "remote/__init__.py", "remote/objects.py", "remote/replica.py", "remote/policies/gain.py",
}  # fmt: skip


def name(path: Path) -> str:
    return str(path.relative_to(SOURCE / "skyband"))


def table(path: Path) -> list[tuple[str, list[str]]]:
    """Return the table of a file: what of the paper, and the names that do it."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    rows = []
    for item in re.split(r"\n(?=- )|\n\n", docstring):
        said, arrow, names = item.partition(f" {ARROW} ")
        if arrow and item.startswith("- "):
            rows.append((said, re.findall(r"`([\w.]+)`", names)))
    return rows


@pytest.mark.parametrize("path", PUBLISHED, ids=name)
def test_tables_name_what_is_there(path: Path) -> None:
    module = importlib.import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"))
    for said, names in table(path):
        assert names, f"{said}: the line names nothing"
        for each in names:
            if each.startswith("skyband."):
                resolve_name(each)
            else:
                reduce(getattr, each.split("."), module)


@pytest.mark.parametrize("path", [p for p in PUBLISHED if name(p) not in OURS], ids=name)
def test_published_algorithms_open_with_a_table(path: Path) -> None:
    assert table(path), "say which lines of the paper are where"


def test_the_page_names_files_that_are_there() -> None:
    page = (ROOT / "docs/papers.md").read_text()
    rows = [row.split("|") for row in page.splitlines() if row.startswith("| **")]
    assert len(rows) == 5
    for _, _, code, reference, examples, _, _ in rows:
        for folder, cell in (("src", code), ("tests/references", reference), ("tests/golden", examples)):
            for file in re.findall(r"`([\w/.]+)`", cell):
                assert (ROOT / folder / file).exists(), f"{folder}/{file}"
