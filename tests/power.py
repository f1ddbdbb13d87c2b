"""What a power cut may leave: a model of a disk that keeps what was synced, and perhaps more.

A `Disk` takes the place of ``skyband.files.durable.step``: it makes the steps and notes them. `images` gives the files
that may be there if the power fails now. What was synced is there, in folders whose names were synced. The name that a
rename, a link or a removal has changed since its folder was synced may be the old or the new one; bytes that were not
synced may be missing, there in part, or there. These choices are made for all files alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any


@dataclass
class _Bytes:
    """The bytes of a file, under whatever names."""

    now: bytes
    synced: bytes = b""

    def left(self, how: str) -> bytes:
        if self.now == self.synced or how == "whole":
            return self.now
        return self.synced if how == "lost" else self.now[: len(self.now) // 2]


@dataclass
class Disk:
    """Makes steps of durable writes below a folder, and knows what a power cut would leave of them.

    Parameters
    ----------
    root
        The folder; what is outside is left out.
    after
        Called after each step.
    """

    root: Path
    after: Callable[[str], None] = lambda _: None
    _names: dict[Path, _Bytes] = field(default_factory=dict)
    _synced: dict[Path, dict[Path, _Bytes]] = field(default_factory=dict)
    _made: set[Path] = field(default_factory=set)  # folders whose own names were not synced yet
    steps: int = 0

    def __call__(self, what: str, action: Callable[..., Any], *args: Any) -> Any:
        """Make a step."""
        result = action(*args)
        self.steps += 1
        path = args[0] if args else None
        if isinstance(path, Path) and path.is_relative_to(self.root):
            self._note(what, path, *args[1:])
        self.after(what)
        return result

    def _note(self, what: str, path: Path, *args: Any) -> None:
        match what:
            case "write":
                self._names.setdefault(path, _Bytes(b"")).now = args[0]
            case "sync" if path.is_dir():
                self._synced[path] = {name: held for name, held in self._names.items() if name.parent == path}
                self._made = {folder for folder in self._made if folder.parent != path}
            case "sync":
                held = self._bytes(path, path)
                held.synced = held.now
            case "rename" | "link":
                self._names[args[0]] = self._bytes(path, args[0])
                if what == "rename":
                    self._names.pop(path, None)
            case "remove":
                self._names.pop(path, None)
            case "folder":
                self._made.add(path)
            case _:
                raise AssertionError(f"what is the step {what!r}?")

    def _bytes(self, path: Path, there: Path) -> _Bytes:
        """Return what is held of a file; of one that was written without steps, what is in it."""
        return self._names.setdefault(path, _Bytes(there.read_bytes()))

    def images(self) -> Iterator[dict[Path, bytes]]:
        """Yield what may be left: files by their names, relative to the root."""
        synced = {
            name: held
            for files in self._synced.values()
            for name, held in files.items()
            if self._made.isdisjoint(name.parents)
        }
        seen = []
        for names, how in product((synced, self._names), ("lost", "torn", "whole")):
            image = {name.relative_to(self.root): held.left(how) for name, held in names.items()}
            if image not in seen:
                seen.append(image)
                yield image
