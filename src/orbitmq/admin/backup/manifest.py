"""The manifest of a backup: what was saved of which brokers, and the checksum of every file. Pure.

It is the last file that a backup writes: a directory without one is an interrupted backup. File names are numbers, never
names out of a cluster, so that no topic or broker can lead outside of the directory.

Source: docs/formats/backup.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from hashlib import sha256
from typing import Any

import orjson

from orbitmq.model.topic import GROUP_LENGTH_MAX, check_name
from orbitmq.wire.bodies.document import boolean, items, number, parse_body, text

FORMAT = 1
MANIFEST_NAME = "manifest.json"
MANIFEST_SIZE_MAX = 256 * 1024 * 1024
TABLE_SIZE_MAX = 256 * 1024 * 1024
"""Bytes of one broker's tables."""
_FILE_NAME = re.compile(r"(?:tables|access|settings)-[0-9]{1,6}\.json|messages-[0-9]{1,9}\.gz")
_QUEUE_ID_MAX = (1 << 31) - 1
_JSON_NAMES = {"queue_id": "queueId", "records_size": "recordsSize"}


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
        HeaderError: it is not a manifest, is damaged, of a format that is not known, or holds what none may hold.
    """
    return parse_body("manifest", content, _parse, size_max=0)


def _checksum(document: Any) -> str:
    return sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _file_document(file: BackupFile) -> dict[str, Any]:
    return {_JSON_NAMES.get(field, field): value for field, value in asdict(file).items()}


def _parse(document: dict[str, Any]) -> Manifest:
    found = document["backup"]
    if not isinstance(found, dict) or document["sha256"] != _checksum(found):
        raise ValueError("damaged: its checksum does not match")
    if found["format"] != FORMAT:
        raise ValueError(f"the backup has format {found['format']!r:.20}; this version reads format {FORMAT}")
    files = tuple(map(_parse_file, items(found["files"])))
    clusters = {
        check_name("broker", name, GROUP_LENGTH_MAX): text(cluster) for name, cluster in found["clusters"].items()
    }
    _check_unique("file", (file.name for file in files))
    queues = [file for file in files if isinstance(file, QueueFile)]
    _check_unique("queue", ((file.broker, file.topic, file.queue_id) for file in queues))
    tables = Counter(file.broker for file in files if file.kind is FileKind.TABLES)
    if tables != Counter(clusters.keys()) or not clusters.keys() >= {file.broker for file in files}:
        raise ValueError(f"files of tables by broker: {dict(tables)}, expected one of each of {', '.join(clusters)}")
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


def _parse_file(document: dict[str, Any]) -> BackupFile:
    kind = FileKind(text(document["kind"]))
    made_by = QueueFile if kind is FileKind.MESSAGES else BackupFile
    values: dict[str, Any] = {
        field.name: (_count if field.type == "int" else text)(document[_JSON_NAMES.get(field.name, field.name)])
        for field in fields(made_by)
    }
    file = made_by(**values | {"kind": kind})
    if _FILE_NAME.fullmatch(file.name) is None or not file.name.startswith(f"{kind}-"):
        raise ValueError(f"{file.name!r:.80} is not the name of a file of {kind} of a backup")
    if not isinstance(file, QueueFile):
        if file.size > TABLE_SIZE_MAX:
            raise ValueError(f"{file.name} has {file.size} bytes, at most {TABLE_SIZE_MAX}")
        return file
    check_name("topic", file.topic, GROUP_LENGTH_MAX)
    if file.queue_id > _QUEUE_ID_MAX or file.count > file.end - file.begin:
        raise ValueError(
            f"{file.name}: {file.count} messages in queue {file.queue_id}, from {file.begin} to {file.end}"
        )
    return file


def _count(value: Any) -> int:
    found = number(value)
    if found < 0:
        raise ValueError(f"{found}, at least 0")
    return found


def _check_unique(what: str, names: Iterable[Any]) -> None:
    ((name, count),) = Counter(names).most_common(1) or [("", 0)]
    if count > 1:
        raise ValueError(f"the {what} {name!r:.200} stands there twice")
