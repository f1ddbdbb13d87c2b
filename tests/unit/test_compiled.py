"""Compiled code on disk: whatever other processes do, a function never gets the code of other types."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skyband import compiled

PACKAGE = Path(compiled.__file__).parent
FUNCTION = """
import sys
import numpy as np
from skyband.compiled import jit

@jit
def total(values):
    found = values[0] * 0
    for value in values:
        found += value
    return found

print(total(np.arange(10, dtype=sys.argv[1])))
"""


def files(folder: Path) -> Any:
    return compiled._Files(str(folder), "kernel-1.py311", None)


def test_two_processes_that_save_at_once_do_not_meet(tmp_path: Path) -> None:
    one, other = files(tmp_path), files(tmp_path)
    writing = other._open_for_write

    def interrupted(path: str) -> Any:
        one.save("int64", "code of int64")  # another process is faster
        other._open_for_write = writing
        return writing(path)

    other._open_for_write = interrupted
    other.save("float64", "code of float64")
    for reader in (one, other, files(tmp_path)):
        assert (reader.load("int64"), reader.load("float64")) == ("code of int64", "code of float64")


def test_code_of_another_version_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path).save("int64", "old")
    monkeypatch.setattr(compiled, "_CODE", "changed")
    assert files(tmp_path).load("int64") is None
    files(tmp_path).save("int64", "new")
    assert files(tmp_path).load("int64") == "new"


def test_compiled_once_for_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "function.py"
    script.write_text(FUNCTION)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    for kind, kept in (("int64", 1), ("float64", 2), ("int64", 2)):
        run = [sys.executable, str(script), kind]
        found = subprocess.run(run, capture_output=True, text=True, check=True, timeout=120).stdout
        assert float(found) == np.arange(10).sum()
        assert len(list((tmp_path / "cache").rglob("*.nbc"))) == kept
    assert not list((tmp_path / "cache").rglob("*.nbi"))


def compiles(path: Path) -> bool:
    """Tell whether a file has compiled functions."""
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module in ("skyband.compiled", "numba")
        and {alias.name for alias in node.names} & {"jit", "inlined", "njit"}
        for node in ast.walk(ast.parse(path.read_text()))
    )


def kernel_files() -> list[str]:
    return [str(path.relative_to(PACKAGE)) for path in sorted(PACKAGE.rglob("*.py")) if compiles(path)]


def callees(file: str) -> set[str]:
    """Return the files of the package that a file with kernels takes names from."""
    found = set()
    for node in ast.walk(ast.parse((PACKAGE / file).read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skyband."):
            found.add((node.module or "").removeprefix("skyband.").replace(".", "/") + ".py")
    return found


@pytest.mark.parametrize("file", sorted({name for file in kernel_files() for name in {file, *callees(file)}}))
def test_a_changed_kernel_is_compiled_anew(file: str, tmp_path: Path) -> None:
    copy = tmp_path / "skyband"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "page"))
    before = compiled._code(copy)
    with (copy / file).open("a") as edited:
        edited.write("# changed\n")
    assert compiled._code(copy) != before


SORTS = """
import os
import numpy as np
from skyband.compiled import jit

@jit
def ordered(values):
    return np.sort(values)

@jit
def places(values):
    return np.argsort(values)

@jit
def shift(value):
    return value

values = np.array([30, 10, 20] * 20)
if not os.fork():
    ordered(values)
    os._exit(0)
os.wait()
if not os.fork():
    for kind in (int, float, np.float32):  # by numba's own numbers, both sorts now have functions of the same name
        shift(kind(1))
    places(values)
    os._exit(0)
os.wait()
print(values[places(values)[:3]], ordered(values)[:3], values[places(values)[-3:]])
"""


def test_code_of_two_processes_has_no_name_for_two_things(tmp_path: Path) -> None:
    script = tmp_path / "sorts.py"
    script.write_text(SORTS)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[10 10 10] [10 10 10] [30 30 30]"
    inner = [
        set(re.findall(rb"quicksort\w*?B\d+v(\d+)", path.read_bytes()))
        for name in ("ordered", "places")
        for path in (tmp_path / "__pycache__").glob(f"*{name}*.nbc")
    ]
    assert len(inner) == 2
    assert all(inner)
    assert not inner[0] & inner[1]
