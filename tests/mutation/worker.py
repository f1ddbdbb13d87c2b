"""One process that tries many changes: the tests are collected once, and run again for each change.

A change is put into the running program: its function gets other code. So nothing is imported or compiled anew. Tests
that need no Spark run in a fork, which can be ended when it does not end by itself; those that need it run here, and
share a session. A first run notes which tests pass by which lines, so that each change meets only these, the quickest
first.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tests.mutation.mutants import BY_HAND, Mutant, mutants
from tests.simulation import runs, test_simulation
from tests.simulation.histories import draw

SOURCE = Path(__file__).parents[2] / "src" / "skyband"
SHARE = 4  # of the simulation's seeds one in so many is played: few changes are noticed only by the others
STUCK = 3  # what the worker ends with when tests that share its process do not end: start another


def of_file(file: str) -> list[Mutant]:
    return mutants((SOURCE / file).read_text(), BY_HAND.get(file))


class Tries:
    """A plugin of pytest that runs what was collected again and again."""

    def __init__(self, todo: list[tuple[str, Mutant]], results: Path, seconds: float, shared: bool) -> None:
        self.todo, self.results, self.seconds, self.shared = todo, results, seconds, shared
        self.known: dict[str, tuple[float, dict[str, list[int]] | None]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the tests of other algorithms."""
        items[:] = [i for i in items if _params(i).get("algorithm", "staircase") == "staircase"]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.session = session
        if not self.shared:
            with contextlib.suppress(Exception):  # load what is compiled, once for all forks
                can, play = runs.monitor("staircase")
                for seed in range(8):
                    play(draw(seed, can))
        if ended := self._run(self._pass_by, self.known):
            raise pytest.UsageError(f"the tests fail as they are: {ended}")
        for file, mutant in self.todo:
            self._try(file, mutant)
        return True

    def _try(self, file: str, mutant: Mutant) -> None:
        names, told = self._met(file, mutant), {"noticed": None}
        began = time.perf_counter()

        def judge() -> dict[str, Any]:
            with _applied(file, mutant):
                return {"noticed": self._first_to_fail(names)}

        ended = self._run(judge, told)
        row = {"file": file, "mutant": mutant.name, "line": mutant.lines.start, "tests": len(names)}
        row |= {"noticed": ended or told["noticed"], "seconds": round(time.perf_counter() - began, 2)}
        with self.results.open("a") as out:
            out.write(json.dumps(row) + "\n")
        if ended and self.shared:
            os._exit(STUCK)  # its threads may still run

    def _met(self, file: str, mutant: Mutant) -> list[str]:
        """Return the tests that a change meets, the quickest first."""
        lines, spent, names = set(mutant.lines), 0.0, []
        for name, (took, by) in sorted(self.known.items(), key=lambda one: one[1][0]):
            if spent <= self.seconds and (by is None or not lines.isdisjoint(by.get(file, ()))):
                names.append(name)
                spent += took
        return names

    def _run(self, job: Callable[[], dict[str, Any]], told: dict[str, Any]) -> str | None:
        """Do something that tells something; return how it ended otherwise."""
        if self.shared:
            try:
                told.update(job())
            except TimeoutError:
                return "does not end"
            return None
        with tempfile.TemporaryDirectory() as folder:
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    runs.FOUND = Path(folder)
                    (Path(folder) / "told").write_text(json.dumps(job()))
                    code = 0
                finally:
                    os._exit(code)
            _, status = os.waitpid(child, 0)
            if status == 0:
                told.update(json.loads((Path(folder) / "told").read_text()))
                return None
            return "does not end" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM else "crashes"

    def _first_to_fail(self, names: list[str]) -> str | None:
        items = {item.nodeid: item for item in self.session.items}
        if self.shared:
            signal.signal(signal.SIGALRM, _stop)  # else it ends the fork
        for name in names:
            signal.alarm(10 + 5 * int(self.known[name][0]))
            try:
                if not self._passes(items[name]):
                    return name
            finally:
                signal.alarm(0)
        return None

    def _passes(self, item: pytest.Item) -> bool:
        self.session.testsfailed = 0
        item.ihook.pytest_runtest_protocol(item=item, nextitem=_Session(self.session))
        return not self.session.testsfailed

    def _pass_by(self) -> dict[str, tuple[float, dict[str, list[int]] | None]]:
        """Return, for each test, how long it takes and the lines that it passes by, by file; None: perhaps all."""
        known: dict[str, tuple[float, dict[str, list[int]] | None]] = {}
        files = {str(SOURCE / file): file for file, _ in self.todo}
        for item in self.session.items:
            everywhere = "tests/simulation" in item.nodeid  # too much happens there to be followed
            with _followed(set() if everywhere else set(files)) as lines:
                began = time.perf_counter()
                if not self._passes(item):
                    raise AssertionError(item.nodeid)
                took = time.perf_counter() - began
            passed = {files[path]: sorted(found) for path, found in lines.items()}
            known[item.nodeid] = took, None if everywhere else passed
        return known


