"""Change the code in small ways and see whether a test notices: ``python -m tests.mutation --results FILE``.

What was tried is added to the file as it goes, and not tried again: after new tests, take out the lines of the changes
to try anew. What no test notices is listed at the end, without what is known to be the same program.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from pathlib import Path

from tests.mutation.equivalents import EQUIVALENT
from tests.mutation.worker import STUCK, of_file, read

ROOT = Path(__file__).parents[2]
CORE = (
    "tests/conformance", "tests/properties/test_laws.py", "tests/simulation",
    *(f"tests/unit/test_{name}.py" for name in (
        "ahead", "answers", "candidates", "early", "input", "integers", "kernels", "later_queries", "limits", "panes",
        "query", "snapshot", "thresholds",
    )),
    "-k", "not spark and not subscriptions and not joins_and and not new_process and not everything_in_them"
    " and not cut_down and not plain_data",
)  # fmt: skip
SUMS = ("tests/unit/test_pane_sums.py", "tests/unit/test_sliding.py", "-k", "not many_equal_numbers")
SINKS = ("tests/spark/test_sinks.py", "-k", "not postgres")
KILLERS: dict[str, tuple[str, ...]] = {  # by file: tests that should notice
    "algorithms/staircase/staircase.py": CORE,
    "algorithms/staircase/prefilter.py": CORE,
    "algorithms/panes.py": CORE,
    "algorithms/staircase/scan_kernels.py": CORE,
    "algorithms/staircase/seal_kernels.py": CORE,
    "engine/ranking.py": CORE,
    "engine/intake.py": CORE,
    "engine/objects.py": SUMS,
    "engine/pane_sums.py": SUMS,
    "engine/sliding.py": SUMS,
    "windows.py": (*CORE[:-2], "tests/unit/test_query.py", *CORE[-2:]),
    "files/durable.py": ("tests/unit/test_durable.py", "tests/unit/test_checkpoint.py"),
    "spark/checkpoint.py": ("tests/unit/test_checkpoint.py", "tests/unit/test_durable.py"),
    "spark/loop.py": ("tests/spark/test_loop.py",),
    "spark/monitor_job.py": ("tests/spark/test_loop.py",),
    "spark/reducers/groups.py": ("tests/unit/test_group_thresholds.py",),
    "spark/sinks/base.py": SINKS,
    "spark/sinks/console.py": SINKS,
    "spark/sinks/files.py": SINKS,
    "spark/sinks/kafka.py": SINKS,
    "spark/sinks/memory.py": SINKS,
    "spark/sinks/rows.py": SINKS,
    "spark/sinks/sql.py": SINKS,
}


def try_all(asked: list[tuple[str, str]], results: Path, seconds: float, tests: tuple[str, ...], kernels: bool) -> None:
    """Let workers try changes, one worker after the other."""
    environment = os.environ | ({"NUMBA_DISABLE_JIT": "1"} if kernels else {})  # so that kernels can be changed at once
    command = [sys.executable, "-m", "tests.mutation.worker", str(results), str(seconds), *tests]
    code = STUCK
    while code == STUCK:
        given = json.dumps(asked).encode()
        code = subprocess.run(command, cwd=ROOT, env=environment, input=given, check=False).returncode


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--file", action="append", choices=KILLERS, help="only these files of the package")
    parser.add_argument("--count", type=int, default=0, help="how many changes per file, drawn at random; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--results", type=Path, default=ROOT / ".cache" / "mutation.jsonl", help="where the results are gathered"
    )
    parser.add_argument("--seconds", type=float, default=3600, help="how long the tests of one change may take at most")
    given = parser.parse_args()
    given.results.parent.mkdir(parents=True, exist_ok=True)
    chosen: dict[str, list[str]] = {}
    for file in given.file or KILLERS:
        names = [mutant.name for mutant in of_file(file)]
        chosen[file] = random.Random(given.seed).sample(names, min(given.count, len(names))) if given.count else names
    known = {file: {name for names in EQUIVALENT.get(file, {}).values() for name in names} for file in chosen}
    for tests, kernels in dict.fromkeys((KILLERS[file], is_kernel(file)) for file in chosen):
        together = [file for file in chosen if (KILLERS[file], is_kernel(file)) == (tests, kernels)]
        asked = [(file, name) for file in together for name in chosen[file] if name not in known[file]]
        try_all(asked, given.results.absolute(), given.seconds, tests, kernels)
    for file, names in chosen.items():
        rows = [row for row in read(given.results) if row["file"] == file and row["mutant"] in names]
        left = [row for row in rows if row["noticed"] is None]
        same = len(known[file].intersection(names))
        sys.stdout.write(f"{file}: {len(rows) - len(left)} noticed, {same} the same program, {len(left)} left\n")
        for row in left:
            sys.stdout.write(f"  line {row['line']}, {row['tests']} tests: {row['mutant']}\n")


def is_kernel(file: str) -> bool:
    return file.endswith("_kernels.py")


if __name__ == "__main__":
    main()
