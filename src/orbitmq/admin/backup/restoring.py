"""Restoring a backup: topics and groups, messages queue by queue, and the groups' offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from orbitmq.admin.backup.directory import check_file, read_bounded, read_manifest
from orbitmq.admin.backup.manifest import FileKind, Manifest, QueueFile, encode_manifest
from orbitmq.admin.backup.plan import (
    Action,
    OffsetStep,
    QueueProgress,
    RestoreOptions,
    RestorePlan,
    TableStep,
    Target,
    make_plan,
    map_brokers,
    opened,
)
from orbitmq.admin.backup.saving import read_access, read_tables
from orbitmq.admin.backup.sending import QUEUES_AT_A_TIME, RestoreProgress, Sending, forget_progress, load_progress
from orbitmq.admin.backup.tables import (
    NO_ACCESS,
    AccessTables,
    BrokerTables,
    check_patterns,
    decode_access,
    decode_tables,
    is_selected,
)
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.topics import attribute_changes, create_header
from orbitmq.client.queue_reader import QueueReader
from orbitmq.errors import ClientError, ConfigError, HeaderError, RemoteRefused, StoreError
from orbitmq.files import write_aside
from orbitmq.job_directory import locked
from orbitmq.model.route import MessageQueue
from orbitmq.net.pool import expect
from orbitmq.wire.bodies.access import UserChange, encode_acl, encode_user_change
from orbitmq.wire.bodies.groups import encode_group_config
from orbitmq.wire.headers import (
    CreateAcl,
    CreateUser,
    UpdateConsumerOffset,
    UpdateSubscriptionGroup,
    UpdateUser,
)


class Restored(NamedTuple):
    """One queue after a restore: messages of the backup, those sent, and those left out."""

    broker: str
    topic: str
    queue_id: int
    saved: int
    sent: int
    skipped: int
    end: int
    """The offset behind the last one that is sent."""
    problem: str | None


class RestoreReport(NamedTuple):
    """What a restore did, or would do."""

    plan: RestorePlan
    queues: tuple[Restored, ...] = ()
    offset_count: int = 0
    problems: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    """Messages that brokers refused, and that are left out."""


@dataclass
class Restoring:
    """One restore.

    Args:
        directory: of the backup.
        progress_path: the file that tells how far it is.
        is_resumed: go on where an interrupted one was.
        progress: is told messages that are done, and messages in all.
    """

    clients: ClusterClients
    directory: Path
    options: RestoreOptions
    progress_path: Path
    is_resumed: bool = False
    progress: Callable[[int, int], None] = lambda done, total: None

    def __post_init__(self) -> None:
        self.has_begun = False
        """Something may be changed."""
        self._addresses: dict[str, str] = {}
        self._before: dict[str, Target] = {}
        self._state = RestoreProgress("", {}, {})

    async def run(self, *, dry_run: bool = False) -> RestoreReport:
        """Check the files and the cluster, and restore the backup.

        Args:
            dry_run: only return what would be done, and change nothing.

        Raises:
            StoreError: the backup is not whole, or a file is damaged; or the target refuses a topic, a group or a user.
            JobFailed: a backup or restore of it is under way.
            InvalidArgument: a broker of the backup has no place in the cluster, or a pattern fits none of its topics.
            ClientError: a broker cannot be asked.
        """
        if not self.directory.is_dir():
            raise StoreError(f"there is no directory {self.directory}")
        with locked(self.directory, str(self.directory)):
            plan = await self._plan()
            if dry_run or plan.refusals:
                return RestoreReport(plan, problems=plan.refusals)
            return await self._run(plan)

    async def _plan(self) -> RestorePlan:
        started = load_progress(self.progress_path, is_resumed=self.is_resumed)
        manifest, tables, access = await asyncio.to_thread(self._load)
        if started is None:
            check_patterns(self.options.patterns, {topic for found in tables.values() for topic in found.topics})
        masters, own = await self.clients.admin.masters(), await self.clients.admin.own_topics()
        brokers = map_brokers(tables, masters, self.options.brokers if started is None else started.brokers)
        state = RestoreProgress(sha256(encode_manifest(manifest)).hexdigest(), brokers, {})
        if started is not None and started._replace(queues={}) != state:
            raise ConfigError("progress", str(self.progress_path), "the progress of a restore of this backup")
        for old, new in brokers.items():
            self._addresses[new] = masters[new]
            queues = {MessageQueue(file.topic, new, file.queue_id) for file in manifest.queues if file.broker == old}
            self._before[new] = await self._find_target(new, own, tables[old], queues)
        resumed = {} if started is None else started.queues
        plan = make_plan(manifest, tables, access, brokers, self._before, self.options, own, resumed)
        self._state = state._replace(queues={step.queue: step.place for step in plan.queues})
        if started is not None and self._state.queues.keys() != resumed.keys():
            raise ConfigError("topic", self.options.patterns, "the same choice of messages as in the first call")
        return plan

    async def _run(self, plan: RestorePlan) -> RestoreReport:
        sending = Sending(
            self.clients,
            self.directory,
            self.progress_path,
            self._addresses,
            self._state,
            is_resumed=self.is_resumed,
            skip_refused=self.options.skip_refused,
            progress=self.progress,
        )
        await sending.save()
        self.has_begun = True
        await self._change_tables(plan)
        problems = await sending.send_all(plan.queues)
        offset_count = 0
        if not problems:
            await self._close_topics(plan.tables)
            offset_count, problems = await self._set_offsets(plan.offsets)
        restored, skipped = [], []
        for step in plan.queues:
            place, saved = step.place, step.file.count
            skipped += [f"{step}: {reason}" for reason in place.skipped.values()]
            is_whole = place.sent + len(place.skipped) == saved
            problem = None if is_whole else f"{place.sent} of {saved} messages are sent"
            if problem:
                problems.append(f"{step}: {problem}")
            topic, broker, queue_id = step.queue
            counts = saved, place.sent, len(place.skipped), place.next_new
            restored.append(Restored(broker, topic, queue_id, *counts, problem))
        if not problems:
            await write_aside(forget_progress, self.progress_path)
        return RestoreReport(plan, tuple(restored), offset_count, tuple(problems), tuple(skipped))

    def _load(self) -> tuple[Manifest, dict[str, BrokerTables], dict[str, AccessTables]]:
        """Read the manifest and the tables, and check every file that is needed."""
        manifest = read_manifest(self.directory)
        tables: dict[str, BrokerTables] = {}
        access: dict[str, AccessTables] = {}
        damages: list[str] = []
        for file in manifest.files:
            is_left = isinstance(file, QueueFile) and not is_selected(file.topic, self.options.patterns)
            if is_left or (file.kind is FileKind.MESSAGES and self.options.tables_only):
                continue
            try:
                check_file(self.directory, file)
                if file.kind is FileKind.TABLES:
                    tables[file.broker] = decode_tables(read_bounded(self.directory / file.name, file.size))
                elif file.kind is FileKind.ACCESS and self.options.users:
                    access[file.broker] = decode_access(read_bounded(self.directory / file.name, file.size))
            except HeaderError as error:
                damages.append(f"{file.name}: {error.remark}")
            except (StoreError, OSError) as error:
                damages.append(str(error))
        if damages:
            raise StoreError(f"{self.directory} cannot be restored: {'; '.join(damages)}")
        return manifest, tables, access

    async def _find_target(
        self, broker: str, own: frozenset[str], saved: BrokerTables, queues: set[MessageQueue]
    ) -> Target:
        """Return what a broker has of what is restored to it.

        Args:
            queues: that messages go to; those in which groups have offsets are added.
        """
        address = self._addresses[broker]
        tables = await read_tables(self.clients, address, own)
        questions = await self.clients.admin.broker(address)
        reader, permits = QueueReader(self.clients.request), asyncio.Semaphore(QUEUES_AT_A_TIME)
        places: dict[MessageQueue, QueueProgress] = {}
        online: set[str] = set()

        async def find_place(queue: MessageQueue) -> None:
            async with permits:
                begin, end = await reader.bounds(address, queue.topic, queue.queue_id)
            places[queue] = QueueProgress(end, begin >= end)

        async def find_clients(group: str) -> None:
            async with permits:
                if await questions.consumers(group) is not None:
                    online.add(group)

        queues |= {MessageQueue(key.topic, broker, at) for key, offsets in saved.offsets.items() for at in offsets}
        counts = {
            name: config.queue_count
            for name, config in tables.topics.items()
            if is_selected(name, self.options.patterns)
        }
        await asyncio.gather(
            *(find_place(queue) for queue in queues if queue.queue_id < counts.get(queue.topic, 0)),
            *(find_clients(group) for group in {key.group for key in saved.offsets} & tables.groups.keys()),
        )
        access = await read_access(self.clients, address) if self.options.users else NO_ACCESS
        return Target(tables, places, frozenset(online), access)

    async def _change_tables(self, plan: RestorePlan) -> None:
        filled = {(step.queue.broker_name, step.queue.topic) for step in plan.queues}
        for step in plan.tables:
            if not step.action.is_change:
                continue
            header: object
            value, body = step.value, b""
            if step.kind == "group":
                header, body = UpdateSubscriptionGroup(), encode_group_config(value)
            elif step.kind == "topic":
                present = self._before[step.broker].tables.topics.get(step.name)
                changes = attribute_changes(value.attributes, {} if present is None else present.attributes)
                config = opened(value) if (step.broker, step.name) in filled else value
                header = create_header(replace(config, attributes=changes))
            elif step.kind == "user":
                is_new = step.action is Action.CREATE
                header = CreateUser(username=step.name) if is_new else UpdateUser(username=step.name)
                body = encode_user_change(step.name, UserChange(value.password, value.type, value.status))
            else:
                header, body = CreateAcl(subject=step.name), encode_acl(value)
            try:
                await self._request(step.broker, header, body)
            except RemoteRefused as error:
                raise StoreError(
                    f"{step.broker} takes no {step.kind} {step.name}: {error}. Change the broker and go on with --resume, or "
                    f"delete {self.progress_path} and choose other topics with --topic"
                ) from error

    async def _close_topics(self, steps: Sequence[TableStep]) -> None:
        """Take the permission to write away again from topics that had none, and were opened, now or before --resume."""
        for step in steps:
            if step.kind == "topic" and opened(step.value) != step.value:
                present = self._before[step.broker].tables.topics.get(step.name)
                was_opened = self.is_resumed and present == opened(step.value)
                if step.action.is_change or was_opened:
                    header = create_header(replace(step.value, attributes={}))
                    await self._request(step.broker, header)

    async def _set_offsets(self, steps: Sequence[OffsetStep]) -> tuple[int, list[str]]:
        """Return how many offsets are set, and what went wrong."""
        problems = []
        for queue, group, committed, place in steps:
            header = UpdateConsumerOffset(
                consumer_group=group,
                topic=queue.topic,
                queue_id=queue.queue_id,
                commit_offset=place.find(committed),
            )
            try:
                await self._request(queue.broker_name, header)
            except ClientError as error:
                where = f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name}"
                problems.append(f"the group {group} has no offset in {where}: {error}")
        return len(steps) - len(problems), problems

    async def _request(self, broker: str, header: object, body: bytes = b"") -> None:
        address = self._addresses[broker]
        expect(await self.clients.request(address, header, body), address)
