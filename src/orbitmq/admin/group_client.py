"""Administrative calls about consumer groups, to every master that a group or a topic has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from orbitmq.admin.each_master import ask_about, ask_all, change_each
from orbitmq.admin.groups import Connections, GroupStatus, QueueLag, QueueReset, ResetTo, merged_status
from orbitmq.codes import ResponseCode
from orbitmq.errors import (
    ClientError,
    GroupNotFound,
    InvalidArgument,
    OffsetsNotSet,
    OrbitError,
    RemoteRefused,
    RouteNotFound,
)
from orbitmq.model.group import SYSTEM_GROUPS, MessageModel
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import DLQ_PREFIX, GROUP_LENGTH_MAX, RETRY_PREFIX, check_name
from orbitmq.wire.bodies.groups import (
    GroupConfig,
    decode_consumer_connections,
    decode_group_list,
    decode_group_table,
    encode_group_config,
)
from orbitmq.wire.bodies.offsets import QueueTimeSpan, decode_time_spans
from orbitmq.wire.bodies.topics import QueueProgress, QueueStats, decode_consume_stats, decode_topic_stats
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers.admin import GetBrokerConfig, GetConsumeStats
from orbitmq.wire.headers.groups import (
    DeleteSubscriptionGroup,
    GetAllSubscriptionGroups,
    GetConsumerConnections,
    UpdateSubscriptionGroup,
)
from orbitmq.wire.headers.offsets import (
    OffsetResponse,
    QueryConsumerOffset,
    QueryConsumeTimeSpan,
    ResetGroupOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from orbitmq.wire.headers.topics import GetTopicStats, QueryTopicConsumers

SendRequest = Callable[[str, object, bytes], Awaitable[Command]]
"""Sends a request to an address, and returns the answer of a broker that does not refuse."""
Masters = Callable[[str | None], Awaitable[Mapping[str, str]]]
"""Returns the masters of a cluster, or of all of them: broker name to address."""
TopicMasters = Callable[[str], Awaitable[Mapping[str, str]]]
"""Returns the masters that have queues of a topic."""


class GroupAdmin:
    """Calls about groups.

    Args:
        request: sends a request to a broker.
        masters: tells every master's address.
        topic_masters: tells those of a topic.
    """

    def __init__(self, request: SendRequest, masters: Masters, topic_masters: TopicMasters) -> None:
        self._request = request
        self._masters = masters
        self._topic_masters = topic_masters

    async def names(self, cluster: str | None = None) -> list[str]:
        """Return the names of the groups that users made, sorted."""
        return sorted(await self._all_settings(await self._masters(cluster)))

    async def _all_settings(self, masters: Mapping[str, str]) -> dict[str, dict[str, GroupConfig]]:
        settings: dict[str, dict[str, GroupConfig]] = {}
        for broker, table in (await ask_all(masters, self._table)).items():
            for group, config in table.items():
                if group not in SYSTEM_GROUPS:
                    settings.setdefault(group, {})[broker] = config
        return settings

    async def groups(self, cluster: str | None = None, names: Collection[str] | None = None) -> list[GroupStatus]:
        """Return every group that a user made, or those of some names, sorted by name."""
        masters = await self._masters(cluster)
        settings = await self._all_settings(masters)
        if names is not None:
            settings = {group: settings[group] for group in names if group in settings}

        async def find(group: str) -> GroupStatus:
            return await self._status(group, settings[group], masters)

        return await ask_about(sorted(settings), find)

    async def status(self, group: str) -> GroupStatus:
        """Return one group's settings and clients.

        Raises:
            ClientError: no broker knows it.
        """
        check_name("group", group, GROUP_LENGTH_MAX)
        masters = await self._masters(None)
        tables = await ask_all(masters, self._table)
        settings = {broker: table[group] for broker, table in tables.items() if group in table}
        found = await self._status(group, settings, masters)
        if not settings and not found.clients:
            raise GroupNotFound(f"no broker knows the group {group}")
        return found

    async def _table(self, _broker: str, address: str) -> Mapping[str, GroupConfig]:
        # 201 and not 352: a Java broker makes a group whose settings are asked for.
        return decode_group_table((await self._request(address, GetAllSubscriptionGroups(), b"")).body).groups

    async def _check_has_offsets(self, group: str) -> None:
        if not await self.lag(group):
            raise GroupNotFound(f"no broker knows the group {group}")

    async def _settings(self, address: str, group: str) -> GroupConfig | None:
        return (await self._table("", address)).get(group)

    async def _status(self, group: str, settings: Mapping[str, GroupConfig], masters: Mapping[str, str]) -> GroupStatus:
        async def ask(_broker: str, address: str) -> Connections | None:
            return await self._connections(address, group)

        return merged_status(group, settings, (await ask_all(masters, ask)).values())

    async def _connections(self, address: str, group: str) -> Connections | None:
        try:
            answer = await self._request(address, GetConsumerConnections(consumer_group=group), b"")
        except RemoteRefused as refusal:
            if refusal.code == ResponseCode.CONSUMER_NOT_ONLINE:
                return None
            raise
        return decode_consumer_connections(answer.body, group)

    async def lag(self, group: str, topic: str | None = None) -> dict[MessageQueue, QueueLag]:
        """Return how far a group is in every queue of a topic, or of all that it reads, retries included."""
        check_name("group", group, GROUP_LENGTH_MAX)
        masters = await (self._masters(None) if topic is None else self._topic_masters(topic))

        async def ask(_broker: str, address: str) -> dict[MessageQueue, QueueLag]:
            return await self._broker_lag(address, group, topic)

        answers = (await ask_all(masters, ask)).values()
        return dict(sorted(item for found in answers for item in found.items()))

    async def _broker_lag(self, address: str, group: str, topic: str | None) -> dict[MessageQueue, QueueLag]:
        places = await self._progress(address, group, topic)
        behind = {queue.topic for queue, place in places.items() if place.consumer_offset < place.broker_offset}
        bounds: dict[MessageQueue, QueueStats] = {}
        for name in sorted(behind):
            with suppress(RemoteRefused):  # a broker older than the query, or the topic is deleted
                bounds |= await self._bounds(address, name)
        return {
            queue: QueueLag(
                place.consumer_offset,
                place.broker_offset,
                place.consumed_at_ms,
                bounds[queue].min_offset if queue in bounds else 0,
            )
            for queue, place in places.items()
        }

    async def of_topic(self, topic: str, *, broker: str | None = None) -> list[str]:
        """Return the groups that have offsets in a topic, or subscribe to it, sorted.

        Args:
            broker: only those that the broker of this name knows.
        """

        async def ask(_broker: str, address: str) -> Sequence[str]:
            return decode_group_list((await self._request(address, QueryTopicConsumers(topic=topic), b"")).body)

        masters = {name: at for name, at in (await self._topic_masters(topic)).items() if broker in (None, name)}
        return sorted({group for groups in (await ask_all(masters, ask)).values() for group in groups})

    async def time_spans(self, group: str, topic: str) -> list[QueueTimeSpan]:
        """Return of each queue of a topic from when its messages are, and where a group stands in them."""

        async def ask(_broker: str, address: str) -> Sequence[QueueTimeSpan]:
            header = QueryConsumeTimeSpan(topic=topic, group=group)
            return decode_time_spans((await self._request(address, header, b"")).body)

        answers = await ask_all(await self._topic_masters(topic), ask)
        return sorted(span for spans in answers.values() for span in spans)

    async def has_committed(self, group: str, queue: MessageQueue) -> bool:
        """Return True if a group has an offset in a queue: a group's lag shows 0 where it has none."""
        check_name("group", group, GROUP_LENGTH_MAX)
        masters = await self._topic_masters(queue.topic)
        if queue.broker_name not in masters:
            raise ClientError(
                f"the broker {queue.broker_name} has no master with queues of the topic {queue.topic} now"
            )
        return await self._has_committed(masters[queue.broker_name], group, queue)

    async def _progress(self, address: str, group: str, topic: str | None) -> dict[MessageQueue, QueueProgress]:
        header = GetConsumeStats(consumer_group=group, topic=topic or "")
        return decode_consume_stats((await self._request(address, header, b"")).body)

    async def _bounds(self, address: str, topic: str) -> dict[MessageQueue, QueueStats]:
        return decode_topic_stats((await self._request(address, GetTopicStats(topic=topic), b"")).body)

    async def reset(
        self,
        group: str,
        topic: str,
        to: ResetTo,
        *,
        broker: str | None = None,
        queue_id: int | None = None,
        dry_run: bool = False,
    ) -> list[QueueReset]:
        """Set where a group goes on in a topic, queue by queue.

        Args:
            broker: only queues of the broker of this name.
            queue_id: only queues of this number.
            dry_run: change nothing, only return what would be changed.

        Raises:
            ClientError: clients of the group are online and cannot be told, or no queue is meant; nothing is changed.
            OffsetsNotSet: some queues could not be set, all others are.
        """
        check_name("group", group, GROUP_LENGTH_MAX)
        masters = {name: at for name, at in (await self._topic_masters(topic)).items() if broker in (None, name)}
        if not masters:
            where = "" if broker is None else f" of the name {broker}"
            raise ClientError(f"no broker{where} with queues of the topic {topic} has a master now")
        plans = {address: await self._plan(address, group, topic, to, queue_id) for address in masters.values()}
        changes = sorted(change for plan in plans.values() for change in plan)
        if not changes:
            raise ClientError(f"the topic {topic} has no such queue")
        ways = {address: await self._way(name, address, group) for name, address in masters.items()}
        if not dry_run:
            await self._set_all(group, changes, masters, {name: ways[address] for name, address in masters.items()})
        return changes

    async def _plan(self, address: str, group: str, topic: str, to: ResetTo, queue_id: int | None) -> list[QueueReset]:
        bounds = await self._bounds(address, topic)
        places = await self._progress(address, group, topic)
        return [
            QueueReset(
                queue,
                places[queue].consumer_offset if queue in places else 0,
                await self._wanted(address, queue, to, stats),
            )
            for queue, stats in sorted(bounds.items())
            if queue_id in (None, queue.queue_id)
        ]

    async def _wanted(self, address: str, queue: MessageQueue, to: ResetTo, bounds: QueueStats) -> int:
        found = None
        if to.needs_search:
            header = SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp_ms=to.number)
            found = decode_header(OffsetResponse, (await self._request(address, header, b"")).ext_fields).offset
        return to.offset_in(bounds, found)

    async def _way(self, broker: str, address: str, group: str) -> bool:
        """Return True if a broker tells readers of new offsets itself; False: no consumer reads, offsets can be committed.

        Raises:
            ClientError: a consumer reads, and would go on where it is.
        """
        connected = await self._connections(address, group)
        if connected is not None and connected[1].message_model is MessageModel.BROADCASTING:
            raise ClientError(f"the group {group} is broadcasting: each of its clients keeps offsets of its own")
        properties = (await self._request(address, GetBrokerConfig(), b"")).body.decode(errors="replace")
        if "useServerSideResetOffset=true" in properties.split():
            return True
        if connected is not None:
            raise ClientError(
                f"{len(connected[0])} clients of the group {group} are online, and the broker {broker} cannot tell them "
                "(useServerSideResetOffset is off, or it is older than 5.1): stop them first"
            )
        return False

    async def _set_all(
        self, group: str, changes: Sequence[QueueReset], masters: Mapping[str, str], ways: Mapping[str, bool]
    ) -> None:
        """Set every queue's offset, whatever becomes of the others.

        Raises:
            OffsetsNotSet: with those that were set; where there are none, the first one's error.
        """
        done: list[QueueReset] = []
        failures: list[tuple[MessageQueue, OrbitError]] = []
        for change in changes:
            name = change.queue.broker_name
            try:
                await self._set(masters[name], group, change.queue, change.after, is_told=ways[name])
                done.append(change)
            except OrbitError as error:
                failures.append((change.queue, error))
        if failures and not done:
            raise failures[0][1]
        if failures:
            are_set = f"{len(done)} of {len(changes)} queues are set"
            others = "; ".join(
                f"queue {at.queue_id} of {at.topic} on {at.broker_name}: {error}" for at, error in failures
            )
            raise OffsetsNotSet(f"group {group}: {are_set}; not set: {others}", done)

    async def _set(self, address: str, group: str, queue: MessageQueue, offset: int, *, is_told: bool) -> None:
        header: object
        if is_told:
            header = ResetGroupOffset(
                group=group, topic=queue.topic, timestamp_ms=0, is_force=True, queue_id=queue.queue_id, offset=offset
            )
        else:
            header = UpdateConsumerOffset(
                consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
            )
        await self._request(address, header, b"")

    async def clone(
        self, source: str, target: str, topic: str | None = None, *, dry_run: bool = False
    ) -> list[QueueReset]:
        """Let a group go on where another one is, in a topic or in all that the other one reads; make it if it is not there.

        Queues in which the other one has no offset are left out: there the group begins as a new one does.

        Args:
            dry_run: make and change nothing, only return what would be changed.

        Raises:
            ClientError: the other group has no offsets, a broker has no master, or the one has clients online.
            OffsetsNotSet: some queues could not be set, all others are.
        """
        check_name("target", target, GROUP_LENGTH_MAX)
        places = {
            queue: found for queue, found in (await self.lag(source, topic)).items() if _is_own(queue.topic, source)
        }
        masters = await self._masters(None)
        for name in sorted({queue.broker_name for queue in places} - masters.keys()):
            raise ClientError(f"the broker {name} has queues that the group {source} reads, and has no master now")
        places = {
            queue: place
            for queue, place in places.items()
            if place.committed or await self._has_committed(masters[queue.broker_name], source, queue)
        }
        if not places:
            raise ClientError(f"the group {source} has no offsets{'' if topic is None else f' in the topic {topic}'}")
        brokers = sorted({queue.broker_name for queue in places})
        ways = {}
        for name in brokers:
            if not dry_run:
                await self._make_like(masters[name], source, target)
            if await self._connections(masters[name], target) is not None:
                raise ClientError(f"the group {target} has clients online: stop them first")
            ways[name] = await self._way(name, masters[name], target)
        before = await self.lag(target, topic)
        changes = [
            QueueReset(queue, before[queue].committed if queue in before else 0, place.committed)
            for queue, place in places.items()
        ]
        if not dry_run:
            await self._set_all(target, changes, masters, ways)
        return changes

    async def _has_committed(self, address: str, group: str, queue: MessageQueue) -> bool:
        """Return True if a group has an offset in a queue: a group's lag shows 0 where it has none."""
        header = QueryConsumerOffset(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False
        )
        try:
            await self._request(address, header, b"")
        except RemoteRefused as refusal:
            if refusal.code == ResponseCode.QUERY_NOT_FOUND:
                return False
            raise
        return True

    async def _make_like(self, address: str, source: str, target: str) -> None:
        if await self._settings(address, target) is None:
            like = await self._settings(address, source) or GroupConfig(group=source)
            await self._request(address, UpdateSubscriptionGroup(), encode_group_config(replace(like, group=target)))

    async def create(
        self, config: GroupConfig, *, cluster: str | None = None, broker: str | None = None
    ) -> Mapping[str, str]:
        """Create a group, or change its settings, on every master, on one cluster's, or on one broker name's.

        Returns:
            Broker name to the address that took the change.
        """
        check_name("group", config.group, GROUP_LENGTH_MAX)
        masters = {name: at for name, at in (await self._masters(cluster)).items() if broker in (None, name)}
        if not masters:
            raise InvalidArgument("broker", broker, "the name of a master")
        body = encode_group_config(config)
        await change_each(masters, lambda _name, address: self._request(address, UpdateSubscriptionGroup(), body))
        return masters

    async def delete(self, group: str, *, cluster: str | None = None) -> Mapping[str, str]:
        """Delete a group's settings and offsets from every master.

        Raises:
            GroupNotFound: no broker has settings or offsets of it.
            ClientError: clients of it are online, and would make it again.
        """
        check_name("group", group, GROUP_LENGTH_MAX)
        masters = await self._masters(cluster)
        if not any(group in table for table in (await ask_all(masters, self._table)).values()):
            await self._check_has_offsets(group)

        async def check(name: str, address: str) -> None:
            connected = await self._connections(address, group)
            if connected is not None:
                raise ClientError(
                    f"{len(connected[0])} clients of the group {group} are online at {name}: stop them first"
                )

        await ask_all(masters, check)
        header = DeleteSubscriptionGroup(group_name=group, clean_offset=True)
        await change_each(masters, lambda _name, address: self._request(address, header, b""))
        return masters


def topics_of_group(group: str) -> Iterable[str]:
    """Return the topics that brokers make for a group: its retries, and its dead letters."""
    return RETRY_PREFIX + group, DLQ_PREFIX + group


def _is_own(topic: str, group: str) -> bool:
    """Return True if a topic is one that users send to, not the group's retries."""
    return topic not in topics_of_group(group)


async def delete_topics(delete: Callable[[str], Awaitable[Any]], group: str) -> list[str]:
    """Delete a group's topics; return those that were there."""
    deleted = []
    for topic in topics_of_group(group):
        try:
            await delete(topic)
            deleted.append(topic)
        except RouteNotFound:
            pass
    return deleted
