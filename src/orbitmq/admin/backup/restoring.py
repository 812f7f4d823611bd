"""Restoring a backup: topics and groups, messages queue by queue, the groups' offsets, and a look at the result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Container
from contextlib import AbstractContextManager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from orbitmq.admin.backup.broker_calls import BrokerCalls, Master, masters_of, own_topics
from orbitmq.admin.backup.directory import check_file, locked, read_file, read_manifest
from orbitmq.admin.backup.manifest import FileKind, Manifest, QueueFile, encode_manifest
from orbitmq.admin.backup.offset_map import OffsetMap
from orbitmq.admin.backup.plan import is_closed, make_plan, map_brokers, opened, topic_to_create
from orbitmq.admin.backup.progress import (
    QueueProgress,
    RestoreProgress,
    forget_progress,
    load_progress,
)
from orbitmq.admin.backup.selection import check_patterns, is_saved, is_selected
from orbitmq.admin.backup.sending import QUEUES_AT_A_TIME, Sending, queue_of
from orbitmq.admin.backup.steps import (
    NO_ACCESS,
    Action,
    OffsetStep,
    QueueState,
    QueueStep,
    RestoreOptions,
    RestorePlan,
    Target,
)
from orbitmq.admin.backup.tables import AccessTables, BrokerTables, decode_access, decode_tables
from orbitmq.admin.topics import create_header
from orbitmq.errors import ClientError, ConfigError, HeaderError, RemoteRefused, StoreError
from orbitmq.files import write_aside
from orbitmq.model.group import SYSTEM_GROUPS
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import NAME_LENGTH_MAX
from orbitmq.wire.bodies.access import UserChange, encode_acl, encode_user_change
from orbitmq.wire.bodies.groups import encode_group_config
from orbitmq.wire.headers import (
    CreateAcl,
    CreateUser,
    UpdateConsumerOffset,
    UpdateSubscriptionGroup,
    UpdateUser,
)

_POLL_S = 0.05


class Restored(NamedTuple):
    """One queue after a restore: messages of the backup, those sent, those left out, and whether the queue holds them."""

    broker: str
    topic: str
    queue_id: int
    saved: int
    sent: int
    skipped: int
    end: int | None
    """Where the queue ends now; None where the broker does not say."""
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
        self._problems: list[str] = []

    async def plan(self) -> RestorePlan:
        """Check the files and the cluster; return what a restore would do, and change nothing.

        Raises:
            StoreError: the backup is not whole, or a file is damaged; or a backup or restore of it is under way.
            InvalidArgument: a broker of the backup has no place in the cluster, or a pattern fits none of its topics.
            ClientError: a broker cannot be asked.
        """
        with self._locked():
            return await self._plan()

    def _locked(self) -> AbstractContextManager[None]:
        if not self._directory.is_dir():
            raise StoreError(f"there is no directory {self._directory}")
        return locked(self._directory)

    async def _plan(self) -> RestorePlan:
        started = load_progress(self._path, is_resumed=self._is_resumed)
        manifest, tables, access = await asyncio.to_thread(self._load)
        if started is None:
            check_patterns(self._options.patterns, {topic for found in tables.values() for topic in found.topics})
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
            self._check_names(tables[old], own, self._before[new].tables.topics)
        resumed = {}
        if started is not None:
            resumed = {
                (queue.broker_name, queue.topic, queue.queue_id): QueueState(found.offsets.base, found.was_empty)
                for queue, found in started.queues.items()
            }
        plan = make_plan(manifest, tables, access, brokers, self._before, self._options, resumed)
        queues = {}
        for step in plan.queues:
            queue = queue_of(step)
            fresh = QueueProgress(step.was_empty, OffsetMap(step.base))
            queues[queue] = started.queues.get(queue, fresh) if started is not None else fresh
        if started is not None and queues.keys() != started.queues.keys():
            raise ConfigError("topic", self._options.patterns, "the same choice of messages as in the first call")
        self._check_ends(started)
        self._state = RestoreProgress(identity, brokers, queues)
        return plan

    async def run(self) -> RestoreReport:
        """Restore the backup.

        Raises: as `plan`; further
            StoreError: another restore of this directory is under way; or the target refuses a topic, a group or a user.
        """
        with self._locked():
            return await self._run()

    async def _run(self) -> RestoreReport:
        plan = await self._plan()
        if plan.refusals:
            return RestoreReport(plan, problems=plan.refusals)
        sending = Sending(
            self._calls,
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
        await self._make(plan)
        self._problems += await sending.send_all(plan.queues)
        offset_count = 0
        if not self._problems:
            await self._close_topics(plan)
            offset_count = await self._set_offsets(plan.offsets)
        queues = await self._verify_all(plan.queues, sending.lost)
        self._problems += [
            f"queue {one.queue_id} of {one.topic} on {one.broker}: {one.problem}" for one in queues if one.problem
        ]
        if not self._problems:
            await write_aside(forget_progress, self._path)
        skipped = [
            f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name}: {reason}"
            for queue, found in self._state.queues.items()
            for reason in found.offsets.skipped.values()
        ]
        return RestoreReport(plan, tuple(queues), offset_count, tuple(self._problems), tuple(skipped))

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

    def _check_ends(self, started: RestoreProgress | None) -> None:
        """Refuse a target that does not have what the progress says: another one, or one that lost messages."""
        for queue, found in {} if started is None else started.queues.items():
            state = self._before[queue.broker_name].queues.get((queue.topic, queue.queue_id))
            end = 0 if state is None else state.end
            if found.offsets.count and end < found.offsets.next_new:
                raise StoreError(
                    f"queue {queue.queue_id} of {queue.topic} on {queue.broker_name} ends at {end}, and was restored up to "
                    f"{found.offsets.next_new}: another cluster, or one that lost messages. To begin again, delete what "
                    f"was restored, and {self._path}"
                )

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
                await self._change(group.broker, f"group {group.config.group}", UpdateSubscriptionGroup(), body)
        filled = {(step.broker, step.file.topic) for step in plan.queues}
        for topic in plan.topics:
            if topic.action.is_change:
                present = self._before[topic.broker].tables.topics.get(topic.config.topic)
                config = topic_to_create(topic, present if topic.action is Action.OVERWRITE else None)
                is_filled = (topic.broker, config.topic) in filled
                header = create_header(opened(config) if is_filled else config)
                await self._change(topic.broker, f"topic {config.topic}", header)
        for step in plan.users:
            name, password, kind, status = step.user
            if step.action.is_change:
                user = CreateUser(username=name) if step.action is Action.CREATE else UpdateUser(username=name)
                body = encode_user_change(name, UserChange(password, kind, status))
                await self._change(step.broker, f"user {name!r}", user, body)
        for rules in plan.rules:
            if rules.action.is_change:
                acl = rules.rules
                what = f"rules of {acl.subject!r}"
                await self._change(rules.broker, what, CreateAcl(subject=acl.subject), encode_acl(acl))

    async def _change(self, broker: str, what: str, header: object, body: bytes = b"") -> None:
        try:
            await self._calls.ask(self._addresses[broker], header, body)
        except RemoteRefused as error:
            raise StoreError(
                f"{broker} takes no {what}: {error}. Change the broker and go on with --resume, or "
                f"delete {self._path} and choose other topics with --topic"
            ) from error

    async def _close_topics(self, plan: RestorePlan) -> None:
        """Take the permission to write away again from topics that had none, and were opened, now or before --resume."""
        for step in plan.topics:
            if is_closed(step.config):
                present = self._before[step.broker].tables.topics.get(step.config.topic)
                was_opened = self._is_resumed and present == opened(step.config)
                if step.action.is_change or was_opened:
                    header = create_header(replace(step.config, attributes={}))
                    await self._calls.ask(self._addresses[step.broker], header)

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

    async def _verify_all(self, steps: tuple[QueueStep, ...], lost: Collection[str]) -> list[Restored]:
        permits = asyncio.Semaphore(QUEUES_AT_A_TIME)

        async def verify(step: QueueStep) -> Restored:
            async with permits:
                return await self._verify(step, is_lost=step.broker in lost)

        return list(await asyncio.gather(*map(verify, steps)))

    async def _verify(self, step: QueueStep, *, is_lost: bool) -> Restored:
        """Compare a queue with its file; brokers show messages a moment after they have stored them."""
        file, offsets = step.file, self._state.queues[queue_of(step)].offsets
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._calls.timeout_ms / 1000
        end: int | None = None
        problem = None
        try:
            while not is_lost:
                end = (await self._calls.bounds(self._addresses[step.broker], file.topic, file.queue_id)).end
                if end >= offsets.next_new or loop.time() >= deadline:
                    break
                await asyncio.sleep(_POLL_S)
        except ClientError as error:
            problem = str(error)
        if offsets.count + len(offsets.skipped) != file.count:
            problem = f"{offsets.count} of {file.count} messages are sent"
        elif end is not None and end < offsets.next_new:
            problem = f"the queue ends at {end}, expected {offsets.next_new}"
        return Restored(
            step.broker, file.topic, file.queue_id, file.count, offsets.count, len(offsets.skipped), end, problem
        )
