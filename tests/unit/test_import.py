"""What is loaded when: an import costs little, and nothing that is not asked for."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import skyband as sb

EXTRAS = {
    "pandas",
    "pyspark",
    "rdflib",
    "pyparsing",
    "httpx2",
    "sqlalchemy",
    "fastapi",
    "uvicorn",
    "matplotlib",
    "polars",
}


def loaded(code: str) -> set[str]:
    """Return the top-level packages that a fresh process has loaded after some code."""
    show = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    run = subprocess.run([sys.executable, "-c", f"{code}\n{show}"], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_the_package_alone_loads_nothing_heavy() -> None:
    found = loaded("import skyband")
    assert "skyband" in found
    assert not found & {*EXTRAS, "numba", "numpy", "pyarrow", "sqlglot", "rich", "typer"}


def test_all_names_load_no_extra() -> None:
    found = loaded("from skyband import *")
    assert {"numba", "pyarrow", "sqlglot"} <= found  # else the check below would look at nothing
    assert not found & {*EXTRAS, "rich", "typer"}


def test_no_module_of_the_core_loads_an_extra() -> None:
    rooms = ("algorithms", "answers", "engine", "events", "expressions", "files", "queries", "remote")
    package = Path(sb.__file__).parent
    files = [path for room in rooms for path in sorted((package / room).rglob("*.py"))]
    names = (".".join(path.relative_to(package.parent).with_suffix("").parts) for path in files)
    found = loaded("\n".join(f"import {name.removesuffix('.__init__')}" for name in names))
    assert not found & EXTRAS


def test_types_and_values_come_from_the_same_place() -> None:
    tree = ast.parse(Path(sb.__file__).read_text())
    typed = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed.pop("spark") == "skyband"
    assert typed == sb._MODULES
    assert set(typed) == set(sb.__all__)
    assert set(sb.__all__) <= set(dir(sb))


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'skyband' has no attribute 'topk'"):
        sb.topk  # type: ignore[attr-defined]  # noqa: B018
