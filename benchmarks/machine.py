"""Where and with what a benchmark ran, for the file beside its figures."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

COMMON = ("skyband", "numpy", "numba", "pyarrow")


def describe(packages: Sequence[str] = ()) -> dict[str, Any]:
    """Return versions, also of more packages than ours and those it needs; processor, cores, memory, commit, date.

    Examples
    --------
    >>> sorted(describe())
    ['commit', 'cores', 'date', 'memory_gb', 'processor', 'system', 'versions']
    """
    versions = {"python": platform.python_version()} | {name: metadata.version(name) for name in (*COMMON, *packages)}
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": _commit(),
        "processor": _processor(),
        "cores": cores(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
    }


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _commit() -> str:
    """Return the commit the package's files are of; marked where they differ from it, empty outside a repository."""
    here = Path(__file__).parent
    try:
        commit = _git(here, "rev-parse", "--short", "HEAD")
        return commit + (" with changes" if _git(here, "status", "--porcelain", "--", "..") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(folder: Path, *arguments: str) -> str:
    run = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return run.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _memory_gb() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (AttributeError, ValueError, OSError):
        return None


def resident() -> int | None:
    """Return how many bytes of memory this process holds; None where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), None)
