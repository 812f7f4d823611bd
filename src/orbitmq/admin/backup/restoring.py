"""Restoring a backup: topics and groups, messages queue by queue, and the groups' offsets."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from orbitmq.admin.backup.brokers import ask, read_access, read_tables
from orbitmq.admin.backup.directory import check_file, read_file, read_manifest
from orbitmq.admin.backup.manifest import FileKind, Manifest, QueueFile, encode_manifest
from orbitmq.admin.backup.plan import (
    NEW_QUEUE,
    Action,
    OffsetStep,
    QueueState,
    RestoreOptions,
    RestorePlan,
    TableStep,
    Target,
    make_plan,
    map_brokers,
    opened,
    topic_to_create,
)
from orbitmq.admin.backup.progress import QueueProgress, RestoreProgress, forget_progress, load_progress
from orbitmq.admin.backup.sending import QUEUES_AT_A_TIME, Sending
from orbitmq.admin.backup.tables import (
    NO_ACCESS,
    AccessTables,
    BrokerTables,
    check_patterns,
    decode_access,
    decode_tables,
    is_saved,
    is_selected,
    queue_count,
)
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.topics import create_header
from orbitmq.client.queue_reader import QueueReader
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, ConfigError, HeaderError, RemoteRefused, StoreError
from orbitmq.files import write_aside
from orbitmq.job_directory import locked
from orbitmq.model.group import SYSTEM_GROUPS
from orbitmq.model.route import MASTER_ID, MessageQueue
from orbitmq.model.topic import NAME_LENGTH_MAX, topics_named_after
from orbitmq.net.pool import expect
from orbitmq.wire.bodies.access import UserChange, encode_acl, encode_user_change
from orbitmq.wire.bodies.groups import encode_group_config
from orbitmq.wire.headers import (
    CreateAcl,
    CreateUser,
    GetConsumerConnections,
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
        clients: ClusterClients,
        directory: Path,
        options: RestoreOptions,
        progress_path: Path,
        *,
        is_resumed: bool = False,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self._clients = clients
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
        self._problems: list[str] = []

    async def plan(self) -> RestorePlan:
        """Check the files and the cluster; return what a restore would do, and change nothing.

        Raises:
            StoreError: the backup is not whole, or a file is damaged.
            JobFailed: a backup or restore of it is under way.
            InvalidArgument: a broker of the backup has no place in the cluster, or a pattern fits none of its topics.
            ClientError: a broker cannot be asked.
        """
        with self._locked():
            return await self._plan()

    async def run(self) -> RestoreReport:
        """Restore the backup.

        Raises: as `plan`; further
            StoreError: the target refuses a topic, a group or a user.
        """
        with self._locked():
            return await self._run()

    def _locked(self) -> AbstractContextManager[None]:
        if not self._directory.is_dir():
            raise StoreError(f"there is no directory {self._directory}")
        return locked(self._directory, str(self._directory))

    async def _plan(self) -> RestorePlan:
        started = load_progress(self._path, is_resumed=self._is_resumed)
        manifest, tables, access = await asyncio.to_thread(self._load)
        if started is None:
            check_patterns(self._options.patterns, {topic for found in tables.values() for topic in found.topics})
        identity = sha256(encode_manifest(manifest)).hexdigest()
        info = await self._clients.admin.cluster_info()
        masters = {
            name: data.addresses[MASTER_ID] for name, data in info.brokers.items() if MASTER_ID in data.addresses
        }
        brokers = map_brokers(tables, masters, self._options.brokers if started is None else started.brokers)
        if started is not None and (started.backup != identity or dict(started.brokers) != brokers):
            raise ConfigError("progress", str(self._path), "the progress of a restore of this backup")
        own = topics_named_after(info.clusters, info.brokers)
        for old, new in brokers.items():
            self._addresses[new] = masters[new]
            self._before[new] = await self._find_target(new, own, tables[old], manifest, old)
            self._check_names(tables[old], own, self._before[new].tables.topics)
        known = {} if started is None else started.queues
        resumed = {queue: found.before for queue, found in known.items()}
        plan = make_plan(manifest, tables, access, brokers, self._before, self._options, resumed)
        queues = {step.queue: known.get(step.queue) or QueueProgress(step.before) for step in plan.queues}
        if started is not None and queues.keys() != known.keys():
            raise ConfigError("topic", self._options.patterns, "the same choice of messages as in the first call")
        self._check_ends(known)
        self._state = RestoreProgress(identity, brokers, queues)
        committed: dict[MessageQueue, set[int]] = defaultdict(set)
        for old, new in brokers.items():
            for key, offsets in tables[old].offsets.items():
                for queue_id, offset in offsets.items():
                    committed[MessageQueue(key.topic, new, queue_id)].add(offset)
        for queue, place in queues.items():
            place.waiting = sorted(committed[queue] - place.moved.keys(), reverse=True)
        return plan

    async def _run(self) -> RestoreReport:
        plan = await self._plan()
        if plan.refusals:
            return RestoreReport(plan, problems=plan.refusals)
        sending = Sending(
            self._clients,
            self._directory,
            self._path,
            self._addresses,
            self._state,
            is_resumed=self._is_resumed,
            skip_refused=self._options.skip_refused,
            progress=self._progress,
        )
        await sending.save()
        self.has_begun = True
        await self._change_tables(plan)
        self._problems += await sending.send_all(plan.queues)
        offset_count = 0
        if not self._problems:
            await self._close_topics(plan.tables)
            offset_count = await self._set_offsets(plan.offsets)
        restored, skipped = [], []
        for broker, file, _ in plan.queues:
            place = self._state.queues[MessageQueue(file.topic, broker, file.queue_id)]
            where = f"queue {file.queue_id} of {file.topic} on {broker}"
            skipped += [f"{where}: {reason}" for reason in place.skipped.values()]
            is_whole = place.sent + len(place.skipped) == file.count
            problem = None if is_whole else f"{place.sent} of {file.count} messages are sent"
            counts = file.count, place.sent, len(place.skipped), place.next_new
            restored.append(Restored(broker, file.topic, file.queue_id, *counts, problem))
            if problem:
                self._problems.append(f"{where}: {problem}")
        if not self._problems:
            await write_aside(forget_progress, self._path)
        return RestoreReport(plan, tuple(restored), offset_count, tuple(self._problems), tuple(skipped))

    def _load(self) -> tuple[Manifest, dict[str, BrokerTables], dict[str, AccessTables]]:
        """Read the manifest and the tables, and check every file that is needed."""
        manifest = read_manifest(self._directory)
        damages: list[str] = []
        for file in manifest.files:
            is_wanted = not self._options.tables_only and isinstance(file, QueueFile)
            if not isinstance(file, QueueFile) or (is_wanted and is_selected(file.topic, self._options.patterns)):
                try:
                    check_file(self._directory, file)
                except (StoreError, OSError) as error:
                    damages.append(str(error))
        if damages:
            raise StoreError(f"{self._directory} cannot be restored: {'; '.join(damages)}")
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

    def _check_names(self, tables: BrokerTables, own: frozenset[str], present: Container[str]) -> None:
        chosen = [name for name in tables.topics if is_selected(name, self._options.patterns)]
        kept = sorted(name for name in chosen if not is_saved(name, own, ()))
        if kept:
            raise StoreError(
                f"the topics {', '.join(kept)} are kept by the target for itself: choose others with --topic"
            )
        for name in chosen:  # brokers make longer ones themselves: retries and dead letters of groups with long names
            if len(name) > NAME_LENGTH_MAX and name not in present:
                raise StoreError(
                    f"the topic {name} has {len(name)} characters, brokers make one of {NAME_LENGTH_MAX} at most: choose "
                    "others with --topic, as '[!%]*'"
                )
        groups = sorted(SYSTEM_GROUPS & tables.groups.keys())
        if groups:
            raise StoreError(f"the groups {', '.join(groups)} are kept by brokers for themselves, and in no backup")

    def _check_ends(self, known: Mapping[MessageQueue, QueueProgress]) -> None:
        """Refuse a target that does not have what the progress says: another one, or one that lost messages."""
        for queue, found in known.items():
            state = self._before[queue.broker_name].queues.get(queue, NEW_QUEUE)
            if found.sent and state.end < found.next_new:
                raise StoreError(
                    f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name} ends at {state.end}, and was restored up "
                    f"to {found.next_new}: another cluster, or one that lost messages. To begin again, delete what "
                    f"was restored, and {self._path}"
                )

    async def _find_target(
        self, broker: str, own: frozenset[str], saved: BrokerTables, manifest: Manifest, old: str
    ) -> Target:
        """Return what a broker has of what is restored to it."""
        address = self._addresses[broker]
        tables = await read_tables(self._clients, address, own)
        reader, permits = QueueReader(self._clients.request), asyncio.Semaphore(QUEUES_AT_A_TIME)
        queues = {MessageQueue(key.topic, broker, at) for key, offsets in saved.offsets.items() for at in offsets}
        queues |= {MessageQueue(file.topic, broker, file.queue_id) for file in manifest.queues if file.broker == old}
        states: dict[MessageQueue, QueueState] = {}
        online: set[str] = set()

        async def find_state(queue: MessageQueue) -> None:
            async with permits:
                bounds = await reader.bounds(address, queue.topic, queue.queue_id)
            states[queue] = QueueState(bounds.end, bounds.begin >= bounds.end)

        async def find_clients(group: str) -> None:
            async with permits:
                answer = await self._clients.request(address, GetConsumerConnections(consumer_group=group))
            if answer.code != ResponseCode.CONSUMER_NOT_ONLINE:
                expect(answer, address)
                online.add(group)

        present = {name: queue_count(config) for name, config in tables.topics.items()}
        await asyncio.gather(
            *(
                find_state(queue)
                for queue in queues
                if is_selected(queue.topic, self._options.patterns) and queue.queue_id < present.get(queue.topic, 0)
            ),
            *(find_clients(group) for group in {key.group for key in saved.offsets} & tables.groups.keys()),
        )
        access = await read_access(self._clients, address) if self._options.users else NO_ACCESS
        return Target(tables, states, frozenset(online), access)

    async def _change_tables(self, plan: RestorePlan) -> None:
        filled = {(step.broker, step.file.topic) for step in plan.queues}
        for step in plan.tables:
            if not step.action.is_change:
                continue
            header: object
            value, body = step.value, b""
            if step.kind == "group":
                header, body = UpdateSubscriptionGroup(), encode_group_config(value)
            elif step.kind == "topic":
                present = self._before[step.broker].tables.topics.get(step.name)
                config = topic_to_create(value, present)
                header = create_header(opened(config) if (step.broker, step.name) in filled else config)
            elif step.kind == "user":
                is_new = step.action is Action.CREATE
                header = CreateUser(username=step.name) if is_new else UpdateUser(username=step.name)
                body = encode_user_change(step.name, UserChange(value.password, value.type, value.status))
            else:
                header, body = CreateAcl(subject=step.name), encode_acl(value)
            try:
                await ask(self._clients, self._addresses[step.broker], header, body)
            except RemoteRefused as error:
                raise StoreError(
                    f"{step.broker} takes no {step.kind} {step.name}: {error}. Change the broker and go on with --resume, or "
                    f"delete {self._path} and choose other topics with --topic"
                ) from error

    async def _close_topics(self, steps: Sequence[TableStep]) -> None:
        """Take the permission to write away again from topics that had none, and were opened, now or before --resume."""
        for step in steps:
            if step.kind == "topic" and opened(step.value) != step.value:
                present = self._before[step.broker].tables.topics.get(step.name)
                was_opened = self._is_resumed and present == opened(step.value)
                if step.action.is_change or was_opened:
                    header = create_header(replace(step.value, attributes={}))
                    await ask(self._clients, self._addresses[step.broker], header)

    async def _set_offsets(self, steps: tuple[OffsetStep, ...]) -> int:
        count = 0
        for step in steps:
            place = self._state.queues.get(MessageQueue(step.topic, step.broker, step.queue_id))
            header = UpdateConsumerOffset(
                consumer_group=step.group,
                topic=step.topic,
                queue_id=step.queue_id,
                commit_offset=step.base if place is None else place.find(step.committed),
            )
            try:
                await ask(self._clients, self._addresses[step.broker], header)
                count += 1
            except ClientError as error:
                where = f"queue {step.queue_id} of {step.topic} on {step.broker}"
                self._problems.append(f"the group {step.group} has no offset in {where}: {error}")
        return count
