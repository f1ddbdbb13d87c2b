"""Change the code in small ways and see whether a test notices: ``python -m tests.mutation --count 20``.

Each change is made in a copy of the package, for which the tests of its file run until one fails. What no test
notices is listed at the end.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.mutation.mutants import Mutant, mutants

ROOT = Path(__file__).parents[2]
CORE = ("tests/simulation", "-k", "(monitor and staircase) or local_runs[staircase]")
KILLERS: dict[str, list[tuple[str, ...]]] = {  # by file: tests that should notice, the quickest first
    "algorithms/staircase/staircase.py": [CORE, ("tests/conformance",)],
    "algorithms/staircase/prefilter.py": [CORE, ("tests/conformance", "tests/unit/test_kernels.py")],
    "algorithms/staircase/panes.py": [CORE, ("tests/conformance",)],
    "engine/ranking.py": [CORE, ("tests/conformance", "tests/unit/test_snapshot.py", "tests/unit/test_answers.py")],
    "engine/intake.py": [CORE, ("tests/unit/test_input.py", "tests/conformance")],
    "windows.py": [CORE, ("tests/unit/test_query.py", "tests/conformance")],
    "spark/checkpoint.py": [("tests/unit/test_checkpoint.py",), ("tests/spark/test_recovery.py",)],
    "spark/loop.py": [("tests/spark/test_start.py",), ("tests/spark/test_recovery.py",)],
    "spark/sinks/files.py": [("tests/spark/test_sinks.py",)],
    "spark/sinks/sql.py": [("tests/spark/test_sinks.py",)],
}


def survives(copy: Path, file: str, mutant: Mutant, seconds: float) -> bool:
    """Tell whether all tests pass with a change; one that never ends is noticed too."""
    path = copy / "skyband" / file
    text = path.read_text()
    path.write_text(mutant.applied(text))
    environment = os.environ | {"PYTHONPATH": f"{copy}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        for tests in KILLERS[file]:
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-x",
                "-q",
                "-p",
                "no:cacheprovider",
                "-p",
                "no:randomly",
                *tests,
            ]
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=seconds, check=False)
            if done.returncode:
                return False
    except subprocess.TimeoutExpired:
        return False
    finally:
        path.write_text(text)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--file", action="append", choices=KILLERS, help="only these files of the package")
    parser.add_argument("--count", type=int, default=10, help="how many changes per file, drawn at random; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600, help="how long the tests of one change may take")
    given = parser.parse_args()
    table = Table("file", "noticed", "not noticed")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(ROOT / "src" / "skyband", copy / "skyband", ignore=shutil.ignore_patterns("__pycache__"))
        for file in given.file or KILLERS:
            found = list(mutants((copy / "skyband" / file).read_text()))
            drawn = random.Random(given.seed).sample(found, min(given.count or len(found), len(found)))
            tried = [(mutant, survives(copy, file, mutant, given.seconds)) for mutant in track(drawn, description=file)]
            left = [str(mutant) for mutant, alive in tried if alive]
            table.add_row(file, f"{len(tried) - len(left)} of {len(tried)}", "\n".join(left))
    Console().print(table)


if __name__ == "__main__":
    main()
