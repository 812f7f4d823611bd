"""Builders of backups' parts."""

from typing import Any

from orbitmq.admin.backup.manifest import BackupFile, FileKind, Manifest, QueueFile
from orbitmq.admin.backup.messages import parse_message
from orbitmq.client.queue_reader import QueueReader
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.messages.record import format_record, parse_record

SHA = "0" * 64


def table_file(name="tables-1.json", broker="a", size=10):
    return BackupFile(name=name, kind=FileKind(name.partition("-")[0]), broker=broker, size=size, sha256=SHA)


def queue_file(name="messages-1.gz", broker="a", topic="orders", queue_id=0, begin=0, end=10, count=10, **fields):
    known: dict[str, Any] = {"size": 100, "sha256": SHA, "records_size": 1_000, **fields}
    return QueueFile(
        name=name,
        kind=FileKind.MESSAGES,
        broker=broker,
        topic=topic,
        queue_id=queue_id,
        begin=begin,
        end=end,
        count=count,
        **known,
    )


def manifest(*files, clusters=None, has_messages=True, problems=()):
    return Manifest(
        version="1.0",
        created_at_ms=1,
        clusters=clusters or {"a": "DefaultCluster"},
        has_messages=has_messages,
        files=files,
        problems=problems,
    )


def encoded(queue_offset=0, body=b"body", topic="orders", queue_id=0, properties=None, **fields):
    """The bytes of one record."""
    return format_record(
        topic=topic,
        body=body,
        properties=format_properties(properties or {}),
        queue_id=queue_id,
        queue_offset=queue_offset,
        **fields,
    )


def record(*args, **fields):
    return parse_record(encoded(*args, **fields))


async def stored(clients, address, topic, queue_id=0):
    """The records of a broker's queue."""
    reader, found = QueueReader(clients.request), []
    begin, end = await reader.bounds(address, topic, queue_id)
    while begin < end:
        pulled = await reader.pull(address, topic, queue_id, begin)
        view, begin = pulled.records, pulled.next_offset
        while view:
            found.append(parse_message(view, topic, queue_id, 0, 2**63))
            view = view[found[-1].size :]
    return found
