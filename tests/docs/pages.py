"""Pages as readers meet them: fenced blocks in order, links, and what running them prints.

A ``python`` block runs; a ``text`` block right behind it is what it prints. A block with a title is a file that
is written before the next one runs. In a ``console`` block the lines that begin with ``$ skyband`` run: in this
process, whose Spark they share.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from skyband.cli.commands import app

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(?P<language>\w+)(?P<options>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_COMMAND = "$ skyband"


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    options: str
    text: str
    line: int
    follows: bool  # whether nothing but blank lines lies between it and the block before

    @property
    def title(self) -> str | None:
        match = _TITLE.search(self.options)
        return match and match[1]


def pages() -> list[Path]:
    """Every page with text for readers."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page in order."""
    text, last = page.read_text(), 0
    for match in _FENCE.finditer(text):
        follows = last > 0 and not text[last : match.start()].strip()
        line = text.count("\n", 0, match.start()) + 1
        yield Block(match["language"], match["options"], match["text"], line, follows)
        last = match.end()


def run_page(page: Path) -> int:
    """Run a page in the current folder, as a reader would who types all of it; return how much ran."""
    names: dict[str, Any] = {"__name__": "__page__"}
    printed, ran = "", 0
    for block in blocks(page):
        where = f"{page.name}, line {block.line}"
        if block.title is not None:
            Path(block.title).write_text(block.text)
        elif block.language == "python":
            printed = _run_python(block, where, names)
            ran += 1
        elif block.language == "console":
            ran += _run_console(block, where)
        elif block.language == "text" and block.follows:
            _compare(block.text, printed, where)
    return ran


def _run_python(block: Block, where: str, names: dict[str, Any]) -> str:
    out = io.StringIO()
    code = compile("\n" * block.line + block.text, where, "exec")
    with contextlib.redirect_stdout(out):
        exec(code, names)  # what the page tells its readers to run
    return out.getvalue()


def _run_console(block: Block, where: str) -> int:
    """Run the `skyband` commands; what follows a command up to the next one is what it prints."""
    steps = [step for step in re.split(r"^(?=\$ )", block.text, flags=re.MULTILINE) if step.startswith(_COMMAND)]
    for step in steps:
        command, _, wanted = step.replace("\\\n", " ").partition("\n")
        done = CliRunner().invoke(app, shlex.split(command)[2:])
        assert done.exit_code == 0, f"{where}: {command}\n{done.output}"
        if wanted.strip():
            _compare(wanted, done.stdout, where)
    return len(steps)


def _compare(wanted: str, printed: str, where: str) -> None:
    """Fail unless the output is as written, where `...` stands for anything."""
    same = doctest.OutputChecker().check_output(wanted, printed, doctest.ELLIPSIS)
    assert same, f"{where} says:\n{wanted}\nbut it prints:\n{printed}"


if __name__ == "__main__":
    run_page(Path(sys.argv[1]))
