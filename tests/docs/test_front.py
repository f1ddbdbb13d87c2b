"""The README and the front page say the same, and only figures that were measured."""

from __future__ import annotations

import re

import pytest

from tests.docs.front import INDEX, README, front_page
from tests.docs.pages import ROOT

FIGURES = re.findall(r"^\| \[[^\]]+\]\((docs/benchmarks[^)]*)\).*\| ([0-9.,]+) \| `([^`]+)`", README.read_text(), re.M)


def test_front_page_is_the_readme() -> None:
    assert INDEX.read_text() == front_page(), "run: python -m tests.docs.front"


def test_there_are_figures() -> None:
    assert len(FIGURES) >= 6
    assert any(float(figure) < 1 for _, figure, _ in FIGURES)  # where others are faster, it says so


@pytest.mark.parametrize(("page", "figure", "command"), FIGURES)
def test_figures_are_those_of_the_benchmarks(page: str, figure: str, command: str) -> None:
    text = (ROOT / page).read_text()
    assert re.search(rf"\| {re.escape(figure)} \|", text), f"{page} has no {figure}; measure again, or change README"
    assert command in text


def test_architecture_names_modules_that_are_there() -> None:
    """Modules are paths below the package: `engine/run.py`, `spark/sinks/` in text, `spark/loop` in the picture."""
    docs, package = ROOT / "docs", ROOT / "src" / "skyband"
    text = (docs / "architecture.md").read_text() + (docs / "glossary.md").read_text()
    named = re.findall(r"`([a-z_/]+(?:\.py|/))`", text)
    drawn = re.findall(r'class="code"[^>]*>([^<]+)<', (docs / "images" / "architecture.svg").read_text())
    paths = [path for one in drawn for path in one.split(", ") if "/" in path]
    assert len(named) > 20
    assert len(paths) > 8
    missing = [
        path for path in (*named, *paths) if not ((package / path).exists() or (package / f"{path}.py").exists())
    ]
    assert not missing
