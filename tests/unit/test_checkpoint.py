"""The files of a stream: whole or not at all, numbered once, refused when they do not belong."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skyband.errors import InputError, SnapshotError
from skyband.spark.checkpoint import FORMAT, KEPT_STATES, Checkpoint, State

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.string())])
IDENTITY: dict[str, Any] = {
    "time": "ts", "id": "id", "time_unit": None, "id_type": "string", "algorithm": "staircase", "placement": "driver",
}  # fmt: skip


def sealed(document: dict[str, Any]) -> bytes:
    """Return a document as a checkpoint writes it."""
    checksum = hashlib.sha256(json.dumps(document).encode()).hexdigest()
    return json.dumps(document | {"checksum": checksum}).encode()


def opened(folder: Path, **changed: Any) -> Checkpoint:
    checkpoint = Checkpoint(folder)
    checkpoint.open(IDENTITY | changed, SCHEMA, [], limits={"rate": 5})
    return checkpoint


def test_states_come_back_and_old_ones_go(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    for batch in range(9):
        checkpoint.plan(batch)
        checkpoint.save(batch, State(f"after {batch}".encode(), batch, [{"name": "q"}], {"bad": {"error": "why"}}))
    assert checkpoint.states() == list(range(9 - KEPT_STATES, 9))
    assert checkpoint.load(8) == State(b"after 8", 8, [{"name": "q"}], {"bad": {"error": "why"}})
    assert len(list((tmp_path / "skyband" / "planned").iterdir())) == KEPT_STATES
    with pytest.raises(SnapshotError, match=r"has no state of batch 2 \(it has those of: 5, 6, 7, 8\)"):
        checkpoint.load(2)
    with pytest.raises(SnapshotError, match=r"has no state of batch 2 \(it has those of: none\)"):
        opened(tmp_path / "new").load(2)


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
    assert checkpoint.plan(7)["commands"] == 1
    checkpoint.submit({"do": "pause", "name": "b"})
    assert checkpoint.plan(7)["commands"] == 1
    assert checkpoint.plan(8)["commands"] == 2
    assert [c["name"] for c in checkpoint.commands(after=0, upto=1)] == ["a"]


def test_a_replayed_batch_decides_alike_whatever_else_is_settled(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    assert checkpoint.plan(7, clock=5, queries=["a"]) == {"commands": 0, "clock": 5, "queries": ["a"]}
    assert Checkpoint(tmp_path).plan(7, clock=6) == {"commands": 0, "clock": 5, "queries": ["a"]}
    assert checkpoint.plan(8, clock=6) == {"commands": 0, "clock": 6}


@pytest.mark.parametrize("content", [b"", b"\0\0\0", b"3", b'{"commands": 3'])
def test_a_plan_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes) -> None:
    checkpoint = opened(tmp_path)
    checkpoint.plan(7)
    (tmp_path / "skyband" / "planned" / f"{7:012}").write_bytes(content)
    with pytest.raises(SnapshotError, match=r"planned/000000000007' is damaged; restore the checkpoint from a backup"):
        checkpoint.plan(7)


def state_file(folder: Path, batch: int) -> Path:
    return folder / "skyband" / "state" / f"{batch:012}"


def test_a_state_in_the_place_of_another_is_refused(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    for batch in range(3):
        checkpoint.save(batch, State(b"after"))
    state_file(tmp_path, 2).write_bytes(state_file(tmp_path, 1).read_bytes())
    with pytest.raises(SnapshotError, match=r"state of batch 2 in .*: this is the state of batch 1, so the answers"):
        checkpoint.load(2)


def test_a_state_of_another_stream_is_refused(tmp_path: Path) -> None:
    one, other = opened(tmp_path / "one"), opened(tmp_path / "other")
    for checkpoint in (one, other):
        checkpoint.save(0, State(b"after"))
    state_file(tmp_path / "one", 0).write_bytes(state_file(tmp_path / "other", 0).read_bytes())
    with pytest.raises(SnapshotError, match=r"state of batch 0 in .*: this is the state of another stream"):
        one.load(0)


def test_a_state_with_another_past_is_refused(tmp_path: Path) -> None:
    one = opened(tmp_path / "one")
    for batch in range(2):
        one.save(batch, State(b"after"))
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    copy = opened_again(tmp_path / "copy")
    copy.save(0, State(b"otherwise"))
    copy.save(1, State(b"after"))
    state_file(tmp_path / "one", 1).write_bytes(state_file(tmp_path / "copy", 1).read_bytes())
    with pytest.raises(SnapshotError, match="it does not follow the state of batch 0 that is here"):
        Checkpoint(tmp_path / "one").load(1)
    assert copy.load(1).monitor == b"after"


def opened_again(folder: Path) -> Checkpoint:
    """Open a checkpoint whose stream has begun: Spark knows what it has read."""
    (folder / "offsets").mkdir(exist_ok=True)
    (folder / "offsets" / "0").touch()
    return opened(folder)


def test_a_stream_that_goes_back_forgets_the_states_that_came_after(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    for batch in range(6):
        checkpoint.plan(batch, clock=batch)
        checkpoint.save(batch, State(b"first"))
    again = opened_again(tmp_path)
    again.save(4, State(b"second"))
    assert again.states() == [2, 3, 4]
    assert again.load(4).monitor == b"second"
    assert again.plan(5, clock=7)["clock"] == 5, "the replay of the next batch decides alike, too"
    again.save(5, State(b"second"))
    assert Checkpoint(tmp_path).load(5).monitor == b"second"


@pytest.mark.parametrize("kept", ["states", "status"])
@pytest.mark.parametrize("left", ["nothing", "an empty folder", "drafts"])
def test_a_stream_whose_offsets_are_gone_is_refused(tmp_path: Path, kept: str, left: str) -> None:
    checkpoint = opened(tmp_path)
    if kept == "states":
        checkpoint.save(0, State(b"after"))
    else:  # of a stream that executors keep
        checkpoint.show({"batch": 0}, None)
    if left != "nothing":
        (tmp_path / "offsets").mkdir()
    if left == "drafts":
        (tmp_path / "offsets" / ".0.crc").touch()
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    has = "has the state of batch 0" if kept == "states" else "has what batches have answered"
    gone = rf"{has}, but Spark's part of it is gone .* would begin anew and repeat its answers"
    with pytest.raises(InputError, match=gone):
        opened(tmp_path)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
    opened_again(tmp_path)


def test_a_stream_that_has_not_answered_yet_may_begin_anew(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    checkpoint.plan(0)
    assert opened(tmp_path).before(0) is None


def test_batch_0_starts_from_nothing_unless_the_stream_is_far_beyond(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    assert checkpoint.before(0) is None
    for batch in range(KEPT_STATES):
        checkpoint.save(batch, State(b"after"))
        assert checkpoint.before(0) is None
        assert checkpoint.before(batch + 1) == State(b"after")
    checkpoint.save(KEPT_STATES, State(b"after"))
    with pytest.raises(SnapshotError, match=f"state of batch {KEPT_STATES}, and Spark begins again with batch 0"):
        checkpoint.before(0)


def test_drafts_of_killed_processes_are_removed(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    checkpoint.submit({"do": "pause", "name": "a"})
    old, new = (tmp_path / "skyband" / "commands" / f".000000000002.{name}.draft" for name in ("old", "new"))
    for draft in (old, new):
        draft.write_bytes(b"{")
    os.utime(old, (1_000_000_000,) * 2)
    opened(tmp_path)
    assert [file.name for file in sorted(old.parent.iterdir())] == [new.name, "000000000001"]


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


def test_another_format_is_refused(tmp_path: Path) -> None:
    opened(tmp_path)
    file = tmp_path / "skyband" / "stream.json"
    for number, content in ((9, sealed(IDENTITY | {"format": 9})), (1, json.dumps(IDENTITY | {"format": 1}).encode())):
        file.write_bytes(content)
        for look in (lambda: opened(tmp_path), lambda: Checkpoint(tmp_path).identity):
            with pytest.raises(
                InputError, match=f"has format {number}, and this version of Skyband writes format {FORMAT}"
            ):
                look()


DOCUMENTS: dict[str, Callable[[Checkpoint], Any]] = {
    "stream.json": lambda checkpoint: checkpoint.identity,
    "started.json": lambda checkpoint: (checkpoint.schema(), checkpoint.declared(), checkpoint.services()),
    "commands/000000000001": lambda checkpoint: checkpoint.commands(after=0),
    "planned/000000000000": lambda checkpoint: checkpoint.plan(0),
    "state/000000000000": lambda checkpoint: checkpoint.load(0),
    "status.json": lambda checkpoint: checkpoint.status(),
    "latest": lambda checkpoint: checkpoint.latest(),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_flipped_bit_is_damage_and_nothing_else(name: str, tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    checkpoint.submit({"do": "pause", "name": "top"})
    checkpoint.plan(0, clock=5)
    checkpoint.save(0, State(b"after", 1))
    checkpoint.show({"batch": 0}, pa.table({"query": ["a"]}))
    file, read = tmp_path / "skyband" / name, DOCUMENTS[name]
    content = file.read_bytes()
    for place in range(0, 8 * len(content), 3 if len(content) < 600 else 37):
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        file.write_bytes(damaged)
        if name in ("status.json", "latest"):  # shown anew with the next batch
            assert read(checkpoint) in ({}, None)
            continue
        if name.startswith("commands/"):  # left out: it must not be able to stop the stream
            (command,) = read(checkpoint)
            assert (command["do"], command["number"]) == ("nothing", 1)
            assert "damaged" in command["error"]
            continue
        with pytest.raises(SnapshotError) as caught:
            read(checkpoint)
        assert "damaged" in str(caught.value) or place < 8 * 44, "the head of a state says what it is"


def test_a_flipped_bit_in_the_description_is_no_other_stream(tmp_path: Path) -> None:
    opened(tmp_path)
    file = tmp_path / "skyband" / "stream.json"
    file.write_bytes(file.read_bytes().replace(b'"string"', b'"strinf"'))
    with pytest.raises(SnapshotError, match=r"stream.json' is damaged; restore the checkpoint from a backup"):
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
    assert checkpoint.limits() == {"rate": 5}


@pytest.mark.parametrize(
    "command",
    [
        {},
        {"do": "dance", "name": "a"},
        {"do": "pause"},
        {"do": "pause", "name": 5},
        {"do": "add", "query": "text"},
        {"do": "add", "query": {"k": 5}},
    ],
)
def test_a_command_that_means_nothing_is_left_out(tmp_path: Path, command: dict[str, Any]) -> None:
    checkpoint = opened(tmp_path)
    checkpoint.submit(command)
    checkpoint.submit({"do": "suspend", "name": "slow"})
    checkpoint.submit({"do": "pause", "name": "other"})
    left_out, *others = checkpoint.commands(after=0)
    assert (left_out["do"], left_out["number"]) == ("nothing", 1)
    assert "a command has 'do'" in left_out["error"]
    assert [one["do"] for one in others] == ["suspend", "pause"]
    assert checkpoint.suspended_since(0) == checkpoint.suspended_since(1) == {"slow"}
    assert checkpoint.suspended_since(2) == set()


def test_a_stream_gives_signs_of_life(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    checkpoint.beat()
    assert checkpoint.sign_of_life() is None
    for state in ("running", "ended"):
        checkpoint.mark(state)
        os.utime(tmp_path / "skyband" / "alive.json", (10**9,) * 2)
        assert checkpoint.sign_of_life() == (state, 10**9)
        checkpoint.beat()
        said, at = checkpoint.sign_of_life() or ("", 0)
        assert said == state
        assert at > 10**9


@pytest.mark.parametrize(
    ("offsets", "commits", "under_way"),
    [([], [], False), ([0], [], True), ([0], [0], False), ([0, 1], [0], True), ([9, 10], [9, 10], False)],
)
def test_a_batch_is_under_way_until_it_is_committed(
    tmp_path: Path, offsets: list[int], commits: list[int], under_way: bool
) -> None:
    checkpoint = opened(tmp_path)
    for name, batches in (("offsets", offsets), ("commits", commits)):
        (tmp_path / name).mkdir()
        for batch in batches:
            (tmp_path / name / str(batch)).touch()
    assert checkpoint.in_a_batch() == under_way
