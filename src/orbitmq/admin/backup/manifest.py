"""The manifest of a backup: what was saved of which brokers, and the checksum of every file. Pure.

It is the last file that a backup writes: a directory without one is an interrupted backup. File names are numbers, never
names out of a cluster, so that no topic or broker can lead outside of the directory.

Source: docs/formats/backup.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any, TypeVar

import orjson

from orbitmq.errors import StoreError
from orbitmq.model.topic import GROUP_LENGTH_MAX, check_name
from orbitmq.wire.bodies.document import boolean, items, number, parse_body, text

T = TypeVar("T")

FORMAT = 1
MANIFEST_NAME = "manifest.json"
MANIFEST_SIZE_MAX = 256 * 1024 * 1024
TABLE_SIZE_MAX = 256 * 1024 * 1024
"""Bytes of one broker's tables."""
_FILE_NAME = re.compile(r"(?:tables|access|settings)-[0-9]{1,6}\.json|messages-[0-9]{1,9}\.gz")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_QUEUE_ID_MAX = (1 << 31) - 1


class FileKind(StrEnum):
    """What a file holds."""

    TABLES = "tables"
    ACCESS = "access"
    SETTINGS = "settings"
    MESSAGES = "messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFile:
    """One file of a backup; `size` is in bytes."""

    name: str
    kind: FileKind
    broker: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFile(BackupFile):
    """The messages of one queue.

    Args:
        begin: the queue's first offset when the backup began.
        end: the offset behind its last message then.
        count: messages in the file.
        records_size: bytes of their records, not compressed.
    """

    topic: str
    queue_id: int
    begin: int
    end: int
    count: int
    records_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A whole backup.

    Args:
        clusters: broker name to the name of its cluster.
        has_messages: False where only tables were saved.
        problems: what could not be saved, a line each.
    """

    version: str
    created_at_ms: int
    clusters: Mapping[str, str]
    has_messages: bool
    files: tuple[BackupFile, ...]
    problems: tuple[str, ...] = ()

    @property
    def queues(self) -> tuple[QueueFile, ...]:
        """The files of messages."""
        return tuple(file for file in self.files if isinstance(file, QueueFile))

    @property
    def message_count(self) -> int:
        """Messages in all files."""
        return sum(queue.count for queue in self.queues)


def encode_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest with its own checksum."""
    document = {
        "format": FORMAT,
        "version": manifest.version,
        "createdAtMs": manifest.created_at_ms,
        "clusters": dict(manifest.clusters),
        "hasMessages": manifest.has_messages,
        "messageCount": manifest.message_count,
        "problems": list(manifest.problems),
        "files": [_file_document(file) for file in manifest.files],
    }
    return orjson.dumps(
        {"backup": document, "sha256": _checksum(document)}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    )


def decode_manifest(content: bytes) -> Manifest:
    """Decode a manifest and check every name and number in it.

    Raises:
        HeaderError: it is no manifest, or holds what none may hold.
        StoreError: it is damaged, or of a version that is not known.
    """
    return parse_body("manifest", content, _parse, size_max=0)


def _checksum(document: Any) -> str:
    return sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _file_document(file: BackupFile) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": file.name,
        "kind": file.kind,
        "broker": file.broker,
        "size": file.size,
        "sha256": file.sha256,
    }
    if isinstance(file, QueueFile):
        document |= {
            "topic": file.topic,
            "queueId": file.queue_id,
            "begin": file.begin,
            "end": file.end,
            "count": file.count,
            "recordsSize": file.records_size,
        }
    return document


def _parse(document: dict[str, Any]) -> Manifest:
    found = document["backup"]
    if not isinstance(found, dict) or document["sha256"] != _checksum(found):
        raise StoreError("the manifest is damaged: its checksum does not match")
    if found["format"] != FORMAT:
        raise StoreError(f"the backup has format {found['format']!r:.20}; this version reads format {FORMAT}")
    files = tuple(_parse_file(f"files[{at}]", entry) for at, entry in enumerate(items(found["files"])))
    clusters = {_broker(name): text(cluster) for name, cluster in found["clusters"].items()}
    _check_unique("file", (file.name for file in files))
    queues = [file for file in files if isinstance(file, QueueFile)]
    _check_unique("queue", ((file.broker, file.topic, file.queue_id) for file in queues))
    for file in files:
        if file.broker not in clusters:
            raise ValueError(f"{file.name} is of the broker {file.broker}, which has no cluster")
    tables = Counter(file.broker for file in files if file.kind is FileKind.TABLES)
    for broker in clusters:
        if tables[broker] != 1:
            raise ValueError(f"{tables[broker]} files of tables of the broker {broker}, expected 1")
    if queues and not boolean(found["hasMessages"]):
        raise ValueError(f"hasMessages is false, and there are {len(queues)} files of messages")
    return Manifest(
        version=text(found["version"]),
        created_at_ms=number(found["createdAtMs"]),
        clusters=clusters,
        has_messages=boolean(found["hasMessages"]),
        files=files,
        problems=tuple(map(text, items(found["problems"]))),
    )


def _parse_file(where: str, document: Any) -> BackupFile:
    if not isinstance(document, dict):
        raise TypeError(f"{where}: an object is expected, not {document!r:.80}")

    def read(field: str, parse: Callable[[Any], T]) -> T:
        try:
            return parse(document[field])
        except KeyError:
            raise ValueError(f"{where}.{field} is missing") from None
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where}.{field}: {error}") from None

    kind = read("kind", lambda value: FileKind(text(value)))
    name = read("name", lambda value: _matching(_FILE_NAME, value, "the name of a file of a backup"))
    if not name.startswith(f"{kind}-"):
        raise ValueError(f"{where}.name: {name!r} is not the name of a file of {kind}")
    broker, size = read("broker", _broker), read("size", _count)
    checksum = read("sha256", lambda value: _matching(_SHA256, value, "64 hexadecimal digits"))
    if kind is not FileKind.MESSAGES:
        if size > TABLE_SIZE_MAX:
            raise ValueError(f"{where}.size: {size} bytes, at most {TABLE_SIZE_MAX}")
        return BackupFile(name=name, kind=kind, broker=broker, size=size, sha256=checksum)
    queue_id, begin, end, count = (read(field, _count) for field in ("queueId", "begin", "end", "count"))
    if queue_id > _QUEUE_ID_MAX or not begin <= end or count > end - begin:
        raise ValueError(f"{where}: {count} messages in queue {queue_id}, from offset {begin} to {end}")
    return QueueFile(
        name=name,
        kind=kind,
        broker=broker,
        size=size,
        sha256=checksum,
        topic=read("topic", lambda value: check_name("topic", text(value), GROUP_LENGTH_MAX)),
        queue_id=queue_id,
        begin=begin,
        end=end,
        count=count,
        records_size=read("recordsSize", _count),
    )


def _broker(value: Any) -> str:
    return check_name("broker", text(value), GROUP_LENGTH_MAX)


def _matching(pattern: re.Pattern[str], value: Any, what: str) -> str:
    if pattern.fullmatch(text(value)) is None:
        raise ValueError(f"{value!r:.80} is not {what}")
    return text(value)


def _count(value: Any) -> int:
    found = number(value)
    if found < 0:
        raise ValueError(f"{found}, at least 0")
    return found


def _check_unique(what: str, names: Iterable[Any]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise ValueError(f"the {what} {name!r:.200} stands there twice")
        seen.add(name)