@contextlib.contextmanager
def _applied(file: str, mutant: Mutant) -> Iterator[None]:
    """Give a function its changed code, for a while."""
    path = SOURCE / file
    module = importlib.import_module("skyband." + file.removesuffix(".py").replace("/", "."))
    code = compile(mutant.applied(path.read_text()), path, "exec")
    function = _function(module, mutant.function)
    before = function.__code__
    # A change may take out all that is used from around the function, as by `super`.
    function.__code__ = _find(code, mutant.function).replace(co_freevars=before.co_freevars)
    try:
        yield
    finally:
        function.__code__ = before


class _Session:
    """Stands for a next test that shares nothing with the one before but the session."""

    def __init__(self, session: pytest.Session) -> None:
        self.session = session

    def listchain(self) -> list[pytest.Session]:
        return [self.session]


def _params(item: pytest.Item) -> dict[str, Any]:
    return getattr(getattr(item, "callspec", None), "params", {})


def _function(module: Any, name: str) -> Any:
    """Return the function behind a name, whatever is wrapped around it."""
    found = module
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    while not hasattr(found, "__code__") or hasattr(found, "__wrapped__"):
        found = next(getattr(found, n) for n in ("__wrapped__", "__func__", "fget", "func") if hasattr(found, n))
    return found


def _find(code: CodeType, name: str) -> CodeType:
    for part in code.co_consts:
        if isinstance(part, CodeType):
            if part.co_qualname == name:
                return part
            if name.startswith(part.co_qualname + "."):
                return _find(part, name)
    raise LookupError(name)


@contextlib.contextmanager
def _followed(paths: set[str]) -> Iterator[dict[str, set[int]]]:
    """Gather the lines of some files that are passed by, in all threads."""
    lines: dict[str, set[int]] = {path: set() for path in paths}

    def inside(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            lines[frame.f_code.co_filename].add(frame.f_lineno)
        return inside

    def anywhere(frame: FrameType, _: str, __: Any) -> Any:
        return inside if frame.f_code.co_filename in paths else None

    if paths:
        threading.settrace(anywhere)
        sys.settrace(anywhere)
    try:
        yield lines
    finally:
        sys.settrace(None)
        threading.settrace(None)


def _stop(*_: object) -> None:
    raise TimeoutError


def main(results: str, seconds: str, *tests: str) -> int:
    """Try the changes that are listed on the input, as files and names, and have no result yet."""
    asked = {(file, name) for file, name in json.load(sys.stdin)}
    asked -= {(row["file"], row["mutant"]) for row in read(Path(results))}
    files = sorted({file for file, _ in asked})
    todo = [(file, mutant) for file in files for mutant in of_file(file) if (file, mutant.name) in asked]
    random.Random(0).shuffle(todo)  # so that a run which is cut short has tried a fair sample
    test_simulation.SEEDS //= SHARE
    setattr(runs, "shrink", lambda history, *_: history)  # noqa: B010 - that it fails is enough
    folder = Path(tempfile.mkdtemp())
    runs.FOUND = folder
    tries = Tries(todo, Path(results), float(seconds), shared=any(file.startswith("spark/") for file in files))
    given = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--tb=no", *tests]
    try:
        return int(pytest.main(given, plugins=[tries])) if todo else 0
    finally:
        shutil.rmtree(folder)


def read(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
