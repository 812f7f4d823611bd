"""Restoring a backup: topics and groups, messages queue by queue, the groups' offsets, and a look at the result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from orbitmq.admin.backup.broker_calls import BrokerCalls, Master, is_silent, masters_of, own_topics
from orbitmq.admin.backup.directory import check_file, read_file, read_manifest, read_records
from orbitmq.admin.backup.manifest import FileKind, Manifest, QueueFile, encode_manifest
from orbitmq.admin.backup.messages import is_same_message, send_header
from orbitmq.admin.backup.offset_map import OffsetMap
from orbitmq.admin.backup.plan import (
    NO_ACCESS,
    Action,
    OffsetStep,
    QueueState,
    QueueStep,
    RestoreOptions,
    RestorePlan,
    Target,
    is_closed,
    make_plan,
    map_brokers,
    opened,
    topic_to_create,
)
from orbitmq.admin.backup.progress import (
    QueueProgress,
    RestoreProgress,
    encode_progress,
    forget_progress,
    load_progress,
    save_progress,
)
from orbitmq.admin.backup.records import parse_message
from orbitmq.admin.backup.selection import is_selected
from orbitmq.admin.backup.tables import AccessTables, BrokerTables, decode_access, decode_tables
from orbitmq.admin.topics import create_header
from orbitmq.client.send.result import is_stored
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, ConfigError, HeaderError, RemoteRefused, StoreError
from orbitmq.files import write_aside
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.access import UserChange, encode_acl, encode_user_change
from orbitmq.wire.bodies.groups import encode_group_config
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    CreateAcl,
    CreateUser,
    SendResponse,
    UpdateConsumerOffset,
    UpdateSubscriptionGroup,
    UpdateUser,
)
from orbitmq.wire.messages.record import Record

QUEUES_AT_A_TIME = 16
SAVE_EVERY_S = 1.0
_RECORDS_AT_A_TIME = 256
_BUSY = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)
_BUSY_ATTEMPTS = 8
_BUSY_PAUSE_S = 0.1
_POLL_S = 0.05


class Restored(NamedTuple):
    """One queue after a restore: messages of the backup, those sent, and whether the queue holds them."""

    broker: str
    topic: str
    queue_id: int
    saved: int
    sent: int
    end: int | None
    """Where the queue ends now; None where the broker does not say."""
    problem: str | None


class RestoreReport(NamedTuple):
    """What a restore did, or would do."""

    plan: RestorePlan
    queues: tuple[Restored, ...] = ()
    offset_count: int = 0
    problems: tuple[str, ...] = ()


class Restoring:
    """One restore.

    Args:
        directory: of the backup.
        progress_path: the file that tells how far it is.
        is_resumed: go on where an interrupted one was.
        progress: is told messages that are done, and messages in all.
    """

    def __init__(
        self,
        calls: BrokerCalls,
        directory: Path,
        options: RestoreOptions,
        progress_path: Path,
        *,
        is_resumed: bool = False,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self._calls = calls
        self._directory = directory
        self._options = options
        self._path = progress_path
        self._is_resumed = is_resumed
        self.has_begun = False
        """Something may be changed."""
        self._progress = progress
        self._addresses: dict[str, str] = {}
        self._before: dict[str, Target] = {}
        self._state = RestoreProgress("", {}, {})
        self._saved_at = 0.0
        self._saving = asyncio.Lock()
        self._done = 0
        self._total = 0
        self._problems: list[str] = []
        self._lost: set[str] = set()
        """Brokers that gave no answer: they are not asked for each further queue."""

    async def plan(self) -> RestorePlan:
        """Check the files and the cluster; return what a restore would do, and change nothing.

        Raises:
            StoreError: the backup is not whole, or a file is damaged.
            InvalidArgument: a broker of the backup has no place in the cluster.
            ClientError: a broker cannot be asked.
        """
        started = load_progress(self._path, is_resumed=self._is_resumed)
        manifest, tables, access = await asyncio.to_thread(self._load)
        identity = sha256(encode_manifest(manifest)).hexdigest()
        info = await self._calls.cluster_info()
        masters = {master.broker: master for master in masters_of(info)[0]}
        saved = [name for name in manifest.clusters if name in tables]
        given = self._options.brokers if started is None else started.brokers
        brokers = map_brokers(saved, masters, given)
        if started is not None and (started.backup != identity or dict(started.brokers) != brokers):
            raise ConfigError("progress", str(self._path), "the progress of a restore of this backup")
        self._addresses = {name: masters[name].address for name in brokers.values()}
        own = own_topics(info)
        for old, new in brokers.items():
            self._before[new] = await self._look(masters[new], own, tables[old], manifest, old)
        resumed = {}
        if started is not None:
            resumed = {
                (queue.broker_name, queue.topic, queue.queue_id): QueueState(found.offsets.base, found.was_empty)
                for queue, found in started.queues.items()
            }
        plan = make_plan(manifest, tables, access, brokers, self._before, self._options, resumed)
        queues = {}
        for step in plan.queues:
            queue = _queue(step)
            fresh = QueueProgress(step.was_empty, OffsetMap(step.base))
            queues[queue] = started.queues.get(queue, fresh) if started is not None else fresh
        self._state = RestoreProgress(identity, brokers, queues)
        return plan

    async def run(self) -> RestoreReport:
        """Restore the backup.

        Raises: as `plan`; further
            ConfigError: something stands against it; nothing is changed.
        """
        plan = await self.plan()
        if plan.refusals:
            return RestoreReport(plan, problems=plan.refusals)
        await self._save()
        self.has_begun = True
        await self._make(plan)
        sent = await self._send(plan)
        offset_count = 0
        if not self._problems:
            await self._close_topics(plan)
            offset_count = await self._set_offsets(plan.offsets)
        await self._save()
        queues = await self._verify_all(plan.queues) if sent else []
        self._problems += [
            f"queue {one.queue_id} of {one.topic} on {one.broker}: {one.problem}" for one in queues if one.problem
        ]
        if not self._problems:
            await write_aside(forget_progress, self._path)
        return RestoreReport(plan, tuple(queues), offset_count, tuple(self._problems))

    def _load(self) -> tuple[Manifest, dict[str, BrokerTables], dict[str, AccessTables]]:
        """Read the manifest and the tables, and look at every file that is needed."""
        manifest = read_manifest(self._directory)
        checks = {
            file: check_file(self._directory, file)
            for file in manifest.files
            if not isinstance(file, QueueFile) or self._is_needed(file.topic)
        }
        damages = [check.damage for check in checks.values() if check.damage is not None]
        if damages:
            raise StoreError(f"{self._directory} cannot be restored: {'; '.join(damages)}")
        batches = sorted(
            {file.topic for file, check in checks.items() if isinstance(file, QueueFile) and check.has_batches}
        )
        if batches:
            raise StoreError(
                f"the topics {', '.join(batches)} hold batches (type BatchCQ), which cannot be sent again: choose others with --topic"
            )
        tables: dict[str, BrokerTables] = {}
        access: dict[str, AccessTables] = {}
        for file in manifest.files:
            try:
                if file.kind is FileKind.TABLES:
                    tables[file.broker] = decode_tables(read_file(self._directory, file))
                elif file.kind is FileKind.ACCESS and self._options.users:
                    access[file.broker] = decode_access(read_file(self._directory, file))
            except HeaderError as error:
                raise StoreError(f"{self._directory / file.name}: {error.remark}") from error
        return manifest, tables, access

    def _is_needed(self, topic: str) -> bool:
        return not self._options.tables_only and is_selected(topic, self._options.patterns)

    async def _look(
        self, master: Master, own: frozenset[str], saved: BrokerTables, manifest: Manifest, old: str
    ) -> Target:
        """Return what a broker has of what is restored to it."""
        tables = await self._calls.tables(master.address, own)
        permits = asyncio.Semaphore(QUEUES_AT_A_TIME)
        places = {(key.topic, queue_id) for key, queues in saved.offsets.items() for queue_id in queues} | {
            (file.topic, file.queue_id) for file in manifest.queues if file.broker == old
        }
        counts = {
            name: max(config.read_queue_count, config.write_queue_count) for name, config in tables.topics.items()
        }
        present = sorted(
            (topic, queue_id)
            for topic, queue_id in places
            if is_selected(topic, self._options.patterns) and queue_id < counts.get(topic, 0)
        )

        async def state(topic: str, queue_id: int) -> QueueState:
            async with permits:
                bounds = await self._calls.bounds(master.address, topic, queue_id)
            return QueueState(bounds.end, bounds.begin >= bounds.end)

        async def online(group: str) -> bool:
            async with permits:
                return await self._calls.is_online(master.address, group)

        states = await asyncio.gather(*(state(*place) for place in present))
        groups = sorted({key.group for key in saved.offsets} & tables.groups.keys())
        are_online = await asyncio.gather(*map(online, groups))
        return Target(
            tables,
            dict(zip(present, states, strict=True)),
            frozenset(group for group, is_online in zip(groups, are_online, strict=True) if is_online),
            await self._calls.access(master.address) if self._options.users else NO_ACCESS,
        )

    async def _make(self, plan: RestorePlan) -> None:
        """Create topics, groups and users; groups first: brokers take retries only of those that they know."""
        for group in plan.groups:
            if group.action.is_change:
                body = encode_group_config(group.config)
                await self._calls.ask(self._addresses[group.broker], UpdateSubscriptionGroup(), body)
        filled = {(step.broker, step.file.topic) for step in plan.queues}
        for topic in plan.topics:
            if topic.action.is_change:
                present = self._before[topic.broker].tables.topics.get(topic.config.topic)
                config = topic_to_create(topic, present if topic.action is Action.OVERWRITE else None)
                is_filled = (topic.broker, config.topic) in filled
                await self._calls.ask(
                    self._addresses[topic.broker], create_header(opened(config) if is_filled else config)
                )
        for step in plan.users:
            name, password, kind, status = step.user
            if step.action.is_change:
                header = CreateUser(username=name) if step.action is Action.CREATE else UpdateUser(username=name)
                body = encode_user_change(name, UserChange(password, kind, status))
                await self._calls.ask(self._addresses[step.broker], header, body)
        for rules in plan.rules:
            if rules.action.is_change:
                acl = rules.rules
                await self._calls.ask(self._addresses[rules.broker], CreateAcl(subject=acl.subject), encode_acl(acl))

    async def _close_topics(self, plan: RestorePlan) -> None:
        """Take the permission to write away again from topics that had none, and were opened, now or before --resume."""
        for step in plan.topics:
            if is_closed(step.config):
                present = self._before[step.broker].tables.topics.get(step.config.topic)
                was_opened = self._is_resumed and present == opened(step.config)
                if step.action.is_change or was_opened:
                    header = create_header(replace(step.config, attributes={}))
                    await self._calls.ask(self._addresses[step.broker], header)

    async def _send(self, plan: RestorePlan) -> bool:
        self._total = sum(step.file.count for step in plan.queues)
        self._done = sum(found.offsets.count for found in self._state.queues.values())
        permits = asyncio.Semaphore(QUEUES_AT_A_TIME)

        async def send(step: QueueStep) -> None:
            async with permits:
                if step.broker in self._lost:
                    return
                try:
                    await self._send_queue(step)
                except ClientError as error:
                    if is_silent(error):
                        self._lost.add(step.broker)
                    where = f"queue {step.file.queue_id} of {step.file.topic} on {step.broker}"
                    self._problems.append(f"{where}: {error}; go on with --resume")

        try:
            async with asyncio.TaskGroup() as group:
                for step in plan.queues:
                    group.create_task(send(step))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            await self._save()
        return bool(plan.queues)

    async def _send_queue(self, step: QueueStep) -> None:
        offsets = self._state.queues[_queue(step)].offsets
        async with aclosing(self._missing(step, offsets)) as records:
            async for record in records:
                offsets.add(record.queue_offset, await self._send_one(step, record))
                self._done += 1
                self._progress(self._done, self._total)
                if asyncio.get_running_loop().time() >= self._saved_at + SAVE_EVERY_S:
                    await self._save()

    async def _missing(self, step: QueueStep, offsets: OffsetMap) -> AsyncGenerator[Record, None]:
        """Yield the records that are not in the target queue yet."""
        records = read_records(self._directory, step.file)
        first = offsets.next_old
        stored: AsyncIterator[Record] | None = self._stored(step, offsets.next_new) if self._is_resumed else None
        try:
            while part := await _take(records):
                for record in part:
                    if record.queue_offset < first:
                        continue
                    if stored is not None:
                        found = await _find(stored, record)
                        if found is not None:
                            offsets.add(record.queue_offset, found)
                            continue
                        stored = None
                    yield record
        finally:
            await asyncio.to_thread(records.close)

    async def _stored(self, step: QueueStep, begin: int) -> AsyncIterator[Record]:
        """Yield what lies in the target queue from an offset on: a stopped restore may have sent more than it noted."""
        address, topic, queue_id = self._addresses[step.broker], step.file.topic, step.file.queue_id
        end = (await self._calls.bounds(address, topic, queue_id)).end
        while begin < end:
            pulled = await self._calls.pull(address, topic, queue_id, begin)
            view = memoryview(pulled.records)
            while view:
                record = parse_message(view)
                view = view[record.size :]
                yield record
            begin = max(begin + 1, pulled.next_offset)

    async def _send_one(self, step: QueueStep, record: Record) -> int:
        """Send a message; return its new queue offset.

        Raises:
            RemoteRefused: the broker refuses it.
            ClientError: there is no answer: it may be stored.
        """
        address = self._addresses[step.broker]
        header = send_header(record, step.broker)
        for attempt in range(_BUSY_ATTEMPTS):
            answer = await self._calls.send(address, header, bytes(record.body))
            if answer.code not in _BUSY:
                break
            await asyncio.sleep(_BUSY_PAUSE_S * 2**attempt)
        if not is_stored(answer):
            raise RemoteRefused(answer.code, answer.remark, address)
        found = decode_header(SendResponse, answer.ext_fields)
        if found.queue_id != record.queue_id:
            raise ClientError(f"the broker put a message into queue {found.queue_id}, not into {record.queue_id}")
        return found.queue_offset

    async def _save(self) -> None:
        async with self._saving:
            self._saved_at = asyncio.get_running_loop().time()
            await write_aside(save_progress, self._path, encode_progress(self._state))

    async def _set_offsets(self, steps: tuple[OffsetStep, ...]) -> int:
        count = 0
        for step in steps:
            found = self._state.queues.get(MessageQueue(step.topic, step.broker, step.queue_id))
            offset = step.base if found is None else found.offsets.find(step.committed)
            header = UpdateConsumerOffset(
                consumer_group=step.group, topic=step.topic, queue_id=step.queue_id, commit_offset=offset
            )
            try:
                await self._calls.ask(self._addresses[step.broker], header)
                count += 1
            except ClientError as error:
                where = f"queue {step.queue_id} of {step.topic} on {step.broker}"
                self._problems.append(f"the group {step.group} has no offset in {where}: {error}")
        return count

    async def _verify_all(self, steps: tuple[QueueStep, ...]) -> list[Restored]:
        permits = asyncio.Semaphore(QUEUES_AT_A_TIME)

        async def verify(step: QueueStep) -> Restored:
            async with permits:
                return await self._verify(step)

        return list(await asyncio.gather(*map(verify, steps)))

    async def _verify(self, step: QueueStep) -> Restored:
        """Compare a queue with its file; brokers show messages a moment after they have stored them."""
        file, offsets = step.file, self._state.queues[_queue(step)].offsets
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._calls.timeout_ms / 1000
        end: int | None = None
        problem = None
        try:
            while step.broker not in self._lost:
                end = (await self._calls.bounds(self._addresses[step.broker], file.topic, file.queue_id)).end
                if end >= offsets.next_new or loop.time() >= deadline:
                    break
                await asyncio.sleep(_POLL_S)
        except ClientError as error:
            problem = str(error)
        if offsets.count != file.count:
            problem = f"{offsets.count} of {file.count} messages are sent"
        elif end is not None and end < offsets.next_new:
            problem = f"the queue ends at {end}, expected {offsets.next_new}"
        return Restored(step.broker, file.topic, file.queue_id, file.count, offsets.count, end, problem)


def _queue(step: QueueStep) -> MessageQueue:
    return MessageQueue(step.file.topic, step.broker, step.file.queue_id)


async def _take(records: Iterator[Record]) -> list[Record]:
    """Return the next records, read by a thread; a cancelled caller goes on when that has ended: two cannot read."""
    reading = asyncio.ensure_future(asyncio.to_thread(lambda: list(islice(records, _RECORDS_AT_A_TIME))))
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        await asyncio.wait((reading,))
        raise


async def _find(stored: AsyncIterator[Record], wanted: Record) -> int | None:
    """Return the offset of the next message that is the wanted one; messages of others are passed over."""
    async for record in stored:
        if is_same_message(wanted, record):
            return record.queue_offset
    return None
