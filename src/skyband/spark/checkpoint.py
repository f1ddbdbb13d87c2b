"""The folder that makes a stream durable: Skyband's part of Spark's checkpoint.

``skyband/stream.json`` says what the stream is; ``state/<batch>`` holds everything the core knew after a batch;
``commands/<number>`` are the changes to the queries that anyone asked for, ``planned/<batch>`` how many of them a
batch took in, so that a replayed batch takes in the same; ``latest.arrow`` and ``status.json`` show how things
stand. Every file is written under another name and renamed, so it is there as a whole or not at all.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from skyband.engine import snapshot
from skyband.errors import InputError, SnapshotError

FORMAT = 1
KEPT_STATES = 4
FIXED = {
    "time": "the time column",
    "id": "the id column",
    "time_unit": "the unit of the time column",
    "id_type": "the type of the id column",
    "algorithm": "the algorithm",
    "placement": "the placement",
}
CHANGEABLE = "the queries, the sinks, the trigger, the watermark's delay and the history"


@dataclass
class State:
    """What a stream knew after a batch: the monitor as bytes, how many commands were applied, who waits or failed."""

    monitor: bytes
    applied: int = 0
    declared: list[dict[str, Any]] = field(default_factory=list)
    aside: dict[str, dict[str, Any]] = field(default_factory=dict)


class Checkpoint:
    """Skyband's files inside a checkpoint folder.

    Parameters
    ----------
    folder
        Spark's checkpoint folder, on a file system that the driver can write to.

    Examples
    --------
    >>> import tempfile
    >>> checkpoint = Checkpoint(tempfile.mkdtemp())
    >>> checkpoint.submit({"do": "pause", "name": "top"})
    1
    >>> checkpoint.commands(after=0)
    [{'do': 'pause', 'name': 'top'}]
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        text = os.fspath(folder)
        if scheme := re.match(r"(\w[\w+.-]+):/+", text):  # also dbfs:/…; but C:/… is a folder
            if scheme[1] != "file":
                msg = (
                    f"the checkpoint {text!r} is not on a file system that Python can write to; give a folder, such "
                    "as a mounted one (file:///…)"
                )
                raise InputError(msg)
            text = "/" + text[scheme.end() :]
        self.folder = Path(text)
        self.root = self.folder / "skyband"

    # What the stream is.

    def open(
        self, identity: dict[str, Any], schema: pa.Schema, declared: list[dict[str, Any]], services: Sequence[str] = ()
    ) -> None:
        """Begin or continue; refuse a folder that belongs to another stream or version, or cannot be written.

        Parameters
        ----------
        identity
            What must stay as it is.
        schema
            The stream's columns now.
        declared
            The queries that it is started with.
        services
            The names of the services that these, and others, may join with.
        """
        try:
            begun = self._begun(identity)
            self._write(self.root / "schema.arrow", schema.serialize().to_pybytes())
            self._write(self.root / "declared.json", json.dumps(declared).encode())
            self._write(self.root / "services.json", json.dumps(list(services)).encode())
            if not begun:  # the last file: with it, everything is there
                text = json.dumps({"format": FORMAT, **identity}, indent=2)
                self._write(self.root / "stream.json", text.encode())
        except OSError as error:
            msg = f"cannot use the checkpoint {str(self.folder)!r}: {error.strerror}; choose a folder you may write to"
            raise InputError(msg) from None

    def schema(self) -> pa.Schema:
        """Return the stream's columns."""
        return pa.ipc.read_schema(pa.py_buffer((self.root / "schema.arrow").read_bytes()))

    def declared(self) -> list[dict[str, Any]]:
        """Return the queries that the stream was last started with."""
        return json.loads((self.root / "declared.json").read_bytes())  # type: ignore[no-any-return]

    def services(self) -> list[str]:
        """Return the names of the services that the stream was last started with."""
        file = self.root / "services.json"
        return json.loads(file.read_bytes()) if file.exists() else []

    def _begun(self, identity: dict[str, Any]) -> bool:
        """Tell whether the folder has been used before, by this stream."""
        file = self.root / "stream.json"
        if not file.exists():
            if (self.folder / "offsets").exists():
                msg = (
                    f"the checkpoint {str(self.folder)!r} belongs to a stream that was not started by Skyband; "
                    "choose an empty folder"
                )
                raise InputError(msg)
            return False
        found = self._read_json(file)
        if found.get("format") != FORMAT:
            msg = (
                f"the checkpoint {str(self.folder)!r} has format {found.get('format')}, and this version of Skyband "
                f"writes format {FORMAT}; continue it with the version that began it, or choose an empty folder"
            )
            raise InputError(msg)
        for key, what in FIXED.items():
            if found.get(key) != identity.get(key):
                msg = (
                    f"the checkpoint {str(self.folder)!r} belongs to a stream where {what} was {found.get(key)!r}, "
                    f"and now it is {identity.get(key)!r}; what may be changed is {CHANGEABLE}: put it back, or "
                    "choose an empty folder"
                )
                raise InputError(msg)
        return True

    @property
    def identity(self) -> dict[str, Any]:
        """What the stream is; InputError where there is none."""
        file = self.root / "stream.json"
        if not file.exists():
            msg = f"{str(self.folder)!r} is no checkpoint of a Skyband stream (it has no skyband/stream.json)"
            raise InputError(msg)
        return self._read_json(file)

    # What it knew after a batch.

    def save(self, batch: int, state: State) -> int:
        """Write the state after a batch, and remove old ones; return how many bytes it has."""
        meta = {"applied": state.applied, "declared": state.declared, "aside": state.aside}
        blob = snapshot.encode(meta, {"monitor": pa.table({"bytes": pa.array([state.monitor], pa.large_binary())})}, [])
        self._write(self._state(batch), blob)
        for old in self.states()[:-KEPT_STATES]:
            self._state(old).unlink(missing_ok=True)
            self._planned(old).unlink(missing_ok=True)
        return len(blob)

    def load(self, batch: int) -> State:
        """Return the state after a batch."""
        file = self._state(batch)
        if not file.exists():
            kept = ", ".join(map(str, self.states())) or "none"
            msg = (
                f"the checkpoint {str(self.folder)!r} has no state of batch {batch} (it has those of: {kept}); "
                "without it the answers would be wrong: restore the folder from a backup, or choose an empty one"
            )
            raise SnapshotError(msg)
        try:
            meta, tables, _ = snapshot.decode(file.read_bytes())
        except SnapshotError as error:
            msg = f"state of batch {batch} in {str(self.folder)!r}: {error}"
            raise SnapshotError(msg) from None
        return State(tables["monitor"]["bytes"][0].as_py(), meta["applied"], meta["declared"], meta["aside"])

    def states(self) -> list[int]:
        """Return the batches whose state is kept, oldest first."""
        return _numbers(self.root / "state")

    def _state(self, batch: int) -> Path:
        return self.root / "state" / f"{batch:012}"

    # What was asked for.

    def submit(self, command: dict[str, Any]) -> int:
        """Add a command for the next batch; return its number."""
        folder = self.root / "commands"
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(command).encode()
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".") as draft:
            draft.write(text)
            draft.flush()
            os.fsync(draft.fileno())
            number = (_numbers(folder) or [0])[-1]
            while True:
                number += 1
                try:
                    os.link(draft.name, folder / f"{number:012}")  # fails if another process took the number
                except FileExistsError:
                    continue
                return number

    def commands(self, after: int, upto: int | None = None) -> list[dict[str, Any]]:
        """Return the commands that follow one, up to another."""
        folder = self.root / "commands"
        chosen = [n for n in _numbers(folder) if n > after and (upto is None or n <= upto)]
        return [self._read_json(folder / f"{n:012}") for n in chosen]

    def plan(self, batch: int) -> int:
        """Settle up to which command a batch takes in: the same one when it is replayed."""
        file = self._planned(batch)
        if not file.exists():
            last = (_numbers(self.root / "commands") or [0])[-1]
            self._write(file, str(last).encode(), durable=False)
        return int(file.read_bytes())

    def _planned(self, batch: int) -> Path:
        return self.root / "planned" / f"{batch:012}"

    # How things stand.

    def show(self, status: dict[str, Any], latest: pa.Table | None) -> None:
        """Write what people look at."""
        if latest is not None:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, latest.schema) as writer:
                writer.write_table(latest)
            self._write(self.root / "latest.arrow", sink.getvalue().to_pybytes(), durable=False)
        self._write(self.root / "status.json", json.dumps(status).encode(), durable=False)

    def status(self) -> dict[str, Any]:
        """Return how things stand; empty before the first batch."""
        file = self.root / "status.json"
        try:
            return self._read_json(file) if file.exists() else {}
        except SnapshotError:  # after a power cut; the next batch writes it anew
            return {}

    def latest(self) -> pa.Table | None:
        """Return every query's latest answer, if there is one."""
        file = self.root / "latest.arrow"
        try:
            return pa.ipc.open_file(file.read_bytes()).read_all() if file.exists() else None
        except pa.ArrowInvalid:  # as with the status
            return None

    def version(self) -> tuple[float | None, int]:
        """Return something that differs whenever the status or the commands do; cheap to ask for again and again."""
        return self.shown_at(), (_numbers(self.root / "commands") or [0])[-1]

    def shown_at(self) -> float | None:
        """Return when the status was last written, in seconds since 1970; None before the first batch."""
        file = self.root / "status.json"
        return file.stat().st_mtime if file.exists() else None

    def _read_json(self, file: Path) -> dict[str, Any]:
        try:
            found = json.loads(file.read_bytes())
        except ValueError:
            found = None
        if not isinstance(found, dict):
            msg = f"{str(file)!r} is damaged; restore the checkpoint from a backup, or choose an empty folder"
            raise SnapshotError(msg)
        return found

    def _write(self, file: Path, content: bytes, durable: bool = True) -> None:
        """Write a file as a whole or not at all; `durable`: it outlives a power cut too."""
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}.draft")
        with draft.open("wb") as out:
            out.write(content)
            if durable:
                out.flush()
                os.fsync(out.fileno())
        draft.replace(file)


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(file.name) for file in folder.iterdir() if file.name.isdigit())
