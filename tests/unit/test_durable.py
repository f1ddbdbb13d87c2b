"""A power cut at any moment: what was finished is there, and nothing is there in part."""

from __future__ import annotations

import os
import re
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
