"""The key-value store: namespaces of text values, kept in one JSON file with its previous generation next to it.

File: `{"configTable":{"<namespace>":{"<key>":"<value>"}}}`; `<file>.bak` is the content before the last change.

Source: Java KVConfigManager, KVConfigSerializeWrapper; docs/formats/wire_frame.md, "Key-value file".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson

from orbitmq.errors import InvalidArgument, OrbitError, StoreError
from orbitmq.files import read_generations, replace_file
from orbitmq.nameserver.persistence.group_commit import Done, GroupCommit

log = logging.getLogger(__name__)

NAME_LENGTH_MAX = 1_024
VALUE_LENGTH_MAX = 65_536
ENTRIES_MAX = 100_000
NAMESPACE_SIZE_MAX = 4 * 1024 * 1024
"""Bytes of a namespace as JSON. A list of it fills one frame, and every broker that registers gets the ordered topics':
peers that are answered with more than a frame may hold hang up, and a broker that hangs up leaves the routes."""
STORE_SIZE_MAX = 64 * 1024 * 1024
"""The same for all namespaces. Each write is of the whole store."""
CHANGE_SIZE = 200
"""About what a change that waits, or an entry, takes besides its texts."""
PIECE_SIZE = 64 * 1024
"""Characters that are encoded in one call: the encoder lets no other thread run meanwhile, and the event loop is one."""

Table = Mapping[str, Mapping[str, str]]


class _Change(NamedTuple):
    """A value to be set; None: to be deleted."""

    namespace: str
    key: str
    value: str | None


class KvConfig:
    """Text values by namespace and key. Every change is on disk before it is visible, and before it is answered.

    So no client reads a value that a power cut takes back; Java shows a value while it is being written. Changes that
    come during a write share the next one. When the disk refuses, every change of that write is answered with an error and
    the store stays as it was; whether the file has the new content is unknown then, and the next change writes it again.

    Args:
        on_change: is told the namespace and key of each value that was set or deleted, or was to be deleted.
    """

    def __init__(self, path: Path, on_change: Callable[[str, str], None] = lambda namespace, key: None) -> None:
        self._path = path
        self._on_change = on_change
        self._table: Table = {}  # never changed, but exchanged: a thread may be reading it
        self._sizes: Mapping[str, int] = {}
        self._is_file_unknown = False
        self._commits = GroupCommit(self._save, self._publish, name="the key-value store")

    def load(self) -> None:
        """Read the file, or its previous generation when it is missing or damaged; begin empty without either."""
        try:
            self._table = read_generations(self._path, _parse) or {}
        except StoreError as error:
            log.error("the key-value store begins empty: %s", error)
        self._sizes = {
            name: _size_of(name) + sum(_size_of(key, value) for key, value in entries.items())
            for name, entries in self._table.items()
        }

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value, None when there is none."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, name: str) -> Mapping[str, str] | None:
        """Return all values of a namespace; None when it was never written to."""
        return self._table.get(name)

    def put(self, namespace: str, key: str, value: str, done: Done) -> None:
        """Set a value; `done` is told when it is there, or why it is not: the disk, or a store that is full.

        Raises:
            InvalidArgument: a name or value is too long.
            Rejected: too many changes wait for the disk.
        """
        for what, text, length_max in (
            ("namespace", namespace, NAME_LENGTH_MAX),
            ("key", key, NAME_LENGTH_MAX),
            ("value", value, VALUE_LENGTH_MAX),
        ):
            if len(text) > length_max:
                raise InvalidArgument(what, text, f"at most {length_max} characters")
        self._submit(_Change(namespace, key, value), done)

    def delete(self, namespace: str, key: str, done: Done) -> None:
        """Forget a value, if there is one. The namespace stays, as in Java.

        Raises:
            Rejected: too many changes wait for the disk.
        """
        self._submit(_Change(namespace, key, None), done)

    async def close(self) -> None:
        """Wait until all changes are saved; refuse more."""
        await self._commits.close()

    def _submit(self, change: _Change, done: Done) -> None:
        size = CHANGE_SIZE + len(change.namespace) + len(change.key) + len(change.value or "")
        self._commits.submit(change, size, done)

    def _save(self, changes: Sequence[_Change]) -> _Draft:
        draft = _Draft(self._table, self._sizes)
        for change in changes:
            draft.apply(change)
        if draft.is_changed or self._is_file_unknown:
            self._is_file_unknown = True
            replace_file(self._path, b"".join(_encode(draft.table)))
            self._is_file_unknown = False
        return draft

    def _publish(self, draft: _Draft) -> Sequence[OrbitError | None]:
        self._table, self._sizes = draft.table, draft.sizes
        for change, error in draft.outcomes:
            if error is None:
                self._on_change(change.namespace, change.key)
        return [error for _, error in draft.outcomes]


class _Draft:
    """A copy of the store that has taken changes; what they do not touch is shared with the original."""

    def __init__(self, table: Table, sizes: Mapping[str, int]) -> None:
        self.table = dict(table)
        self.sizes = dict(sizes)
        self.is_changed = False
        self.outcomes: list[tuple[_Change, OrbitError | None]] = []
        self._copies: dict[str, dict[str, str]] = {}
        # A namespace without entries counts as one: it stays for ever.
        self._count = sum(max(len(entries), 1) for entries in table.values())
        self._size = sum(sizes.values())

    def apply(self, change: _Change) -> None:
        error = None
        if change.value is None:
            self._delete(change)
        else:
            error = self._put(change, change.value)
        self.outcomes.append((change, error))

    def _put(self, change: _Change, value: str) -> OrbitError | None:
        namespace, key, _ = change
        entries = self.table.get(namespace)
        is_more = entries is None or (key not in entries and len(entries) > 0)
        if is_more and self._count >= ENTRIES_MAX:
            return InvalidArgument("key", key, f"one of at most {ENTRIES_MAX} entries")
        before = self.sizes.get(namespace, 0)
        size = (before or _size_of(namespace)) + _size_of(key, value)
        if entries is not None and key in entries:
            size -= _size_of(key, entries[key])
        # Whatever a file from elsewhere holds may shrink.
        if size > before and (size > NAMESPACE_SIZE_MAX or self._size + size - before > STORE_SIZE_MAX):
            limits = f"one of at most {NAMESPACE_SIZE_MAX} bytes, {STORE_SIZE_MAX} with all others"
            return InvalidArgument("namespace", namespace, limits)
        self._count += is_more
        self._resize(namespace, size)
        self._copy_of(namespace)[key] = value
        self.is_changed = True
        return None

    def _delete(self, change: _Change) -> None:
        namespace, key, _ = change
        if key in self.table.get(namespace, ()):
            entries = self._copy_of(namespace)
            self._resize(namespace, self.sizes[namespace] - _size_of(key, entries.pop(key)))
            self._count -= len(entries) > 0
            self.is_changed = True

    def _resize(self, namespace: str, size: int) -> None:
        self._size += size - self.sizes.get(namespace, 0)
        self.sizes[namespace] = size

    def _copy_of(self, namespace: str) -> dict[str, str]:
        copy = self._copies.get(namespace)
        if copy is None:
            copy = self._copies[namespace] = dict(self.table.get(namespace, {}))
            self.table[namespace] = copy
        return copy


def _size_of(*texts: str) -> int:
    """Return how many bytes texts have as JSON, each with a mark behind it."""
    return sum(len(orjson.dumps(text)) + 1 for text in texts)


def _encode(table: Table) -> Iterator[bytes]:
    """Encode the store piece by piece, as one indented document."""
    yield b'{\n  "configTable": {'
    before_namespace = b"\n    "
    for namespace, entries in table.items():
        yield before_namespace + orjson.dumps(namespace) + b": {"
        before_namespace = b",\n    "
        before_piece = b"\n"
        for piece in _pieces(entries):
            lines = orjson.dumps(piece, option=orjson.OPT_INDENT_2)[2:-2].replace(b"\n", b"\n    ")
            yield before_piece + b"    " + lines
            before_piece = b",\n"
        yield b"\n    }" if entries else b"}"
    yield b"\n  }\n}" if table else b"}\n}"


def _pieces(entries: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Cut entries into parts that are encoded quickly."""
    piece: dict[str, str] = {}
    size = 0
    for key, value in entries.items():
        piece[key] = value
        size += CHANGE_SIZE + len(key) + len(value)
        if size >= PIECE_SIZE:
            yield piece
            piece, size = {}, 0
    if piece:
        yield piece


def _parse(content: bytes) -> dict[str, dict[str, str]]:
    document = orjson.loads(content)
    table = document.get("configTable", {}) if isinstance(document, dict) else None
    if not isinstance(table, dict):
        raise ValueError("configTable is expected to be an object")
    return {
        str(namespace): {str(key): str(value) for key, value in entries.items()}
        for namespace, entries in table.items()
        if isinstance(entries, dict)
    }
