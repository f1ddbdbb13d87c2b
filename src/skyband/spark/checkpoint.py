"""The folder that makes a stream durable: Skyband's part of Spark's checkpoint.

``skyband/stream.json`` says what the stream is, ``started.json`` what it was last started with; ``state/<batch>`` holds
everything the core knew after a batch; ``commands/<number>`` are the changes to the queries that anyone asked for,
``planned/<batch>`` what was decided for a batch before it was read, such as how many of them it takes in, so that a
replay decides alike; ``told/<batch>`` are answers that another reading of the batch might give otherwise, in the last
digit of a sum, so that a replay tells the same; ``latest`` and ``status.json`` show how things stand; ``alive.json``
shows by its time whether the stream still runs. Every file is there as a whole or not at all, and has a checksum.

A state names its batch, its stream and the state before it. One that is in the wrong place is refused, since a stream
that went on from it would repeat or lose answers.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from skyband.engine import snapshot
from skyband.errors import InputError, SnapshotError
from skyband.files.durable import Folder

FORMAT = 5
KEPT_STATES = 4
COMMANDS = ("add", "change", "remove", "pause", "resume", "suspend")
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
    """What a stream knew after a batch: the monitor as bytes, how many commands were applied, who waits or failed.

    `refused` are the last commands that could not be read, by their number; `trial` says how many batches each new
    query has passed.
    """

    monitor: bytes
    applied: int = 0
    declared: list[dict[str, Any]] = field(default_factory=list)
    suspended: dict[str, dict[str, Any]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    trial: dict[str, int] = field(default_factory=dict)


_REST = ("applied", "declared", "suspended", "refused", "trial")
"""What a state has beside the monitor, under the same names in its file."""


class Checkpoint:
    """Skyband's files inside Spark's checkpoint folder, on a file system that the driver can write to.

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
        self.files = Folder(self.root)
        self._saved: tuple[int, str] | None = None  # the last batch whose state was written here, and its digest

    # What the stream is.

    def open(
        self,
        identity: dict[str, Any],
        schema: pa.Schema,
        declared: list[dict[str, Any]],
        services: Sequence[str] = (),
        limits: dict[str, int | None] | None = None,
    ) -> None:
        """Begin or continue; refuse a folder that belongs to another stream or version, or cannot be written.

        The `identity` must stay as it is. What the stream is started with may change: its columns, the `declared`
        queries, the names of the services, and the limits for queries that come later.
        """
        try:
            begun = self._begun(identity)
            self.files.clean()
            started = {
                "schema": b64encode(schema.serialize().to_pybytes()).decode(), "queries": declared,
                "services": list(services), "limits": limits or {},
            }  # fmt: skip
            self._put("started.json", started)
            if not begun:  # the last file: with it, everything is there
                self._put("stream.json", {"format": FORMAT, "stream": uuid4().hex, **identity})
        except OSError as error:
            msg = f"cannot use the checkpoint {str(self.folder)!r}: {error.strerror}; choose a folder you may write to"
            raise InputError(msg) from None

    def schema(self) -> pa.Schema:
        """Return the stream's columns."""
        return pa.ipc.read_schema(pa.py_buffer(b64decode(self._get("started.json")["schema"])))

    def declared(self) -> list[dict[str, Any]]:
        """Return the queries that the stream was last started with."""
        return list(self._get("started.json")["queries"])

    def services(self) -> list[str]:
        """Return the names of the services that the stream was last started with."""
        return list(self._get("started.json")["services"])

    def limits(self) -> dict[str, int | None]:
        """Return the limits that the stream was last started with."""
        return dict(self._get("started.json")["limits"])

    def _begun(self, identity: dict[str, Any]) -> bool:
        """Return whether this stream has used the folder before; refuse a folder of another stream."""
        if self.files.get("stream.json") is None:
            if (self.folder / "offsets").exists():
                msg = (
                    f"the checkpoint {str(self.folder)!r} belongs to a stream that was not started by Skyband; "
                    "choose an empty folder"
                )
                raise InputError(msg)
            return False
        found = self.identity
        for key, what in FIXED.items():
            if found.get(key) != identity.get(key):
                msg = (
                    f"the checkpoint {str(self.folder)!r} belongs to a stream where {what} was {found.get(key)!r}, "
                    f"and now it is {identity.get(key)!r}; what may be changed is {CHANGEABLE}: put it back, or "
                    "choose an empty folder"
                )
                raise InputError(msg)
        self._check_offsets()
        return True

    def _check_offsets(self) -> None:
        """Refuse to go on where Spark has forgotten what it read: it would begin anew, and answer everything again."""
        states = self.states()
        if (states or self.shown_at() is not None) and not _numbers(self.folder / "offsets"):
            what = f"the state of batch {states[-1]}" if states else "what batches have answered"
            msg = (
                f"the checkpoint {str(self.folder)!r} has {what}, but Spark's part of it is gone (there is nothing in "
                "'offsets'), so that the stream would begin anew and repeat its answers; restore the folder from a "
                "backup, or choose an empty one, and other places for the answers"
            )
            raise InputError(msg)

    @property
    def identity(self) -> dict[str, Any]:
        """What the stream is; InputError where there is none, or one of another version."""
        if self.files.get("stream.json") is None:
            msg = f"{str(self.folder)!r} is no checkpoint of a Skyband stream (it has no skyband/stream.json)"
            raise InputError(msg)
        found = self._get("stream.json")
        if found.get("format") != FORMAT:
            msg = (
                f"the checkpoint {str(self.folder)!r} has format {found.get('format')}, and this version of Skyband "
                f"writes format {FORMAT}; continue it with the version that began it, or choose an empty folder"
            )
            raise InputError(msg)
        return found

    @property
    def placement(self) -> str | None:
        """Where the stream that has used the folder keeps its state; None where there was none."""
        try:
            used = self.files.get("stream.json") is not None
        except OSError:  # `open` says what is wrong with the folder
            return None
        return str(self.identity["placement"]) if used else None

    # What it knew after a batch.

    def save(self, batch: int, state: State) -> int:
        """Write the state after a batch, and remove old ones; return how many bytes it has."""
        place = {"batch": batch, "stream": self.identity["stream"], "previous": self._digest(batch - 1)}
        meta = place | {name: getattr(state, name) for name in _REST}
        blob = snapshot.encode(meta, {"monitor": pa.table({"bytes": pa.array([state.monitor], pa.large_binary())})}, [])
        for later in [n for n in self.states() if n > batch]:  # Spark went back, and they do not follow this one
            self.files.delete(_name("state", later))
        for later in [n for n in _numbers(self.root / "told") if n > batch]:
            self.files.delete(_name("told", later))
        self.files.put(_name("state", batch), blob)
        self._saved = batch, snapshot.digest(blob)
        for old in self.states()[:-KEPT_STATES]:
            self.files.delete(_name("state", old))
            self.files.delete(_name("planned", old))
            self.files.delete(_name("told", old))
        return len(blob)

    # What it says.

    def tell(self, batch: int, answers: dict[str, pa.Table]) -> None:
        """Note what a batch answers, before any sink has it."""
        self.files.put(_name("told", batch), snapshot.encode({"batch": batch}, answers, []))

    def told(self, batch: int) -> dict[str, pa.Table] | None:
        """Return what an earlier attempt of a batch may have told a sink; None where it told none."""
        blob = self.files.get(_name("told", batch))
        return None if blob is None else snapshot.decode(blob)[1]

    def before(self, batch: int) -> State | None:
        """Return the state that a batch starts from; None for the first one."""
        if batch > 0:
            return self.load(batch - 1)
        if (states := self.states()) and states[0] > 0:
            msg = (
                f"the checkpoint {str(self.folder)!r} has the state of batch {states[-1]}, and Spark begins again with "
                "batch 0, which would repeat the answers; restore the folder from a backup, or choose an empty one, "
                "and other places for the answers"
            )
            raise SnapshotError(msg)
        return None

    def last(self) -> State | None:
        """Return the state after the last batch; None before the first one has ended."""
        states = self.states()
        return self.load(states[-1]) if states else None

    def load(self, batch: int) -> State:
        """Return the state after a batch; refuse one of another batch or stream, or with another past."""
        blob = self.files.get(_name("state", batch))
        if blob is None:
            kept = ", ".join(map(str, self.states())) or "none"
            msg = (
                f"the checkpoint {str(self.folder)!r} has no state of batch {batch} (it has those of: {kept}); "
                "without it the answers would be wrong: restore the folder from a backup, or choose an empty one"
            )
            raise SnapshotError(msg)
        try:
            meta, tables, _ = snapshot.decode(blob)
            self._check_place(batch, meta)
        except SnapshotError as error:
            msg = f"state of batch {batch} in {str(self.folder)!r}: {error}"
            raise SnapshotError(msg) from None
        return State(tables["monitor"]["bytes"][0].as_py(), **{name: meta[name] for name in _REST})

    def _check_place(self, batch: int, meta: dict[str, Any]) -> None:
        follows = self._digest(batch - 1) in (None, meta["previous"])  # None: removed, as old ones are
        wrong = (
            f"this is the state of batch {meta['batch']}" if meta["batch"] != batch
            else "this is the state of another stream" if meta["stream"] != self.identity["stream"]
            else None if follows
            else f"it does not follow the state of batch {batch - 1} that is here"
        )  # fmt: skip
        if wrong:
            msg = f"{wrong}, so the answers would be wrong; restore the folder from a backup, or choose an empty one"
            raise SnapshotError(msg)

    def _digest(self, batch: int) -> str | None:
        """Return what identifies the state after a batch; None where it is not here."""
        if self._saved is not None and self._saved[0] == batch:
            return self._saved[1]
        blob = self.files.get(_name("state", batch))
        return None if blob is None else snapshot.digest(blob)

    def states(self) -> list[int]:
        """Return the batches whose state is kept, oldest first."""
        return _numbers(self.root / "state")

    # What was asked for.

    def submit(self, command: dict[str, Any]) -> int:
        """Add a command for the next batch; return its number."""
        text, number = _sealed(command), self._last_command()
        while True:
            number += 1
            if self.files.put_if_absent(_name("commands", number), text):  # else another process took the number
                return number

    def commands(self, after: int, upto: int | None = None) -> list[dict[str, Any]]:
        """Return the commands that follow one, up to another.

        One that cannot be read is there with ``"do": "nothing"``, its `number` and an `error`: whoever wrote it must
        not be able to stop the stream.
        """
        numbers = _numbers(self.root / "commands")
        return [self._asked(n) for n in numbers if n > after and (upto is None or n <= upto)]

    def _asked(self, number: int) -> dict[str, Any]:
        try:
            found = self._get(_name("commands", number))
        except SnapshotError as error:
            return {"do": "nothing", "number": number, "error": str(error)}
        do, body = found.get("do"), found.get("query", found.get("subscription", found))
        if do in COMMANDS and isinstance(body, dict) and isinstance(body.get("name"), str):
            return found
        msg = f"it is {json.dumps(found)[:100]}; a command has 'do' ({', '.join(COMMANDS)}) and a 'name' or a 'query'"
        return {"do": "nothing", "number": number, "error": msg}

    def suspended_since(self, command: int) -> set[str]:
        """Return the queries that someone has asked to suspend after a command."""
        return {one["name"] for one in self.commands(after=command) if one["do"] == "suspend"}

    def _last_command(self) -> int:
        return (_numbers(self.root / "commands") or [0])[-1]

    def plan(self, batch: int, **values: Any) -> dict[str, Any]:
        """Return what a batch depends on beside its rows: these values, or those of its first attempt.

        `commands` says up to which command the batch takes in.
        """
        if self.files.get(_name("planned", batch)) is None:
            self.replan(batch, {"commands": self._last_command(), **values})
        return self._get(_name("planned", batch))

    def replan(self, batch: int, plan: dict[str, Any]) -> None:
        """Change what a batch depends on; it must not have been answered yet."""
        self._put(_name("planned", batch), plan)

    # How things stand.

    def show(self, status: dict[str, Any], latest: pa.Table | None) -> None:
        """Write what people look at."""
        if latest is not None:
            self.files.put("latest", snapshot.encode({}, {"latest": latest}, []), durable=False)
        self._put("status.json", status, durable=False)

    def status(self) -> dict[str, Any]:
        """Return how things stand; empty before the first batch."""
        try:
            return {} if self.shown_at() is None else self._get("status.json")
        except SnapshotError:  # after a power cut; the next batch writes it anew
            return {}

    def latest(self) -> pa.Table | None:
        """Return every query's latest answer, if there is one."""
        blob = self.files.get("latest")
        try:
            return None if blob is None else snapshot.decode(blob)[1]["latest"]
        except SnapshotError:  # as with the status
            return None

    def version(self) -> tuple[float | None, int]:
        """Return something that differs whenever the status or the commands do; cheap to ask for again and again."""
        return self.shown_at(), self._last_command()

    def shown_at(self) -> float | None:
        """Return when the status was last written, in seconds since 1970; None before the first batch."""
        file = self.root / "status.json"
        return file.stat().st_mtime if file.exists() else None

    # Whether it runs.

    def mark(self, state: str) -> None:
        """Say whether the stream is "running", or how it "ended" or "failed"."""
        self._put("alive.json", {"state": state}, durable=False)

    def beat(self) -> None:
        """Give a sign of life; costs no write."""
        with contextlib.suppress(FileNotFoundError):  # nothing was said yet
            os.utime(self.root / "alive.json")

    def sign_of_life(self) -> tuple[str, float] | None:
        """Return what was last said of the stream, and when the last sign of life was; None where there was none."""
        try:
            return str(self._get("alive.json")["state"]), (self.root / "alive.json").stat().st_mtime
        except (FileNotFoundError, KeyError, SnapshotError):
            return None

    def in_a_batch(self) -> bool:
        """Return whether a batch is under way: Spark notes its offsets when it begins and its commit when it ends."""
        begun, done = (_numbers(self.folder / name) for name in ("offsets", "commits"))
        return bool(begun) and (not done or begun[-1] > done[-1])

    # Documents: JSON with a checksum of its own.

    def _put(self, name: str, document: dict[str, Any], durable: bool = True) -> None:
        self.files.put(name, _sealed(document), durable)

    def _get(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads(self.files.get(name) or b"")
        except ValueError:
            found = None
        if isinstance(found, dict):
            checksum = found.pop("checksum", None)
            if checksum == _checksum(found) or (checksum is None and found.get("format") == 1):  # which had none
                return found
        msg = f"{str(self.root / name)!r} is damaged; restore the checkpoint from a backup, or choose an empty folder"
        raise SnapshotError(msg)


def _sealed(document: dict[str, Any]) -> bytes:
    return json.dumps({**document, "checksum": _checksum(document)}).encode()


def _checksum(document: dict[str, Any]) -> str:
    return sha256(json.dumps(document).encode()).hexdigest()


def _name(folder: str, number: int) -> str:
    return f"{folder}/{number:012}"


def _numbers(folder: Path) -> list[int]:
    return sorted(int(name) for name in Folder(folder).list("") if name.isdigit())
