"""States that earlier versions wrote are restored, or refused by their version in one sentence."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.engine import snapshot
from skyband.errors import InputError, SnapshotError
from skyband.spark import Control
from skyband.spark.checkpoint import FORMAT, Checkpoint
from tests.golden.states import (
    ALGORITHM_KINDS,
    KINDS,
    STORED,
    begun,
    layout,
    layout_of_checkpoint,
    make_checkpoint,
    rest,
    restored,
    unpacked,
)

RAISE = (
    "what a {what} holds has changed. Raise {where} and store the new format: python -m tests.golden.states. "
    "Else a {what} of before would be restored as if it were one of now"
)
SNAPSHOTS = sorted(STORED.glob("snapshots-*/*.gz"))
CHECKPOINTS = sorted(STORED.glob("checkpoints-*/*.tar.gz"))


def number(file: Path) -> int:
    return int(file.parent.name.rpartition("-")[2])


def named(file: Path) -> str:
    return f"{file.parent.name}/{file.name}"


def test_every_format_is_stored() -> None:
    assert {number(file) for file in SNAPSHOTS} == set(range(1, snapshot.VERSION + 1))
    assert {number(file) for file in CHECKPOINTS} == set(range(1, FORMAT + 1))


@pytest.mark.parametrize("file", SNAPSHOTS, ids=named)
def test_a_stored_snapshot_goes_on_or_is_refused_by_its_version(file: Path) -> None:
    kind, blob = file.name.removesuffix(".gz"), gzip.decompress(file.read_bytes())
    if number(file) == snapshot.VERSION:
        assert rest(restored(kind, blob)) == rest(begun(kind))
        return
    for restore in (sb.Monitor.restore, sb.Subscriptions.restore):
        with pytest.raises(SnapshotError) as caught:
            restore(blob)
        assert str(caught.value) == (
            f"this snapshot has format {number(file)}; this version of Skyband reads format {snapshot.VERSION}: "
            "restore it with the version that wrote it, or start anew"
        )


@pytest.mark.parametrize("kind", [*KINDS, *ALGORITHM_KINDS])
def test_the_layout_of_a_snapshot_changes_only_with_its_number(kind: str) -> None:
    stored: dict[str, Any] = json.loads((STORED / f"snapshots-{snapshot.VERSION}" / "layout.json").read_text())
    assert set(stored) == {*KINDS, *ALGORITHM_KINDS}
    found = layout(begun(kind).snapshot())
    assert found == stored[kind], RAISE.format(what="snapshot", where="skyband.engine.snapshot.VERSION")


def test_the_layout_of_a_checkpoint_changes_only_with_its_number(tmp_path: Path) -> None:
    stored: dict[str, Any] = json.loads((STORED / f"checkpoints-{FORMAT}" / "layout.json").read_text())
    make_checkpoint(tmp_path)
    found = layout_of_checkpoint(tmp_path)
    assert found == stored, RAISE.format(what="checkpoint", where="skyband.spark.checkpoint.FORMAT")


@pytest.mark.parametrize("file", CHECKPOINTS, ids=named)
def test_a_stored_checkpoint_goes_on_or_is_refused_by_its_version(file: Path, tmp_path: Path) -> None:
    checkpoint = Checkpoint(unpacked(file, tmp_path))
    identity = {
        "time": "t", "id": "id", "time_unit": None, "id_type": "string", "algorithm": "staircase",
        "placement": "driver",
    }  # fmt: skip
    if number(file) == FORMAT:
        checkpoint.open(identity, checkpoint.schema(), checkpoint.declared(), checkpoint.services())
        state = checkpoint.before(1)
        assert state is not None
        assert state.applied == len(checkpoint.commands(after=0)) == checkpoint.plan(0)["commands"] == 1
        assert state.declared == checkpoint.declared()
        assert rest(restored("rankings", state.monitor)) == rest(begun("rankings"))
        assert Control(tmp_path).checkpoint.status() == {"batch": 0}
        assert checkpoint.latest() == pa.table({"query": ["top"]})
        return
    for use in (lambda: checkpoint.open(identity, pa.schema([]), []), lambda: Control(tmp_path)):
        with pytest.raises(InputError) as caught:
            use()
        assert str(caught.value) == (
            f"the checkpoint {str(tmp_path)!r} has format {number(file)}, and this version of Skyband writes format "
            f"{FORMAT}; continue it with the version that began it, or choose an empty folder"
        )


def test_the_page_on_compatibility_has_these_numbers() -> None:
    page = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text()
    for what, now in (("snapshots", snapshot.VERSION), ("checkpoints", FORMAT)):
        assert f"| {what} | format {now} | format {now} |" in page
