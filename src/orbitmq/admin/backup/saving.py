"""Saving a cluster: the tables of every master, then its messages, queue by queue, the manifest last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson

from orbitmq.admin.backup.broker_calls import (
    PULL_COUNT,
    BrokerCalls,
    Master,
    QueueBounds,
    is_silent,
    masters_of,
    own_topics,
    queue_count,
)
from orbitmq.admin.backup.directory import (
    RecordsWriter,
    Written,
    check_new,
    create_directory,
    locked,
    write_file,
    write_manifest,
)
from orbitmq.admin.backup.manifest import BackupFile, FileKind, Manifest, QueueFile
from orbitmq.admin.backup.records import check_place, parse_message
from orbitmq.admin.backup.selection import check_patterns
from orbitmq.admin.backup.tables import BrokerTables, encode_access, encode_tables
from orbitmq.admin.broker_settings import list_settings
from orbitmq.errors import ClientError, CorruptRecord, InvalidArgument, OrbitError, RemoteRefused, RouteNotFound
from orbitmq.files import write_aside

QUEUES_AT_A_TIME = 8
"""Each keeps one answer of a broker in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupOptions:
    """What is saved, and where.

    Args:
        directory: a new or an empty one.
        patterns: only topics that fit one of these; empty: all.
        cluster: only brokers of this cluster.
        with_messages: False saves tables alone.
    """

    directory: Path
    patterns: tuple[str, ...] = ()
    cluster: str | None = None
    with_messages: bool = True


