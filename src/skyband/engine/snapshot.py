r"""Snapshots as bytes: a magic word, a version, a checksum, then JSON and Arrow tables.

The layout is: ``SKYBAND\\n``, the format's version (4 bytes), the SHA-256 of the rest, and then parts of 8 bytes
length each: one JSON text that names the tables, and the tables as Arrow streams. Nothing in it is executed.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa

from skyband.errors import SnapshotError

VERSION = 7
_MAGIC = b"SKYBAND\n"
_HEAD = struct.Struct("<8sI32s")
_LENGTH = struct.Struct("<Q")
_CHUNK = 1 << 16  # rows: what is written at once fits caches, and memory that was used before
_LARGE = 1 << 20  # bytes of a table from which on packing it costs less than hashing and writing it

State = tuple[dict[str, Any], dict[str, pa.Table]]


def under(folder: str, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return the tables whose names begin with that of a folder, without it."""
    return {name.removeprefix(folder): table for name, table in tables.items() if name.startswith(folder)}


def encode(meta: dict[str, Any], tables: dict[str, pa.Table], groups: Sequence[State]) -> bytes:
    """Return a monitor's state, and that of its groups, as bytes."""
    states: list[State] = [(meta, tables), *groups]
    names = [(i, name) for i, (_, held) in enumerate(states) for name in held]
    head = json.dumps({"meta": [m for m, _ in states], "tables": names}).encode()
    parts = [head, *(_stream(states[i][1][name]) for i, name in names)]
    body = b"".join(piece for part in parts for piece in (_LENGTH.pack(len(part)), part))
    return _HEAD.pack(_MAGIC, VERSION, hashlib.sha256(body).digest()) + body


def decode(blob: bytes) -> tuple[dict[str, Any], dict[str, pa.Table], list[State]]:
    """Return what `encode` was given.

    Examples
    --------
    >>> decode(encode({"a": 1}, {}, []))
    ({'a': 1}, {}, [])
    >>> decode(b"something else, long enough to be one, but not one")
    Traceback (most recent call last):
    skyband.errors.SnapshotError: this is no Skyband snapshot (it does not begin as one)
    """
    parts = _parts(_checked(blob))
    head = json.loads(parts[0])
    states: list[State] = [(meta, {}) for meta in head["meta"]]
    for (i, name), part in zip(head["tables"], parts[1:], strict=True):
        states[i][1][name] = pa.ipc.open_stream(part).read_all().combine_chunks()
    return *states[0], states[1:]


def digest(blob: bytes) -> str:
    """Return the checksum of a snapshot, which tells it from all others; it is not verified here."""
    return blob[_HEAD.size - 32 : _HEAD.size].hex()


def _checked(blob: bytes) -> bytes:
    if len(blob) < _HEAD.size or not blob.startswith(_MAGIC):
        msg = "this is no Skyband snapshot (it does not begin as one)"
        raise SnapshotError(msg)
    _, version, digest = _HEAD.unpack_from(blob)
    if version != VERSION:
        msg = (
            f"this snapshot has format {version}; this version of Skyband reads format {VERSION}: restore it with the "
            "version that wrote it, or start anew"
        )
        raise SnapshotError(msg)
    body = bytes(blob[_HEAD.size :])
    if hashlib.sha256(body).digest() != digest:
        msg = f"this snapshot is damaged: its {len(body):,} bytes do not match their checksum; use an earlier one"
        raise SnapshotError(msg)
    return body


def _parts(body: bytes) -> list[bytes]:
    parts, at = [], 0
    while at < len(body):
        (length,) = _LENGTH.unpack_from(body, at)
        parts.append(body[at + _LENGTH.size : at + _LENGTH.size + length])
        at += _LENGTH.size + length
    return parts


def _stream(table: pa.Table) -> bytes:
    sink = BytesIO()
    packed = table.nbytes >= _LARGE and not any(pa.types.is_large_binary(kind) for kind in table.schema.types)
    options = pa.ipc.IpcWriteOptions(compression="lz4" if packed else None)  # binary: a snapshot, which is packed
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=_CHUNK)
    return sink.getvalue()
