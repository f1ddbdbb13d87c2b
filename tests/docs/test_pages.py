"""Every page runs from top to bottom, prints what it says, and leads where it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, pages, run_page

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_SOURCE = re.compile(r'(?:src|href)="([^"]+)"')
WITH_CODE = [
    page
    for page in pages()
    if any(block.language in ("python", "console") for block in blocks(page)) and page.name != "index.md"  # as README
]
FILES = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def starts_spark(page: Path) -> bool:
    """Tell whether a page runs Spark, itself or by the command line."""
    commands = re.findall(r"^\$ skyband (?:run|demo)\b(?:.*\\\n)*.*", page.read_text(), re.MULTILINE)
    return "pyspark" in page.read_text() or any("--engine local" not in command for command in commands)


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=[pytest.mark.spark] if starts_spark(p) else []) for p in WITH_CODE], ids=name
)
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.chdir(tmp_path)
    if starts_spark(page) and shutil.which("java") is None:
        pytest.skip("Java is missing, which Spark needs")
    if "pyspark" not in page.read_text():
        if starts_spark(page):
            request.getfixturevalue("spark")  # the session that the tests share
        run_page(page)
        return
    # Spark keeps the folder and the session that it was started with: the page gets a process of its own.
    child = [sys.executable, "-m", "tests.docs.pages", str(page)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(child, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]


def test_main_pages_are_there_and_have_code() -> None:
    assert {page.name for page in pages()} >= FILES | {"index.md", "tutorial.md", "how-it-works.md", "semantics.md"}
    assert {page.name for page in WITH_CODE} >= {"README.md", "tutorial.md", "how-it-works.md", "semantics.md"}


@pytest.mark.parametrize("page", pages(), ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in [*_LINK.findall(text), *_SOURCE.findall(text)]:
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        goal = page if not path else (page.parent / path)
        assert goal.exists(), f"{name(page)} links to {target}, which is not there"
        if anchor and goal.suffix == ".md":
            assert anchor in anchors(goal), f"{name(page)} links to {target}; {goal.name} has {sorted(anchors(goal))}"


@pytest.mark.parametrize("page", pages(), ids=name)
def test_nothing_is_asked_of_the_network(page: Path) -> None:
    """Pictures come with the page."""
    assert not re.findall(r"!\[[^\]]*\]\(https?:", page.read_text())


def anchors(page: Path) -> set[str]:
    """Return the anchors that headings get."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#{1,6} +(.+?)\s*$", text, flags=re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", head.lower()).strip()) for head in heads}


def test_wrong_output_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md, line 5 says"):
        run_page(page)
    page.write_text("```console\n$ skyband explain nowhere.toml\n```\n")
    with pytest.raises(AssertionError, match="cannot read"):
        run_page(page)
