"""The files of a stream: whole or not at all, numbered once, refused when they do not belong."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skyband.errors import InputError, SnapshotError
from skyband.spark.checkpoint import KEPT_STATES, Checkpoint, State

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.string())])
IDENTITY: dict[str, Any] = {
    "time": "ts", "id": "id", "time_unit": None, "id_type": "string", "algorithm": "staircase", "placement": "driver",
}  # fmt: skip


def opened(folder: Path, **changed: Any) -> Checkpoint:
    checkpoint = Checkpoint(folder)
    checkpoint.open(IDENTITY | changed, SCHEMA, [])
    return checkpoint


def test_states_come_back_and_old_ones_go(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    for batch in range(9):
        checkpoint.plan(batch)
        checkpoint.save(batch, State(f"after {batch}".encode(), batch, [{"name": "q"}], {"bad": {"error": "why"}}))
    assert checkpoint.states() == list(range(9 - KEPT_STATES, 9))
    assert checkpoint.load(8) == State(b"after 8", 8, [{"name": "q"}], {"bad": {"error": "why"}})
    assert len(list((tmp_path / "skyband" / "planned").iterdir())) == KEPT_STATES
    with pytest.raises(SnapshotError, match="has no state of batch 2"):
        checkpoint.load(2)


@pytest.mark.parametrize("damage", ["cut", "flip", "other"])
def test_a_damaged_state_is_refused(tmp_path: Path, damage: str) -> None:
    checkpoint = opened(tmp_path)
    checkpoint.save(3, State(b"x" * 100))
    file = next((tmp_path / "skyband" / "state").iterdir())
    content = bytearray(file.read_bytes())
    if damage == "cut":
        content = content[:-7]
    elif damage == "flip":
        content[-20] ^= 1
    else:
        content = bytearray(b"something else")
    file.write_bytes(content)
    with pytest.raises(SnapshotError, match=r"state of batch 3 in .*: this"):
        checkpoint.load(3)


def test_commands_get_numbers_of_their_own_from_whoever_asks(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)

    def ask(who: int) -> None:
        for turn in range(20):
            Checkpoint(tmp_path).submit({"do": "pause", "name": f"{who}-{turn}"})

    threads = [threading.Thread(target=ask, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = [command["name"] for command in checkpoint.commands(after=0)]
    assert sorted(names) == sorted(f"{who}-{turn}" for who in range(4) for turn in range(20))
    for who in range(4):
        assert [n for n in names if n.startswith(f"{who}-")] == [f"{who}-{turn}" for turn in range(20)]


def test_a_replayed_batch_takes_in_the_same_commands(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    checkpoint.submit({"do": "pause", "name": "a"})
    assert checkpoint.plan(7) == 1
    checkpoint.submit({"do": "pause", "name": "b"})
    assert checkpoint.plan(7) == 1
    assert checkpoint.plan(8) == 2
    assert [c["name"] for c in checkpoint.commands(after=0, upto=1)] == ["a"]


def test_a_draft_that_was_left_behind_does_no_harm(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    checkpoint.save(1, State(b"one"))
    (tmp_path / "skyband" / "state" / ".000000000002.draft").write_bytes(b"half")
    assert checkpoint.states() == [1]
    checkpoint.save(2, State(b"two"))
    assert checkpoint.load(2).monitor == b"two"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"time": "other"}, "the time column was 'ts', and now it is 'other'"),
        ({"id": "other"}, "the id column was 'id'"),
        ({"id_type": "int64"}, "the type of the id column was 'string', and now it is 'int64'"),
        ({"algorithm": "naive"}, "the algorithm was 'staircase'"),
        ({"placement": "executors"}, "the placement was 'driver'"),
    ],
)
def test_another_stream_is_refused_and_told_what_may_change(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    opened(tmp_path)
    with pytest.raises(InputError, match=message) as caught:
        opened(tmp_path, **changed)
    assert "what may be changed is the queries, the sinks, the trigger" in str(caught.value)


def test_other_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs" / "offsets").mkdir(parents=True)
    with pytest.raises(InputError, match="belongs to a stream that was not started by Skyband"):
        opened(tmp_path / "theirs")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot use the checkpoint .*; choose a folder you may write to"):
        opened(tmp_path / "file")
    with pytest.raises(InputError, match="is not on a file system that Python can write to"):
        Checkpoint("hdfs://name/folder")
    assert Checkpoint(f"file://{tmp_path}").folder == tmp_path
    with pytest.raises(InputError, match="is no checkpoint of a Skyband stream"):
        _ = Checkpoint(tmp_path / "nowhere").identity


def test_another_format_and_a_damaged_description_are_refused(tmp_path: Path) -> None:
    opened(tmp_path)
    file = tmp_path / "skyband" / "stream.json"
    file.write_text(json.dumps(IDENTITY | {"format": 9}))
    with pytest.raises(InputError, match="has format 9, and this version of Skyband writes format 1"):
        opened(tmp_path)
    file.write_text("{")
    with pytest.raises(SnapshotError, match="is damaged"):
        opened(tmp_path)


def test_what_people_look_at_comes_back(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    assert checkpoint.status() == {}
    assert checkpoint.latest() is None
    checkpoint.show({"batch": 3}, pa.table({"query": ["a"]}))
    checkpoint.show({"batch": 4}, None)
    assert checkpoint.status() == {"batch": 4}
    assert checkpoint.latest() == pa.table({"query": ["a"]})
    assert checkpoint.schema() == SCHEMA
    assert checkpoint.declared() == []
