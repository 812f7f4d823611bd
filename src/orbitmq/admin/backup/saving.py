"""Saving a cluster: the tables of every master, then its messages, queue by queue, the manifest last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from orbitmq.admin.backup.directory import RecordsWriter, check_new, write_file, write_manifest
from orbitmq.admin.backup.manifest import BackupFile, FileKind, Manifest, QueueFile
from orbitmq.admin.backup.messages import parse_message
from orbitmq.admin.backup.tables import (
    AccessTables,
    BrokerTables,
    check_patterns,
    encode_access,
    encode_tables,
    is_saved,
    parse_offset_key,
)
from orbitmq.admin.broker_settings import list_settings
from orbitmq.admin.cluster_admin import masters_in
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.each_master import ask_each
from orbitmq.client.queue_reader import Pulled, QueueBounds, QueueReader
from orbitmq.errors import ClientError, CorruptRecord, RemoteRefused
from orbitmq.files import write_aside
from orbitmq.job_directory import locked
from orbitmq.model.group import SYSTEM_GROUPS
from orbitmq.model.topic import topics_named_after

QUEUES_AT_A_TIME = 8
"""Each keeps one answer of a broker in memory."""


class _Queue(NamedTuple):
    broker: str
    topic: str
    queue_id: int

    def __str__(self) -> str:
        return f"broker {self.broker}, queue {self.queue_id} of {self.topic}"


@dataclass
class Saving:
    """One backup under way.

    Args:
        directory: a new or an empty one.
        version: of this program; the manifest names it.
        now_ms: when the backup begins.
        patterns: only topics that fit one of these; empty: all.
        cluster: only brokers of this cluster.
        with_messages: False saves tables alone.
        progress: is told messages that are done, and messages in all.
    """

    clients: ClusterClients
    directory: Path
    version: str
    now_ms: int
    patterns: Sequence[str] = ()
    cluster: str | None = None
    with_messages: bool = True
    progress: Callable[[int, int], None] = lambda done, total: None

    def __post_init__(self) -> None:
        self.has_begun = False
        """There is something in the directory."""
        self.tables: dict[str, BrokerTables] = {}
        """By broker name, once they are asked for."""
        self._reader = QueueReader(self.clients.request)
        self._addresses: dict[str, str] = {}
        self._files: list[BackupFile] = []
        self._problems: list[str] = []
        self._lost: set[str] = set()
        """Brokers that gave no answer: they are not asked for each further queue."""
        self._done = self._total = 0

    async def run(self) -> Manifest:
        """Save everything; return the manifest, whose problems say what could not be saved.

        Raises:
            ConfigError: something is in the directory already.
            InvalidArgument: there is no such cluster, or a pattern fits no topic of brokers that all answer.
            JobFailed: another backup is at work in it.
            ClientError: no broker answers at all.
            OSError: the disk refuses; what is there has no manifest.
        """
        check_new(self.directory)
        info = await self.clients.admin.cluster_info()
        self._addresses = masters_in(info, self.cluster)
        for name, data in sorted(info.brokers.items()):
            if self.cluster in (None, data.cluster) and name not in self._addresses:
                self._problems.append(f"the broker {name} has no master now: nothing of it is saved")
        own = topics_named_after(info.clusters, info.brokers)
        self.tables, problems = await ask_each(
            dict(sorted(self._addresses.items())),
            lambda _broker, address: read_tables(self.clients, address, own, self.patterns),
            needs_one=True,
        )
        self._problems += [f"broker {name}: nothing of it is saved: {problem}" for name, problem in problems.items()]
        if not self._problems:
            check_patterns(self.patterns, {topic for found in self.tables.values() for topic in found.topics})
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # messages and passwords will be in it
        with locked(self.directory, str(self.directory)):
            check_new(self.directory)
            self.has_begun = True
            for number, broker in enumerate(self.tables, 1):
                await self._save_tables(number, broker)
            if self.with_messages:
                await self._save_messages()
            manifest = Manifest(
                version=self.version,
                created_at_ms=self.now_ms,
                clusters={broker: info.brokers[broker].cluster for broker in self.tables},
                has_messages=self.with_messages,
                files=tuple(self._files),
                problems=tuple(self._problems),
            )
            await asyncio.to_thread(write_manifest, self.directory, manifest)
            return manifest

    async def _save_tables(self, number: int, broker: str) -> None:
        async def read_users() -> bytes:
            found = await read_access(self.clients, self._addresses[broker])
            return encode_access(found) if found.users or found.rules else b""

        async def read_settings() -> bytes:
            settings = list_settings(await self.clients.admin.broker_settings(self._addresses[broker]))
            return orjson.dumps({setting.key: setting.value for setting in settings}, option=orjson.OPT_INDENT_2)

        await self._write(f"tables-{number}.json", FileKind.TABLES, broker, encode_tables(self.tables[broker]))
        for kind, what, read in (
            (FileKind.ACCESS, "users and rules", read_users),
            (FileKind.SETTINGS, "settings", read_settings),
        ):
            try:
                if content := await read():
                    await self._write(f"{kind}-{number}.json", kind, broker, content)
            except RemoteRefused:
                pass  # the broker has none, or gives them to super users alone
            except ClientError as error:
                self._problems.append(f"broker {broker}: its {what} are not saved: {error}")

    async def _write(self, name: str, kind: FileKind, broker: str, content: bytes) -> None:
        written = await asyncio.to_thread(write_file, self.directory / name, content)
        self._files.append(BackupFile(name=name, kind=kind, broker=broker, **written._asdict()))

    async def _save_messages(self) -> None:
        permits = asyncio.Semaphore(QUEUES_AT_A_TIME)
        bounds: dict[_Queue, QueueBounds] = {}

        async def find_bounds(queue: _Queue) -> None:
            async with permits:
                if queue.broker not in self._lost:
                    try:
                        bounds[queue] = await self._reader.bounds(self._addresses[queue.broker], *queue[1:])
                    except ClientError as error:
                        self._note(queue, "", error)

        queues = [
            _Queue(broker, topic, queue_id)
            for broker, found in self.tables.items()
            for topic, config in sorted(found.topics.items())
            for queue_id in range(config.queue_count)
        ]
        await asyncio.gather(*map(find_bounds, queues))
        full = {queue: bounds[queue] for queue in queues if queue in bounds and bounds[queue].begin < bounds[queue].end}
        self._total = sum(end - begin for begin, end in full.values())

        async def save(number: int, queue: _Queue) -> QueueFile | None:
            async with permits:
                lost = queue.broker in self._lost
                return None if lost else await self._save_queue(f"messages-{number}.gz", queue, full[queue])

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(save(number, queue)) for number, queue in enumerate(full, 1)]
        except BaseExceptionGroup as errors:  # an error of the disk ends all
            raise errors.exceptions[0] from None
        files = [file for task in tasks if (file := task.result()) is not None]
        self._files += files
        for name in sorted(self._lost):
            present = sum(end - begin for queue, (begin, end) in full.items() if queue.broker == name)
            count = sum(file.count for file in files if file.broker == name)
            self._problems.append(f"broker {name}: {count} of at least {present} messages are saved")

    async def _save_queue(self, name: str, queue: _Queue, bounds: QueueBounds) -> QueueFile:
        writer = RecordsWriter(self.directory / name)  # not in a thread: a cancellation would lose it open
        count = size = 0
        offset, end = bounds
        try:
            while offset < end:
                pulled = await self._reader.pull(self._addresses[queue.broker], *queue[1:], offset)
                records, behind, problem = _split(pulled, queue, offset, end)
                if records:
                    await write_aside(writer.write, b"".join(records))
                count += len(records)
                size += sum(map(len, records))
                if problem:
                    self._problems.append(f"{queue}: {problem}")
                self._done += behind - offset
                self.progress(self._done, self._total)
                offset = behind
        except ClientError as error:
            self._note(queue, f" from offset {offset} on", error)
        finally:
            written = await asyncio.to_thread(writer.close)
        known: dict[str, Any] = (
            {"count": count, "records_size": size} | bounds._asdict() | queue._asdict() | written._asdict()
        )
        return QueueFile(name=name, kind=FileKind.MESSAGES, **known)

    def _note(self, queue: _Queue, where: str, error: ClientError) -> None:
        if isinstance(error, RemoteRefused):
            self._problems.append(f"{queue}{where}: not saved: {error}")
        elif queue.broker not in self._lost:
            self._lost.add(queue.broker)
            self._problems.append(
                f"broker {queue.broker}: it stopped answering at queue {queue.queue_id} of {queue.topic}{where}; what follows "
                f"is not saved: {error}"
            )


async def read_tables(
    clients: ClusterClients, address: str, own: Container[str], patterns: Sequence[str] = ()
) -> BrokerTables:
    """Return a broker's topics, groups and offsets, without those that it keeps for itself.

    Args:
        own: topics that are named after brokers and clusters.
        patterns: only topics, and offsets in topics, that fit one of these.
    """
    broker = await clients.admin.broker(address)
    topics, groups, committed = await broker.topic_configs(), await broker.group_configs(), await broker.committed()
    offsets = {}
    for text, queues in committed.items():
        key = parse_offset_key(text)
        if key is not None and key.group not in SYSTEM_GROUPS and is_saved(key.topic, own, patterns):
            offsets[key] = {queue_id: at for queue_id, at in queues.items() if 0 <= queue_id < 2**31}
    return BrokerTables(
        {name: found for name, found in topics.items() if is_saved(name, own, patterns)}, groups, offsets
    )


async def read_access(clients: ClusterClients, address: str) -> AccessTables:
    """Return a broker's users and rules.

    Raises:
        RemoteRefused: the broker has none, or does not give them.
    """
    broker = await clients.admin.broker(address)
    return AccessTables(await broker.users(), await broker.rules())


def _split(pulled: Pulled, queue: _Queue, offset: int, end: int) -> tuple[list[bytes], int, str | None]:
    """Return the whole records of an answer to a pull, where to pull next, at most `end`, and what is missing before that."""
    behind = min(pulled.next_offset, end)
    if not pulled.records and behind <= offset:
        return [], end, f"no message at offset {offset} of {end}"
    if not pulled.records:  # retention has moved the beginning since the bounds were asked
        return [], behind, f"no messages from offset {offset} to {behind - 1}: they are gone"
    found: list[bytes] = []
    view, at = memoryview(pulled.records), offset
    while view and at < end:
        try:
            record = parse_message(view, queue.topic, queue.queue_id, at, 2**63)
        except CorruptRecord as error:
            if found:  # the next pull begins with it
                return found, at, None
            return [], at + 1, f"the message at offset {at} is left out: {error.reason}"
        if record.queue_offset >= end:
            return found, end, None
        found.append(bytes(view[: record.size]))
        view, at = view[record.size :], record.queue_offset + 1
    return found, max(at, behind), None
