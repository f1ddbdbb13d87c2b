from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import benchmarks
import benchmarks.__main__ as command


def called(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[dict[str, Any]]:
    """Run the command with a benchmark that only notes how it is called."""
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    monkeypatch.setattr(command, "run", lambda **options: calls.append(options))
    command.main()
    return calls


def test_options_reach_the_benchmark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usual: dict[str, Any] = {
        "data": None,
        "output": None,
        "full": False,
        "smoke": False,
        "experiment": None,
        "variants": [],
    }
    assert called(monkeypatch, "core", "--smoke") == [usual | {"name": "core", "smoke": True}]
    rows = str(tmp_path / "rows.csv")
    given = ("filter", "--data", "d", "--output", rows, "--experiment", "budget", "--variant", "ten-minutes", "--full")
    expected = {"data": "d", "output": rows, "full": True, "experiment": "budget", "variants": ["ten-minutes"]}
    assert called(monkeypatch, *given) == [usual | {"name": "filter"} | expected]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["speed"], "there is no benchmark 'speed'; choose one of core, spark"),
        (["core", "--full", "--smoke"], "both full and smoke were asked for; choose one"),
        (["core", "--experiment", "k"], "name the file of its figures: --output FILE.csv"),
        (
            ["core", "--output", "pyproject.toml/out"],
            "cannot write to 'pyproject.toml/out': Not a directory; name another",
        ),
    ],
)
def test_mistakes_end_in_one_sentence(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_smoke_run_replaces_no_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    csv, docs = benchmarks._places("core", None, smoke=True)
    assert csv.parent == docs
    assert csv.parent.parent == tmp_path
    assert benchmarks._places("core", None, smoke=False) == (Path("benchmarks/results/core.csv"), Path("docs"))