class Saving:
    """One backup under way.

    Args:
        version: of this program; the manifest names it.
        now_ms: when the backup begins.
        progress: is told messages that are done, and messages in all.
    """

    def __init__(
        self,
        calls: BrokerCalls,
        options: BackupOptions,
        *,
        version: str,
        now_ms: int,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self._calls = calls
        self._options = options
        self._version = version
        self._now_ms = now_ms
        self._progress = progress
        self.has_begun = False
        """There is something in the directory."""
        self.tables: dict[str, BrokerTables] = {}
        """By broker name, once they are asked for."""
        self._files: list[BackupFile] = []
        self._problems: list[str] = []
        self._lost: set[str] = set()
        """Brokers that gave no answer: they are not asked for each further queue."""
        self._done = 0
        self._total = 0

    async def run(self) -> Manifest:
        """Save everything; return the manifest, whose problems say what could not be saved.

        Raises:
            ConfigError: something is in the directory already.
            InvalidArgument: there is no such cluster, or a pattern fits no topic of brokers that all answer.
            StoreError: another backup is at work in it.
            ClientError: no broker answers at all.
            OSError: the disk refuses; what is there has no manifest.
        """
        check_new(self._options.directory)
        info = await self._calls.cluster_info()
        if self._options.cluster is not None and self._options.cluster not in info.clusters:
            known = ", ".join(sorted(info.clusters)) or "one that is registered (there is none now)"
            raise InvalidArgument("cluster", self._options.cluster, f"one of {known}")
        masters, without = masters_of(info, self._options.cluster)
        self._problems += [f"the broker {name} has no master now: nothing of it is saved" for name in without]
        if not masters:
            raise RouteNotFound("no master broker is registered with the NameServer")
        tables = await self._tables(masters, own_topics(info))
        if not self._problems:
            check_patterns(self._options.patterns, {topic for found in tables.values() for topic in found.topics})
        self.tables = {master.broker: found for master, found in tables.items()}
        create_directory(self._options.directory)
        with locked(self._options.directory):
            check_new(self._options.directory)
            self.has_begun = True
            return await self._save(tables)

    async def _save(self, tables: dict[Master, BrokerTables]) -> Manifest:
        for number, (master, found) in enumerate(tables.items(), 1):
            await self._save_tables(number, master, found)
        if self._options.with_messages:
            await self._save_messages(tables)
        manifest = Manifest(
            version=self._version,
            created_at_ms=self._now_ms,
            clusters={master.broker: master.cluster for master in tables},
            has_messages=self._options.with_messages,
            files=tuple(self._files),
            problems=tuple(self._problems),
        )
        await asyncio.to_thread(write_manifest, self._options.directory, manifest)
        return manifest

    async def _tables(self, masters: list[Master], own: frozenset[str]) -> dict[Master, BrokerTables]:
        found = await asyncio.gather(
            *(self._calls.tables(master.address, own, self._options.patterns) for master in masters),
            return_exceptions=True,
        )
        tables: dict[Master, BrokerTables] = {}
        errors: list[OrbitError] = []
        for master, one in zip(masters, found, strict=True):
            if isinstance(one, BrokerTables):
                tables[master] = one
            elif isinstance(one, OrbitError):
                errors.append(one)
                self._problems.append(f"broker {master.broker}: nothing of it is saved: {one}")
            else:
                raise one
        if not tables:
            raise errors[0]
        return tables

    async def _save_tables(self, number: int, master: Master, tables: BrokerTables) -> None:
        await self._write(f"tables-{number}.json", FileKind.TABLES, master.broker, encode_tables(tables))
        try:
            access = await self._calls.access(master.address)
        except RemoteRefused:
            pass  # it has no users, or gives them to super users alone
        except ClientError as error:
            self._problems.append(f"broker {master.broker}: its users and rules are not saved: {error}")
        else:
            if access.users or access.rules:
                await self._write(f"access-{number}.json", FileKind.ACCESS, master.broker, encode_access(access))
        try:
            settings = await self._calls.settings(master.address)
        except RemoteRefused:
            pass
        except ClientError as error:
            self._problems.append(f"broker {master.broker}: its settings are not saved: {error}")
        else:
            content = orjson.dumps(
                {setting.key: setting.value for setting in list_settings(settings)}, option=orjson.OPT_INDENT_2
            )
            await self._write(f"settings-{number}.json", FileKind.SETTINGS, master.broker, content)

    async def _write(self, name: str, kind: FileKind, broker: str, content: bytes) -> None:
        written = await asyncio.to_thread(write_file, self._options.directory / name, content)
        self._files.append(BackupFile(name=name, kind=kind, broker=broker, **written._asdict()))

    async def _save_messages(self, tables: dict[Master, BrokerTables]) -> None:
        queues = [
            (master, topic, queue_id)
            for master, found in tables.items()
            for topic, config in sorted(found.topics.items())
            for queue_id in range(queue_count(config))
        ]
        permits = asyncio.Semaphore(QUEUES_AT_A_TIME)

        async def look(master: Master, topic: str, queue_id: int) -> QueueBounds | None:
            async with permits:
                return await self._bounds(master, topic, queue_id)

        bounds = await asyncio.gather(*(look(*queue) for queue in queues))
        self._total = sum(found.end - found.begin for found in bounds if found is not None)
        full = [
            (queue, found) for queue, found in zip(queues, bounds, strict=True) if found and found.begin < found.end
        ]

        async def save(number: int, queue: tuple[Master, str, int], found: QueueBounds) -> QueueFile | None:
            async with permits:
                return await self._save_queue(f"messages-{number}.gz", *queue, found)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(save(number, *one)) for number, one in enumerate(full, 1)]
        except BaseExceptionGroup as errors:  # an error of the disk ends all
            raise errors.exceptions[0] from None
        files = [file for task in tasks if (file := task.result()) is not None]
        self._files += files
        for name in sorted(self._lost):
            present = sum(found.end - found.begin for (master, *_), found in full if master.broker == name)
            count = sum(file.count for file in files if file.broker == name)
            self._problems.append(f"broker {name}: {count} of at least {present} messages are saved")

    async def _bounds(self, master: Master, topic: str, queue_id: int) -> QueueBounds | None:
        if master.broker in self._lost:
            return None
        try:
            return await self._calls.bounds(master.address, topic, queue_id)
        except ClientError as error:
            self._note(master, f"queue {queue_id} of {topic}", error)
            return None

    async def _save_queue(
        self, name: str, master: Master, topic: str, queue_id: int, bounds: QueueBounds
    ) -> QueueFile | None:
        where = f"queue {queue_id} of {topic}"
        if master.broker in self._lost:
            return None
        writer = RecordsWriter(self._options.directory / name)  # not in a thread: a cancellation would lose it open
        count = size = 0
        offset, count_max = bounds.begin, PULL_COUNT
        try:
            while offset < bounds.end:
                records, behind, damage, is_empty = await self._pull(master, topic, queue_id, offset, bounds, count_max)
                if records:
                    await write_aside(writer.write, b"".join(records))
                count += len(records)
                size += sum(map(len, records))
                if is_empty and behind <= offset:
                    self._problems.append(
                        f"broker {master.broker}, {where}: no message at offset {offset} of {bounds.end}"
                    )
                    break
                if is_empty:  # retention has moved the beginning since the bounds were asked
                    last = min(behind, bounds.end) - 1
                    self._problems.append(
                        f"broker {master.broker}, {where}: no messages from offset {offset} to {last}: they are gone"
                    )
                if damage is not None and count_max == 1:
                    self._problems.append(
                        f"broker {master.broker}, {where}: the message at offset {offset} is left out: {damage.reason}"
                    )
                    behind = offset + 1
                count_max = 1 if damage is not None and count_max > 1 else PULL_COUNT
                self._done += max(0, min(behind, bounds.end) - offset)
                self._progress(self._done, self._total)
                offset = behind
        except ClientError as error:
            self._note(master, f"{where} from offset {offset} on", error)
        finally:
            written: Written = await asyncio.to_thread(writer.close)
        return QueueFile(
            name=name,
            kind=FileKind.MESSAGES,
            broker=master.broker,
            topic=topic,
            queue_id=queue_id,
            begin=bounds.begin,
            end=bounds.end,
            count=count,
            records_size=size,
            **written._asdict(),
        )

    async def _pull(
        self, master: Master, topic: str, queue_id: int, offset: int, bounds: QueueBounds, count_max: int
    ) -> tuple[list[bytes], int, CorruptRecord | None, bool]:
        """Return whole records, the offset behind them, what is wrong behind that, and whether the broker gave none."""
        pulled = await self._calls.pull(master.address, topic, queue_id, offset, count_max)
        if not pulled.records:
            return [], pulled.next_offset, None, True
        found: list[bytes] = []
        view, expected = memoryview(pulled.records), offset
        while view and expected < bounds.end:
            try:
                record = parse_message(view)
                if record.queue_offset >= bounds.end:
                    return found, bounds.end, None, False
                check_place(record, topic, queue_id, expected, bounds.end)
            except CorruptRecord as error:
                return found, expected, error, False
            found.append(bytes(view[: record.size]))
            view, expected = view[record.size :], record.queue_offset + 1
        return found, max(expected, pulled.next_offset) if expected < bounds.end else expected, None, False

    def _note(self, master: Master, where: str, error: ClientError) -> None:
        if is_silent(error) and master.broker not in self._lost:
            self._lost.add(master.broker)
            self._problems.append(
                f"broker {master.broker}: it stopped answering at {where}; what follows is not saved: {error}"
            )
        elif not is_silent(error):
            self._problems.append(f"broker {master.broker}, {where}: not saved: {error}")
