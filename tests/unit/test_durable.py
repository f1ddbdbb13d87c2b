"""A power cut at any moment: what was finished is there, and nothing is there in part."""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband.spark
from skyband.files import durable
from skyband.spark.checkpoint import Checkpoint, State
from skyband.spark.sinks import Files
from tests.power import Disk

IDENTITY: dict[str, Any] = {
    "time": "ts", "id": "id", "time_unit": None, "id_type": "string", "algorithm": "staircase", "placement": "driver",
}  # fmt: skip
SCHEMA = pa.schema([("ts", pa.int64()), ("id", pa.string())])
BATCHES = 5
Promise = Callable[[Path], None]


def rows(batch: int) -> pa.Table:
    return pa.table({"query": ["q"] * 50, "batch": [batch] * 50})


class Stream:
    """The files of a stream, written as its loop does; notes what has been promised when a call has returned."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.promises: dict[str, Promise] = {}
        self.plans: dict[int, dict[str, Any]] = {}

    def run(self) -> None:
        checkpoint = Checkpoint(self.folder / "checkpoint")
        checkpoint.open(IDENTITY, SCHEMA, [{"name": "q"}], ["fans"])
        self.promises["begun"] = self._begun
        answers = Files(self.folder / "answers")
        for batch in range(BATCHES):
            number = checkpoint.submit({"do": "pause", "name": f"q{batch}"})
            self.promises[f"command {number}"] = self._asked(number)
            plan = checkpoint.plan(batch, clock=batch)
            self.plans[batch] = plan
            answers.write(rows(batch), batch, None)  # no session is needed
            checkpoint.save(batch, State(b"x" * 500, plan["commands"]))
            self.promises["state"] = self._saved(batch)
            checkpoint.show({"batch": batch}, rows(batch))

    def _begun(self, left: Path) -> None:
        checkpoint = Checkpoint(left / "checkpoint")
        assert checkpoint.identity["id"] == "id"
        assert checkpoint.schema() == SCHEMA
        assert checkpoint.declared() == [{"name": "q"}]
        assert checkpoint.services() == ["fans"]

    def _asked(self, number: int) -> Promise:
        def check(left: Path) -> None:
            command = Checkpoint(left / "checkpoint").commands(after=number - 1, upto=number)
            assert command == [{"do": "pause", "name": f"q{number - 1}"}]

        return check

    def _saved(self, batch: int) -> Promise:
        def check(left: Path) -> None:
            assert Checkpoint(left / "checkpoint").states()[-1] >= batch

        return check

    def check(self, left: Path) -> None:
        """Compare what a power cut left with what was promised, and see that what is there is whole."""
        for promise in self.promises.values():
            promise(left)
        checkpoint = Checkpoint(left / "checkpoint")
        checkpoint.status()
        checkpoint.latest()
        for batch in checkpoint.states():
            state = checkpoint.load(batch)
            assert state.monitor == b"x" * 500
            assert len(checkpoint.commands(after=0, upto=state.applied)) == state.applied
            for earlier in range(batch + 1):
                assert pq.read_table(left / "answers" / f"batch-{earlier:08}.parquet") == rows(earlier)
        for batch, plan in self.plans.items():
            if batch not in checkpoint.states() and (left / "checkpoint/skyband/planned" / f"{batch:012}").exists():
                assert checkpoint.plan(batch) == plan
        for file in (left / "answers").glob("batch-*"):
            assert pq.read_table(file).num_rows == 50


def test_a_power_cut_leaves_what_was_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, count = Stream(tmp_path / "disk"), 0
    stream.folder.mkdir()

    def look(what: str) -> None:
        nonlocal count
        for image in disk.images():
            left = tmp_path / f"left-{count}"
            count += 1
            for name, content in image.items():
                (left / name).parent.mkdir(parents=True, exist_ok=True)
                (left / name).write_bytes(content)
            with monkeypatch.context() as context:
                context.setattr(durable, "step", lambda _, action, *args: action(*args))
                try:
                    stream.check(left)
                except Exception as error:
                    raise AssertionError(f"a power cut after the {disk.steps}th step, {what!r}: {error}") from error

    disk = Disk(stream.folder, look)
    monkeypatch.setattr(durable, "step", disk)
    stream.run()
    assert count > 5 * BATCHES * 10


def test_only_one_of_many_puts_a_file_that_was_absent(tmp_path: Path) -> None:
    folder, put = durable.Folder(tmp_path), []

    def race(who: int) -> None:
        if folder.put_if_absent("a/name", b"%d" % who):
            put.append(who)

    threads = [threading.Thread(target=race, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folder.get("a/name") == b"%d" % put[0]
    assert len(put) == 1
    assert os.listdir(tmp_path / "a") == ["name"]


class Synced:
    """Takes the place of `os.fsync`: notes what was synced, and fails when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: int | None = None, folders: bool = False) -> None:
        self.places: list[int] = []
        self.open: list[int] = []
        self.error, self.folders = error, folders
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, opened: int) -> None:
        found = os.fstat(opened)
        self.places.append(found.st_ino)
        self.open.append(opened)
        if self.error is not None and stat.S_ISDIR(found.st_mode) == self.folders:
            raise OSError(self.error, "refused")


def test_files_and_their_folders_reach_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = durable.Folder(tmp_path / "a")
    for write in (folder.put, folder.put_if_absent):
        synced = Synced(monkeypatch)
        write(f"b/{write.__name__}", b"x")
        file = tmp_path / "a" / "b" / write.__name__
        assert synced.places[-2:] == [file.stat().st_ino, file.parent.stat().st_ino]
        for opened in synced.open:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(opened)
    (tmp_path / "links").mkdir()
    durable.link(tmp_path / "links", {"one": tmp_path / "a"})
    assert (tmp_path / "links" / "one").readlink() == tmp_path / "a"
    assert synced.places[-1] == (tmp_path / "links").stat().st_ino
    durable.remove(file)
    assert not file.exists()
    assert synced.places[-1] == file.parent.stat().st_ino
    count = len(synced.places)
    durable.remove(file)
    assert len(synced.places) == count


@pytest.mark.parametrize("folders", [False, True])
@pytest.mark.parametrize("error", [errno.EINVAL, errno.ENOTSUP, errno.EIO])
def test_what_cannot_be_synced_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, folders: bool
) -> None:
    folder = durable.Folder(tmp_path)
    Synced(monkeypatch, error, folders)
    if folders and error != errno.EIO:  # as some mounts say, which cannot sync folders
        folder.put("name", b"x")
        assert folder.get("name") == b"x"
        return
    with pytest.raises(OSError, match="refused"):
        folder.put("name", b"x")


WRITES = re.compile(
    r"os\.(replace|rename|link|remove|unlink|fsync|mkdir|makedirs)\b"
    r"|\.(write_bytes|write_text|unlink|rename|hardlink_to|symlink_to|mkdir)\("
    r"|\bopen\([^)]*[\"'][wax]"
)


def test_nothing_in_spark_writes_past_the_steps() -> None:
    """Who writes by another way is seen by no test of faults."""
    folder = Path(skyband.spark.__file__).parent
    found = {
        f"{file.relative_to(folder)}: {line.strip()}"
        for file in folder.rglob("*.py")
        for line in file.read_text().splitlines()
        if WRITES.search(line)
    }
    assert found == set()
