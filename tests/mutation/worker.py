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

    def __init__(self, todo: list[tuple[str, Mutant]], results: Path, shared: bool) -> None:
        self.todo, self.results, self.shared = todo, results, shared

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
        known: dict[str, Any] = {}
        _, code = self._run(lambda: known.update(self._pass_by()), 3_600, known)
        if code:
            raise pytest.UsageError("the tests fail, or do not end, as they are")
        for file, mutant in self.todo:
            self._try(file, mutant, known)
        return True

    def _try(self, file: str, mutant: Mutant, known: dict[str, Any]) -> None:
        lines = set(mutant.lines)
        passing = [name for name, (_, by) in known.items() if by is None or not lines.isdisjoint(by.get(file, ()))]
        passing.sort(key=lambda name: known[name][0])
        limit = 10 + 4 * sum(known[name][0] for name in passing)
        told: dict[str, Any] = {}
        began = time.perf_counter()

        def judge() -> None:
            with _applied(file, mutant):
                told["by"] = self._first_to_fail(passing)

        if passing:
            stuck, code = self._run(judge, limit, told)
            if stuck or code:
                told["by"] = "it does not end" if stuck else "the process ends"
        by = told.get("by") if passing else None
        row = {"file": file, "mutant": mutant.name, "line": mutant.lines.start, "noticed": by, "tests": len(passing)}
        with self.results.open("a") as out:
            out.write(json.dumps(row | {"seconds": round(time.perf_counter() - began, 2)}) + "\n")
        if passing and stuck and self.shared:
            os._exit(STUCK)  # its threads may still run

    def _run(self, job: Callable[[], None], seconds: float, told: dict[str, Any]) -> tuple[bool, int]:
        """Do something that fills `told`; say whether it did not end, and otherwise with what."""
        if self.shared:
            return _within(seconds, job), 0
        with tempfile.TemporaryDirectory() as folder:
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    runs.FOUND = Path(folder)
                    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as it lives
                    job()
                    (Path(folder) / "told").write_text(json.dumps(told))
                    code = 0
                finally:
                    os._exit(code)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                if (ended := os.waitpid(child, os.WNOHANG))[0]:
                    if ended[1] == 0:
                        told.update(json.loads((Path(folder) / "told").read_text()))
                    return False, ended[1]
                time.sleep(0.005)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True, 0

    def _first_to_fail(self, names: list[str]) -> str | None:
        items = {item.nodeid: item for item in self.session.items}
        for name in names:
            if not self._passes(items[name]):
                return name
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
    before, function.__code__ = function.__code__, _find(code, mutant.function)
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


def _within(seconds: float, job: Callable[[], None]) -> bool:
    """Do something; tell whether it had to be stopped."""
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(int(seconds) + 1)
    try:
        job()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return stopped


def main(results: str, *tests: str) -> int:
    """Try the changes that are listed on the input, as files and names, and have no result yet."""
    asked = {(file, name) for file, name in json.load(sys.stdin)}
    asked -= {(row["file"], row["mutant"]) for row in read(Path(results))}
    files = sorted({file for file, _ in asked})
    todo = [(file, mutant) for file in files for mutant in of_file(file) if (file, mutant.name) in asked]
    test_simulation.SEEDS //= SHARE
    setattr(runs, "shrink", lambda history, *_: history)  # noqa: B010 - that it fails is enough
    folder = Path(tempfile.mkdtemp())
    runs.FOUND = folder
    tries = Tries(todo, Path(results), shared=any(file.startswith("spark/") for file in files))
    given = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--tb=no", *tests]
    try:
        return int(pytest.main(given, plugins=[tries])) if todo else 0
    finally:
        shutil.rmtree(folder)


def read(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
