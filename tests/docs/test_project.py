"""What the project says of itself in several files is the same in all of them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from tests.docs.pages import ROOT

PROJECT: Any = tomllib.loads((ROOT / "pyproject.toml").read_text())
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def bounds() -> dict[str, str]:
    """Return the lower bound of every dependency that is published."""
    project = PROJECT["project"]
    extras = [one for named, extra in project["optional-dependencies"].items() if named != "all" for one in extra]
    found: dict[str, str] = {}
    for one in [*project["dependencies"], *extras]:
        name, lowest = _NAME.match(one), re.search(r">=([0-9.]+)", one)
        assert name is not None, one
        assert lowest is not None, f"{one} has no lower bound"
        assert found.setdefault(name[0], lowest[1]) == lowest[1], f"{name[0]} has two lower bounds"
    return found


def test_lowest_versions_are_the_lower_bounds() -> None:
    lines = (ROOT / "constraints" / "lowest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert set(pinned) == {*bounds(), "click", "pyparsing"}  # the last two of others, as the file says
    for name, lowest in bounds().items():
        assert re.fullmatch(re.escape(lowest) + r"(\.0)*", pinned[name]), f"{name}: {pinned[name]}, bound {lowest}"


def test_tools_are_not_published() -> None:
    assert set(PROJECT["dependency-groups"]) == {"test", "dev", "docs", "bench"}
    assert not set(PROJECT["dependency-groups"]) & set(PROJECT["project"]["optional-dependencies"])


def test_workflow_runs_targets_and_constraints_that_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    flow: Any = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    commands = [step["run"] for job in flow["jobs"].values() for step in job["steps"] if "run" in step]
    asked = {word for command in commands for word in re.findall(r"^make ([a-z]+)", command)}
    assert {"check", "test", "package", "docs", "api", "types"} <= asked <= targets
    matrix = flow["jobs"]["test"]["strategy"]["matrix"]
    for versions in [*matrix["versions"], "lowest"]:
        assert (ROOT / "constraints" / f"{versions}.txt").is_file()
    shown = [one.rpartition(" ")[2] for one in PROJECT["project"]["classifiers"] if "Python :: 3." in one]
    assert matrix["python"] == shown


def test_targets_are_explained() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    listed = set(re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {f"`make {name}`" for name in listed - {"help", "setup", "clean"}} <= set(re.findall(r"`make \w+`", text))


def test_pre_commit_runs_the_checks_of_lint() -> None:
    settings: Any = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    run = [hook["entry"].split()[0] for repo in settings["repos"] for hook in repo["hooks"]]
    assert {Path(entry).name for entry in run} == {"ruff", "mypy", "lint-imports"}
    assert all(entry.startswith(".venv/bin/") for entry in run)


def test_no_file_names_a_registry() -> None:
    files = [*ROOT.glob("constraints/*"), *ROOT.glob(".github/**/*.yml"), *ROOT.glob(".devcontainer/*")]
    files += [ROOT / "pyproject.toml", ROOT / "Makefile", ROOT / ".pre-commit-config.yaml"]
    for file in files:
        assert not re.search(r"https?://|ghcr\.io|mcr\.microsoft|index-url", file.read_text()), file
