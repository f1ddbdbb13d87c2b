"""Files that outlive a crash and a power cut: there as a whole or not at all. Checkpoints, commands and sinks use it.

A file is written under another name, synced, renamed, and its folder is synced. When `put` or `keep` returns, the file
is on the disk; when it does not, the old file is there, or none. Each of these steps is made by `step`, and so are the
steps of sinks that write elsewhere: tests put a function in its place that cuts, tears, delays or repeats them.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

T = TypeVar("T")
ABANDONED = 3600  # seconds after which a draft belongs to a process that was killed


def step(what: str, action: Callable[..., T], *args: Any) -> T:  # noqa: ARG001 - `what` is for tests that replace this
    """Make one step of a write: the only function here that changes anything.

    `what` is ``"write"``, ``"sync"``, ``"rename"``, ``"link"``, ``"symlink"``, ``"remove"`` or ``"folder"``; sinks also
    have ``"sink"`` for a whole batch, and in it ``"execute"``, ``"commit"`` and ``"send"``.
    """
    return action(*args)


class Folder:
    """A folder of small files that are put and read as a whole; names are relative and may have folders in them.

    The folder is made when the first file is put.

    Examples
    --------
    >>> import tempfile
    >>> folder = Folder(Path(tempfile.mkdtemp()))
    >>> folder.put("state/7", b"seven")
    >>> folder.put_if_absent("state/7", b"another")
    False
    >>> folder.get("state/7"), folder.get("state/8"), folder.list("state")
    (b'seven', None, ['7'])
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, name: str, content: bytes, durable: bool = True) -> None:
        """Write or replace a file; `durable`: it outlives a power cut too."""
        file = self.root / name
        make(file.parent)
        draft = file.with_name(f".{file.name}.draft")
        step("write", Path.write_bytes, draft, content)
        if durable:
            keep(draft, file)
        else:
            step("rename", os.replace, draft, file)

    def put_if_absent(self, name: str, content: bytes) -> bool:
        """Write a file unless it exists; return whether it was written. Of several writers one succeeds."""
        file = self.root / name
        make(file.parent)
        draft = file.with_name(f".{file.name}.{uuid4().hex}.draft")
        try:
            step("write", Path.write_bytes, draft, content)
            step("sync", _sync, draft)
            step("link", os.link, draft, file)
            step("sync", _sync, file.parent)
        except FileExistsError:
            return False
        finally:
            step("remove", _remove, draft)
        return True

    def get(self, name: str) -> bytes | None:
        """Return the content of a file; None where there is none."""
        with suppress(FileNotFoundError):
            return (self.root / name).read_bytes()
        return None

    def list(self, under: str) -> list[str]:
        """Return the names of the files in a folder, without drafts, sorted."""
        with suppress(FileNotFoundError):
            return sorted(entry.name for entry in os.scandir(self.root / under) if not entry.name.startswith("."))
        return []

    def delete(self, name: str) -> None:
        """Remove a file, if there is one. After a power cut it may be back."""
        step("remove", _remove, self.root / name)

    def clean(self) -> None:
        """Remove the drafts of processes that were killed long ago."""
        for draft in self.root.rglob(".*.draft"):
            with suppress(FileNotFoundError):
                if time.time() - draft.stat().st_mtime > ABANDONED:
                    step("remove", _remove, draft)


def keep(draft: Path, file: Path) -> None:
    """Give a finished file its name, durably: its bytes reach the disk first, its name is there when this returns."""
    step("sync", _sync, draft)
    step("rename", os.replace, draft, file)
    step("sync", _sync, file.parent)


def link(folder: Path, targets: dict[str, Path]) -> None:
    """Make symbolic links in a folder, durably."""
    for name, target in targets.items():
        step("symlink", os.symlink, target, folder / name)
    step("sync", _sync, folder)


def remove(file: Path) -> None:
    """Remove a file, if there is one, durably."""
    if file.exists():
        step("remove", _remove, file)
        step("sync", _sync, file.parent)


def make(folder: Path) -> None:
    """Make a folder and those above it, durably."""
    if not folder.is_dir():
        make(folder.parent)
        step("folder", _make, folder)
        step("sync", _sync, folder.parent)


_remove = partial(Path.unlink, missing_ok=True)
_make = partial(Path.mkdir, exist_ok=True)


def _sync(path: Path) -> None:
    folder = path.is_dir()
    if folder and os.name == "nt":  # which syncs names by itself
        return
    opened = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(opened)
    except OSError as error:
        if not folder or error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some mounts cannot sync folders
            raise
    finally:
        os.close(opened)
